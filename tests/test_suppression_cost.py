"""The time and the memory of exact NMS and Soft-NMS: they grow with the boxes, in the worst cases, too."""

import sys
from functools import partial

import numpy as np
import pytest

from hashnms import nms, soft_nms
from hashnms.synthetic import WORST_CASES
from tests.support.cost import bytes_per_box, is_faster_than, least_seconds

needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="memory is measured through /proc")


@pytest.mark.timing
@pytest.mark.parametrize("shape", WORST_CASES)
def test_the_time_of_nms_grows_with_the_boxes_not_with_their_square(shape):
    """Sixteen times the boxes: about sixteen times the time, where the square would be 256 times and seconds."""
    few, many = WORST_CASES[shape](8_000), WORST_CASES[shape](128_000)
    few_scores, many_scores = (np.random.default_rng(34).random(len(boxes)) for boxes in (few, many))
    for iou_threshold in (0.0, 0.01, 0.05, 0.5, 0.95, 0.999, 1.0):
        limit = 80 * least_seconds(partial(nms, few, few_scores, iou_threshold)) + 0.2
        assert is_faster_than(limit, partial(nms, many, many_scores, iou_threshold)), iou_threshold


@pytest.mark.timing
@pytest.mark.parametrize(
    ("iou_threshold", "label_step"),
    [(1.0, 0), (0.5, 1 << 32)],
    ids=["nothing can be above 1", "labels that differ in their high bits"],
)
def test_equal_boxes_that_are_all_kept_take_no_square_of_time(iou_threshold, label_step):
    def seconds(count):
        boxes, scores = np.tile([[0.0, 0.0, 10.0, 10.0]], (count, 1)), np.linspace(1, 0, count)
        labels = np.arange(count) * label_step if label_step else None
        assert len(nms(boxes, scores, iou_threshold, labels=labels)) == count
        return least_seconds(lambda: nms(boxes, scores, iou_threshold, labels=labels))

    assert seconds(128_000) < 80 * seconds(8_000) + 0.2


@pytest.mark.timing
@pytest.mark.parametrize(
    "shape", [shape for shape in WORST_CASES if shape not in ("needles", "sizes from 1e-3 to 1e6")]
)
def test_the_time_of_soft_nms_grows_with_the_boxes_not_with_their_square(shape):
    """Eight times the boxes, about eight times the time, where the square would be 64 times."""
    few, many = (WORST_CASES[shape](count).astype(np.float32) for count in (8_000, 64_000))
    few_scores, many_scores = (np.random.default_rng(37).random(len(b)).astype(np.float32) for b in (few, many))
    for method in ("gaussian", "linear"):
        limit = 24 * least_seconds(partial(soft_nms, few, few_scores, method=method)) + 0.1
        assert is_faster_than(limit, partial(soft_nms, many, many_scores, method=method)), method


@pytest.mark.timing
@pytest.mark.parametrize(("sigma", "score", "min_score"), [(1e3, 0.5, 1e-3), (10.0, 1e-36, 0.0)])
def test_many_equal_boxes_that_hardly_decay_take_each_pair_once(sigma, score, min_score):
    """Their scores are so nearly equal, in every step, that bounds cannot distinguish them."""

    def seconds(count):
        boxes, scores = np.tile(np.float32([0, 0, 10, 10]), (count, 1)), np.full(count, score, np.float32)
        kept = []
        taken = least_seconds(
            lambda: kept.append(len(soft_nms(boxes, scores, sigma=sigma, min_score=min_score)[0])), rounds=1
        )
        assert kept == [count]
        return taken

    assert seconds(2400) < 40 * seconds(600) + 0.1  # the cube would be 64 times, and seconds


@needs_proc
@pytest.mark.memory
@pytest.mark.parametrize("iou_threshold", [0.05, 0.7])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("num_threads", [1, 2])
def test_memory_of_nms_is_at_most_100_bytes_a_box_beyond_input_and_result(num_threads, dtype, iou_threshold):
    call = f"nms(boxes, scores, {iou_threshold}, return_suppressor=True)"
    for count in (10**6, 1_200_000):  # one thread goes tile by tile from 2**20 on
        assert 20 < bytes_per_box(call, dtype, num_threads, count) - 16 <= 100


@needs_proc
@pytest.mark.memory
@pytest.mark.parametrize(("dtype", "most"), [("float32", 120), ("float64", 200)])
def test_memory_of_soft_nms_is_a_few_times_the_input(dtype, most):
    assert 20 < bytes_per_box("soft_nms(boxes, scores)", dtype, num_threads=1) <= most
