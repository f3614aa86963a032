"""The command line of today's routes: `dree solve --help`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from dree.errors import DreeError, unknown
from dree.terminal import console, say

if TYPE_CHECKING:
    from dree.data.orders import OrderFile
    from dree.routing import Plan, Share
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
    from dree.data.orders import read_orders
    from dree.routing import Share
    from dree.routing.construct import construct
    from dree.routing.exports import check_geographic
    from dree.routing.improve import check_seconds, improved
    from dree.service.region import check_fits, check_region, depot_named
    from dree.service.state import State

    if sum(each is not None for each in (state, run_folder, shipped)) > 1:
        raise DreeError("Name one solver: --state, --run or --solver.")
    if improve is not None:
        check_seconds(improve)
    wanted = Wanted(json_out, csv_out, geojson, html, picture)
    _check_places(file, state, wanted)
    kept = None if state is None else State.open(state)
    if kept is not None and depot is None and not _is_problem(file):
        with depot_named(kept):
            own = read_orders(file, _meanings(kept, columns))  # with its own depot, if it has one
        check_fits(_chosen(own, day), kept, own.guessed)
    source = None if _is_problem(file) else _read(file, kept, columns, depot, capacity)
    orders = _problem(file, day, columns, depot, capacity) if source is None else _chosen(source, day)
    if kept is not None and source is not None:
        check_region(orders, kept)
    if geojson is not None:
        check_geographic(orders)
    name, solver = _solver(kept, run_folder, shipped, orders)
    began = time.perf_counter()
    with console.status(f"Routing {len(orders.places)} stops ..."):
        plan = construct(solver, orders)
    shares = [Share(name, plan.length, time.perf_counter() - began)]
    if improve is not None:
        with console.status("Improving the routes ..."):
            plan, share = improved(plan, improve)
        shares.append(share)
    _show(plan, shares)
    _write(plan, shares, source, wanted)


def _check_places(file: Path, state: Path | None, wanted: Wanted) -> None:
    """Refuse to write over the orders or a state, two outputs to one file, what cannot be written, unknown pictures."""
    from dree.files import check_writable
    from dree.service.outputs import check_output

    failures: list[str] = []
    taken = {file.resolve(): "the file of orders"}
    for path in filter(None, wanted):
        if state is not None:
            check_output(state, path)
        with _noted(failures):
            check_writable(path)
        if path.resolve() in taken:
            raise DreeError(f"{path} is {taken[path.resolve()]} already. Write to another file; nothing was written.")
        taken[path.resolve()] = "an output"
    if failures:
        raise DreeError(" ".join(failures))
    if wanted.picture:
        from dree.report.style import check_suffix

        check_suffix(wanted.picture)


def _is_problem(file: Path) -> bool:
    return file.suffix.lower() == ".json"


def _problem(file: Path, day: str | None, columns: str | None, depot: str | None, capacity: str | None) -> Orders:
    """What a JSON file holds, which needs no explanation."""
    from dree.data.instance_files import read_problem
    from dree.data.orders_options import parse_capacity

    if (day, columns, depot) != (None, None, None):
        raise DreeError("--day, --map and --depot belong to CSV files; a JSON file says all of itself.")
    return read_problem(file, None if capacity is None else parse_capacity(capacity))


def _read(file: Path, state: State | None, columns: str | None, depot: str | None, capacity: str | None) -> OrderFile:
    """The orders in a CSV file; what is not said about them is as the state has it. Bad rows are said aloud."""
    from dree.data.orders import read_orders
    from dree.data.orders_options import parse_capacity, parse_depot
    from dree.data.orders_rows import SAME_ID
    from dree.service.days import Given, given_of
    from dree.service.demands import check_demands

    known = Given() if state is None else given_of(state.settings)
    meanings = _meanings(state, columns)
    found = read_orders(
        file,
        meanings,
        depot=known.depot if depot is None else parse_depot(depot),
        capacity=known.capacity if capacity is None else parse_capacity(capacity),
    )
    if state is not None:
        check_demands(found, meanings, state)
    for note in found.notes:
        say(note)
    if found.bad:
        first = found.bad[0]
        rows = "1 row is" if len(found.bad) == 1 else f"{len(found.bad)} rows are"
        say(
            f"{rows} not routed, first line {first.line}: {first.reason}. "
            f"See {'it' if len(found.bad) == 1 else 'them all'} with: {found.command}"
        )
    if any(row.reason == SAME_ID for row in found.bad) and any(day.demands is not None for day in found.days):
        say("Nor are their demands counted. If rows with one id are parts of one order, add them up to one row first.")
    return found


def _meanings(state: State | None, columns: str | None) -> dict[str, str]:
    """What columns are: as the state has it and, before that, as is said."""
    from dree.data.orders_options import parse_columns

    return {**({} if state is None else state.settings.columns), **({} if columns is None else parse_columns(columns))}


def _chosen(source: OrderFile, day: str | None) -> Orders:
    """The day to route."""
    from dree.data.orders_dates import spelled_day

    days = {each.day: each for each in source.days_to_route()}
    if day is not None:
        meant = day if day in days else spelled_day(day, days)
        if meant is None:
            raise unknown(f"day in {source.path}", day, days)
        return days[meant]
    if len(days) > 1:
        raise DreeError(f"{source.path} has {len(days)} days. Say which with --day: {', '.join(days)}.")
    (only,) = days.values()
    return only


def _solver(state: State | None, run: Path | None, shipped: str | None, orders: Orders) -> tuple[str, Solver]:
    """The solver that was asked for, and what it is called."""
    from dree.experiments import load_solver
    from dree.experiments.shipped import SHIPPED, shipped_folder

    if state is not None:
        if state.settings.problem != orders.problem:
            kinds = {"tsp": "without a capacity", "cvrp": "with a capacity"}
            raise DreeError(
                f"{state.path} has learned days {kinds[state.settings.problem]}, and this is one "
                f"{kinds[orders.problem]}. Use the state of such days, or no --state: a solver that comes with dree."
            )
        version, solver = state.answering(say)
        return f"version {version.number} of {state.path}", solver
    if run is not None:
        if not run.exists():
            raise DreeError(f"There is no run {run} to take a solver from. Train one with: dree demo")
        return f"the solver of {run}", load_solver(run, say)
    name = shipped or SHIPPED[orders.problem]
    return name, load_solver(shipped_folder(name), say)


def _show(plan: Plan, shares: list[Share]) -> None:
    """A table of the routes, and what each solver did for them."""
    from dree.report.plan_table import contribution, plan_table

    console.print(plan_table(plan))
    for number, share in enumerate(shares):
        say(contribution(shares[number - 1] if number else None, share, plan.unit))


def _write(plan: Plan, shares: list[Share], source: OrderFile | None, wanted: Wanted) -> None:
    """The files that were asked for; where some cannot be written, the others are, and then it is an error."""
    from dree.files import write_csv, write_json
    from dree.routing.exports import as_geojson, as_plain, as_rows

    def write_routes(path: Path) -> Path:
        content = as_plain(plan) | {
            "solvers": [share._asdict() for share in shares],
            "notes": [] if source is None else list(source.notes),
            "bad_rows": [] if source is None else [asdict(row) for row in source.bad],
        }
        return write_json(path, content)

    def draw_map(path: Path) -> Path:
        from dree.report.map_page import write_map

        return write_map(path, plan, shares, source)

    def draw_picture(path: Path) -> Path:
        from dree.report import save
        from dree.report.plan_picture import draw_plan

        return save(draw_plan(plan), path)

    outputs: list[tuple[str, Path | None, Callable[[Path], Path]]] = [
        ("Routes", wanted.json, write_routes),
        ("Table", wanted.csv, lambda path: write_csv(path, as_rows(plan))),
        ("GeoJSON", wanted.geojson, lambda path: write_json(path, as_geojson(plan))),
        ("Map", wanted.html, draw_map),
        ("Picture", wanted.picture, draw_picture),
    ]
    failures: list[str] = []
    for kind, path, write in outputs:
        if path is not None:
            with _noted(failures):
                say(f"{kind}: {write(path)}")
    if source is not None and source.bad:
        rows = "1 row" if len(source.bad) == 1 else f"{len(source.bad)} rows"
        stops = "1 stop" if len(plan.orders.places) == 1 else f"{len(plan.orders.places)} stops"
        say(f"Not routed: {rows} of {source.path}, beside {stops}. To see each: {source.command} --all")
    if failures:
        raise DreeError(" ".join(failures))


@contextmanager
def _noted(failures: list[str]) -> Iterator[None]:
    """Keep the words of an error and go on."""
    try:
        yield
    except DreeError as error:
        failures.append(str(error))
