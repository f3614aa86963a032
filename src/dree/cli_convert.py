"""The command line of solvers from elsewhere: `dree convert --help`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dree.errors import DreeError
from dree.terminal import say

TITLES = {"pomo": "POMO", "omni": "Omni"}
HEADS = 8
USE = "Use it with: dree evaluate {out}, or dree solve FILE --run {out}"
INSTANCE, BATCH = "instance norm", "batch norm without running statistics (batch-no-track)"
ASSUMED = {  # and what it could be as well
    "instance": (f"{INSTANCE}, as in POMO", BATCH),
    "batch-no-track": (f"{BATCH}, because the file's name says so", INSTANCE),
}


def convert(
    checkpoint: Annotated[
        Path, typer.Argument(help="A .pt file of the original POMO or Omni; or a run, for its solver alone.")
    ],
    out: Annotated[Path, typer.Argument(help="The new folder, which evaluate and solve take like a run's.")],
    norm: Annotated[
        str | None,
        typer.Option(help="What it was trained with, whatever the file is called: instance or batch-no-track."),
    ] = None,
    heads: Annotated[int, typer.Option(help="Attention heads, which the file does not tell.")] = HEADS,
) -> None:
    """Make a solver of an original POMO or Omni checkpoint; nothing in the file is run. Or take a run's out of it.

    A run's solver is written in half precision, without what is needed to go on learning.
    """
    from dree.experiments.converted import convert
    from dree.experiments.export import export

    if checkpoint.is_dir():
        if norm is not None or heads != HEADS:
            raise DreeError("A run's manifest says what its solver is: --norm and --heads are for .pt files.")
        say(f"Solver: {export(checkpoint, out)}. {USE.format(out=out)}")
        return
    found = convert(checkpoint, out, heads, norm)
    size = found.settings
    say(
        f"{TITLES[found.solver]} for {found.problem.upper()}: width {size.width}, {size.layers} encoder layers, "
        f"feed-forward {size.feed_forward}. The file does not tell, so the original's are assumed: scores clipped at "
        f"{size.clip:g} and, unless --heads says otherwise, 8 heads. Here there are "
        f"{size.heads} of {size.width // size.heads}."
    )
    if norm is None:
        assumed, other = ASSUMED[found.norm]
        say(
            f"Its norm is taken for {assumed}. The tensors do not tell: a checkpoint with {other} looks the same, and "
            "would give wrong answers here. If it is one, say so with --norm."
        )
    say(f"Solver: {out}. {USE.format(out=out)}")
