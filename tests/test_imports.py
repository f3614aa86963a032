"""Imports go one way: a package imports only from the layers below its own."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import dree

SOURCE = Path(__file__).parents[1] / "src" / "dree"
LAYERS = [
    {"errors"},
    {"bars", "files", "randomness", "registry", "settings"},
    {"compiled", "kernels", "problems"},
    {"tasks", "solvers"},
    {"data"},
    {"lifelong"},
    {"evaluation", "testing"},
    {"routing"},
    {"experiments"},
    {"service"},
    {"report"},
    {"reproduce"},
    {"terminal"},
    {
        f"cli_{part}"
        for part in [
            "bench",
            "convert",
            "data",
            "drift",
            "evaluate",
            "lade",
            "learn",
            "orders",
            "pretrain",
            "reproduce",
            "runs",
            "solve",
            "watch",
        ]
    },
    {"cli"},
    {"__main__"},
]
LEVEL = {package: level for level, packages in enumerate(LAYERS) for package in packages}


def imported(tree: ast.AST) -> set[str]:
    """The parts of `dree` that a module imports, wherever in it."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module)
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name.split(".")[1] for name in names if name.startswith("dree.")}


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_one_way(path):
    package = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if package == "__init__":
        pytest.skip("the package itself imports nothing of its own")
    for other in imported(ast.parse(path.read_text())) - {package}:
        assert LEVEL[other] < LEVEL[package], f"{package} must not import {other}"


def test_every_package_has_its_layer():
    packages = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert packages - {"__init__"} == set(LEVEL)


def test_every_public_name_can_be_loaded_from_the_top():
    assert {name: getattr(dree, name).__class__ for name in dree.__all__}
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        dree.nonsense  # noqa: B018


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys, dree; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
