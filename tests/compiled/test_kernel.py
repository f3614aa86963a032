"""A kernel is kept under a name of its own, and compiled again where that fails."""

from __future__ import annotations

from pickle import UnpicklingError

import numpy as np
import pytest

from dree.compiled import kernel as module
from dree.compiled.kernel import Kernel


def add(numbers):
    numbers += 1


def test_what_is_kept_has_a_name_of_its_shape_and_of_all_the_files_it_comes_from(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "__file__", str(tmp_path / "kernel.py"))
    names = []
    for text, shape in (("a", (8, 16, True)), ("b", (8, 16, True)), ("a", (8, 16, False)), ("a", (8, 16, True))):
        (tmp_path / "vectors.py").write_text(text)
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
def test_where_what_is_kept_is_damaged_kernels_are_compiled_again(monkeypatch, error):
    compile_, numbers = module.njit, np.zeros(2)

    def damaged(*_):
        raise error

    def damaging(*, cache=False, **options):
        return (lambda function: damaged) if cache else compile_(**options)

    monkeypatch.setattr(module, "njit", damaging)
    kernel = Kernel(add)
    kernel(numbers)
    kernel(numbers)
    assert (numbers == 2).all()
