"""The pieces of replay against values worked out by hand."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dree.errors import DreeError
from dree.lifelong.replay import Interval, behaviour_loss, divergence, has_choice, literal, softened, uncertainty

NO = -math.inf


def log(*probabilities):
    return torch.tensor(probabilities, dtype=torch.float64).log()


def test_the_literal_divergence_is_the_reverse_kl():
    current, remembered = log(0.5, 0.5, 0.0), log(0.25, 0.75, 0.0)
    expected = 0.5 * math.log(2) + 0.5 * math.log(2 / 3)
    assert float(literal(current, remembered)) == pytest.approx(expected, rel=1e-12)
    assert float(literal(remembered, current)) != pytest.approx(expected, rel=1e-3)


def test_the_softened_divergence_takes_a_softmax_of_the_probabilities():
    current, remembered = [1.0, 0.0, 0.0], [0.5, 0.5, 0.0]
    q = [math.exp(p) for p in current]
    p = [math.exp(p) for p in remembered]
    q, p = [x / sum(q) for x in q], [x / sum(p) for x in p]
    expected = sum(a * math.log(a / b) for a, b in zip(q, p, strict=True))
    assert float(softened(log(*current), log(*remembered))) == pytest.approx(expected, rel=1e-12)
    assert expected < 0.15 * math.log(2)  # the literal one is log 2


@pytest.mark.parametrize("kind", ["literal", "softened"])
def test_slots_that_do_not_exist_count_for_nothing(kind):
    """Nor in the gradient; and a state all of whose slots are fillers is no trouble."""
    exists = torch.tensor([[True, True, True, False, False]]).expand(2, -1)
    remembered = torch.stack([log(0.2, 0.8, 0.0, 0.0, 0.0), log(0.0, 0.0, 0.0, 0.0, 0.0)])
    logits = torch.tensor([[0.3, 0.1, NO, NO, NO], [0.4, NO, NO, NO, NO]], dtype=torch.float64, requires_grad=True)
    measured = divergence(kind)(logits.log_softmax(-1), remembered, exists)
    expected = divergence(kind)(logits[0, :3].log_softmax(-1), remembered[0, :3])
    assert measured.isfinite().all()
    torch.testing.assert_close(measured[0], expected)
    weight = torch.tensor([1.0, 0.0])
    ours, theirs = (torch.autograd.grad(value, logits)[0] for value in ((measured * weight).sum(), expected))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("kind", ["literal", "softened"])
def test_divergences_vanish_at_the_remembered_policy_and_pull_towards_it(kind):
    """A step against the gradient, on the logits, brings the policy nearer to the remembered one."""
    remembered = torch.tensor([0.3, 1.0, -1.0], dtype=torch.float64).log_softmax(-1)
    assert float(divergence(kind)(remembered, remembered)) == pytest.approx(0, abs=1e-12)
    logits = torch.tensor([1.0, -0.5, 0.2], dtype=torch.float64, requires_grad=True)
    value = divergence(kind)(logits.log_softmax(-1), remembered)
    value.backward()
    moved = logits.detach() - 0.1 * logits.grad
    distance = (logits.detach().softmax(-1) - remembered.exp()).norm()
    assert (moved.softmax(-1) - remembered.exp()).norm() < distance
    assert float(divergence(kind)(moved.log_softmax(-1), remembered)) < float(value.detach())


@pytest.mark.parametrize("kind", ["literal", "softened"])
@given(seed=st.integers(0, 999))
def test_gradients_are_those_of_finite_differences(kind, seed):
    generator = torch.Generator().manual_seed(seed)
    blocked = torch.tensor([False, True, False, False])
    remembered = torch.randn(4, generator=generator).double().masked_fill(blocked, NO).log_softmax(-1)
    logits = torch.randn(4, generator=generator).double().requires_grad_()

    def value(of: torch.Tensor) -> torch.Tensor:
        return divergence(kind)(of.masked_fill(blocked, NO).log_softmax(-1), remembered)

    value(logits).backward()
    for action in range(4):
        step = torch.zeros(4).double()
        step[action] = 1e-6
        slope = (value(logits.detach() + step) - value(logits.detach() - step)) / 2e-6
        assert float(logits.grad[action]) == pytest.approx(float(slope), abs=1e-8)


def test_uncertainty_is_nought_for_a_sure_policy_and_one_for_a_uniform_one():
    assert float(uncertainty(log(1.0, 0.0, 0.0, 0.0))) == pytest.approx(0, abs=1e-8)
    assert float(uncertainty(log(0.25, 0.25, 0.25, 0.25))) == pytest.approx(1)
    for actions in range(2, 120):  # rounding would take some of them below nought
        sure = torch.full((actions,), NO)
        sure[0] = 0
        assert 0 < float(uncertainty(sure)) < 1e-6
    # Variance of (1/2, 1/2, 0, 0) is 1/16, the largest of four actions 3/16.
    assert float(uncertainty(log(0.5, 0.5, 0.0, 0.0))) == pytest.approx(2 / 3)


def test_behaviour_loss_weighs_the_states_of_a_tour_and_averages_over_tours():
    remembered = torch.stack([log(0.5, 0.5, 0.0), log(1.0, 0.0, 0.0), log(0.8, 0.1, 0.1)])
    current = torch.stack([log(0.9, 0.1, 0.0), log(1.0, 0.0, 0.0), log(0.2, 0.4, 0.4)])
    first = 0.9 * math.log(0.9 / 0.5) + 0.1 * math.log(0.1 / 0.5)
    last = 0.2 * math.log(0.2 / 0.8) + 2 * 0.4 * math.log(0.4 / 0.1)
    # Variances over the largest, 2/9: (1/18) / (2/9) = 1/4, and (0.66 / 3 - 1/9) / (2/9) = 0.49.
    expected = (0.75 * first + 0.51 * last) / (0.75 + 0.51)
    value = behaviour_loss(current[None], remembered[None], "literal")
    assert float(value) == pytest.approx(expected, rel=1e-6)
    both = behaviour_loss(torch.stack([current, remembered]), torch.stack([remembered, remembered]), "literal")
    assert float(both) == pytest.approx(expected / 2, rel=1e-6)


def test_every_tour_counts_the_same_however_sure_it_was():
    remembered = torch.stack([torch.stack([log(0.5, 0.5), log(0.5, 0.5)]), torch.stack([log(1.0, 0.0), log(0.9, 0.1)])])
    current = torch.stack([torch.stack([log(0.9, 0.1), log(0.9, 0.1)]), torch.stack([log(1.0, 0.0), log(0.5, 0.5)])])
    unsure = 0.9 * math.log(0.9 / 0.5) + 0.1 * math.log(0.1 / 0.5)
    sure = 0.5 * math.log(0.5 / 0.9) + 0.5 * math.log(0.5 / 0.1)
    assert float(behaviour_loss(current, remembered, "literal")) == pytest.approx((unsure + sure) / 2, rel=1e-6)


def test_tours_without_any_choice_count_for_nothing():
    forced = torch.stack([log(1.0, 0.0), log(0.0, 1.0)])[None].requires_grad_()
    assert has_choice(forced).tolist() == [[False, False]]
    loss = behaviour_loss(forced, forced.detach(), "literal")
    loss.backward()
    assert float(loss.detach()) == 0
    assert forced.grad.isfinite().all()


@pytest.mark.parametrize(("improved", "count"), [(0.0, 25), (0.5, 39), (1.0, 97)])
def test_replays_among_100_batches_for_a_given_share_of_improvements(improved, count):
    """First at batch UB = 4, then every 4 - 3 * share batches: 1 + 96 / 4, 1 + 96 / 2.5 and 1 + 96, rounded down."""
    interval = Interval(1, 4)
    replays = 0
    for batch in range(1, 101):
        if interval.is_due(batch):
            replays += 1
            interval.schedule(improved)
    assert replays == count


def test_a_fixed_interval_is_kept_on_average():
    """At 3.56, the paper's for ablations: 35.95 of 128 batches."""
    interval, replays = Interval(3.56, 3.56), 0
    for batch in range(1, 12801):
        if interval.is_due(batch):
            replays += 1
            interval.schedule(0.7)
    assert replays == int(12800 / 3.56)


@pytest.mark.parametrize(("lower", "upper"), [(0.5, 4), (5, 4), (math.nan, 4)])
def test_impossible_intervals_are_refused(lower, upper):
    with pytest.raises(DreeError, match="1 <= lower <= upper"):
        Interval(lower, upper)


def test_an_unknown_divergence_is_refused():
    with pytest.raises(DreeError, match="softened"):
        divergence("soften")
