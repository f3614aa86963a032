"""Algorithm 1 without memory: the loss, the step, the seed, the state."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
import torch

from conftest import random_instances, small_solver
from dree.errors import DreeError
from dree.lifelong import FineTuning, Learner, LearnerSettings, Lesson, Method, method_class, reinforce
from dree.lifelong.epoch import learn_epoch
from dree.lifelong.methods import in_hook
from dree.problems import augment
from dree.solvers.pomo_twin import rollout
from dree.tasks import DriftStream


def learner(problem: str, method: Method | None = None, **settings) -> Learner:
    return Learner(small_solver(problem), method or FineTuning(), LearnerSettings(**settings), seed=7)


def same(one: Learner, other: Learner) -> bool:
    return all(a.equal(b) for a, b in zip(one.solver.parameters(), other.solver.parameters(), strict=True))


def test_the_loss_is_reinforce_with_the_mean_over_starts_as_baseline(problem):
    """Worked out from the twin: mean over instances and starts of (cost - mean cost) * log-probability."""
    instances = random_instances(problem, 3, 6, seed=1)
    solver = small_solver(problem)
    tours, log_prob = rollout(solver, instances, generator=torch.Generator().manual_seed(0))
    baseline = tours.costs.mean(1, keepdim=True)
    expected = ((tours.costs - baseline) * log_prob).mean()
    loss = reinforce(solver, Lesson(instances, tours, solver.encode(instances)))
    torch.testing.assert_close(loss, expected)


def test_symmetric_copies_have_baselines_of_their_own(problem):
    """Worked out from the twin: each tour's cost less the mean over the starts of its own copy."""
    pupil = learner(problem)
    lesson = pupil.attempt(random_instances(problem, 2, 5, seed=1), "solve")
    costs = lesson.tours.costs
    assert costs.shape == (8 * 2, 5)
    _, log_prob = rollout(pupil.solver, lesson.instances, forced=lesson.tours.actions)
    expected = ((costs - costs.mean(1, keepdim=True)) * log_prob).mean()
    torch.testing.assert_close(pupil.loss(lesson), expected, rtol=1e-4, atol=1e-6)


def test_a_step_is_adams_with_the_papers_settings(problem):
    ours = Learner(small_solver(problem).double(), FineTuning(), LearnerSettings(augmentation=1), seed=7)
    twin = small_solver(problem).double()
    adam = torch.optim.Adam(twin.parameters(), lr=1e-4, weight_decay=1e-6)
    batch = random_instances(problem, 4, 6, seed=1)
    batch = replace(batch, coords=batch.coords.double())
    for _ in range(3):
        tours = twin.solve(batch, generator=ours.generator("solve"))
        _, log_prob = rollout(twin, batch, forced=tours.actions)
        adam.zero_grad()
        ((tours.costs - tours.costs.mean(1, keepdim=True)) * log_prob).mean().backward()
        adam.step()
        ours.learn(batch)
    compared = 0
    for (name, a), b in zip(ours.solver.named_parameters(), twin.parameters(), strict=True):
        if name.startswith("layers") and name.endswith(("combine.bias", "contract.bias")):
            continue  # a norm follows and takes them out: their gradient is rounding, which Adam magnifies
        torch.testing.assert_close(a, b, rtol=0, atol=1e-9)
        compared += 1
    assert compared > 20


def test_a_lesson_of_the_best_alone_still_has_the_originals_with_all_their_tours(problem):
    whole = learner(problem).attempt(random_instances(problem, 3, 6, seed=1), "solve")
    part = whole.best_only(small_solver(problem)).map(torch.clone)
    for lesson in (whole, part):
        instances, tours = lesson.originals()
        assert instances.coords.equal(whole.instances.coords[:3])
        assert tours.actions.equal(whole.tours.actions[:3])
        assert tours.costs.equal(whole.tours.costs[:3])
    assert part.best()[1].costs.equal(whole.best()[1].costs)


@pytest.mark.parametrize("whole", [False, True])
def test_on_a_device_that_captures_nothing_is_captured_for_methods_that_need_whole_lessons(problem, whole, monkeypatch):
    """For then a lesson's gradients, which belong to no capture, are still there."""
    pupil = learner(problem)
    monkeypatch.setattr(pupil.solver, "capturable", lambda nodes: True)
    monkeypatch.setattr(pupil, "_graphs", object())
    monkeypatch.setattr(pupil, "best_only", not whole)
    assert pupil.captures(9) != whole


def test_learning_augments_eightfold_by_default(problem):
    seen = []

    class Watch(Method):
        def remember(self, learner, lesson):
            seen.append(lesson)

    batch = random_instances(problem, 2, 5, seed=1)
    progress = learner(problem, Watch()).learn(batch)
    assert seen[0].instances.coords.equal(augment(batch).coords)
    best = seen[0].tours.costs.view(8, 2, -1).amin((0, 2))
    torch.testing.assert_close(progress.cost, best.mean())


def test_what_is_remembered_is_remembered_after_the_step(problem):
    seen = []

    class Watch(Method):
        def replay(self, learner, lesson):
            seen.append([parameter.clone() for parameter in learner.solver.parameters()])

        def remember(self, learner, lesson):
            seen.append([parameter.clone() for parameter in learner.solver.parameters()])

    pupil = learner(problem, Watch())
    pupil.learn(random_instances(problem, 2, 5, seed=1))
    before, after = seen
    assert not all(a.equal(b) for a, b in zip(before, after, strict=True))
    assert all(a.equal(b) for a, b in zip(after, pupil.solver.parameters(), strict=True))


def test_a_replayed_loss_is_added_and_hooks_run_in_order(problem):
    calls = []

    class Replay(Method):
        def replay(self, learner, lesson):
            calls.append(("replay", learner.batches))
            return sum(parameter.sum() for parameter in learner.solver.parameters())

        def remember(self, learner, lesson):
            calls.append(("remember", learner.batches))

    batch = random_instances(problem, 2, 5, seed=1)
    plain, replaying = learner(problem), learner(problem, Replay())
    plain.learn(batch)
    total = sum(parameter.sum() for parameter in replaying.solver.parameters()).item()
    with_replay = replaying.learn(batch)
    assert calls == [("replay", 0), ("remember", 0)]
    assert with_replay.loss.item() == pytest.approx(learner(problem).learn(batch).loss.item() + total, rel=1e-5)
    assert not same(plain, replaying)


@pytest.mark.parametrize("best_only", [False, True])
def test_a_pull_is_added_to_the_loss_of_every_lesson_and_sees_all_of_it(problem, best_only):
    seen = []

    class Pull(Method):
        def pull(self, learner):
            def loss(lesson):
                seen.append(lesson.tours.costs.shape)
                return learner.solver.key.weight.sum()

            return loss

    batch = random_instances(problem, 2, 5, seed=1)
    pupil = learner(problem, Pull())
    pupil.best_only = best_only
    solvers_own = learner(problem).learn(batch).loss
    own, again = (pupil.loss(pupil.attempt(batch, "solve")) for _ in range(2))
    assert own.equal(again)
    torch.testing.assert_close(own, solvers_own + pupil.solver.key.weight.sum())
    assert pupil.learn(batch).loss.equal(own.detach())
    assert seen == [(16, 5)] * 3


def test_a_seed_fixes_learning_bit_for_bit(problem):
    one, other = learner(problem), learner(problem)
    for seed in range(3):
        batch = random_instances(problem, 2, 6, seed)
        assert one.learn(batch).loss.equal(other.learn(batch).loss)
    assert same(one, other)


def test_going_on_from_a_state_equals_never_having_stopped(problem):
    whole, first = learner(problem), learner(problem)
    batches = [random_instances(problem, 2, 6, seed) for seed in range(4)]
    for batch in batches[:2]:
        whole.learn(batch)
        first.learn(batch)
    second = learner(problem)
    second.load_state_dict(first.state_dict())
    for batch in batches[2:]:
        whole.learn(batch)
        second.learn(batch)
    assert same(whole, second)
    assert second.batches == 4


def test_learning_halves_the_excess_over_the_optimum_of_what_it_practises():
    """Sixteen small instances again and again; their optima are found by trying every tour."""
    pupil = learner("tsp", learning_rate=1e-2, augmentation=1)
    batch = random_instances("tsp", 16, 7, seed=3)
    every = torch.tensor([(0, *rest) for rest in permutations(range(1, 7))]).expand(16, -1, -1)
    optimum = pupil.solver.rules.cost(batch, every).min(1).values.mean().item()
    excess = []
    for _ in range(60):
        tours = pupil.solver.solve(batch, generator=pupil.generator("look"))
        excess.append(tours.costs.mean().item() - optimum)
        pupil.learn(batch)
    assert 0 < sum(excess[-5:]) / 5 < 0.5 * excess[0]


def test_bf16_has_nearly_the_same_gradient_and_keeps_the_decoder_exact(problem):
    batch = random_instances(problem, 8, 6, seed=1)
    exact, coarse = learner(problem), learner(problem, precision="bf16")
    gradients = []
    for each in (exact, coarse):
        encoding = each.encode(batch)
        assert all(tensor.dtype == torch.float32 for tensor in encoding.tensors)
        tours = exact.solver.solve(batch, generator=exact.generator("solve"))
        reinforce(each.solver, Lesson(batch, tours, encoding)).backward()
        gradients.append(torch.cat([parameter.grad.flatten() for parameter in each.solver.parameters()]))
    assert not gradients[0].equal(gradients[1])
    assert torch.cosine_similarity(*gradients, dim=0) > 0.99


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"learning_rate": 0.0}, "must be positive"),
        ({"learning_rate": float("nan")}, "must be positive"),
        ({"learning_rate": float("inf")}, "must be positive"),
        ({"weight_decay": -1.0}, "must not be negative"),
        ({"augmentation": 4}, "1 or 8"),
        ({"precision": "bf61"}, "Did you mean 'bf16'"),
    ],
)
def test_settings_that_cannot_learn_are_refused(wrong, message):
    with pytest.raises(DreeError, match=message):
        LearnerSettings(**wrong)


def test_methods_go_by_name_or_by_dotted_path():
    assert method_class("fine-tuning") is FineTuning
    assert method_class("dree.lifelong.methods.base.Method") is Method
    with pytest.raises(DreeError, match="Did you mean 'fine-tuning'"):
        method_class("finetuning")
    with pytest.raises(DreeError, match="cannot be imported"):
        method_class("no.such.Method")
    with pytest.raises(DreeError, match="is not a method"):
        method_class("dree.lifelong.Learner")


def test_a_method_whose_file_has_a_mistake_is_refused_with_its_line(tmp_path, monkeypatch):
    (tmp_path / "mistaken_method.py").write_text("import dree\n\nclass Mine(:\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(DreeError, match=r"invalid syntax \(.*mistaken_method\.py, line 3\)"):
        method_class("mistaken_method.Mine")


def test_a_method_whose_module_fails_is_refused_with_the_cause_and_what_shows_where(tmp_path, monkeypatch):
    (tmp_path / "failing_method.py").write_text("sizes = {}\nsizes['U']\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(DreeError, match=r"cannot be imported \(KeyError: 'U'\).*python -c 'import failing_method'"):
        method_class("failing_method.Mine")


@pytest.mark.parametrize(
    "hook", ["begin", "choose", "pull", "replay", "remember", "end", "state_dict", "load_state_dict"]
)
def test_an_error_in_any_hook_of_a_users_method_says_which_and_of_what(hook):
    def fail(self, *given):
        raise ZeroDivisionError("division by zero")

    mine = learner("tsp", type("Mine", (Method,), {hook: fail})())
    stream = DriftStream("tsp", ("U", "R"), 4, sizes=(("U", 5), ("R", 7)))

    def learn_and_restore():
        learn_epoch(mine, stream, 1, 2, lambda batch: False)
        mine.load_state_dict(mine.state_dict())

    with pytest.raises(ZeroDivisionError) as caught:
        learn_and_restore()
    (note,) = caught.value.__notes__
    assert note.startswith(f"This was in the hook '{hook}' of your method test_learner.Mine. dree.testing.check_method")


def test_an_error_in_what_pull_gives_says_so_and_what_the_user_can_put_right_needs_no_note():
    class Pulled(Method):
        error: Exception

        def pull(self, learner):
            return self._distance

        def _distance(self, lesson):
            raise self.error

    for error, notes in ((ZeroDivisionError(), 1), (DreeError("Say what to do."), 0), (torch.OutOfMemoryError(), 0)):
        method = Pulled()
        method.error = error
        with pytest.raises(type(error)) as caught:
            learner("tsp", method).learn(random_instances("tsp", 2, 5, seed=1))
        assert len(getattr(caught.value, "__notes__", [])) == notes


def test_an_error_in_a_hook_within_a_hook_has_one_note_of_the_inner_one():
    """As where `replay` asks for the loss of an old lesson, and so for its pull."""
    mine = type("Mine", (Method,), {})()
    with pytest.raises(ZeroDivisionError) as caught, in_hook(mine, "replay"), in_hook(mine, "pull"):
        raise ZeroDivisionError
    (note,) = caught.value.__notes__
    assert note.startswith("This was in the hook 'pull'")


@pytest.mark.parametrize(
    ("hook", "instead"),
    [("replay", "Return None while there is nothing to replay"), ("pull", "return None in place of a function")],
)
@pytest.mark.parametrize(
    ("loss", "fault"),
    [
        (0.5, "a float"),
        (sum([]), "an int"),
        (torch.tensor(0.5), "a tensor without gradient"),
        (torch.zeros(2, requires_grad=True), r"a tensor of shape \[2\]"),
    ],
)
def test_what_is_no_loss_is_refused_with_the_name_of_the_hook(hook, instead, loss, fault):
    gives = {"replay": lambda *_: loss, "pull": lambda *_: lambda lesson: loss}[hook]
    mine = type("Mine", (Method,), {hook: gives})()
    with pytest.raises(DreeError, match=rf"'{hook}' of the method test_learner\.Mine returned {fault}.* {instead}"):
        learner("tsp", mine).learn(random_instances("tsp", 2, 5, seed=1))


@pytest.mark.parametrize(("state", "fault"), [({"seen": {1, 2}}, "a set at /seen"), (None, "None"), ([1], "a list")])
def test_a_state_that_no_checkpoint_can_hold_is_refused_with_the_name_of_the_hook(state, fault):
    mine = type("Mine", (Method,), {"state_dict": lambda _: state})()
    with pytest.raises(DreeError) as caught:
        learner("tsp", mine).state_dict()
    assert str(caught.value) == (
        f"The hook 'state_dict' of the method test_learner.Mine returned {fault}. It must be a dict of what a "
        "checkpoint can hold: tensors, numbers, texts, None, and lists and dicts of these."
    )


def test_the_settings_of_a_learner_cannot_be_changed_behind_its_optimisers_back():
    learner = Learner(small_solver("tsp"), FineTuning())
    with pytest.raises(AttributeError):
        learner.settings = LearnerSettings(learning_rate=1e-9)
    assert learner.optimiser.param_groups[0]["lr"] == learner.settings.learning_rate
