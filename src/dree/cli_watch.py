"""The command line of the page about a solver that keeps learning: `dree watch --help`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dree.errors import DreeError
from dree.terminal import bar, say


def watch(
    state_dir: Annotated[Path, typer.Argument(metavar="STATE_DIR", help="The folder of the solver that learns.")],
    out: Annotated[Path, typer.Option(help="Where the page goes.")] = Path("watch.html"),
) -> None:
    """Write a page about the days and the solver: do they drift, and does it get better? It works offline."""
    from dree.files import check_writable
    from dree.report.watch_page import watch_drift, write_watch_page
    from dree.service.outputs import check_output
    from dree.service.state import State

    check_output(state_dir, out)
    check_writable(out)
    state, drift, without = State.open(state_dir), None, ""
    try:
        with bar(1.0) as part:
            drift = watch_drift(state, part("comparing days", 1.0))
    except DreeError as error:
        without = f"Whether the days drift is left out. {error}"
        say(without)
    say(f"Page: {write_watch_page(out, state, drift, without)}")
