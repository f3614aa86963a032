"""Under which circumstances a run was started: its manifest has them, so that its results can be understood later."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from dree.experiments.configuration import RunSettings
from dree.solvers.precision import precision_on
from dree.turns import at_once

NUMERIC = ("dree", "torch", "numba", "numpy")  # packages on which a run's numbers depend


def circumstances(settings: RunSettings) -> dict[str, Any]:
    """The command, the time, the versions, the commit and the hardware."""
    device = settings.torch_device()
    packages = (*NUMERIC, "safetensors")
    return {
        "command": ["dree", *sys.argv[1:]],
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in packages}},
        "commit": _commit(),
        "hardware": {
            "device": torch.cuda.get_device_name() if device.type == "cuda" else _processor(),
            "machine": platform.machine(),
            "threads": torch.get_num_threads(),
            "precision": precision_on(device, settings.learning.precision, learning=True),
            **({"at_once": at_once()} if at_once() > 1 else {}),  # runs that take turns on the device
        },
    }


def other_program(manifest: Mapping[str, Any]) -> str:
    """What of the program is not as a manifest has it, in words; empty where all is the same."""
    then = {"commit": manifest.get("commit"), **manifest["versions"]}
    now = {"commit": _commit(), **{name: _version(name) for name in NUMERIC}}
    changed = [name for name in now if then.get(name) != now[name]]
    return ", ".join(f"{name} {then.get(name) or 'unknown'} (now {now[name] or 'unknown'})" for name in changed)


def _processor() -> str:
    """The processor's name where the system tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _commit() -> str | None:
    """The commit of the source tree this package runs from, if it is one."""
    git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        return subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
