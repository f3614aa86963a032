"""An epoch: which tasks and instances are drawn, in which order hooks run, and what is reported."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from conftest import small_solver
from dree.errors import DreeError
from dree.lifelong import METHODS, FineTuning, Learner, LearnerSettings, make_method
from dree.lifelong import epoch as epoch_module
from dree.lifelong.epoch import Draws, learn_epoch
from dree.lifelong.learner import Progress
from dree.problems import Instances
from dree.randomness import named_generator
from dree.tasks import DriftStream, Task

SIZES = {"E": 4, "C": 5, "G": 6, "U": 7}
STREAM = DriftStream("tsp", tuple(SIZES), 3, sizes=tuple(SIZES.items()))  # each epoch has a principal task


class Watched(Learner):
    """Learns nothing: batch n has loss n and cost 10 n."""

    def __init__(self, seed: int = 0, method=None) -> None:
        super().__init__(small_solver("tsp"), method or FineTuning(), LearnerSettings(augmentation=1), seed)
        self.given: list[torch.Tensor] = []
        self.did: list[tuple[str, int]] = []

    def begin(self, stream, epoch):
        self.did.append(("begin", epoch))
        super().begin(stream, epoch)

    def learn(self, new):
        self.given.append(new.coords)
        number = torch.tensor(float(len(self.given)))
        self.did.append(("learn", len(self.given)))
        return Progress(number, 10 * number, number)

    def end(self, stream, epoch):
        self.did.append(("end", epoch))
        super().end(stream, epoch)


def epoch_of(learner, epoch, batches=3, stream=STREAM):
    return learn_epoch(learner, stream, epoch, 2, lambda batch: batch < batches)


def test_an_epoch_begins_learns_its_batches_and_ends():
    learner = Watched()
    done = epoch_of(learner, 2)
    assert learner.did == [("begin", 2), ("learn", 1), ("learn", 2), ("learn", 3), ("end", 2)]
    assert (done.batches, done.loss, done.cost, done.broken) == (3, 2.0, 20.0, None)


def test_batches_are_of_the_epochs_own_task_unless_the_method_chooses():
    learner = Watched()
    for epoch in (1, 2, 3):
        epoch_of(learner, epoch, batches=1)
    assert [tuple(coords.shape) for coords in learner.given] == [(2, 5, 2), (2, 6, 2), (2, 7, 2)]


def test_every_batch_of_every_epoch_and_seed_has_its_own_instances_and_can_be_had_again():
    steady = DriftStream("tsp", ("U",) * 4, 3, sizes=(("U", 5),))  # or else other tasks would do

    def given(seed, epoch):
        learner = Watched(seed)
        epoch_of(learner, epoch, stream=steady)
        return [tuple(coords.flatten().tolist()) for coords in learner.given]

    every = [each for seed in (0, 1) for epoch in (1, 2) for each in given(seed, epoch)]
    assert len(set(every)) == len(every) == 12
    assert given(1, 2) == every[-3:]


class Counted(Task):
    """Instances that are numbered in the order in which they are drawn, and how many were drawn at once."""

    problem, name, size = "tsp", "counted", 2

    def __init__(self):
        self.draws = []

    def sample(self, batch, generator):
        first = sum(self.draws)
        self.draws.append(batch)
        return Instances(torch.arange(first, first + batch).float()[:, None, None].expand(-1, 2, 2))


def test_batches_of_one_task_are_drawn_together_more_and_more_of_them_where_that_is_faster(monkeypatch):
    monkeypatch.setitem(epoch_module.MOST_AT_ONCE, "cpu", 14)  # four batches of three, and not a fifth
    draws, task = Draws(Watched(), 1, batch_size=3), Counted()
    taken = [draws.take(task, batch) for batch in range(12)]
    assert [size // 3 for size in task.draws] == [1, 2, 4, 4, 4]
    assert torch.cat([each.coords[:, 0, 0] for each in taken]).tolist() == list(range(36))
    assert {len(each) for each in taken} == {3}


def test_another_task_is_drawn_anew_one_batch_first(monkeypatch):
    monkeypatch.setitem(epoch_module.MOST_AT_ONCE, "cpu", 4)
    draws, one, other = Draws(Watched(), 1, batch_size=1), Counted(), Counted()
    for batch, task in enumerate([one, one, one, other, one, other, other]):
        draws.take(task, batch)
    assert one.draws == [1, 2, 1]
    assert other.draws == [1, 1, 2]


def test_tasks_that_cannot_be_compared_are_the_same_only_if_they_are_one(monkeypatch):
    @dataclass(frozen=True)
    class Kept(Task):
        """As a method may have it: the instances that it remembers."""

        instances: Instances
        problem, name, size = "tsp", "kept", 2

        def sample(self, batch, generator):
            drawn.append(batch)
            return self.instances[torch.zeros(batch, dtype=torch.int64)]

    drawn: list[int] = []
    monkeypatch.setitem(epoch_module.MOST_AT_ONCE, "cpu", 4)
    draws, tasks = Draws(Watched(), 1, batch_size=1), [Kept(Instances(torch.rand(3, 2, 2))) for _ in range(2)]
    for batch, number in enumerate([0, 1, 1, 1, 0]):
        draws.take(tasks[number], batch)
    assert drawn == [1, 1, 2, 1]


@pytest.mark.parametrize("most", [1, 8])
def test_the_first_batches_of_an_epoch_do_not_depend_on_how_many_follow(monkeypatch, most):
    monkeypatch.setitem(epoch_module.MOST_AT_ONCE, "cpu", most)
    short, long = Watched(), Watched()
    epoch_of(short, 1, batches=4)
    epoch_of(long, 1, batches=9)
    for ours, theirs in zip(short.given, long.given, strict=False):
        assert ours.equal(theirs)
    assert len({tuple(each.flatten().tolist()) for each in long.given}) == 9


def test_a_task_is_chosen_by_numbers_that_no_other_batch_and_no_instance_is_drawn_by():
    numbers = []

    class Chooser(FineTuning):
        def choose(self, stream, epoch, generator):
            numbers.append(first_of(generator))
            return stream.task(epoch)

    learner = Watched(seed=3, method=Chooser())
    for epoch in (1, 2):
        epoch_of(learner, epoch)
    of_instances = [first_of(named_generator(3, "instances", epoch, batch)) for epoch in (1, 2) for batch in range(3)]
    assert len({*numbers, *of_instances}) == 12


@pytest.mark.parametrize(("choice", "fault"), [("U7", "a str"), (None, "None")])
def test_what_is_no_task_is_refused_with_the_name_of_the_hook(choice, fault):
    mine = type("Mine", (FineTuning,), {"choose": lambda *_: choice, "__module__": "mine"})()
    with pytest.raises(DreeError) as caught:
        epoch_of(Watched(method=mine), 1)
    assert str(caught.value) == (
        f"The hook 'choose' of the method mine.Mine returned {fault}. It must be a task: one of the stream's, such as "
        "stream.task(epoch), or a dree.tasks.Task of your own."
    )


def first_of(generator) -> int:
    return int(torch.randint(2**60, (1,), generator=generator))


def test_random_numbers_are_others_for_every_seed_batch_and_purpose():
    numbers = []
    for seed in (0, 1):
        learner = Watched(seed)
        for learner.batches in (0, 1):
            for purpose in ("solve", "replay"):
                numbers += [first_of(learner.generator(purpose)), first_of(learner.chance(f"{purpose}'s chance"))]
    assert len(set(numbers)) == len(numbers) == 16


@pytest.mark.parametrize(
    ("method", "batches"),
    [("fine-tuning", 164), ("li", 164), ("llr-bc", 164), ("dree", 128), ("mt-ref", 128), ("mt-cumulative", 128)],
)
def test_a_method_has_the_papers_number_of_batches(method, batches):
    assert METHODS.keys() == {"fine-tuning", "li", "llr-bc", "dree", "mt-ref", "mt-cumulative"}
    assert make_method(method).batches_per_epoch == batches
