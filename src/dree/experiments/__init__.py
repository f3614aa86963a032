"""Runs: their settings, their folders, and the loop that carries one out."""

from dree.experiments.configuration import DEMO, PRESETS, RunSettings, preset
from dree.experiments.folder import RunFolder
from dree.experiments.run import Run, Tested
from dree.experiments.solving import solve
from dree.experiments.trained import load_solver

__all__ = ["DEMO", "PRESETS", "Run", "RunFolder", "RunSettings", "Tested", "load_solver", "preset", "solve"]
