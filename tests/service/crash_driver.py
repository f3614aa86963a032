"""Learns a day, or goes back, again and again, and each time dies, or finds the disk full, at the next file operation.

Called with a folder of `days`, with a state before and one after it, with `die` or `full`, and with `learn` or the
version to go back to. It forks, which a process with threads, such as a test's, should not.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch

from dree.errors import DreeError
from dree.problems import Instances
from dree.service.rollback import roll_back
from dree.service.state import State
from dree.solvers import Solver
from small_days import contents, learn

OPERATIONS = {"die": ("fsync", "replace", "unlink"), "full": ("fsync", "replace")}
DIED, REFUSED = 9, 2
LOCKING = 1  # operations whose failure is of no consequence: saying who holds the lock
EVERY = 3  # so many operations the day is then learned after all


def arm(mode: str, at: int) -> None:
    """Let this process die before its so-many-th operation, or fail in it."""
    left = iter(range(at - 1, -1, -1))

    def wrap(operation: Callable[..., object]) -> Callable[..., object]:
        def operate(*arguments: object, **named: object) -> object:
            if next(left, None) == 0:
                if mode == "die":
                    os._exit(DIED)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return operation(*arguments, **named)

        return operate

    for name in OPERATIONS[mode]:
        setattr(os, name, wrap(getattr(os, name)))


def in_child(work: Callable[[], object]) -> int:
    """The exit status of some work in a process of its own."""
    process = os.fork()
    if process:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    try:
        work()
        os._exit(0)
    except (DreeError, OSError):
        os._exit(REFUSED)
    finally:
        os._exit(1)


def warm_up(solver: Solver) -> None:
    """Load what a first optimiser and first tours load, so that no child has to: learning a day takes less time."""
    torch.optim.Adam(solver.parameters())
    instances = Instances(torch.rand(1, 12, 2))
    solver.solve(instances, encoding=solver.encode(instances), generator=torch.Generator())


def main(folder: Path, mode: str, job: str) -> None:
    torch.set_num_threads(1)
    state, files = folder / "state", sorted((folder / "days").glob("*.csv"))

    def work() -> None:
        if job == "learn":
            learn(state, *files)
        else:
            roll_back(state, int(job), lambda _: None)

    before, after = contents(State.open(folder / "before")), contents(State.open(folder / "after"))
    warm_up(State.open(folder / "before").solver())
    met = set()
    for at in count(1):
        shutil.rmtree(state, ignore_errors=True)
        shutil.copytree(folder / "before", state)
        status = in_child(lambda at=at: (arm(mode, at), work()))
        found = State.open(state)
        assert found.damaged() == {}, at
        assert contents(found) in (before, after), at
        met.add((status, contents(found) == after))
        if at % EVERY == 0:
            assert in_child(work) == 0, at
            assert contents(State.open(state)) == after, at
        if status == 0 and at > LOCKING:
            print(json.dumps([at, sorted(met)]))
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
