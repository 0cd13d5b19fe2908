"""Merging: combine the boxes of one object into one box, instead of keeping only the best of them.

`nmm` and `vote` run exact NMS and then merge the boxes that each kept box suppressed into it; `merge` does the same
with any suppressors. `nmm` can also merge boxes that overlap merged ones. `weighted_boxes_fusion` forms its own
clusters, around boxes that move as clusters grow. docs/howto/merging.md says when to use which.
"""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashnms import _core, _settings, _tensors, _validate
from hashnms._calls import JOIN, NMS_SUPPRESSOR
from hashnms._settings import BoxFormatName, ConfidenceName, HowName, MetricName
from hashnms._tensors import AnyTensor, Tensor, Values
from hashnms._validate import Array

Result = TypeVar("Result")


class Merged(NamedTuple, Generic[Result]):
    """Merged boxes by decreasing score: for each, the row of its kept box, the merged box and its score."""

    keep: Result  #: (K,): rows of the kept boxes
    boxes: Result  #: (K, 4): the merged boxes, in the format of the input
    scores: Result  #: (K,)


class Fused(NamedTuple, Generic[Result]):
    """Fused boxes by decreasing score, with labels and images (None if not given), and the cluster of each row."""

    boxes: Result  #: (K, 4): the fused boxes, in the format of the input
    scores: Result  #: (K,)
    labels: Result | None  #: (K,), or None if none were given
    images: Result | None  #: (K,), or None if none were given
    clusters: Result  #: (N,): the position of the row's fused box, -1 for a row that was not used


@overload
def merge(
    boxes: AnyTensor[Tensor], scores: Values, suppressor: Values, *, how: HowName = ..., box_format: BoxFormatName = ...
) -> Merged[Tensor]: ...
@overload
def merge(
    boxes: ArrayLike, scores: Values, suppressor: Values, *, how: HowName = ..., box_format: BoxFormatName = ...
) -> Merged[NDArray[Any]]: ...
def merge(
    boxes: Values, scores: Values, suppressor: Values, *, how: HowName = "union", box_format: BoxFormatName = "xyxy"
) -> Any:
    """Merge the boxes that each kept box suppressed into that box, in O(N log N).

    Args:
        boxes: (N, 4), see `hnms` for the types.
        scores: (N,), any real numbers; at least 0 with how="vote".
        suppressor: (N,) integers, as `nms(..., return_suppressor=True)` returns them: for each row, the kept row that
            removed it, the row itself if it is kept, or -1 if it belongs to no group.
        how: "union", the smallest box around all boxes of a group, with their highest score (SAHI's GREEDYNMM); or
            "vote", the score-weighted mean of their corners, with the score of the kept box (box voting).
        box_format: "xyxy", "xywh" or "cxcywh", for the input and the result.

    Returns:
        `Merged(keep, boxes, scores)`: the kept rows, by decreasing score, ties to the lower row, and the box and score
        of each. Boxes are computed in double and rounded once to their float type. A kept box is returned unchanged if
        nothing was merged into it, or, with how="vote", if all scores of its group are 0.

    Raises:
        ValueError, TypeError: as `hnms`; and if a suppressor is not a kept row.

    >>> boxes, scores = [[0, 0, 10, 10], [1, 0, 11, 10], [20, 0, 30, 10]], [0.75, 0.25, 0.5]
    >>> merge(boxes, scores, [0, 0, 2])
    Merged(keep=array([0, 2]), boxes=array([[ 0.,  0., 11., 10.],
           [20.,  0., 30., 10.]], dtype=float32), scores=array([0.75, 0.5 ]))
    >>> merge(boxes, scores, [0, 0, 2], how="vote").boxes[0]
    array([ 0.25,  0.  , 10.25, 10.  ], dtype=float32)
    """
    if _tensors.is_tensor(boxes):
        return Merged(*_tensors.ops.merge(boxes, scores, suppressor, how, box_format))
    return Merged(*merge_on_host(boxes, scores, suppressor, how, box_format))


@overload
def nmm(
    boxes: AnyTensor[Tensor],
    scores: Values,
    iou_threshold: float = ...,
    *,
    labels: Values | None = ...,
    images: Values | None = ...,
    score_threshold: float | None = ...,
    max_output: int | None = ...,
    metric: MetricName = ...,
    inclusive: bool = ...,
    transitive: bool = ...,
    box_format: BoxFormatName = ...,
) -> Merged[Tensor]: ...
@overload
def nmm(
    boxes: ArrayLike,
    scores: Values,
    iou_threshold: float = ...,
    *,
    labels: Values | None = ...,
    images: Values | None = ...,
    score_threshold: float | None = ...,
    max_output: int | None = ...,
    metric: MetricName = ...,
    inclusive: bool = ...,
    transitive: bool = ...,
    box_format: BoxFormatName = ...,
) -> Merged[NDArray[Any]]: ...
def nmm(
    boxes: Values,
    scores: Values,
    iou_threshold: float = 0.5,
    *,
    labels: Values | None = None,
    images: Values | None = None,
    score_threshold: float | None = None,
    max_output: int | None = None,
    metric: MetricName = "iou",
    inclusive: bool = False,
    transitive: bool = False,
    box_format: BoxFormatName = "xyxy",
) -> Any:
    """Non-maximum merging: `nms`, then each kept box grows to the smallest box around it and the boxes it suppressed.

    Useful where the tiles of an image cut objects into parts. Arguments and errors are those of `nms`; the result is
    that of `merge`.

    With `transitive`, a merged box also brings in the boxes that it overlaps. Boxes are taken by decreasing score: a
    box joins the group of the first box that overlaps it, kept or not, and is kept if there is none. So a chain of
    parts becomes one object. The cost is about O(N log N) on detections; docs/howto/merging.md says what takes longer.

    >>> nmm([[0, 0, 10, 10], [1, 0, 11, 10], [20, 0, 30, 10]], [0.75, 0.25, 0.5]).boxes
    array([[ 0.,  0., 11., 10.],
           [20.,  0., 30., 10.]], dtype=float32)
    >>> parts = [[0, 0, 10, 10], [5, 0, 15, 10], [10, 0, 20, 10]]
    >>> [len(nmm(parts, [3, 2, 1], 0.3, transitive=transitive).boxes) for transitive in (False, True)]
    [2, 1]
    """
    settings = {
        "score_threshold": score_threshold,
        "max_output": max_output,
        "metric": metric,
        "inclusive": inclusive,
        "transitive": _settings.bool_value("transitive", transitive),
    }
    return _merged(
        "union", boxes, scores, iou_threshold, labels=labels, images=images, box_format=box_format, **settings
    )


@overload
def vote(
    boxes: AnyTensor[Tensor],
    scores: Values,
    iou_threshold: float = ...,
    *,
    labels: Values | None = ...,
    images: Values | None = ...,
    score_threshold: float | None = ...,
    max_output: int | None = ...,
    metric: MetricName = ...,
    inclusive: bool = ...,
    box_format: BoxFormatName = ...,
) -> Merged[Tensor]: ...
@overload
def vote(
    boxes: ArrayLike,
    scores: Values,
    iou_threshold: float = ...,
    *,
    labels: Values | None = ...,
    images: Values | None = ...,
    score_threshold: float | None = ...,
    max_output: int | None = ...,
    metric: MetricName = ...,
    inclusive: bool = ...,
    box_format: BoxFormatName = ...,
) -> Merged[NDArray[Any]]: ...
def vote(
    boxes: Values,
    scores: Values,
    iou_threshold: float = 0.5,
    *,
    labels: Values | None = None,
    images: Values | None = None,
    score_threshold: float | None = None,
    max_output: int | None = None,
    metric: MetricName = "iou",
    inclusive: bool = False,
    box_format: BoxFormatName = "xyxy",
) -> Any:
    """Box voting: `nms`, then each kept box becomes the score-weighted mean of itself and the boxes it suppressed.

    Useful against noise in the boxes of one detector. Scores must be at least 0. Other arguments and errors are those
    of `nms`; the result is that of `merge`.

    >>> vote([[0, 0, 10, 10], [1, 0, 11, 10], [20, 0, 30, 10]], [0.75, 0.25, 0.5]).boxes
    array([[ 0.25,  0.  , 10.25, 10.  ],
           [20.  ,  0.  , 30.  , 10.  ]], dtype=float32)
    """
    settings = {"score_threshold": score_threshold, "max_output": max_output, "metric": metric, "inclusive": inclusive}
    return _merged(
        "vote", boxes, scores, iou_threshold, labels=labels, images=images, box_format=box_format, **settings
    )


def _merged(how: HowName, boxes: Any, scores: Any, iou_threshold: Any, *, box_format: Any, **settings: Any) -> Any:
    suppressor = suppressor_of(boxes, scores, iou_threshold, box_format=box_format, **settings)
    return merge(boxes, scores, suppressor, how=how, box_format=box_format)


def suppressor_of(
    boxes: Any,
    scores: Any,
    iou_threshold: Any,
    *,
    labels: Any = None,
    images: Any = None,
    score_threshold: Any = None,
    max_output: Any = None,
    metric: Any = "iou",
    inclusive: Any = False,
    transitive: bool = False,
    box_format: Any = "xyxy",
) -> Any:
    """For each box, the kept box that it is merged into, as `merge` takes it."""
    settings = (iou_threshold, score_threshold, max_output, metric, inclusive, box_format)
    call = JOIN if transitive else NMS_SUPPRESSOR
    result = call.core(boxes, scores, labels, images, *settings) if type(boxes) is np.ndarray else None
    return (call.answer(boxes, scores, labels, images, *settings) if result is None else result)[1]


def merge_on_host(boxes: Any, scores: Any, suppressor: Any, how: Any, box_format: Any) -> tuple[Array, Array, Array]:
    """`merge` for arrays, lists or CPU tensors, with checks."""
    box_array, score_array, _, _ = _validate.plain_arrays(boxes, scores, None)
    box_format = _settings.box_format_value(box_format)
    _validate.valid_numbers(box_array, score_array, box_format)
    return merge_groups(box_array, score_array, _validate.suppressor_array(suppressor, len(box_array)), how, box_format)


def merge_groups(
    boxes: Array, scores: Array, suppressor: Array, how: Any, box_format: BoxFormatName, rows: Any = None
) -> tuple[Array, Array, Array]:
    """`merge` for checked arrays. Error messages use the row numbers in `rows`, if given."""
    how = _settings.how_value(how)
    keep = np.flatnonzero(suppressor == np.arange(len(suppressor)))
    if how == "vote":
        _validate.scores_from_0(scores, rows)
    merged, highest = boxes[keep], scores[keep]
    sizes = np.bincount(suppressor[suppressor >= 0], minlength=len(boxes))
    several = keep[sizes[keep] > 1]
    if len(several):
        # The rows of all groups of several rows, group after group.
        in_several = np.flatnonzero((suppressor >= 0) & (sizes[suppressor] > 1))
        members = in_several[np.argsort(suppressor[in_several], kind="stable")]
        starts = np.concatenate([[0], np.cumsum(sizes[several])[:-1]])
        places = np.searchsorted(keep, several)
        if how == "union":
            merged[places] = _unions(boxes[members], starts, box_format)
            highest[places] = np.maximum.reduceat(scores[members], starts)
        else:
            merged[places] = _means(boxes, scores, members, several, starts, sizes[several])
    order = np.argsort(-highest, kind="stable")
    return keep[order], merged[order], highest[order]


def _unions(boxes: Array, starts: Array, box_format: BoxFormatName) -> Array:
    """The smallest box around each group."""
    first, second = boxes[:, :2].astype(np.float64), boxes[:, 2:].astype(np.float64)
    if box_format == "cxcywh":
        first = first - second / 2
    low = np.minimum.reduceat(first, starts)
    high = np.maximum.reduceat(second if box_format == "xyxy" else first + second, starts)
    return in_format(np.concatenate([low, high], axis=1), box_format, boxes.dtype)


def _means(boxes: Array, scores: Array, members: Array, kept: Array, starts: Array, sizes: Array) -> Array:
    """The score-weighted mean of each group. It is the same in every format, because all are linear in the corners.

    It sums distances from the kept box, with scores relative to the highest: sums cannot overflow, and the mean of
    equal boxes is that box.
    """
    weights = scores[members].astype(np.float64)
    highest = np.maximum.reduceat(weights, starts)
    weights /= np.repeat(np.where(highest > 0, highest, 1.0), sizes)
    center = boxes[kept].astype(np.float64)
    apart = boxes[members] / 2 - np.repeat(center, sizes, axis=0) / 2  # halves: their difference is always finite
    total = np.add.reduceat(weights, starts)[:, None]
    shift = np.add.reduceat(weights[:, None] * apart, starts)
    result: Array = center + 2 * np.divide(shift, total, out=np.zeros_like(shift), where=total > 0)
    return result


def in_format(corners: Array, box_format: BoxFormatName, dtype: np.dtype[Any]) -> Array:
    """Convert corners in double precision to boxes of a format and a float type, which must hold their sizes."""
    if box_format == "xyxy":
        return corners.astype(dtype)
    low, high = corners[:, :2], corners[:, 2:]
    first = low if box_format == "xywh" else low / 2 + high / 2
    with np.errstate(over="ignore"):
        boxes = np.concatenate([first, high - low], axis=1).astype(dtype)
    infinite = ~np.isfinite(boxes).all(axis=1)
    if infinite.any():
        row = int(np.argmax(infinite))
        raise ValueError(
            f"merged boxes must have sizes that are finite in {dtype}, got a box from {low[row].tolist()} to "
            f"{high[row].tolist()} ({infinite.sum()} such); box_format='xyxy' has no sizes"
        )
    return boxes


def weighted_boxes_fusion(
    boxes: Values,
    scores: Values,
    *,
    labels: Values | None = None,
    models: Values | None = None,
    images: Values | None = None,
    iou_threshold: float = 0.55,
    weights: Any = None,
    score_threshold: float = 0.0,
    confidence: ConfidenceName = "avg",
    allows_overflow: bool = False,
    box_format: BoxFormatName = "xyxy",
) -> Fused[Any]:
    """Weighted boxes fusion (Solovyev et al.): fuse the boxes of several models into one box for each cluster.

    Boxes are taken by decreasing score times weight. A box joins the cluster of its label and image whose fused box has
    the highest IoU with it, if that IoU is above the threshold; of equals, the earlier cluster. Otherwise it starts a
    new cluster. The fused box of a cluster is the score-weighted mean of its boxes and moves with each box that joins.
    For boxes in [0, 1], clusters and boxes are those of ensemble-boxes 1.0.9, so sums are rounded as float32 numbers;
    otherwise sums are doubles. The cost is O(N log N) for sorting and about O(N) for the rest. At thresholds
    below about 0.1, boxes of very different sizes are compared with most clusters: in the worst case O(N**2).

    Args:
        boxes: (N, 4), the boxes of all models and images, see `hnms` for the types. Any coordinates; nothing is
            clipped.
        scores: (N,), at least 0.
        labels: (N,) whole numbers or None. Boxes with different labels are never compared.
        models: (N,) whole numbers, at least 0: the model of each box. None: all boxes are from one model.
        images: (N,) whole numbers or None. Boxes of different images are never compared.
        iou_threshold: in [0, 1]. A box joins a cluster where IoU > iou_threshold, strictly; 0 means any overlap.
        weights: one for each model, at least 0 and not all 0; the scores of the model are multiplied by it. None: 1 for
            each model up to the greatest in `models`.
        score_threshold: rows with a score below it are not used (ensemble-boxes' skip_box_thr). Unlike in `nms`, a
            score equal to it is used.
        confidence: the score of a fused box, for M models with total weight W and n boxes in the cluster:

            - "avg": the mean weighted score * min(n, M) / W;
            - "max": the highest weighted score / the highest weight;
            - "box_and_model_avg": the sum of the weighted scores / the sum of the boxes' weights * the weight of the
              models in the cluster / W;
            - "absent_model_aware_avg": the sum of the weighted scores / (the sum of the boxes' weights + the weight of
              the models that are not in the cluster).

        allows_overflow: whether "avg" uses n instead of min(n, M), so that scores may be above 1.
        box_format: "xyxy", "xywh" or "cxcywh", for the input and the result.

    Returns:
        `Fused(boxes, scores, labels, images, clusters)` by decreasing score, ties to the lower row of a cluster's first
        box. Boxes and scores are in their float types. A cluster of one box returns that box unchanged. A box without
        area joins nothing and is a cluster of its own (ensemble-boxes leaves it out). Where all scores of a cluster are
        0, its box is the first one. If `boxes` is a tensor, these are tensors on its device.

    Raises:
        ValueError, TypeError: as `hnms`; also for scores and weights below 0 and for models without a weight.

    >>> fused = weighted_boxes_fusion(
    ...     [[0, 0, 10, 10], [1, 0, 11, 10], [20, 0, 30, 10]], [0.75, 0.25, 0.5], models=[0, 1, 1]
    ... )
    >>> fused.boxes, fused.scores, fused.clusters
    (array([[ 0.25,  0.  , 10.25, 10.  ],
           [20.  ,  0.  , 30.  , 10.  ]], dtype=float32), array([0.5 , 0.25]), array([0, 0, 1]))
    """
    arguments = (boxes, scores, labels, models, images)
    settings = (iou_threshold, weights, score_threshold, confidence, allows_overflow, box_format)
    if _tensors.is_tensor(boxes):
        return Fused(*_tensors.ops.fuse(*arguments, *settings))
    return Fused(*fuse_on_host(*arguments, *settings))


def fuse_on_host(
    boxes: Any,
    scores: Any,
    labels: Any,
    models: Any,
    images: Any,
    iou_threshold: Any,
    weights: Any,
    score_threshold: Any,
    confidence: Any,
    allows_overflow: Any,
    box_format: Any,
) -> tuple[Array, Array, Array | None, Array | None, Array]:
    """`weighted_boxes_fusion` for arrays, lists or CPU tensors, with checks."""
    box_array, score_array, label_array, image_array = _validate.plain_arrays(boxes, scores, labels, images)
    box_format = _settings.box_format_value(box_format)
    iou_threshold = _settings.share_value("iou_threshold", iou_threshold)
    score_threshold = _settings.score_value("score_threshold", score_threshold)
    confidence = _settings.confidence_value(confidence)
    allows_overflow = _settings.bool_value("allows_overflow", allows_overflow)
    model_array = _validate.models_array(models, len(box_array))
    weight_array = _validate.weights_array(weights, model_array)
    _validate.valid_numbers(box_array, score_array, box_format)
    _validate.scores_from_0(score_array)
    taking_part = np.flatnonzero(score_array.astype(np.float64) >= score_threshold)
    some_labels, some_images = (
        None if values is None else values[taking_part] for values in (label_array, image_array)
    )
    fused = fuse_clusters(
        box_array[taking_part], score_array[taking_part], some_labels, some_images, model_array[taking_part],
        weight_array, iou_threshold, confidence, allows_overflow, box_format, rows=taking_part,
    )  # fmt: skip
    founders = taking_part[fused.founders]
    clusters = np.full(len(box_array), -1)
    clusters[taking_part] = fused.clusters
    return (
        fused.boxes,
        fused.scores,
        None if label_array is None else label_array[founders],
        None if image_array is None else image_array[founders],
        clusters,
    )


class Clusters(NamedTuple):
    """Fused boxes by decreasing score."""

    founders: Array  #: the row of each cluster's first box, which has the highest weighted score
    boxes: Array
    scores: Array
    clusters: Array  #: for each row, the position of its fused box


def fuse_clusters(
    boxes: Array,
    scores: Array,
    labels: Array | None,
    images: Array | None,
    models: Array,
    weights: Array,
    iou_threshold: float,
    confidence: ConfidenceName,
    allows_overflow: bool,
    box_format: BoxFormatName,
    rows: Any = None,
) -> Clusters:
    """The fused boxes of checked arrays; all rows are used. Error messages use the row numbers in `rows`, if given."""
    _validate.scores_from_0(scores, rows)
    weight = weights[models]
    weighted = scores.astype(np.float64) * weight
    _validate.fusible(boxes, weighted)
    result = _core.fuse(boxes, weighted, labels, images, iou_threshold, box_format)
    assert result is not None, "the core did not take valid arguments of fuse"
    clusters, founders, fused = result
    count = len(founders)
    sizes = np.bincount(clusters, minlength=count)
    if confidence == "avg":
        means = np.bincount(clusters, weighted, count) / np.maximum(sizes, 1)
        final = means * (sizes if allows_overflow else np.minimum(sizes, len(weights))) / weights.sum()
    elif confidence == "max":
        final = weighted[founders] / weights.max()
    else:
        total, total_weight = (np.bincount(clusters, values, count) for values in (weighted, weight))
        # Count each model of a cluster once.
        pairs = np.unique(clusters * len(weights) + models)
        of_models = np.bincount(pairs // len(weights), weights[pairs % len(weights)], count)
        if confidence == "box_and_model_avg":
            final = _ratio(total, total_weight) * of_models / weights.sum()
        else:
            final = _ratio(total, total_weight + (weights.sum() - of_models))
    final_scores = final.astype(scores.dtype)
    in_order = np.lexsort((founders, -final_scores))
    places = np.empty_like(in_order)
    places[in_order] = np.arange(count)
    out = in_format(fused, box_format, boxes.dtype)
    single = sizes == 1
    out[single] = boxes[founders[single]]
    return Clusters(founders[in_order], out[in_order], final_scores[in_order], places[clusters])


def _ratio(values: Array, by: Array) -> Array:
    """`values` / `by`, or 0 where all weights are 0."""
    result: Array = np.divide(values, by, out=np.zeros(len(values)), where=by > 0)
    return result
