"""`dree` in processes that need not import anything: they are forked from one that has imported what they need.

Importing takes longer than most of what tests have a process do. All else is as in a process started by a shell: its
arguments, environment, folder, output and exit status are its own, and it can be killed. What is tested of a process's
start needs one that begins from nothing: see `command_line.dree`.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from subprocess import CompletedProcess


def environment() -> dict[str, str]:
    """Of `dree` in a process of its own: lines are of one length, and no thread takes a core that tests run on."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "120"}


class WarmProcess:
    """`dree` with these words, at work in a folder, or in that of this process."""

    def __init__(self, *words: object, folder: Path | None = None, file_size: int | None = None) -> None:
        """It can write files of at most so many bytes."""
        self._said = [tempfile.TemporaryFile("w+", encoding="utf-8") for _ in range(2)]  # noqa: SIM115
        request = {
            "words": [str(each) for each in words],
            "environment": environment(),
            "folder": str(folder or Path.cwd()),
            "file_size": file_size,
        }
        self._control, theirs = socket.socketpair()
        with theirs:
            server, _ = _server(os.getpid())
            socket.send_fds(server, [b"!"], [theirs.fileno(), *(file.fileno() for file in self._said)])
        self._control.sendall(json.dumps(request).encode() + b"\n")
        self._answers = self._control.makefile()
        self.pid = int(self._answers.readline())
        self._ended: CompletedProcess[str] | None = None

    def running(self) -> bool:
        """Whether it has not ended."""
        return self._ended is None and not select.select([self._control], [], [], 0)[0]

    def finish(self) -> CompletedProcess[str]:
        """What it was, when it has ended."""
        if self._ended is None:
            self._control.settimeout(300)
            status = int(self._answers.readline())
            for file in self._said:
                file.seek(0)
            self._ended = CompletedProcess([], status, *(file.read() for file in self._said))
            for each in (*self._said, self._answers, self._control):
                each.close()
        return self._ended

    def kill(self) -> None:
        """End it at once, if it has not ended, and wait until it has."""
        if self.running():
            os.kill(self.pid, signal.SIGKILL)
        self.finish()


@cache
def _server(_: int) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Of the process with this number: where to hand over what a process is to do, and what waits there."""
    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, __file__, str(theirs.fileno())]
        return ours, subprocess.Popen(command, env=environment(), pass_fds=[theirs.fileno()])


def _serve(calls: socket.socket) -> None:
    """Fork for every call, and come back in the process that is to do it; end with whom it serves."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how those end that wait for the others
    while True:
        _, handed, *_ = socket.recv_fds(calls, 1, 3)
        if not handed:
            os._exit(0)
        if os.fork():
            for each in handed:
                os.close(each)
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        calls.close()
        control = socket.socket(fileno=handed.pop(0))
        request = json.loads(control.makefile().readline())
        if child := os.fork():
            control.sendall(b"%d\n" % child)
            control.sendall(b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            os._exit(0)
        control.close()
        for each, standard in zip(handed, (sys.stdout, sys.stderr), strict=True):
            os.dup2(each, standard.fileno())
            os.close(each)
        _become(**request)
        return


def _become(words: list[str], environment: dict[str, str], folder: str, file_size: int | None) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv, sys.path[0] = ["dree", *words], folder
    if file_size is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))


if __name__ == "__main__":
    import gc
    import resource
    import runpy
    import traceback

    import torch

    import dree.cli
    import dree.compiled
    import dree.experiments
    import dree.service.learning

    dree.compiled.able()  # which imports Numba
    torch.optim.Adam([torch.zeros(1)])  # the first imports more than all else
    gc.freeze()  # what is there stays, and need not be looked through by every process
    _serve(socket.socket(fileno=int(sys.argv[1])))
    status = 1
    try:
        runpy.run_module("dree", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        status = int(ended.code or 0)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # to take leave of all that was imported takes longer than many commands
