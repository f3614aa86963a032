"""Pictures of tasks: every node is drawn where it is, in the colour of its law."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex

from dree.errors import DreeError
from dree.problems import Instances
from dree.randomness import named_generator
from dree.report import LAW_COLOURS, examples, gallery
from dree.report.gallery import node_areas
from dree.report.style import PLAIN
from dree.tasks import LAWS, ORDERS, SPECS, Task, make_stream, principal


def groups(axes):
    """(colour, number of nodes) of what a panel shows, the depot's square left out."""
    return [
        (to_hex(dots.get_facecolor()[0]).upper(), len(dots.get_offsets()))
        for dots in axes.collections
        if to_hex(dots.get_facecolor()[0]) != "#1f2328"
    ]


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_a_gallery_has_the_six_laws_and_fifteen_mixtures_with_nodes_in_their_colours(problem, spec):
    figure = gallery(problem, spec)
    assert len(figure.axes) == 6 + 5 * 3
    stream = make_stream("drift", problem, 1, 20, spec)
    tasks = [stream.principal(law) for law in ORDERS[1]]
    tasks += [stream.task(4 * pair + step) for step in (1, 2, 3) for pair in range(5)]
    for axes, task in zip(figure.axes, tasks, strict=True):
        assert groups(axes) == [(LAW_COLOURS[law].upper(), n) for law, n in task.groups]
        assert axes.get_aspect() == 1
        assert axes.get_title().endswith(f"n = {task.size}")
        assert len(axes.collections) == len(task.groups) + (problem == "cvrp")
    assert figure.axes[0].get_title() == "Explosion, n = 50"


def test_a_gallery_uses_the_sizes_it_is_given():
    titles = [axes.get_title() for axes in gallery("tsp", sizes={"E": 7}).axes]
    assert titles[:2] == ["Explosion, n = 7", "Compression, n = 100"]


def test_an_unknown_problem_or_specification_is_refused():
    with pytest.raises(DreeError, match="problem"):
        gallery("vrp")
    with pytest.raises(DreeError, match="specification"):
        gallery("tsp", "code")


def test_no_title_of_a_gallery_runs_into_its_neighbour():
    figure = gallery("cvrp")
    figure.canvas.draw()
    for row in (figure.axes[:6], figure.axes[6:11], figure.axes[11:16], figure.axes[16:]):
        boxes = [axes.title.get_window_extent() for axes in row]
        assert all(left.x1 < right.x0 for left, right in pairwise(boxes))
        assert boxes[0].x0 > 0
        assert boxes[-1].x1 < figure.bbox.x1
    legend = figure.legends[0].get_window_extent()
    assert legend.x0 > 0
    assert legend.x1 < figure.bbox.x1
    assert legend.y1 < min(axes.get_window_extent().y0 for axes in figure.axes)


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_examples_show_the_instance_that_the_seed_gives(problem):
    tasks = {"R": principal("R", problem), "U": principal("U", problem)}
    figure = examples(tasks, seed=3)
    generator = named_generator(3, "examples")
    for axes, task in zip(figure.axes, tasks.values(), strict=True):
        instance = task.sample(1, generator)
        customers = slice(instance.nodes - instance.customers, None)
        np.testing.assert_allclose(axes.collections[0].get_offsets(), instance.coords[0, customers])
        if instance.demands is not None:
            areas = axes.collections[0].get_sizes()
            np.testing.assert_allclose(areas, node_areas(instance.demands[0, customers].numpy()))
            np.testing.assert_allclose(axes.collections[1].get_offsets(), instance.coords[0, :1])
    assert [axes.get_title() for axes in figure.axes] == [f"{LAWS[law].title}, n = 20" for law in tasks]


def test_the_legend_names_laws_only_where_titles_do_not():
    mixture = make_stream("drift", "cvrp", 1, 1000).task(100)
    words = [text.get_text() for text in examples({"today": mixture}).legends[0].get_texts()]
    assert {"Explosion (E)", "Compression (C)", "demand 10", "depot"} <= set(words)
    words = [text.get_text() for text in examples({"E": principal("E", "cvrp")}).legends[0].get_texts()]
    assert words == ["demand 1", "demand 5", "demand 10", "depot"]
    assert examples({"E": principal("E", "tsp")}).legends == []


class Elsewhere(Task):
    """A task of no known law, far outside the unit square."""

    problem = "tsp"
    name = "elsewhere"
    size = 3

    def sample(self, batch, generator):
        return Instances(torch.tensor([[[-5.0, 100.0], [10.0, 300.0], [20.0, 200.0]]]).expand(batch, -1, -1))


def test_a_users_own_task_is_drawn_whole_and_in_a_neutral_colour():
    (axes,) = examples({"sh-2": Elsewhere()}).axes
    assert groups(axes) == [(PLAIN.upper(), 3)]
    for low, high in (axes.get_xlim(), axes.get_ylim()):
        assert low < -5
        assert high > 300


def test_without_tasks_there_is_nothing_to_draw():
    with pytest.raises(DreeError, match="nothing to draw"):
        examples({})
