"""Runs under way, for a person at a terminal: a bar with the time left, and a line for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from dree.experiments import Run, Tested
from dree.experiments.naming import method_title
from dree.experiments.run import Watcher

MANY = 8  # the gaps of more test tasks do not fit a line


@contextmanager
def watching(run: Run, console: Console) -> Iterator[Watcher]:
    """A watcher for `Run.finish` that shows how far the run is."""
    with watching_all([run], [1.0], console) as watch:
        yield watch(run)


@contextmanager
def watching_all(runs: Sequence[Run], costs: Sequence[float], console: Console) -> Iterator[Callable[[Run], Watcher]]:
    """A watcher for each of several runs, which are finished one after the other; one bar and time left for all.

    `costs` says how long a batch takes each of them beside the others.
    """
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[at]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
    )
    cost = dict(zip(runs, costs, strict=True))

    def work(run: Run, epoch: int) -> float:
        """How long an epoch takes, in some unit: larger problems take longer."""
        return cost[run] * run.batches * run.stream.task(epoch).size

    total = sum(work(run, epoch) for run in runs for epoch in range(run.epoch + 1, run.stream.epochs + 1))
    with Progress(*columns, console=console, speed_estimate_period=300) as progress:
        bar = progress.add_task("learning", total=total, at="")

        def watch_run(run: Run) -> Watcher:
            name = method_title(run.settings) if len(runs) > 1 else ""

            def watch(tested: Tested) -> None:
                where = f"epoch {tested.epoch} of {run.stream.epochs}"
                words = f"{name or 'learning'} {tested.task}"
                progress.update(bar, advance=work(run, tested.epoch), description=words, at=where)
                if tested.gaps is not None:
                    line = f"{name or 'epoch'} {tested.epoch:4d} gaps %  {_written(tested.gaps)}"
                    progress.console.print(line, highlight=False, markup=False)

            return watch

        yield watch_run


def _written(gaps: dict[str, float]) -> str:
    """Six tasks fit a line of 80 characters, with the name of a method before them."""
    worst = max(gaps, key=lambda name: gaps[name])
    shown = gaps if len(gaps) <= MANY else {f"worst of {len(gaps)}: {worst}": gaps[worst]}
    each = " ".join(f"{name} {gap:4.1f}" for name, gap in shown.items())
    return f"{each}  mean {sum(gaps.values()) / len(gaps):4.1f}"
