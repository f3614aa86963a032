"""check_solver accepts POMO, with its compiled decoder and without, and refuses solvers with a single thing wrong."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import ClassVar

import pytest
import torch

from conftest import always_compiled, small_invit, small_solver, without_numba
from dree.errors import DreeError
from dree.problems import Tours
from dree.solvers import POMO, INViT, Omni, POMOSettings, Score, decoding
from dree.testing import check_solver

SETTINGS = POMOSettings(width=8, heads=2, layers=1, feed_forward=16)


def test_pomo_keeps_to_it(problem, monkeypatch):
    always_compiled(monkeypatch)
    check_solver(small_solver, problem=problem)


def test_pomo_keeps_to_it_without_numba_in_the_smallest_chunks(problem, monkeypatch):
    without_numba(monkeypatch)
    check_solver(lambda name: small_solver(name, chunk_bytes=1), problem=problem)


def test_omni_keeps_to_it(problem):
    check_solver(lambda name: Omni(name, SETTINGS), problem=problem)


class ForgetsAStep(POMO):
    def score(self, instances, tours, weights_BP=None, *, encoding=None):
        score = super().score(instances, tours, weights_BP, encoding=encoding)
        state = self.rules.begin(instances, tours.actions[..., 0])
        first = self.decide(instances, tours.actions[..., 0], state).gather(-1, tours.actions[..., 1:2]).squeeze(-1)
        weights = torch.ones_like(first) if weights_BP is None else weights_BP
        return Score(score.per_tour - first.detach(), score.weighted - (weights * first).sum())


class DoubleGradient(POMO):
    def score(self, instances, tours, weights_BP=None, *, encoding=None):
        score = super().score(instances, tours, weights_BP, encoding=encoding)
        return Score(score.per_tour, 2 * score.weighted - score.weighted.detach())


class NoWeights(POMO):
    def score(self, instances, tours, weights_BP=None, *, encoding=None):
        return super().score(instances, tours, encoding=encoding)


class OpenTours(POMO):
    def solve(self, instances, starts=None, *, generator=None, encoding=None, record=False):
        tours = super().solve(instances, starts, generator=generator, encoding=encoding, record=record)
        return Tours(tours.actions, tours.costs * 0.9)


class ForgetsACustomer(POMO):
    def solve(self, instances, starts=None, *, generator=None, encoding=None, record=False):
        tours = super().solve(instances, starts, generator=generator, encoding=encoding, record=record)
        actions = tours.actions.clone()
        actions[..., 1] = actions[..., 0]
        return Tours(actions, tours.costs)


class IgnoresStarts(POMO):
    def solve(self, instances, starts=None, *, generator=None, encoding=None, record=False):
        if starts is not None:
            starts = starts.flip(1)
        return super().solve(instances, starts, generator=generator, encoding=encoding, record=record)


class GlobalDice(POMO):
    def solve(self, instances, starts=None, *, generator=None, encoding=None, record=False):
        random.random()
        return super().solve(instances, starts, generator=generator, encoding=encoding, record=record)


class Unseeded(POMO):
    def solve(self, instances, starts=None, *, generator=None, encoding=None, record=False):
        fixed = None if generator is None else torch.Generator().manual_seed(0)
        return super().solve(instances, starts, generator=fixed, encoding=encoding, record=record)


class OtherToursOnRecord(POMO):
    def solve(self, instances, starts=None, *, generator=None, encoding=None, record=False):
        generator = None if record else generator
        return super().solve(instances, starts, generator=generator, encoding=encoding, record=record)


class LooksAtTheNeighbours(POMO):
    def embedding(self, instances):
        return super().embedding(instances) - instances.coords.mean((0, 1)).sum()


class LooksAtTheFirst(Omni):
    def embedding(self, instances):
        return super().embedding(instances) - instances.coords[0].mean()


class GrowsWithTheBatch(Omni):
    def _project(self, nodes_BND):
        return super()._project(nodes_BND * len(nodes_BND))


class SilentlyOmni(Omni):
    encoding_batch = None


class WrongRows(POMO):
    def encode(self, instances):
        class Shifted(decoding.GlimpseDecoder):
            def __getitem__(self, rows):
                return self.part(tuple(tensor.roll(1, 0)[rows] for tensor in self.tensors))

        decoder = super().encode(instances)
        return Shifted(decoder.heads, decoder.tensors)


class ReversedImitation(POMO):
    def imitate(self, instances, tours, teacher, *, encoding=None):
        own = encoding or self.encode(instances)
        return super().imitate(instances, tours, own, encoding=teacher)


class Restless(POMO):
    def behave(self, instances, tours, *, encoding=None):
        with torch.no_grad():
            self.combine.bias += 1e-12
        return super().behave(instances, tours, encoding=encoding)


class BehavesOneStepLate(POMO):
    def behave(self, instances, tours, *, encoding=None):
        return super().behave(instances, tours, encoding=encoding).roll(1, 1)


class Unmasked(POMO):
    def decide(self, instances, starts_BP, state, *, encoding=None):
        free = replace(state, blocked=torch.zeros_like(state.blocked))
        return super().decide(instances, starts_BP, free, encoding=encoding)


class FrozenDecision(POMO):
    def decide(self, instances, starts_BP, state, *, encoding=None):
        policy = super().decide(instances, starts_BP, state, encoding=encoding)
        return policy.detach() + 0 * self.key.weight.sum()


class CentresAllNodes(POMO):
    mixes_sizes = True

    def embedding(self, instances):
        return super().embedding(instances) - instances.coords.mean((1, 2), keepdim=True)


class OneCandidateTwice(INViT):
    def candidates(self, instances, state):
        nodes = super().candidates(instances, state)
        return torch.where(nodes == nodes[..., 2:3], nodes[..., 1:2], nodes)


class CandidatesFromElsewhere(INViT):
    def candidates(self, instances, state):
        nodes = super().candidates(instances, state)
        return torch.where(nodes > 0, nodes.flip(0), nodes)


class EmptySlotsOpen(INViT):
    def candidates(self, instances, state):
        return super().candidates(instances, state).clamp(min=0)


class TooFewCandidates(INViT):
    def candidates(self, instances, state):
        return super().candidates(instances, state)[..., :-1]


@pytest.mark.parametrize(
    ("mutant", "message"),
    [
        (OneCandidateTwice, "candidates gives a node that is allowed more than one slot|just those nodes"),
        (CandidatesFromElsewhere, "just those nodes that are blocked|candidates"),
        (EmptySlotsOpen, "and to slots that have no node"),
        (TooFewCandidates, "candidates gives nodes of shape"),
    ],
)
def test_a_solver_with_wrong_slots_is_refused(mutant, message):
    with pytest.raises((AssertionError, DreeError), match=message):
        check_solver(lambda problem: mutant(problem, small_invit(problem).settings), problem="cvrp")


@pytest.mark.parametrize(
    ("mutant", "message"),
    [
        (ForgetsAStep, "score, beside the sum of decide's log-probabilities: the largest difference"),
        (DoubleGradient, "The gradient of score is .* in a direction in which its slope is"),
        (NoWeights, "score with weights.weighted"),
        (OpenTours, r"solve with a generator, instance 0, tour 0: the cost is said to be"),
        (ForgetsACustomer, "solve with a generator, instance 0, tour 0: .* missing"),
        (IgnoresStarts, "solve from given starts gives tours that do not begin with their starts"),
        (GlobalDice, "draws from the global random state of random"),
        (Unseeded, "the same tours whatever the seed"),
        (OtherToursOnRecord, "record=True gives other tours than without"),
        (LooksAtTheNeighbours, r"instances \[0\] of a batch"),
        (LooksAtTheFirst, r"instances \[2, 1, 0\] of a batch"),
        (GrowsWithTheBatch, r"instances \[0, 1, 2, 0, 1, 2\] of a batch"),
        (SilentlyOmni, r"instances \[0\] of a batch"),
        (WrongRows, r"the score of instances \[0\] of a batch with these rows of the batch's encoding"),
        (
            ReversedImitation,
            r"imitate, beside KL\(teacher \|\| policy\): .* only its encoding is known, so all weights",
        ),
        (Restless, "change the solver's weights"),
        (BehavesOneStepLate, "behave, tour 0, beside decide"),
        (Unmasked, "just those nodes that are blocked, before action 1"),
        (FrozenDecision, "The gradient of decide is 0 "),
        (CentresAllNodes, "decide after encode_padded, beside decide: the largest difference"),
    ],
)
def test_a_solver_with_one_thing_wrong_is_refused(mutant, message):
    with pytest.raises((AssertionError, DreeError), match=message) as caught:
        check_solver(lambda problem: mutant(problem, SETTINGS), problem="cvrp")
    assert caught.value.__notes__ == ["This was in check_solver, cvrp."]


def test_a_subclass_mixes_sizes_only_if_it_says_so():
    assert (POMO.mixes_sizes, CentresAllNodes.mixes_sizes) == (True, True)
    assert (WrongRows.mixes_sizes, Omni.mixes_sizes, INViT.mixes_sizes) == (False, False, False)


def test_a_solver_of_another_problem_is_refused():
    with pytest.raises(AssertionError, match=r"make\('tsp'\) gives a solver with the rules of cvrp"):
        check_solver(lambda problem: small_solver("cvrp"))
    with pytest.raises(DreeError, match=r"Unknown problem 'vrp'\. Did you mean 'cvrp'"):
        check_solver(small_solver, problem="vrp")


class TakesNoSettings(POMO):
    def __init__(self, problem):
        super().__init__(problem, SETTINGS)


class Misspelt(POMO):
    learning: ClassVar[dict[str, object]] = {"learnin_rate": 1.0}


class FloatActions(POMO):
    def solve(self, *given, **more):
        tours = super().solve(*given, **more)
        return replace(tours, actions=tours.actions.float())


def test_a_class_is_made_as_runs_make_it():
    with pytest.raises(DreeError, match=r"'TakesNoSettings' cannot be made: .* must take \(self, problem, settings\)"):
        check_solver(TakesNoSettings)
    with pytest.raises(DreeError, match=r"Unknown setting 'learnin_rate'"):
        check_solver(lambda problem: Misspelt(problem, SETTINGS))


def test_what_is_no_solver_yet_is_said_in_a_sentence(monkeypatch):
    with pytest.raises(AssertionError, match=r"solve with a generator gives actions in torch.float32, not torch.int64"):
        check_solver(lambda problem: FloatActions(problem, SETTINGS), problem="tsp")
    monkeypatch.setattr(POMO, "parameters", lambda self: iter(()))
    with pytest.raises(AssertionError, match=r"a solver without any torch.nn.Parameter to learn"):
        check_solver(lambda problem: POMO(problem, SETTINGS), problem="tsp")
