"""The command line of today's routes: `dree solve --help`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from dree.errors import DreeError
from dree.terminal import console, say

if TYPE_CHECKING:
    from dree.data.orders import BadRow, OrderFile
    from dree.routing import Plan, Share
    from dree.service.records import Settings
    from dree.service.state import State
    from dree.solvers import Solver
    from dree.tasks.orders import Orders


class Wanted(NamedTuple):
    """The files that a plan is to be written to."""

    json: Path | None
    csv: Path | None
    geojson: Path | None
    html: Path | None
    picture: Path | None


def solve(
    file: Annotated[Path, typer.Argument(help="A file of orders: CSV, or the JSON of docs/formats.md.")],
    state: Annotated[Path | None, typer.Option(help="The folder that dree learn keeps: its solver in use.")] = None,
    run_folder: Annotated[Path | None, typer.Option("--run", help="The run whose solver is used.")] = None,
    shipped: Annotated[
        str | None,
        typer.Option("--solver", help="A solver that comes with dree (default: the one that fits the orders)."),
    ] = None,
    day: Annotated[str | None, typer.Option(help="Which day, where the file has several.")] = None,
    columns: Annotated[str | None, typer.Option("--map", help="What columns are, such as date=ds,lat=lat.")] = None,
    depot: Annotated[str | None, typer.Option(help="Latitude and longitude of the depot, or its x and y.")] = None,
    capacity: Annotated[str | None, typer.Option(help="Of a vehicle: several routes from the depot.")] = None,
    improve: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Let a classical local search improve the routes.")
    ] = None,
    json_out: Annotated[Path | None, typer.Option("--json", help="Write the routes to this JSON file.")] = None,
    csv_out: Annotated[Path | None, typer.Option("--csv", help="Write a row for each stop to this CSV file.")] = None,
    geojson: Annotated[Path | None, typer.Option(help="Write the routes to this GeoJSON file.")] = None,
    html: Annotated[Path | None, typer.Option(help="Draw a map, a page that works offline, to this file.")] = None,
    picture: Annotated[Path | None, typer.Option("--png", help="Draw a picture to this file.")] = None,
) -> None:
    """Route the stops of a day: one round trip, or with --capacity several routes from a depot."""
    from dree.routing.construct import construct
    from dree.routing.improve import Share, check_seconds, improved
    from dree.service.state import State

    if sum(each is not None for each in (state, run_folder, shipped)) > 1:
        raise DreeError("Name one solver: --state, --run or --solver.")
    if improve is not None:
        check_seconds(improve)
    kept = None if state is None else State.open(state)
    orders, bad = _read(file, day, kept and kept.settings, columns, depot, capacity)
    name, solver = _solver(kept, run_folder, shipped, orders)
    began = time.perf_counter()
    plan = construct(solver, orders)
    shares = [Share(name, plan.length, time.perf_counter() - began)]
    if improve is not None:
        plan, share = improved(plan, improve)
        shares.append(share)
    _show(plan, shares)
    _write(plan, shares, bad, Wanted(json_out, csv_out, geojson, html, picture))
