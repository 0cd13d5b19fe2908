"""Exact NMS by IoS and DIoU, and thresholds that suppress what equals them, against the reference."""

import re
from itertools import cycle, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hashnms
from hashnms import Suppression, nms, reference
from hashnms.synthetic import PRESETS, WORST_CASES, make_scene
from tests.support.boxes import BOX_KINDS, THRESHOLDS, boxes_and_scores
from tests.support.checks import among_many, assert_same_nms

pytestmark = pytest.mark.core
METRICS = ["iou", "ios", "diou"]
#: Metric and inclusive: all combinations except the defaults of nms.
RULES = [(metric, inclusive) for metric, inclusive in product(METRICS, [False, True]) if inclusive or metric != "iou"]
UP, DOWN = np.inf, -np.inf


@pytest.mark.parametrize(("metric", "inclusive"), RULES)
@pytest.mark.parametrize("kind", BOX_KINDS)
def test_every_kind_of_boxes_equals_the_reference(kind, metric, inclusive):
    """In both types: one has scores that tie and labels, by turns."""
    rng = np.random.default_rng(40)
    boxes, scores = BOX_KINDS[kind](rng, 700), rng.random(700)
    tied, labels = rng.integers(0, 8, 700) / 8, rng.integers(-1, 2, 700)
    types = cycle([(np.float32, np.float64), (np.float64, np.float32)])
    rule = {"metric": metric, "inclusive": inclusive}
    for iou_threshold, (plain, labelled) in zip(THRESHOLDS[inclusive::2], types, strict=False):
        assert_same_nms(boxes.astype(plain), scores.astype(plain), iou_threshold, **rule)
        assert_same_nms(boxes.astype(labelled), tied.astype(labelled), iou_threshold, labels=labels, **rule)


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["ios", "diou"])
@pytest.mark.parametrize("shape", WORST_CASES)
def test_worst_cases_equal_the_reference(shape, metric):
    """Those that sit exactly at a threshold among them; the scores go from small boxes to large ones and back, too."""
    boxes = WORST_CASES[shape](1000)
    rule = cycle([(np.float32, False), (np.float64, True), (np.float64, False), (np.float32, True)])
    for iou_threshold, (dtype, inclusive) in zip((0.0, 0.05, 1 / 3, 0.5, 0.9), rule, strict=False):
        for scores in (np.random.default_rng(41).random(1000), np.arange(1000), -np.arange(1000)):
            assert_same_nms(boxes.astype(dtype), scores, iou_threshold, metric=metric, inclusive=inclusive)


@given(
    boxes_and_scores(),
    st.sampled_from([*THRESHOLDS, np.nextafter(0.5, 0), np.nextafter(0.5, 1), 1 / 9, 5e-324]),
    st.sampled_from(RULES),
    st.booleans(),
    st.none() | st.integers(0, 12),
)
def test_any_boxes_equal_the_reference(data, iou_threshold, rule, labelled, max_output):
    boxes, scores = data
    metric, inclusive = rule[0], rule[1] and iou_threshold > 0
    for some_boxes, some_scores in (data, among_many(boxes, scores)):
        labels = np.arange(len(some_boxes)) % 3 if labelled else None
        options = {"labels": labels, "max_output": max_output, "metric": metric, "inclusive": inclusive}
        assert_same_nms(some_boxes, some_scores, iou_threshold, **options)


@given(data=boxes_and_scores(), rule=st.sampled_from(RULES), num_images=st.integers(1, 4))
def test_images_never_meet(data, rule, num_images):
    boxes, scores = data
    images = np.arange(len(boxes)) % num_images
    options = {"iou_threshold": 0.25, "metric": rule[0], "inclusive": rule[1]}
    expected, _ = reference.of_images(reference.nms, boxes, scores, images, **options)
    assert nms(boxes, scores, images=images, **options).tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("metric", "boxes", "overlap"),
    [
        ("iou", [[0, 0, 2, 2], [1, 0, 3, 2]], 1 / 3),
        ("iou", [[0, 0, 4, 4], [0, 0, 4, 2]], 0.5),
        ("ios", [[0, 0, 2, 2], [1, 0, 3, 2]], 0.5),
        ("ios", [[0, 0, 30, 30], [29, 0, 32, 1]], 1 / 3),
        ("ios", [[0, 0, 30, 30], [7, 7, 7.5, 7.25]], 1.0),
        ("diou", [[0, 0, 4, 4], [0, 0, 4, 2]], 0.5 - 1 / 32),
        ("diou", [[0, 0, 4, 4], [1, 1, 3, 3]], 0.25),
    ],
)
def test_a_pair_at_the_threshold_is_suppressed_only_if_it_is_inclusive(metric, boxes, overlap, dtype):
    boxes = np.array(boxes, dtype)
    exactly = float(dtype(1) / dtype(3)) if overlap == 1 / 3 else overlap
    for some in (boxes, boxes[::-1].copy(), among_many(boxes, np.arange(2))[0]):
        scores = np.arange(len(some), 0, -1)
        both = len(some)
        assert len(nms(some, scores, exactly, metric=metric)) == both
        assert len(nms(some, scores, exactly, metric=metric, inclusive=True)) == both - 1
        assert len(nms(some, scores, np.nextafter(exactly, DOWN), metric=metric)) == both - 1
        if exactly < 1:
            assert len(nms(some, scores, np.nextafter(exactly, UP), metric=metric, inclusive=True)) == both


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("count", [2, 600])
def test_an_overlap_is_rounded_to_the_type_of_the_boxes_and_no_further(count, dtype, metric):
    """Thresholds are that very number and its neighbours as doubles, between which no float32 lies."""
    rng = np.random.default_rng(47)
    boxes = np.zeros((count, 4), dtype)
    scores = np.arange(count, 0, -1)
    for _ in range(150):
        boxes[:2, :2] = rng.random((2, 2))
        boxes[:2, 2:] = boxes[:2, :2] + 1 + rng.random((2, 2))
        overlap = reference._METRICS[metric](boxes[0], boxes[1:2])[0]
        if not 0 < overlap < 1:
            continue
        assert overlap == dtype(overlap)
        assert len(nms(boxes, scores, overlap, metric=metric)) == count
        assert len(nms(boxes, scores, np.nextafter(overlap, UP), metric=metric)) == count
        assert len(nms(boxes, scores, np.nextafter(overlap, DOWN), metric=metric)) == count - 1
        assert len(nms(boxes, scores, overlap, metric=metric, inclusive=True)) == count - 1


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("count", [1, 200])
def test_boxes_without_area_suppress_nothing_and_are_kept(metric, count):
    flat = np.array([[2, 2, 2, 8], [2, 2, 8, 2], [5, 5, 5, 5], [0, 0, 10, 0]] * count, np.float32)
    boxes = np.concatenate([flat, np.tile(np.float32([0, 0, 10, 10]), (3, 1))])
    for scores in (np.arange(len(boxes)), -np.arange(len(boxes))):
        for inclusive in (False, True):
            keep = nms(boxes, scores, 5e-324 if inclusive else 0.0, metric=metric, inclusive=inclusive)
            assert len(keep) == len(flat) + 1


def test_nested_boxes_are_one_by_ios():
    rng = np.random.default_rng(42)
    half = rng.permutation(np.geomspace(1e-3, 1e3, 3000))[:, None]
    boxes = np.concatenate([-half, -half, half, half], axis=1)
    assert nms(boxes, np.arange(3000), 0.999, metric="ios").tolist() == [2999]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tiny_boxes_in_huge_ones_equal_the_reference(dtype):
    """Sides of 1e-3 in sides of 1e6, in any order of scores; some cross the borders of the huge ones."""
    rng = np.random.default_rng(43)
    corner = np.concatenate([rng.uniform(-2e6, 2e6, (40, 2)), rng.uniform(-2.2e6, 3.2e6, (2000, 2))])
    size = np.concatenate([rng.uniform(0.9e6, 1.1e6, (40, 2)), 10 ** rng.uniform(-3, 4, (2000, 2))])
    corner[40:1000, 0] = rng.choice(corner[:40, 0], 960) - size[40:1000, 0] * rng.choice([0.25, 0.5, 0.75], 960)
    boxes, random = np.concatenate([corner, corner + size], axis=1).astype(dtype), rng.random(2040)
    huge_first, huge_last = (random + sign * (np.arange(2040) < 40) for sign in (1, -1))
    thresholds = cycle((0.25, 0.5, 0.75))  # each rule meets all three
    for (scores, (metric, inclusive)), iou_threshold in zip(
        product((random, huge_first, huge_last), RULES), thresholds, strict=False
    ):
        assert_same_nms(boxes, scores, iou_threshold, metric=metric, inclusive=inclusive)


@pytest.mark.parametrize("metric", ["ios", "diou"])
@pytest.mark.parametrize(("scale", "dtype"), [(1e-22, np.float32), (1e-160, np.float64), (1e19, np.float32)])
def test_areas_that_underflow_or_overflow_equal_the_reference(metric, scale, dtype):
    boxes = (BOX_KINDS["integers"](np.random.default_rng(22), 900) * scale).astype(dtype)
    for iou_threshold in (0.0, 0.3, 0.5, 0.9):
        assert_same_nms(boxes, np.random.default_rng(22).random(900), iou_threshold, metric=metric)


@pytest.mark.parametrize("metric", ["ios", "diou"])
@pytest.mark.parametrize("across", [1e-306, 1e-150, 1e154, 4e306])
def test_sizes_at_the_ends_of_float64_equal_the_reference(metric, across):
    """Some boxes are wider than the largest float64: each overlaps by IoS what lies in it."""
    rng = np.random.default_rng(44)
    boxes = BOX_KINDS["random"](rng, 700) / 4 - 15
    boxes[::70] = [-40, -40, 40, 40]
    boxes *= [across, 1, across, 1]
    for iou_threshold in (0.0, 0.3, 0.5, 0.9):
        assert_same_nms(boxes, rng.random(700), iou_threshold, metric=metric)


@pytest.mark.parametrize("count", [200, 900])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("exponent", [-480, 400, 506])
def test_a_power_of_two_changes_nothing(exponent, metric, count):
    """At 2**506 sums of two areas are still numbers, but the squares of DIoU's distances are not."""
    rng = np.random.default_rng(46)
    corner = rng.integers(0, 12 * count**0.5, (count, 2))
    boxes = np.concatenate([corner, corner + rng.integers(1, [64, 32], (count, 2))], axis=1).astype(float)
    scores, scaled = np.arange(count), boxes * 2.0**exponent
    for iou_threshold in (0.0, 0.3, 0.6):
        assert_same_nms(scaled, scores, iou_threshold, metric=metric)
        keep = nms(boxes, scores, iou_threshold, metric=metric)
        assert np.array_equal(nms(scaled, scores, iou_threshold, metric=metric), keep)


@pytest.mark.parametrize("count", [0, 600])
def test_diou_of_boxes_that_only_together_are_too_wide_for_float64(count):
    """Their centres are a third of what is around both apart: IoU 1/3, less 1/9."""
    width = 1.5 * 2.0**1023
    boxes = np.array([[-width, 0, 0, 2.0**-9], [-width / 2, 0, width / 2, 2.0**-9], *np.zeros((count, 4))])
    for iou_threshold, kept in ((2 / 9 - 1e-9, 1), (2 / 9 + 1e-9, 2)):
        assert len(nms(boxes, np.arange(len(boxes))[::-1], iou_threshold, metric="diou")) == kept + count
        assert_same_nms(boxes, np.arange(len(boxes)), iou_threshold, metric="diou")


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
def test_scenes_of_20_000_boxes_equal_the_plain_loop(preset):
    scene = make_scene(preset, 20_000)
    options = cycle([{}, {"labels": scene.labels}, {"score_threshold": 0.05, "max_output": 900}])
    for (metric, inclusive), some in zip(RULES, options, strict=False):
        assert_same_nms(scene.boxes, scene.scores, 0.5, metric=metric, inclusive=inclusive, **some)


@pytest.mark.slow
@pytest.mark.usefixtures("restored_threads")
@pytest.mark.parametrize(("metric", "inclusive"), RULES)
def test_tiles_and_threads_give_what_all_boxes_at_once_give(metric, inclusive):
    """With a limit one thread does it all at once. Some boxes cross many borders; coordinates are whole, with ties."""
    rng = np.random.default_rng(45)
    count = 2**18
    corner = rng.integers(0, 12_000, (count, 2))
    size = rng.integers(1, 12, (count, 2)) * 4
    size[: count // 400] *= [100, 1]
    size[count // 400 : count // 200] *= [1, 100]
    boxes = np.concatenate([corner, corner + size], axis=1).astype(np.float32)
    scores = rng.integers(0, 10**5, count).astype(np.float32)
    rule = {"iou_threshold": 0.5, "metric": metric, "inclusive": inclusive}
    hashnms.set_num_threads(1)
    keep, suppressor = nms(boxes, scores, max_output=count - 1, return_suppressor=True, **rule)
    assert len(keep) < count - 1
    for num_threads in (1, 2, 4):
        hashnms.set_num_threads(num_threads)
        in_tiles = nms(boxes, scores, return_suppressor=True, **rule)
        assert np.array_equal(in_tiles[0], keep)
        assert np.array_equal(in_tiles[1], suppressor)
        assert np.array_equal(nms(boxes, scores, **rule), keep)


@pytest.mark.slow
@pytest.mark.usefixtures("restored_threads")
def test_many_labels_are_those_of_each_label():
    scene = make_scene("aerial", 9000)
    labels = np.random.default_rng(46).integers(0, 20, 9000)
    for num_threads, (metric, inclusive) in zip(cycle([1, 2]), RULES, strict=False):
        hashnms.set_num_threads(num_threads)
        assert_same_nms(scene.boxes, scene.scores, 0.5, labels=labels, metric=metric, inclusive=inclusive)


def test_diou_suppresses_no_more_than_iou_and_ios_no_less():
    scene = make_scene("crowd", 3000)
    first, *others = scene.boxes[np.argsort(-scene.scores)]
    pair = np.stack([first, first])
    for other in others:
        pair[1] = other
        kept = {metric: len(nms(pair, [1, 0], 0.3, metric=metric)) for metric in METRICS}
        assert kept["ios"] <= kept["iou"] <= kept["diou"]


def test_a_step_is_the_function():
    scene = make_scene("aerial", 2000)
    for metric, inclusive in RULES:
        text = f"nms:0.4/{metric}{'/inclusive' * inclusive}"
        keep = nms(scene.boxes, scene.scores, 0.4, labels=scene.labels, metric=metric, inclusive=inclusive)
        assert np.array_equal(Suppression.parse(text)(scene.boxes, scene.scores, scene.labels).keep, keep)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"metric": "giou"}, ValueError, "metric must be one of iou, ios, diou, got 'giou'"),
        ({"metric": None}, ValueError, "metric must be one of iou, ios, diou, got None"),
        ({"inclusive": 1}, TypeError, "inclusive must be True or False, got 1"),
        ({"inclusive": "yes"}, TypeError, "inclusive must be True or False, got 'yes'"),
        (
            {"iou_threshold": 0.0, "inclusive": True},
            ValueError,
            "iou_threshold must be above 0 if it is inclusive, got 0.0: every box would suppress all others",
        ),
        ({"iou_threshold": 1.5, "metric": "ios"}, ValueError, "iou_threshold must be in [0, 1], got 1.5"),
    ],
)
@pytest.mark.parametrize("convert", [list, np.array])
def test_bad_settings_are_refused(arguments, error, message, convert):
    boxes = convert([[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0]])
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        nms(boxes, [0.5, 0.6], **arguments)
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        nms(boxes, [0.5, 0.6], return_suppressor=True, **arguments)


def test_scalars_of_numpy_are_taken():
    boxes = np.array([[0, 0, 2, 2], [1, 0, 3, 2]], np.float64)
    for inclusive in (np.True_, np.array(True)):
        assert len(nms(boxes, [1, 0], np.float32(0.5), metric=np.str_("ios"), inclusive=inclusive)) == 1
