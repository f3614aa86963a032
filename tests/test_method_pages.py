"""The pages in docs/methods say what the code and the paper's tables say."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from dree.data.published import Row, published
from dree.experiments.configuration import PRESETS
from dree.lifelong import METHODS, make_method
from dree.settings import override, parse_assignments

DOCS = Path(__file__).parents[1] / "docs"
METRICS = ("AP", "AFB", "AMFB", "ABPl")
PAPER_NAMES = {"fine-tuning": "Fine-tuning", "dree": "DREE", "llr-bc": "LLR-BC", "li": "Li", "mt-ref": "MT-Ref"}


def page(name: str) -> str:
    return (DOCS / "methods" / f"{name}.md").read_text(encoding="utf-8")


def published_lines(name: str) -> list[str]:
    """The lines of a page's table, up to the paper's numbers: what was run, the problem, the four metrics."""
    if name == "mt-cumulative":
        return [line("drift, order 1", row) for row in published("mt-cumulative").where(method="MT-cu")]
    method = PAPER_NAMES[name]
    lines = [line("drift, mean of orders 1 to 5", row) for row in published("main").where(method=method)]
    if name == "mt-ref":
        return [text.replace("mean of orders 1 to 5", "order 1") for text in lines]
    lines += [line("drift, order 1", row) for row in published("orders").where(method=method, order=1)]
    lines += [line("drift, order 1, finer test", row) for row in published("finer").where(method=method)]
    lines += [line(f"{row['scenario']}, order 1", row) for row in published("scenarios").where(method=method)]
    if name == "dree":
        variants = {"w.o.PIR": "without pir", "w.o.BR": "without br", "w.o.EE": "without ee"}
        ablations = (row for row in published("ablation").rows if row["method"] in variants)
        lines += [line(f"drift, order 1, {variants[row['method']]}", row) for row in ablations]
        settings = (row for row in published("hyper-parameters").rows if row["setting"] != "DREE")
        lines += [line(f"drift, order 1, {row['setting']}", row) for row in settings]
    if name == "llr-bc":
        every = (row for row in published("llr-bc-frequency").rows if row["method"] != "LLR-BC")
        lines += [line(f"drift, order 1, {row['method']}", row) for row in every]
    return lines


def line(what: str, row: Row) -> str:
    return " | ".join([what, row["problem"].upper(), *(number(row[metric]) for metric in METRICS)])


def number(value: float | tuple[float, float] | None) -> str:
    if value is None:
        return "-"
    return f"{value[0]:.2f} ({value[1]:.2f})" if isinstance(value, tuple) else f"{value:.2f}"


@pytest.mark.parametrize("name", METHODS)
def test_a_page_has_the_papers_numbers(name):
    table = re.findall(r"^\| ((?:drift|periodic|sudden), .*) \|.*\|$", page(name), re.MULTILINE)
    assert table == published_lines(name)


@pytest.mark.parametrize("name", METHODS)
def test_a_page_has_all_options_with_their_defaults(name):
    listed = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", page(name), re.MULTILINE)
    options = make_method(name).options
    values = {field.name: getattr(options, field.name) for field in fields(options)}
    assert listed == [(option, "null" if value is None else str(value)) for option, value in values.items()]


@pytest.mark.parametrize("name", METHODS)
def test_a_page_has_the_number_of_batches(name):
    assert f"{METHODS[name].batches_per_epoch} new batches an epoch" in page(name).replace("\n", " ")


@pytest.mark.parametrize("name", METHODS)
def test_the_settings_in_a_pages_commands_exist(name):
    commands = re.findall(r"^dree run (.*)$", page(name), re.MULTILINE)
    assert commands
    for command in commands:
        assert f"--method {name}" in command
        assignments = re.findall(r"--set (\S+)", command)
        without = re.search(r"--without (\w+)", command)
        changes = {"method": name, **parse_assignments(assignments)}
        override(PRESETS["paper"], changes | ({"options.without": without[1]} if without else {}))


def test_the_index_links_every_page():
    links = re.findall(r"\]\(([\w-]+)\.md\)", page("README"))
    assert set(METHODS) <= set(links)
