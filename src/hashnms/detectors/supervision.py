"""hashnms in supervision: `Detections` in, `Detections` out.

`with_nms`, `with_nmm` and `with_soft_nms` correspond to the methods of `Detections`. `accelerate()` replaces the first
two methods, for `InferenceSlicer` and all other code. `restore()` undoes that, and `accelerated()` does both around a
block. Needs supervision: the extra `supervision`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashnms import nms, soft_nms
from hashnms._extras import missing
from hashnms._settings import MetricName
from hashnms.detectors._rounding import least_float32, least_rounding_to

try:
    from supervision import Detections
    from supervision.config import ORIENTED_BOX_COORDINATES
    from supervision.detection.utils.iou_and_nms import OverlapMetric
except ImportError as error:
    raise missing("hashnms.detectors.supervision", "supervision", "supervision") from error

_METRICS: dict[Any, MetricName] = {OverlapMetric.IOU: "iou", OverlapMetric.IOS: "ios"}
_METHODS = ("with_nms", "with_nmm")
_stock = {name: getattr(Detections, name) for name in _METHODS}


def with_nms(
    detections: Detections,
    threshold: float = 0.5,
    class_agnostic: bool = False,
    overlap_metric: OverlapMetric | str = OverlapMetric.IOU,
    *,
    boxes_only: bool = False,
) -> Detections:
    """Return what `detections.with_nms` returns, row by row, without a matrix of all pairs.

    With masks or oriented boxes, supervision's own method is called, because their overlap is not that of boxes.

    Args:
        detections: with `confidence`, and with `class_id` unless `class_agnostic`.
        threshold: in [0, 1]. A row is suppressed if its overlap with a kept row is above it.
        class_agnostic: rows of different classes suppress each other.
        overlap_metric: IOU or IOS, intersection over the smaller area.
        boxes_only: use the boxes even if there are masks or oriented boxes, which are kept with their rows.

    Returns:
        A copy of the kept rows, with all their fields, in the order of the input.

    >>> rows = Detections(np.array([[0.0, 0, 10, 10], [1, 0, 11, 10]]), confidence=np.array([0.5, 0.75]))
    >>> with_nms(rows, class_agnostic=True).xyxy
    array([[ 1.,  0., 11., 10.]])
    """
    if len(detections) == 0:
        return detections
    scores, labels = _scores_and_labels(detections, threshold, class_agnostic, "NMS")
    if not boxes_only and not _has_boxes_alone(detections):
        return _stock["with_nms"](detections, threshold, class_agnostic, overlap_metric)
    order = np.flip(scores.argsort())
    least = least_rounding_to(least_float32(threshold, np.greater, np.float64))
    keep = order[_suppressor(detections, order, labels, least, overlap_metric)[0]]
    return detections.select(np.sort(keep))


def with_nmm(
    detections: Detections,
    threshold: float = 0.5,
    class_agnostic: bool = False,
    overlap_metric: OverlapMetric | str = OverlapMetric.IOU,
) -> Detections:
    """Return what `detections.with_nmm` returns, bit for bit: overlapping rows merged into one, class by class.

    A row is merged into a kept row if their overlap is at least `threshold`. The new box is the smallest around all,
    and the confidence is their mean weighted by area. Everything else is from the row with the highest confidence. With
    masks or oriented boxes, supervision's own method is called. Arguments as in `with_nms`.

    >>> rows = Detections(np.array([[0.0, 0, 10, 10], [1, 0, 11, 10]]), confidence=np.array([0.5, 0.75]))
    >>> merged = with_nmm(rows, class_agnostic=True)
    >>> merged.xyxy.tolist(), merged.confidence.tolist()
    ([[0.0, 0.0, 11.0, 10.0]], [0.625])
    """
    if len(detections) == 0:
        return detections
    scores, labels = _scores_and_labels(detections, threshold, class_agnostic, "NMM")
    if not _has_boxes_alone(detections):
        return _stock["with_nmm"](detections, threshold, class_agnostic, overlap_metric)
    if labels is None:
        order = np.flip(scores.argsort())
        same_label = np.zeros(len(order), np.int64)
    else:
        by_label = np.argsort(labels, kind="stable")
        ends = np.flatnonzero(np.diff(labels[by_label])) + 1
        order = np.concatenate([rows[np.flip(scores[rows].argsort())] for rows in np.split(by_label, ends)])
        same_label = labels
    least_rounded = least_float32(threshold, np.greater_equal)
    if least_rounded > 0:
        keep, suppressor = _suppressor(detections, order, labels, least_rounding_to(least_rounded), overlap_metric)
    else:  # at 0, even boxes that do not touch are merged: the first of a class takes all
        suppressor = np.searchsorted(same_label[order], same_label[order]) if labels is not None else same_label
        keep = np.unique(suppressor)
    keep = np.sort(keep)
    members = order[np.argsort(suppressor, kind="stable")]
    return _merged(detections, members, np.bincount(suppressor)[keep])


def with_soft_nms(
    detections: Detections,
    sigma: float = 0.5,
    class_agnostic: bool = False,
    score_threshold: float | None = None,
) -> Detections:
    """Exact Soft-NMS of Bodla et al.: each selected box lowers the confidence of the others by exp(-IoU**2 / sigma).

    This is not what `detections.with_soft_nms` returns. That lowers each row once by all rows with a higher initial
    confidence; here the next row is always the one with the highest current confidence. Boxes are used even if there
    are masks.

    Args:
        detections: with `confidence`, and with `class_id` unless `class_agnostic`.
        sigma: a greater sigma lowers confidences less.
        class_agnostic: rows of different classes suppress each other.
        score_threshold: if given, only rows whose lowered confidence is above it are returned.

    Returns:
        A copy with all fields, in the order of the input; `confidence` in its own type.

    >>> rows = Detections(np.array([[0.0, 0, 10, 10], [1, 0, 11, 10]]), confidence=np.array([0.5, 0.75]))
    >>> with_soft_nms(rows, class_agnostic=True).confidence.round(4)
    array([0.1311, 0.75  ])
    """
    if len(detections) == 0:
        return detections
    _, labels = _scores_and_labels(detections, 0.5, class_agnostic, "Soft-NMS")
    least = 0.0 if score_threshold is None else max(float(score_threshold), 0.0)
    keep, decayed = soft_nms(detections.xyxy, detections.confidence, sigma=sigma, min_score=least, labels=labels)
    result = detections.select(np.arange(len(detections)))
    result.confidence[keep] = decayed
    if score_threshold is None:
        return result
    selected = np.zeros(len(detections), bool)
    selected[keep] = decayed > score_threshold
    return result.select(selected)


def accelerate() -> None:
    """Replace the methods `with_nms` and `with_nmm` of `Detections`, in all threads, until `restore`.

    `InferenceSlicer` and other code that calls these methods then uses hashnms.
    """
    Detections.with_nms, Detections.with_nmm = with_nms, with_nmm


def restore() -> None:
    """Undo `accelerate`."""
    for name, method in _stock.items():
        setattr(Detections, name, method)


@contextmanager
def accelerated() -> Iterator[None]:
    """Apply `accelerate` while the block runs; afterwards `Detections` is as before."""
    before = {name: vars(Detections)[name] for name in _METHODS}
    accelerate()
    try:
        yield
    finally:
        for name, method in before.items():
            setattr(Detections, name, method)


def acceleration() -> dict[str, str]:
    """Describe what suppresses boxes in supervision: each method of `Detections` that hashnms can do.

    >>> acceleration()
    {'Detections.with_nms': "supervision's own", 'Detections.with_nmm': "supervision's own"}
    >>> with accelerated():
    ...     acceleration()
    {'Detections.with_nms': 'with_nms by hashnms', 'Detections.with_nmm': 'with_nmm by hashnms'}
    """
    described = {}
    for name, ours in (("with_nms", with_nms), ("with_nmm", with_nmm)):
        current = getattr(Detections, name)
        own = "supervision's own" if current is _stock[name] else "another function"
        described[f"Detections.{name}"] = f"{name} by hashnms" if current is ours else own
    return described


def _scores_and_labels(
    detections: Detections, threshold: float, class_agnostic: bool, method: str
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Scores and labels in the type in which supervision sorts them: the common type of boxes, scores and labels."""
    if not 0 <= threshold <= 1:
        raise ValueError(f"threshold must be in [0, 1], got {threshold}")
    if detections.confidence is None:
        raise ValueError(f"detections must have confidence for {method}, got None")
    fields = [detections.xyxy, detections.confidence]
    if not class_agnostic:
        if detections.class_id is None:
            raise ValueError(f"detections must have class_id for {method} unless class_agnostic=True, got None")
        fields.append(detections.class_id)
    dtype = np.result_type(*fields)
    return detections.confidence.astype(dtype, copy=False), None if class_agnostic else detections.class_id


def _has_boxes_alone(detections: Detections) -> bool:
    return detections.mask is None and ORIENTED_BOX_COORDINATES not in detections.data


def _suppressor(
    detections: Detections,
    order: NDArray[np.int64],
    labels: NDArray[Any] | None,
    least: float,
    overlap_metric: OverlapMetric | str,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The places in `order` that are kept, and for each place the one that suppressed it.

    Places are used as scores: where scores tie, supervision's order is that of NumPy's sort, which is not stable. Its
    overlap is computed in float64 and rounded to float32: `least` is the least that counts.
    """
    metric = _METRICS[OverlapMetric.from_value(overlap_metric)]
    if least > 1:
        return np.arange(len(order)), np.arange(len(order))
    return nms(
        np.asarray(detections.xyxy[order], np.float64),
        np.arange(len(order), 0, -1, dtype=np.float64),
        least,
        labels=None if labels is None else labels[order],
        metric=metric,
        inclusive=True,
        return_suppressor=True,
    )


def _merged(detections: Detections, members: NDArray[np.int64], counts: NDArray[np.int64]) -> Detections:
    """Merge each group of rows into one row; groups follow each other, each by decreasing confidence."""
    starts = np.cumsum(counts) - counts
    result = detections.select(members[starts])
    groups = np.flatnonzero(counts > 1)
    if len(groups) == 0:
        return result
    boxes, confidence = detections.xyxy[members], detections.confidence[members].astype(np.float64)
    around = np.concatenate(
        [np.minimum.reduceat(boxes[:, :2], starts, 0), np.maximum.reduceat(boxes[:, 2:], starts, 0)], 1
    )
    wide = boxes.astype(np.int64 if boxes.dtype.kind in "iu" else np.float64)
    sides = (wide[:, 2:] - wide[:, :2]).astype(np.float64)
    areas = sides[:, 0] * sides[:, 1]
    means = []
    for group in groups.tolist():
        rows = slice(starts[group], starts[group] + counts[group])
        total = areas[rows].sum()
        if total > 0:
            means.append((group, areas[rows].dot(confidence[rows]) / total))
    result.xyxy = _with(result.xyxy, groups, around[groups].astype(np.float32))
    if means:
        changed, new = zip(*means, strict=True)
        result.confidence = _with(result.confidence, np.array(changed), np.array(new, np.float32))
    return result


def _with(values: NDArray[Any], rows: NDArray[np.int64], new: NDArray[Any]) -> NDArray[Any]:
    """Replace the values in these rows; the result has the common type of both."""
    all_new = len(rows) == len(values)
    changed = values.astype(new.dtype if all_new else np.result_type(values, new))
    changed[rows] = new
    return changed
