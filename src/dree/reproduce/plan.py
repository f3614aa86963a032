"""From experiments to jobs: every run once, however many tables need it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dree.experiments import RunSettings
from dree.experiments.engines.base import Job
from dree.experiments.naming import keyed_name
from dree.reproduce.base import Choice, Experiment


@dataclass(frozen=True)
class Plan:
    """What is to be run for some experiments, and which of them cannot be made."""

    experiments: tuple[Experiment, ...]
    jobs: tuple[Job, ...]
    lacking: tuple[tuple[Experiment, str], ...]  # with what each lacks
    needs: Mapping[str, frozenset[str]]  # the names of the jobs of each experiment

    def needed_by(self, experiment: Experiment) -> list[Job]:
        """The jobs of one of its experiments."""
        return [job for job in self.jobs if job.name in self.needs[experiment.name]]


def make_plan(experiments: Sequence[Experiment], choice: Choice, *, regardless: bool = False) -> Plan:
    """The runs of all experiments that nothing is missing for, or `regardless` of that.

    A run that is wanted with and without finer tests is made with them: they include the others.
    """
    reasons = {experiment.name: experiment.lacks(choice) for experiment in experiments}
    possible = [experiment for experiment in experiments if regardless or reasons[experiment.name] is None]
    named = {each.name: {keyed_name(run): run for run in each.runs(choice)} for each in possible}
    wanted = {name: run for runs in named.values() for name, run in runs.items()}
    better = {name: other for name, run in wanted.items() if (other := keyed_name(finer(run))) in wanted}
    jobs = [Job(name, run) for name, run in wanted.items() if better.get(name, name) == name]
    needs = {name: frozenset(better.get(run, run) for run in runs) for name, runs in named.items()}
    lacking = [(each, reason) for each in experiments if (reason := reasons[each.name]) is not None]
    return Plan(tuple(possible), tuple(jobs), tuple(lacking), needs)


def finer(run: RunSettings) -> RunSettings:
    """The same run, tested on the finer tasks; only a drift has such."""
    return replace(run, tests="finer") if run.scenario == "drift" else run
