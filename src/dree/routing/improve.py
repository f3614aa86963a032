"""Local search on the routes of a neural solver, in the customer's own distances. What it does not shorten stays."""

from __future__ import annotations

import importlib.metadata
import time

import numpy as np

from dree.errors import DreeError
from dree.evaluation.classical import ClassicalSolver, Problem, SolverError
from dree.evaluation.classical.fast_tsp import FastTSP
from dree.evaluation.classical.hgs import TimedHGS
from dree.evaluation.classical.pyvrp import PyVRP
from dree.evaluation.classical.worker import Worker
from dree.problems.geography import distances
from dree.routing.plan import Plan, Share

LONGEST = 3600.0  # seconds
LARGE = 400  # stops of a CVRP from which going on from the neural routes is worth more than a better search
TSP_SECONDS = 0.02  # for each stop, after which more time finds nothing more
GRACE = 10.0  # seconds beyond its time after which a search that does not end is ended
PATIENCE = 2.0  # seconds for one that is stopped by Ctrl-C to say what it has found


def check_seconds(seconds: float) -> None:
    """Refuse times that are none."""
    if not 0 < seconds <= LONGEST:
        raise DreeError(f"--improve needs a number of seconds above 0, at most {LONGEST:.0f}, not {seconds:g}.")


def searcher(plan: Plan, seconds: float) -> ClassicalSolver:
    """The local search that does most for this plan in this time: see docs/decisions.md."""
    stops = len(plan.orders.places)
    if plan.orders.problem == "tsp":
        return FastTSP(min(seconds, max(0.1, TSP_SECONDS * stops)), searches=1)
    return PyVRP(seconds) if stops >= LARGE else TimedHGS(seconds)


def improved(plan: Plan, seconds: float) -> tuple[Plan, Share]:
    """The plan, or a shorter one that was found in so many seconds; what crashes in there only costs the time.

    They begin here: the distances, the start of a process and the search's own preparations are part of them. Ctrl-C
    ends the search, and what it has found by then counts; a second one is raised.
    """
    began, ends = time.perf_counter(), time.time() + seconds
    check_seconds(seconds)
    solver = searcher(plan, seconds)
    solver.made()  # its package must be there
    note, stopped = "", False
    try:
        with Worker(solver) as worker:
            try:
                problem = as_problem(plan)
                routes = worker.solve(problem, limit=max(0.0, ends - time.time()) + GRACE, until=ends)
            except KeyboardInterrupt:
                stopped = True
                routes = worker.found(PATIENCE)
        plan, note = _better(plan, routes)
    except SolverError as error:
        note = f"It failed, and the routes are as they were: {error}"
    if stopped and note:
        note = "It gave nothing shorter, and the routes are as they were."
    by = f"{solver.package} {importlib.metadata.version(solver.package)}"
    return plan, Share(by, plan.length, time.perf_counter() - began, note, stopped)


def as_problem(plan: Plan) -> Problem:
    """The day as classical solvers take it, with its true distances and the plan's routes to begin with."""
    orders = plan.orders
    nodes, depot = orders.nodes, orders.depot is not None
    first, second = np.meshgrid(np.arange(len(nodes)), np.arange(len(nodes)), indexing="ij")
    matrix = distances(nodes[first.ravel()], nodes[second.ravel()], orders.geographic).reshape(first.shape)
    points = orders.frame().to_unit(nodes)
    begin = [[stop + depot for stop in route] for route in plan.routes]
    if orders.demands is None or orders.capacity is None:
        return Problem(points, None, 0, matrix, begin)
    return Problem(points, np.concatenate(([0], orders.demands)), orders.capacity, matrix, begin)


def _better(plan: Plan, routes: list[list[int]]) -> tuple[Plan, str]:
    """The shorter of the plan and what was found, which the referee must find sound; and what there is to say."""
    if not routes:
        return plan, "It found no routes within the capacity, and the routes are as they were."
    if plan.orders.depot is None:  # node 0 is a stop, where a solver's route begins
        routes = [[0, *route] for route in routes]
    else:
        routes = [[node - 1 for node in route] for route in routes]
    try:
        found = Plan.of(plan.orders, routes)
    except DreeError as error:
        return plan, f"It answered with what is no plan, and the routes are as they were: {error}"
    return (found, "") if found.length < plan.length else (plan, "It found nothing shorter.")
