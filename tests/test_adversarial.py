"""Adversarial input is not slow: nobody can choose boxes that collide, even if they know the source code of the hashes.

Each construction is compared with the time of an ordinary scene with as many boxes. The constants of hashnms 0.1 are
those that these constructions were found with; it took up to 2,683 times as long as on a scene.
"""

import math
import time

import numpy as np
import pytest

import hashnms
from hashnms import _core, reference
from hashnms.synthetic import make_scene

COUNT = 100_000
MOST = 5.0  # times as long as an ordinary scene


def unfolded(words):
    """The keys that `key ^ (key >> 29)` makes these words of."""
    return words ^ (words >> np.uint64(29)) ^ (words >> np.uint64(58))


def crowding_labels(multiplier, count):
    """Labels of identical boxes [0, 0, 10, 10]: the hashes of all keys are next to each other.

    A key is 1 + label * 64 + 8 * m + n, and m = n = 3.
    """
    inverse = np.uint64(pow(int(multiplier), -1, 2**64))
    keys = unfolded(np.arange(1, 300 * count, dtype=np.uint64) * inverse) - np.uint64(1)
    keys = keys[(keys < 2**62) & (keys % np.uint64(64) == 27)]
    assert len(keys) >= count
    return np.concatenate([[0], (keys // np.uint64(64)).astype(np.int64)])[:count]


def old_cells(iou_threshold, dtype):
    """How many cells of the grid lie side by side in one unit, for boxes of size 1."""
    least = min(iou_threshold, 1 - 2**-20) * (1 - 64 * np.finfo(dtype).eps)
    width = -1.05 * math.log2(least)
    pitch = math.log2((2**width + 1) * (1 - least) / (1 + least)) + 2 * 0.0861 + 1e-9
    exponent = -(width + 0.01 + pitch)
    return 2 ** math.floor(exponent) * (1 + exponent - math.floor(exponent))


def boxes_in_cells(x, y, iou_threshold, dtype):
    """Boxes of size 1 with centres in the middle of these cells."""
    centers = np.stack([x + 0.5, y + 0.5], axis=1) / old_cells(iou_threshold, dtype)
    return np.concatenate([centers - 0.5, centers + 0.5], axis=1).astype(dtype)


def labels_that_share_a_hash(x, y):
    """With the linear 32-bit hash of 0.1: x * a + y * b + label * c is the same for all."""
    inverse = pow(0x165667B1, -1, 2**32)
    sums = (x.astype(object) * 0x85EBCA77 + y.astype(object) * 0x27D4EB2F) % 2**32
    return np.array([-int(value) * inverse % 2**32 for value in sums], np.int64)


def grid(count, step):
    side = math.isqrt(count) + 1
    x, y = np.divmod(np.arange(count), side)
    return x * step, y * step


def far_out(count):
    corner = 2.0**52 + np.stack(grid(count, 2), axis=1)
    return np.concatenate([corner, corner + 1], axis=1)


def hnms_with(labels):
    boxes = np.tile(np.float32([0, 0, 10, 10]), (len(labels), 1))
    return boxes, {"labels": labels}


def nms_in(cells, dtype, labels=None):
    x, y = cells
    return boxes_in_cells(x, y, 0.5, dtype), {"labels": labels, "max_output": len(x) - 1}  # all labels at once


HNMS = {
    "labels that crowd one place, by somebody who knows the seed": lambda n: hnms_with(
        crowding_labels(_core.hash_seed(), n)
    ),
    "labels that crowded one place in 0.1": lambda n: hnms_with(crowding_labels(0x9E3779B97F4A7C15, n)),
    "labels far apart": lambda n: hnms_with(np.arange(n) << 46),
    "labels at both ends": lambda n: hnms_with(np.arange(n) * 2 + np.where(np.arange(n) % 2, -(2**62), 2**62)),
}
NMS = {
    "cells a multiple of 2**32 apart": lambda n: nms_in(grid(n, 2.0**32), np.float64),
    "cells a multiple of 2**24 apart": lambda n: nms_in(grid(n, 2.0**24), np.float64),
    "cells a multiple of 2**36 apart": lambda n: nms_in(grid(n, 2.0**36), np.float64),
    "boxes of size 1 where the next double is 1 greater": lambda n: (far_out(n), {"labels": None}),
    "labels that shared one hash in 0.1": lambda n: nms_in(
        grid(n, 3), np.float32, labels_that_share_a_hash(*grid(n, 3))
    ),
    "labels far apart in one place": lambda n: hnms_with(np.arange(n) << 44),
}


def seconds(function, *arguments, **options):
    times = []
    for _ in range(3):
        start = time.perf_counter()
        function(*arguments, **options)
        times.append(time.perf_counter() - start)
    return min(times)


def ordinary(count, dtype):
    scene = make_scene("aerial", count)
    return scene.boxes.astype(dtype), np.random.default_rng(0).random(count).astype(dtype), scene.labels


def assert_not_slow(function, boxes, options):
    dtype = boxes.dtype
    scores = np.random.default_rng(1).random(len(boxes)).astype(dtype)
    scene_boxes, scene_scores, scene_labels = ordinary(len(boxes), dtype)
    labels = scene_labels if options["labels"] is not None else None
    usual = seconds(function, scene_boxes, scene_scores, labels=labels)
    assert seconds(function, boxes, scores, **options) < MOST * usual + 2e-3


@pytest.mark.timing
@pytest.mark.usefixtures("restored_threads")
@pytest.mark.parametrize("num_threads", [1, 2])
@pytest.mark.parametrize("construction", HNMS)
def test_hnms_is_linear_on_adversarial_input(construction, num_threads):
    hashnms.set_num_threads(num_threads)
    assert_not_slow(hashnms.hnms, *HNMS[construction](COUNT))


@pytest.mark.timing
@pytest.mark.parametrize("construction", NMS)
def test_nms_is_linear_on_adversarial_input(construction):
    assert_not_slow(hashnms.nms, *NMS[construction](COUNT))


@pytest.mark.parametrize("construction", HNMS)
def test_hnms_of_adversarial_input_is_the_references(construction):
    boxes, options = HNMS[construction](3000)
    boxes, labels = np.tile(boxes, (2, 1)), np.tile(options["labels"], 2)
    scores = np.random.default_rng(2).permutation(6000).astype(np.float32)
    assert np.array_equal(hashnms.hnms(boxes, scores, labels=labels), reference.hnms(boxes, scores, labels=labels))


@pytest.mark.parametrize("construction", NMS)
def test_nms_of_adversarial_input_is_the_references(construction):
    boxes, options = NMS[construction](3000)
    boxes = np.tile(boxes, (2, 1))
    labels = None if options["labels"] is None else np.tile(options["labels"], 2)
    scores = np.random.default_rng(3).permutation(6000).astype(boxes.dtype)
    keep, suppressor = hashnms.nms(boxes, scores, 0.5, labels=labels, return_suppressor=True, max_output=5999)
    expected = reference.nms(boxes, scores, 0.5, labels=labels)
    assert np.array_equal(keep, expected[0])
    assert np.array_equal(suppressor, expected[1])


@pytest.mark.timing
@pytest.mark.parametrize("options", [{"method": "linear", "iou_threshold": 1}, {"sigma": 1e30}])
def test_soft_nms_that_lowers_nothing_is_not_quadratic(options):
    def time_of(count):
        rng = np.random.default_rng(4)
        corner = rng.uniform(0, 10, (count, 2))
        boxes = np.concatenate([corner, corner + 50], axis=1).astype(np.float32)
        return seconds(hashnms.soft_nms, boxes, rng.random(count).astype(np.float32), **options)

    assert time_of(32_000) < 8 * 3 * time_of(4_000) + 2e-3


@pytest.mark.timing
@pytest.mark.parametrize("iou_threshold", [0.05, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("octaves", [60, 300, 510])
def test_nms_of_boxes_of_every_size_is_not_quadratic(octaves, iou_threshold):
    def time_of(count):
        rng = np.random.default_rng(5)
        size = np.exp2(rng.uniform(-octaves, octaves, (count, 2)))
        return seconds(hashnms.nms, np.concatenate([0 * size, size], axis=1), rng.random(count), iou_threshold)

    assert time_of(32_000) < 8 * 3 * time_of(4_000) + 2e-3
