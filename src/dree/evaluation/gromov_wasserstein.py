"""The Gromov-Wasserstein distance between two sets of nodes, by conditional gradient from nine starts (package POT).

It compares the distances within one set with those within the other, so it is blind to shifts, turns and mirrors and
to the order of the nodes. Finding it is not a convex problem: each start ends in some minimum, and the lowest is kept,
which may be above the true one. The starts go by the axes, along which instances lie in their unit square; what is
found does not change with quarter turns and mirrors, but it may with other turns.
Nothing here needs torch: distances are computed in processes of their own, which start fast.

Shapes: m nodes in the first set, n in the second.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dree.errors import DreeError

Nodes = NDArray[np.float64]  # [m, 2]

STARTS = 9  # the product of the weights, and the transport plans under the eight symmetries of the square
TOLERANCE = 1e-5  # of the loss, relative and absolute, at which conditional gradient stops


def made() -> dict[str, Any]:
    """How distances are computed: the package's version and the settings. It must be installed."""
    if importlib.util.find_spec("ot") is None:
        raise DreeError("Gromov-Wasserstein distances need the package POT: pip install 'dree[drift]'")
    version = importlib.metadata.version("pot")
    return {"name": "pot", "version": version, "starts": STARTS, "tolerance": TOLERANCE}


def gromov_wasserstein(first: Nodes, second: Nodes) -> float:
    """The distance of two sets whose nodes weigh the same: squared loss on Euclidean distances, square root."""
    from ot.gromov import gromov_wasserstein2

    within = [_distances(first, first), _distances(second, second)]
    scale = float(max(each.max() for each in within)) or 1.0  # so that the tolerance means the same in all units
    within = [each / scale for each in within]
    weights = (_uniform(first), _uniform(second))
    options: dict[str, Any] = {"symmetric": True, "tol_rel": TOLERANCE, "tol_abs": TOLERANCE}
    losses = [float(gromov_wasserstein2(*within, *weights, G0=start, **options)) for start in _starts(first, second)]
    return scale * float(np.sqrt(max(0.0, min(losses))))


def _starts(first: Nodes, second: Nodes) -> Iterator[NDArray[np.float64]]:
    """Couplings [m, n]: the product, then the best plans to carry one set, turned and mirrored, onto the other."""
    from ot import emd

    weights = (_uniform(first), _uniform(second))
    yield np.outer(*weights)
    centred, target = first - first.mean(axis=0), second - second.mean(axis=0)
    for symmetry in _symmetries():
        yield emd(*weights, _distances(centred @ symmetry, target) ** 2)


def _symmetries() -> Iterator[NDArray[np.float64]]:
    """The eight matrices that map the square onto itself."""
    quarter = np.array([[0.0, -1.0], [1.0, 0.0]])
    for turns in range(4):
        for mirror in (1.0, -1.0):
            yield np.linalg.matrix_power(quarter, turns) @ np.diag([mirror, 1.0])


def _distances(first: Nodes, second: Nodes) -> NDArray[np.float64]:
    distances: NDArray[np.float64] = np.linalg.norm(first[:, None] - second[None], axis=2)
    return distances


def _uniform(nodes: Nodes) -> NDArray[np.float64]:
    return np.full(len(nodes), 1 / len(nodes))
