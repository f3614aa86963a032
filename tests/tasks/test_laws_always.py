"""What holds for every law, specification, problem and number of nodes."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from dree.errors import DreeError
from dree.tasks import LAWS, SPECS, principal

LAW = st.sampled_from(list(LAWS))
SPEC = st.sampled_from(SPECS)
DEMANDS = {"text": dict.fromkeys(LAWS, (0, 10)), "official": {**dict.fromkeys(LAWS, (1, 10)), "C": (0, 9)}}
EVERY = pytest.mark.parametrize(
    ("law", "spec", "problem"),
    [(law, spec, problem) for law in LAWS for spec in SPECS for problem in ("tsp", "cvrp")],
)


def draw(law, n, spec, cvrp, seed, batch=3):
    generator = torch.Generator().manual_seed(seed)
    depot = torch.rand(batch, 2, generator=generator) if cvrp else None
    return LAWS[law].draw(batch, n, generator, depot, spec)


@settings(max_examples=300, deadline=None)
@given(law=LAW, spec=SPEC, cvrp=st.booleans(), n=st.integers(1, 120), seed=st.integers(0, 2**32))
def test_nodes_are_finite_and_in_the_unit_square_and_demands_in_range(law, spec, cvrp, n, seed):
    coords, demands = draw(law, n, spec, cvrp, seed)
    assert coords.shape == (3, n, 2)
    assert coords.dtype == torch.float32
    assert coords.isfinite().all()
    assert coords.min() >= 0
    assert coords.max() <= 1
    assert (demands is not None) == cvrp
    if demands is not None:
        low, high = DEMANDS[spec][law]
        assert demands.shape == (3, n)
        assert demands.dtype == torch.int64
        assert low <= demands.min()
        assert demands.max() <= high


@EVERY
def test_one_seed_gives_the_same_bits_and_another_gives_others(law, spec, problem):
    task = principal(law, problem, spec=spec)
    a, b, c = (task.sample(4, torch.Generator().manual_seed(seed)) for seed in (5, 5, 6))
    assert torch.equal(a.coords, b.coords)
    assert not torch.equal(a.coords, c.coords)
    if a.demands is not None:
        assert torch.equal(a.demands, b.demands)
        assert not torch.equal(a.demands, c.demands)


@EVERY
def test_instances_of_a_batch_differ_and_the_global_generator_is_left_alone(law, spec, problem):
    before = torch.get_rng_state()
    coords = principal(law, problem, spec=spec).sample(4, torch.Generator().manual_seed(0)).coords
    assert torch.equal(before, torch.get_rng_state())
    assert len({tuple(row.flatten().tolist()) for row in coords}) == 4


class NoWaiting(TorchDispatchMode):
    """Fails on operations that make the host wait for the device."""

    WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "equal", "unique", "item")

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.name().split("::")[1].split(".")[0]
        assert name not in self.WAITING, f"{name} waits for the device"
        if name.startswith("index"):
            flat = [x for arg in args for x in (arg if isinstance(arg, list | tuple) else [arg])]
            assert not any(getattr(x, "dtype", None) == torch.bool for x in flat[1:]), "boolean index waits"
        return func(*args, **(kwargs or {}))


def test_the_waiting_detector_detects():
    with NoWaiting(), pytest.raises(AssertionError, match="waits"):
        bool(torch.ones(3).sum() > 1)
    with NoWaiting(), pytest.raises(AssertionError, match="waits"):
        torch.arange(3.0)[torch.tensor([True, False, True])]


@EVERY
@pytest.mark.parametrize("size", [3, 40])
def test_sampling_never_waits_for_the_device(law, spec, problem, size):
    task = principal(law, problem, size, spec)
    generator = torch.Generator().manual_seed(0)
    with NoWaiting():
        task.sample(4, generator)


def test_unknown_specifications_and_empty_draws_are_refused():
    with pytest.raises(DreeError, match="Did you mean 'official'"):
        draw("U", 5, "oficial", False, 0)
    with pytest.raises(DreeError, match="at least 1"):
        draw("G", 0, "text", False, 0)
