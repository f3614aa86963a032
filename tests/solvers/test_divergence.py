"""How far one policy is from another, against the same by plain operations."""

from __future__ import annotations

import pytest
import torch

from dree.solvers.divergence import kl_divergence


@pytest.mark.parametrize("dims", [1, 2])
def test_it_is_the_kl_of_the_policy_from_the_target_and_its_gradient_that_of_autograd(dims):
    generator = torch.Generator().manual_seed(0)
    logits, other = torch.randn(2, 2, 3, 5, 4, dtype=torch.float64, generator=generator)
    closed = torch.tensor([False, True, False, False])
    target = other.masked_fill(closed, -torch.inf).log_softmax(-1)
    ours, theirs = (logits.clone().requires_grad_() for _ in range(2))
    found = kl_divergence(ours.masked_fill(closed, -torch.inf).log_softmax(-1), target, dims)
    policy = theirs[..., ~closed].log_softmax(-1)
    wanted = target[..., ~closed]
    expected = (wanted.exp() * (wanted - policy)).sum(tuple(range(-dims, 0)))
    torch.testing.assert_close(found, expected)
    weights = torch.rand(expected.shape, dtype=torch.float64, generator=generator)
    for value in (found, expected):
        (value * weights).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)
