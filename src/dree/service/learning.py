"""Learning days: each is one time step of the same learner, and one commit of the state directory."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from dree.bars import Bars, Say, no_bar
from dree.errors import DreeError
from dree.lifelong import Learner, LearnerSettings, make_method
from dree.lifelong.epoch import learn_epoch
from dree.lifelong.methods import suspicion
from dree.service.budget import Budget, Spending
from dree.service.days import (
    Given,
    RefusedError,
    UnlearnableError,
    check_learnable,
    new_days,
    read_days,
    record_of,
    settings_of,
    with_day,
)
from dree.service.gate import MARGIN, check_margin, judge, mean_gaps
from dree.service.lock import locked, now
from dree.service.past import known_gap, offered, past_samples, set_aside, with_gap
from dree.service.records import Gaps, LearnerAt, Past, Settings, Version
from dree.service.region import far_away
from dree.service.samples import REFERENCE, Sample, draw_sample
from dree.service.starting import Wanted, check_wanted, first_settings
from dree.service.state import DamagedError, State, check_new, just_made, store
from dree.service.stream import Today
from dree.settings import build
from dree.solvers import Solver
from dree.tasks.orders import Orders, OrdersTask

KEPT = 30  # versions whose solvers are kept, beside the one in use

Tell = Callable[[State], object]  # hears of the state after each day


@dataclass(frozen=True)
class Learning:
    """How days are learned."""

    budget: Budget
    margin: float = MARGIN
    device: torch.device = torch.device("cpu")  # noqa: RUF009
    say: Say = print
    bars: Bars = no_bar

    def __post_init__(self) -> None:
        """Refuse what cannot be, and a machine without the reference solver."""
        check_margin(self.margin)
        REFERENCE.made()


@dataclass(frozen=True)
class _Tested:
    """How a new version compares with the one in use."""

    incumbent: int  # the number of that one
    sample: Sample  # of the new day
    today: Gaps
    past: Sequence[tuple[Past, Gaps]]

    @property
    def mean_past(self) -> Gaps | None:
        """Over the days of the reservoir, if there are any."""
        return mean_gaps([gaps for _, gaps in self.past])

    @property
    def mean_then(self) -> float | None:
        """The same when each of them had just been learned."""
        return statistics.fmean(kept.first for kept, _ in self.past) if self.past else None


def learn_files(
    path: Path, files: Sequence[Path], given: Given, wanted: Wanted, how: Learning, tell: Tell = lambda _: None
) -> State:
    """Learn the days of some files that were not learned before, in order of their dates.

    What cannot be used is refused by itself, with a `RefusedError` once all else is learned. Where nothing can be,
    nothing is changed, not even made.
    """
    before = State.open(path) if State.exists(path) else None
    read = read_days(path, files, given, before, how.say)
    if not read.days:
        raise RefusedError(read.refused, others=False)
    if before is None:
        check_new(path)
        first = new_days(read, None)
        if not first.days:
            raise RefusedError(first.refused, others=False)
        settings, solver = first_settings(settings_of(first.days[0], given), wanted)
    else:
        settings, solver = before.settings, None
        check_wanted(settings, wanted)
    with locked(path, "dree learn"):
        if State.exists(path):
            state = State.open(path)
            if state.settings != settings:
                raise just_made(path)
        else:
            assert solver is not None
            state = State.create(path, settings, solver, now())
        chosen = new_days(read, state)
        refused = [f"Refused: {reason}" for reason in chosen.refused] if chosen.days else []
        for words in (*chosen.notes, *refused):
            how.say(words)
        state = learn_days(state, chosen.days, how, tell)
    if chosen.refused:
        raise RefusedError(chosen.refused, others=bool(chosen.days))
    return state


def learn_days(state: State, days: Sequence[Orders], how: Learning, tell: Tell = lambda _: None) -> State:
    """Learn new days, each of them committed when it is done. To be called while the state is locked."""
    learner = None
    for number, day in enumerate(days, start=1):
        words = f"{day.day} ({number} of {len(days)})" if len(days) > 1 else day.day
        with state.unharmed():
            try:
                check_learnable(day)
                warning = far_away(day, state)
                if warning:
                    how.say(warning)
                learner = learner or make_learner(state, how.device)
                with how.bars(how.budget.total) as part:
                    after = _learned(state, learner, day, how, Spending(how.budget, part, words))
            except UnlearnableError as error:
                how.say(f"{error} It counts as seen.")
                after = replace(state, days=with_day(state.days, record_of(day, now(), None)))
            after.commit()
        after.clean(state)
        state = after
        tell(state)
    return state


def make_learner(state: State, device: torch.device) -> Learner:
    """The learner where the state has it."""
    settings = state.settings
    file = state.learner.file
    solver = settings.make_solver() if file else state.solver_of(state.versions[state.learner.version])
    learner = new_learner(settings, solver.to(device))
    if file:
        try:
            learner.load_state_dict(state.load(file)["learner"])
        except DamagedError as error:
            raise DreeError(
                f"{error} Without it the learner cannot go on. Restore it from a backup, or let the learner begin "
                f"again without memory: {state.going_back(state.in_use)}"
            ) from None
    return learner


def new_learner(settings: Settings, solver: Solver) -> Learner:
    """A learner that has learned nothing yet."""
    method = make_method(settings.method, settings.options)
    chosen = build(LearnerSettings, {**solver.learning, **settings.learner})
    return Learner(solver, method, chosen, settings.seed)


def _learned(state: State, learner: Learner, day: Orders, how: Learning, spending: Spending) -> State:
    """The state after one more day; its files are written, but it is not yet committed."""
    number = len(state.versions)
    task = OrdersTask(day)
    spending.phase("reference tours")
    sample = draw_sample(task, state.settings.seed, spending.tell)
    spending.phase("testing")
    incumbent, solver = state.answering(how.say)
    solver = solver.to(how.device)
    began = time.perf_counter()
    today_before = sample.gap(solver)
    pace = (time.perf_counter() - began) / sample.work
    past = past_samples(state, how.say)
    befores = [known_gap(each, incumbent.number, kept, solver) for each, kept in past]
    spending.begin_learning(pace * (sample.work + sum(kept.work for _, kept in past)))
    epoch = learn_epoch(learner, Today(task, number), number, state.settings.batch_size, spending.go_on)
    if epoch.broken is not None:
        raise DreeError(
            f"The loss is not finite from batch {epoch.broken} of {day.day} on, so that day was not learned, and "
            f"{state.path} is as it was before it.{suspicion(learner.method)} Begin again from the version in use or, "
            f"if that does not help, from an earlier one: {state.going_back(state.in_use)}"
        )
    spending.phase("testing")
    afters = []
    for _, kept in past:
        afters.append(kept.gap(learner.proven))
        spending.tell()
    tested = _Tested(
        incumbent.number,
        sample,
        Gaps(today_before, sample.gap(learner.proven)),
        [(kept, Gaps(*gaps)) for (kept, _), *gaps in zip(past, befores, afters, strict=True)],
    )
    verdict = judge(tested.today, tested.mean_past, tested.mean_then, how.margin)
    version = Version(
        number=number,
        when=now(),
        promoted=verdict.promoted,
        solver=store(state.path, "solver", {"solver": learner.proven.state_dict()}),
        day=day.day,
        stops=len(day.places),
        batches=epoch.batches,
        seconds=round(spending.seconds, 1),
        today=tested.today,
        past=tested.mean_past,
        reason=verdict.reason,
        parent=state.learner.version,
    )
    return _with_version(state, learner, day, tested, version)


def _with_version(state: State, learner: Learner, day: Orders, tested: _Tested, version: Version) -> State:
    """The state with a new version, which is put to use if it may be."""
    in_use = version.number if version.promoted else tested.incumbent
    first = Past(day.day, version.number, store(state.path, "day", tested.sample.state_dict()), ())
    *past, new = (
        with_gap(kept, in_use, gaps.after if version.promoted else gaps.before)
        for kept, gaps in [*tested.past, (first, tested.today)]
    )
    after = replace(
        state,
        versions=(*state.versions, version),
        in_use=in_use,
        learner=LearnerAt(version.number, store(state.path, "learner", {"learner": learner.state_dict()})),
        days=with_day(state.days, record_of(day, version.when, version.number)),
        past=(*set_aside(state), *offered(state, past, new)),
    )
    return without_old_solvers(after)


def without_old_solvers(state: State) -> State:
    """The state with the solvers of its newest versions and of the one in use."""
    oldest = len(state.versions) - KEPT
    versions = tuple(
        each if each.number >= oldest or each.number == state.in_use else replace(each, solver=None)
        for each in state.versions
    )
    return replace(state, versions=versions)
