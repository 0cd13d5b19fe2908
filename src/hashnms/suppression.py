"""The suppression functions: arrays or tensors in, indices of the kept boxes out.

Each tries the core on arrays as they are. All else, and what the core does not take, goes the way `_calls.py` says.
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
    """Hashing-based non-maximum suppression: keep the best box of each IoUHash cell, O(N) on any data.

    Boxes that share a cell overlap by at least `iou_lower_bound(alpha)`, so nothing is removed that does not overlap
    a box of at least its score by that much. Boxes that overlap more may still lie in two cells: `num_hashes` runs
    with shifted cells, each on what the last one left, remove most of those (Alg. 2 and 3 of the paper).

    Args:
        boxes: (N, 4), x1, y1, x2, y2 by default: an array, a list, or a torch tensor on any device. float32 and float64
            as they are; float16, bfloat16 and integers as float32, integers beyond 2**24 as float64.
        scores: (N,), any real numbers.
        iou_threshold: none here; it is `alpha` that says how much boxes of a cell overlap, see `alpha_for_bound`.
        alpha: in (0, 1), the IoU of two boxes at the centres of adjacent cells. Greater means smaller cells and more
            boxes kept.
        num_hashes: how many hash functions, K in the paper, from 1 to 1000.
        labels: (N,) whole numbers or None. Boxes of different labels never meet.
        images: (N,) whole numbers or None. Boxes of different images never meet: many images in one call.
        box_format: "xyxy", "xywh" (corner and size) or "cxcywh" (centre and size).

    Returns:
        int64 indices of the kept boxes, by decreasing score, ties to the lower index. In a cell, too, the lower
        index wins a tie. Boxes without area belong to no cell and are always kept. A tensor on the device of boxes
        where these are one, as every function here returns it (docs/howto/gpu.md); else an array.

    Raises:
        ValueError: for shapes that do not fit, numbers that are not finite, boxes of negative size and parameters
            out of range.
        TypeError: for types that are not numbers.

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
    """Greedy non-maximum suppression, exactly: what `torchvision.ops.nms` returns on the CPU, in its order.

    By decreasing score, a box is kept unless its IoU with a kept box is above the threshold. Kept boxes are found by
    cells, not by trying all: the cost is O(N log N) for sorting and O(N) for the rest at any fixed threshold above
    1/1024 (docs/explanation/nms.md names three exceptions). Below, boxes of all sizes can meet: it grows with the
    number of sizes. So it does with `metric="ios"`, at any threshold.

    Args:
        boxes: (N, 4), see `hnms` for the types.
        scores: (N,), any real numbers.
        iou_threshold: in [0, 1]. A box is suppressed where IoU > iou_threshold, strictly; the IoU is computed in the
            boxes' float type and compared with the threshold as a double. With another `metric`, it is of that.
        labels: (N,) whole numbers or None. Boxes of different labels never meet.
        images: (N,) whole numbers or None. Boxes of different images never meet, and `max_output` counts by image.
        score_threshold: if given, only boxes with a score above it take part.
        max_output: if given, stop when so many boxes of an image are kept, over all labels: the same boxes first,
            faster where there is one image.
        metric: how much boxes overlap, computed in their float type:

            - "iou": intersection / (area_a + area_b - intersection);
            - "ios": intersection / min(area_a, area_b), 1 where a box lies in another, however small it is;
            - "diou": IoU - d2 / c2, the squared distance of the centres over the squared diagonal of the smallest box
              around both (Zheng et al., 2020): less than IoU where the centres are apart. d2 / c2 is computed in
              double and rounded once.

            Boxes without area overlap nothing.
        inclusive: suppress also where it equals the threshold, which must be above 0 then.
        box_format: "xyxy", "xywh" or "cxcywh".
        return_suppressor: also return, for each box, which kept box removed it.

    Returns:
        int64 indices of the kept boxes, by decreasing score, ties to the lower index. With `return_suppressor`, a
        pair of that and an (N,) int64 array: the index of the first kept box that suppresses the box, the box itself
        if it is kept, -1 if it fell to `score_threshold` or `max_output` alone.

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
    """`nms` within each group, with the signature of `torchvision.ops.batched_nms`: `idxs` say the groups.

    They may be integers, bools or any floats, as there: equal ones are one group, and a NaN is a group of its own. No
    coordinate is moved to keep the groups apart, so results do not depend on how large the coordinates are. Where there
    are no boxes, scores and idxs may be None.

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
    """Soft-NMS, exactly: what the O(N**2) loop of Bodla et al. returns, in order and in every bit of the scores.

    Again and again the box with the highest score is selected, ties to the lower index, and every box of its label
    that is still left is lowered by its IoU with it: score * decay, with

    - "gaussian": decay = exp(-IoU**2 / sigma);
    - "linear": decay = 1 - IoU where IoU > iou_threshold, else 1;
    - "hard": gone where IoU > iou_threshold, which is `nms`.

    A box whose score falls below `min_score` is gone. The IoU is computed in the boxes' float type; the decay in
    double, with libm's exp, and rounded once to the scores' type, in which they are multiplied: the last bit of float64
    scores is that of libm on this machine. Scores are lowered only where it can matter
    (docs/explanation/soft_nms.md): the cost is O(N log N) and a share of the pairs that overlap, all of them at worst.

    TensorFlow's `non_max_suppression_with_scores` has exp(-IoU**2 / (2 * soft_nms_sigma)): its 0.5 is sigma = 1 here.

    Args:
        boxes: (N, 4), see `hnms` for the types.
        scores: (N,), computed in their own type, float32 or float64. They are multiplied, so they should be
            probabilities or other numbers from 0 on.
        method: "gaussian", "linear" or "hard".
        sigma: of the gaussian, in [1e-30, 1e30]; greater lowers less.
        iou_threshold: of "linear" and "hard", in [0, 1].
        min_score: boxes with a score below it, at first or by then, never come out. At least 0: negative scores
            never do.
        labels: (N,) whole numbers or None. Boxes of different labels never meet.
        images: (N,) whole numbers or None. Boxes of different images never meet, and `max_output` counts by image.
        max_output: if given, only so many boxes of an image, over all labels: the same first, faster.
        box_format: "xyxy", "xywh" or "cxcywh".

    Returns:
        A pair: int64 indices of the selected boxes in the order of their selection, and their scores by then, which
        never rise, in the type of the scores.

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
