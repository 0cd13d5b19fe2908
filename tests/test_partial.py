"""Parts of a scene: what is certain about their boxes, and the tiles of `nms`, which are parts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hashnms
from hashnms import Status, _core, nms, partial_nms, reference, regions
from hashnms.synthetic import WORST_CASES, make_scene
from tests.support.boxes import BOX_KINDS

pytestmark = [pytest.mark.core, pytest.mark.usefixtures("restored_threads")]
METRICS = ["iou", "ios", "diou"]


@pytest.fixture
def boxes_per_tile():
    """A function that sets how many boxes a tile has, about."""
    before = []
    yield lambda count: before.append(_core.set_boxes_per_tile(count))
    for count in reversed(before):
        _core.set_boxes_per_tile(count)


def whole(*arguments, **options):
    """NMS of all boxes at once, by one thread."""
    hashnms.set_num_threads(1)
    before = _core.set_boxes_per_tile(2**40)
    try:
        return nms(*arguments, **options, return_suppressor=True)
    finally:
        _core.set_boxes_per_tile(before)


def staircase(count):
    """Each box overlaps the next one by more than a half, and scores fall: every second one is kept, one by one."""
    place = 3.0 * np.arange(count, dtype=np.float32)
    return np.stack([place, place / 2, place + 16, place / 2 + 16], axis=1), -np.arange(count, dtype=np.float32)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kind", BOX_KINDS)
def test_the_core_is_sure_of_what_the_reference_is_sure_of(kind, metric):
    rng = np.random.default_rng(70)
    for count, share in [(0, 0.5), (1, 1.0), (60, 0.0), (400, 0.05), (1500, 0.3)]:
        boxes = BOX_KINDS[kind](rng, count).astype(np.float32)
        scores, labels = rng.integers(0, 50, count) / 50, rng.integers(0, 2, count)
        is_open = rng.random(count) < share
        for threshold in (0.0, 0.3, 0.5, 0.8):
            status = partial_nms(boxes, scores, threshold, open=is_open, labels=labels, metric=metric)
            expected = reference.partial_nms(boxes, scores, threshold, open=is_open, labels=labels, metric=metric)
            assert status.dtype == np.int8
            assert np.array_equal(status, expected)


def test_no_open_boxes_leave_nothing_undecided():
    scene = make_scene("crowd", 3000)
    status = partial_nms(scene.boxes, scene.scores)
    assert np.array_equal(np.flatnonzero(status == Status.KEPT), np.sort(nms(scene.boxes, scene.scores)))
    assert not (status == Status.UNDECIDED).any()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.2, 0.5, 0.8]), st.sampled_from(METRICS), st.integers(1, 5))
def test_what_parts_are_sure_of_is_so_in_the_scene_and_rounds_end_in_nms(seed, threshold, metric, columns):
    """As docs/howto/scale.md does it: parts by the regions of the boxes, and another round for the undecided ones."""
    rng = np.random.default_rng(seed)
    boxes = BOX_KINDS["random"](rng, 300).astype(np.float32)
    scores = rng.integers(0, 100, 300).astype(np.float32)
    keep = nms(boxes, scores, threshold, metric=metric)
    rows, kept = np.arange(300), []
    while len(rows):
        region = regions(boxes[rows], threshold, metric=metric)
        borders = np.sort(rng.uniform(0, 140, columns - 1))
        first, last = np.searchsorted(borders, region[:, 0], "right"), np.searchsorted(borders, region[:, 2], "right")
        undecided = np.zeros(len(rows), int)
        for column in range(columns):
            part = np.flatnonzero((first <= column) & (column <= last))
            is_open = first[part] < last[part]
            status = partial_nms(boxes[rows[part]], scores[rows[part]], threshold, open=is_open, metric=metric)
            kept.extend(rows[part[status == Status.KEPT]])
            undecided[part[status == Status.UNDECIDED]] += 1
        assert np.isin(kept, keep).all()
        rows = rows[undecided == last - first + 1]
        columns = max(columns - 1, 1)
    assert np.array_equal(np.sort(kept), np.sort(keep))


def nested_giants(rng, count):
    """Boxes around a few centres, from small ones to some as large as the scene."""
    center = rng.choice(rng.uniform(-500, 500, (12, 2)), count) + rng.uniform(-3, 3, (count, 2))
    half = 2.0 ** rng.uniform(0, 10, (count, 1)) * rng.uniform(0.8, 1.25, (count, 2))
    return np.concatenate([center - half, center + half], axis=1)


def extreme_sizes(rng, count):
    """Boxes of about one size in ten, from 1e-30 to 1e30, around the origin; half of them on both sides of it."""
    size = 10.0 ** rng.choice(rng.uniform(-30, 30, 10), (count, 1)) * rng.uniform(0.7, 1.4, (count, 2))
    corner = size * rng.choice([-0.5, -0.4, 0.0, 0.1], (count, 2))
    return np.concatenate([corner, corner + size], axis=1)


def needles(rng, count):
    """Boxes of extreme sizes that are long in one direction and short in the other."""
    boxes = extreme_sizes(rng, count)
    return boxes * np.where(rng.random((count, 1)) < 0.5, [1, 1e12, 1, 1e12], [1e12, 1, 1e12, 1])


@pytest.mark.parametrize("make_boxes", [nested_giants, extreme_sizes, needles])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("threshold", [0.0, 1e-4, 0.3, 0.5, 0.9])
def test_rounds_over_parts_of_giants_and_of_extreme_sizes_end_in_nms(make_boxes, metric, threshold):
    """Parts are tiles of a grid between places where boxes are. In the first round, some parts have only open boxes."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        boxes, scores = make_boxes(rng, 400), rng.integers(0, 100, 400).astype(np.float64)
        boxes = boxes.astype(np.float32 if seed < 2 and make_boxes is not needles else np.float64)
        labels = rng.integers(0, 2, 400) if seed % 2 else None
        keep = nms(boxes, scores, threshold, metric=metric, labels=labels)
        region = regions(boxes, threshold, metric=metric)
        rows, kept, tiles, all_open = np.arange(400), [], 4, True
        while len(rows):
            borders = [np.sort(rng.choice(region[:, [axis, axis + 2]].ravel(), tiles - 1)) for axis in (0, 1)]
            first, last = (
                np.stack([np.searchsorted(borders[axis], region[rows, axis + end], "right") for axis in (0, 1)], axis=1)
                for end in (0, 2)
            )
            undecided = np.zeros(len(rows), int)
            for place in np.ndindex(tiles, tiles):
                part = np.flatnonzero(((first <= place) & (place <= last)).all(axis=1))
                is_open = (first[part] < last[part]).any(axis=1) | (all_open and place[0] == 0)
                status = partial_nms(
                    boxes[rows[part]], scores[rows[part]], threshold, open=is_open, metric=metric,
                    labels=None if labels is None else labels[rows[part]],
                )  # fmt: skip
                assert not is_open.all() or (status == Status.UNDECIDED).all()
                kept.extend(rows[part[status == Status.KEPT]])
                undecided[part[status == Status.UNDECIDED]] += 1
            assert np.isin(kept, keep).all()
            rows = rows[undecided == (last - first + 1).prod(axis=1)]
            tiles, all_open = max(tiles - 1, 1), False
        assert np.array_equal(np.sort(kept), np.sort(keep))


def test_boxes_known_to_be_kept_suppress_and_stay():
    boxes, scores = [[0, 0, 10, 10], [1, 0, 11, 10], [2, 0, 12, 10]], [0.9, 0.8, 0.7]
    is_open = [True, True, False]
    assert partial_nms(boxes, scores, open=is_open).tolist() == [2, 2, 2]
    assert partial_nms(boxes, scores, open=is_open, kept=[False, True, False]).tolist() == [2, 1, 0]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.5, 0.7, 0.9])
def test_boxes_that_overlap_have_regions_that_meet(threshold, metric):
    rng = np.random.default_rng(71)
    for kind, make_boxes in BOX_KINDS.items():
        boxes = make_boxes(rng, 400).astype(np.float32)
        region = regions(boxes, threshold, metric=metric)
        meet = (
            (region[:, None, 0] <= region[None, :, 2])
            & (region[None, :, 0] <= region[:, None, 2])
            & (region[:, None, 1] <= region[None, :, 3])
            & (region[None, :, 1] <= region[:, None, 3])
        )
        for i in range(0, 400, 7):
            overlap = reference._METRICS[metric](boxes[i], boxes) > threshold
            assert meet[i][overlap].all(), kind


@pytest.mark.parametrize(
    ("problem", "error", "message"),
    [
        ({"open": [True]}, ValueError, "open"),
        ({"open": [1, 0, 0]}, TypeError, "open must be bools, got int64"),
        ({"kept": [[True, False, True]]}, ValueError, "kept"),
        ({"iou_threshold": 1.5}, ValueError, "iou_threshold"),
        ({"metric": "giou"}, ValueError, "metric"),
        ({"iou_threshold": 0.0, "inclusive": True}, ValueError, "iou_threshold"),
        ({"scores": [1.0, np.nan, 0.5]}, ValueError, "scores"),
        ({"boxes": [[0, 0, 1, 1], [3, 0, 2, 1], [0, 0, 1, 1]]}, ValueError, "boxes"),
    ],
)
def test_bad_input_is_one_clear_error(problem, error, message):
    arguments = {"boxes": [[0, 0, 1, 1]] * 3, "scores": [0.1, 0.2, 0.3], **problem}
    with pytest.raises(error, match=message):
        partial_nms(**arguments)


# The tiles of `nms`.


@pytest.mark.parametrize("kind", BOX_KINDS)
@pytest.mark.parametrize("metric", METRICS)
def test_tiles_of_every_kind_of_boxes_give_nms(kind, metric, boxes_per_tile):
    rng = np.random.default_rng(72)
    boxes = BOX_KINDS[kind](rng, 4000).astype(np.float32)
    boxes += 300 * rng.integers(0, 5, (4000, 1)).astype(np.float32)  # some room, else there are no tiles
    boxes[:, 2:] = np.maximum(boxes[:, 2:], boxes[:, :2])
    scores, labels = rng.integers(0, 500, 4000).astype(np.float32), rng.integers(0, 3, 4000)
    for threshold in (0.0, 0.3, 0.5, 0.8):
        expected = whole(boxes, scores, threshold, metric=metric, labels=labels)
        for count in (20, 300, 1500):
            boxes_per_tile(count)
            keep, suppressor = nms(boxes, scores, threshold, metric=metric, labels=labels, return_suppressor=True)
            assert np.array_equal(keep, expected[0])
            assert np.array_equal(suppressor, expected[1])
            assert np.array_equal(nms(boxes, scores, threshold, metric=metric, labels=labels), expected[0])


@pytest.mark.parametrize("count", [50, 700])
@pytest.mark.parametrize("case", WORST_CASES)
def test_tiles_of_worst_cases_give_nms(case, count, boxes_per_tile):
    boxes, rng = WORST_CASES[case](3000).astype(np.float32), np.random.default_rng(74)
    for scores in (rng.random(3000), np.arange(3000.0), np.zeros(3000)):
        expected = whole(boxes, scores, 0.5)
        boxes_per_tile(count)
        keep, suppressor = nms(boxes, scores, 0.5, return_suppressor=True)
        assert np.array_equal(keep, expected[0])
        assert np.array_equal(suppressor, expected[1])


def test_a_staircase_is_decided_across_all_tiles(boxes_per_tile):
    """Nothing is certain in any tile except the first: rounds with fewer tiles end in one that decides all."""
    boxes, scores = staircase(2000)
    expected = whole(boxes, scores, 0.5)
    for count in (10, 100):
        boxes_per_tile(count)
        keep, suppressor = nms(boxes, scores, 0.5, return_suppressor=True)
        assert np.array_equal(keep, expected[0])
        assert np.array_equal(suppressor, expected[1])


def test_giants_over_tiny_boxes(boxes_per_tile):
    """Few giants touch all tiles; where many do, as no sample shows, there are no tiles."""
    rng = np.random.default_rng(73)
    corner = rng.uniform(0, 1000, (5000, 2)).astype(np.float32)
    scores = rng.random(5000).astype(np.float32)
    for giants in (3, 2500):
        size = rng.uniform(5, 10, (5000, 2)).astype(np.float32)
        size[:giants] = 900
        boxes = np.concatenate([corner, corner + size], axis=1)
        for metric, threshold in (("iou", 0.5), ("ios", 0.5), ("iou", 0.0)):
            expected = whole(boxes, scores, threshold, metric=metric)
            boxes_per_tile(60)
            keep, suppressor = nms(boxes, scores, threshold, metric=metric, return_suppressor=True)
            assert np.array_equal(keep, expected[0])
            assert np.array_equal(suppressor, expected[1])


@settings(max_examples=80, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(2, 400),
    st.sampled_from([0.0, 0.1, 0.5, 0.7]),
    st.sampled_from(METRICS),
    st.sampled_from([np.float32, np.float64]),
)
def test_any_tiling_gives_nms(seed, count, threshold, metric, dtype):
    rng = np.random.default_rng(seed)
    boxes = BOX_KINDS[rng.choice(list(BOX_KINDS))](rng, 1000).astype(dtype)
    boxes[:, [0, 2]] *= rng.choice([1, 1, 10])
    scores = rng.integers(0, 100, 1000).astype(rng.choice([np.float32, np.float64]))
    expected = whole(boxes, scores, threshold, metric=metric)
    before = _core.set_boxes_per_tile(count)
    try:
        keep, suppressor = nms(boxes, scores, threshold, metric=metric, return_suppressor=True)
        assert np.array_equal(nms(boxes, scores, threshold, metric=metric), expected[0])
    finally:
        _core.set_boxes_per_tile(before)
    assert np.array_equal(keep, expected[0])
    assert np.array_equal(suppressor, expected[1])


@pytest.mark.slow
@pytest.mark.parametrize("num_threads", [1, 2, 5])
def test_threads_share_small_tiles(num_threads, boxes_per_tile):
    scene = make_scene("aerial", 5 * 2**16)
    expected = whole(scene.boxes, scene.scores, 0.4)
    hashnms.set_num_threads(num_threads)
    for count in (3000, 40_000):
        boxes_per_tile(count)
        keep, suppressor = nms(scene.boxes, scene.scores, 0.4, return_suppressor=True)
        assert np.array_equal(keep, expected[0])
        assert np.array_equal(suppressor, expected[1])
        above = expected[0][scene.scores[expected[0]] > 0.3]
        assert np.array_equal(nms(scene.boxes, scene.scores, 0.4, score_threshold=0.3), above)
