"""Fine-tuning: learn the current task only, and let the past go."""

from __future__ import annotations

from dree.lifelong.methods.base import Method


class FineTuning(Method):
    """No memory at all: the baseline that forgets."""

    whole_lessons = False
