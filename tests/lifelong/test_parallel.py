"""Two processes that learn together are as one: the same weights in both, and those of one process alone."""

from __future__ import annotations

import multiprocessing
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from conftest import random_instances, small_solver
from dree.experiments.processes import end_with_parent
from dree.lifelong import DREE, FineTuning, Learner, LearnerSettings, Lesson
from dree.lifelong.epoch import learn_epoch
from dree.lifelong.methods.dree import DREEOptions
from dree.lifelong.methods.llr_bc import LLRBC, LLRBCOptions
from dree.lifelong.parallel import Together, joined
from dree.problems import Instances, Tours, augment
from dree.randomness import named_generator
from dree.tasks import make_stream

STEPS = 6
SETTINGS = LearnerSettings(learning_rate=1e-3, augmentation=8)
METHODS = {
    "dree": lambda: DREE(DREEOptions(buffer=4, upper=2.0)),
    "dree, in little memory": lambda: DREE(DREEOptions(buffer=4, upper=2.0, buffer_bytes=7_000)),
    "llr-bc": lambda: LLRBC(LLRBCOptions(buffer=40, sample=3)),
}


class ByInstance(Learner):
    """A learner whose tours of an instance depend on the instance alone, so that it does not matter who solves it."""

    def _solve(self, instances: Instances, generator: torch.Generator) -> Lesson:
        tours = []
        for row in range(len(instances)):
            one = instances[row : row + 1]
            own = named_generator(self.seed, repr(one.coords.tolist()), self.batches)
            tours.append(self.solver.solve(augment(one, 8), generator=own))
        in_order = torch.arange(8 * len(tours)).view(len(tours), 8).T.flatten()  # copy-major
        actions, costs = (torch.cat([getattr(each, name) for each in tours]) for name in ("actions", "costs"))
        augmented = augment(instances, 8)
        return Lesson(augmented, Tours(actions[in_order], costs[in_order]), self.encode(augmented), 8)


def batch(problem: str, number: int) -> Instances:
    return random_instances(problem, 8, 7, seed=number)


def fine_tuned(together: Together) -> dict[str, torch.Tensor]:
    """Some steps in double precision, in which rounding is no matter."""
    learner = ByInstance(small_solver("tsp").double(), FineTuning(), SETTINGS)
    learner.together = together
    shown = []
    for number in range(STEPS):
        new = batch("tsp", number)
        progress = learner.learn(replace(new, coords=new.coords.double()))
        shown.append(torch.stack([progress.loss, progress.cost]))
    return {"shown": torch.stack(shown), **learner.solver.state_dict()}


def with_method(name: str, together: Together) -> dict[str, object]:
    """The learner's state after some steps of a method that remembers."""
    learner = Learner(small_solver("cvrp"), METHODS[name](), SETTINGS)
    learner.together = together
    stream = make_stream("drift", "cvrp", ["U", "E"], 4, sizes={"U": 10, "E": 10})
    for epoch in (1, 2, 3):
        learner.method.begin(learner, stream, epoch)
        for number in range(4):
            learner.learn(batch("cvrp", 10 * epoch + number))
        learner.method.end(learner, stream, epoch)
    return learner.state_dict() | {"report": learner.method.report()}


def whole_again(together: Together) -> bool:
    new = batch("cvrp", 0)
    again = together.whole(together.share(new))
    return all(torch.equal(*pair) for pair in zip(again.tensors(), new.tensors(), strict=True))


def one_of_two(rank: int, meeting: Path, out: Path) -> None:
    end_with_parent()
    torch.set_num_threads(1)
    with joined(rank, 2, meeting, torch.device("cpu")) as together:
        states = {name: with_method(name, together) for name in METHODS}
        torch.save({"fine": fine_tuned(together), "whole": whole_again(together), **states}, out / f"{rank}.pt")


@pytest.fixture(scope="module")
def both(tmp_path_factory) -> list[dict[str, dict[str, torch.Tensor]]]:
    """What two processes have come to."""
    out = tmp_path_factory.mktemp("both")
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=one_of_two, args=(rank, out / "meeting", out)) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        assert process.exitcode == 0
    return [torch.load(out / f"{rank}.pt") for rank in range(2)]


class BesideOneThatFails(Together):
    """One of two processes, of which the other's loss is not a number."""

    size = 2

    def mean(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor * float("nan")


@pytest.mark.parametrize(("together", "by_replay"), [(Together(), True), (BesideOneThatFails(), False)])
def test_replay_is_blamed_only_by_a_process_that_learns_alone(together, by_replay):
    stream = make_stream("drift", "cvrp", ["U", "E"], 4, sizes={"U": 10, "E": 10})
    learner = Learner(small_solver("cvrp"), FineTuning(), SETTINGS)
    learner.method.replay = lambda *_: None if together.size == 2 else learner._flat.weights.sum() * float("nan")
    learner.together = together
    epoch = learn_epoch(learner, stream, 1, 4, lambda _: False)
    assert (epoch.broken, epoch.by_replay) == (1, by_replay)


def test_fine_tuning_by_two_processes_is_that_by_one(both):
    alone = fine_tuned(Together())
    for each in both:
        torch.testing.assert_close(each["fine"], alone, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", METHODS)
def test_both_have_the_same_weights_and_decide_the_same(both, name):
    first, second = (each[name] for each in both)
    for part, weights in first["solver"].items():
        assert torch.equal(weights, second["solver"][part]), part
    assert first["report"] == second["report"]
    assert first["method"].get("seen") == second["method"].get("seen")
    if name == "dree, in little memory":
        assert first["report"]["buffered"] == first["method"]["buffer"]["capacity"] < 4
    else:
        assert first["report"]["buffered"] == with_method(name, Together())["report"]["buffered"]


def test_what_each_remembers_is_its_share(both):
    first, second = (each["dree"]["method"]["buffer"]["items"] for each in both)
    assert len(first) == len(second) == 4
    for mine, theirs in zip(first, second, strict=True):
        assert mine["actions"].shape == theirs["actions"].shape
        assert len(mine["actions"]) == 4
        assert not torch.equal(mine["instances"]["coords"], theirs["instances"]["coords"])
    assert both[0]["dree"]["method"]["due"] == both[1]["dree"]["method"]["due"]


def test_shares_make_a_whole(both):
    assert all(each["whole"] for each in both)
