"""A run under way, for a person at a terminal: a bar with the time left, and a line for each test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from dree.experiments import Run, Tested
from dree.experiments.run import Watcher

MANY = 8  # the gaps of more test tasks do not fit a line


@contextmanager
def watching(run: Run, console: Console) -> Iterator[Watcher]:
    """A watcher for `Run.finish` that shows how far the run is."""
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("epochs"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
    )
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("learning", total=run.stream.epochs, completed=run.epoch)

        def watch(tested: Tested) -> None:
            progress.update(bar, completed=tested.epoch, description=f"learning {tested.task}")
            if tested.gaps is not None:
                gaps = tested.gaps
                worst = max(gaps, key=lambda name: gaps[name])
                shown = gaps if len(gaps) <= MANY else {f"worst of {len(gaps)}: {worst}": gaps[worst]}
                each = "  ".join(f"{name} {gap:5.1f}" for name, gap in shown.items())
                mean = sum(gaps.values()) / len(gaps)
                progress.console.print(f"epoch {tested.epoch:4d} gaps %  {each}  mean {mean:5.1f}", highlight=False)

        yield watch
