"""Tiles of a scene too large for one call: how equal they are, and which boxes touch which tile."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hashnms import regions
from hashnms._tiles import Tiles, UnusualSize
from hashnms.boxes import to_xyxy
from hashnms.synthetic import make_scene
from tests.support.boxes import BOX_KINDS


def touched_one_by_one(tiles, region):
    """For each tile, the regions that touch it, found by plain loops over columns, tiles and regions."""
    inf, number, found = np.inf, 0, []
    across = [-inf, *tiles.across, inf]
    for column in range(len(across) - 1):
        down = [-inf, *tiles.down[tiles.row_starts[column] : tiles.row_starts[column + 1]], inf]
        for row in range(len(down) - 1):
            x1, x2, y1, y2 = across[column], across[column + 1], down[row], down[row + 1]
            found.append([k for k, r in enumerate(region) if r[0] < x2 and x1 <= r[2] and r[1] < y2 and y1 <= r[3]])
            number += 1
    assert number == tiles.num_tiles
    return found


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(1, 40),
    st.sampled_from(["iou", "ios", "diou"]),
    st.sampled_from(["xyxy", "xywh", "cxcywh"]),
    st.sampled_from([np.float32, np.float64, np.int32]),
)
def test_a_box_is_in_all_tiles_that_its_region_touches(seed, wanted, metric, box_format, dtype):
    rng = np.random.default_rng(seed)
    boxes = BOX_KINDS[rng.choice(["random", "duplicated", "zero area", "integers"])](rng, 80).astype(dtype)
    if box_format != "xyxy":
        boxes[:, 2:] -= boxes[:, :2]
    tiles = Tiles.of(to_xyxy(boxes[: rng.integers(0, 80)], box_format), wanted)
    rule = {"metric": metric, "inclusive": bool(rng.integers(2)), "box_format": box_format}
    expected = touched_one_by_one(tiles, regions(boxes, 0.4, **rule))
    starts, rows, copies = tiles.touched(boxes, 0.4, **rule)
    assert [part.tolist() for part in np.split(rows, starts[1:-1])] == expected
    times, seen = np.bincount(rows, minlength=80), set()
    for row, copy in zip(rows.tolist(), copies.tolist(), strict=True):
        assert copy == (0 if times[row] == 1 else 2 if row in seen else 1)
        seen.add(row)
    assert len(seen) == 80


@pytest.mark.parametrize("preset", ["aerial", "shelf", "crowd"])
def test_tiles_have_about_equal_numbers_of_boxes(preset):
    boxes = make_scene(preset, 20_000).boxes
    tiles = Tiles.of(boxes[::4], 30)
    assert 20 <= tiles.num_tiles <= 40
    counts = np.diff(tiles.touched(boxes, 0.9).starts)
    assert counts.min() > 0.5 * 20_000 / tiles.num_tiles
    assert counts.max() < 2.0 * 20_000 / tiles.num_tiles


@pytest.mark.parametrize("wanted", [4, 6, 10, 16, 24])
def test_there_are_as_many_tiles_as_wanted_or_an_eighth_more(wanted):
    """With fewer, threads that share them would end at different times."""
    tiles = Tiles.of(make_scene("aerial", 20_000).boxes, wanted)
    assert wanted <= tiles.num_tiles <= wanted * 9 / 8


def test_a_scene_in_a_row_is_cut_along_it():
    along, across = np.arange(1000.0), np.zeros(1000)
    wide = Tiles.of(np.stack([along, across, along + 2, across + 2], axis=1), 10)
    high = Tiles.of(np.stack([across, along, across + 2, along + 2], axis=1), 10)
    assert (len(wide.across), len(wide.down)) == (9, 0)
    assert (len(high.across), len(high.down)) == (0, 9)


def test_boxes_at_one_place_and_none_at_all_have_few_tiles():
    assert Tiles.of(np.zeros((0, 4)), 10).num_tiles == 1
    assert Tiles.of(np.tile([1.0, 1.0, 2.0, 2.0], (100, 1)), 10).num_tiles <= 4
    assert Tiles.of(np.zeros((100, 4)), 10).num_tiles <= 4
    greatest = np.finfo(np.float64).max
    assert Tiles.of(np.tile([0.0, 0.0, greatest, greatest], (100, 1)), 10).num_tiles <= 4


def test_what_has_no_tiles_is_one_clear_error():
    tiles = Tiles.of(make_scene("aerial", 1000).boxes, 4)
    boxes = np.tile(np.float32([0, 0, 9, 9]), (5, 1))
    boxes[3] = [0, 0, 1e-20, 1e-20]
    with pytest.raises(UnusualSize, match=r"must have ordinary sizes \(float32 areas of at least 1e-31\)") as error:
        tiles.touched(boxes, 0.5)
    assert error.value.row == 3
    boxes = np.tile([0.0, 0, 9, 9], (5, 1))
    boxes[2] = [0, 0, 1e280, 1e280]
    with pytest.raises(UnusualSize, match=r"sides of 1e-270 to 1e270\), got \[0.0, 0.0, 1e\+280, 1e\+280\]") as error:
        tiles.touched(boxes, 0.5)
    assert error.value.row == 2
    boxes[1] = np.nan
    with pytest.raises(ValueError, match="boxes must be finite"):
        tiles.touched(boxes, 0.5)


def test_tiles_travel_between_processes():
    tiles = Tiles.of(make_scene("aerial", 1000).boxes, 9)
    assert all(map(np.array_equal, pickle.loads(pickle.dumps(tiles)), tiles))


@pytest.mark.parametrize("most", [0, 1, 50, 10**6])
def test_parts_are_together_the_whole_and_have_few_copies(most):
    boxes = make_scene("aerial", 3000).boxes
    boxes[::300] = [0, 0, 3000, 3000]
    tiles = Tiles.of(boxes, 20)
    whole, parts = tiles.touched(boxes, 0.3), list(tiles.touched_in_parts(boxes, most, 0.3))
    assert whole.num_boxes == 3000
    assert [first for first, _ in parts] == [0, *np.cumsum([part.num_boxes for _, part in parts])[:-1]]
    for tile in range(tiles.num_tiles):
        rows = [first + part.rows[part.starts[tile] : part.starts[tile + 1]] for first, part in parts]
        assert np.array_equal(np.concatenate(rows), whole.rows[whole.starts[tile] : whole.starts[tile + 1]])
        copies = [part.copies[part.starts[tile] : part.starts[tile + 1]] for _, part in parts]
        assert np.array_equal(np.concatenate(copies), whole.copies[whole.starts[tile] : whole.starts[tile + 1]])
    for _, part in parts:
        assert len(part.rows) <= most or part.num_boxes == 1
    assert len(parts) == 1 or most < 10**6


def test_an_unusual_size_in_a_later_part_has_its_row():
    boxes = np.tile(np.float32([0, 0, 9, 9]), (50, 1))
    boxes[43] = [0, 0, 1e-20, 1e-20]
    tiles = Tiles.of(make_scene("aerial", 1000).boxes, 4)
    with pytest.raises(UnusualSize) as error:
        list(tiles.touched_in_parts(boxes, 10, 0.5))
    assert error.value.row == 43


def test_tiles_are_useful_if_few_boxes_touch_several():
    boxes = make_scene("aerial", 20_000).boxes
    assert 25 <= Tiles.useful(boxes, 25, 2, 0.5).num_tiles <= 30
    assert Tiles.useful(boxes, 20_000, 2, 0.5).num_tiles < 5000
    assert Tiles.useful(boxes, 20_000, 10_000, 0.5) is None
    assert Tiles.useful(boxes, 1, 1, 0.5) is None
    boxes[:5000] = [*boxes[:, :2].min(axis=0), *boxes[:, 2:].max(axis=0)]
    assert Tiles.useful(boxes, 25, 2, 0.5, metric="ios") is None
