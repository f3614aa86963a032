"""Jobs that take a moment, for engines; as a program, it has a local engine carry out the first in a folder."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from dree.experiments import DEMO, RunSettings
from dree.experiments.engines.base import RUNS, Job
from dree.experiments.engines.local import LocalEngine
from dree.experiments.engines.work import carry_out_one
from dree.settings import override
from small_runs import SMALL

EPOCHS = 10
FILES = ("metrics.jsonl", "gaps.csv", f"checkpoint/{EPOCHS:09d}.safetensors")


def small(**changes: object) -> RunSettings:
    return override(DEMO, {**SMALL, "epochs": EPOCHS, "test_every": 5, **changes})


def small_jobs() -> list[Job]:
    return [Job("first", small(method="dree")), Job("second", small(seed=1))]


def content(out: Path, jobs: list[Job]) -> dict[str, bytes]:
    """What must be the same, whatever came in between."""
    return {f"{job.name}/{name}": (out / RUNS / job.name / name).read_bytes() for job in jobs for name in FILES}


def uninterrupted(out: Path, jobs: list[Job]) -> dict[str, bytes]:
    """What the runs of jobs leave when nothing comes in between."""
    for job in jobs:
        assert carry_out_one(job, out, lambda _: None).error is None
    return content(out, jobs)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a parent in the background may have had ignored
    LocalEngine().carry_out(small_jobs()[:1], Path(sys.argv[1]), lambda _: None)
