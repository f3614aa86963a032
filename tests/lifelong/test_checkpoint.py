"""Checkpoints keep every bit, replace each other in one step, and do not hide damage."""

from __future__ import annotations

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save, save_file

from dree.errors import DreeError
from dree.lifelong import checkpoint
from dree.lifelong.checkpoint import KINDS, checkpoints, load_checkpoint, load_latest, save_checkpoint, unstorable

STATE = {
    "epoch": 3,
    "rate": 0.1,
    "name": "é",
    "nothing": None,
    "flag": True,
    "numbers": {0: torch.arange(4), "1": [torch.tensor(2.5), {"deep": torch.ones(2, 3, dtype=torch.bfloat16)}]},
    "mask": torch.tensor([True, False]),
    "empty": torch.zeros(0, 2),
    "turned": torch.arange(6.0).reshape(2, 3).T,
}


def test_a_state_comes_back_as_it_was_saved(tmp_path):
    loaded = load_checkpoint(save_checkpoint(tmp_path, 7, STATE))
    assert {key: loaded[key] for key in ("epoch", "rate", "name", "nothing", "flag")} == {
        "epoch": 3,
        "rate": 0.1,
        "name": "é",
        "nothing": None,
        "flag": True,
    }
    assert list(loaded["numbers"]) == [0, "1"]
    assert loaded["numbers"][0].equal(torch.arange(4))
    assert loaded["numbers"]["1"][0].equal(torch.tensor(2.5))
    assert loaded["numbers"]["1"][1]["deep"].equal(torch.ones(2, 3, dtype=torch.bfloat16))
    assert loaded["mask"].equal(torch.tensor([True, False]))
    assert loaded["empty"].shape == (0, 2)
    assert loaded["turned"].tolist() == [[0, 3], [1, 4], [2, 5]]


@pytest.mark.parametrize("dtype", KINDS)
def test_every_type_of_tensor_comes_back(tmp_path, dtype):
    tensors = [torch.tensor([1, 0, 3]).to(dtype), torch.tensor(1).to(dtype), torch.zeros(0, 2).to(dtype)]
    loaded = load_checkpoint(save_checkpoint(tmp_path, 1, {"tensors": tensors}))["tensors"]
    assert [(each.dtype, each.shape, each.tolist()) for each in loaded] == [
        (dtype, each.shape, each.tolist()) for each in tensors
    ]


def test_a_type_that_cannot_be_kept_is_refused(tmp_path):
    with pytest.raises(
        TypeError, match=r"cannot hold a tensor of torch\.complex64 at /wave, but only tensors, numbers"
    ):
        save_checkpoint(tmp_path, 1, {"wave": torch.zeros(1, dtype=torch.complex64)})


@pytest.mark.parametrize(
    ("state", "fault"),
    [
        (STATE, None),
        ({"kept": [1, {"seen": {2, 3}}]}, "a set at /kept/1/seen"),
        ({"kept": {(1, 2): 3}}, "a tuple as a key at /kept"),
        ({b"kept": 3}, "a bytes as a key at /"),
        ({"kept": [torch.arange(2).numpy()]}, "a ndarray at /kept/0"),
        (object(), "an object at /"),
    ],
)
def test_what_cannot_be_kept_is_named_with_its_place(state, fault):
    assert unstorable(state) == fault


def test_tensors_that_share_memory_come_back_apart(tmp_path):
    line = torch.arange(4.0, requires_grad=True)
    state = load_checkpoint(save_checkpoint(tmp_path, 1, {"all": line, "again": line, "half": line[2:]}))
    state["all"].zero_()
    assert (state["again"].tolist(), state["half"].tolist()) == ([0, 1, 2, 3], [2, 3])


def test_a_state_is_written_as_it_is_at_that_moment(tmp_path):
    weights = torch.ones(3)
    path = save_checkpoint(tmp_path, 1, {"weights": weights})
    weights.zero_()
    assert load_checkpoint(path)["weights"].tolist() == [1, 1, 1]


def test_the_file_is_the_one_that_safetensors_would_write(tmp_path):
    path = save_checkpoint(tmp_path, 1, {"half": torch.ones(3, dtype=torch.bfloat16), "é": torch.ones(5)})
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    assert path.read_bytes() == save(load_file(path), metadata)


def test_the_two_newest_are_kept_and_no_temporary_file_stays(tmp_path):
    for number in range(4):
        save_checkpoint(tmp_path, number, {"epoch": number})
    assert [path.name for path in checkpoints(tmp_path)] == ["000000003.safetensors", "000000002.safetensors"]
    assert len(list(tmp_path.iterdir())) == 2
    assert load_latest(tmp_path) == {"epoch": 3}


@pytest.mark.parametrize("damage", ["truncate", "empty", "flip"])
def test_a_damaged_checkpoint_is_passed_over_aloud(tmp_path, damage):
    save_checkpoint(tmp_path, 1, {"epoch": 1, "weights": torch.ones(100)})
    path = save_checkpoint(tmp_path, 2, {"epoch": 2, "weights": torch.ones(100)})
    content = bytearray(path.read_bytes())
    if damage == "flip":
        content[-5] ^= 0x40
    path.write_bytes({"truncate": content[:-50], "empty": b"", "flip": content}[damage])
    said = []
    state = load_latest(tmp_path, said.append)
    assert state["epoch"] == 1
    assert len(said) == 1
    assert str(path) in said[0]
    assert "Using the one before it" in said[0]


def test_when_all_are_damaged_it_says_so(tmp_path):
    save_checkpoint(tmp_path, 1, {"epoch": 1}).write_bytes(b"nonsense")
    with pytest.raises(DreeError, match=r"No checkpoint in .* can be used"):
        load_latest(tmp_path, lambda _: None)


def test_without_any_there_is_nothing(tmp_path):
    assert load_latest(tmp_path) is None


def test_another_version_is_passed_over_aloud_and_refused_where_it_is_the_only_one(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "VERSION", 99)
        newer = save_checkpoint(tmp_path, 2, {"epoch": 2})
    said = []
    with pytest.raises(DreeError, match="can be used"):
        load_latest(tmp_path, said.append)
    assert "has version 99, this program reads version 2" in said[0]
    save_checkpoint(tmp_path, 1, {"epoch": 1})
    assert load_latest(tmp_path, said.append) == {"epoch": 1}
    assert "Using the one before it" in said[1]
    with pytest.raises(DreeError, match="use the version of dree that wrote it"):
        load_checkpoint(newer)


def test_whatever_bit_flips_in_a_checkpoint_the_one_before_it_is_used(tmp_path):
    save_checkpoint(tmp_path, 1, {"epoch": 1, "weights": torch.ones(3)})
    path = save_checkpoint(tmp_path, 2, {"epoch": 2, "weights": torch.ones(3)})
    whole = path.read_bytes()
    survived = 0
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 0x04
        path.write_bytes(damaged)
        state = load_latest(tmp_path, lambda _: None)
        assert state["epoch"] == 1 or state["weights"].equal(torch.ones(3))
        survived += state["epoch"] == 2  # padding in the header may change without harm
    assert survived < len(whole) / 10


def test_another_file_is_refused(tmp_path):
    save_file({"x": torch.ones(1)}, tmp_path / "1.safetensors")
    with pytest.raises(DreeError, match="not a dree checkpoint"):
        load_checkpoint(tmp_path / "1.safetensors")


def test_no_code_can_be_put_into_a_checkpoint(tmp_path):
    with pytest.raises(TypeError, match="cannot hold a function at /hook"):
        save_checkpoint(tmp_path, 1, {"hook": lambda: None})


def test_any_reader_of_safetensors_can_read_the_tensors(tmp_path):
    path = save_checkpoint(tmp_path, 1, {"solver": {"weight": torch.arange(3.0)}})
    assert load_file(path)["/solver/weight"].tolist() == [0, 1, 2]
