"""check_stream accepts our streams and refuses broken ones, with a sentence that says why."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch

from dree.errors import DreeError
from dree.problems import Instances
from dree.tasks import DriftStream, PeriodicStream, SyntheticTask, Task, make_stream
from dree.testing import check_stream

SIZES = {"E": 6, "C": 5, "G": 6, "U": 4, "R": 4, "GM": 7}


@pytest.mark.parametrize("spec", ["text", "official"])
@pytest.mark.parametrize(("scenario", "epochs"), [("drift", 10), ("periodic", 12), ("sudden", 50)])
def test_our_streams_keep_to_it(problem, scenario, epochs, spec):
    check_stream(make_stream(scenario, problem, 1, epochs, spec, SIZES))


def test_a_stream_at_the_papers_scales_keeps_to_it(problem):
    check_stream(make_stream("drift", problem, 2, 5))


@dataclass(frozen=True)
class Wrapped(Task):
    """A task that passes everything on; mutants change one thing."""

    inner: SyntheticTask

    @property
    def problem(self) -> str:
        return self.inner.problem

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def size(self) -> int:
        return self.inner.size

    def sample(self, batch: int, generator: torch.Generator) -> Instances:
        return self.inner.sample(batch, generator)


class Oversized(Wrapped):
    @property
    def size(self):
        return self.inner.size + 1


class OneTooFew(Wrapped):
    def sample(self, batch, generator):
        return self.inner.sample(max(1, batch - 1), generator)


class GlobalDice(Wrapped):
    def sample(self, batch, generator):
        instances = self.inner.sample(batch, generator)
        return replace(instances, coords=torch.rand_like(instances.coords))


class Unrepeatable(Wrapped):
    drawn: list[int] = []  # noqa: RUF012

    def sample(self, batch, generator):
        self.drawn.append(1)
        instances = self.inner.sample(batch, generator)
        return replace(instances, coords=instances.coords / len(self.drawn))


class Outside(Wrapped):
    def sample(self, batch, generator):
        instances = self.inner.sample(batch, generator)
        return replace(instances, coords=instances.coords + 1)


class NotFinite(Wrapped):
    def sample(self, batch, generator):
        instances = self.inner.sample(batch, generator)
        return replace(instances, coords=instances.coords / 0 * 0)


class OtherProblem(Wrapped):
    def sample(self, batch, generator):
        return Instances(torch.rand(batch, self.size, 2, generator=generator))


class SaysOtherProblem(Wrapped):
    problem = "tsp"


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (Oversized, r"says that it has 5 customers, but samples instances with 4"),
        (OneTooFew, "gives 2 instances where 3 were asked for"),
        (GlobalDice, "draws from the global random state of torch"),
        (Unrepeatable, "different instances for the same generator"),
        (Outside, "must lie in the unit square"),
        (NotFinite, "cannot be solved. Instance 0, node 0"),
        (OtherProblem, "gives tsp instances, not cvrp"),
        (SaysOtherProblem, "says that its problem is 'tsp', in a stream of cvrp tasks"),
    ],
)
def test_tasks_that_are_not_what_they_say_are_refused(task, message):
    class Broken(DriftStream):
        def task(self, t):
            return task(super().task(t))

    with pytest.raises((AssertionError, DreeError), match=message):
        check_stream(Broken("cvrp", ("U", "R"), 3, sizes=(("U", 4), ("R", 6))))


class Restless(PeriodicStream):
    """Changes its task where it says it does not."""

    def task(self, t):
        return super().task(self.epochs - t if t in (1, 3) else t)


class NeverEnds(PeriodicStream):
    def ends(self, t):
        return False


class BeginsLate(PeriodicStream):
    def begins(self, t):
        return super().begins(t) or t == 2


class Endless(PeriodicStream):
    def task(self, t):
        return super().task(min(t, self.epochs))


class Untested(PeriodicStream):
    def tests(self):
        return {}


class ActiveFromZero(PeriodicStream):
    def active(self, name):
        return [(first - 1, last) for first, last in super().active(name)]


class ActiveTooLong(PeriodicStream):
    def active(self, name):
        return [(first, last + 1) for first, last in super().active(name)]


class Idle(PeriodicStream):
    def active(self, name):
        return [(first + 1, last) for first, last in super().active(name)]


class Overlapping(PeriodicStream):
    def active(self, name):
        return super().active(name) * 2


class KnowsAll(PeriodicStream):
    def active(self, name):
        return super().active(name) if name in self.order else []


class Silent(PeriodicStream):
    def task(self, t):
        pass


class TestsNothing(PeriodicStream):
    __test__ = False

    def tests(self):
        return dict.fromkeys(super().tests())


class Fickle(PeriodicStream):
    asked: list[int] = []  # noqa: RUF012

    def task(self, t):
        self.asked.append(t)
        return super().task(len(self.asked) % self.epochs)


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (Restless, r"goes from R5 to U4 after epoch 1, though Restless.ends\(1\) is false"),
        (NeverEnds, r"NeverEnds.ends\(4\) is false"),
        (BeginsLate, r"ends\(1\) is False, but BeginsLate.begins\(2\) is not the same"),
        (Endless, r"Endless.task\(5\) must raise a DreeError: .* as self\.check_epoch\(t\) checks"),
        (Untested, "nothing to test on"),
        (ActiveFromZero, r"active\('U'\) is \[\(0, 2\)\]; it must be intervals"),
        (ActiveTooLong, r"active\('R'\) is \[\(3, 5\)\]; it must be intervals"),
        (Idle, r"active\('U'\) leaves out epoch 1, whose task is this very task, U4"),
        (Overlapping, "in order and without overlap"),
        (KnowsAll, r"active\('no such test'\) must raise a DreeError"),
        (Fickle, "once and .* the next time"),
        (Silent, r"Silent.task\(0\) is None, which is not a Task"),
        (TestsNothing, r"TestsNothing.tests\(\)\['U'\] is None, which is not a Task"),
    ],
)
def test_streams_that_contradict_themselves_are_refused(stream, message):
    with pytest.raises(AssertionError, match=message):
        check_stream(stream("tsp", ("U", "R"), 4, sizes=(("U", 4), ("R", 5))))


def test_one_name_for_two_sizes_is_refused():
    class Renamed(Wrapped):
        name = "task"

    class Anonymous(PeriodicStream):
        def task(self, t):
            return Renamed(super().task(t))

    with pytest.raises(AssertionError, match="called task and has 5 customers; the same name stood for 4"):
        check_stream(Anonymous("tsp", ("U", "R"), 4, sizes=(("U", 4), ("R", 5))))
