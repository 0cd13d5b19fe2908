"""The suppression functions: arrays or tensors in, indices of the kept boxes out.

Each public function takes tensors to the one of the same name in `hashnms.torch.ops`, and arrays to its `host_` half
below, which calls the core. The halves take CPU tensors, too, and return arrays, or tensors where the core can read
theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashnms import _core, _validate
from hashnms._tensors import is_tensor, tensor_ops
from hashnms._validate import BoxFormatName, SoftMethodName
from hashnms.hashing import host_iou_hash, rows_with_codes


def hnms(
    boxes: ArrayLike,
    scores: ArrayLike,
    *,
    alpha: float = 0.7,
    num_hashes: int = 1,
    labels: ArrayLike | None = None,
    box_format: BoxFormatName = "xyxy",
) -> NDArray[np.int64]:
    """Hashing-based non-maximum suppression: keep the best box of each IoUHash cell, O(N) on any data.

    Boxes that share a cell overlap by at least `iou_lower_bound(alpha)`, so nothing is removed that does not overlap
    a box of at least its score by that much. Boxes that overlap more may still lie in two cells: `num_hashes` runs
    with shifted cells, each on what the last one left, remove most of those (Alg. 2 and 3 of the paper).

    Args:
        boxes: (N, 4), x1, y1, x2, y2 by default: an array, a list, or a torch tensor on any device. float32 and float64
            as they are; float16, bfloat16 and integers as float32, integers beyond 2**24 as float64.
        scores: (N,), any real numbers.
        alpha: in (0, 1), the IoU of two boxes at the centres of adjacent cells. Greater means smaller cells and more
            boxes kept.
        num_hashes: how many hash functions, K in the paper, from 1 to 1000.
        labels: (N,) integers or None. Boxes of different labels never meet.
        box_format: "xyxy", "xywh" (corner and size) or "cxcywh" (centre and size).

    Returns:
        int64 indices of the kept boxes, by decreasing score, ties to the lower index. In a cell, too, the lower
        index wins a tie. Boxes without area belong to no cell and are always kept. A tensor on the device of boxes
        where these are one, as every function here returns it (docs/gpu.md); else an array.

    Raises:
        ValueError: for shapes that do not fit, numbers that are not finite, boxes of negative size and parameters
            out of range.
        TypeError: for types that are not numbers.

    >>> boxes = [[0, 0, 100, 100], [1, 1, 101, 101], [200, 0, 300, 100]]
    >>> hnms(boxes, [0.8, 0.9, 0.5])
    array([1, 2])
    """
    if type(boxes) is np.ndarray:  # first of all: for ten boxes every check counts
        keep = _core.hnms(boxes, scores, labels, alpha, num_hashes, box_format)
        return _converted_hnms(boxes, scores, labels, alpha, num_hashes, box_format) if keep is None else keep
    function = tensor_ops().hnms if is_tensor(boxes) else host_hnms
    return function(boxes, scores, labels, alpha, num_hashes, box_format)


@overload
def nms(
    boxes: ArrayLike,
    scores: ArrayLike,
    iou_threshold: float = ...,
    *,
    labels: ArrayLike | None = ...,
    score_threshold: float | None = ...,
    max_output: int | None = ...,
    box_format: BoxFormatName = ...,
    return_suppressor: Literal[False] = ...,
) -> NDArray[np.int64]: ...
@overload
def nms(
    boxes: ArrayLike,
    scores: ArrayLike,
    iou_threshold: float = ...,
    *,
    labels: ArrayLike | None = ...,
    score_threshold: float | None = ...,
    max_output: int | None = ...,
    box_format: BoxFormatName = ...,
    return_suppressor: Literal[True],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
def nms(
    boxes: ArrayLike,
    scores: ArrayLike,
    iou_threshold: float = 0.5,
    *,
    labels: ArrayLike | None = None,
    score_threshold: float | None = None,
    max_output: int | None = None,
    box_format: BoxFormatName = "xyxy",
    return_suppressor: bool = False,
) -> NDArray[np.int64] | tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Greedy non-maximum suppression, exactly: what `torchvision.ops.nms` returns on the CPU, in its order.

    By decreasing score, a box is kept unless its IoU with a kept box is above the threshold. Kept boxes are found by
    cells, not by trying all: the cost is O(N log N) for sorting and O(N) for the rest at any fixed threshold above 0,
    but on contrived data (docs/nms.md). At 0 boxes of all sizes can meet: it grows with the number of different sizes.

    Args:
        boxes: (N, 4), see `hnms` for the types.
        scores: (N,), any real numbers.
        iou_threshold: in [0, 1]. A box is suppressed where IoU > iou_threshold, strictly; the IoU is computed in the
            boxes' float type and compared with the threshold as a double.
        labels: (N,) integers or None. Boxes of different labels never meet.
        score_threshold: if given, only boxes with a score above it take part.
        max_output: if given, stop when so many boxes are kept, over all labels: the same boxes first, sooner.
        box_format: "xyxy", "xywh" or "cxcywh".
        return_suppressor: also return, for each box, which kept box removed it.

    Returns:
        int64 indices of the kept boxes, by decreasing score, ties to the lower index. With `return_suppressor`, a
        pair of that and an (N,) int64 array: the index of the first kept box whose IoU with the box is above the
        threshold, the box itself if it is kept, -1 if it fell to `score_threshold` or `max_output` alone.

    Raises:
        ValueError, TypeError: as `hnms`.

    >>> boxes = [[0, 0, 10, 10], [1, 0, 11, 10], [20, 0, 30, 10]]
    >>> nms(boxes, [0.8, 0.9, 0.5], 0.5)
    array([1, 2])
    >>> nms(boxes, [0.8, 0.9, 0.5], 0.5, return_suppressor=True)[1]
    array([1, 1, 2])
    """
    if type(boxes) is np.ndarray:  # as in `hnms`
        result = _core.nms(
            boxes, scores, labels, iou_threshold, score_threshold, max_output, box_format, return_suppressor
        )
        if result is not None:
            return result
    settings = (iou_threshold, score_threshold, max_output, box_format)
    if is_tensor(boxes):
        op = tensor_ops().nms_suppressor if return_suppressor else tensor_ops().nms
        return op(boxes, scores, labels, *settings)  # type: ignore[no-any-return]
    function = _converted_nms if type(boxes) is np.ndarray else host_nms
    return function(boxes, scores, labels, *settings, return_suppressor)  # type: ignore[no-any-return]


def batched_nms(boxes: ArrayLike, scores: ArrayLike, idxs: ArrayLike, iou_threshold: float) -> NDArray[np.int64]:
    """`nms` within each group, with the signature of `torchvision.ops.batched_nms`: `idxs` are the labels.

    They may be floats, as there: equal ones are one group. No coordinate is moved to keep the groups apart, so results
    do not depend on how large the coordinates are.

    >>> batched_nms([[0, 0, 10, 10], [1, 0, 11, 10]], [0.8, 0.9], [0, 1], 0.5)
    array([1, 0])
    """
    if is_tensor(idxs):
        idxs = tensor_ops().integer_labels(idxs)
    elif isinstance(idxs, np.ndarray) and idxs.dtype.kind == "f":
        idxs = (idxs + 0).view(f"i{idxs.itemsize}")  # equal where these are: -0.0 is 0.0
    return nms(boxes, scores, iou_threshold, labels=idxs)


def soft_nms(
    boxes: ArrayLike,
    scores: ArrayLike,
    *,
    method: SoftMethodName = "gaussian",
    sigma: float = 0.5,
    iou_threshold: float = 0.3,
    min_score: float = 1e-3,
    labels: ArrayLike | None = None,
    max_output: int | None = None,
    box_format: BoxFormatName = "xyxy",
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Soft-NMS, exactly: what the O(N**2) loop of Bodla et al. returns, in order and in every bit of the scores.

    Again and again the box with the highest score is selected, ties to the lower index, and every box of its label
    that is still left is lowered by its IoU with it: score * decay, with

    - "gaussian": decay = exp(-IoU**2 / sigma);
    - "linear": decay = 1 - IoU where IoU > iou_threshold, else 1;
    - "hard": gone where IoU > iou_threshold, which is `nms`.

    A box whose score falls below `min_score` is gone. The IoU is computed in the boxes' float type; the decay in
    double, with libm's exp, and rounded once to the scores' type, in which they are multiplied: the last bit of float64
    scores is that of libm on this machine. Scores are lowered only where it can matter (docs/soft_nms.md): the cost is
    O(N log N) and a share of the pairs that overlap, all of them at worst.

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
        labels: (N,) integers or None. Boxes of different labels never meet.
        max_output: if given, only so many boxes over all labels: the same first, sooner.
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
    function = host_soft_nms if type(boxes) is np.ndarray or not is_tensor(boxes) else tensor_ops().soft_nms
    return function(boxes, scores, labels, method, sigma, iou_threshold, min_score, max_output, box_format)


def host_hnms(
    boxes: Any, scores: Any, labels: Any, alpha: float, num_hashes: int, box_format: BoxFormatName
) -> NDArray[np.int64]:
    """`hnms` by the core."""
    keep = _core.hnms(boxes, scores, labels, alpha, num_hashes, box_format)
    return _converted_hnms(boxes, scores, labels, alpha, num_hashes, box_format) if keep is None else keep


def _converted_hnms(
    boxes: Any, scores: Any, labels: Any, alpha: float, num_hashes: int, box_format: BoxFormatName
) -> NDArray[np.int64]:
    """What the core did not take as it is: it takes it converted, or the error says why."""
    alpha, num_hashes = _validate.alpha_value(alpha), _validate.num_hashes_value(num_hashes)
    box_format = _validate.box_format_value(box_format)
    box_array, score_array, label_array = _validate.plain_arrays(boxes, scores, labels)
    keep = _core.hnms(box_array, score_array, label_array, alpha, num_hashes, box_format)
    if keep is None:
        _validate.legal_numbers(box_array, score_array, box_format)
        _validate.refuse_codes(box_array, rows_with_codes(box_array, alpha, num_hashes, box_format), alpha)
    return keep


def host_hnms_once(
    boxes: Any,
    scores: Any,
    labels: Any,
    alpha: float,
    w0: float,
    h0: float,
    bx: float,
    by: float,
    box_format: BoxFormatName,
) -> NDArray[np.int64]:
    """HNMS with any one hash function: the core hashes, NumPy sorts."""
    box_array, score_array, label_array = _validate.plain_arrays(boxes, scores, labels)
    _validate.finite_scores(score_array)
    i, j, m, n = host_iou_hash(box_array, alpha, w0, h0, bx, by, box_format).T
    own = np.where(np.minimum(i, j) == np.iinfo(np.int64).min, np.arange(len(box_array)), -1)  # no cell, no rival
    fields = np.stack([own, i, j, m, n, *([] if label_array is None else [label_array])])
    by_score = np.argsort(-score_array, kind="stable")
    fields = fields[:, by_score]
    by_cell = np.lexsort(fields)
    is_first = np.ones(len(by_cell), np.bool_)
    is_first[1:] = (np.diff(fields[:, by_cell], axis=1) != 0).any(axis=0)
    kept: NDArray[np.int64] = by_score[np.sort(by_cell[is_first])]
    return kept


def host_nms(
    boxes: Any,
    scores: Any,
    labels: Any,
    iou_threshold: float,
    score_threshold: float | None,
    max_output: int | None,
    box_format: BoxFormatName,
    return_suppressor: bool = False,
) -> Any:
    """`nms` by the core."""
    settings = (iou_threshold, score_threshold, max_output, box_format, return_suppressor)
    result = _core.nms(boxes, scores, labels, *settings)
    return _converted_nms(boxes, scores, labels, *settings) if result is None else result


def _converted_nms(
    boxes: Any,
    scores: Any,
    labels: Any,
    iou_threshold: float,
    score_threshold: float | None,
    max_output: int | None,
    box_format: BoxFormatName,
    return_suppressor: bool,
) -> Any:
    """As `_converted_hnms`."""
    settings = (
        _validate.share_value("iou_threshold", iou_threshold),
        _validate.score_threshold_value(score_threshold),
        _validate.max_output_value(max_output),
        _validate.box_format_value(box_format),
        return_suppressor,
    )
    return _on_plain_arrays(_core.nms, (boxes, scores, labels), settings, box_format)


def host_soft_nms(
    boxes: Any,
    scores: Any,
    labels: Any,
    method: SoftMethodName,
    sigma: float,
    iou_threshold: float,
    min_score: float,
    max_output: int | None,
    box_format: BoxFormatName,
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """`soft_nms` by the core."""
    result = _core.soft_nms(boxes, scores, labels, method, sigma, iou_threshold, min_score, max_output, box_format)
    if result is None:
        settings = (
            _validate.method_value(method),
            _validate.sigma_value(sigma),
            _validate.share_value("iou_threshold", iou_threshold),
            _validate.min_score_value(min_score),
            _validate.max_output_value(max_output),
            _validate.box_format_value(box_format),
        )
        if method == "hard":
            score_threshold = float(np.nextafter(settings[3], -np.inf))
            keep = host_nms(boxes, scores, labels, iou_threshold, score_threshold, max_output, box_format)
            return keep, _validate.scores_array(scores)[np.asarray(keep)]
        result = _on_plain_arrays(_core.soft_nms, (boxes, scores, labels), settings, box_format)
    return result


def _on_plain_arrays(
    function: Callable[..., Any], arrays: tuple[Any, Any, Any], settings: tuple[Any, ...], box_format: str
) -> Any:
    """What the core returns once the arrays that it did not take are converted, or the error that says why."""
    boxes, scores, labels = _validate.plain_arrays(*arrays)
    result = function(boxes, scores, labels, *settings)
    if result is None:
        _validate.refuse_numbers(boxes, scores, box_format)
    return result
