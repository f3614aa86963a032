"""The tasks of meta-training: each distribution has its shape, for whole batches at once."""

from __future__ import annotations

import pytest
import torch

from dree.errors import DreeError
from dree.tasks.omni import DISTRIBUTIONS, Modes, OmniTask


def sample(modes: Modes, customers: int, batch: int = 200, problem: str = "tsp", seed: int = 0):
    return OmniTask(problem, modes, customers).sample(batch, torch.Generator().manual_seed(seed))


def test_there_are_eleven_distributions_with_names_of_their_own():
    assert [tuple(modes) for modes in DISTRIBUTIONS] == [
        (0, 0), (1, 1), (3, 10), (3, 30), (3, 50), (5, 10), (5, 30), (5, 50), (7, 10), (7, 30), (7, 50)
    ]  # fmt: skip
    names = [OmniTask("tsp", modes, 50).name for modes in DISTRIBUTIONS]
    assert names[:3] == ["uniform-50", "gaussian-50", "mixture3x10-50"]
    assert len(set(names)) == 11


@pytest.mark.parametrize("modes", DISTRIBUTIONS, ids=lambda modes: modes.name)
def test_instances_are_in_the_unit_square_and_fixed_by_the_generator(problem, modes):
    one, same, other = (sample(modes, 23, 5, problem, seed) for seed in (1, 1, 2))
    assert all(a.equal(b) for a, b in zip(one.tensors(), same.tensors(), strict=True))
    assert not one.coords.equal(other.coords)
    assert one.validated().customers == 23
    assert one.coords.min() >= 0
    assert one.coords.max() <= 1
    assert one.coords.dtype == torch.float32


@pytest.mark.parametrize(
    ("customers", "capacity"), [(10, 20), (19, 20), (20, 34), (50, 40), (51, 41), (100, 50), (200, 70), (1000, 230)]
)
def test_capacity_grows_with_the_size(customers, capacity):
    assert sample(DISTRIBUTIONS[0], customers, 2, "cvrp").capacity.tolist() == [capacity, capacity]


def test_demands_go_from_one_to_nine_and_the_depot_is_uniform_whatever_the_nodes():
    instances = sample(Modes(7, 50), 50, 2000, "cvrp")
    assert instances.demands[:, 0].eq(0).all()
    counts = torch.bincount(instances.demands[:, 1:].flatten(), minlength=10)[1:]
    assert len(counts) == 9
    assert (counts / counts.sum() - 1 / 9).abs().max() < 0.005
    depot = instances.coords[:, 0]
    torch.testing.assert_close(depot.mean(0), torch.tensor([0.5, 0.5]), atol=0.02, rtol=0)
    torch.testing.assert_close(depot.var(0), torch.tensor([1 / 12, 1 / 12]), atol=0.01, rtol=0)


def test_the_bell_has_one_scale_for_both_axes_and_is_centred_along_the_shorter():
    coords = sample(Modes(1, 1), 60).coords
    low, high = coords.amin(1), coords.amax(1)
    torch.testing.assert_close((high - low).amax(-1), torch.ones(200))
    torch.testing.assert_close(low + high, torch.ones(200, 2))
    assert (high - low).amin(-1).min() < 0.8  # not stretched
    centred = coords - coords.mean(1, keepdim=True)
    spread = centred.square().mean(1).sqrt()
    correlation = (centred.prod(-1)).mean(1) / spread.prod(-1)
    assert -0.4 < correlation.min() < 0.3  # U(0, 1), and the noise of 60 points
    assert correlation.max() > 0.9
    assert correlation.mean() == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize("clusters", [3, 5, 7])
def test_mixtures_fill_both_axes_and_keep_clusters_together(clusters):
    coords = sample(Modes(clusters, 50), 100).coords
    torch.testing.assert_close(coords.amin(1), torch.zeros(200, 2))
    torch.testing.assert_close(coords.amax(1), torch.ones(200, 2))
    jumps = (coords[:, 1:] - coords[:, :-1]).norm(dim=-1) > 0.2  # clusters are about 0.1 wide here
    assert jumps.sum(1).float().median() < clusters
    apart = [sample(Modes(clusters, spread), 100).coords for spread in (10, 50)]
    steps = [(each[:, 1:] - each[:, :-1]).norm(dim=-1).median() for each in apart]
    assert steps[0] > 2 * steps[1]  # a wider square makes tighter clusters


def test_clusters_have_multinomial_sizes():
    """Seen by the jumps between far clusters of three: the first one's share is Binomial(40, 1/3)."""
    coords = sample(Modes(3, 50), 40, 4000).coords
    jumps = (coords[:, 1:] - coords[:, :-1]).norm(dim=-1) > 0.25
    clear = jumps.sum(1) == 2  # all three are there and far enough apart
    first = jumps[clear].int().argmax(1) + 1
    assert clear.sum() > 1000
    assert first.float().mean() == pytest.approx(40 / 3, abs=0.3)
    assert first.float().var() == pytest.approx(40 * 2 / 9, rel=0.15)


def test_what_is_no_task_is_refused():
    with pytest.raises(DreeError, match="Unknown problem 'vrp'"):
        OmniTask("vrp", DISTRIBUTIONS[0], 20)
    with pytest.raises(DreeError, match="at least 2 customers"):
        OmniTask("tsp", DISTRIBUTIONS[0], 1)
