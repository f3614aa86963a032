"""What a decision does with numbers alone."""

from __future__ import annotations

import numpy as np
import pytest

from dree.compiled.decisions import draw, likeliest

POLICY = np.array([0.25, 0.0, 0.5, 0.25, 9.0], np.float32)  # the last is beyond the open nodes


@pytest.mark.parametrize(
    ("threshold", "pick"), [(0.0, 0), (0.2499, 0), (0.25, 2), (0.7499, 2), (0.75, 3), (1.0, 3), (np.nan, 3)]
)
def test_a_draw_is_the_first_node_that_passes_the_threshold_and_never_one_without_a_chance(threshold, pick):
    assert draw(POLICY, 4, np.float32(threshold)) == pick


@pytest.mark.parametrize(("scores", "pick"), [([0.5], 0), ([0.1, 0.9, 0.9], 1), ([-1, -2], 0), ([0.0, 0.0, 3.0], 2)])
def test_of_the_likeliest_nodes_the_first_is_taken(scores, pick):
    assert likeliest(np.array([*scores, 7.0], np.float32), len(scores)) == pick
