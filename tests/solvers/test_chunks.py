"""Chunks cover every tour once and respect their budget; the chunked sum has the right value and gradient."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from dree.solvers.chunks import split, sum_in_chunks


@given(rows=st.integers(1, 40), columns=st.integers(1, 40), cost=st.integers(1, 100), budget=st.integers(1, 10_000))
def test_chunks_cover_every_tour_once_within_the_budget(rows, columns, cost, budget):
    seen = torch.zeros(rows, columns)
    for row, column in split(rows, columns, cost, budget):
        seen[row, column] += 1
        assert seen[row, column].numel() * cost <= max(budget, cost)
    assert (seen == 1).all()


@given(budget=st.integers(1, 50))
def test_the_chunked_sum_has_the_value_and_gradient_of_the_plain_one(budget):
    generator = torch.Generator().manual_seed(budget)
    table = torch.randn(5, 4, generator=generator, dtype=torch.float64).requires_grad_()

    def values(rows, columns, tensor):
        return tensor[:, columns].sin() * torch.arange(4.0)[columns]

    def term(chunk, tensors):
        part = values(*chunk, tensors[0])
        return part.sum(), part.detach()

    total, parts = sum_in_chunks(term, split(5, 4, 1, budget), (table,))
    plain = values(slice(None), slice(None), table)
    torch.testing.assert_close(total, plain.sum())
    torch.testing.assert_close(parts, plain.detach())
    (3 * total).backward()
    torch.testing.assert_close(table.grad, 3 * torch.autograd.grad(plain.sum(), table)[0])


def test_without_gradient_nothing_is_differentiated():
    with torch.no_grad():
        total, _ = sum_in_chunks(
            lambda chunk, tensors: (tensors[0].sum(), tensors[0]),
            split(2, 3, 1, 99),
            (torch.ones(2, 3, requires_grad=True),),
        )
    assert total == 6
    assert not total.requires_grad
