"""Exact NMS against the greedy loop of the reference, on every kind of data, threshold and option."""

import re
from itertools import cycle

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hashnms import batched_nms, nms, reference
from hashnms.boxes import to_xyxy
from hashnms.synthetic import PRESETS, WORST_CASES, lattice, make_scene
from tests.support.boxes import BOX_KINDS, THRESHOLDS, boxes_and_scores, real_images
from tests.support.checks import among_many, assert_same_nms

pytestmark = pytest.mark.core


@pytest.mark.parametrize("kind", BOX_KINDS)
def test_nms_equals_the_reference_at_every_threshold(kind):
    """In both types: one has scores that tie and labels, by turns."""
    rng = np.random.default_rng(20)
    boxes, scores = BOX_KINDS[kind](rng, 1200), rng.random(1200)
    tied, labels = rng.integers(0, 8, 1200) / 8, rng.integers(-1, 2, 1200)
    types = cycle([(np.float32, np.float64), (np.float64, np.float32)])
    for iou_threshold, (plain, labelled) in zip(THRESHOLDS, types, strict=False):
        assert_same_nms(boxes.astype(plain), scores.astype(plain), iou_threshold)
        assert_same_nms(boxes.astype(labelled), tied.astype(labelled), iou_threshold, labels=labels)


@pytest.mark.parametrize("shape", WORST_CASES)
def test_worst_cases_equal_the_reference(shape):
    boxes, scores = WORST_CASES[shape](1500), np.random.default_rng(21).random(1500)
    types = cycle([np.float32, np.float64])
    for iou_threshold, dtype in zip((0.0, 0.05, 0.25, 1 / 3, 0.4, 0.5, 0.5, 0.7, 0.95, 0.999), types, strict=False):
        assert_same_nms(boxes.astype(dtype), scores, iou_threshold)
    assert_same_nms(boxes.astype(np.float32), np.arange(1500), 0.5)


@pytest.mark.parametrize("kind", BOX_KINDS)
def test_few_boxes_equal_the_reference(kind):
    """Any number around the ends of vectors, and around where other ways to find kept boxes begin."""
    rng = np.random.default_rng(26)
    for count in (1, 7, 8, 9, 16, 17, 100, 255, 256, 257, 511, 512, 513):
        boxes, scores = BOX_KINDS[kind](rng, count), rng.integers(0, 50, count) / 50
        labels = rng.integers(-1, 1, count)
        for dtype, iou_threshold in ((np.float32, 0.05), (np.float32, 0.5), (np.float64, 0.0), (np.float64, 0.5)):
            some_boxes, some_scores = boxes.astype(dtype), scores.astype(dtype)
            assert_same_nms(some_boxes, some_scores, iou_threshold)
            assert_same_nms(some_boxes, some_scores, iou_threshold, labels=labels, max_output=count // 3)


@given(
    boxes_and_scores(),
    st.sampled_from([*THRESHOLDS, np.nextafter(0.5, 0), np.nextafter(0.5, 1)]),
    st.booleans(),
    st.none() | st.sampled_from([-1.0, 0.0, 0.25, 2.9]),
    st.none() | st.integers(0, 12),
)
@example((np.zeros((3, 4)), np.zeros(3)), 0.0, False, None, None)
def test_nms_equals_the_reference_on_any_boxes(data, iou_threshold, labelled, score_threshold, max_output):
    boxes, scores = data
    labels = np.arange(len(boxes)) % 3 if labelled else None
    assert_same_nms(boxes, scores, iou_threshold, labels=labels, score_threshold=score_threshold, max_output=max_output)
    boxes, scores = among_many(boxes, scores)
    labels = np.arange(len(boxes)) % 3 if labelled else None
    assert_same_nms(boxes, scores, iou_threshold, labels=labels, max_output=max_output)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("iou_threshold", [0.3, 0.5, 0.7])
def test_scenes_equal_the_reference(preset, iou_threshold):
    scene = make_scene(preset, 6000)
    assert_same_nms(scene.boxes, scene.scores, iou_threshold)
    assert_same_nms(scene.boxes, scene.scores, iou_threshold, labels=scene.labels)
    assert_same_nms(scene.boxes, scene.scores, iou_threshold, max_output=700, score_threshold=0.05)


@pytest.mark.parametrize("iou_threshold", [0.25, 0.3, 0.34, 0.36])
def test_many_kept_boxes_at_low_thresholds_equal_the_reference(iou_threshold):
    rng = np.random.default_rng(24)
    apart = lattice(4800, 8, 9)
    boxes = np.concatenate([apart, apart[rng.permutation(4800)[:1200]] + rng.uniform(-3, 3, (1200, 4))])
    boxes[:, 2:] = np.maximum(boxes[:, 2:], boxes[:, :2])
    assert_same_nms(boxes.astype(np.float32), rng.random(6000), iou_threshold)


def test_max_output_keeps_the_same_boxes_first():
    scene = make_scene("shelf", 5000)
    everything = nms(scene.boxes, scene.scores, 0.6)
    for most in (0, 1, 255, 256, 257, 500, len(everything), len(everything) + 1, 10**12):
        assert np.array_equal(nms(scene.boxes, scene.scores, 0.6, max_output=most), everything[:most])


def test_a_suppressor_is_kept_of_higher_rank_and_overlaps():
    scene = make_scene("crowd", 4000)
    keep, suppressor = nms(scene.boxes, scene.scores, 0.5, labels=scene.labels, return_suppressor=True)
    assert np.array_equal(np.unique(suppressor), np.sort(keep))
    assert np.array_equal(suppressor[keep], keep)
    assert (scene.labels[suppressor] == scene.labels).all()
    assert (scene.scores[suppressor] >= scene.scores).all()


@pytest.mark.parametrize("labels", [[0, 2**40, -(2**40), 7], [np.iinfo(np.int64).min, np.iinfo(np.int64).max, 0, 1]])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_labels_of_any_size_keep_identical_boxes_apart(labels, dtype):
    boxes = np.tile(np.array([[0, 0, 10, 10]], dtype), (8, 1))
    keep, suppressor = nms(boxes, np.arange(8), labels=np.array(labels * 2), return_suppressor=True)
    assert keep.tolist() == [7, 6, 5, 4]
    assert suppressor.tolist() == [4, 5, 6, 7, 4, 5, 6, 7]


@pytest.mark.parametrize(("scale", "dtype"), [(1e-22, np.float32), (1e-160, np.float64), (1e19, np.float32)])
def test_areas_that_underflow_or_overflow_equal_the_reference(scale, dtype):
    boxes = (BOX_KINDS["integers"](np.random.default_rng(22), 900) * scale).astype(dtype)
    for iou_threshold in (0.0, 0.3, 0.5, 0.9):
        assert_same_nms(boxes, np.random.default_rng(22).random(900), iou_threshold)


@pytest.mark.parametrize(("across", "down"), [(1e-306, 1e290), (1e305, 1e-5), (4e306, 1e-10)])
@pytest.mark.parametrize("iou_threshold", [0.4, 0.5, 0.9, 0.999])
def test_sizes_at_the_ends_of_float64_equal_the_reference(across, down, iou_threshold):
    rng = np.random.default_rng(25)
    boxes = BOX_KINDS["random"](rng, 400).repeat(2, axis=0) / 4
    boxes[1::2, 2:] *= 1.0004
    assert_same_nms(boxes * [across, down, across, down], rng.random(800), iou_threshold)


@pytest.mark.parametrize("box_format", ["xywh", "cxcywh"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_other_formats_are_those_of_the_converted_corners(box_format, dtype):
    rng = np.random.default_rng(23)
    boxes = np.concatenate([rng.uniform(0, 100, (1500, 2)), rng.uniform(1, 30, (1500, 2))], axis=1).astype(dtype)
    scores = rng.random(1500)
    assert np.array_equal(
        nms(boxes, scores, 0.5, box_format=box_format), reference.nms(to_xyxy(boxes, box_format), scores, 0.5)[0]
    )


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_batched_nms_takes_floats_as_labels(dtype):
    """As torchvision's does: a column of a YOLO's output is of floats."""
    scene = make_scene("shelf", 500)
    labels = scene.labels / 4 * np.where(np.arange(500) % 2, -1, 1)  # 0.0 and -0.0 are one
    expected = batched_nms(scene.boxes, scene.scores, np.unique(labels, return_inverse=True)[1], 0.5)
    np.testing.assert_array_equal(batched_nms(scene.boxes, scene.scores, labels.astype(dtype), 0.5), expected)


def test_batched_nms_is_nms_with_labels():
    scene = make_scene("aerial", 3000)
    assert np.array_equal(
        batched_nms(scene.boxes, scene.scores, scene.labels, 0.5),
        nms(scene.boxes, scene.scores, 0.5, labels=scene.labels),
    )


def test_empty_input_gives_an_empty_result():
    keep, suppressor = nms([], [], return_suppressor=True)
    assert keep.dtype == suppressor.dtype == np.int64
    assert keep.shape == suppressor.shape == (0,)
    assert batched_nms(np.zeros((0, 4)), [], [], 0.5).shape == (0,)
    assert nms([[0, 0, 1, 1]], [0.5], score_threshold=0.5).shape == (0,)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"iou_threshold": -0.1}, "iou_threshold must be in [0, 1], got -0.1"),
        ({"iou_threshold": 1.01}, "iou_threshold must be in [0, 1], got 1.01"),
        ({"iou_threshold": float("nan")}, "iou_threshold must be in [0, 1], got nan"),
        ({"score_threshold": float("nan")}, "score_threshold must be not NaN, got nan"),
        ({"max_output": -1}, "max_output must be at least 0, got -1"),
        ({"boxes": [[0, 0, 1]] * 2}, "boxes must have shape (N, 4), got (2, 3)"),
        ({"scores": [1.0]}, "scores must have shape (2,), one for each box, got (1,)"),
        ({"labels": [1]}, "labels must have shape (2,), one for each box, got (1,)"),
        ({"labels": [0.5, 1.0]}, "labels must be whole numbers, got 0.5 in row 0 (1 such row)"),
        (
            {"boxes": [[0, 0, 1, 1], [0, 0, np.nan, 1]]},
            "boxes must be finite, got [0.0, 0.0, nan, 1.0] in row 1 (1 such row)",
        ),
        (
            {"boxes": [[2, 0, 1, 1], [0, 0, 1, 1]]},
            "boxes must have x2 >= x1 and y2 >= y1, got [2.0, 0.0, 1.0, 1.0] in row 0 (1 such row); "
            "did you mean box_format='xywh' or hashnms.boxes.order_corners(boxes)?",
        ),
        ({"scores": [0.5, np.inf]}, "scores must be finite, got inf in row 1 (1 such row)"),
        ({"box_format": "yxyx"}, "box_format must be one of xyxy, xywh, cxcywh, got 'yxyx'"),
    ],
)
def test_bad_values_raise_value_error(arguments, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        nms(**{"boxes": [[0, 0, 1, 1], [0, 0, 1, 1]], "scores": [0.5, 0.6], **arguments})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"iou_threshold": "0.5"}, "iou_threshold must be a number, in [0, 1], got '0.5'"),
        ({"score_threshold": "0.5"}, "score_threshold must be a number, not NaN, got '0.5'"),
        ({"max_output": 1.5}, "max_output must be an integer, got 1.5"),
        (
            {"labels": ["a", "b"]},
            "labels must be integers, got <U1: np.unique(labels, return_inverse=True)[1] numbers them",
        ),
    ],
)
def test_bad_types_raise_type_error(arguments, message):
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        nms(**{"boxes": [[0, 0, 1, 1], [0, 0, 1, 1]], "scores": [0.5, 0.6], **arguments})


@pytest.mark.parametrize("file", real_images(max_images=1))
def test_nms_equals_the_reference_on_real_detections(file):
    """The best of an image: all of it is compared with torchvision's op, which is faster than the reference."""
    with np.load(file) as image:
        best = np.argsort(-image["scores"], kind="stable")[:3000]
        boxes, scores, labels = (image[name][best] for name in ("boxes", "scores", "labels"))
    assert_same_nms(boxes, scores, 0.5, labels=labels)
    assert_same_nms(boxes, scores, 0.7)
