"""A kernel is kept under a name of its own, and compiled again where that fails."""

from __future__ import annotations

from pathlib import Path
from pickle import UnpicklingError
from types import SimpleNamespace

import numpy as np
import pytest

from dree.compiled import kernel as module
from dree.compiled.kernel import Kernel, remove_earlier


def add(numbers):
    numbers += 1


def imported(text, folder, monkeypatch):
    """As if the module had been imported while its folder had a file with this text."""
    (folder / "vectors.py").write_text(text)
    monkeypatch.setattr(module, "SOURCES", module.digest_of_files(folder))


def test_a_kernel_is_kept_as_of_the_files_that_were_imported_even_if_they_have_changed_since(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "__file__", str(tmp_path / "kernel.py"))
    names = []
    for text in ("a", "b"):
        (tmp_path / "vectors.py").write_text(text)
        Kernel(add)
        names.append(add.__qualname__)
    assert names[0] == names[1]
    assert module.SOURCES in names[0]


def test_what_is_kept_has_a_name_of_its_shape_and_of_all_the_files_it_comes_from(monkeypatch, tmp_path):
    names = []
    for text, shape in (("a", (8, 16, True)), ("b", (8, 16, True)), ("a", (8, 16, False)), ("a", (8, 16, True))):
        imported(text, tmp_path, monkeypatch)
        Kernel(add, *shape)
        names.append(add.__qualname__)
    assert names[0] == names[3]
    assert len(set(names)) == 3


def test_where_nothing_can_be_kept_kernels_are_compiled_all_the_same(monkeypatch):
    compile_, numbers = module.njit, np.zeros(2)

    def refusing(*, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return compile_(**options)

    monkeypatch.setattr(module, "njit", refusing)
    Kernel(add)(numbers)
    assert (numbers == 1).all()


@pytest.mark.parametrize("error", [OSError("no space left"), EOFError(), UnpicklingError("truncated")])
def test_where_what_is_kept_is_damaged_kernels_are_compiled_again(monkeypatch, tmp_path, error):
    compile_, numbers = module.njit, np.zeros(2)

    def damaged(*_):
        raise error

    damaged.stats = SimpleNamespace(cache_path=str(tmp_path))

    def damaging(*, cache=False, **options):
        return (lambda function: damaged) if cache else compile_(**options)

    monkeypatch.setattr(module, "njit", damaging)
    kernel = Kernel(add)
    kernel(numbers)
    kernel(numbers)
    assert (numbers == 2).all()


OURS, EARLIER, PROCESSOR = "0" * 12, "a" * 12, "b" * 12
KEPT = [
    f"test_kernel.add-8-16-True-{OURS}-{PROCESSOR}-18.py311.nbi",
    f"test_kernel.add-8-16-True-{OURS}-{EARLIER}-18.py312.1.nbc",  # for another processor
    f"test_kernel.add_more-8-{EARLIER}-{PROCESSOR}-30.py311.nbi",
    f"other.add-8-{EARLIER}-{PROCESSOR}-18.py311.nbi",
    "test_kernel.cpython-311.pyc",
    "test_kernel.add-notes.txt",
]
LEFT_OVER = [
    f"test_kernel.add-8-16-True-{EARLIER}-{PROCESSOR}-18.py311.nbi",
    f"test_kernel.add-8-16-True-{EARLIER}-{PROCESSOR}-18.py311.1.nbc",
    f"test_kernel.add-4-4-False-{EARLIER}-19.py311.1.nbc",  # as names were once
    f"test_kernel.add-{EARLIER}-{PROCESSOR}-18.py311.nbi",
]


def test_what_was_kept_of_earlier_files_is_removed_and_nothing_else(tmp_path):
    for name in (*KEPT, *LEFT_OVER):
        (tmp_path / name).touch()
    remove_earlier(tmp_path, add, OURS)
    assert {file.name for file in tmp_path.iterdir()} == set(KEPT)


def test_files_that_are_gone_already_or_cannot_be_removed_are_no_matter(monkeypatch, tmp_path):
    for name in LEFT_OVER:
        (tmp_path / name).touch()
    refused = iter([FileNotFoundError(), PermissionError()])
    remove = Path.unlink

    def unlink(path):
        for error in refused:
            raise error
        remove(path)

    monkeypatch.setattr(Path, "unlink", unlink)
    remove_earlier(tmp_path, add, OURS)
    assert len(list(tmp_path.iterdir())) == 2
    remove_earlier(tmp_path / "nowhere", add, OURS)


def test_a_kernel_of_new_files_takes_the_place_of_the_old_one(monkeypatch, tmp_path):
    for text in ("a", "b"):
        imported(text, tmp_path, monkeypatch)
        kernel = Kernel(add, 7)
        kernel(np.zeros(2))
    kept = Path(kernel._run.stats.cache_path).glob("test_kernel.add-7-*.nbi")
    assert [file.name.startswith(f"test_kernel.{add.__qualname__}-") for file in kept] == [True]
