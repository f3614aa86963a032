"""What commands share: words and bars for a person at a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from dree.bars import Advance, Part

console = Console()


def say(message: str) -> None:
    """Print a message as it is: nothing in it is markup."""
    console.print(message, markup=False, highlight=False, soft_wrap=True)


def fail(message: str, code: int = 2) -> NoReturn:
    """End the program with a message on what went wrong."""
    text = Text.assemble(("Error: ", "bold red"), message)
    Console(stderr=True).print(text, soft_wrap=True)
    sys.exit(code)


@contextmanager
def bar(total: float) -> Iterator[Part]:
    """A bar with the time left, for parts that weigh `total` together; it goes when the work is done."""
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
    )
    with Progress(*columns, console=console, transient=True, speed_estimate_period=300) as progress:
        task = progress.add_task("", total=total)

        def part(words: str, weight: float) -> Advance:
            progress.update(task, description=words)
            return lambda done: progress.advance(task, done * weight)

        yield part


@contextmanager
def bar_or_lines(total: float) -> Iterator[Part]:
    """A bar; or in a log, where none can move, a line for each part as it begins."""

    def line(words: str, weight: float) -> Advance:
        say(f"{words} ...")
        return lambda done: None

    if not console.is_terminal:
        yield line
        return
    with bar(total) as part:
        yield part
