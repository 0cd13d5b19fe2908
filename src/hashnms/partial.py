"""Exact NMS of part of a scene: what is certain about its boxes, whatever the rest of the scene holds.

For scenes that no call can hold: divide them, ask `partial_nms` about each part, and go on with what is undecided.
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
    """What is certain about a box of a part."""

    SUPPRESSED = 0  #: a kept box overlaps it, in the whole scene, too
    KEPT = 1  #: it is kept in the whole scene
    UNDECIDED = 2  #: it depends on boxes outside of the part


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
    """What greedy NMS of a whole scene certainly does with the boxes of a part of it.

    By decreasing score, a box is suppressed if a kept box overlaps it; else undecided if it is open or an undecided box
    overlaps it; else kept. A scene is decided in rounds: divide it into parts such that of two boxes whose `regions`
    meet at least one part has both, and call a box open if another part has it, too. A box that is undecided in every
    part that has it is suppressed by no box kept so far: the undecided boxes are a scene of their own, for the next
    round. Rows must be in the order of the scene where scores tie.

    Args:
        boxes: (N, 4), see `hnms` for the types; arrays or CPU tensors, as all others.
        scores: (N,), any real numbers.
        iou_threshold: in [0, 1], as for `nms`.
        open: (N,) bools or None: which boxes a box outside of the part may suppress, or be suppressed by. None: no box;
            then all are decided as by `nms`.
        kept: (N,) bools or None: which boxes are known to be kept.
        labels: (N,) whole numbers or None. Boxes of different labels never meet.
        images: (N,) whole numbers or None. Boxes of different images never meet.
        metric: "iou", "ios" or "diou", as for `nms`.
        inclusive: suppress also where the overlap equals the threshold, which must be above 0 then.
        box_format: "xyxy", "xywh" or "cxcywh".

    Returns:
        (N,) int8: the `Status` of each box.

    Raises:
        ValueError, TypeError: as `nms`.

    The right part of a scene: its first box reaches over the border, and the second depends on it.

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
    """Of each box the part around its centre that meets that of every box which it could suppress, or the reverse.

    IoU > t needs `|dx| <= (w1 + w2) / 2 * (1 - t) / (1 + t)`, to which each box adds its share. With `metric="ios"`,
    and for thresholds below 1/1024, it is the whole box. All boxes of a scene must have ordinary sizes (for float32
    areas from 1e-31 on), or be given in one call.

    Returns:
        (N, 4) float64: x1, y1, x2, y2, whatever the `box_format`.

    >>> regions([[0, 0, 12, 6]], 0.5).round(3)
    array([[4., 2., 8., 4.]])
    """
    result: NDArray[np.float64] | None = _core.regions(boxes, iou_threshold, metric, inclusive, box_format)
    if result is None:
        result = REGIONS.converted(boxes, iou_threshold, metric, inclusive, box_format)
    return result
