"""Pictures of solutions: closed tours, routes in their own colours, and nothing that is no solution."""

import numpy as np
import pytest
import torch

from dree.errors import DreeError
from dree.report import Solution, as_svg_or_png_data_uri, draw_routes, routes_grid
from dree.tasks import principal

SQUARE = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
STAR = np.array([[0.5, 0.5], [0.1, 0.1], [0.9, 0.1], [0.9, 0.9], [0.1, 0.9]])
DEMANDS = [0, 3, 4, 5, 6]


def words(legend):
    return [text.get_text() for text in legend.get_texts()]


def test_a_tsp_tour_is_closed_and_its_start_marked():
    figure = draw_routes(SQUARE, [2, 1, 0, 3], "tsp", "a square")
    (axes,) = figure.axes
    (line,) = axes.get_lines()
    np.testing.assert_array_equal(line.get_xydata(), SQUARE[[2, 1, 0, 3, 2]])
    np.testing.assert_array_equal(axes.collections[-1].get_offsets(), SQUARE[[2]])
    assert axes.get_title() == "a square"
    assert axes.get_xlabel() == "length 4.000"
    assert words(figure.legends[0]) == ["start"]


@pytest.mark.parametrize("actions", [[1, 2, 0, 3, 4], [1, 2, 0, 3, 4, 0, 0, 0], [0, 1, 2, 0, 0, 3, 4]])
def test_cvrp_routes_start_and_end_at_the_depot_each_in_its_colour(actions):
    (axes,) = draw_routes(STAR, actions, "cvrp", "a star", DEMANDS, 11).axes
    solid = [line for line in axes.get_lines() if line.get_alpha() is None]
    pale = [line for line in axes.get_lines() if line.get_alpha() is not None]
    assert [line.get_xydata().tolist() for line in solid] == [STAR[[1, 2]].tolist(), STAR[[3, 4]].tolist()]
    ends = [STAR[[0, node]].tolist() for node in (1, 2, 3, 4)]
    assert [line.get_xydata().tolist() for line in pale] == ends
    assert solid[0].get_color() != solid[1].get_color()
    assert words(axes.get_legend()) == ["depot", "first stop", "1:  7 / 11", "2:  11 / 11"]
    assert axes.get_xlabel().endswith(", 2 routes")


def test_without_capacity_or_demands_the_legend_says_what_is_known():
    (axes,) = draw_routes(STAR, [1, 2, 0, 3, 4], "cvrp", "", DEMANDS).axes
    assert words(axes.get_legend())[2:] == ["1:  7", "2:  11"]
    (axes,) = draw_routes(STAR, [1, 2, 0, 3, 4], "cvrp", "").axes
    assert words(axes.get_legend())[2:] == ["1:  2 stops", "2:  2 stops"]


def test_the_legend_names_a_dozen_routes_and_counts_the_rest():
    instance = principal("U", "cvrp").sample(1, torch.Generator().manual_seed(0))
    actions = [action for node in range(1, 21) for action in (node, 0)]
    (axes,) = draw_routes(instance.coords[0].numpy(), actions, "cvrp", "one stop each").axes
    assert len(words(axes.get_legend())) == 2 + 12 + 1
    assert words(axes.get_legend())[-1] == "and 8 more"


def test_labels_cover_no_node_and_no_other_label():
    instance = principal("C", "cvrp").sample(1, torch.Generator().manual_seed(1))
    coords = instance.coords[0].numpy()
    actions = [action for i in range(1, 101) for action in ((i, 0) if i % 7 == 0 else (i,))]
    figure = routes_grid([Solution(coords, actions, "cvrp", "", instance.demands[0].numpy(), 10_000)])
    figure.canvas.draw()
    (axes,) = figure.axes
    boxes = [text.get_window_extent() for text in axes.texts]
    assert boxes
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[i + 1 :])
        assert box.count_contains(axes.transData.transform(coords)) == 0


@pytest.mark.parametrize(
    ("problem", "actions", "demands", "capacity", "error"),
    [
        ("tsp", [0, 1, 2], None, None, "Not a tour"),
        ("tsp", [0, 1, 2, 2, 3], None, None, "Not a tour"),
        ("tsp", [], None, None, "Not a tour"),
        ("cvrp", [1, 2, 0, 3], DEMANDS, 11, "not served once"),
        ("cvrp", [1, 2, 0, 3, 9], DEMANDS, 11, "not served once"),
        ("cvrp", [1, 2, 0, 3, 4], DEMANDS, 10, "over the capacity"),
        ("cvrp", [1, 2, 0, 3], None, None, "not served once"),
        ("cvrp", [1, 2, 0, 3, 4], DEMANDS[1:], 11, "4 demands for 5 nodes"),
        ("vrp", [1, 2, 3, 4], None, None, "Unknown problem"),
    ],
)
def test_what_is_no_solution_is_not_drawn(problem, actions, demands, capacity, error):
    with pytest.raises(DreeError, match=error):
        draw_routes(STAR, actions, problem, "wrong", demands, capacity)


def test_coordinates_must_be_points():
    with pytest.raises(DreeError, match="finite"):
        draw_routes(np.array([[0.0, 0.0], [np.nan, 1.0]]), [0, 1], "tsp", "")
    with pytest.raises(DreeError, match=r"\[nodes, 2\]"):
        draw_routes(np.zeros((2, 3)), [0, 1], "tsp", "")


def test_a_grid_has_a_panel_per_solution_and_the_same_bytes_every_time():
    solutions = [
        Solution(SQUARE, [0, 1, 2, 3], "tsp", "first"),
        Solution(STAR, [1, 2, 0, 3, 4], "cvrp", "second", np.array(DEMANDS), 11),
        Solution(100 * STAR - 7, (4, 3, 2, 1), "cvrp", "third"),
    ]
    assert [axes.get_title() for axes in routes_grid(solutions).axes] == ["first", "second", "third"]
    assert {text.get_text() for text in routes_grid(solutions).axes[1].texts} == {"7/11", "11/11"}
    pictures = {as_svg_or_png_data_uri(routes_grid(solutions), "png") for _ in range(2)}
    assert len(pictures) == 1
