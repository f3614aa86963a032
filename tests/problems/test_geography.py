"""Places and the unit square: one scale, shapes kept, at any meridian and latitude."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dree.problems.geography import EARTH_RADIUS, Frame, distances, middle

KM = np.degrees(1 / EARTH_RADIUS)  # degrees of latitude in a kilometre


@st.composite
def regions(draw, kilometres=50.0, steepest=80.0):
    """Places in a square of the earth so many kilometres wide, at least two of them apart."""
    lat = draw(st.floats(-steepest, steepest))
    lng = draw(st.floats(-180, 180))
    count = draw(st.integers(2, 12))
    unit = draw(arrays(np.float64, (count, 2), elements=st.floats(-0.5, 0.5)))
    offsets = np.concatenate((unit, [[-0.5, -0.5], [0.5, 0.5]])) * kilometres * KM
    places = np.stack((lng + offsets[:, 0] / np.cos(np.radians(lat)), lat + offsets[:, 1]), axis=1)
    places[:, 0] = (places[:, 0] + 180) % 360 - 180
    return places


def pairs(places):
    first, second = np.triu_indices(len(places), 1)
    return places[first], places[second]


def apart(first, second):
    """The angle between places by their vectors, as kilometres: another way than the one that is tested."""

    def vectors(places):
        lng, lat = np.radians(places).T
        return np.stack((np.cos(lat) * np.cos(lng), np.cos(lat) * np.sin(lng), np.sin(lat)), axis=1)

    one, two = vectors(first), vectors(second)
    return EARTH_RADIUS * np.arctan2(np.linalg.norm(np.cross(one, two), axis=1), (one * two).sum(1))


def apart_in(frame, points):
    """How many kilometres lie between the places of points, for chords of the earth can be told from its projection."""
    first, second = pairs((points * frame.extent + frame.corner) / (2 * EARTH_RADIUS))
    scales = (1 + (first**2).sum(1)) * (1 + (second**2).sum(1))
    return 2 * EARTH_RADIUS * np.arcsin(np.hypot(*(second - first).T) / np.sqrt(scales))


@pytest.mark.parametrize(
    ("first", "second", "kilometres"),
    [
        ([11.5755, 48.1374], [13.4050, 52.5200], 504.3),  # Munich, Berlin
        ([179.5, 0], [-179.5, 0], 111.195),
        ([0, 90], [77, -90], 20015.1),
        ([5, 5], [5, 5], 0),
    ],
)
def test_distances_are_those_of_great_circles(first, second, kilometres):
    found = distances(np.array([first], float), np.array([second], float), True)
    assert found[0] == pytest.approx(kilometres, abs=0.06)


@given(regions(kilometres=3000))
def test_distances_agree_with_the_angle_between_directions(places):
    first, second = pairs(places)
    np.testing.assert_allclose(distances(first, second, True), apart(first, second), rtol=1e-9, atol=1e-6)


def test_distances_in_a_plane_are_straight():
    assert distances(np.array([[0.0, 0], [1, 1]]), np.array([[3.0, 4], [1, 3]]), False).tolist() == [5, 2]


@given(regions())
def test_shapes_are_kept_to_a_thousandth_within_50_kilometres(places):
    frame = Frame.around(places, True)
    first, second = pairs(places)
    kilometres = apart(first, second)
    far = kilometres > 0.01
    ratios = np.hypot(*(frame.to_unit(second) - frame.to_unit(first)).T)[far] / kilometres[far]
    assert ratios.max() / ratios.min() < 1.001
    assert ratios.mean() == pytest.approx(1 / frame.extent, rel=1e-4)


@given(regions(kilometres=500, steepest=85))
def test_places_fill_the_unit_square_and_are_as_far_apart_as_on_the_earth(places):
    frame = Frame.around(places, True)
    points = frame.to_unit(places)
    assert points.min() == 0
    assert points.max() == 1
    np.testing.assert_allclose(apart_in(frame, points), apart(*pairs(places)), rtol=1e-9, atol=1e-6)


@given(regions(), st.floats(-180, 180))
def test_no_meridian_is_special(places, turn):
    turned = places.copy()
    turned[:, 0] = (places[:, 0] + turn + 180) % 360 - 180
    points = Frame.around(places, True).to_unit(places)
    np.testing.assert_allclose(Frame.around(turned, True).to_unit(turned), points, atol=1e-9)


@pytest.mark.parametrize("lat", [89.999, 90.0, -90.0])
def test_a_pole_is_a_place_like_any_other(lat):
    places = np.array([[0.0, lat], [90.0, np.sign(lat) * 89.9], [-100.0, np.sign(lat) * 89.95]])
    frame = Frame.around(places, True)
    first, second = pairs(places)
    lengths = np.hypot(*(frame.to_unit(second) - frame.to_unit(first)).T) * frame.extent
    np.testing.assert_allclose(lengths, apart(first, second), rtol=1e-4)


def test_north_is_up_and_east_is_right():
    places = np.array([[11.0, 48.0], [11.1, 48.0], [11.0, 48.05]])
    (west, south), (east, _), (_, north) = Frame.around(places, True).to_unit(places).tolist()
    assert (east - west, north > south) == (pytest.approx(1, abs=1e-3), True)
    assert north - south == pytest.approx(0.05 / (0.1 * np.cos(np.radians(48))), rel=1e-3)


@pytest.mark.parametrize("geographic", [True, False])
@pytest.mark.parametrize("count", [1, 4])
def test_stops_at_one_place_have_a_frame(geographic, count):
    places = np.tile([[121.5, 31.1]], (count, 1))
    frame = Frame.around(places, geographic)
    assert (frame.to_unit(places) == 0).all()
    assert frame.extent == 1


@given(
    arrays(np.float64, (5, 2), elements=st.floats(-1e6, 1e6, width=32)),
    st.floats(0.1, 100),
    st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)),
)
def test_a_plane_has_one_shift_and_one_scale(places, scale, shift):
    frame = Frame.around(places, False)
    points = frame.to_unit(places)
    np.testing.assert_allclose(points * frame.extent, places - places.min(0), rtol=1e-9, atol=1e-9 * frame.extent)
    moved = places * scale + shift
    if np.ptp(places, axis=0).max() > 1:
        np.testing.assert_allclose(Frame.around(moved, False).to_unit(moved), points, atol=1e-6)


def test_a_frame_serves_places_outside_of_it_too():
    frame = Frame.around(np.array([[11.0, 48.0], [11.1, 48.1]]), True)
    outside = np.array([[10.5, 47.7], [12.0, 49.0]])
    points = frame.to_unit(outside)
    assert points.min() < 0
    assert points.max() > 1
    np.testing.assert_allclose(apart_in(frame, points), apart(*pairs(outside)), rtol=1e-9)


def test_the_middle_lies_between_places_on_either_side_of_the_180th_meridian():
    lng, lat = middle(np.array([[179.0, 10.0], [-177.0, 10.0]]))
    assert (lng % 360, lat) == (pytest.approx(181), pytest.approx(10, abs=0.01))
