"""Exact NMS of part of a scene: what is certain about its boxes, whatever the rest of the scene contains.

For scenes too large for one call: divide them, call `partial_nms` on each part, and continue with the undecided boxes.
`hashnms.scenes` does that with files; docs/howto/scale.md explains it.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from hashnms import _core
from hashnms._calls import PARTIAL_NMS, REGIONS
from hashnms._settings import BoxFormatName, MetricName
from hashnms._tensors import Values


class Status(IntEnum):
    """The certain status of a box in a part of a scene."""

    SUPPRESSED = 0  #: suppressed by a kept box, in the whole scene too
    KEPT = 1  #: kept in the whole scene
    UNDECIDED = 2  #: depends on boxes outside the part


def partial_nms(
    boxes: Values,
    scores: Values,
    iou_threshold: float = 0.5,
    *,
    open: Values | None = None,
    kept: Values | None = None,
    labels: Values | None = None,
    images: Values | None = None,
    metric: MetricName = "iou",
    inclusive: bool = False,
    box_format: BoxFormatName = "xyxy",
) -> NDArray[np.int8]:
    """Decide which boxes of a part of a scene greedy NMS of the whole scene certainly keeps or suppresses.

    Boxes are taken by decreasing score. A box is suppressed if a kept box overlaps it. Otherwise it is undecided if it
    is open or an undecided box overlaps it. Otherwise it is kept. A scene is decided in rounds. Divide it into parts
    such that any two boxes whose `regions` intersect are together in at least one part. A box is open if another part
    also contains it. A box that is undecided in every part that contains it is not suppressed by any box kept so far.
    So the undecided boxes are a scene of their own, for the next round. Where scores tie, rows must be in the order of
    the scene.

    Args:
        boxes: (N, 4), see `hnms` for the types. All arguments are arrays or CPU tensors.
        scores: (N,), any real numbers.
        iou_threshold: in [0, 1], as for `nms`.
        open: (N,) bools or None: whether a box outside the part may suppress this box or be suppressed by it. None: no
            box is open, and all are decided as by `nms`.
        kept: (N,) bools or None: whether this box is known to be kept.
        labels: (N,) whole numbers or None. Boxes with different labels are never compared.
        images: (N,) whole numbers or None. Boxes of different images are never compared.
        metric: "iou", "ios" or "diou", as for `nms`.
        inclusive: also suppress where the overlap equals the threshold, which must then be above 0.
        box_format: "xyxy", "xywh" or "cxcywh".

    Returns:
        (N,) int8: the `Status` of each box.

    Raises:
        ValueError, TypeError: as `nms`.

    In this right part of a scene, the first box reaches over the border, and the second depends on it.

    >>> boxes = [[0, 0, 10, 10], [3, 0, 13, 10], [30, 0, 40, 10], [31, 0, 41, 10]]
    >>> status = partial_nms(boxes, [0.9, 0.8, 0.7, 0.6], 0.5, open=[True, False, False, False])
    >>> [Status(value).name for value in status]
    ['UNDECIDED', 'UNDECIDED', 'KEPT', 'SUPPRESSED']
    """
    arguments = (boxes, scores, labels, images, open, kept, iou_threshold, metric, inclusive, box_format)
    result: NDArray[np.int8] | None = _core.partial_nms(*arguments)
    if result is None:
        result = PARTIAL_NMS.converted(*arguments)
    return result


def regions(
    boxes: Values,
    iou_threshold: float = 0.5,
    *,
    metric: MetricName = "iou",
    inclusive: bool = False,
    box_format: BoxFormatName = "xyxy",
) -> NDArray[np.float64]:
    """Shrink each box to its region: if one of two boxes can suppress the other, their regions intersect.

    IoU > t needs `|dx| <= (w1 + w2) / 2 * (1 - t) / (1 + t)`, so a region is its box scaled by (1 - t) / (1 + t) around
    its centre. With `metric="ios"`, and for thresholds below 1/1024, it is the whole box. All boxes of a scene must
    have ordinary sizes (with float32, areas of at least 1e-31) or be given in one call.

    Args:
        boxes: (N, 4), see `hnms` for the types; an array, a list or a CPU tensor.
        iou_threshold: in [0, 1], as in `nms`.
        metric: "iou", "ios" or "diou", as in `nms`.
        inclusive: as in `nms`.
        box_format: "xyxy", "xywh" or "cxcywh".

    Returns:
        (N, 4) float64: x1, y1, x2, y2, whatever the `box_format`.

    >>> regions([[0, 0, 12, 6]], 0.5).round(3)
    array([[4., 2., 8., 4.]])
    """
    result: NDArray[np.float64] | None = _core.regions(boxes, iou_threshold, metric, inclusive, box_format)
    if result is None:
        result = REGIONS.converted(boxes, iou_threshold, metric, inclusive, box_format)
    return result
