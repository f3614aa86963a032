"""Shared by all tests: one thread per process (tests run in two), and small instances."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from dree.data.libraries import Library
from dree.problems import Instances
from dree.solvers import POMO, INViT, decoding, make_solver

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")

torch.set_num_threads(1)
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before any test imports Triton, whichever comes first
    if find_spec("triton"):
        import quick_interpreter

        quick_interpreter.install()
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def random_instances(problem: str, batch: int, customers: int, seed: int, capacity: int = 20) -> Instances:
    generator = torch.Generator().manual_seed(seed)
    if problem == "tsp":
        return Instances(torch.rand(batch, customers, 2, generator=generator))
    demands = torch.randint(0, 11, (batch, customers + 1), generator=generator)
    demands[:, 0] = 0
    return Instances(torch.rand(batch, customers + 1, 2, generator=generator), demands, torch.full((batch,), capacity))


def small_solver(problem: str, seed: int = 0, **settings: int) -> POMO:
    chosen = {"width": 16, "heads": 2, "layers": 2, "feed_forward": 32, **settings}
    return make_solver(problem, settings=chosen, seed=seed)


def without_numba(patch: pytest.MonkeyPatch) -> None:
    """POMO's decoder by PyTorch's operations alone, as where there is no Numba."""
    patch.setattr(decoding.compiled, "serve", lambda *_: False)


def always_compiled(patch: pytest.MonkeyPatch) -> None:
    """POMO's decoder by Numba's kernels, where there is little to solve too."""
    patch.setattr(decoding, "SMALL", 0)


def small_invit(problem: str, seed: int = 0, **settings: object) -> INViT:
    chosen = {
        "width": 16, "heads": 2, "feed_forward": 32, "action_view": 4, "state_views": (6, 9), **settings,
    }  # fmt: skip
    return make_solver(problem, "invit", chosen, seed)


@pytest.fixture(params=["tsp", "cvrp"])
def problem(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DREE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def taken_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small problems that are called like a library's instances are taken for these."""
    monkeypatch.setattr(Library, "holds", lambda library, instance: instance.name in library.best_known)


@pytest.fixture(scope="session")
def _references(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("references")


@pytest.fixture
def shared_references(_own_cache: None, _references: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One cache for all tests that learn the same small days: reference tours are most of that work."""
    monkeypatch.setenv("DREE_CACHE", str(_references))


@pytest.fixture(scope="module")
def browser():
    """A real browser; where there is none, what needs it is skipped."""
    names = [os.environ.get("DREE_CHROMIUM"), *map(shutil.which, CHROMIUMS)]
    path = next(filter(None, names), None)
    if path is None:
        pytest.skip(f"needs one of {', '.join(CHROMIUMS)}, or $DREE_CHROMIUM")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    with playwright.sync_playwright() as driver:
        # Without a sandbox, which containers and root do not have; the pages are our own.
        opened = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()
