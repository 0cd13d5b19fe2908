"""Exact NMS of many boxes: the same on any number of threads, tile by tile, label by label, far from the origin."""

import numpy as np
import pytest

import hashnms
from hashnms import nms
from hashnms.synthetic import WORST_CASES, make_scene
from tests.support.checks import assert_same_nms

pytestmark = pytest.mark.core
THREADS = [1, 2, 8]
#: Enough for eight threads.
MANY = 8 * 2**16


def on_each_thread_count(*arguments, **options):
    results = []
    for num_threads in THREADS:
        hashnms.set_num_threads(num_threads)
        results.append(nms(*arguments, **options, return_suppressor=True))
        assert np.array_equal(nms(*arguments, **options), results[-1][0])
    return results


def assert_thread_counts_agree(*arguments, **options):
    (keep, suppressor), *others = on_each_thread_count(*arguments, **options)
    for other_keep, other_suppressor in others:
        assert np.array_equal(keep, other_keep)
        assert np.array_equal(suppressor, other_suppressor)


@pytest.mark.slow
@pytest.mark.usefixtures("restored_threads")
@pytest.mark.parametrize(
    ("preset", "iou_threshold"),
    [("aerial", 0.0), ("aerial", 0.3), ("crowd", 0.5), ("shelf", 0.7), ("parking_lot", 0.95)],
)
def test_thread_counts_agree_on_scenes(preset, iou_threshold):
    scene = make_scene(preset, MANY)
    assert_thread_counts_agree(scene.boxes, scene.scores, iou_threshold)


@pytest.mark.slow
@pytest.mark.usefixtures("restored_threads")
@pytest.mark.parametrize("iou_threshold", [0.2, 0.6])
def test_tiles_give_what_all_boxes_at_once_give(iou_threshold):
    """From 2**20 boxes on one thread, too, goes tile by tile, but not with a limit. Some boxes cross many borders."""
    rng = np.random.default_rng(35)
    count = 2**20 + 2**18
    corner = rng.uniform(0, 20_000, (count, 2)).astype(np.float32)
    size = rng.uniform(20, 60, (count, 2)).astype(np.float32)
    size[: count // 400] *= [300, 1]
    size[count // 400 : count // 200] *= [1, 300]
    boxes, scores = np.concatenate([corner, corner + size], axis=1), rng.integers(0, 10**5, count).astype(np.float32)
    hashnms.set_num_threads(1)
    keep, suppressor = nms(boxes, scores, iou_threshold, max_output=count - 1, return_suppressor=True)
    assert len(keep) < count - 1
    for num_threads in (1, 2, 3):
        hashnms.set_num_threads(num_threads)
        in_tiles = nms(boxes, scores, iou_threshold, return_suppressor=True)
        assert np.array_equal(in_tiles[0], keep)
        assert np.array_equal(in_tiles[1], suppressor)
    hashnms.set_num_threads(2)
    assert np.array_equal(nms(boxes, scores, iou_threshold), keep)


@pytest.mark.slow
@pytest.mark.usefixtures("restored_threads")
@pytest.mark.parametrize(("num_labels", "count"), [(2, 5 * 2**16), (500, MANY)])
def test_thread_counts_agree_with_labels(num_labels, count):
    """Small images, one on top of the other: only labels can divide the boxes among threads."""
    rng = np.random.default_rng(30)
    corner = rng.uniform(0, 300, (count, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(20, 100, (count, 2))], axis=1)
    scores, labels = rng.integers(0, 100, count) / 100, rng.integers(num_labels, size=count) * 10**12
    assert_thread_counts_agree(boxes, scores, 0.6, labels=labels, score_threshold=0.1)


def label_by_label(boxes, scores, iou_threshold, labels, score_threshold):
    """For each label, what nms of that label alone keeps, by score, and the suppressors."""
    keep, suppressor = [], np.full(len(boxes), -1)
    for label in np.unique(labels):
        rows = np.flatnonzero((labels == label) & (scores.astype(np.float64) > score_threshold))
        kept, removed_by = nms(boxes[rows], scores[rows], iou_threshold, return_suppressor=True)
        keep.append(rows[kept])
        suppressor[rows] = rows[removed_by]
    rows = np.sort(np.concatenate(keep))
    return rows[np.argsort(-scores[rows], kind="stable")], suppressor


@pytest.mark.usefixtures("restored_threads")
@pytest.mark.parametrize(
    ("dtype", "count", "num_labels"),
    [
        (np.float32, 9_000, 3),
        (np.float64, 9_000, 12),
        (np.float32, 20_000, 1203),
        pytest.param(np.float64, 300_000, 2, marks=pytest.mark.slow),
    ],
)
def test_many_boxes_with_labels_are_those_of_each_label(dtype, count, num_labels):
    """Labels of about the same size, and one that has most boxes; scores that equal the threshold."""
    rng = np.random.default_rng(31)
    scene = make_scene("aerial", count)
    boxes, scores = scene.boxes.astype(dtype), (scene.scores * 512).round().astype(dtype) / 512
    names = rng.choice(np.array([-(2**63), -1, 0, 2**63 - 1, *range(5, 5 + num_labels)]), num_labels, replace=False)
    even, uneven = rng.integers(num_labels, size=count), (num_labels * rng.random(count) ** 9).astype(np.int64)
    least = 25 / 512
    assert (scores == least).any()
    for labels in (names[even], names[uneven]):
        for iou_threshold in (0.2, 0.5, 1.0):
            expected = label_by_label(boxes, scores, iou_threshold, labels, least)
            for keep, suppressor in on_each_thread_count(
                boxes, scores, iou_threshold, labels=labels, score_threshold=least
            ):
                assert np.array_equal(keep, expected[0])
                assert np.array_equal(suppressor, expected[1])


@pytest.mark.slow
@pytest.mark.usefixtures("restored_threads")
@pytest.mark.parametrize("axis", [0, 1])
def test_boxes_on_the_borders_between_threads_equal_the_reference(axis):
    """Four rows of boxes, each over its neighbours: which are kept depends on the whole row, across every border."""
    length = MANY // 4
    begin = np.repeat(np.arange(length) * 3.0, 4)
    boxes = np.empty((4 * length, 4))
    boxes[:, axis], boxes[:, axis + 2] = begin, begin + 9
    boxes[:, 1 - axis], boxes[:, 3 - axis] = (
        np.tile([0.0, 9.0, 0.5, 9.5], length),
        np.tile([9.0, 18.0, 9.5, 18.5], length),
    )
    scores = np.random.default_rng(31).permutation(4 * length).astype(np.float64)
    assert_thread_counts_agree(boxes, scores, 0.4)
    assert_thread_counts_agree(boxes, np.zeros(4 * length), 0.4)
    part = slice(0, 4000)
    assert_same_nms(boxes[part], scores[part], 0.4)


@pytest.mark.slow
@pytest.mark.usefixtures("restored_threads")
@pytest.mark.parametrize(
    ("axis", "iou_threshold", "nested"),
    [(0, 0.2, False), (1, 0.2, True), (0, 0.5, True), (1, 0.5, False), (0, 0.95, False), (1, 0.95, True)],
)
def test_pairs_just_above_the_threshold_meet_across_borders_between_threads(axis, iou_threshold, nested):
    """Each box has one partner, within it or as far from it as one that suppresses it can be: the better is kept."""
    rng = np.random.default_rng(37)
    column, row = np.divmod(np.arange(MANY // 2), 512)
    first, second = np.empty((2, MANY // 2, 4))
    size = rng.uniform(10, 20, MANY // 2)
    for one in (first, second):
        one[:, 1 - axis], one[:, 3 - axis] = 30 * row, 30 * row + 20
    first[:, axis] = 2.0**20 + 50 * column + rng.uniform(0, 10, MANY // 2)
    first[:, axis + 2] = first[:, axis] + size
    if nested:
        second[:, axis] = first[:, axis + 2] - size * iou_threshold * (1 + 1e-6)
        second[:, axis + 2] = first[:, axis + 2]
    else:
        shift = size * (1 - iou_threshold) / (1 + iou_threshold) * (1 - 1e-6)
        second[:, axis], second[:, axis + 2] = first[:, axis] + shift, first[:, axis + 2] + shift
    boxes, scores = np.concatenate([first, second]), rng.permutation(MANY).astype(np.float64)
    better = np.arange(MANY // 2) + MANY // 2 * (scores[MANY // 2 :] > scores[: MANY // 2])
    expected = better[np.argsort(-scores[better])]
    for keep, _ in on_each_thread_count(boxes, scores, iou_threshold):
        assert np.array_equal(keep, expected)


@pytest.mark.parametrize(
    ("iou_threshold", "dtype"),
    [(0.0, np.float32), (0.01, np.float64), (0.05, np.float32), (0.2, np.float64), (0.33, np.float32)],
)
def test_many_sizes_at_low_thresholds_equal_the_reference(iou_threshold, dtype):
    boxes, scores = WORST_CASES["sizes from 1e-3 to 1e6"](6000).astype(dtype), np.random.default_rng(32).random(6000)
    assert_same_nms(boxes, scores, iou_threshold)


@pytest.mark.parametrize("iou_threshold", [0.05, 0.5, 0.9])
def test_a_few_boxes_of_odd_sizes_among_others_equal_the_reference(iou_threshold):
    """Some areas are near the least float, where they are rounded coarsely, and some just above."""
    rng = np.random.default_rng(33)
    scene = make_scene("aerial", 3000)
    size = np.float32(2.0) ** rng.uniform(-62, -45, (2000, 1)) * rng.uniform(0.9, 1.1, (2000, 2))
    corner = rng.choice(4, (2000, 1)) * size * 0.1
    boxes = np.concatenate([scene.boxes, np.concatenate([corner, corner + size], axis=1)]).astype(np.float32)
    scores = rng.random(5000)
    assert_same_nms(boxes, scores, iou_threshold)


@pytest.mark.parametrize(
    ("iou_threshold", "distance"),
    [(0.5, 2.0**50), (0.7, 2.0**48), (0.9, 2.0**46), (0.99, 2.0**43), (1 - 1e-5, 2.0**33), (1 - 1e-6, 2.0**28)],
)
def test_boxes_far_from_the_origin_find_their_neighbours(iou_threshold, distance):
    """There are so many cells that the rounding of a centre is a noticeable part of a cell."""
    rng = np.random.default_rng(35)
    size = rng.uniform(1, 2, (1000, 2))
    corner = np.stack([distance + rng.uniform(0, 64, 1000), 4.0 * np.arange(1000)], axis=1)
    boxes = np.concatenate([corner, corner + size], axis=1).repeat(2, axis=0)
    boxes[1::2] += rng.uniform(-1, 1, (1000, 4)) * (1 - iou_threshold) * 0.3
    scores = rng.random(2000)
    assert_same_nms(boxes, scores, iou_threshold)


def test_large_boxes_meet_every_small_one_on_a_huge_plane():
    """So many cells, far apart, that some share a hash."""
    rng = np.random.default_rng(36)
    x, y = np.meshgrid(np.arange(300), np.arange(200))
    corner = np.stack([x.ravel(), y.ravel()], axis=1) * 2.0**28 + rng.integers(0, 2**20, (60_000, 2))
    small = np.concatenate([corner, corner + 1], axis=1)
    large = small + np.array([-1, -1, 1, 1]) * 2.0**25
    keep = nms(np.concatenate([small, large]), np.linspace(1, 0, 120_000), 0.0)
    assert np.array_equal(keep, np.arange(60_000))


def test_the_widest_boxes_of_float64_meet():
    many = np.arange(3000)
    fillers = np.stack([0 * many, 1000 + 2 * many, 0 * many + 1, 1001 + 2 * many], axis=1).astype(np.float64)
    widest = 2.0**1023
    wide = [[-0.9 * widest, 0, widest, 2.0**-30], [-0.8 * widest, 0, -0.8 * widest + 2.0**1010, 2.0**-30]]
    assert np.array_equal(nms(np.concatenate([fillers, wide]), np.linspace(1, 0, 3002), 0.0), np.arange(3001))


@pytest.mark.parametrize("iou_threshold", [0.2, 0.5])
def test_labels_that_share_a_hash_keep_identical_boxes_apart(iou_threshold):
    """So many labels that several pairs agree in 32 bits; with a limit, labels are not processed one by one."""
    count = 200_000
    boxes, scores = np.tile([[0.0, 0.0, 10.0, 10.0]], (count, 1)), np.linspace(1, 0, count)
    labels = np.random.default_rng(38).integers(-(2**63), 2**63, count)
    keep = nms(boxes, scores, iou_threshold, labels=labels, max_output=count - 1)
    assert np.array_equal(keep, np.arange(count - 1))
