"""The command line, called in this process or in one of its own."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import typer.testing
from typer.testing import CliRunner

from dree.cli import app
from warm_processes import WarmProcess, environment

typer.testing._get_command = cache(typer.testing._get_command)  # making it anew takes longer than most commands


def invoke(*arguments: object, code: int = 0) -> str:
    """What `dree` with these words prints in this process; what it raises is raised, another exit code is a failure."""
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(each) for each in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert (result.exit_code, result.stderr) == (code, ""), result.output
    return result.stdout


def dree(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """`dree` with these words, in a process of its own, as a user meets it."""
    command = [sys.executable, "-m", "dree", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment(), cwd=cwd, timeout=300)


def warm_dree(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The same in a moment: what it imports is there already. Each command is met in the other way at least once."""
    return WarmProcess(*arguments, folder=cwd).finish()


def cells(output: str) -> list[list[str]]:
    """The words of every line, without the rules between a table's columns."""
    return [line.replace("│", " ").split() for line in output.splitlines()]
