"""Exact NMS of many boxes: the same on any number of threads, in little memory, fast in its worst cases."""

import sys
import time

import numpy as np
import pytest
from conftest import bytes_per_box
from test_nms import assert_same

import hashnms
from hashnms import nms
from hashnms.synthetic import PRESETS, WORST_CASES, make_scene

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


@pytest.mark.usefixtures("restored_threads")
@pytest.mark.parametrize("iou_threshold", [0.5, 0.7, 0.95])
@pytest.mark.parametrize("preset", PRESETS)
def test_thread_counts_agree_on_scenes(preset, iou_threshold):
    scene = make_scene(preset, MANY)
    assert_thread_counts_agree(scene.boxes, scene.scores, iou_threshold)


@pytest.mark.usefixtures("restored_threads")
@pytest.mark.parametrize("iou_threshold", [0.2, 0.6])
def test_strips_give_what_all_boxes_at_once_give(iou_threshold):
    """From 2**20 boxes on one thread, too, goes strip by strip, but not with a limit. Some boxes cross many borders.

    Two threads have two strips each, so that boxes are kept in a later strip than the one they begin in, and are
    looked for there when what waits between the threads is decided.
    """
    rng = np.random.default_rng(35)
    count = 2**21
    corner = rng.uniform(0, 20_000, (count, 2)).astype(np.float32)
    size = rng.uniform(20, 60, (count, 2)).astype(np.float32)
    size[: count // 100] *= [300, 1]
    size[count // 100 : count // 50] *= [1, 300]
    boxes, scores = np.concatenate([corner, corner + size], axis=1), rng.integers(0, 10**5, count).astype(np.float32)
    hashnms.set_num_threads(1)
    keep, suppressor = nms(boxes, scores, iou_threshold, max_output=count - 1, return_suppressor=True)
    assert len(keep) < count - 1
    for num_threads in (1, 2, 3):
        hashnms.set_num_threads(num_threads)
        assert np.array_equal(nms(boxes, scores, iou_threshold), keep)
        in_strips = nms(boxes, scores, iou_threshold, return_suppressor=True)
        assert np.array_equal(in_strips[0], keep)
        assert np.array_equal(in_strips[1], suppressor)


@pytest.mark.usefixtures("restored_threads")
@pytest.mark.parametrize("iou_threshold", [0.0, 0.05, 0.3])
def test_thread_counts_agree_at_low_thresholds(iou_threshold):
    scene = make_scene("aerial", MANY)
    assert_thread_counts_agree(scene.boxes, scene.scores, iou_threshold)


@pytest.mark.usefixtures("restored_threads")
@pytest.mark.parametrize("num_labels", [2, 500])
def test_thread_counts_agree_with_labels(num_labels):
    """Small images, one on top of the other: only labels can divide the boxes among threads."""
    rng = np.random.default_rng(30)
    corner = rng.uniform(0, 300, (MANY, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(20, 100, (MANY, 2))], axis=1)
    scores, labels = rng.integers(0, 100, MANY) / 100, rng.integers(num_labels, size=MANY) * 10**12
    assert_thread_counts_agree(boxes, scores, 0.6, labels=labels, score_threshold=0.1)


def label_by_label(boxes, scores, iou_threshold, labels, score_threshold):
    """Of each label what nms keeps of it alone, by score, and who removed whom."""
    keep, suppressor = [], np.full(len(boxes), -1)
    for label in np.unique(labels):
        rows = np.flatnonzero((labels == label) & (scores.astype(np.float64) > score_threshold))
        kept, removed_by = nms(boxes[rows], scores[rows], iou_threshold, return_suppressor=True)
        keep.append(rows[kept])
        suppressor[rows] = rows[removed_by]
    keep = np.sort(np.concatenate(keep))
    return keep[np.argsort(-scores[keep], kind="stable")], suppressor


@pytest.mark.usefixtures("restored_threads")
@pytest.mark.parametrize("iou_threshold", [0.2, 0.5, 1.0])
@pytest.mark.parametrize(("count", "num_labels"), [(9_000, 3), (9_000, 12), (20_000, 1203), (300_000, 2)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_boxes_with_labels_are_those_of_each_label(dtype, count, num_labels, iou_threshold):
    """Labels of about the same size, and one that has most boxes."""
    rng = np.random.default_rng(31)
    scene = make_scene("aerial", count)
    boxes, scores = scene.boxes.astype(dtype), (scene.scores * 500).round().astype(dtype) / 500
    names = rng.choice(np.array([-(2**63), -1, 0, 2**63 - 1, *range(5, 5 + num_labels)]), num_labels, replace=False)
    even, uneven = rng.integers(num_labels, size=count), (num_labels * rng.random(count) ** 9).astype(np.int64)
    for labels in (names[even], names[uneven]):
        expected = label_by_label(boxes, scores, iou_threshold, labels, 0.05)
        for keep, suppressor in on_each_thread_count(boxes, scores, iou_threshold, labels=labels, score_threshold=0.05):
            assert np.array_equal(keep, expected[0])
            assert np.array_equal(suppressor, expected[1])


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
    assert_same(boxes[part], scores[part], 0.4)


@pytest.mark.usefixtures("restored_threads")
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("iou_threshold", [0.2, 0.5, 0.95])
@pytest.mark.parametrize("nested", [False, True], ids=["shifted", "nested"])
def test_pairs_just_above_the_threshold_meet_across_borders_between_threads(nested, iou_threshold, axis):
    """Each box has one partner, as far from it as a box that suppresses it can be: the better of the two is kept."""
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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("iou_threshold", [0.0, 0.01, 0.05, 0.2, 0.33])
def test_many_sizes_at_low_thresholds_equal_the_reference(iou_threshold, dtype):
    boxes, scores = WORST_CASES["sizes from 1e-3 to 1e6"](6000).astype(dtype), np.random.default_rng(32).random(6000)
    assert_same(boxes, scores, iou_threshold)


@pytest.mark.parametrize("iou_threshold", [0.05, 0.5, 0.9])
def test_a_few_boxes_of_odd_sizes_among_others_equal_the_reference(iou_threshold):
    """Areas near the least float are rounded coarsely: such boxes are kept apart, and those just above meet both."""
    rng = np.random.default_rng(33)
    scene = make_scene("aerial", 3000)
    size = np.float32(2.0) ** rng.uniform(-62, -45, (2000, 1)) * rng.uniform(0.9, 1.1, (2000, 2))
    corner = rng.choice(4, (2000, 1)) * size * 0.1
    boxes = np.concatenate([scene.boxes, np.concatenate([corner, corner + size], axis=1)]).astype(np.float32)
    scores = rng.random(5000)
    assert_same(boxes, scores, iou_threshold)


@pytest.mark.parametrize("iou_threshold", [0.0, 0.01, 0.05, 0.5, 0.95, 0.999, 1.0])
@pytest.mark.parametrize("shape", WORST_CASES)
def test_the_time_grows_with_the_boxes_not_with_their_square(shape, iou_threshold):
    """Sixteen times the boxes: about sixteen times the time, where the square would be 256 times and seconds."""

    def seconds(count):
        boxes, scores = WORST_CASES[shape](count), np.random.default_rng(34).random(count)
        times = []
        for _ in range(3):
            start = time.perf_counter()
            nms(boxes, scores, iou_threshold)
            times.append(time.perf_counter() - start)
        return min(times)

    assert seconds(128_000) < 80 * seconds(8_000) + 0.2


@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured through /proc")
@pytest.mark.parametrize("iou_threshold", [0.05, 0.7])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("num_threads", [1, 2])
def test_memory_is_at_most_100_bytes_a_box_beyond_input_and_result(num_threads, dtype, iou_threshold):
    call = f"nms(boxes, scores, {iou_threshold}, return_suppressor=True)"
    for count in (10**6, 1_200_000):  # one thread goes strip by strip from 2**20 on
        assert 20 < bytes_per_box(call, dtype, num_threads, count) - 16 <= 100


@pytest.mark.parametrize(
    ("iou_threshold", "distance"),
    [(0.5, 2.0**50), (0.7, 2.0**48), (0.9, 2.0**46), (0.99, 2.0**43), (1 - 1e-5, 2.0**33), (1 - 1e-6, 2.0**28)],
)
def test_boxes_far_from_the_origin_find_their_neighbours(iou_threshold, distance):
    """Their cells are so many that a centre's rounding is a part of one."""
    rng = np.random.default_rng(35)
    size = rng.uniform(1, 2, (1000, 2))
    corner = np.stack([distance + rng.uniform(0, 64, 1000), 4.0 * np.arange(1000)], axis=1)
    boxes = np.concatenate([corner, corner + size], axis=1).repeat(2, axis=0)
    boxes[1::2] += rng.uniform(-1, 1, (1000, 4)) * (1 - iou_threshold) * 0.3
    scores = rng.random(2000)
    assert_same(boxes, scores, iou_threshold)


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


@pytest.mark.parametrize(
    ("iou_threshold", "labels"),
    [(1.0, None), (0.5, lambda count: np.arange(count) << 32)],
    ids=["nothing can be above 1", "labels that differ in their high bits"],
)
def test_equal_boxes_that_are_all_kept_take_no_square_of_time(iou_threshold, labels):
    def seconds(count):
        boxes, scores = np.tile([[0.0, 0.0, 10.0, 10.0]], (count, 1)), np.linspace(1, 0, count)
        start = time.perf_counter()
        keep = nms(boxes, scores, iou_threshold, labels=labels(count) if labels else None)
        assert len(keep) == count
        return time.perf_counter() - start

    assert min(seconds(128_000) for _ in range(3)) < 80 * min(seconds(8_000) for _ in range(3)) + 0.2
