"""Solvers that decide and learn by the kernels in CUDA C++, on the emulator."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from unittest.mock import MagicMock

import pytest
import torch

pytest.importorskip("triton")

from emulated import needs_compiler
from warp_model import refereed, run_on_the_cpu

from conftest import random_instances
from dree import cuda
from dree.solvers import kernel_decoder, make_solver, pomo, warp_rollout
from dree.solvers.decoding import GlimpseDecoder
from dree.solvers.kernel_decoder import KernelDecoder
from dree.solvers.precision import in_precision
from dree.solvers.warp_rollout import HEADS, WIDTH, WarpTape, serves

pytestmark = needs_compiler


@pytest.fixture(autouse=True)
def _on_the_cpu(monkeypatch):
    run_on_the_cpu(monkeypatch)


def test_kernels_serve_only_what_they_were_made_for(monkeypatch):
    nodes = torch.zeros(1, 100, 5, WIDTH, dtype=torch.bfloat16)
    assert serves(nodes, HEADS, 112, 10.0)
    assert serves(nodes.new_zeros(1, 128, 4, WIDTH), HEADS, 128, 10)
    too_many = nodes.new_zeros(1, 129, 5, WIDTH)
    for others in (nodes.float(), nodes.half(), nodes[..., :64], too_many):
        assert not serves(others, HEADS, 100, 10.0)
    assert not serves(nodes, 4, 100, 10.0)
    assert not serves(nodes, HEADS, 113, 10.0)
    assert not serves(nodes, HEADS, 100, 9.5)
    for others in (nodes, nodes.half()):
        assert serves(others, HEADS, 1000, 10.0, record=False)
    for others in (nodes.float(), too_many):
        assert not serves(others, HEADS, 100, 10.0, record=False)
    monkeypatch.setattr(cuda, "serve", lambda _: False)
    assert not serves(nodes, HEADS, 100, 10.0)


@pytest.fixture
def encoded(problem, monkeypatch):
    """A solver of the size that is served, instances and their encoding in bf16."""
    monkeypatch.setattr(pomo, "kernels_serve", lambda *_: True)
    solver, instances = make_solver(problem, settings={"layers": 1}), random_instances(problem, 2, 7, seed=0)
    with in_precision("bf16", instances.device, learning=True):
        return solver, instances, solver.encode(instances)


def test_a_solver_learns_by_these_kernels(encoded):
    solver, instances, encoding = encoded
    assert isinstance(encoding, KernelDecoder)
    tours = solver.solve(instances, generator=torch.Generator().manual_seed(0), encoding=encoding, record=True)
    tape = encoding.recorded[1]
    assert isinstance(tape, WarpTape)
    refereed(instances, tape)
    weights = torch.randn(tours.costs.shape)
    score = solver.score(instances, tours, weights, encoding=encoding)
    ours = torch.autograd.grad(score.weighted, list(solver.parameters()), materialize_grads=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pomo, "kernels_serve", lambda *_: False)
        exact = solver.score(instances, tours, weights)
    theirs = torch.autograd.grad(exact.weighted, list(solver.parameters()), materialize_grads=True)
    torch.testing.assert_close(score.per_tour, exact.per_tour, rtol=0.02, atol=0.1)
    ours, theirs = (torch.cat([each.flatten() for each in gradients]) for gradients in (ours, theirs))
    assert torch.nn.functional.cosine_similarity(ours, theirs, dim=0) > 0.998


def test_other_rollouts_go_another_way(encoded, monkeypatch):
    """Greedy ones that are recorded, those with an odd clip, and those in single precision."""
    solver, instances, encoding = encoded
    ways = []
    launched = MagicMock()
    launched.__getitem__.return_value = lambda *_, **__: ways.append("other")
    monkeypatch.setattr(kernel_decoder, "rollout_kernel", launched)
    monkeypatch.setattr(warp_rollout, "recorded_rollout", lambda *_: ways.append("recorded") or MagicMock())
    monkeypatch.setattr(warp_rollout, "rollout", lambda *_: ways.append("ours") or (None, torch.ones(1)))
    monkeypatch.setattr(kernel_decoder, "_check_ended", lambda _: None)
    starts, longest, generator = solver.starts(instances), solver.rules.longest(instances), torch.Generator()
    encoding.rollout(instances, starts, longest, 10.0, generator, record=True)
    encoding.rollout(instances, starts, longest, 10.0, generator, record=False)
    encoding.rollout(instances, starts, longest, 10.0, None, record=True)
    encoding.rollout(instances, starts, longest, 10.0, None, record=False)
    encoding.rollout(instances, starts, longest, 9.5, generator, record=True)
    for record in (True, False):
        encoding.map(torch.Tensor.float).rollout(instances, starts, longest, 10.0, generator, record=record)
    assert ways == ["recorded", "ours", "other", "ours", *["other"] * 3]


def test_a_solver_solves_by_these_kernels(problem, monkeypatch):
    """In fp16: as well as in single precision by another decoder."""
    monkeypatch.setattr(pomo, "kernels_serve", lambda *_: True)
    solver, instances = make_solver(problem, settings={"layers": 1}), random_instances(problem, 4, 12, seed=0)
    with torch.no_grad():
        for each in solver.parameters():
            each.mul_(1.5)
        encoding = KernelDecoder(HEADS, tuple(solver.encode(instances).tensors))
    packed, *others = encoding.tensors
    tours = solver.solve(instances, encoding=encoding.part((packed.half(), *others)))
    exact = solver.solve(instances, encoding=GlimpseDecoder(HEADS, encoding.tensors))
    longest = min(each.actions.shape[-1] for each in (tours, exact))
    assert (tours.actions[..., :longest] == exact.actions[..., :longest]).all(-1).double().mean() > 0.8
    torch.testing.assert_close(tours.costs.mean(), exact.costs.mean(), rtol=0.01, atol=0)


@pytest.mark.filterwarnings("ignore:overflow encountered in exp2")  # of Triton's: infinity is right there
def test_the_benchmark_times_these_kernels_and_the_other_way_triton(problem, monkeypatch):
    monkeypatch.setattr(pomo, "kernels_serve", lambda *_: True)
    path = Path(__file__).parents[2] / "benchmarks/warp_kernels.py"
    spec = importlib.util.spec_from_file_location("benchmarks_warp_kernels", path)
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    works = benchmark.works(problem, 6, 1, torch.device("cpu"))
    assert isinstance(works["rollout"](), WarpTape)
    log_prob, gradients = works["gradient"]()
    assert log_prob.isfinite().all()
    assert all(each.isfinite().all() for each in gradients)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(warp_rollout, "serves", lambda *_, **__: False)
        assert not isinstance(benchmark.works(problem, 6, 1, torch.device("cpu"))["rollout"](), WarpTape)
