"""The numbers that methods report of themselves, as a picture."""

from __future__ import annotations

import numpy as np

from dree.report.method_looks import METHOD_COLOURS
from dree.report.numbers import draw_numbers, memory_sections, own_numbers

COMMON = {"task": "E20", "loss": -1.0, "cost": 5.0}
PLAIN = [{"epoch": 1, **COMMON}, {"epoch": 2, **COMMON}]
DREE = [
    {"epoch": 1, **COMMON, "buffered": 4, "buffer_bytes": 2**20, "replays": 0},
    {"epoch": 2, **COMMON, "buffered": 8, "buffer_bytes": 3 * 2**20, "replays": 3, "improved": 0.25},
]


def test_only_what_a_method_has_for_itself_counts():
    assert own_numbers(PLAIN) == []
    assert own_numbers(DREE) == ["buffered", "buffer_bytes", "replays", "improved"]


def test_each_number_has_a_panel_in_units_for_people():
    figure = draw_numbers({"fine-tuning": PLAIN, "dree": DREE})
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == [
        "remembered experiences",
        "memory for them (MiB)",
        "instance replays in the epoch",
        "replayed instances solved better than before (%)",
    ]
    (lines,) = zip(*(axes.get_lines() for axes in figure.axes), strict=True)
    values = [list(line.get_ydata()) for line in lines]
    assert values[:3] == [[4, 8], [1, 3], [0, 3]]
    assert np.isnan(values[3][0])
    assert values[3][1] == 25
    assert {line.get_color() for line in lines} == {METHOD_COLOURS["dree"]}  # the colour of its learning curve
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["dree"]


def test_a_users_method_has_its_own_names_and_panels():
    figure = draw_numbers({"own": [{"epoch": 1, **COMMON, "novelty": -0.5}]})
    (axes,) = figure.axes
    assert axes.get_title(loc="left") == "novelty"
    assert axes.get_ylim()[0] < -0.5
    assert figure.legends == []


def test_without_numbers_there_is_no_picture():
    assert draw_numbers({"fine-tuning": PLAIN}) is None
    assert memory_sections({"fine-tuning": PLAIN}) == []
    assert len(memory_sections({"fine-tuning": PLAIN, "dree": DREE})) == 2
