"""The reservoir of past days: samples of them, and how well the versions in use have solved these since."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dree.bars import Say
from dree.lifelong.reservoir import Reservoir
from dree.randomness import named_generator
from dree.service.records import Past
from dree.service.samples import Sample
from dree.service.state import DamagedError, State
from dree.solvers import Solver

DAYS = 30  # in the reservoir


def past_samples(state: State, say: Say) -> list[tuple[Past, Sample]]:
    """The reservoir; a damaged sample is left out of it from now on, aloud."""
    found = []
    for each in state.reservoir:
        try:
            found.append((each, Sample.from_state(state.load(each.file))))
        except DamagedError as error:
            say(f"{error} What was kept of {each.day} is lost: forgetting is measured without it from now on.")
    return found


def known_gap(past: Past, version: int, sample: Sample, solver: Solver) -> float:
    """A version's gap on a past day, which is measured only if it was not before."""
    known = dict(past.gaps)
    return known[version] if version in known else sample.gap(solver)


def with_gap(past: Past, in_use: int, gap: float) -> Past:
    """A past day with the gap of the version in use, if that version is another than before."""
    return past if past.gaps and past.gaps[-1][0] == in_use else replace(past, gaps=(*past.gaps, (in_use, gap)))


def offered(state: State, past: Sequence[Past], new: Past) -> tuple[Past, ...]:
    """The reservoir after a new day was offered to it: each day so far is equally likely to be there."""
    reservoir: Reservoir[Past] = Reservoir(DAYS)
    reservoir.items = list(past)
    reservoir.seen = sum(day.version is not None for day in state.seen)
    slot = reservoir.offer(named_generator(state.settings.seed, "past day", reservoir.seen))
    if slot is not None:
        reservoir.put(slot, new)
    return tuple(reservoir.items)


def set_aside(state: State) -> list[Past]:
    """Past days that do not count, as long as there is a version to go to with which they would count again."""
    counted = state.lineage(state.learner.version)
    within = {number for version in state.versions if version.solver for number in state.lineage(version.number)}
    return [each for each in state.past if each.version in within - counted]
