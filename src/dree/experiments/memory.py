"""Memory on a CPU: what asks for more than there is fails, as on a GPU, instead of getting the process killed."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

SYSTEM, PROCESS = Path("/proc/meminfo"), Path("/proc/self/status")
CONTAINER = Path("/sys/fs/cgroup/memory.max")
REFUSED = "can't allocate memory"  # as PyTorch says it on a CPU


@contextmanager
def within_memory(device: torch.device) -> Iterator[None]:
    """Whatever asks for more memory than is available raises `torch.OutOfMemoryError`.

    A GPU does so by itself. But a system may promise memory that it does not have, and kill the process that uses it.
    Where it does not tell what is available, nothing is changed.
    """
    if device.type != "cpu":
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limits = [each for each in (_most(), soft, hard) if each not in (None, resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits, default=soft), hard))
    try:
        yield
    except MemoryError as error:
        raise torch.OutOfMemoryError(str(error)) from error
    except RuntimeError as error:
        if REFUSED not in str(error):
            raise
        raise torch.OutOfMemoryError(str(error)) from error
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _most() -> int | None:
    """Bytes that this process can hold, what it holds already among them; None where the system does not tell."""
    if not (SYSTEM.is_file() and PROCESS.is_file()):
        return None
    most = _bytes(PROCESS, "VmData") + _bytes(SYSTEM, "MemAvailable")
    limit = CONTAINER.read_text().strip() if CONTAINER.is_file() else ""
    return min(most, int(limit)) if limit.isdigit() else most


def _bytes(table: Path, name: str) -> int:
    (line,) = (line for line in table.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024
