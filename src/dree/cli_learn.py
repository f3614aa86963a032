"""The command line of a solver that keeps learning: `dree learn` and `dree history`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dree.errors import DreeError
from dree.terminal import bar_or_lines, console, fail, say

if TYPE_CHECKING:
    from rich.table import Table

    from dree.service.records import Version
    from dree.service.state import State

StateArgument = Annotated[Path, typer.Argument(metavar="STATE_DIR", help="The folder of the solver that learns.")]


def learn(
    state_dir: Annotated[
        Path, typer.Argument(metavar="STATE_DIR", help="The folder of the solver that learns; made by the first day.")
    ],
    files: Annotated[list[Path], typer.Argument(help="CSV files of orders, of one day or several each.")],
    minutes: Annotated[float, typer.Option(help="How long each day is learned, tests included.")] = 5.0,
    batches: Annotated[
        int | None, typer.Option(help="So many batches a day, whatever time they take: repeats to the bit.")
    ] = None,
    margin: Annotated[
        float, typer.Option(help="A new version is put to use if it is worse by no more percentage points than this.")
    ] = 0.3,
    columns: Annotated[str | None, typer.Option("--map", help="What columns are, such as date=ds,lat=lat.")] = None,
    depot: Annotated[str | None, typer.Option(help="Latitude and longitude (or x and y), such as 48.14,11.58.")] = None,
    capacity: Annotated[str | None, typer.Option(help="Of a vehicle, in the unit of the demands.")] = None,
    start: Annotated[
        Path | None, typer.Option(help="A run to start from (default: the solver that comes with dree).")
    ] = None,
    method: Annotated[str | None, typer.Option(help="dree (default), fine-tuning, llr-bc or li.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Learn from days of orders; ends with how good the solver is on them and, still, on past days."""
    from dree.data.orders_options import parse_capacity, parse_columns, parse_depot
    from dree.experiments.configuration import torch_device
    from dree.service.budget import Budget
    from dree.service.days import Given, RefusedError
    from dree.service.learning import Learning, learn_files
    from dree.service.starting import Wanted
    from dree.service.state import State

    given = Given(
        None if columns is None else parse_columns(columns),
        None if depot is None else parse_depot(depot),
        None if capacity is None else parse_capacity(capacity),
    )
    how = Learning(Budget(minutes, batches), margin, torch_device(device), say, bar_or_lines)
    learned: list[Version] = []

    def tell(state: State) -> None:
        if state.days[-1].version is not None:
            learned.append(state.versions[-1])
            _report(state)

    try:
        state = learn_files(state_dir, files, given, Wanted(start, method), how, tell)
    except KeyboardInterrupt:
        count = "1 day is" if len(learned) == 1 else f"{len(learned)} days are"
        days = f"; {count} learned, the last of them {learned[-1].day}" if learned else " before a day was learned"
        fail(f"Stopped{days}. Nothing is lost: go on with the same command.", code=130)
    except RefusedError:
        if learned:
            _close(State.open(state_dir), learned)
        raise
    _close(state, learned)


def history(
    state_dir: StateArgument,
    rollback: Annotated[int | None, typer.Option(help="Put this version to use again, and learn on from it.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the history to this JSON file.")] = None,
) -> None:
    """List the versions of a solver that learns, or go back to one of them."""
    from dree.files import write_json
    from dree.service.outputs import check_output
    from dree.service.rollback import roll_back
    from dree.service.state import State

    if json_file:
        check_output(state_dir, json_file)
    if rollback is not None:
        roll_back(state_dir, rollback, say)
        say(f"Version {rollback} is in use again, and the next day is learned from there.")
    state = State.open(state_dir)
    console.print(_table(state))
    for line in _notes(state):
        say(line)
    if json_file:
        say(f"JSON: {write_json(json_file, _plain(state))}")
    damaged, spare = state.damaged(), state.spare()
    for file, words in damaged.items():
        if file in spare:
            say(f"{words} Nobody can go back to version {spare[file]} without it; all else goes on.")
    if needed := [words for file, words in damaged.items() if file not in spare]:
        raise DreeError("\n".join([*needed, f"Restore these from a backup of {state_dir}."]))


def _close(state: State, learned: list[Version]) -> None:
    """The last words: what was forgotten, or that there was nothing to learn."""
    if not learned:
        say(f"There was nothing new to learn. Version {state.in_use} is in use.")
        return
    for line in _forgotten(state):
        say(line)


def _report(state: State) -> None:
    """How a day went, for a person who has never heard of a gap."""
    version = state.versions[-1]
    assert version.today is not None
    say(f"{version.day}: {version.stops} stops, learned in {version.seconds:.0f} s (batches: {version.batches}).")
    say(f"  Routes of this day are longer than a reference's by {_change(*version.today)}.")
    if version.past:
        count = len(state.reservoir) - (state.reservoir[-1].version == version.number)
        say(f"  Routes of past days (a sample of {count}), by {_change(*version.past)}.")
    if version.promoted:
        say(f"  Version {version.number} is in use now: {version.reason}.")
    else:
        say(f"  Version {state.in_use} stays in use, not the new version {version.number}: {version.reason}.")


def _change(before: float, after: float) -> str:
    return f"{before:z.2f} % before and {after:z.2f} % now"


def _table(state: State) -> Table:
    """A row for each version."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(title="Versions", title_justify="left", header_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("version", justify="right", no_wrap=True)
    table.add_column("day", min_width=len("2026-01-31"), overflow="fold")
    for name in ("stops", "this day", "past days"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    table.add_column("when", no_wrap=True)
    counted = state.lineage(state.learner.version)
    for each in state.versions:
        words = ["undone"] if each.number not in counted else [] if each.promoted else ["not used"]
        words += ["in use"] if each.number == state.in_use else [] if each.solver else ["no longer kept"]
        gaps = [f"{gaps.before:z.2f} → {gaps.after:z.2f}" if gaps else "" for gaps in (each.today, each.past)]
        cells = [str(each.number), each.day or "start", str(each.stops or ""), *gaps, ", ".join(words)]
        table.add_row(*map(Text, cells), each.when[:10], style="bold" if each.number == state.in_use else None)
    return table


def _notes(state: State) -> list[str]:
    """What the table means, what was rolled back, and how much was forgotten."""
    lines = ["How much longer routes are than a reference's, before → after that day, in per cent; smaller is better."]
    for each in state.rollbacks:
        when = each.when[:16].replace("T", " ")
        lines.append(f"{when} UTC: back from version {each.left} to version {each.to}.")
    return [*lines, *_forgotten(state)]


def _forgotten(state: State) -> list[str]:
    """How much was forgotten, in plain words and in the paper's."""
    from dree.service.gate import forgetting

    lost = forgetting([gap for _, gap in past.gaps] for past in state.reservoir)
    if lost is None:
        return []
    count = len(state.reservoir)
    days = "1 day that is" if count == 1 else f"{count} days that are"
    return [
        f"On {days} kept to see forgetting, routes of version {state.in_use} are "
        f"{lost.AP:z.2f} % longer than the reference's (AP). That is {lost.AFB:z.2f} points more than with the best "
        f"version for each day (AFB: what was forgotten); at worst it was {lost.AMFB:z.2f} more (AMFB)."
    ]


def _plain(state: State) -> dict[str, Any]:
    """The history for software."""
    from dataclasses import asdict

    from dree.service.gate import forgetting

    lost = forgetting([gap for _, gap in past.gaps] for past in state.reservoir)
    versions, counted = [], state.lineage(state.learner.version)
    for each in state.versions:
        plain = asdict(each) | {"kept": each.solver is not None, "undone": each.number not in counted}
        plain |= {name: gaps and gaps._asdict() for name, gaps in (("today", each.today), ("past", each.past))}
        del plain["solver"]
        versions.append(plain)
    return {
        "in_use": state.in_use,
        "versions": versions,
        "rollbacks": [asdict(each) for each in state.rollbacks],
        "forgetting": lost.as_dict() if lost else None,
    }
