"""Soft-NMS against the plain loop of the reference: the same boxes, in the same order, with the same bits of scores."""

import re
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hashnms import nms, set_num_threads, soft_nms
from hashnms.boxes import to_xyxy
from hashnms.synthetic import PRESETS, WORST_CASES, lattice, make_scene
from tests.support.boxes import BOX_KINDS, boxes_and_scores, real_images
from tests.support.checks import FEW_SOFT, assert_same_soft_nms, assert_same_soft_nms_alone

pytestmark = pytest.mark.core
METHODS = ["gaussian", "linear", "hard"]
TYPES = [np.float32, np.float64]


@pytest.mark.parametrize("kind", BOX_KINDS)
def test_soft_nms_equals_the_reference(kind):
    """Boxes and scores of either type, each with every method; scores that tie, with labels, for one type of boxes."""
    rng = np.random.default_rng(30)
    boxes, scores = BOX_KINDS[kind](rng, 500), rng.random(500)
    tied, labels = rng.integers(0, 8, 500) / 8, rng.integers(-1, 2, 500)
    for method, score_type in product(METHODS, TYPES):
        for box_type in TYPES:
            assert_same_soft_nms(boxes.astype(box_type), scores.astype(score_type), method=method)
        options = {"labels": labels, "iou_threshold": 0.1, "sigma": 0.1}
        assert_same_soft_nms(boxes.astype(score_type), tied.astype(score_type), method=method, **options)


@pytest.mark.parametrize("method", METHODS)
def test_few_boxes_of_a_label_equal_the_reference(method):
    rng = np.random.default_rng(34)
    for count in (1, 7, 8, 9, 31, 64, FEW_SOFT - 1, FEW_SOFT, FEW_SOFT + 1, FEW_SOFT + 2):
        corners = 50 * rng.random((count, 2))
        boxes = np.hstack([corners, corners + 40 + 10 * rng.random((count, 2))])
        for dtype in TYPES:
            for scores in (rng.random(count), rng.integers(0, 4, count) / 4):
                assert_same_soft_nms_alone(boxes.astype(dtype), scores.astype(dtype), method=method)
                assert_same_soft_nms_alone(boxes.astype(dtype), scores.astype(dtype), method=method, min_score=0.0)


OPTIONS = st.fixed_dictionaries(
    {
        "method": st.sampled_from(METHODS),
        "sigma": st.sampled_from([0.01, 0.05, 0.1, 0.5, 1.0, 10.0]),
        "iou_threshold": st.sampled_from([0.0, 0.1, 0.3, 0.5, 1.0]),
        "min_score": st.sampled_from([0.0, 1e-3, 0.01, 0.25, 0.5, 0.9]),
        "max_output": st.none() | st.integers(0, 12),
    }
)


@given(boxes_and_scores(max_boxes=50), OPTIONS, st.booleans())
@example((np.zeros((3, 4)), np.zeros(3)), {"min_score": 0.0}, False)
@example((np.tile([[0.0, 0.0, 2.0, 2.0]], (40, 1)), np.ones(40)), {"method": "linear", "min_score": 0.0}, False)
def test_soft_nms_equals_the_reference_on_any_boxes(data, options, labelled):
    boxes, scores = data
    assert_same_soft_nms(boxes, scores, **options, labels=np.arange(len(boxes)) % 3 if labelled else None)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", WORST_CASES)
def test_worst_cases_equal_the_reference(shape, method):
    boxes = WORST_CASES[shape](600)
    scores = np.random.default_rng(31).random(600)
    for dtype in (np.float32, np.float64):
        assert_same_soft_nms(boxes.astype(dtype), scores.astype(dtype), method=method)
        assert_same_soft_nms(boxes.astype(dtype), np.ones(600, dtype), method=method, sigma=5.0)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("method", METHODS)
def test_scenes_equal_the_reference(preset, method):
    scene = make_scene(preset, 2000)
    assert_same_soft_nms(scene.boxes, scene.scores, method=method)
    assert_same_soft_nms(scene.boxes, scene.scores, method=method, labels=scene.labels, min_score=0.05, max_output=200)


@pytest.mark.parametrize("file", real_images(max_images=1))
def test_real_images_equal_the_reference(file):
    with np.load(file) as image:
        boxes, scores, labels = image["boxes"], image["scores"], image["labels"]
    best = np.argsort(-scores, kind="stable")[:2500]
    for method in METHODS:
        assert_same_soft_nms(boxes[best], scores[best], labels=labels[best], method=method, max_output=600)
        assert_same_soft_nms(boxes[best], scores[best], method=method, min_score=0.1)


@pytest.mark.slow
def test_every_score_is_known_when_nothing_is_left_out():
    """With min_score 0 all boxes come out, with more decays than a leaf of the tree remembers, which is 1,024."""
    rng = np.random.default_rng(32)
    boxes = (np.array([0, 0, 50, 50]) + rng.normal(0, 4, (1500, 4))).astype(np.float32)
    for dtype in (np.float32, np.float64):
        scores = rng.random(1500).astype(dtype)
        assert_same_soft_nms(boxes, scores, min_score=0.0, sigma=20.0)
        assert len(soft_nms(boxes, scores, min_score=0.0)[0]) == 1500
    assert_same_soft_nms(boxes[:700], scores[:700], min_score=0.0, method="linear")


@pytest.mark.parametrize("scale", [1e-20, 1e-38, 1e-43, 1e30])
@pytest.mark.parametrize("min_score", [0.0, 1e-44, 1e-39, 1e-31])
def test_scores_that_floats_round_coarsely_equal_the_reference(scale, min_score):
    rng = np.random.default_rng(33)
    boxes = BOX_KINDS["integers"](rng, 200).astype(np.float32)
    scores = (rng.random(200) * scale).astype(np.float32)
    for method in ("gaussian", "linear"):
        for sigma in (1e-3, 0.1, 3.0):
            assert_same_soft_nms(boxes, scores, method=method, sigma=sigma, min_score=min_score, iou_threshold=0.0)


@pytest.mark.parametrize("sigma", [1e-30, 1e-25, 1e-9, 1e9, 1e30])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extreme_sigmas_equal_the_reference(sigma, dtype):
    rng = np.random.default_rng(34)
    boxes = BOX_KINDS["huge and tiny"](rng, 400).astype(np.float32)
    assert_same_soft_nms(boxes, rng.random(400).astype(dtype), sigma=sigma)


@pytest.mark.parametrize(("scale", "dtype"), [(1e-22, np.float32), (1e-160, np.float64), (1e19, np.float32)])
def test_areas_that_underflow_or_overflow_equal_the_reference(scale, dtype):
    rng = np.random.default_rng(35)
    boxes = (BOX_KINDS["integers"](rng, 400) * scale).astype(dtype)
    for method in METHODS:
        assert_same_soft_nms(boxes, rng.random(400), method=method, iou_threshold=0.0)


@pytest.mark.parametrize("iou_threshold", [0.17, 0.3, 0.87])
@pytest.mark.parametrize("scale", [1e-22, 5e-23, 2.5e-23, 1.7e-23])
def test_areas_among_the_least_floats_equal_the_reference(scale, iou_threshold):
    """Where an area times a threshold is rounded to a few bits."""
    rng = np.random.default_rng(38)
    for _ in range(10):
        corner = rng.integers(0, 10, (60, 2))
        boxes = (np.concatenate([corner, corner + rng.integers(0, 10, (60, 2))], axis=1) * scale).astype(np.float32)
        assert_same_soft_nms(boxes, rng.random(60), method="linear", iou_threshold=iou_threshold)


def test_sizes_whose_ratio_is_just_the_threshold_equal_the_reference():
    rng = np.random.default_rng(39)
    for _ in range(40):
        wide = rng.uniform(1, 2, 40).astype(np.float32)
        ratio = np.float32(rng.uniform(0.1, 0.9))
        narrow = wide * ratio
        for _ in range(3):
            narrow = np.nextafter(narrow, narrow + rng.integers(-1, 2, 40).astype(np.float32))
        width = np.concatenate([wide, narrow])
        boxes = np.stack([0 * width, 0 * width, width, 0 * width + 1], axis=1)
        iou_threshold = float(np.nextafter(narrow[0] / wide[0], np.float32(0)))
        assert_same_soft_nms(boxes, rng.random(80), method="linear", iou_threshold=iou_threshold)


def test_many_linear_decays_at_once_of_scores_of_any_size_equal_the_reference():
    """A product of decays below the least float32, with float64 scores, where it is far above the least float64."""
    rng = np.random.default_rng(40)
    near = np.array([0, 0, 1000, 1000]) + rng.uniform(0, 1, (48, 4))
    far = 1e5 + lattice(48, 10, 20)
    boxes = np.concatenate([near, near + np.array([5, 0, 5, 0]), far]).astype(np.float32)
    scores = np.concatenate([1e250 * rng.uniform(0.5, 1, 48), 1e-3 * rng.random(48), 10.0 ** -rng.uniform(20, 250, 48)])
    assert_same_soft_nms(boxes, scores, method="linear", min_score=0.0)


def test_a_score_is_gone_just_below_min_score():
    boxes = np.array([[0, 0, 10, 10], [0, 0, 10, 10]], np.float32)
    scores = np.array([1.0, 0.5], np.float32)
    decayed = float(soft_nms(boxes, scores)[1][1])
    assert len(soft_nms(boxes, scores, min_score=decayed)[0]) == 2
    assert len(soft_nms(boxes, scores, min_score=np.nextafter(decayed, 1))[0]) == 1


def test_hard_is_nms():
    scene = make_scene("shelf", 5000)
    for labels in (None, scene.labels):
        keep, scores = soft_nms(scene.boxes, scene.scores, method="hard", iou_threshold=0.6, min_score=0, labels=labels)
        assert np.array_equal(keep, nms(scene.boxes, scene.scores, 0.6, labels=labels))
        assert np.array_equal(scores, scene.scores[keep])


def test_negative_scores_never_come_out():
    boxes = lattice(4, 8, 9)
    for method in METHODS:
        keep, scores = soft_nms(boxes, [-1.0, 0.5, -0.1, 0.0], method=method, min_score=0)
        assert keep.tolist() == [1, 3]
        assert scores.tolist() == [0.5, 0.0]


def test_max_output_selects_the_same_boxes_first():
    scene = make_scene("crowd", 5000)
    for labels in (None, scene.labels):
        keep, scores = soft_nms(scene.boxes, scene.scores, labels=labels)
        for most in (0, 1, 31, 500, len(keep), 10**12):
            some, some_scores = soft_nms(scene.boxes, scene.scores, labels=labels, max_output=most)
            assert np.array_equal(some, keep[:most])
            assert np.array_equal(some_scores, scores[:most])


def test_scores_fall_in_the_order_of_selection():
    scene = make_scene("aerial", 9000)
    keep, scores = soft_nms(scene.boxes, scene.scores, labels=scene.labels)
    assert (np.diff(scores) <= 0).all()
    assert (scores <= scene.scores[keep]).all()
    assert len(np.unique(keep)) == len(keep)


@pytest.mark.usefixtures("restored_threads")
@pytest.mark.parametrize("num_labels", [1, 2, 7, 1203, 20_000])
def test_threads_do_not_change_the_result(num_labels):
    scene = make_scene("parking_lot", 20_000)
    scores = scene.scores.astype(np.float64)
    labels = np.random.default_rng(36).integers(-(2**62), 2**62, num_labels)[np.arange(20_000) % num_labels]
    results = []
    for threads in (1, 2, 8):
        set_num_threads(threads)
        results.append(soft_nms(scene.boxes, scores, labels=labels))
        few = soft_nms(scene.boxes, scores, labels=labels, max_output=300)
        assert np.array_equal(few[0], results[-1][0][:300])
        assert np.array_equal(few[1], results[-1][1][:300])
    for keep, decayed in results[1:]:
        assert np.array_equal(keep, results[0][0])
        assert decayed.tobytes() == results[0][1].tobytes()


@pytest.mark.parametrize("box_format", ["xywh", "cxcywh"])
def test_box_formats_give_what_their_corners_give(box_format):
    scene = make_scene("shelf", 3000)
    x1, y1, x2, y2 = scene.boxes.T
    place = [x1, y1] if box_format == "xywh" else [x1 / 2 + x2 / 2, y1 / 2 + y2 / 2]
    boxes = np.stack([*place, x2 - x1, y2 - y1], axis=1)
    for method in METHODS:
        got = soft_nms(boxes, scene.scores, method=method, box_format=box_format)
        expected = soft_nms(to_xyxy(boxes, box_format), scene.scores, method=method)
        assert np.array_equal(got[0], expected[0])
        assert np.array_equal(got[1], expected[1])


def test_lists_integers_and_half_floats_are_computed_as_float32():
    boxes, scores = [[0, 0, 10, 10], [2, 0, 12, 10]], [3, 2]
    keep, decayed = soft_nms(boxes, scores)
    assert keep.tolist() == [0, 1]
    assert decayed.dtype == np.float32
    half = soft_nms(np.array(boxes, np.float16), np.array(scores, np.float16))
    assert half[1].tobytes() == decayed.tobytes()
    assert soft_nms(boxes, scores, method="hard")[1].dtype == np.float32


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("labels", [None, []])
def test_no_boxes_give_an_empty_result(method, labels):
    keep, scores = soft_nms(np.empty((0, 4), np.float32), np.empty(0, np.float32), method=method, labels=labels)
    assert keep.shape == scores.shape == (0,)
    assert (keep.dtype, scores.dtype) == (np.int64, np.float32)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"sigma": 0}, ValueError, "sigma must be in [1e-30, 1e30], got 0"),
        ({"sigma": float("nan")}, ValueError, "sigma must be in [1e-30, 1e30], got nan"),
        ({"sigma": "0.5"}, TypeError, "sigma must be a number, in [1e-30, 1e30], got '0.5'"),
        ({"iou_threshold": 1.5}, ValueError, "iou_threshold must be in [0, 1], got 1.5"),
        ({"min_score": -0.1}, ValueError, "min_score must be finite and at least 0, got -0.1"),
        ({"min_score": float("inf")}, ValueError, "min_score must be finite and at least 0, got inf"),
        ({"max_output": -1}, ValueError, "max_output must be at least 0, got -1"),
        ({"labels": [1]}, ValueError, "labels must have shape (2,), one for each box, got (1,)"),
        ({"box_format": "yxyx"}, ValueError, "box_format must be one of xyxy, xywh, cxcywh, got 'yxyx'"),
    ],
)
@pytest.mark.parametrize("method", METHODS)
def test_bad_options_are_refused(options, error, message, method):
    with pytest.raises(error, match=re.escape(message)):
        soft_nms(np.zeros((2, 4)), np.zeros(2), **{"method": method, **options})


@pytest.mark.parametrize("method", ["soft", None, 1, ["gaussian"]])
def test_a_bad_method_is_refused(method):
    with pytest.raises(ValueError, match=re.escape(f"method must be one of gaussian, linear, hard, got {method!r}")):
        soft_nms(np.zeros((2, 4)), np.zeros(2), method=method)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("boxes", "scores", "message"),
    [
        ([[0, 0, 1, 1], [0, 0, np.nan, 1]], [1, 1], "boxes must be finite, got [0.0, 0.0, nan, 1.0] in row 1"),
        ([[0, 0, 1, 1], [2, 0, 1, 1]], [1, 1], "boxes must have x2 >= x1 and y2 >= y1, got [2.0, 0.0, 1.0, 1.0]"),
        ([[0, 0, 1, 1], [0, 0, 1, 1]], [1, np.inf], "scores must be finite, got inf in row 1 (1 such row)"),
        ([[0, 0, 1, 1], [0, 0, 1, 1]], [1], "scores must have shape (2,), one for each box, got (1,)"),
    ],
)
def test_bad_numbers_are_refused(boxes, scores, message, method):
    with pytest.raises(ValueError, match=re.escape(message)):
        soft_nms(np.array(boxes, float), np.array(scores, float), method=method)
