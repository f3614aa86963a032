"""A plan for a person at a terminal: its routes, their total, and what each solver did for it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from dree.report.tables import write_seconds
from dree.routing import Plan, Share

MOST_NAMES = 24  # of a route that are listed
LONG = 1e6  # lengths in whole units from here on
ENDS = (8, 4)  # of a longer one: how many from its begin, how many from its end


def plan_table(plan: Plan) -> Table:
    """A row for each route: its number, its stops, its load, its length, and the names in the order of visits."""
    table = Table(title=Text(f"{plan.orders.day}: {write_length(plan.length, plan.unit)}"), header_style="bold")
    for name in ("route", "stops", *(["load"] if plan.loads else []), plan.unit or "length"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("in this order", overflow="fold")
    for number, (route, length) in enumerate(zip(plan.routes, plan.lengths, strict=True), start=1):
        load = [] if plan.loads is None else [load_of(plan, number)]
        names = Text(order_of([plan.orders.names[stop] for stop in route]))
        table.add_row(str(number), str(len(route)), *load, write_length(length, plan.unit, bare=True), names)
    if len(plan.routes) > 1:
        load = [] if plan.loads is None else [write_number(sum(plan.loads))]
        table.add_section()
        table.add_row("all", str(len(plan.orders.places)), *load, write_length(plan.length, plan.unit, bare=True), "")
    return table


def order_of(names: Sequence[str]) -> str:
    """Names in their order; of very many the first and the last."""
    if len(names) > MOST_NAMES:
        first, last = ENDS
        between = f"… {len(names) - first - last} more (--csv has all) …"
        names = [*names[:first], between, *names[-last:]]
    return "  ".join(names)


def load_of(plan: Plan, number: int) -> str:
    """What a route, counted from 1, carries of what it could: `4 of 12.5`; for plans with loads."""
    assert plan.loads is not None
    assert plan.capacity is not None
    return f"{write_number(plan.loads[number - 1])} of {write_number(plan.capacity)}"


def write_number(number: float) -> str:
    """An amount or a coordinate as a person writes it: all its digits, and no power of ten."""
    return f"{number:.12g}"


def write_length(length: float, unit: str, bare: bool = False) -> str:
    """Kilometres to ten metres, metres below one: `84.21 km`, `0.734 km`; in another unit six digits or more."""
    if unit != "km":
        return f"{length:.6g}" if length < LONG else f"{length:.0f}"
    digits = f"{length:.3f}" if length < 1 else f"{length:.2f}" if length < 100 else f"{length:.1f}"
    return digits if bare else f"{digits} {unit}"


def contribution(before: Share | None, share: Share, unit: str) -> str:
    """What a solver did, in a sentence: `Improved to 81.9 km (-2.7 %) in 5.0 s by pyvrp 0.14.1.`."""
    length = write_length(share.length, unit)
    by = f"in {_seconds(share.seconds)} by {share.by}{', stopped early by Ctrl-C' if share.stopped else ''}."
    if before is None:
        return f"Routes of {length} {by}"
    if share.note:
        return f"Not improved {by} {share.note}"
    change = 100 * (share.length / before.length - 1) if before.length else 0.0
    if change > -0.05:
        return f"Hardly improved, to {length}, {by}"
    return f"Improved to {length} ({change:+.1f} %) {by}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else write_seconds(seconds)
