"""Reference tours: optimal where that can be checked, and no crash of the solver takes us down."""

import importlib.util
import itertools
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from dree.errors import DreeError
from dree.evaluation.classical import HGS, Problem, SolverError, worker
from dree.evaluation.classical.hgs import in_its_units
from dree.evaluation.reference import reference_costs
from dree.problems import Instances
from dree.problems.check import check_cvrp, check_tsp
from dree.tasks import principal

pytest.importorskip("hygese")

QUICK = HGS(iterations=200)


def cvrp(coords, demands, capacity):
    return Instances(torch.tensor([coords]), torch.tensor([demands]), torch.tensor([capacity]))


def walk(points, nodes):
    return sum(math.dist(points[a], points[b]) for a, b in itertools.pairwise(nodes))


def shortest_tour(points):
    rest = range(1, len(points))
    return min(walk(points, (0, *order, 0)) for order in itertools.permutations(rest))


def cheapest_routes(points, demands, capacity):
    """Over all ways to divide the customers, by dynamic programming over sets of customers."""
    customers = range(1, len(points))
    best = {frozenset(): 0.0}
    route = {}
    for size in customers:
        for group in itertools.combinations(customers, size):
            if sum(demands[node] for node in group) <= capacity:
                orders = itertools.permutations(group)
                route[frozenset(group)] = min(walk(points, (0, *order, 0)) for order in orders)
    for size in customers:
        for group in map(frozenset, itertools.combinations(customers, size)):
            best[group] = min(cost + best[group - part] for part, cost in route.items() if part <= group)
    return best[frozenset(customers)]


@pytest.mark.parametrize("law", ["U", "G", "GM"])
def test_tsp_references_equal_brute_force(law):
    instances = principal(law, "tsp", 7).sample(3, torch.Generator().manual_seed(1))
    for points, (tour, cost) in zip(instances.coords.tolist(), reference_costs(instances, QUICK), strict=True):
        assert cost == pytest.approx(shortest_tour(points), rel=1e-9)
        assert check_tsp(points, tour) == cost


@pytest.mark.parametrize(("law", "capacity"), [("U", 12), ("E", 10), ("R", 25), ("G", 100)])
def test_cvrp_references_equal_brute_force(law, capacity):
    drawn = principal(law, "cvrp", 6).sample(3, torch.Generator().manual_seed(2))
    instances = Instances(drawn.coords, drawn.demands, torch.full_like(drawn.capacity, capacity))
    found = reference_costs(instances, QUICK)
    for row, (actions, cost) in enumerate(found):
        points, demands = instances.coords[row].tolist(), instances.demands[row].tolist()
        assert cost == pytest.approx(cheapest_routes(points, demands, capacity), rel=1e-9)
        assert check_cvrp(points, demands, capacity, actions) == cost
        assert actions[0] != 0
        assert actions[-1] == 0


def test_references_do_not_depend_on_the_number_of_workers_and_are_in_order():
    instances = principal("U", "cvrp", 12).sample(5, torch.Generator().manual_seed(3))
    heard = []
    alone = reference_costs(instances, QUICK, progress=lambda *now: heard.append(now))
    assert reference_costs(instances, QUICK, workers=2) == alone
    assert heard == [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]
    assert len({cost for _, cost in alone}) == 5


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e8])
@pytest.mark.parametrize("shift", [0.0, -0.5])
def test_any_scale_and_place_of_the_coordinates_is_the_same_problem(scale, shift):
    drawn = principal("U", "cvrp", 6).sample(1, torch.Generator().manual_seed(4))
    moved = Instances((drawn.coords.double() + shift) * scale, drawn.demands, drawn.capacity)
    (_, cost), (_, plain) = reference_costs(moved, QUICK)[0], reference_costs(drawn, QUICK)[0]
    assert cost / scale == pytest.approx(plain, rel=1e-6)


def test_one_customer_and_two_or_three_nodes_need_no_solver(monkeypatch):
    monkeypatch.setattr(worker, "WORKER", ("/nowhere",))
    assert reference_costs(cvrp([[0.0, 0.0], [3.0, 4.0]], [0, 2], 5)) == [([1, 0], 10.0)]
    assert reference_costs(Instances(torch.tensor([[[0.0, 0.0], [3.0, 4.0]]]))) == [([0, 1], 10.0)]
    triangle = Instances(torch.tensor([[[0.0, 0.0], [3.0, 0.0], [3.0, 4.0]]]))
    assert reference_costs(triangle) == [([0, 1, 2], 12.0)]


def test_points_that_are_all_equal_cost_nothing():
    here = [[0.3, 0.4]] * 5
    assert reference_costs(Instances(torch.tensor([here])))[0].cost == 0
    assert reference_costs(cvrp(here, [0, 3, 3, 3, 3], 5))[0].cost == 0


@pytest.mark.parametrize("capacity", [1, 7])
def test_customers_without_demand_share_one_route(capacity):
    points = torch.rand(6, 2, generator=torch.Generator().manual_seed(5)).tolist()
    actions, cost = reference_costs(cvrp(points, [0] * 6, capacity), QUICK)[0]
    assert cost == pytest.approx(shortest_tour(points), rel=1e-9)
    assert actions.count(0) == 1


def test_demands_over_half_the_capacity_get_a_vehicle_each():
    points = torch.rand(13, 2, generator=torch.Generator().manual_seed(6)).tolist()
    _, cost = reference_costs(cvrp(points, [0] + [51] * 12, 100), HGS(2000))[0]
    assert cost == pytest.approx(sum(2 * math.dist(points[0], point) for point in points[1:]), rel=1e-9)


def test_demands_beyond_the_range_of_the_solver_are_scaled_exactly():
    points = torch.rand(5, 2, generator=torch.Generator().manual_seed(7)).tolist()
    small = reference_costs(cvrp(points, [0, 3, 4, 5, 6], 10), QUICK)[0]
    large = reference_costs(cvrp(points, [0, *(n << 20 for n in (3, 4, 5, 6))], 10 << 20), QUICK)[0]
    assert large.cost == small.cost
    demands = torch.tensor([0, 1, 2, 3, 300_001]).numpy()
    data = in_its_units(Problem(torch.tensor(points).double().numpy(), demands, 300_001))
    assert data["demands"].tolist() == [0, 0.25, 0.5, 0.75, 75_000.25]
    assert data["vehicle_capacity"] == 75_000.25


def test_bad_values_are_refused_before_the_solver_sees_them(monkeypatch):
    monkeypatch.setattr(worker, "WORKER", ("/nowhere",))
    with pytest.raises(DreeError, match="Instance 0, node 2: demand 6"):
        reference_costs(cvrp([[0.0, 0.0], [0.5, 0.0], [1.0, 1.0]], [0, 1, 6], 5))
    with pytest.raises(DreeError, match="iterations must be at least 1"):
        HGS(iterations=0)
    with pytest.raises(DreeError, match="workers must be at least 1"):
        reference_costs(Instances(torch.rand(1, 5, 2)), workers=0)


POINTS = [[0.3, 0.4], [0.9, 0.1], [0.5, 0.8], [0.1, 0.6], [0.7, 0.5]]  # the last is in no corner
CRASHING = """
import json, os, signal, sys
for line in sys.stdin:
    request = json.loads(line)
    if request["coords"][-1] == [0.0, 0.0]:
        print("about to crash", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    print(json.dumps({"routes": [list(range(1, len(request["coords"])))]}), flush=True)
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_a_crash_of_the_solver_is_an_error_that_names_the_instance(tmp_path, monkeypatch, workers):
    script = tmp_path / "crashing.py"
    script.write_text(CRASHING)
    monkeypatch.setattr(worker, "WORKER", (script,))
    coords = torch.tensor([POINTS] * 4)
    coords[2, -1] = 0
    with pytest.raises(DreeError, match=r"Instance 2: .*status -11\. about to crash"):
        reference_costs(Instances(coords), workers=workers)
    sound = reference_costs(Instances(coords[[0, 1, 3]]), workers=workers)
    assert [tour for tour, _ in sound] == [[0, 1, 2, 3, 4]] * 3


def test_a_worker_goes_on_after_a_crash(tmp_path, monkeypatch):
    script = tmp_path / "crashing.py"
    script.write_text(CRASHING)
    monkeypatch.setattr(worker, "WORKER", (script,))
    points = torch.tensor(POINTS).double().numpy()
    sound = Problem(points.copy(), None, 0)
    points[-1] = 0
    with worker.Worker(QUICK) as one:
        with pytest.raises(SolverError):
            one.solve(Problem(points, None, 0))
        assert one.solve(sound) == [[1, 2, 3, 4]]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"routes": []}, "Instance 0: .*no feasible tour. Allow it more iterations"),
        ({"routes": [[1, 2, 2, 4]]}, r"Instance 0, tour from the solver: .*missing \[3\], more than once \[2\]"),
        ({"error": "TypeError: null"}, "Instance 0: the reference solver failed: TypeError: null"),
    ],
)
def test_an_answer_that_is_no_tour_is_refused(tmp_path, monkeypatch, answer, message):
    script = tmp_path / "wrong.py"
    script.write_text(f"import json, sys\nfor _ in sys.stdin: print(json.dumps({answer!r}), flush=True)")
    monkeypatch.setattr(worker, "WORKER", (script,))
    with pytest.raises(DreeError, match=message):
        reference_costs(Instances(torch.rand(1, 5, 2)), QUICK)


def test_without_the_solver_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DreeError, match=r"pip install 'dree\[reference\]'"):
        reference_costs(Instances(torch.rand(1, 5, 2)))


def test_the_solver_is_never_imported_into_this_process():
    code = (
        "import sys, torch; from dree.evaluation.reference import HGS, reference_costs; "
        "from dree.problems import Instances; "
        "print(len(reference_costs(Instances(torch.rand(1, 5, 2)), HGS(9))), 'hygese' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["1", "False"]


def test_a_worker_starts_without_torch():
    code = "import sys, dree.evaluation.classical.worker_main; print('torch' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["False"]


def test_a_worker_ends_with_its_input_whatever_it_is_at(monkeypatch):
    """Its parent may have been killed: then nobody else would end a search of an hour."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1] / "routing"))
    command = [sys.executable, *worker.WORKER, "strange_search", "Strange", json.dumps({"way": "never"})]
    problem = Problem(torch.tensor(POINTS).double().numpy(), torch.tensor([0, 1, 1, 1, 1]).numpy(), 4)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        process.stdin.write(json.dumps({"until": None, **problem.as_plain()}) + "\n")
        process.stdin.flush()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)  # it is at work
        process.stdin.close()
        assert process.wait(30) == 0
