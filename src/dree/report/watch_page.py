"""One page about a solver that keeps learning: in plain words, as curves over the days, and as a table of versions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import numpy as np

from dree.evaluation.first_month import MONTH, MonthDrift, date_of, month_drift
from dree.problems.geography import Frame
from dree.report.page import Heading, Picture, Row, Section, Table, Text, write_page
from dree.report.tables import NOTHING, write_value
from dree.report.watch_figures import drift_curve, quality_curves, sizes_curve
from dree.service.records import Day, Gaps, Version
from dree.service.state import State

LITTLE = 0.05  # a drift by less than this share is called small


def watch_drift(state: State, progress: Callable[[float], object] = lambda _: None) -> MonthDrift | None:
    """The drift of a state's days, in kilometres or in the unit of x and y; None where they are too few."""
    days = days_in_order(state)
    if not days:
        return None
    frame = Frame.around(np.concatenate([day.places for day in days]), state.settings.geographic)
    places = [frame.to_unit(day.places) * frame.extent for day in days]
    return month_drift(places, [day.name for day in days], progress)


def days_in_order(state: State) -> tuple[Day, ...]:
    """The days that count by date or, where one has none, as they came."""
    dates = {day.name: date_of(day.name) for day in state.seen}
    if any(date is None for date in dates.values()):
        return state.seen
    return tuple(sorted(state.seen, key=lambda day: day.name))


def write_watch_page(path: Path, state: State, drift: MonthDrift | None, without: str = "") -> Path:
    """Write the page; `without` says why it has no drift, if that is not that there are too few days."""
    sentences = [*summary(state), *drift_words(drift, without)]
    sections: list[Section] = [Text("\n\n".join(sentences))]
    days = days_in_order(state)
    if days:
        caption = "How many stops each day had."
        sections += [Heading("Size of the days"), Picture.of(sizes_curve(days), caption, "Stops of each day")]
    if drift is not None:
        sections += [Heading("Drift of the days"), _drift_picture(state, drift)]
    if any(version.today for version in state.versions):
        caption = (
            "How much longer routes are than a reference's, smaller is better: on each day before and after it was "
            "learned, and on a sample of past days afterwards, in the order in which the days were learned. A cross is "
            "a version that was refused."
        )
        alt = "Gaps on the day itself and on past days, version by version"
        sections += [Heading("Quality"), Picture.of(quality_curves(state), caption, alt)]
    sections += [Heading("Versions"), versions_table(state)]
    return write_page(path, f"Days and solver of {state.path.resolve().name}", "", sections, _facts(state))


def summary(state: State) -> list[str]:
    """What there is to say, for a person who has never heard of a gap."""
    learned = [day.name for day in days_in_order(state) if day.version is not None]
    if not learned:
        return ["The solver has not learned any day yet.", *_gone_back(state)]
    days = f"one day, {learned[0]}" if len(learned) == 1 else f"{len(learned)} days, {learned[0]} to {learned[-1]}"
    sentences = [f"The solver has learned {days}."]
    now = past_gap(state)
    if now is not None:
        sentences.append(f"On past days its routes are {now:z.1f} % longer than the reference{_earlier(state)}.")
    counted = _counted(state)
    refused = [version.number for version in counted if not version.promoted]
    use = f"Version {state.in_use} is in use."
    if refused:
        which = f"versions {', '.join(map(str, refused))} were" if len(refused) > 1 else f"version {refused[0]} was"
        use += f" Of {len(counted) - 1} that were learned, {which} refused."
    return [*sentences, use, *_gone_back(state)]


def _counted(state: State) -> list[Version]:
    """The versions that the newest comes of: all but those that somebody went back from."""
    lineage = state.lineage(state.learner.version)
    return [version for version in state.versions if version.number in lineage]


def _gone_back(state: State) -> list[str]:
    """The last time that somebody went back to a version, and the days that do not count since."""
    if not state.rollbacks:
        return []
    last = state.rollbacks[-1]
    words = f"On {last.when[:10]} somebody went back from version {last.left} to version {last.to}."
    undone = sorted({day.name for day in state.days} - {day.name for day in state.seen})
    if undone:
        words += f" Undone, and not learned again since: {', '.join(undone)}."
    return [words]


def past_gap(state: State) -> float | None:
    """The mean gap on past days of the version in use; None where it was not measured."""
    known = [dict(past.gaps)[state.in_use] for past in state.reservoir if state.in_use in dict(past.gaps)]
    if known:
        return float(np.mean(known))
    past = state.versions[state.in_use].past
    return None if past is None else past.after


def drift_words(drift: MonthDrift | None, without: str) -> list[str]:
    """What there is to say of the drift."""
    if drift is None:
        return [without] if without else []
    growth = drift.growth()
    if growth is None:
        return ["Whether the days drift can be said after the first month."]
    if growth < LITTLE:
        return ["The last days differ from the first month hardly more than its days from one another: no drift."]
    return [f"The last days differ from the first month {100 * growth:.0f} % more than its days from one another."]


def versions_table(state: State) -> Table:
    """A row for each version, the newest first."""
    counted = state.lineage(state.learner.version)
    rows = tuple(_row(each, state.in_use, each.number in counted) for each in reversed(state.versions))
    columns = ("stops", "that day, before", "after", "past days, before", "after")
    note = "By how many per cent routes are longer than a reference's, before and after the day was learned."
    return Table("Versions of the solver", "version", columns, rows, note)


def _row(version: Version, in_use: int, counts: bool) -> Row:
    mark = "" if version.promoted else " (refused)"
    mark = " (undone)" if not counts else " (in use)" if version.number == in_use else mark
    day = "the start" if version.day is None else version.day
    stops = str(version.stops) if version.day is not None else NOTHING
    cells = (stops, *_gaps(version.today), *_gaps(version.past))
    return Row(f"{version.number}{mark}", cells, f"{day}: {version.reason}" if version.reason else day)


def _gaps(gaps: Gaps | None) -> tuple[str, str]:
    return (NOTHING, NOTHING) if gaps is None else (write_value(gaps.before), write_value(gaps.after))


def _earlier(state: State) -> str:
    """What the gap on past days was a month of days ago: `; a month ago 1.4 %`."""
    days = {version.number: date_of(version.day) for version in _counted(state) if version.day is not None}
    last = max((day for day in days.values() if day is not None), default=None)
    if last is None:
        return ""
    old = [
        version
        for version in _counted(state)
        if version.promoted and version.past and (day := days.get(version.number)) and day <= last - timedelta(MONTH)
    ]
    if not old or old[-1].past is None:
        return ""
    return f"; a month ago {old[-1].past.after:z.1f} %"


def _facts(state: State) -> dict[str, str]:
    learned = [day for day in state.seen if day.version is not None]
    facts = {"days learned": str(len(learned)), "version in use": str(state.in_use)}
    if learned:
        facts["newest day"] = max(day.name for day in learned)
    return facts | {"method": state.settings.method, "started from": state.settings.start or NOTHING}


def _drift_picture(state: State, drift: MonthDrift) -> Picture:
    geographic, days = state.settings.geographic, days_in_order(state)
    unit = "kilometres" if geographic else "the unit of x and y"
    caption = (
        f"How differently the stops of each day lie from those of the first month, {drift.stops} stops of each day: "
        f"the Gromov-Wasserstein distance in {unit}, a mean over days of the first month. The band is how much these "
        "differ from one another, by chance and from day to day; days above it have drifted."
    )
    missing = [day.name for number, day in enumerate(days) if number not in drift.days]
    if missing:
        caption += f" Days with fewer stops than that are left out: {', '.join(missing)}."
    figure = drift_curve(days, geographic, drift)
    return Picture.of(figure, caption, "Distance of each day to the first month, above a band")
