"""Where the six laws put their nodes: supports, moments and structure, in both specifications."""

import math

import pytest
import torch

from dree.tasks import LAWS
from dree.tasks.dice import Dice
from dree.tasks.shapes import explode, grid, heights, min_max, min_max_within, move_across

BOTH = pytest.mark.parametrize("spec", ["text", "official"])


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def place(law, batch, n, spec="text", seed=0, cvrp=False):
    depot = torch.rand(batch, 2, generator=generator(99)) if cvrp else None
    return LAWS[law].draw(batch, n, generator(seed), depot, spec)[0]


def inside(coords):
    return ((coords > 0) & (coords < 1)).all(-1)


def test_titles_and_scales_are_the_papers():
    assert {key: (law.title, law.size) for key, law in LAWS.items()} == {
        "U": ("Uniform", 20),
        "GM": ("Gaussian mixture", 100),
        "E": ("Explosion", 50),
        "C": ("Compression", 100),
        "G": ("Grid", 50),
        "R": ("Ring", 20),
    }
    assert list(LAWS) == ["U", "GM", "E", "C", "G", "R"]


@BOTH
def test_uniform_nodes_have_the_moments_of_the_unit_square(spec):
    coords = place("U", 2000, 20, spec).flatten(0, 1)
    torch.testing.assert_close(coords.mean(0), torch.full((2,), 0.5), atol=0.01, rtol=0)
    torch.testing.assert_close(coords.T.cov(), torch.eye(2) / 12, atol=0.002, rtol=0)


# Explosion


def replayed_explosion(batch, n, seed=0):
    dice = Dice(batch, generator(seed))
    return dice.uniform(n, 2), dice.uniform(1, 2)


@pytest.mark.parametrize(("spec", "cvrp"), [("text", False), ("text", True), ("official", True)])
def test_no_unclipped_node_of_an_explosion_is_nearer_than_the_radius(spec, cvrp):
    before, centre = replayed_explosion(500, 50)
    after = place("E", 500, 50, spec, cvrp=cvrp)
    distance = (after - centre).norm(dim=-1)
    assert distance[inside(after)].min() > 0.3 - 1e-5
    near = (before - centre).norm(dim=-1) < 0.3
    assert near.float().mean() > 0.1
    assert torch.equal(after[~near], before[~near])


def test_exploded_nodes_lie_an_exponential_distance_of_mean_a_fortieth_beyond_the_radius():
    before, centre = replayed_explosion(100_000, 50)
    after = place("E", 100_000, 50)
    near = (before - centre).norm(dim=-1) < 0.3
    central = ((centre > 0.45) & (centre < 0.55)).all(-1)  # here nothing is clipped
    extra = ((after - centre).norm(dim=-1) - 0.3)[near & central]
    assert len(extra) > 5000
    assert extra.mean().item() == pytest.approx(1 / 40, rel=0.05)
    assert extra.std().item() == pytest.approx(1 / 40, rel=0.1)


def test_explosion_keeps_the_direction_from_the_centre():
    before, centre = replayed_explosion(200, 50)
    extra = torch.full((200, 50), 0.1)
    old, new = before - centre, explode(before, centre, extra) - centre
    cosine = torch.nn.functional.cosine_similarity(old, new, dim=-1)
    assert cosine.min() > 1 - 1e-5
    torch.testing.assert_close(
        new.norm(dim=-1), torch.where(old.norm(dim=-1) < 0.3, 0.4, old.norm(dim=-1)), atol=1e-5, rtol=0
    )


def test_a_node_on_the_centre_of_an_explosion_still_leaves_it():
    centre = torch.tensor([[[0.5, 0.5]]])
    moved = explode(centre.clone(), centre, torch.zeros(1, 1))
    assert (moved - centre).norm().item() == pytest.approx(0.3)


def test_every_explosion_has_an_empty_disc_which_uniform_nodes_have_not():
    line = torch.linspace(0, 1, 41)
    candidates = torch.cartesian_prod(line, line)
    for law, low, high in (("E", 0.27, 1.0), ("U", 0.0, 0.2)):
        for coords in place(law, 30, 400):
            distance = torch.cdist(candidates, coords[inside(coords)]).min(1).values
            assert low < distance.max() < high


def test_official_explosion_spans_the_square_for_tsp_and_is_clipped_for_cvrp():
    tour = place("E", 300, 50, "official")
    assert torch.equal(tour.amin(1), torch.zeros(300, 2))
    assert torch.equal(tour.amax(1), torch.ones(300, 2))
    assert torch.equal(place("E", 300, 50, "official", cvrp=True), place("E", 300, 50, "text"))


# Compression


def compression(spec, batch=2000, n=100):
    """Signed distances from the line before and after, for nodes too far inside to be clipped."""
    dice = Dice(batch, generator())
    before, first, second = dice.uniform(n, 2), dice.uniform(1, 2), dice.uniform(1, 2)
    after = place("C", batch, n, spec)
    along = (second - first).double()
    along /= along.norm(dim=-1, keepdim=True)
    across = torch.stack((-along[..., 1], along[..., 0]), -1)
    old, new = (((points - first) * across).sum(-1) for points in (before, after))
    foot = before - old[..., None] * across
    central = ((foot > 0.4) & (foot < 0.6)).all(-1)
    sideways = ((after - before) * along).sum(-1)
    assert sideways[central].abs().max() < 1e-5
    far = old.abs() > 0.3001
    assert torch.equal(after[far], before[far])
    near = central & (old.abs() < 0.2999)
    return old[near], new[near]


def test_compressed_nodes_lie_normally_about_the_line_whatever_their_distance_was():
    old, new = compression("text")
    assert new.mean().item() == pytest.approx(0, abs=0.003)
    assert new.std().item() == pytest.approx(0.1, rel=0.04)
    assert abs(torch.stack((old, new)).corrcoef()[0, 1]) < 0.03


def test_official_compression_shrinks_the_distance_and_mirrors_it():
    old, new = compression("official")
    ratio = (new / old)[old.abs() > 0.01]
    assert ratio.max() < 1e-3
    assert ratio.min() > -1
    assert ratio.mean().item() == pytest.approx(-0.1 * math.sqrt(2 / math.pi), rel=0.03)
    assert new.abs().mean().item() == pytest.approx(0.012, rel=0.1)


def test_a_line_through_one_point_twice_is_taken_as_horizontal():
    points, here = torch.tensor([[[0.2, 0.6]]]), torch.tensor([[[0.5, 0.5]]])
    assert heights(points, here, here).item() == pytest.approx(0.1)
    moved = move_across(points, here, here, torch.tensor([[-0.05]]))
    torch.testing.assert_close(moved, torch.tensor([[[0.2, 0.45]]]))


# Grid


def test_a_small_grid_is_what_one_writes_down():
    five = grid(5, torch.tensor([[[1.0, 0.5]]]))[0]
    third = 1 / 3
    expected = [[0, 0], [third, 0], [2 * third, 0], [1, 0], [0, 0.5]]
    torch.testing.assert_close(five, torch.tensor(expected))


@pytest.mark.parametrize("n", [30, 50, 97])
@BOTH
def test_grids_are_evenly_spaced_and_filled_row_by_row(spec, n):
    long = 1 - 1e-5 if spec == "official" else 1
    for coords in place("G", 60, n, spec).double():
        rows = int((coords[:, 0] < coords[0, 0] + 1e-6).sum())
        columns = int((coords[:, 1] < coords[0, 1] + 1e-6).sum())
        assert columns * (rows - 1) < n <= columns * rows
        low = coords.amin(0)
        width, height = (coords.amax(0) - low).tolist()
        assert max(width, height) == pytest.approx(long, abs=2e-7)
        assert 0.2 <= min(width, height) + 1e-6 < 0.8 + 2e-6
        assert columns == pytest.approx(math.sqrt(n * width / height) + 0.5, abs=0.5 + 1e-4)
        cells = [
            [low[0] + width * (i % columns) / (columns - 1), low[1] + height * (i // columns) / (rows - 1)]
            for i in range(n)
        ]
        torch.testing.assert_close(coords, torch.tensor(cells), atol=1e-6, rtol=0)


@BOTH
def test_grid_rectangles_are_wide_or_high_equally_often_and_lie_anywhere(spec):
    coords = place("G", 4000, 50, spec)
    low, high = coords.amin(1), coords.amax(1)
    sides = high - low
    wide = sides[:, 0] > sides[:, 1]
    assert wide.float().mean().item() == pytest.approx(0.5, abs=0.04)
    short = sides.amin(1)
    assert short.mean().item() == pytest.approx(0.5, abs=0.015)
    assert short.var().item() == pytest.approx(0.03, rel=0.1)
    free = torch.where(wide, low[:, 1], low[:, 0]) / (1 - short)
    assert free.mean().item() == pytest.approx(0.5, abs=0.025)
    assert free.var().item() == pytest.approx(1 / 12, rel=0.1)


# Ring


def ring(spec, batch=300, n=2000):
    """Radii before the squeeze (near diagonals, where nothing is clipped), and the squeeze."""
    coords = place("R", batch, n, spec).double()
    mean = coords.mean(1)
    horizontal = mean[:, 0] < mean[:, 1]
    factor = mean.amin(1) / 0.5
    scale = torch.where(horizontal[:, None] == torch.tensor([True, False]), factor[:, None], 1.0)
    away = coords / scale[:, None] - 0.5
    radius = away.norm(dim=-1)
    diagonal = (away.abs().amin(-1) / radius) > math.sin(math.radians(35))
    return [row[keep] for row, keep in zip(radius, diagonal, strict=True)], factor, horizontal


def test_text_rings_have_a_radius_of_their_own_for_each_node():
    radii, _, _ = ring("text")
    means = torch.stack([row.mean() for row in radii])
    assert means.mean().item() == pytest.approx(0.35, abs=0.005)
    assert means.std() < 0.01
    within = torch.stack([row.var() for row in radii]).mean().item()
    assert within == pytest.approx(0.1**2 / 12 + 0.05**2, rel=0.04)


def test_official_rings_share_one_mean_radius_per_instance():
    radii, _, _ = ring("official")
    means = torch.stack([row.mean() for row in radii])
    assert means.mean().item() == pytest.approx(0.35, abs=0.009)
    assert means.std().item() == pytest.approx(0.1 / math.sqrt(12), rel=0.1)
    within = torch.stack([row.var() for row in radii]).mean().item()
    assert within == pytest.approx(0.05**2, rel=0.04)


@BOTH
def test_rings_are_squeezed_along_either_axis_by_a_fifth_to_four_fifths(spec):
    _, factor, horizontal = ring(spec)
    assert 0.18 < factor.min() < 0.25
    assert 0.75 < factor.max() < 0.84
    assert factor.mean().item() == pytest.approx(0.5, abs=0.04)
    assert horizontal.float().mean().item() == pytest.approx(0.5, abs=0.1)


# Gaussian mixture


@BOTH
def test_mixtures_touch_all_four_sides_of_the_square(spec):
    coords = place("GM", 300, 100, spec)
    assert torch.equal(coords.amin(1), torch.zeros(300, 2))
    assert torch.equal(coords.amax(1), torch.ones(300, 2))


def test_mixtures_are_five_round_unit_clusters_in_a_square_of_side_fifty():
    clusters = place("GM", 400, 5000).double().view(400, 1000, 5, 2)  # node i belongs to cluster i % 5
    unit = clusters.std(1).mean(1)  # what one standard deviation became, per axis
    uneven = (clusters.std(1) / unit[:, None]).std().item()
    assert uneven == pytest.approx(math.sqrt(4 / 5 / 2000), rel=0.1)  # no more than chance
    centres = clusters.mean(1) / unit[:, None]
    differences = centres[:, 0] - centres[:, 1]
    assert differences.square().mean().item() == pytest.approx(2 * 50**2 / 12, rel=0.1)
    assert differences.abs().max() < 50.5
    flat = ((clusters - clusters.mean(1, keepdim=True)) / unit[:, None, None])[..., 0]
    assert flat.pow(4).mean().item() == pytest.approx(3, rel=0.02)  # the kurtosis of a normal law


def test_official_mixtures_start_with_the_centres_of_their_clusters():
    coords = place("GM", 300, 5 + 5 * 200, "official").double()
    points = coords[:, 5:]
    blocks = [points[:, 200 * c : 200 * (c + 1)] for c in range(5)]
    spread = torch.stack([block.std(1) for block in blocks]).mean(0)
    for c, block in enumerate(blocks):
        offset = (block.mean(1) - coords[:, c]) / spread
        assert offset.abs().max() < 5 / math.sqrt(200)


def test_official_mixtures_give_the_remainder_to_the_last_cluster():
    law = LAWS["GM"]
    sizes = torch.bincount(law._official_clusters(38, torch.device("cpu")), minlength=5)
    assert sizes.tolist() == [6, 6, 6, 6, 9]
    assert torch.bincount(law._official_clusters(100, torch.device("cpu"))).tolist() == [19] * 5
    assert law._official_clusters(9, torch.device("cpu")).tolist() == [4] * 4


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@BOTH
def test_mixtures_too_small_for_a_range_are_spread_as_a_full_one_is(spec, n):
    small, full = place("GM", 4000, n, spec), place("GM", 4000, 100, spec, seed=1)
    for axis in range(2):
        assert small[..., axis].mean().item() == pytest.approx(full[..., axis].mean().item(), abs=0.03)
        assert small[..., axis].std().item() == pytest.approx(full[..., axis].std().item(), rel=0.05)


@pytest.mark.parametrize("n", [5, 9])
@BOTH
def test_mixtures_of_five_and_more_nodes_scale_themselves(spec, n):
    coords = place("GM", 100, n, spec)
    assert torch.equal(coords.amin(1), torch.zeros(100, 2))
    assert torch.equal(coords.amax(1), torch.ones(100, 2))


# Scaling


def test_scaling_sends_the_smallest_to_zero_and_the_largest_to_one():
    values = torch.tensor([[2.0, 4.0, 3.0], [7.0, 7.0, 7.0]])
    assert min_max(values).tolist() == [[0, 1, 0.5], [0, 0, 0]]
    assert min_max(values, over=torch.tensor([[0.0, 8.0], [6.0, 8.0]])).tolist() == [
        [0.25, 0.5, 0.375],
        [0.5, 0.5, 0.5],
    ]


def test_scaling_within_groups_uses_each_groups_own_range():
    values = torch.tensor([[1.0, 10.0, 2.0, 20.0, 3.0, 5.0]])
    scaled = min_max_within(values, torch.tensor([0, 1, 0, 1, 0, 3]), groups=5)
    assert scaled.tolist() == [[0, 0, 0.5, 1, 1, 0]]
