"""Keep labels apart as other packages do: their boxes are moved apart, with all roundings of that.

Torchvision and ultralytics add an offset to the coordinates of each label. That rounds, and an IoU close to the
threshold can then fall on its other side. The same offsets, added by the same operations, give the same detections.
"""

from __future__ import annotations

from typing import Any

import torchvision
from torch import Tensor

from hashnms import nms

#: Up to this many boxes, torchvision adds offsets, then suppresses all labels at once with a stable sort. Beyond, it
#: goes label by label and sorts the kept boxes with a sort that is not stable. Version 0.21: 5,000 on other devices.
_MOST_MOVED_ON_CPU, _MOST_MOVED_ELSEWHERE = 1000, 25_000


def moved_apart(boxes: Tensor, labels: Tensor, distance: Tensor | float) -> Tensor:
    """Move each box right and down by its label times the distance, in the type of the boxes."""
    return boxes + (labels.to(boxes) * distance)[:, None]


def torchvision_keep(
    boxes: Tensor,
    scores: Tensor,
    labels: Tensor,
    iou_threshold: float,
    most: int | None,
    *,
    exact_labels: bool = False,
) -> Tensor:
    """The first `most` rows that `torchvision.ops.batched_nms` keeps, with its ties; None and -1 as in a slice.

    With `exact_labels`, no offsets are added. Boxes that are not finite are an error, which torchvision does not raise.
    """
    iou_threshold = min(float(iou_threshold), 1.0)  # some switch NMS off with a value above 1
    enough = most + 1 if most is not None and most >= 0 else None
    keep: Any
    few = len(boxes) <= (_MOST_MOVED_ON_CPU if boxes.is_cpu else _MOST_MOVED_ELSEWHERE)
    if few and len(boxes) > 0 and not exact_labels:
        moved = moved_apart(boxes, labels, boxes.max() + 1)
        if moved.isfinite().all():
            keep = nms(moved, scores, iou_threshold, max_output=enough)
            return keep[:most]
        if boxes.isfinite().all():  # moved beyond the largest number of their type, float16
            keep = torchvision.ops.nms(moved, scores, iou_threshold)
            return keep[:most]
    keep = nms(boxes, scores, iou_threshold, labels=labels, max_output=enough)
    kept_scores = scores[keep]
    if few or not (kept_scores[1:] == kept_scores[:-1]).any():
        return keep[:most]
    if enough is not None:
        keep = nms(boxes, scores, iou_threshold, labels=labels)
    keep = keep.sort().values
    return keep[scores[keep].sort(descending=True).indices[:most]]
