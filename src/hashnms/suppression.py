"""The suppression functions: arrays in, indices of the kept boxes out."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashnms import _core, _threads, _validate
from hashnms._validate import BoxFormatName
from hashnms.hashing import core_family, rows_with_codes


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
        boxes: (N, 4), x1, y1, x2, y2 by default. float32 and float64 as they are; float16, bfloat16 and integers
            as float32, integers beyond 2**24 as float64.
        scores: (N,), any real numbers.
        alpha: in (0, 1), the IoU of two boxes at the centres of adjacent cells. Greater means smaller cells and more
            boxes kept.
        num_hashes: how many hash functions, K in the paper, from 1 to 1000.
        labels: (N,) integers or None. Boxes of different labels never meet.
        box_format: "xyxy", "xywh" (corner and size) or "cxcywh" (centre and size).

    Returns:
        int64 indices of the kept boxes, by decreasing score, ties to the lower index. In a cell, too, the lower
        index wins a tie. Boxes without area belong to no cell and are always kept.

    Raises:
        ValueError: for shapes that do not fit, numbers that are not finite, boxes of negative size and parameters
            out of range.
        TypeError: for types that are not numbers.

    >>> boxes = [[0, 0, 100, 100], [1, 1, 101, 101], [200, 0, 300, 100]]
    >>> hnms(boxes, [0.8, 0.9, 0.5])
    array([1, 2])
    """
    alpha = _validate.alpha_value(alpha)
    num_hashes = _validate.num_hashes_value(num_hashes)
    box_array = _validate.boxes_array(boxes)
    score_array = _validate.scores_array(scores, len(box_array))
    keep = _core.hnms(
        box_array,
        score_array,
        _validate.labels_array(labels, len(box_array)),
        core_family(alpha, num_hashes),
        _validate.box_format_value(box_format),
        _threads.get_num_threads(),
    )
    if keep is None:
        _validate.legal_rows(box_array, box_format)
        _validate.finite_scores(score_array)
        _validate.refuse_codes(box_array, rows_with_codes(box_array, alpha, num_hashes, box_format), alpha)
    return keep.view(np.int64)
