"""Whatever a policy does within the rules is a feasible tour, and hindsight tells how it came about."""

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from problem_strategies import instances, play

from dree.problems import Instances, rules
from dree.problems.check import check_cvrp, check_tsp

SEEDS = st.integers(0, 2**32)


def cvrp(demands, capacity):
    coords = torch.rand(1, len(demands), 2, generator=torch.Generator().manual_seed(len(demands)))
    return Instances(coords, torch.tensor([demands]), torch.tensor([capacity])).validated()


def referee(batch, row, tour):
    if batch.problem == "tsp":
        return check_tsp(batch.coords[row], tour)
    return check_cvrp(batch.coords[row], batch.demands[row], int(batch.capacity[row]), tour)


def assert_feasible(batch, seed):
    actions, _ = play(batch, seed)
    costs = rules(batch.problem).cost(batch, actions)
    assert costs.dtype == torch.float32
    for row, tours in enumerate(actions.tolist()):
        for start, tour in enumerate(tours):
            assert tour[0] == start + rules(batch.problem).first_customer
            assert referee(batch, row, tour) == pytest.approx(costs[row, start].item(), rel=1e-5, abs=1e-6)


@given(instances("tsp"), SEEDS)
def test_random_legal_play_of_a_tsp_ends_in_tours_the_referee_accepts(batch, seed):
    assert_feasible(batch, seed)
    actions, _ = play(batch, seed)
    assert actions.shape[-1] == batch.nodes


@given(instances("cvrp"), SEEDS)
@example(cvrp([0, 0], 1), 0)
@example(cvrp([0, 1], 1), 0)
@example(cvrp([0, 5, 5, 5, 5], 5), 1)
@example(cvrp([0, 0, 0, 0, 0], 3), 2)
@example(cvrp([0, 1, 1, 1, 1, 1], 1), 3)
@example(cvrp([0, 0, 4, 0, 4, 0, 4], 4), 4)
def test_random_legal_play_of_a_cvrp_ends_in_tours_the_referee_accepts(batch, seed):
    assert_feasible(batch, seed)
    actions, _ = play(batch, seed)
    assert actions.shape[-1] <= 2 * batch.customers


def assert_hindsight_is_history(batch, seed, extra, starts=None):
    actions, states = play(batch, seed, extra, starts)
    seen = rules(batch.problem).hindsight(batch, actions)
    for name in ("current", "blocked", "visited", "served", "load"):
        history = [getattr(state, name) for state in states[:-1]]  # the last state decides nothing
        if name == "load" and batch.problem == "tsp":
            assert seen.load is None
            assert history == [None] * len(history)
            continue
        expected = torch.stack(history, dim=2)
        assert torch.equal(getattr(seen, name), expected), name
        assert getattr(seen, name).dtype == expected.dtype, name


@given(instances("tsp"), SEEDS)
def test_hindsight_of_a_tsp_tour_is_its_history(batch, seed):
    assert_hindsight_is_history(batch, seed, extra=0)


@given(instances("cvrp"), SEEDS, st.integers(0, 3))
@example(cvrp([0, 0], 1), 0, 2)
@example(cvrp([0, 5, 5, 5, 5], 5), 1, 1)
@example(cvrp([0, 0, 0, 0, 0], 3), 2, 3)
@example(cvrp([0, 0, 4, 0, 4, 0, 4], 4), 4, 1)
def test_hindsight_of_a_cvrp_tour_is_its_history_padding_included(batch, seed, extra):
    assert_hindsight_is_history(batch, seed, extra)


@given(instances("cvrp"), SEEDS)
def test_a_finished_cvrp_tour_stays_at_the_depot_with_a_full_vehicle(batch, seed):
    law = rules("cvrp")
    actions, states = play(batch, seed, extra=2)
    for step, state in enumerate(states):
        done = law.finished(batch, state)
        full = batch.capacity[:, None].expand_as(done)
        only_depot = torch.arange(batch.nodes) > 0
        assert (state.current[done] == 0).all()
        assert torch.equal(state.load[done], full[done])
        assert (state.blocked[done] == only_depot).all()
        assert (actions[..., step + 1 :][done] == 0).all()
    assert law.finished(batch, states[-3]).all()


@given(instances("cvrp"), SEEDS, st.integers(1, 4))
def test_padding_costs_nothing(batch, seed, extra):
    law = rules("cvrp")
    actions, _ = play(batch, seed)
    padded = torch.nn.functional.pad(actions, (0, extra))
    torch.testing.assert_close(law.cost(batch, padded), law.cost(batch, actions), rtol=1e-6, atol=0)


def test_every_customer_is_a_start_and_the_depot_is_none():
    assert rules("tsp").starts(Instances(torch.rand(2, 3, 2))).tolist() == [[0, 1, 2], [0, 1, 2]]
    assert rules("cvrp").starts(cvrp([0, 1, 2], 3)).tolist() == [[1, 2]]


def test_what_was_visited_is_blocked_in_a_tsp_and_nothing_else():
    law, batch = rules("tsp"), Instances(torch.rand(1, 4, 2))
    state = law.begin(batch, torch.tensor([[2]]))
    assert state.blocked.tolist() == [[[False, False, True, False]]]
    state = law.advance(batch, state, torch.tensor([[0]]))
    assert state.blocked.tolist() == [[[True, False, True, False]]]
    assert state.current.tolist() == [[0]]
    assert not law.finished(batch, state).any()


def test_a_step_leaves_the_state_before_it_as_it_was():
    for batch in (Instances(torch.rand(1, 4, 2)), cvrp([0, 1, 2, 3], 4)):
        law = rules(batch.problem)
        state = law.begin(batch, torch.tensor([[1]]))
        before = {name: value.clone() for name, value in vars(state).items() if value is not None}
        law.advance(batch, state, torch.tensor([[2]]))
        for name, value in before.items():
            assert torch.equal(getattr(state, name), value), name


@pytest.mark.parametrize("kind", ["tsp", "cvrp"])
@given(st.data(), SEEDS)
def test_no_tour_ends_before_the_shortest(kind, data, seed):
    batch = data.draw(instances(kind))
    law = rules(kind)
    _, states = play(batch, seed)
    ended = [bool(law.finished(batch, state).any()) for state in states]
    assert not any(ended[: law.shortest(batch) - 1])


def test_the_shortest_tour_serves_all_in_one_route():
    batch = cvrp([0, 1, 1, 1], 3)
    law = rules("cvrp")
    state = law.begin(batch, torch.tensor([[1]]))
    for action in (2, 3, 0):
        assert not law.finished(batch, state).any()
        state = law.advance(batch, state, torch.tensor([[action]]))
    assert law.finished(batch, state).all()
    assert law.shortest(batch) == 4
    assert rules("tsp").shortest(Instances(torch.rand(1, 5, 2))) == 5


def at_the_depot(batch):
    return torch.zeros(len(batch), 2, dtype=torch.int64)


@given(instances("cvrp"), SEEDS)
@example(cvrp([0, 0], 1), 0)
@example(cvrp([0, 1, 1, 1, 1, 1], 1), 3)
def test_a_cvrp_tour_may_begin_at_the_depot_and_costs_nothing_more(batch, seed):
    law = rules("cvrp")
    actions, _ = play(batch, seed, starts=at_the_depot(batch))
    assert (actions[..., 0] == 0).all()
    assert (actions[..., 1] > 0).all()  # it may not stay there
    assert batch.customers + 2 <= actions.shape[-1] <= law.longest(batch) + 1
    costs = law.cost(batch, actions)
    torch.testing.assert_close(costs, law.cost(batch, actions[..., 1:]))
    for row, tours in enumerate(actions.tolist()):
        for column, tour in enumerate(tours):
            assert referee(batch, row, tour) == pytest.approx(costs[row, column].item(), rel=1e-5, abs=1e-6)


@given(instances("cvrp"), SEEDS, st.integers(0, 3))
@example(cvrp([0, 0, 4, 0, 4, 0, 4], 4), 4, 1)
def test_hindsight_of_such_a_tour_is_its_history_too(batch, seed, extra):
    assert_hindsight_is_history(batch, seed, extra, at_the_depot(batch))
    actions, _ = play(batch, seed, extra, at_the_depot(batch))
    needed = max(max(step for step, node in enumerate(tour) if node) + 2 for tour in actions.flatten(0, 1).tolist())
    assert rules("cvrp").trimmed(actions).equal(actions[..., :needed])
    assert int(rules("cvrp").needed(actions)) == needed


def test_the_longest_tour_from_the_depot_has_one_more_action_than_from_a_customer():
    """Demands that leave no choice: every route has one customer."""
    batch, law = cvrp([0, 1, 1, 1, 1], 1), rules("cvrp")
    assert play(batch, 0)[0].shape[-1] == law.longest(batch) == 8
    assert play(batch, 0, starts=at_the_depot(batch))[0].shape[-1] == 9
