"""Going back: an earlier version solves again, and the learner begins again from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from dree.bars import Say
from dree.errors import DreeError
from dree.lifelong.methods import in_hook
from dree.service.days import LISTED
from dree.service.learning import new_learner, without_old_solvers
from dree.service.lock import locked, now
from dree.service.past import known_gap, past_samples, set_aside, with_gap
from dree.service.records import LearnerAt, Rollback, name_order
from dree.service.state import DamagedError, State, store


def roll_back(path: Path, number: int, say: Say = print) -> State:
    """Put a version to use again; the learner has its weights and a fresh optimiser, and remembers what it did.

    Days of versions that it does not come of do not count as learned: they may be learned again. Their records stay,
    and count again once somebody goes to such a version.
    """
    State.open(path)
    with locked(path, "dree history --rollback"):
        before = State.open(path)
        if not 0 <= number < len(before.versions):
            raise DreeError(f"There is no version {number} in {path}. The newest is {len(before.versions) - 1}.")
        solver = before.solver_of(before.versions[number])
        learner = new_learner(before.settings, solver)
        if before.learner.file:
            try:
                remembered = before.load(before.learner.file)["learner"]
                learner.batches = remembered["batches"]
                with in_hook(learner.method, "load_state_dict"):
                    learner.method.load_state_dict(remembered["method"], learner)
            except DamagedError as error:
                say(f"{error} What the learner remembered is lost; it begins without memory.")
        with before.unharmed():
            at = LearnerAt(number, store(path, "learner", {"learner": learner.state_dict()}))
            rollbacks = (*before.rollbacks, Rollback(now(), before.in_use, number))
            changed = replace(before, in_use=number, learner=at, rollbacks=rollbacks)
            past = [
                with_gap(kept, number, known_gap(kept, number, sample, solver))
                for kept, sample in past_samples(changed, say)
            ]
            after = without_old_solvers(replace(changed, past=(*set_aside(changed), *past)))
            after.commit()
        after.clean(before)
    for words in _changes(before, after):
        say(words)
    return after


def _changes(before: State, after: State) -> Iterator[str]:
    """Which days count as learned no more, and which do again."""
    learned = {day.name for day in after.seen}
    gone = [day.name for day in before.seen if day.name not in learned]
    back = [day.name for day in after.seen if day not in before.seen]
    if gone:
        yield f"Not learned any more: {_listed(gone)}. Given again, corrected or not, such a day is learned again."
    if back:
        yield f"Learned again, as they were: {_listed(back)}."


def _listed(names: Sequence[str]) -> str:
    if len(names) <= LISTED:
        return ", ".join(names)
    return f"{len(names)} days, {min(names, key=name_order)} to {max(names, key=name_order)}"
