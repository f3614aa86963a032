"""Randomness by name: every draw comes from a generator that a seed and a name fix.

Nothing depends on what was drawn before, so an interrupted run goes on exactly where it was, and two methods
that run with one seed see the same instances.
"""

from __future__ import annotations

import hashlib

import torch


def named_seed(seed: int, *name: str | int) -> int:
    """A 63-bit seed for one named purpose."""
    digest = hashlib.blake2b(repr((seed, *name)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def named_generator(seed: int, *name: str | int, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator for one named purpose, for example `(seed, "instances", epoch, batch)`."""
    return torch.Generator(device=device).manual_seed(named_seed(seed, *name))
