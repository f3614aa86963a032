"""What asks for more memory than there is fails on a CPU as it does on a GPU."""

from __future__ import annotations

import resource

import pytest
import torch

from dree.experiments import memory
from dree.experiments.memory import within_memory

CPU = torch.device("cpu")
pytestmark = pytest.mark.skipif(not memory.SYSTEM.is_file(), reason="the system does not tell what is available")


@pytest.mark.parametrize("ask", [lambda: torch.empty(2**28), lambda: bytearray(2**30)])
def test_more_than_there_is_fails_and_afterwards_all_is_as_before(monkeypatch, ask):
    before = resource.getrlimit(resource.RLIMIT_DATA)
    free = memory._bytes
    monkeypatch.setattr(memory, "_bytes", lambda table, name: 2**29 if table == memory.SYSTEM else free(table, name))
    with pytest.raises(torch.OutOfMemoryError), within_memory(CPU):
        ask()
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    with within_memory(CPU):
        torch.empty(2**20)


def test_other_errors_stay_what_they_are():
    with pytest.raises(RuntimeError, match="another"), within_memory(CPU):
        raise RuntimeError("another")


@pytest.mark.parametrize(("limit", "most"), [("max\n", 3 * 1024), ("2048\n", 2048), (None, 3 * 1024)])
def test_a_container_may_have_less_than_the_system(tmp_path, monkeypatch, limit, most):
    for name, text in (("SYSTEM", "MemTotal: 9 kB\nMemAvailable: 2 kB\n"), ("PROCESS", "VmData:\t 1 kB\n")):
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(memory, name, tmp_path / name)
    monkeypatch.setattr(memory, "CONTAINER", tmp_path / "CONTAINER")
    if limit is not None:
        memory.CONTAINER.write_text(limit)
    assert memory._most() == most


def test_where_the_system_does_not_tell_nothing_is_changed(tmp_path, monkeypatch):
    before = resource.getrlimit(resource.RLIMIT_DATA)
    monkeypatch.setattr(memory, "SYSTEM", tmp_path / "none")
    with within_memory(CPU):
        assert resource.getrlimit(resource.RLIMIT_DATA) == before
