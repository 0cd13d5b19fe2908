"""Argument checks for plots, and their messages; all others are in `_validate`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from hashnms._settings import _number, count_value
from hashnms._validate import Array, _as_array, _first_row, _kind, boxes_array, labels_array

Instance = TypeVar("Instance")


def box_or_boxes_array(boxes: Any) -> Array:
    """One box or several as a contiguous (N, 4) array."""
    array = _as_array("boxes", boxes, axes=2)
    return boxes_array(array[None] if array.shape == (4,) else array)


def box_with_area(boxes: Array, corners: Array, row: int) -> None:
    """Raise an error if the box of this row has no area."""
    if not (corners[row, 2:] > corners[row, :2]).all():
        raise ValueError(f"boxes must have area in row {row}, whose cell is drawn, got {boxes[row].tolist()}")


def row_value(row: Any, boxes: Array) -> int:
    """The index of one of the boxes."""
    if not len(boxes):
        raise ValueError("boxes must have at least one box, got none")
    return count_value("row", row, least=0, most=len(boxes) - 1)


def keep_array(keep: Any, num_boxes: int) -> Array:
    """Indices of boxes as a contiguous int64 array; None means all."""
    if keep is None:
        return np.arange(num_boxes)
    array = _as_array("keep", keep)
    if array.dtype.kind == "b":
        raise TypeError("keep must be indices, got bools: np.flatnonzero(keep) gives the indices")
    if array.ndim != 1:
        raise ValueError(f"keep must have shape (M,), got {array.shape}")
    rows = labels_array(array, len(array), "keep")
    assert rows is not None
    bad = (rows < 0) | (rows >= num_boxes)
    if bad.any():
        raise ValueError(f"keep must be indices of the {num_boxes:,} boxes, got {_first_row(rows, bad)}")
    return rows


def picture_array(image: Any) -> Array:
    """An image (H, W), (H, W, 3) or (H, W, 4), of uint8 or of floats in [0, 1]."""
    array = _as_array("image", image)
    if array.dtype.kind not in "uif":
        raise TypeError(f"image must be an array of numbers, a PIL image or a path, got {_kind(image, array)}")
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (3, 4)) or not array.size:
        is_channels_first = array.ndim == 3 and array.shape[0] in (1, 3, 4)
        hint = "; image.transpose(1, 2, 0) puts the channels last" if is_channels_first else ""
        raise ValueError(f"image must have shape (H, W), (H, W, 3) or (H, W, 4), got {array.shape}{hint}")
    greatest = 1 if array.dtype.kind == "f" else 255
    if not (array.min() >= 0 and array.max() <= greatest):
        got = f"{array.dtype} from {array.min()} to {array.max()}"
        raise ValueError(f"image must be integers in [0, 255] or floats in [0, 1], got {got}")
    return array.astype(np.uint8) if greatest == 255 else array


def label_names_dict(label_names: Any) -> dict[int, str]:
    """Label -> name."""
    need = "label_names must be a dict of label and name, or a list of names"
    if isinstance(label_names, str) or not isinstance(label_names, Iterable):
        raise TypeError(f"{need}, got {label_names!r}")
    names = dict(label_names if isinstance(label_names, Mapping) else enumerate(label_names))
    for label, name in names.items():
        if not isinstance(label, (int, np.integer)) or not isinstance(name, str):
            raise TypeError(f"{need}, got {label!r}: {name!r}")
    return {int(label): name for label, name in names.items()}


def width_value(name: str, width: Any) -> float:
    """The width of a line."""
    return _number(name, width, "finite and at least 0", lambda value: 0.0 <= value < np.inf)


def alphas_array(name: str, alphas: Any) -> Array:
    """A list of alphas."""
    if isinstance(alphas, str) or not isinstance(alphas, Iterable):
        raise TypeError(f"{name} must be a list of numbers in (0, 1), got {alphas!r}")
    fits = "numbers in (0, 1)"
    return np.array([_number(name, one, fits, lambda value: 0.0 < value < 1.0) for one in alphas], np.float64)


def instance_value(name: str, value: Any, kind: type[Instance]) -> Instance:
    """A value of this type."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be of type {kind.__name__}, got {value!r}")
    return value


def instances_list(name: str, values: Any, kind: type[Instance], count: int) -> list[Instance]:
    """`count` values of this type."""
    need = f"{name} must be {count} values of type {kind.__name__}"
    if not isinstance(values, Iterable):
        raise TypeError(f"{need}, got {values!r}")
    given = list(values.ravel() if isinstance(values, np.ndarray) else values)
    if len(given) != count:
        raise ValueError(f"{need}, got {len(given)}")
    return [instance_value(name, value, kind) for value in given]


def method_points(rows: Any, x: Any, y: Any) -> list[tuple[str, float, float]]:
    """Method, x and y of each row."""
    need = f"rows must be dicts with 'method', {x!r} and {y!r}"
    if isinstance(rows, (str, Mapping)) or not isinstance(rows, Iterable):
        raise TypeError(f"{need}, got {rows!r}")
    points = []
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise TypeError(f"{need}, got {row!r} in row {number}")
        for name in ("method", x, y):
            if name not in row:
                raise ValueError(f"{need}, got {', '.join(map(repr, row))} in row {number}")
        if not isinstance(row["method"], str):
            raise TypeError(f"'method' of rows must be a string, got {row['method']!r} in row {number}")
        of_x = _number(f"{x!r} of row {number}", row[x], "finite and above 0", lambda value: 0.0 < value < np.inf)
        points.append((row["method"], of_x, _number(f"{y!r} of row {number}", row[y], "finite", np.isfinite)))
    return points
