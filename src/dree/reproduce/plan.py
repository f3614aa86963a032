"""From experiments to jobs: every run once, however many tables need it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dree.bars import Bars, Say, no_bar
from dree.errors import DreeError
from dree.experiments import RunSettings
from dree.experiments.engines.base import Job
from dree.experiments.engines.work import found
from dree.experiments.naming import keyed_name
from dree.reproduce.base import Choice, Experiment, finer
from dree.reproduce.needed_sets import missing_tests


@dataclass(frozen=True)
class Plan:
    """What is to be run for some experiments, and which of them cannot be made."""

    experiments: tuple[Experiment, ...]
    jobs: tuple[Job, ...]
    lacking: tuple[tuple[Experiment, str], ...]  # with what is in the way of each
    needs: Mapping[str, frozenset[str]]  # the names of the jobs of each experiment

    def needed_by(self, experiment: Experiment) -> list[Job]:
        """The jobs of one of its experiments."""
        return [job for job in self.jobs if job.name in self.needs[experiment.name]]


def obstacles(
    experiments: Sequence[Experiment],
    choice: Choice,
    out: Path | None = None,
    say: Say | None = None,
    bars: Bars = no_bar,
) -> dict[str, str]:
    """Why experiments cannot be made, by their names; those that can are prepared, if somebody listens.

    Runs that are finished in the folder `out` need nothing any more.
    """
    reasons: dict[str, str] = {}
    for experiment in experiments:
        try:
            lacking = experiment.lacks(choice)
            left = [] if lacking else _unfinished(experiment.runs(choice), out)
            if lacking := lacking or missing_tests(left, choice):
                reasons[experiment.name] = f"needs {lacking}."
            elif left and say is not None:
                experiment.prepare(choice, say, bars)
        except (DreeError, OSError) as error:
            reasons[experiment.name] = str(error)
    return reasons


def make_plan(
    experiments: Sequence[Experiment],
    choice: Choice,
    out: Path | None = None,
    reasons: Mapping[str, str] | None = None,
    *,
    regardless: bool = False,
) -> Plan:
    """The runs of all experiments that nothing is in the way of (`reasons`), or `regardless` of that.

    A run that is wanted with and without finer tests is made with them, as they include the others; and one that was
    made with them, in the folder `out`, is taken for one without.
    """
    if reasons is None:
        reasons = obstacles(experiments, choice, out)
    possible = [experiment for experiment in experiments if regardless or experiment.name not in reasons]
    named = {each.name: {keyed_name(run): run for run in each.runs(choice)} for each in possible}
    wanted = {name: run for runs in named.values() for name, run in runs.items()}
    better: dict[str, Job] = {}
    for name, run in wanted.items():
        other = Job(keyed_name(finer(run)), finer(run))
        if other.name != name and (other.name in wanted or (out is not None and _finished(other, out))):
            better[name] = other
    jobs = {job.name: job for name, run in wanted.items() for job in [better.get(name, Job(name, run))]}
    needs = {
        name: frozenset(better[run].name if run in better else run for run in runs) for name, runs in named.items()
    }
    lacking = [(each, reasons[each.name]) for each in experiments if each.name in reasons]
    return Plan(tuple(possible), tuple(jobs.values()), tuple(lacking), needs)


def _unfinished(runs: Sequence[RunSettings], out: Path | None) -> list[RunSettings]:
    """The runs that are still to be made, with finer tests or without."""
    if out is None:
        return list(runs)
    return [run for run in runs if not any(_finished(Job(keyed_name(each), each), out) for each in (run, finer(run)))]


def _finished(job: Job, out: Path) -> bool:
    there = found(job, out, lambda _: None)
    return there is not None and there.run is not None
