"""The command line of solvers from elsewhere: `dree convert --help`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dree.terminal import say


def convert(
    checkpoint: Annotated[Path, typer.Argument(help="A .pt file of the original POMO, or of Omni with instance norm.")],
    out: Annotated[Path, typer.Argument(help="The new folder, which evaluate and solve take like a run's.")],
    norm: Annotated[
        str | None, typer.Option(help="instance: it is known to be instance norm, whatever the file is called.")
    ] = None,
    heads: Annotated[int, typer.Option(help="Attention heads, which the file does not tell.")] = 8,
) -> None:
    """Make a solver of an original POMO checkpoint; nothing in the file is run."""
    from dree.experiments.converted import convert

    found = convert(checkpoint, out, heads, norm)
    size = found.settings
    say(
        f"POMO for {found.problem.upper()}: width {size.width}, {size.layers} encoder layers, feed-forward "
        f"{size.feed_forward}. The file does not tell, so the original's are assumed: scores clipped at {size.clip:g} "
        f"and, unless --heads says otherwise, 8 heads. Here there are {size.heads} of {size.width // size.heads}."
    )
    if norm is None:
        say(
            "Its norm is taken for instance norm, which the file does not tell: Omni's batch-no-track checkpoints look "
            "the same, and would give wrong answers here."
        )
    say(f"Solver: {out}. Use it with: dree evaluate {out}, or dree solve FILE --run {out}")
