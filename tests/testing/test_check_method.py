"""check_method accepts all our methods, and refuses methods with a single thing wrong."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from functools import partial

import pytest
import torch

from dree.errors import DreeError
from dree.lifelong import METHODS, FineTuning, Lesson, Li, Method, make_method
from dree.lifelong.methods.base import NoOptions
from dree.problems import Instances
from dree.tasks import principal
from dree.testing import check_method

EARLY = {  # so that everything a method can do happens within eight batches
    "dree": {"buffer": 4, "upper": 2.0},
    "llr-bc": {"buffer": 6, "sample": 4},
    "li": {"refresh_every": 1, "buffer": 2},
    "mt-cumulative": {"segments": 2},
}


@pytest.mark.parametrize("name", METHODS)
def test_our_methods_keep_to_it(name, problem):
    check_method(lambda: make_method(name, EARLY.get(name)), problem=problem)


@pytest.mark.parametrize("name", ["fine-tuning", "dree"])
def test_methods_without_epochs_can_be_stopped_after_any_batch(name):
    check_method(lambda: make_method(name, EARLY.get(name)), problem="cvrp", within_epochs=True)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("dree", {"without": "pir"}),
        ("dree", {"without": "br"}),
        ("dree", {"without": "ee"}),
        ("dree", {"divergence": "literal", "alpha": 1.0, "lower": 1.0, "upper": 1.0}),
        ("dree", {"buffer": 8, "buffer_bytes": 8000, "upper": 2.0}),
        ("llr-bc", {"buffer_every": 2, "divergence": "literal"}),
    ],
)
def test_so_do_their_variants(name, options):
    check_method(lambda: make_method(name, options), problem="cvrp")


class Remembering(Method):
    """Learns the last batch once more: a sound method that the broken ones below are made of."""

    def __init__(self, options: None = None) -> None:
        super().__init__(options)
        self.last: Instances | None = None

    def replay(self, learner, lesson):
        return None if self.last is None else learner.loss(learner.attempt(self.last, "again"))

    def remember(self, learner, lesson):
        self.last = lesson.instances[: len(lesson.instances) // lesson.copies]

    def state_dict(self):
        return {"last": None if self.last is None else dict(vars(self.last))}

    def load_state_dict(self, state, learner):
        self.last = None if state["last"] is None else Instances(**state["last"])


class StateElsewhere(Remembering):
    def state_dict(self):
        return {}

    def load_state_dict(self, state, learner):
        pass


class ForgetsOnLoading(Remembering):
    def load_state_dict(self, state, learner):
        pass


class ForgetsTheEpoch(Remembering):
    """Goes by something that was set in the middle of an epoch: sound after epochs, not within."""

    weight = 0.0

    def begin(self, learner, stream, epoch):
        self.weight = 1.0

    def replay(self, learner, lesson):
        loss = super().replay(learner, lesson)
        return None if loss is None else self.weight * loss


class SharedMemory(Method):
    kept: list[Instances] = []  # noqa: RUF012

    def replay(self, learner, lesson):
        return learner.loss(learner.attempt(self.kept[0], "again")) if self.kept else None

    def remember(self, learner, lesson):
        self.kept.append(lesson.instances)


class GlobalDice(Remembering):
    def remember(self, learner, lesson):
        if torch.rand(1) < 2:
            super().remember(learner, lesson)


class GlobalChoice(FineTuning):
    def choose(self, stream, epoch, generator):
        return stream.task(random.randint(1, epoch))


class Unrepeatable(Remembering):
    def replay(self, learner, lesson):
        loss = super().replay(learner, lesson)
        return None if loss is None else int.from_bytes(os.urandom(4), "little") / 2**32 * loss


class KeepsTheGraph(Remembering):
    def remember(self, learner, lesson):
        self.encoding = lesson.encoding.tensors[0]

    def state_dict(self):
        return {**super().state_dict(), "encoding": getattr(self, "encoding", None)}


class KeepsASet(Remembering):
    def state_dict(self):
        return {**super().state_dict(), "sizes": {1, 2}}


class ManyLosses(Remembering):
    def replay(self, learner, lesson):
        return lesson.encoding.tensors[0].flatten()[:2]


class NotFinite(Remembering):
    def replay(self, learner, lesson):
        return learner.solver.key.weight.sum() * float("nan")


class NothingYet(Remembering):
    def replay(self, learner, lesson):
        return sum([])


class NoFiniteGradient(Remembering):
    def replay(self, learner, lesson):
        return (learner.solver.key.weight.sum() * 0).sqrt()


class NoGradient(Remembering):
    def replay(self, learner, lesson):
        loss = super().replay(learner, lesson)
        return None if loss is None else loss.detach()


class OwnBackward(Remembering):
    def replay(self, learner, lesson):
        loss = super().replay(learner, lesson)
        if loss is not None:
            loss.backward()


class OwnStep(FineTuning):
    def replay(self, learner, lesson):
        with torch.no_grad():
            learner.solver.key.weight *= 0.5


class ForgotTheGraph(Remembering):
    """Has a value, and a gradient for something that is not the solver's."""

    def replay(self, learner, lesson):
        loss = super().replay(learner, lesson)
        return None if loss is None else loss.detach().clone().requires_grad_()


class NothingButAValue(Remembering):
    def replay(self, learner, lesson):
        loss = super().replay(learner, lesson)
        return None if loss is None else 1 + 0 * loss


class Pulling(FineTuning):
    """Keeps some weights small: a sound method that those below are made of."""

    def pull(self, learner):
        self.weight = learner.solver.key.weight
        return self.size

    def size(self, lesson):
        return self.weight.square().sum()


class PullsAtNothing(Pulling):
    def size(self, lesson):
        return self.weight.detach().sum()


class PullChangesTheLesson(Pulling):
    def size(self, lesson):
        return lesson.instances.coords.mul_(0.5).sum() * self.weight.sum()


class PullsAnew(Pulling):
    def pull(self, learner):
        return partial(super().pull(learner))


class PullsAnewWhereNothingIsCaptured(PullsAnew):
    whole_lessons = True

    def size(self, lesson):
        return self.weight.square().sum() * (2 if self.weight.sum() > 0 else 1)


class PullAsksForANumber(Pulling):
    def size(self, lesson):
        return super().size(lesson) / max(self.weight.detach().norm().item(), 1.0)


class PullDecides(Pulling):
    def size(self, lesson):
        return super().size(lesson) * (2 if lesson.tours.costs.mean() > 1 else 1)


class PullMakesAList(Pulling):
    def size(self, lesson):
        return super().size(lesson) * len(lesson.tours.costs.tolist())


class PullsSoundly(Pulling):
    """What is like that which waits for the device, but does not."""

    def size(self, lesson):
        costs = lesson.tours.costs
        costs = costs.to(torch.float64).to(costs).to(device=costs.device, dtype=torch.float32).to(costs.device)
        rows = torch.arange(len(costs), device=costs.device)
        best = costs[rows, costs.argmin(1)] + costs[0, 0] + costs[:, :1][..., None].mean()
        return super().size(lesson) * torch.where(best > 0, 1.0, 2.0).mean()


class ChangesTheLesson(FineTuning):
    def remember(self, learner, lesson: Lesson):
        lesson.instances.coords.mul_(0.5)


class OwnRate(FineTuning):
    def begin(self, learner, stream, epoch):
        learner.optimiser.param_groups[0]["lr"] = 1e-5


class FromNowhere(FineTuning):
    def choose(self, stream, epoch, generator):
        return principal("U", stream.problem, 6)


class WrongProblem(FineTuning):
    def choose(self, stream, epoch, generator):
        return principal("U", "cvrp", 5)


class NoTask(FineTuning):
    def choose(self, stream, epoch, generator):
        return stream.task(epoch).name


class ReportsATensor(FineTuning):
    def report(self):
        return {"size": torch.tensor(3.0)}


class ReportsTheLoss(FineTuning):
    def report(self):
        return {"loss": 1.0}


class ReportsInfinity(FineTuning):
    def report(self):
        return {"size": float("inf")}


class ReportsAList(FineTuning):
    def report(self):
        return [1.0]


class TakesNoOptions(FineTuning):
    def __init__(self):
        super().__init__()


class ForgetsItsOptions(FineTuning):
    def __init__(self, options=None):
        pass


class NoBatches(FineTuning):
    batches_per_epoch = 0


class PlainOptions(FineTuning):
    options_class = dict


@dataclass(frozen=True)
class Undecided:
    rate: float


class NoDefaults(FineTuning):
    options_class = Undecided


@pytest.mark.parametrize("method", [Remembering, Pulling, PullsAnewWhereNothingIsCaptured, PullsSoundly])
def test_the_methods_that_the_broken_ones_are_made_of_keep_to_it(method):
    check_method(method, problem="tsp", within_epochs=True)


@pytest.mark.parametrize(
    ("mutant", "message"),
    [
        (StateElsewhere, "stopped after every epoch .* they differ in the loss of epoch 2, batch 1"),
        (ForgetsOnLoading, "stopped after every epoch .* they differ in the loss of epoch 2, batch 1"),
        (SharedMemory, "Two runs of SharedMemory with one seed differ in the loss of epoch 1, batch 1"),
        (GlobalDice, "GlobalDice.remember draws from the global random state of torch"),
        (GlobalChoice, "GlobalChoice.choose draws from the global random state of random"),
        (Unrepeatable, "Two runs of Unrepeatable with one seed differ in the loss of epoch 1, batch 2"),
        (KeepsTheGraph, "a tensor with a gradient at /encoding"),
        (KeepsASet, r"KeepsASet.state_dict\(\) has a set at /sizes; a checkpoint holds tensors, numbers"),
        (ManyLosses, r"gives a loss of shape \[2\]; it must be a single number"),
        (NotFinite, "gives the loss nan, which is not finite"),
        (NothingYet, "gives an int, not a tensor. Return None while there is nothing to replay"),
        (NoFiniteGradient, "gives a loss whose gradient is not finite"),
        (NoGradient, "gives a loss without a gradient"),
        (OwnBackward, "changes the solver's gradients in place"),
        (OwnStep, "changes the solver's weights in place"),
        (ForgotTheGraph, "ForgotTheGraph.replay gives losses whose gradient is zero for every weight of the solver"),
        (NothingButAValue, "NothingButAValue.replay gives losses whose gradient is zero"),
        (PullsAnew, "PullsAnew.pull gives another function each time"),
        (PullAsksForANumber, r"PullAsksForANumber.pull reads values of a tensor on the host \(item\)"),
        (PullDecides, r"PullDecides.pull reads values of a tensor on the host \(__bool__\)"),
        (PullMakesAList, r"reads values of a tensor on the host \(tolist\)"),
        (PullsAtNothing, "PullsAtNothing.pull gives a loss without a gradient"),
        (PullChangesTheLesson, "PullChangesTheLesson.pull changes the lesson in place"),
        (ChangesTheLesson, "ChangesTheLesson.remember changes the lesson in place"),
        (OwnRate, "OwnRate.begin changes the optimiser's settings"),
        (FromNowhere, r"the task U6, whose instances \(tsp, 6 customers\) are of no task of the stream"),
        (WrongProblem, r"the task U5, whose instances \(cvrp, 5 customers\)"),
        (NoTask, "choose gives a str, not a Task"),
        (ReportsATensor, "has 'size': tensor.*; it must be a plain number"),
        (ReportsTheLoss, "a name that the log uses itself"),
        (ReportsInfinity, "which is not finite"),
        (ReportsAList, r"ReportsAList.report\(\) gives a list, not a dict"),
        (NoBatches, "batches_per_epoch is 0; it must be a whole number of at least 1"),
    ],
)
def test_a_method_with_one_thing_wrong_is_refused(mutant, message):
    with pytest.raises(AssertionError, match=message) as caught:
        check_method(mutant, problem="tsp")
    assert caught.value.__notes__[-1] == "This was in check_method, tsp, DriftStream, augmentation 8."


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("__getitem__", lambda w: w[w > 0]),
        ("__getitem__", lambda w: w[..., w[0] > 0]),
        ("__getitem__", lambda w: w[w[:, 0].argmin()]),
        ("masked_select", lambda w: w.masked_select(w > 0)),
        ("masked_select", lambda w: torch.masked_select(w, w > 0)),
        ("unique", lambda w: w.unique()),
        ("unique", lambda w: torch.unique(w, return_counts=True)[0]),
        ("unique_consecutive", lambda w: w.unique_consecutive()),
        ("equal", lambda w: w * torch.equal(w, w)),
        ("allclose", lambda w: w * w.allclose(w)),
        ("is_nonzero", lambda w: w * torch.is_nonzero(w.sum())),
        ("argwhere", lambda w: w * len(w.argwhere())),
        ("__contains__", lambda w: w * (1.0 in w)),
        ("to", lambda w: w.to("cpu")),
        ("to", lambda w: w.to(device="cpu")),
    ],
)
def test_a_pull_that_waits_for_a_gpu_is_refused(name, read):
    class Reads(Pulling):
        def size(self, lesson):
            return read(self.weight).square().sum()

    with pytest.raises(AssertionError, match=rf"Reads.pull reads values of a tensor on the host \({name}\)"):
        check_method(Reads, problem="tsp")
    SharedMemory.kept.clear()


def test_what_is_set_in_an_epoch_is_only_missed_within_epochs():
    check_method(ForgetsTheEpoch, problem="tsp")
    with pytest.raises(AssertionError, match=r"stopped after every batch .* in the loss of epoch 1, batch 2"):
        check_method(ForgetsTheEpoch, problem="tsp", within_epochs=True)


def test_a_class_is_made_as_runs_make_it():
    with pytest.raises(DreeError, match=r"'TakesNoOptions' cannot be made: its __init__ must take \(self, options\)"):
        check_method(TakesNoOptions)
    with pytest.raises(DreeError, match="dict must be a frozen dataclass"):
        check_method(PlainOptions)
    with pytest.raises(DreeError, match=r"'rate' has no default. Give it one in test_check_method\.Undecided"):
        check_method(NoDefaults)
    with pytest.raises(AssertionError, match=r"options is \{\}, which is no dataclass"):
        check_method(lambda: FineTuning({}))
    with pytest.raises(AssertionError, match=r"ForgetsItsOptions has no options: .* call super\(\).__init__"):
        check_method(ForgetsItsOptions)


def test_an_instance_is_no_class():
    with pytest.raises(AssertionError, match=r"make\(\) gives a NoOptions, not a Method"):
        check_method(NoOptions)


def test_where_it_went_wrong_is_said():
    class Late(FineTuning):
        def end(self, learner, stream, epoch):
            if epoch == 3 and not stream.can_sample_past:
                raise KeyError("gone")

    with pytest.raises(KeyError, match="gone") as caught:
        check_method(Late, problem="cvrp")
    assert caught.value.__notes__ == [
        "This was in epoch 3.",
        "This was in check_method, cvrp, UnrepeatableStream, augmentation 1.",
    ]


def test_a_remembered_batch_may_be_chosen_where_the_past_cannot_be_sampled(monkeypatch):
    """Li's choice is accepted because its instances were learned before, and only then."""
    chosen = []
    choose = Li.choose
    monkeypatch.setattr(Li, "choose", lambda *all_of_it: chosen.append(choose(*all_of_it)) or chosen[-1])
    check_method(lambda: make_method("li", EARLY["li"]), problem="tsp")
    assert "remembered" in {task.name for task in chosen}


@pytest.mark.parametrize("name", METHODS)
def test_our_methods_keep_to_it_with_invit_too(name, problem):
    check_method(lambda: make_method(name, EARLY.get(name)), problem=problem, base="invit")
