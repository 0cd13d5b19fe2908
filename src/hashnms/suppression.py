"""The suppression functions: arrays or tensors in, indices of the kept boxes out.

Each function passes NumPy arrays straight to the core. Everything else, and arrays that the core refuses, takes the
slow path in `_calls.py`.
"""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashnms import _core, _settings
from hashnms._calls import BATCHED_NMS, HNMS, NMS, NMS_SUPPRESSOR, SOFT_NMS
from hashnms._settings import BoxFormatName, MetricName, SoftMethodName
from hashnms._tensors import AnyTensor, Tensor, Values
from hashnms.hashing import alpha_for_bound


@overload
def hnms(
    boxes: AnyTensor[Tensor],
    scores: Values,
    *,
    alpha: float = ...,
    num_hashes: int = ...,
    labels: Values | None = ...,
    images: Values | None = ...,
    box_format: BoxFormatName = ...,
) -> Tensor: ...
@overload
def hnms(
    boxes: ArrayLike,
    scores: Values,
    *,
    alpha: float = ...,
    num_hashes: int = ...,
    labels: Values | None = ...,
    images: Values | None = ...,
    box_format: BoxFormatName = ...,
) -> NDArray[np.int64]: ...
def hnms(
    boxes: Values,
    scores: Values,
    iou_threshold: None = None,
    *,
    alpha: float = 0.7,
    num_hashes: int = 1,
    labels: Values | None = None,
    images: Values | None = None,
    box_format: BoxFormatName = "xyxy",
) -> Any:
    """Hashing-based non-maximum suppression (HNMS): keep the best box of each IoUHash cell, in O(N) on any data.

    Boxes that share a cell have an IoU of at least `iou_lower_bound(alpha)`. So every removed box overlaps, by at least
    that much, a box whose score is at least as high. Two boxes that overlap more may still lie in different cells. With
    `num_hashes` > 1, HNMS runs again on the remaining boxes with shifted cells, which removes most of these duplicates
    (Alg. 2 and 3 of the paper).

    Args:
        boxes: (N, 4), x1, y1, x2, y2 by default: an array, a list, a torch tensor on any device, or an array of another
            library in the memory of the CPU (anything with `__array__` or `__dlpack__`). float32 and float64 are
            computed in their own type, float16, bfloat16 and integers as float32, and integers beyond 2**24 as float64.
        scores: (N,), any real numbers.
        iou_threshold: not accepted; `alpha` controls how much the boxes of a cell overlap, see `alpha_for_bound`.
        alpha: in (0, 1), the IoU of two boxes at the centres of adjacent cells. A greater alpha means smaller cells and
            more kept boxes.
        num_hashes: the number of hash functions, K in the paper, from 1 to 1000.
        labels: (N,) whole numbers or None. Boxes with different labels are never compared.
        images: (N,) whole numbers or None. Boxes of different images are never compared, so one call can take many
            images.
        box_format: "xyxy", "xywh" (corner and size) or "cxcywh" (centre and size).

    Returns:
        int64 indices of the kept boxes, by decreasing score, ties to the lower index. Within a cell, too, the lower
        index wins a tie. Boxes without area belong to no cell and are always kept. If `boxes` is a tensor, the result
        is a tensor on the same device, as in every function here (docs/howto/gpu.md); otherwise it is a NumPy array.

    Raises:
        ValueError: for wrong shapes, numbers that are not finite, boxes of negative size and parameters out of range.
        TypeError: for values that are not numbers.

    >>> boxes = [[0, 0, 100, 100], [1, 1, 101, 101], [200, 0, 300, 100]]
    >>> hnms(boxes, [0.8, 0.9, 0.5])
    array([1, 2])
    """
    if iou_threshold is not None:
        _settings.no_iou_threshold(iou_threshold, alpha_for_bound)
    if type(boxes) is np.ndarray:
        keep = _core.hnms(boxes, scores, labels, images, alpha, num_hashes, box_format)
        if keep is not None:
            return keep
    return HNMS.answer(boxes, scores, labels, images, alpha, num_hashes, box_format)


@overload
def nms(
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
    return_suppressor: Literal[False] = ...,
) -> Tensor: ...
@overload
def nms(
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
    return_suppressor: Literal[True],
) -> tuple[Tensor, Tensor]: ...
@overload
def nms(
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
    return_suppressor: Literal[False] = ...,
) -> NDArray[np.int64]: ...
@overload
def nms(
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
    return_suppressor: Literal[True],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
def nms(
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
    return_suppressor: bool = False,
) -> Any:
    """Exact greedy non-maximum suppression: the indices that `torchvision.ops.nms` returns on the CPU, in its order.

    Boxes are taken by decreasing score. A box is kept unless its IoU with a kept box is above the threshold. A grid of
    cells finds the kept boxes near a box, so not all pairs are compared. The cost is O(N log N) for sorting and O(N)
    for the rest at any fixed threshold above 1/1024 (docs/explanation/nms.md names two exceptions). At lower
    thresholds, and with `metric="ios"` at any, boxes of all sizes can overlap enough: there is no proof then, and at
    thresholds around 1e-7 the cost can grow faster than O(N).

    Args:
        boxes: (N, 4), see `hnms` for the types.
        scores: (N,), any real numbers.
        iou_threshold: in [0, 1]. A box is suppressed where IoU > iou_threshold, strictly. The IoU is computed in the
            boxes' float type and compared with the threshold as a double. With another `metric`, that is compared
            instead.
        labels: (N,) whole numbers or None. Boxes with different labels are never compared.
        images: (N,) whole numbers or None. Boxes of different images are never compared; `max_output` counts per image.
        score_threshold: if given, only boxes with a score above it are considered.
        max_output: if given, keep at most this many boxes of each image, over all labels: the first of the full result.
            Faster where there is one image.
        metric: the measure of overlap, computed in the boxes' float type:

            - "iou": intersection / (area_a + area_b - intersection);
            - "ios": intersection / min(area_a, area_b), which is 1 where one box lies inside the other, however small
              it is;
            - "diou": IoU - d2 / c2, where d2 is the squared distance between the centres and c2 the squared diagonal of
              the smallest box around both (Zheng et al., 2020). d2 / c2 is computed in double and rounded once.

            Boxes without area overlap nothing.
        inclusive: also suppress where the overlap equals the threshold, which must then be above 0.
        box_format: "xyxy", "xywh" or "cxcywh".
        return_suppressor: also return, for each box, the kept box that removed it.

    Returns:
        int64 indices of the kept boxes, by decreasing score, ties to the lower index. With `return_suppressor`, a pair
        of these and an (N,) int64 array. Its entry for a box is the index of the first kept box that suppresses it, the
        index of the box itself if it is kept, or -1 if only `score_threshold` or `max_output` removed it.

    Raises:
        ValueError, TypeError: as `hnms`.

    >>> boxes = [[0, 0, 10, 10], [1, 0, 11, 10], [20, 0, 30, 10]]
    >>> nms(boxes, [0.8, 0.9, 0.5], 0.5)
    array([1, 2])
    >>> nms(boxes, [0.8, 0.9, 0.5], 0.5, return_suppressor=True)[1]
    array([1, 1, 2])
    >>> nms([[0, 0, 10, 10], [4, 4, 6, 6]], [0.9, 0.8], 0.5, metric="ios")
    array([0])
    """
    if type(boxes) is np.ndarray:
        core = _core.nms_suppressor if return_suppressor else _core.nms
        result = core(
            boxes, scores, labels, images, iou_threshold, score_threshold, max_output, metric, inclusive, box_format
        )
        if result is not None:
            return result
    call = NMS_SUPPRESSOR if return_suppressor else NMS
    return call.answer(
        boxes, scores, labels, images, iou_threshold, score_threshold, max_output, metric, inclusive, box_format
    )


@overload
def batched_nms(
    boxes: AnyTensor[Tensor], scores: Values | None, idxs: Values | None, iou_threshold: float
) -> Tensor: ...
@overload
def batched_nms(
    boxes: ArrayLike, scores: Values | None, idxs: Values | None, iou_threshold: float
) -> NDArray[np.int64]: ...
def batched_nms(boxes: Values, scores: Values | None, idxs: Values | None, iou_threshold: float) -> Any:
    """Apply `nms` within each group, with the signature of `torchvision.ops.batched_nms`.

    Groups are kept apart without moving coordinates, so results do not depend on how large the coordinates are.

    Args:
        boxes: (N, 4), x1, y1, x2, y2, see `hnms` for the types.
        scores: (N,), any real numbers. None is allowed if there are no boxes.
        idxs: (N,), the group of each box: integers, bools or floats, as in torchvision. Equal values are one group,
            each NaN is a group of its own. None is allowed if there are no boxes.
        iou_threshold: in [0, 1], as in `nms`.

    Returns:
        int64 indices of the kept boxes, by decreasing score, ties to the lower index.

    Raises:
        ValueError, TypeError: as `hnms`.

    >>> batched_nms([[0, 0, 10, 10], [1, 0, 11, 10]], [0.8, 0.9], [0, 1], 0.5)
    array([1, 0])
    """
    if type(boxes) is np.ndarray:
        keep = _core.batched_nms(boxes, scores, idxs, iou_threshold)
        if keep is not None:
            return keep
    return BATCHED_NMS.answer(boxes, scores, idxs, iou_threshold)


@overload
def soft_nms(
    boxes: AnyTensor[Tensor],
    scores: Values,
    *,
    method: SoftMethodName = ...,
    sigma: float = ...,
    iou_threshold: float = ...,
    min_score: float = ...,
    labels: Values | None = ...,
    images: Values | None = ...,
    max_output: int | None = ...,
    box_format: BoxFormatName = ...,
) -> tuple[Tensor, Tensor]: ...
@overload
def soft_nms(
    boxes: ArrayLike,
    scores: Values,
    *,
    method: SoftMethodName = ...,
    sigma: float = ...,
    iou_threshold: float = ...,
    min_score: float = ...,
    labels: Values | None = ...,
    images: Values | None = ...,
    max_output: int | None = ...,
    box_format: BoxFormatName = ...,
) -> tuple[NDArray[np.int64], NDArray[Any]]: ...
def soft_nms(
    boxes: Values,
    scores: Values,
    *,
    method: SoftMethodName = "gaussian",
    sigma: float = 0.5,
    iou_threshold: float = 0.3,
    min_score: float = 1e-3,
    labels: Values | None = None,
    images: Values | None = None,
    max_output: int | None = None,
    box_format: BoxFormatName = "xyxy",
) -> Any:
    """Exact Soft-NMS: the result of the O(N**2) loop of Bodla et al., the same order and the same bits of every score.

    The box with the highest score is selected, ties to the lower index. Then the score of every remaining box of the
    same label is multiplied by a decay that depends on its IoU with the selected box. This repeats until no box is
    left.

    - "gaussian": decay = exp(-IoU**2 / sigma);
    - "linear": decay = 1 - IoU where IoU > iou_threshold, else 1;
    - "hard": removed where IoU > iou_threshold, which is `nms`.

    A box is removed when its score falls below `min_score`. The IoU is computed in the boxes' float type. The decay is
    computed in double with libm's exp, rounded once to the scores' type, and multiplied in that type: the last bit of
    float64 scores depends on this machine's libm. Scores are lowered only where it can matter
    (docs/explanation/soft_nms.md). The cost is O(N log N) plus a share of the overlapping pairs, in the worst case all
    of them.

    TensorFlow's `non_max_suppression_with_scores` uses exp(-IoU**2 / (2 * soft_nms_sigma)): its 0.5 is sigma = 1 here.

    Args:
        boxes: (N, 4), see `hnms` for the types.
        scores: (N,), computed in their own type, float32 or float64. They are multiplied, so they should be
            probabilities or other non-negative numbers.
        method: "gaussian", "linear" or "hard".
        sigma: of "gaussian", in [1e-30, 1e30]. A greater sigma lowers scores less.
        iou_threshold: of "linear" and "hard", in [0, 1].
        min_score: at least 0. Boxes whose score is below it, at the start or after decay, are not returned. So negative
            scores never are.
        labels: (N,) whole numbers or None. Boxes with different labels are never compared.
        images: (N,) whole numbers or None. Boxes of different images are never compared; `max_output` counts per image.
        max_output: if given, return at most this many boxes of each image, over all labels: the first of the full
            result. Faster.
        box_format: "xyxy", "xywh" or "cxcywh".

    Returns:
        A pair: int64 indices of the selected boxes in the order of selection, and their scores when selected, which
        never increase, in the type of the scores.

    Raises:
        ValueError, TypeError: as `hnms`.

    >>> boxes = [[0, 0, 10, 10], [1, 0, 11, 10], [20, 0, 30, 10]]
    >>> keep, decayed = soft_nms(boxes, [0.8, 0.9, 0.5])
    >>> keep, decayed.round(4)
    (array([1, 2, 0]), array([0.9   , 0.5   , 0.2097]))
    """
    if type(boxes) is np.ndarray:
        result = _core.soft_nms(
            boxes, scores, labels, images, method, sigma, iou_threshold, min_score, max_output, box_format
        )
        if result is not None:
            return result
    return SOFT_NMS.answer(
        boxes, scores, labels, images, method, sigma, iou_threshold, min_score, max_output, box_format
    )
