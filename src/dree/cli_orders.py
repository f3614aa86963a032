"""The command line of files of orders: `dree orders --help`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dree.terminal import console, say

if TYPE_CHECKING:
    from rich.table import Table

    from dree.data.orders import BadRow, OrderFile
    from dree.tasks.orders import Orders

PREVIEW = 5  # stops
FEW = 20  # bad rows or days that are all shown
LINES = 5  # named for a reason
WIDTH = 100  # letters of a bad row

orders = typer.Typer(help="Files of orders.", no_args_is_help=True)


@orders.callback()
def _orders() -> None:
    """Files of orders."""


@orders.command()
def check(
    file: Annotated[Path, typer.Argument(help="A CSV file of orders: see docs/formats.md.")],
    columns: Annotated[
        str, typer.Option("--map", help="Which columns mean what, such as date=ds,lat=lat,lon=lng,demand=kg,id=nr.")
    ] = "",
    depot: Annotated[str | None, typer.Option(help="Where vehicles start: LAT,LON, or X,Y.")] = None,
    capacity: Annotated[str | None, typer.Option(help="Of a vehicle, in the unit of the demands.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show every bad row and every day.")] = False,
) -> None:
    """Show what is understood of a file of orders: columns, first stops, days, every bad row. Nothing is written.

    The exit code is 0 where there is something to route, 1 where not, 2 where the file cannot be read.
    """
    from dree.data.orders import WholeFileError, read_orders
    from dree.data.orders_options import parse_capacity, parse_columns, parse_depot

    try:
        read = read_orders(
            file,
            parse_columns(columns),
            depot=None if depot is None else parse_depot(depot),
            capacity=None if capacity is None else parse_capacity(capacity),
        )
    except WholeFileError as error:
        _show(error.read, everything, whole=False)
        raise
    _show(read, everything)
    stops = sum(len(day.places) for day in read.days)
    if not stops:
        say(f"{'The file has headings and no rows. ' * read.headings_alone}There is nothing to route.")
        raise typer.Exit(1)
    say(f"Stops to route: {stops}, days: {len(read.days)}.")


def _show(read: OrderFile, everything: bool, whole: bool = True) -> None:
    """All that was understood of a file, and what was not; of one that could not be read as a whole, what is known."""
    console.print(_understood(read))
    for note in read.notes:
        say(f"Note: {note}")
    if read.days:
        console.print(_preview(read.days))
        console.print(_days(read.days if everything else read.days[:FEW]))
        if len(read.days) > FEW and not everything:
            say(f"... and {len(read.days) - FEW} more days, to {read.days[-1].day}. All of them: --all")
    if read.bad or (whole and not read.headings_alone):
        _say_bad(read.bad, everything)


def _understood(read: OrderFile) -> Table:
    """How the file was read, a line for each thing."""
    from rich.table import Table

    from dree.data.orders_dates import day_of_file
    from dree.data.orders_numbers import MARKS
    from dree.data.orders_table import DELIMITERS

    place = ("lat", "lon") if "lat" in read.columns else ("x", "y")
    kind = "latitude and longitude" if "lat" in read.columns else "x and y"
    lines = {
        "text": f"{read.encoding}, delimiter {DELIMITERS.get(read.delimiter, read.delimiter)}, "
        f"decimal {MARKS.get(read.decimal, 'mark not clear')}",
        "place": f"{kind}: columns {', '.join(read.columns[meaning] for meaning in place)}{_around(read.days)}",
    }
    if read.rows:  # columns without anything in them are passed over
        lines |= {
            "date": _column(read, "date") or f"none; the file's name: {day_of_file(read.path)}",
            "demand": _column(read, "demand") or "none",
            "id": _column(read, "id") or "none",
            "name": _column(read, "name") or "none",
            "depot": read.depot,
            "routes": _routes(read.days),
        }
    table = Table(title=_plain(f"{read.path.name}: what was understood"), title_justify="left", show_header=False)
    for name, words in lines.items():
        table.add_row(name, _plain(words))
    return table


def _around(days: Sequence[Orders]) -> str:
    """Roughly where the first day's stops are, so that swapped columns are seen."""
    from dree.problems.geography import middle

    if not days or not days[0].geographic:
        return ""
    lng, lat = middle(days[0].places)
    return f"; around {abs(lat):.2f} {'N' if lat >= 0 else 'S'}, {abs(lng):.2f} {'E' if lng >= 0 else 'W'}"


def _routes(days: Sequence[Orders]) -> str:
    if not days:
        return "none"
    day = days[0]
    if day.capacity is None:
        return "one tour a day over all stops" + (", from the depot" if day.depot is not None else "")
    return f"vehicles of capacity {day.capacity / day.units:.12g}, from the depot"


def _column(read: OrderFile, meaning: str) -> str:
    return f"column {read.columns[meaning]}" if meaning in read.columns else ""


def _preview(days: Sequence[Orders]) -> Table:
    """The first stops."""
    from rich.table import Table

    day = days[0]
    table = Table(title=_plain(f"The first stops of {day.day}"), title_justify="left")
    axes = ("latitude", "longitude") if day.geographic else ("x", "y")
    for name in ("stop", *axes, *(() if day.demands is None else ("demand",))):
        table.add_column(name, justify="left" if name == "stop" else "right")
    nodes = [] if day.depot is None else [("depot", day.depot, "")]
    for index, name in enumerate(day.names[:PREVIEW]):
        demand = "" if day.demands is None else f"{day.demands[index] / day.units:.12g}"
        nodes.append((name, tuple(day.places[index].tolist()), demand))
    for name, place, demand in nodes:
        pair = [f"{number:.10g}" for number in (reversed(place) if day.geographic else place)]
        table.add_row(_plain(name), *pair, *(() if day.demands is None else (demand,)))
    return table


def _days(days: Sequence[Orders]) -> Table:
    """A row for each day."""
    from math import ceil

    from rich.table import Table

    table = Table(title="Days", title_justify="left")
    loads = days[0].capacity is not None
    unit = "km" if days[0].geographic else "units"
    for name in ("day", "stops", f"extent, {unit}", *(("demand", "vehicles, at least") if loads else ())):
        table.add_column(name, justify="left" if name == "day" else "right")
    for day in days:
        extent = day.frame().extent if (day.nodes != day.nodes[0]).any() else 0.0
        load: tuple[str, ...] = ()
        if day.demands is not None and day.capacity is not None:
            total = sum(day.demands.tolist())
            load = (f"{total / day.units:.12g}", str(ceil(total / day.capacity)))
        table.add_row(_plain(day.day), str(len(day.places)), f"{extent:.4g}", *load)
    return table


def _say_bad(bad: Sequence[BadRow], everything: bool) -> None:
    """Every bad row, or the numbers for each reason where there are many."""
    if not bad:
        say("No bad rows.")
        return
    say(f"Bad rows, which are left out: {len(bad)}")
    if everything or len(bad) <= FEW:
        for row in bad:
            say(f"  line {row.line}: {row.reason}: {_shortened(row.text)}")
        return
    by_reason: dict[str, list[BadRow]] = defaultdict(list)
    for row in bad:
        by_reason[row.reason].append(row)
    for reason, rows in sorted(by_reason.items(), key=lambda item: -len(item[1])):
        lines = ", ".join(str(row.line) for row in rows[:LINES]) + (", ..." if len(rows) > LINES else "")
        say(f"  {len(rows)}: {reason} (lines {lines}), such as: {_shortened(rows[0].text)}")
    say("  each of them: --all")


def _shortened(text: str) -> str:
    """What is there of a row, on one line of a terminal."""
    line = "".join(letter if letter.isprintable() else " " for letter in text)
    return line if len(line) <= WIDTH else f"{line[:WIDTH]}..."


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(_shortened(text))
