"""Saving figures: files by suffix, the same bytes every time, and no trace in the plotting library."""

import base64
import os
from pathlib import Path

import matplotlib
import pytest
from matplotlib._pylab_helpers import Gcf

import dree.report
from dree.errors import DreeError
from dree.files import write_bytes
from dree.report import (
    LAW_COLOURS,
    as_svg_or_png_data_uri,
    examples,
    gallery,
    law_title,
    learning_curves,
    save,
    save_both,
)
from dree.report.style import LINE_COLOURS, LINE_STYLES, columns_for, line_colour, line_style
from dree.tasks import LAWS, principal

SIGNATURES = {".png": b"\x89PNG\r\n\x1a\n", ".pdf": b"%PDF-", ".svg": b"<?xml"}
SMALL = dict.fromkeys(LAWS, 4)


@pytest.fixture(scope="module")
def figure():
    return gallery("tsp", sizes=SMALL)


@pytest.mark.parametrize("suffix", SIGNATURES)
def test_the_suffix_decides_the_format_and_the_folder_is_made(tmp_path, figure, suffix):
    path = save(figure, tmp_path / "new" / "folder" / f"picture{suffix}")
    content = path.read_bytes()
    assert content.startswith(SIGNATURES[suffix])
    assert len(content) > 5_000
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_capital_suffix_is_the_same_suffix(tmp_path, figure):
    assert save(figure, tmp_path / "A.PNG").read_bytes().startswith(SIGNATURES[".png"])


@pytest.mark.parametrize("name", ["picture.gif", "picture"])
def test_another_suffix_is_refused_with_the_list_of_good_ones(tmp_path, figure, name):
    with pytest.raises(DreeError, match=r"\.png, \.pdf, \.svg"):
        save(figure, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_the_users_error_and_leaves_nothing(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(DreeError, match="Cannot write"):
        write_bytes(tmp_path / "taken", b"content")
    assert [file.name for file in tmp_path.iterdir()] == ["taken"]


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "file"
    write_bytes(path, b"a long first content")
    write_bytes(path, b"short")
    assert path.read_bytes() == b"short"


@pytest.mark.parametrize(("kind", "media"), [("svg", "image/svg+xml"), ("png", "image/png")])
def test_the_same_seed_gives_the_same_inline_picture_and_another_seed_another(kind, media):
    task = {"U": principal("U", "cvrp", 4)}
    pictures = [as_svg_or_png_data_uri(examples(task, seed), kind) for seed in (5, 5, 6)]
    assert pictures[0] == pictures[1] != pictures[2]
    head, data = pictures[0].split(",")
    assert head == f"data:{media};base64"
    assert base64.b64decode(data).startswith(SIGNATURES[".svg" if kind == "svg" else ".png"])


@pytest.mark.parametrize("suffix", SIGNATURES)
def test_writing_the_same_figure_twice_gives_the_same_bytes(tmp_path, figure, suffix):
    assert save(figure, tmp_path / f"a{suffix}").read_bytes() == save(figure, tmp_path / f"b{suffix}").read_bytes()


def test_an_unknown_kind_of_inline_picture_is_refused(figure):
    with pytest.raises(DreeError, match="svg, png"):
        as_svg_or_png_data_uri(figure, "pdf")


def test_drawing_and_saving_leave_the_plotting_library_as_it_was(tmp_path):
    before = dict(matplotlib.rcParams)
    save(gallery("tsp", sizes=SMALL), tmp_path / "a.svg")
    assert dict(matplotlib.rcParams) == before
    assert Gcf.get_all_fig_managers() == []


def test_no_figure_is_made_through_the_interface_that_keeps_global_state():
    for source in Path(dree.report.__file__).parent.glob("*.py"):
        assert "pyplot" not in source.read_text(encoding="utf-8")


def test_every_law_has_a_colour_and_a_title_of_its_own():
    assert set(LAW_COLOURS) == set(LAWS)
    assert len(set(LAW_COLOURS.values())) == len(LAWS)
    assert law_title("GM") == "Gaussian mixture"
    assert law_title("sh-2") == "sh-2"


def test_lines_repeat_neither_colour_with_dashes_before_all_pairs_are_used():
    pairs = {(line_colour(i), line_style(i)) for i in range(len(LINE_COLOURS) * len(LINE_STYLES))}
    assert len(pairs) == len(LINE_COLOURS) * len(LINE_STYLES)


def test_columns_hold_all_panels_in_a_handful_of_rows():
    assert [columns_for(n) for n in (1, 2, 3, 4, 6, 9)] == [1, 2, 3, 2, 3, 3]
    assert all(columns_for(n) <= 6 for n in range(1, 60))
    with pytest.raises(DreeError, match="nothing to draw"):
        columns_for(0)


def test_a_figure_of_runs_is_saved_to_look_at_and_to_print(tmp_path):
    figure = learning_curves([0, 1, 2], {"U": [3.0, 2.0, 1.0]}, {"U": [(1, 2)]})
    png, pdf = save_both(figure, tmp_path / "figures", "curves")
    assert (png, pdf) == (tmp_path / "figures" / "curves.png", tmp_path / "figures" / "curves.pdf")
    assert png.read_bytes().startswith(SIGNATURES[".png"])
    assert pdf.read_bytes().startswith(SIGNATURES[".pdf"])


def test_what_is_written_to_a_link_goes_to_the_file_it_leads_to(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "folder" / "file")
    assert write_bytes(tmp_path / "link", b"content") == tmp_path / "link"
    assert (tmp_path / "folder" / "file").read_bytes() == b"content"
    assert (tmp_path / "link").is_symlink()


def test_a_pipe_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DreeError, match="no plain file"):
        write_bytes(tmp_path / "pipe", b"content")
    assert (tmp_path / "pipe").is_fifo()
