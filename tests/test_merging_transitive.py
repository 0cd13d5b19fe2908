"""Non-maximum merging of transitive groups, against the reference."""

import re
import sys
from functools import partial
from itertools import cycle, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hashnms
from hashnms import Nmm, Suppression, nmm, reference
from hashnms._calls import JOIN
from hashnms.report.outcomes import outcome_of
from hashnms.synthetic import PRESETS, WORST_CASES, make_scene
from tests.support.boxes import BOX_KINDS, THRESHOLDS, boxes_and_scores
from tests.support.checks import among_many
from tests.support.cost import bytes_per_box, is_faster_than, least_seconds

pytestmark = pytest.mark.core
METRICS = ["iou", "ios", "diou"]


def join(boxes, scores, iou_threshold, *, labels=None, images=None, **settings):
    """Of each box the one that it joined, and the first of its group."""
    defaults = {"score_threshold": None, "max_output": None, "metric": "iou", "inclusive": False, "box_format": "xyxy"}
    return JOIN.answer(boxes, scores, labels, images, iou_threshold, *(defaults | settings).values())


def assert_same_groups(boxes, scores, iou_threshold, **options):
    joined, suppressor = join(boxes, scores, iou_threshold, **options)
    expected_joined, expected_suppressor = reference.join(boxes, scores, iou_threshold, **options)
    assert joined.dtype == suppressor.dtype == np.int64
    assert np.array_equal(joined, expected_joined)
    assert np.array_equal(suppressor, expected_suppressor)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kind", BOX_KINDS)
def test_groups_of_every_kind_of_boxes_equal_the_reference(kind, metric):
    """In both types: one has scores that tie and labels, by turns."""
    rng = np.random.default_rng(50)
    boxes, scores = BOX_KINDS[kind](rng, 700), rng.random(700)
    tied, labels = rng.integers(0, 8, 700) / 8, rng.integers(-1, 2, 700)
    types = cycle([(np.float32, np.float64), (np.float64, np.float32)])
    for iou_threshold, (plain, labelled) in zip(THRESHOLDS, types, strict=False):
        rule = {"metric": metric, "inclusive": 0 < iou_threshold < 0.6}
        assert_same_groups(boxes.astype(plain), scores.astype(plain), iou_threshold, **rule)
        assert_same_groups(boxes.astype(labelled), tied.astype(labelled), iou_threshold, labels=labels, **rule)


@pytest.mark.slow
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("shape", WORST_CASES)
def test_groups_of_worst_cases_equal_the_reference(shape, metric):
    boxes = WORST_CASES[shape](800)
    rule = cycle([(np.float32, False), (np.float64, True), (np.float64, False), (np.float32, True)])
    for iou_threshold, (dtype, inclusive) in zip((0.0, 0.05, 1 / 3, 0.5, 0.9), rule, strict=False):
        for scores in (np.random.default_rng(51).random(800), np.arange(800.0), -np.arange(800.0)):
            assert_same_groups(boxes.astype(dtype), scores, iou_threshold, metric=metric, inclusive=inclusive)


@given(
    boxes_and_scores(),
    st.sampled_from([*THRESHOLDS, np.nextafter(0.5, 0), np.nextafter(0.5, 1), 1 / 9, 5e-324]),
    st.sampled_from(METRICS),
    st.booleans(),
    st.booleans(),
    st.none() | st.integers(0, 12),
    st.none() | st.sampled_from([-1.0, 0.25]),
)
def test_any_groups_equal_the_reference(data, iou_threshold, metric, inclusive, labelled, max_output, score_threshold):
    for boxes, scores in (data, among_many(*data)):
        labels = np.arange(len(boxes)) % 3 if labelled else None
        options = {"labels": labels, "max_output": max_output, "score_threshold": score_threshold, "metric": metric}
        assert_same_groups(boxes, scores, iou_threshold, inclusive=inclusive and iou_threshold > 0, **options)


@given(data=boxes_and_scores(), num_images=st.integers(1, 4), max_output=st.none() | st.integers(0, 5))
def test_images_never_meet_and_are_limited_each(data, num_images, max_output):
    boxes, scores = data
    images = np.arange(len(boxes)) % num_images
    labels = np.arange(len(boxes)) // 3 % 2
    joined, suppressor = join(boxes, scores, 0.25, labels=labels, images=images, max_output=max_output, metric="ios")
    for image in range(num_images):
        rows = np.flatnonzero(images == image)
        options = {"labels": labels[rows], "max_output": max_output, "metric": "ios"}
        for result, expected in zip(
            (joined, suppressor), reference.join(boxes[rows], scores[rows], 0.25, **options), strict=True
        ):
            assert result[rows].tolist() == np.where(expected < 0, -1, rows[expected]).tolist()


@pytest.mark.parametrize(("scale", "dtype"), [(1e-22, np.float32), (1e-160, np.float64), (1e19, np.float32)])
def test_areas_that_underflow_or_overflow_equal_the_reference(scale, dtype):
    boxes = (BOX_KINDS["integers"](np.random.default_rng(52), 900) * scale).astype(dtype)
    for iou_threshold, metric in product((0.0, 0.3, 0.5, 0.9), METRICS):
        assert_same_groups(boxes, np.random.default_rng(52).random(900), iou_threshold, metric=metric)


@pytest.mark.parametrize("across", [1e-306, 1e-150, 1e154, 4e306])
def test_sizes_at_the_ends_of_float64_equal_the_reference(across):
    rng = np.random.default_rng(53)
    boxes = BOX_KINDS["random"](rng, 700) / 4 - 15
    boxes[::70] = [-40, -40, 40, 40]
    boxes *= [across, 1, across, 1]
    for iou_threshold, metric in product((0.0, 0.3, 0.5, 0.9), METRICS):
        assert_same_groups(boxes, rng.random(700), iou_threshold, metric=metric)


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
def test_scenes_of_5000_boxes_equal_the_plain_loop(preset):
    scene = make_scene(preset, 5000)
    options = cycle([{}, {"labels": scene.labels}, {"score_threshold": 0.05, "max_output": 900}])
    for metric, some in zip(METRICS, options, strict=False):
        assert_same_groups(scene.boxes, scene.scores, 0.5, metric=metric, **some)


@pytest.mark.usefixtures("restored_threads")
def test_threads_give_what_one_gives():
    scene = make_scene("crowd", 100_000)
    for labels in (None, np.arange(100_000) % 3, scene.labels):
        hashnms.set_num_threads(1)
        expected = join(scene.boxes, scene.scores, 0.5, labels=labels)
        for num_threads in (2, 5):
            hashnms.set_num_threads(num_threads)
            assert np.array_equal(join(scene.boxes, scene.scores, 0.5, labels=labels), expected)


@given(data=boxes_and_scores(), threshold=st.sampled_from([0.0, 0.25, 0.5, 1.0]), labelled=st.booleans())
def test_merged_boxes_are_around_the_groups_of_the_reference(data, threshold, labelled):
    boxes, scores = data
    labels = np.arange(len(boxes)) % 2 if labelled else None
    result = nmm(boxes, scores, threshold, labels=labels, transitive=True)
    _, suppressor = reference.join(boxes, scores, threshold, labels=labels)
    for ours, expected in zip(result, reference.merge(boxes, scores, suppressor), strict=True):
        assert ours.tolist() == expected.tolist()
    step = Suppression([Nmm(threshold, transitive=True)])(boxes, scores, labels)
    assert step.keep.tolist() == result.keep.tolist()
    assert step.boxes.tolist() == result.boxes.tolist()


def test_a_chain_is_one_object_and_its_end_need_not_touch_its_beginning():
    x = np.arange(1000.0)[:, None] * 5
    boxes = np.hstack([x, x * 0, x + 10, x * 0 + 10])  # each overlaps the next by 1/3
    result = nmm(boxes, -np.arange(1000.0), 0.3, transitive=True)
    assert (result.keep.tolist(), result.boxes.tolist(), result.scores.tolist()) == ([0], [[0, 0, 5005, 10]], [0])
    assert len(nmm(boxes, -np.arange(1000.0), 0.3).keep) == 500


def test_a_box_joins_the_first_that_overlaps_it_and_so_keeps_two_groups_apart():
    boxes = [[0, 0, 10, 10], [12, 0, 22, 10], [6, 0, 16, 10]]  # the last overlaps both
    result = nmm(boxes, [0.5, 0.75, 0.25], 0.2, transitive=True)
    assert result.keep.tolist() == [1, 0]
    assert result.boxes.tolist() == [[6, 0, 22, 10], [0, 0, 10, 10]]
    swapped = nmm(boxes, [0.75, 0.5, 0.25], 0.2, transitive=True)
    assert swapped.boxes.tolist() == [[0, 0, 16, 10], [12, 0, 22, 10]]


def test_a_page_knows_which_box_took_in_which():
    boxes = np.array([[0, 0, 10, 10], [5, 0, 15, 10], [10, 0, 20, 10], [50, 0, 60, 10]], np.float32)
    outcome = outcome_of("nmm:0.3/iou/transitive", boxes, [0.9, 0.8, 0.7, 0.6])
    assert outcome.suppressor.tolist() == [0, 0, 0, 3]
    assert outcome_of("nmm:0.3", boxes, [0.9, 0.8, 0.7, 0.6]).suppressor.tolist() == [0, 0, 2, 3]


@pytest.mark.parametrize("convert", [list, np.array])
def test_what_is_wrong_is_named(convert):
    boxes = convert([[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0]])
    for arguments, error, message in (
        ({"transitive": 1}, TypeError, "transitive must be True or False, got 1"),
        ({"transitive": True, "metric": "giou"}, ValueError, "metric must be one of iou, ios, diou, got 'giou'"),
        ({"transitive": True, "iou_threshold": 2}, ValueError, "iou_threshold must be in [0, 1], got 2"),
        (
            {"transitive": True, "iou_threshold": 0, "inclusive": True},
            ValueError,
            "iou_threshold must be above 0 if it is inclusive",
        ),
    ):
        with pytest.raises(error, match=f"^{re.escape(message)}"):
            nmm(boxes, [0.5, 0.6], **arguments)
    with pytest.raises(ValueError, match=re.escape("got [5.0, 0.0, 1.0, 1.0] in row 1")):
        nmm(convert([[0.0, 0.0, 1.0, 1.0], [5.0, 0.0, 1.0, 1.0]]), [1.0, 1.0], transitive=True)


def piled(count):
    """Boxes of one size in a row, close together, with scores that fall from left to right."""
    x = np.sort(np.random.default_rng(54).uniform(0, 10, count))[:, None]
    return np.hstack([x, x * 0, x + 1, x * 0 + 1]), -np.arange(float(count))


@pytest.mark.timing
@pytest.mark.parametrize("shape", [*WORST_CASES, "piled"])
def test_the_time_grows_with_the_boxes_not_with_their_square(shape):
    """Sixteen times the boxes: sixteen to fifty times the time, where the square would be 256 times and seconds."""
    data = []
    for count in (8_000, 128_000):
        boxes = piled(count)[0] if shape == "piled" else WORST_CASES[shape](count).astype(np.float64)
        data.append((boxes, piled(count)[1] if shape == "piled" else np.random.default_rng(55).random(count)))
    for iou_threshold, metric in product((0.05, 0.5, 0.95), ("iou", "ios")):
        few, many = (partial(join, *some, iou_threshold, metric=metric) for some in data)
        assert is_faster_than(80 * least_seconds(few) + 0.2, many), (iou_threshold, metric)


@pytest.mark.memory
@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured through /proc")
def test_memory_is_a_few_times_the_input():
    call = "nmm.__globals__['suppressor_of'](boxes, scores, 0.5, transitive=True)"
    assert 20 < bytes_per_box(call, "float32", num_threads=1) - 16 <= 120
