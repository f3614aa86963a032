"""Every table and figure of the paper: what is run for it, what the paper has printed, and how it is made.

One experiment is one class; a new one is a file with a class and a line here. A user's own goes by its dotted path.
"""

from __future__ import annotations

import re

from dree.errors import DreeError, unknown
from dree.registry import named_class
from dree.reproduce.base import Choice, Drawn, Experiment, Found
from dree.reproduce.flops import Flops
from dree.reproduce.lade import DriftFigures, Lade, LadeRegions, Regions
from dree.reproduce.order1 import Ablation, BufferingFrequency, Cumulative, Finer, Hyperparameters
from dree.reproduce.overhead import Overhead
from dree.reproduce.pictures import Curves, Tasks
from dree.reproduce.table1 import EveryOrder, Table1
from dree.reproduce.table2 import Table2
from dree.reproduce.table3 import Table3
from dree.reproduce.table4 import Table4

NAME = re.compile(r"[\w-]+")
EXPERIMENTS: dict[str, Experiment] = {
    each.name: each
    for each in (
        Table1(),
        Table2(),
        Curves(),
        Table3(),
        Table4(),
        Ablation(),
        Lade(),
        EveryOrder(),
        LadeRegions(),
        Regions(),
        DriftFigures(),
        Tasks(),
        Hyperparameters(),
        Finer(),
        BufferingFrequency(),
        Cumulative(),
        Overhead(),
        Flops(),
    )
}


def experiment(name: str) -> Experiment:
    """An experiment by name, or a user's own by its dotted path (`package.module.Class`)."""
    if name in EXPERIMENTS:
        return EXPERIMENTS[name]
    if "." not in name:
        raise unknown("experiment", name, [*EXPERIMENTS, "all"])
    return _checked(name, named_class("experiment", name, {}, Experiment)())


def _checked(path: str, own: Experiment) -> Experiment:
    """A user's own experiment, if its files can be told from others'."""
    for what in ("name", "title", "source"):
        if not isinstance(getattr(own, what, None), str):
            raise DreeError(f"Experiment '{path}' cannot be made: the class needs a text '{what}'.")
    if own.name in EXPERIMENTS or not NAME.fullmatch(own.name):
        raise DreeError(
            f"Experiment '{path}' is called '{own.name}', and so would its files be. Give it a name that none of "
            "dree's own has, of letters, digits, - and _."
        )
    return own


__all__ = ["EXPERIMENTS", "Choice", "Drawn", "Experiment", "Found", "experiment"]
