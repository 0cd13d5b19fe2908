"""Boxes of every exponent that the float types have: the answers are the plain loop's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hashnms
from hashnms import reference
from hashnms._calls import JOIN
from tests.support.checks import assert_same_nms, assert_same_soft_nms

pytestmark = pytest.mark.core

METRICS = ["iou", "ios", "diou"]
OCTAVES = {np.float32: 125, np.float64: 1000}


def sized(rng: Any, count: int, dtype: Any, octaves: float, scatter: float, kind: str) -> Any:
    """Boxes with sizes of 2^-octaves to 2^octaves and centres of up to 2^scatter from the origin."""
    size = np.exp2(rng.uniform(-octaves, octaves, (count, 2)))
    if kind == "squares":
        size[:, 1] = size[:, 0]
    if kind == "needles":
        size[:, 1] = 1 / size[:, 0]
    center = rng.uniform(-1, 1, (count, 2)) * np.exp2(scatter)
    if kind == "self-similar":
        center = np.exp2(rng.uniform(-octaves, octaves, (count, 2)))
        size = center * rng.uniform(0.01, 0.3, (count, 2))
    largest = float(np.finfo(dtype).max)
    corners = np.concatenate([center - size / 2, center + size / 2], axis=1)
    return np.clip(corners, -largest, largest).astype(dtype)


def drawn_scene(
    count: int, dtype: Any, share: float, scatter: float, kind: str, unlike: Any, seed: int
) -> tuple[Any, Any]:
    """Boxes and scores; `share` and `scatter` are shares of the octaves that the type has."""
    rng, most = np.random.default_rng(seed), OCTAVES[dtype]
    boxes = sized(rng, count, dtype, share * most, scatter * most, kind)
    for size, place in unlike:  # boxes unlike the others
        boxes[rng.integers(count)] = sized(rng, 1, dtype, size * most, place * most, "boxes")
    return boxes, rng.integers(0, 50, count).astype(dtype)


scenes = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from([np.float32, np.float64]),
        "share": st.floats(0, 1),
        "scatter": st.floats(-1, 1),
        "kind": st.sampled_from(["boxes", "squares", "needles", "self-similar"]),
        "unlike": st.lists(st.tuples(st.floats(0, 1), st.floats(-1, 1)), max_size=3),
        "seed": st.integers(0, 2**32),
    }
)
thresholds = st.sampled_from([0.0, 1e-7, 0.002, 0.05, 0.3, 0.5, 0.9, 0.9999])


@settings(max_examples=30)
@given(scenes, thresholds, st.sampled_from(METRICS))
def test_nms_is_the_references(drawn, iou_threshold, metric):
    scene = drawn_scene(700, **drawn)
    assert_same_nms(*scene, iou_threshold, metric=metric)


@pytest.mark.slow
@settings(max_examples=8)
@given(scenes, thresholds, st.sampled_from(METRICS), st.booleans())
def test_nms_of_many_boxes_is_the_references(drawn, iou_threshold, metric, with_labels):
    scene = drawn_scene(4000, **drawn)
    labels = np.arange(4000) % 3 if with_labels else None
    assert_same_nms(*scene, iou_threshold, metric=metric, labels=labels)


@settings(max_examples=20)
@given(scenes, st.sampled_from([0.0, 0.3]))
def test_soft_nms_is_the_references(drawn, iou_threshold):
    scene = drawn_scene(300, **drawn)
    boxes, scores = scene
    assert_same_soft_nms(boxes, scores / 50, method="linear", iou_threshold=iou_threshold)
    assert_same_soft_nms(boxes, scores / 50, method="gaussian")


@settings(max_examples=30)
@given(scenes, thresholds, st.sampled_from(METRICS))
def test_transitive_groups_are_the_references(drawn, iou_threshold, metric):
    scene = drawn_scene(700, **drawn)
    joined, suppressor = JOIN.answer(*scene, None, None, iou_threshold, None, None, metric, False, "xyxy")
    expected_joined, expected_suppressor = reference.join(*scene, iou_threshold, metric=metric)
    assert np.array_equal(joined, expected_joined)
    assert np.array_equal(suppressor, expected_suppressor)


@settings(max_examples=30)
@given(scenes, thresholds, st.sampled_from(METRICS), st.floats(0, 1))
def test_what_partial_nms_decides_is_decided(drawn, iou_threshold, metric, share_open):
    scene = drawn_scene(1500, **drawn)
    boxes, scores = scene
    is_open = np.random.default_rng(0).random(len(boxes)) < share_open
    status = hashnms.partial_nms(boxes, scores, iou_threshold, metric=metric, open=is_open)
    keep = reference.nms(boxes, scores, iou_threshold, metric=metric)[0]
    is_kept = np.isin(np.arange(len(boxes)), keep)
    # Nothing lies outside this part, so what is certain of it is true of the whole.
    assert is_kept[status == hashnms.Status.KEPT].all()
    assert not is_kept[status == hashnms.Status.SUPPRESSED].any()
    if not is_open.any():
        assert (status != hashnms.Status.UNDECIDED).all()


@settings(max_examples=30)
@given(scenes, st.sampled_from([0.3, 0.55, 0.9, 0.999]))
def test_weighted_boxes_fusion_is_the_references(drawn, iou_threshold):
    scene = drawn_scene(300, **drawn)
    boxes, scores = scene
    boxes = np.clip(boxes, -1e30, 1e30)  # sums of more overflow, which is an error
    scores = 0.5 + scores / 100  # products of smaller ones may underflow in the reference
    clusters = hashnms.weighted_boxes_fusion(boxes, scores, iou_threshold=iou_threshold).clusters
    members, _ = reference.weighted_boxes_fusion(
        boxes, scores, np.ones(300), labels=np.zeros(300), iou_threshold=iou_threshold
    )
    groups = {frozenset(np.flatnonzero(clusters == cluster).tolist()) for cluster in np.unique(clusters)}
    assert groups == {frozenset(rows) for rows in members}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    "giant",
    [
        [-1e30, 0, 1e30, 9],
        [-1e21, -1e21, 1e21, 1e21],
        [0, 0, 3e38, 3e38],
        [-3e38, -3e38, 3e38, 3e38],
        [0, 0, 1e-30, 1e-30],
    ],
)
def test_one_box_unlike_the_others(giant, metric, dtype):
    """Some of these never ended in 0.2.0, and took all memory."""
    rng = np.random.default_rng(0)
    corner = rng.random((3000, 2)) * 1e4
    boxes = np.concatenate([corner, corner + 30], axis=1).astype(dtype)
    boxes[5] = giant
    scores = rng.random(3000).astype(dtype)
    assert_same_nms(boxes, scores, 0.5, metric=metric)
    hashnms.nmm(boxes, scores, 0.5, metric=metric)
    hashnms.partial_nms(boxes, scores, 0.5, metric=metric)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("scale", [1e25, 1e18, 1e19, 1e-25, 1e-38])
def test_float32_boxes_whose_areas_leave_the_range(scale, metric):
    """At 1e25 all areas are infinite; 513 such boxes never ended in 0.2.0."""
    rng = np.random.default_rng(1)
    center = rng.uniform(-1, 1, (600, 2)) * scale
    boxes = np.concatenate([center - 0.3 * scale, center + 0.3 * scale], axis=1).astype(np.float32)
    assert_same_nms(boxes, rng.random(600).astype(np.float32), 0.5, metric=metric)


def test_weighted_boxes_fusion_of_tiny_numbers():
    """Sums of score * coordinate underflowed in float32, which gave [0, 0, 0, 0] and other clusters."""
    boxes = np.array([[0, 0, 10, 10], [1, 0, 11, 10], [20, 0, 30, 10], [21, 0, 31, 10]])
    scores = np.array([0.75, 0.25, 0.5, 0.5])
    usual = hashnms.weighted_boxes_fusion(boxes / 64, scores)
    tiny = hashnms.weighted_boxes_fusion(np.ldexp(boxes / 64, -60), np.ldexp(scores, -100))
    assert np.array_equal(tiny.clusters, usual.clusters)
    assert np.array_equal(tiny.boxes, np.ldexp(usual.boxes, -60))
    assert np.array_equal(tiny.scores, np.ldexp(usual.scores, -100))
    for exponent in (-1000, -1060):  # below 2**-1022, numbers are subnormal
        tiniest = hashnms.weighted_boxes_fusion(boxes, np.ldexp(scores, exponent))
        assert np.array_equal(tiniest.boxes, hashnms.weighted_boxes_fusion(boxes, scores).boxes)
