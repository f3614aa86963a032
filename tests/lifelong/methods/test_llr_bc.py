"""LLR-BC: what is an experience, what is replayed, and how it is weighed."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import random_instances, small_solver
from dree.errors import DreeError
from dree.lifelong import Learner, LearnerSettings, make_method
from dree.lifelong.reading import Reading
from dree.lifelong.replay import divergence, uncertainty
from dree.lifelong.steps import Step
from dree.solvers import POMO
from dree.tasks import make_stream
from remembered_steps import remembered_step


def learner_with(problem, **options):
    method = make_method("llr-bc", options)
    return Learner(small_solver(problem), method, LearnerSettings(augmentation=1, learning_rate=1e-3), seed=3)


def learn_epoch(learner, stream, epoch, batches=2, problem="tsp"):
    learner.method.begin(learner, stream, epoch)
    for number in range(batches):
        learner.learn(random_instances(problem, 3, 5 + epoch % 2, seed=10 * epoch + number))
    learner.method.end(learner, stream, epoch)


@pytest.mark.parametrize(("kind", "offered"), [("tsp", 2 * (6 - 2)), ("cvrp", None)])
def test_every_step_with_a_decision_is_offered(kind, offered):
    """TSP: not the given start, not the last step. CVRP: all after the start, padding included."""
    learner = learner_with(kind)
    stream = make_stream("drift", kind, 1, 5)
    lengths = []
    attempt = learner.attempt
    learner.attempt = lambda *a: (lesson := attempt(*a), lengths.append(lesson.tours.actions.shape[-1] - 1))[0]
    learn_epoch(learner, stream, 1, problem=kind)
    assert learner.method.collected.seen == (offered or sum(lengths))


def test_every_step_has_a_chance_of_its_own(monkeypatch):
    """The steps of a batch are offered with one generator, which goes on from step to step."""
    learner, used = learner_with("tsp"), []
    foresee = learner.method.collected.foresee
    spy = lambda count, chance: used.append((count, chance, learner.batches)) or foresee(count, chance)  # noqa: E731
    monkeypatch.setattr(learner.method.collected, "foresee", spy)
    learn_epoch(learner, make_stream("drift", "tsp", 1, 5), 1)
    assert [(count, batch) for count, _, batch in used] == [(4, 0), (4, 1)]
    assert used[0][1] is not used[1][1]
    assert used[0][1].initial_seed() != used[1][1].initial_seed()


def test_where_lengths_are_not_known_at_once_the_same_steps_are_remembered(problem, monkeypatch):
    """On a GPU, steps are taken as if every tour were as long as can be; those that there were not are dropped."""
    memories = []
    for here in (True, False):
        monkeypatch.setattr(Reading, "here", here)
        learner = learner_with(problem, buffer=30)
        for epoch in (1, 2, 3):
            learn_epoch(learner, make_stream("drift", problem, 1, 5), epoch, batches=4, problem=problem)
        memories.append((learner.method.collected.seen, learner.method.collected.items))
    (seen, items), (seen_late, items_late) = memories
    assert seen == seen_late > 30
    for one, two in zip(items, items_late, strict=True):
        assert one.instances.coords.equal(two.instances.coords)
        assert one.state.served.equal(two.state.served)
        assert one.state.current.equal(two.state.current)
        torch.testing.assert_close(one.policy, two.policy)


def test_nobody_waits_for_the_length_of_tours_before_the_next_batch(monkeypatch):
    """It is read when the next batch's steps are taken, or when somebody looks at the buffer."""
    asked = []
    values = Reading.values
    monkeypatch.setattr(Reading, "here", False)
    monkeypatch.setattr(Reading, "values", lambda reading: asked.append(learner.batches) or values(reading))
    learner = learner_with("cvrp")
    learner.method.begin(learner, make_stream("drift", "cvrp", 1, 5), 1)
    for number in range(3):
        learner.learn(random_instances("cvrp", 3, 6, seed=number))
    assert asked == [1, 2]
    assert learner.method.collected.seen > 0
    assert asked == [1, 2, 3]


def test_an_experience_is_one_step_of_all_instances_and_starts_with_the_policy_there(problem):
    learner = learner_with(problem)
    stream = make_stream("drift", problem, 1, 5)
    before = small_solver(problem)
    learner.method.begin(learner, stream, 1)
    learner.learn(random_instances(problem, 3, 6, seed=0))
    step = learner.method.collected.items[2]
    assert step.policy.shape == (3, 6, step.instances.nodes)
    with torch.no_grad():
        expected = before.decide(step.instances, step.starts, step.state)
    torch.testing.assert_close(step.policy, expected)  # the policy before the optimiser's step
    assert step.state.served.unique().tolist() in ([3], [2, 3], [1, 2, 3])


def test_the_current_epoch_is_not_replayed_and_the_last_one_is(problem):
    learner = learner_with(problem)
    stream = make_stream("drift", problem, 1, 5)
    learn_epoch(learner, stream, 1, problem=problem)
    first = list(learner.method.collected.items)
    assert learner.method.replayed == first
    learner.method.begin(learner, stream, 2)
    learner.learn(random_instances(problem, 3, 5, seed=5))
    assert learner.method.replayed == first
    assert len(learner.method.collected) > len(first)


def test_in_the_periodic_scenario_the_current_task_is_never_replayed():
    """Six tasks of two epochs: an epoch's instances have a size that tells its task."""
    learner = learner_with("tsp", buffer=10_000)
    stream = make_stream("periodic", "tsp", 1, 12)
    for epoch in range(1, 13):
        task = (epoch - 1) // 2
        learner.method.begin(learner, stream, epoch)
        sizes = {step.instances.nodes for step in learner.method.replayed}
        assert sizes == {5 + earlier for earlier in range(task)}
        learner.learn(random_instances("tsp", 2, 5 + task, seed=epoch))
        learner.method.end(learner, stream, epoch)


@pytest.mark.parametrize(("every", "epochs"), [(1, [1, 2, 3, 4]), (2, [2, 4]), (10, [])])
def test_it_collects_every_so_many_epochs(every, epochs):
    learner = learner_with("tsp", buffer_every=every)
    stream = make_stream("drift", "tsp", 1, 5)
    grew = []
    for epoch in range(1, 5):
        before = learner.method.collected.seen
        learn_epoch(learner, stream, epoch, batches=1)
        grew += [epoch] if learner.method.collected.seen > before else []
    assert grew == epochs


@pytest.mark.parametrize("kind", ["softened", "literal"])
def test_the_loss_is_alpha_times_the_mean_over_steps_of_weighted_means_over_states(problem, kind):
    learner = learner_with(problem, sample=4, alpha=7.0, divergence=kind)
    stream = make_stream("drift", problem, 1, 5)
    for epoch in (1, 2):  # two sizes
        learn_epoch(learner, stream, epoch, batches=1, problem=problem)
    lesson = learner.attempt(random_instances(problem, 3, 6, seed=9), "solve")
    learner.method._collecting = False
    chosen = torch.randperm(len(learner.method.replayed), generator=learner.chance("experience"))[:4]
    expected = 0.0
    for row in chosen.tolist():
        step = learner.method.replayed[row]
        current = learner.solver.decide(step.instances, step.starts, step.state)
        weights = uncertainty(step.policy)
        expected = expected + 7 / 4 * (weights * divergence(kind)(current, step.policy)).sum() / weights.sum()
    torch.testing.assert_close(learner.method.replay(learner, lesson), expected)
    assert len({learner.method.replayed[row].instances.nodes for row in chosen.tolist()}) == 2


def test_only_the_copy_that_is_not_mirrored_is_remembered(problem):
    method = make_method("llr-bc")
    learner = Learner(small_solver(problem), method, LearnerSettings(augmentation=8), seed=3)
    learner.method.begin(learner, make_stream("drift", problem, 1, 5), 1)
    batch = random_instances(problem, 3, 6, seed=0)
    learner.learn(batch)
    assert all(step.instances.coords.equal(batch.coords) for step in method.collected.items)


@pytest.mark.parametrize("mixes", [True, False])
def test_where_lessons_are_captured_the_same_is_remembered_and_replayed(problem, mixes, monkeypatch):
    """There a lesson has only the best tours and the originals', and steps are padded or else replayed one by one."""
    monkeypatch.setattr(POMO, "mixes_sizes", mixes)
    losses, remembered = [], []
    for captured in (False, True):
        monkeypatch.setattr(Learner, "captures", lambda *_, captured=captured: captured)
        learner = Learner(small_solver(problem), make_method("llr-bc", {"sample": 5}), LearnerSettings(), seed=3)
        learner.best_only = captured
        method, replay = learner.method, learner.differentiate_each
        replayed: list[list[tuple[int, int]]] = []

        def spy(name, work, pieces, *purpose, replayed=replayed, replay=replay):
            if name == "consolidation":
                replayed.append([(len(instances) // 3, instances.nodes) for instances, _ in pieces])
            return replay(name, work, pieces, *purpose)

        monkeypatch.setattr(learner, "differentiate_each", spy)
        stream = make_stream("drift", problem, 1, 5)
        for epoch in (1, 2):
            learn_epoch(learner, stream, epoch, problem=problem)
        losses.append(learner.learn(random_instances(problem, 3, 6, seed=9)).loss)
        remembered.append(method.collected.items)
        if captured and mixes:
            assert replayed == [[(2, 16), (3, 16)]] * len(replayed)
        else:
            assert (max(steps for pieces in replayed for steps, _ in pieces) == 1) is captured
    torch.testing.assert_close(*losses)
    for one, two in zip(*remembered, strict=True):
        assert one.instances.coords.equal(two.instances.coords)
        assert one.state.current.equal(two.state.current)
        torch.testing.assert_close(one.policy, two.policy, rtol=1e-4, atol=1e-5)


@given(
    problem=st.sampled_from(["tsp", "cvrp"]),
    kind=st.sampled_from(["softened", "literal"]),
    sizes=st.lists(st.integers(2, 18), min_size=1, max_size=5),
    seed=st.integers(0, 99),
)
@settings(max_examples=20)
def test_padded_steps_have_the_loss_and_the_gradient_of_each_by_itself(problem, kind, sizes, seed):
    """In double precision."""
    solver = small_solver(problem, seed + 1).double()
    method = make_method("llr-bc", {"divergence": kind})
    learner = Learner(solver, method, LearnerSettings(precision="fp32"))
    old = small_solver(problem, seed).double()
    method.replayed = [remembered_step(old, size, seed + number, batch=3) for number, size in enumerate(sizes)]
    results = []
    for captures in (False, True):
        learner.captures = lambda _, captures=captures: captures
        loss = method.replay(learner, None)
        results.append((loss.detach(), learner._flat.gradient_of(loss)))
    (loss, gradient), (of_padded, gradient_of_padded) = results
    torch.testing.assert_close(of_padded, loss, rtol=1e-8, atol=1e-12)
    assert (gradient_of_padded - gradient).norm() <= 1e-8 * gradient.norm() + 1e-10


@pytest.mark.parametrize("captures", [False, True])
def test_steps_of_batches_of_several_sizes_count_the_same(problem, captures):
    """Each is a mean over its states, and the loss a mean over them."""
    solver, old = small_solver(problem, 1).double(), small_solver(problem).double()
    method = make_method("llr-bc", {})
    learner = Learner(solver, method, LearnerSettings(precision="fp32"))
    learner.captures = lambda _: captures
    steps = [remembered_step(old, 7, seed, batch) for seed, batch in enumerate((3, 6, 6, 2))]
    alone = []
    for step in steps:
        method.replayed = [step]
        alone.append(method.replay(learner, None).detach())
    method.replayed = steps
    torch.testing.assert_close(method.replay(learner, None).detach(), torch.stack(alone).mean())


def test_both_buffers_go_through_their_state_and_share_what_they_share():
    learner = learner_with("cvrp", buffer=12)
    stream = make_stream("drift", "cvrp", 1, 5)
    for epoch in (1, 2):
        learn_epoch(learner, stream, epoch, problem="cvrp")
    learner.method.begin(learner, stream, 3)
    learner.learn(random_instances("cvrp", 3, 5, seed=1))
    other = learner_with("cvrp", buffer=12)
    state = learner.method.state_dict()
    other.method.load_state_dict(state, other)
    assert len(state["steps"]) < len(state["collected"]) + len(state["replayed"])
    assert other.method.collected.seen == learner.method.collected.seen
    for name in ("collected", "replayed"):
        ours, theirs = getattr(learner.method, name), getattr(other.method, name)
        for one, two in zip(getattr(ours, "items", ours), getattr(theirs, "items", theirs), strict=True):
            assert isinstance(two, Step)
            assert one.policy.equal(two.policy)
            assert one.state.load.equal(two.state.load)
            assert one.bytes == two.bytes


@pytest.mark.parametrize("option", ["sample", "buffer_every", "buffer"])
def test_bad_options_are_refused(option):
    with pytest.raises(DreeError, match="at least 1"):
        make_method("llr-bc", {option: 0})
