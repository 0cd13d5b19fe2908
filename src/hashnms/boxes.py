"""Box formats, corner order, and pairwise IoU for a few thousand boxes at a time."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashnms import _settings, _tensors, _validate
from hashnms._settings import BoxFormatName
from hashnms._tensors import AnyTensor, Tensor, Values


def to_xyxy(boxes: ArrayLike, box_format: BoxFormatName) -> NDArray[Any]:
    """Convert boxes of any format to corners, in their own float type.

    >>> to_xyxy([[10.0, 10.0, 4.0, 2.0]], "cxcywh")
    array([[ 8.,  9., 12., 11.]])
    """
    array = _validate.boxes_array(boxes)
    _settings.box_format_value(box_format)
    _validate.valid_rows(array, box_format)
    if box_format == "xyxy":
        return array.copy()
    first, size = array[:, :2], array[:, 2:]
    corners = (first, first + size) if box_format == "xywh" else (first - size / 2, first + size / 2)
    return np.concatenate(corners, axis=1)


@overload
def order_corners(boxes: AnyTensor[Tensor]) -> Tensor: ...
@overload
def order_corners(boxes: ArrayLike) -> NDArray[Any]: ...
def order_corners(boxes: Values) -> Any:
    """Order the corners of boxes so that x1 <= x2 and y1 <= y2, as all functions here need them.

    The input may have any two opposite corners, as ONNX's and TensorFlow's NMS accept them. An array whose corners are
    already in order is returned itself, without a copy. A tensor gives a new tensor on its device: its values are not
    read, so that graphs can be compiled.

    >>> order_corners([[10.0, 0.0, 4.0, 2.0], [0.0, 0.0, 1.0, 1.0]])
    array([[ 4.,  0., 10.,  2.],
           [ 0.,  0.,  1.,  1.]])
    """
    if _tensors.is_tensor(boxes):
        _validate.boxes_tensor(boxes)
        return _tensors.ops.order_corners(boxes)
    array = _validate.boxes_array(boxes)
    first, second = array[:, :2], array[:, 2:]
    if (first <= second).all():
        return array
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], axis=1)


def pairwise_iou(boxes1: ArrayLike, boxes2: ArrayLike) -> NDArray[Any]:
    """The (N, M) IoUs of all pairs of xyxy boxes, in their float type; 0 where a box has no area.

    >>> pairwise_iou([[0.0, 0.0, 2.0, 2.0]], [[1.0, 0.0, 3.0, 2.0], [0.0, 0.0, 2.0, 2.0]])
    array([[0.33333333, 1.        ]])
    """
    a, b = _validate.boxes_array(boxes1, "boxes1"), _validate.boxes_array(boxes2, "boxes2")
    _validate.valid_rows(a, "xyxy", "boxes1")
    _validate.valid_rows(b, "xyxy", "boxes2")
    area_a, area_b = ((x[:, 2] - x[:, 0]) * (x[:, 3] - x[:, 1]) for x in (a, b))
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, 2:], b[None, :, 2:])
    side = np.maximum(high - low, 0)
    intersection = side[..., 0] * side[..., 1]
    union = area_a[:, None] + area_b[None, :] - intersection
    iou: NDArray[Any] = np.divide(intersection, union, out=np.zeros_like(union), where=union > 0)
    return iou
