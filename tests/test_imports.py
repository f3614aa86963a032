"""Imports go one way: a package imports only from the layers below its own."""

from __future__ import annotations

import ast
import importlib.metadata
import subprocess
import sys
from importlib.util import resolve_name
from pathlib import Path

import pytest

import dree

SOURCE = Path(__file__).parents[1] / "src" / "dree"
LAYERS = [
    {"errors"},
    {"bars", "files", "randomness", "registry", "settings", "turns"},
    {"compiled", "cuda", "kernels"},
    {"problems"},
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


def imported(source: str, package: str) -> set[str]:
    """The parts of `dree` that a module of a package imports, wherever in it."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            home = resolve_name("." * node.level + (node.module or ""), package)
            names |= {f"{home}.{alias.name}" for alias in node.names}
    return {name.split(".")[1] for name in names if name.startswith("dree.")}


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ("import dree.tasks.lade, numpy", {"tasks"}),
        ("from dree.problems import Instances", {"problems"}),
        ("from dree import compiled, kernels", {"compiled", "kernels"}),
        ("from . import pomo", {"solvers"}),
        ("from .pomo import POMO", {"solvers"}),
        ("from .. import lifelong", {"lifelong"}),
        ("from ..lifelong.learner import Learner", {"lifelong"}),
        ("def late():\n    from dree import cli", {"cli"}),
        ("import dree\nfrom torch import Tensor\nfrom dreeish import solvers", set()),
    ],
)
def test_an_import_is_seen_however_it_is_written(source, parts):
    assert imported(source, "dree.solvers") == parts


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_one_way(path):
    module = path.relative_to(SOURCE.parent).with_suffix("").parts
    package = module[1]
    if package == "__init__":
        pytest.skip("the package itself imports nothing of its own")
    for other in imported(path.read_text(), ".".join(module[:-1])) - {package}:
        assert LEVEL.get(other, len(LAYERS)) < LEVEL[package], f"{package} must not import {other}"


def test_every_package_has_its_layer():
    packages = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert packages - {"__init__"} == set(LEVEL)


def test_every_public_name_can_be_loaded_from_the_top():
    assert {name: getattr(dree, name).__class__ for name in dree.__all__}
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        dree.nonsense  # noqa: B018


def test_what_type_checkers_see_is_what_is_loaded():
    """Without the imports that only they follow, editors would know no public name."""
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    seen = {
        (node.module, alias.name, alias.asname)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == {(home, name, name) for home, names in dree._HOMES.items() for name in names}


def test_all_public_names_and_the_version_are_listed():
    assert {*dree.__all__, "__version__"} <= set(dir(dree))
    assert dree.__version__ == importlib.metadata.version("dree")


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys, dree; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
