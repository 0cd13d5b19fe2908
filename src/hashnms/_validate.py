"""Every argument check and every message: name, need, got. The core trusts what has passed here.

The numbers in the arrays are checked by the core itself, in the pass it makes anyway; when it refuses, `illegal_rows`
finds out why.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from numbers import Real
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from hashnms._core import BoxFormat

Array = NDArray[Any]

BOX_FORMATS = {"xyxy": BoxFormat.xyxy, "xywh": BoxFormat.xywh, "cxcywh": BoxFormat.cxcywh}

_MOST_BOXES = 2**32 - 1
_FLOAT32, _FLOAT64, _INT64 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64)


def boxes_array(boxes: Any) -> Array:
    """Boxes as a contiguous (N, 4) float32 or float64 array."""
    array = _real_array("boxes", boxes)
    if array.shape == (0,):
        array = array.reshape(0, 4)
    if array.ndim != 2 or array.shape[1] != 4:
        raise ValueError(f"boxes must have shape (N, 4), got {array.shape}")
    if len(array) > _MOST_BOXES:
        raise ValueError(f"boxes must be at most {_MOST_BOXES:,}, got {len(array):,}")
    return array


def scores_array(scores: Any, num_boxes: int) -> Array:
    """Scores as a contiguous float32 or float64 array, one for each box."""
    array = _real_array("scores", scores)
    if array.shape != (num_boxes,):
        raise ValueError(f"scores must have shape ({num_boxes},), one for each box, got {array.shape}")
    return array


def labels_array(labels: Any, num_boxes: int) -> Array | None:
    """Labels as a contiguous int64 array, one for each box, or None."""
    if labels is None:
        return None
    array = _as_array("labels", labels)
    if array.size == 0 and array.dtype == _FLOAT64:  # an empty list
        array = array.astype(_INT64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"labels must be integers, got {array.dtype}")
    if array.shape != (num_boxes,):
        raise ValueError(f"labels must have shape ({num_boxes},), one for each box, got {array.shape}")
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise ValueError(f"labels must fit int64, got {array.max()}")
    return np.ascontiguousarray(array, _INT64)


def box_format_value(box_format: str) -> BoxFormat:
    """The core's name for a box format."""
    try:
        return BOX_FORMATS[box_format]
    except (KeyError, TypeError):
        raise ValueError(f"box_format must be one of {', '.join(BOX_FORMATS)}, got {box_format!r}") from None


def alpha_value(alpha: Any) -> float:
    """Alpha in (0, 1)."""
    return _number("alpha", alpha, "in (0, 1)", lambda value: 0.0 < value < 1.0)


def bound_value(bound: Any) -> float:
    """An IoU bound in (0, 1)."""
    return _number("bound", bound, "in (0, 1)", lambda value: 0.0 < value < 1.0)


def origin_value(name: str, origin: Any) -> float:
    """The centre W_0 or H_0 of cell 0."""
    return _number(name, origin, "finite and above 0", lambda value: 0.0 < value < np.inf)


def shift_value(name: str, shift: Any) -> float:
    """The shift b_x or b_y."""
    return _number(name, shift, "finite", lambda value: -np.inf < value < np.inf)


def count_value(name: str, count: Any) -> int:
    """An integer of at least 1."""
    try:
        value = operator.index(count)
    except TypeError:
        value = None
    if value is None or isinstance(count, bool):
        raise TypeError(f"{name} must be an integer, got {count!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    return value


def illegal_rows(boxes: Array, scores: Array | None, box_format: str, alpha: float) -> NoReturn:
    """Say which number the core refused."""
    sizes = boxes[:, 2:] - boxes[:, :2] if box_format == "xyxy" else boxes[:, 2:]
    not_finite = ~np.isfinite(boxes).all(axis=1)
    if not_finite.any():
        raise ValueError(f"boxes must be finite, got {_first_row(boxes, not_finite)}")
    negative = (sizes < 0).any(axis=1)
    if negative.any():
        need = "x2 >= x1 and y2 >= y1" if box_format == "xyxy" else "width >= 0 and height >= 0"
        raise ValueError(f"boxes must have {need}, got {_first_row(boxes, negative)}")
    if scores is not None:
        not_finite = ~np.isfinite(scores)
        if not_finite.any():
            raise ValueError(f"scores must be finite, got {_first_row(scores, not_finite)}")
    reach = np.abs(boxes).max(axis=1)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        cells = reach / np.where(sizes > 0, sizes, np.inf).min(axis=1).astype(np.float64)
    furthest = np.arange(len(boxes)) == np.argmax(cells)
    raise ValueError(
        f"boxes must not be so small for their distance from the origin that alpha = {alpha} has no cell for them, "
        f"got {_first_row(boxes, furthest)}"
    )


def _first_row(values: Array, bad: Any) -> str:
    row, count = int(np.argmax(bad)), int(np.sum(bad))
    return f"{values[row].tolist()} in row {row} ({count} such row{'s' if count != 1 else ''})"


def _number(name: str, value: Any, need: str, fits: Callable[[float], bool]) -> float:
    if type(value) is not float and (not isinstance(value, Real) or isinstance(value, (bool, np.bool_))):
        raise TypeError(f"{name} must be a number {need}, got {value!r}")
    number = float(value)
    if not fits(number):
        raise ValueError(f"{name} must be {need}, got {value}")
    return number


def _as_array(name: str, values: Any) -> Array:
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name} must be a plain array, got a masked one: its mask would be ignored")
    try:
        return np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} must be an array, got rows of different lengths") from None


def _real_array(name: str, values: Any) -> Array:
    """A contiguous float32 or float64 array: those as they are, smaller floats and integers as float32."""
    if type(values) is np.ndarray and (values.dtype is _FLOAT32 or values.dtype is _FLOAT64):
        return values if values.flags.c_contiguous else np.ascontiguousarray(values)
    array = _as_array(name, values)
    dtype: np.dtype[Any]
    if array.dtype.name == "float64":
        dtype = _FLOAT64
    elif array.dtype.name in ("float16", "bfloat16", "float32"):
        dtype = _FLOAT32
    elif array.dtype.kind in "iu":
        dtype = _float_for_integers(name, array)
    else:
        raise TypeError(
            f"{name} must be real numbers (float16, bfloat16, float32, float64, integer), got {array.dtype}"
        )
    return np.asarray(array, dtype, order="C")


def _float_for_integers(name: str, array: Array) -> np.dtype[Any]:
    """float32 where it holds the integers exactly, else float64 where that does."""
    largest = max(abs(int(array.min())), abs(int(array.max()))) if array.size else 0
    if largest > 2**53:
        raise ValueError(f"{name} must be integers that float64 holds exactly, at most 2**53, got {largest}")
    return _FLOAT32 if largest <= 2**24 else _FLOAT64
