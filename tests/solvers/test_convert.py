"""Checkpoints of the original POMO and Omni: their numbers come out the same, and what is no such file is refused."""

from __future__ import annotations

import os
import pickle
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch

from conftest import random_instances
from dree.errors import DreeError
from dree.problems import Instances, Tours
from dree.solvers import POMOSettings, make_solver
from dree.solvers.convert import original_names, read_original
from original_pomo import Original, save_original


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "checkpoint-2.pt"


def double(instances: Instances) -> Instances:
    coords, *others = instances.tensors()
    return Instances(coords.double(), *others)


@pytest.mark.parametrize("norm", ["instance", "batch-no-track"])
@pytest.mark.parametrize("customers", [7, 70])  # both forms of the decoder
def test_encoder_tours_and_log_probabilities_are_the_originals(path, problem, customers, norm):
    reference = Original(problem, norm=norm)
    save_original(path, reference)
    reference.double()
    original = read_original(path, norm=norm)
    assert (original.problem, original.epoch, original.norm) == (problem, 2, norm)
    assert original.settings == POMOSettings(width=16, heads=8, layers=2, feed_forward=24)
    solver = make_solver(original.problem, original.solver, asdict(original.settings))
    solver.load_state_dict(original.weights)
    solver.double()
    instances = double(random_instances(problem, 3, customers, seed=1))
    nodes = solver.embedding(instances)
    for layer in solver.layers:
        nodes = layer(nodes)
    torch.testing.assert_close(nodes, reference.encoder(instances), rtol=0, atol=1e-8)
    for sampled in (False, True):
        actions, log_prob = reference.rollout(instances, sampled)
        if problem == "cvrp":
            actions = actions[..., 1:]  # the departure from the depot goes without saying here
        if not sampled:
            assert torch.equal(solver.solve(instances).actions, actions)
        tours = Tours(actions, solver.rules.cost(instances, actions))
        torch.testing.assert_close(solver.score(instances, tours).per_tour, log_prob, rtol=0, atol=1e-6)


def test_names_and_shapes_are_the_published_ones(path, problem):
    save_original(path, Original(problem, width=128, layers=6, hidden=512))
    original = read_original(path)
    assert original.settings == POMOSettings()
    shapes = {name: value.shape for name, value in make_solver(problem).state_dict().items()}
    assert {name: value.shape for name, value in original.weights.items()} == shapes
    names = [each for theirs in original_names(problem, 6).values() for each in theirs]
    there = Original(problem, width=128, layers=6, hidden=512).state_dict()
    assert sorted(names) == sorted(there)
    assert len(names) == {"tsp": 86, "cvrp": 87}[problem]
    assert sum(value.numel() for value in there.values()) == {"tsp": 1269760, "cvrp": 1254016}[problem]


def test_a_bare_state_dict_and_the_old_file_format_will_do(path, problem):
    model = Original(problem)
    torch.save(model.state_dict(), path)
    bare = read_original(path)
    assert bare.epoch == 0
    torch.save({"model_state_dict": model.state_dict()}, path, _use_new_zipfile_serialization=False)
    old = read_original(path)
    assert (old.settings, old.epoch) == (bare.settings, 0)
    assert all(torch.equal(old.weights[name], value) for name, value in bare.weights.items())


def test_width_must_be_a_multiple_of_the_heads_which_are_eight_unless_given(path):
    save_original(path, Original("tsp", width=12, heads=4))
    with pytest.raises(DreeError, match="width 12 must be a multiple of its heads, 8"):
        read_original(path)
    assert read_original(path, heads=4).settings.heads == 4


class Harmful:
    """Runs a command when it is unpickled as usual."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


class Custom:
    """A class of somebody's own."""


@pytest.mark.parametrize("zipped", [True, False])
def test_code_in_a_file_is_refused_and_not_run(path, tmp_path, zipped):
    mark = tmp_path / "mark"
    content = {"model_state_dict": Original("tsp").state_dict(), "result_log": Harmful(mark)}
    torch.save(content, path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(DreeError, match=r"It asks for (posix|os)\.mkdir\. Nothing in it was run") as caught:
        read_original(path)
    assert "weights_only" not in str(caught.value)  # torch's advice would run it
    assert not mark.exists()
    path.write_bytes(pickle.dumps(Harmful(mark)))
    with pytest.raises(DreeError, match=r"Nothing in it was run|or is damaged"):
        read_original(path)
    assert not mark.exists()
    pickle.loads(path.read_bytes())
    assert mark.exists()  # so it would have been


@pytest.mark.parametrize("core", [b"numpy.core.", b"numpy._core."])
def test_numbers_and_arrays_of_numpy_in_a_log_are_passed_over(path, core):
    scores = [[np.int64(1), np.float64(7.5)], [2, np.float32(7.25)], np.arange(3.0), np.True_]
    content = {"epoch": 2, "model_state_dict": Original("tsp").state_dict(), "result_log": {"train_score": scores}}
    torch.save(content, path, _use_new_zipfile_serialization=False)  # a form in which names can be changed
    path.write_bytes(path.read_bytes().replace(b"numpy._core.", core).replace(b"numpy.core.", core))
    assert core in path.read_bytes()
    found = read_original(path)
    assert (found.epoch, found.problem) == (2, "tsp")
    torch.save(content, path)
    assert read_original(path).weights.keys() == found.weights.keys()


def test_weights_of_numpy_are_refused(path):
    weights = {name: value.numpy() for name, value in Original("tsp").state_dict().items()}
    torch.save({"model_state_dict": weights}, path)
    with pytest.raises(DreeError, match="are not finite floats"):
        read_original(path)


def test_classes_that_are_not_torchs_are_refused(path):
    save_original(path, Original("tsp"), extra=Custom())
    with pytest.raises(DreeError, match=r"asks for .*Custom"):
        read_original(path)


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04 nothing", b"\x80\x02}q\x00."])
def test_what_is_no_file_of_torch_is_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(DreeError, match="damaged"):
        read_original(path)


def test_a_missing_file_a_folder_and_a_truncated_file_are_refused(path, tmp_path):
    with pytest.raises(DreeError, match="There is no file"):
        read_original(path)
    with pytest.raises(DreeError, match="cannot be read"):
        read_original(tmp_path)
    save_original(path, Original("tsp"))
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(DreeError, match="damaged"):
        read_original(path)


@pytest.mark.parametrize("content", [torch.zeros(3), [1, 2], {"model_state_dict": 3}, {0: torch.zeros(1)}])
def test_other_content_is_refused(path, content):
    torch.save(content, path)
    with pytest.raises(DreeError, match="holds neither 'model_state_dict' nor tensors by name"):
        read_original(path)


def test_another_network_is_refused(path):
    torch.save({"model_state_dict": torch.nn.Linear(2, 2).state_dict()}, path)
    with pytest.raises(DreeError, match=r"among its 2 entries is neither encoder.embedding.weight nor"):
        read_original(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decoder.Wk.weight": None}, r"1 is missing: decoder.Wk.weight"),
        ({f"x{i}": torch.zeros(1) for i in range(4)}, r"4 are unknown: x0, x1, x2, \.\.\."),
        (
            {"decoder.Wv.weight": torch.zeros(16, 17)},
            r"1 is of another shape: decoder.Wv.weight \[16, 17\] instead of \[16, 16\]",
        ),
        ({"encoder.layers.1.Wq.weight": torch.zeros(32, 16)}, r"encoder.layers.1.Wq.weight \[32, 16\]"),
        ({"encoder.layers.0.multi_head_combine.bias": torch.zeros(16, dtype=torch.int64)}, "1 is not finite floats"),
        ({"decoder.Wk.weight": torch.full((16, 16), float("nan"))}, "1 is not finite floats: decoder.Wk.weight"),
        ({"decoder.Wk.weight": [1.0]}, "1 is not finite floats"),
        ({"decoder.Wk.weight": torch.zeros(16, 16).to_sparse()}, "1 is not finite floats"),
        ({"decoder.Wk.weight": torch.zeros(16, 16, device="meta")}, "1 is not finite floats"),
        ({"encoder.layers.99999999999999999999.Wq.weight": torch.zeros(16, 16)}, r"\d+ are missing: .*; 1 is unknown"),
    ],
)
def test_tensors_that_do_not_fit_are_named(path, problem, changes, message):
    state = {**Original(problem).state_dict(), **changes}
    save_original(path, Original(problem), model_state_dict={k: v for k, v in state.items() if v is not None})
    with pytest.raises(DreeError, match=message):
        read_original(path)


def test_what_its_tensors_show_of_a_norm_comes_before_what_its_name_does_not_say(tmp_path):
    path = tmp_path / "pomo-checkpoint-2x250000-batch.pt"
    torch.save({"model_state_dict": Original("tsp", norm="batch").state_dict()}, path)
    with pytest.raises(DreeError, match="has batch norm with running statistics"):
        read_original(path)


def test_the_weights_of_one_problem_are_not_taken_for_the_others(path):
    state = Original("tsp").state_dict()
    torch.save({**state, "encoder.embedding_node.weight": torch.zeros(16, 3)}, path)
    with pytest.raises(DreeError, match=r"are missing: .* are unknown: encoder.embedding.weight"):
        read_original(path)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("batch", "batch norm with running statistics"),
        ("rezero", "'rezero' in place of a norm"),
        ("none", "no norm"),
    ],
)
def test_other_norms_are_refused_with_the_reason_whatever_is_said(path, problem, kind, message):
    state = Original(problem, norm="batch" if kind == "batch" else "instance").state_dict()
    if kind != "batch":
        norms = {name for name in state if ".norm." in name}
        places = {name.rpartition(".")[0] for name in norms}
        state = {name: value for name, value in state.items() if name not in norms}
        state |= {place: torch.zeros(1) for place in places} if kind == "rezero" else {}
    torch.save({"model_state_dict": state}, path)
    for norm in (None, "instance", "batch-no-track"):
        with pytest.raises(DreeError, match=rf"has {message}\. The solvers here have instance norm \(POMO\) or batch"):
            read_original(path, norm=norm)


@pytest.mark.parametrize(
    ("name", "norm"),
    [
        ("checkpoint-3000-tsp100-instance-norm.pt", "instance"),
        ("checkpoint-2.pt", "instance"),
        ("maml-checkpoint-250000-Batch-no-track.pt", "batch-no-track"),
        ("maml_fomaml_batch_no_track.pt", "batch-no-track"),
    ],
)
def test_the_norm_is_taken_from_the_files_name_unless_it_is_given(tmp_path, name, norm):
    path = save_original(tmp_path / name, Original("tsp", norm=norm))
    assert read_original(path).norm == norm
    for other in ("instance", "batch-no-track"):
        assert read_original(path, norm=other).norm == other


def test_a_name_that_speaks_of_batch_norm_without_saying_which_needs_a_word(tmp_path):
    path = save_original(tmp_path / "pomo-checkpoint-2x250000-batch.pt", Original("tsp"))
    with pytest.raises(DreeError, match=r"--norm batch-no-track .* or --norm instance"):
        read_original(path)
    assert read_original(path, norm="instance").problem == "tsp"
    with pytest.raises(DreeError, match="Unknown norm 'batch'"):
        read_original(path, norm="batch")
