"""Floating-point operations of behaviour replay.

They are those of the matrix products of one behaviour replay, forward and backward, a multiplication with its addition
being two; counted by torch's counter as they are done, custom gradients included. Products that it does not know are
added by the rules below.

A large batch is replayed in chunks, which INViT computes twice to save memory, with views that shrink as customers are
served. How large chunks are depends on the device, so they are not counted: one instance is, all its decisions in one
pass, and multiplied. The paper's numbers for INViT, n - 1 times a constant, are of views of full size as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch.utils.flop_counter import FlopCounterMode

from dree.data.published import published
from dree.experiments.tables import Cell, PaperRow, PaperTable
from dree.lifelong import DREE, Learner, LearnerSettings
from dree.lifelong.experience import Experience
from dree.randomness import named_generator
from dree.reproduce.base import Choice, Experiment, Found
from dree.reproduce.table3 import BASES
from dree.settings import build
from dree.solvers import make_solver
from dree.solvers.products import LINEAR
from dree.tasks import principal

SIZES = (20, 50, 100)
BATCH = 32
ONE_PASS = 2**30  # bytes that hold all decisions of an instance of the largest size
NOTES = (
    "The paper does not say how it counts. Ours: two operations for a multiplication with its addition, in matrix "
    "products alone, forward and backward, nothing computed twice.",
    "Omni has POMO's network, and so its numbers.",
    "Networks of full size at every scale.",
)


def attention_flops(query: Sequence[int], key: Sequence[int], *_: object, **__: object) -> int:
    """Scores and weighted values of [B, H, X, d] on [B, H, N, d]."""
    batch, heads, rows, width = query
    return 4 * batch * heads * rows * key[2] * width


def attention_backward_flops(
    _upstream: object, query: Sequence[int], key: Sequence[int], *_: object, **__: object
) -> int:
    """The scores again, and a product for each of the gradients of weights, values, queries and keys."""
    batch, heads, rows, width = query
    return 10 * batch * heads * rows * key[2] * width


def linear_flops(x: Sequence[int], weight: Sequence[int], *_: object, **__: object) -> int:
    """A linear map of the last dimension."""
    return 2 * math.prod(x) * weight[0]


UNKNOWN_TO_TORCH = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: attention_flops,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: attention_backward_flops,
}
if LINEAR is not None:
    UNKNOWN_TO_TORCH[LINEAR] = linear_flops


def experience(base: str, problem: str, size: int, batch: int = BATCH) -> tuple[Learner, Experience]:
    """What DREE keeps of a batch that an untrained solver of full size has solved, on the CPU."""
    solver = make_solver(problem, base, {"chunk_bytes": ONE_PASS})
    learner = Learner(solver, DREE(), build(LearnerSettings, {**solver.learning, "augmentation": 1}))
    instances = principal("U", problem, size).sample(batch, named_generator(0, "instances"))
    with torch.no_grad():
        whole = Experience.of(learner.solver, learner.attempt(instances, "solve"))
        return learner, whole.cut(int(whole.needed()))


def replay_flops(learner: Learner, old: Experience) -> tuple[int, int]:
    """Operations of one behaviour replay: forward, and forward and backward.

    Those of its first instance, as often as there are instances: tours are padded to one length, so all take the same.
    """
    method, instances = learner.method, len(old.instances)
    assert isinstance(method, DREE)
    one = Experience(old.instances[:1], old.costs[:1], old.actions[:1], old.behaviour[:1])
    with FlopCounterMode(display=False, custom_mapping=UNKNOWN_TO_TORCH) as counter:
        loss = method.behaviour_replay(learner, one)
        forward = counter.get_total_flops()
        loss.backward()  # type: ignore[no-untyped-call]
    return instances * forward, instances * counter.get_total_flops()


def published_flops(base: str, problem: str, size: int, returns: int) -> float:
    """The paper's formula for tours with so many depot returns."""
    (row,) = published("flops").where(solver=base, problem=problem, n=size)
    return float(row["operations"] + (row["for each return"] or 0) * returns)


class Flops(Experiment):
    """Operations of one behaviour replay, ours counted."""

    name = "flops"
    title = "10^9 floating-point operations of one behaviour replay, batch 32"
    source = "Appendix, table of FLOPs"

    def tables(self, choice: Choice, found: Found) -> list[PaperTable]:
        """Every base solver, problem and size, with as many depot returns as the longest of our tours."""
        bases = {"pomo": "POMO", "invit": BASES["invit"]}
        cases = [
            (base, problem, size)
            for base in bases
            for problem in choice.problems
            for size in (SIZES if choice.scale.name == "paper" else SIZES[:1])
        ]
        rows = []
        with found.bars(len(cases)) as part:
            for base, problem, size in cases:
                done = part(f"counting operations: {bases[base]}, {problem.upper()}, n = {size}", 1.0)
                learner, old = experience(base, problem, size)
                returns = old.actions.shape[1] - size if problem == "cvrp" else 0
                ours, printed = replay_flops(learner, old)[1], published_flops(base, problem, size, returns)
                cells = (Cell(ours / 1e9, printed / 1e9),)
                rows.append(PaperRow((bases[base], problem.upper(), str(size), str(returns)), cells))
                done(1.0)
        heads = ("solver", "problem", "n", "depot returns")
        return [
            PaperTable(self.name, self.title, self.source, heads, ("operations",), tuple(rows), NOTES, ranked=False)
        ]
