"""supervision's NMS and merging by hashnms, compared with its own."""

from unittest.mock import Mock

import numpy as np
import pytest

sv = pytest.importorskip("supervision")

from hashnms import nms, reference  # noqa: E402
from hashnms.detectors import supervision as adapter  # noqa: E402
from hashnms.detectors.supervision import accelerated, with_nmm, with_nms, with_soft_nms  # noqa: E402
from hashnms.synthetic import make_scene  # noqa: E402

THRESHOLDS = [0.0, 1e-9, 0.1, 1 / 3, 0.5, np.float32(0.7), np.float64(0.7), 0.9, 1.0]
METRICS = [sv.OverlapMetric.IOU, sv.OverlapMetric.IOS]


def detections(kind, count, dtype=np.float32, *, seed=0, **fields):
    """With ties in scores and overlaps on the thresholds, twins, boxes without area, and every field."""
    rng = np.random.default_rng(seed)
    if kind == "whole":
        corners = rng.integers(0, 40, (count, 2))
        boxes = np.concatenate([corners, corners + rng.integers(0, 12, (count, 2))], 1)
        scores = rng.integers(1, 9, count) / 8
    else:
        scene = make_scene("crowd", max(count, 1), seed=seed)
        boxes, scores = scene.boxes[:count], scene.scores[:count]
    return sv.Detections(
        boxes.astype(dtype),
        confidence=scores.astype(dtype if np.dtype(dtype).kind == "f" else np.float32),
        class_id=rng.integers(0, 4, count),
        tracker_id=np.arange(count),
        data={"name": np.array([f"row {row}" for row in range(count)]), "more": rng.random((count, 3))},
        metadata={"image": "one"},
        **fields,
    )


def same(ours, expected):
    assert ours == expected
    assert ours.metadata == expected.metadata
    for field in ("xyxy", "confidence", "class_id", "tracker_id"):
        assert getattr(ours, field).dtype == getattr(expected, field).dtype, field


@pytest.mark.parametrize("method", ["with_nms", "with_nmm"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("kind", ["whole", "scene"])
@pytest.mark.parametrize("count", [0, 1, 2, 17, 400])
def test_rows_and_all_their_fields_are_those_of_supervision(method, kind, count, dtype):
    rows = detections(kind, count, dtype, seed=count)
    for metric in METRICS:
        for threshold in THRESHOLDS:
            for agnostic in (False, True):
                settings = {"threshold": threshold, "class_agnostic": agnostic, "overlap_metric": metric}
                expected = getattr(rows, method)(**settings)
                same(getattr(adapter, method)(rows, **settings), expected)


def test_every_fraction_as_a_threshold_has_the_verdict_of_supervision():
    rows = detections("whole", 250, np.float64, seed=5)
    for threshold in sorted({a / b for b in range(1, 40) for a in range(1, b + 1)})[::5]:
        for metric in METRICS:
            expected = rows.with_nms(threshold, overlap_metric=metric)
            assert with_nms(rows, threshold, overlap_metric=metric) == expected
        assert len(with_nmm(rows, threshold, True)) == len(rows.with_nmm(threshold, True))


def test_metrics_are_given_as_text_too():
    rows = detections("whole", 100)
    assert with_nms(rows, overlap_metric="ios") == rows.with_nms(overlap_metric=sv.OverlapMetric.IOS)


@pytest.mark.slow
def test_thousands_of_rows_with_ties_in_the_order_of_an_unstable_sort():
    rows = detections("whole", 3000, np.float32, seed=1)
    rows.xyxy *= 3
    same(with_nms(rows, 0.5), rows.with_nms(0.5))
    same(with_nmm(rows, 0.5), rows.with_nmm(0.5))


def test_with_masks_their_overlap_counts_unless_boxes_only():
    masks = np.zeros((2, 20, 20), bool)
    masks[0, :10, :5] = masks[1, :10, 5:] = True
    rows = sv.Detections(
        np.array([[0.0, 0, 10, 10], [1, 0, 11, 10]]),
        confidence=np.array([0.5, 0.75]),
        class_id=np.zeros(2, int),
        mask=masks,
    )
    assert len(with_nms(rows)) == len(rows.with_nms()) == 2
    assert len(with_nmm(rows)) == len(rows.with_nmm()) == 2
    alone = with_nms(rows, boxes_only=True)
    assert np.array_equal(alone.mask, masks[1:])


def test_oriented_boxes_are_left_to_supervision():
    rows = detections("whole", 30)
    x1, y1, x2, y2 = rows.xyxy.T
    rows.data[sv.config.ORIENTED_BOX_COORDINATES] = np.stack([x1, y1, x2, y1, x2, y2, x1, y2], 1).reshape(-1, 4, 2)
    assert with_nms(rows, 0.3) == rows.with_nms(0.3)
    assert with_nmm(rows, 0.3) == rows.with_nmm(0.3)


@pytest.mark.parametrize("threshold", [None, 0.0, 0.2])
@pytest.mark.parametrize("agnostic", [False, True])
def test_soft_nms_is_that_of_the_plain_loop(agnostic, threshold):
    rows = detections("scene", 200, np.float64)
    labels = None if agnostic else rows.class_id
    keep, decayed = reference.soft_nms(rows.xyxy, rows.confidence, sigma=0.4, min_score=0.0, labels=labels)
    soft = with_soft_nms(rows, 0.4, agnostic, threshold)
    expected = rows.confidence.copy()
    expected[keep] = decayed
    chosen = np.full(200, True) if threshold is None else expected > threshold
    assert np.array_equal(soft.confidence, expected[chosen])
    assert np.array_equal(soft.tracker_id, rows.tracker_id[chosen])
    assert np.array_equal(soft.data["name"], rows.data["name"][chosen])
    assert not np.array_equal(rows.confidence, expected)


def test_what_is_missing_or_out_of_range_is_named():
    rows = detections("whole", 5)
    with pytest.raises(ValueError, match=r"threshold must be in \[0, 1\], got 2"):
        with_nms(rows, 2)
    rows.class_id = None
    with pytest.raises(ValueError, match="detections must have class_id for NMM unless class_agnostic=True, got None"):
        with_nmm(rows)
    rows.confidence = None
    with pytest.raises(ValueError, match="detections must have confidence for Soft-NMS, got None"):
        with_soft_nms(rows)


@pytest.mark.parametrize("overlap_filter", ["non_max_suppression", "non_max_merge", "none"])
def test_an_inference_slicer_uses_it(overlap_filter, monkeypatch):
    rows = detections("whole", 60)

    def callback(_tile):
        return rows.select(np.arange(len(rows)))

    slicer = sv.InferenceSlicer(
        callback, slice_wh=(64, 64), overlap_wh=(32, 32), overlap_filter=overlap_filter, iou_threshold=0.4
    )
    image = np.zeros((128, 128, 3), np.uint8)
    expected = slicer(image)
    calls = Mock(wraps=nms)
    monkeypatch.setattr(adapter, "nms", calls)
    with accelerated():
        assert slicer(image) == expected
    assert calls.call_count == (overlap_filter != "none")
    assert slicer(image) == expected
    assert calls.call_count == (overlap_filter != "none")
    if overlap_filter == "none":
        assert with_nms(expected, 0.4) == expected.with_nms(0.4)


def test_methods_come_back():
    before = sv.Detections.with_nms, sv.Detections.with_nmm
    adapter.accelerate()
    with accelerated():
        pass
    assert sv.Detections.with_nms is with_nms
    adapter.restore()
    assert (sv.Detections.with_nms, sv.Detections.with_nmm) == before
