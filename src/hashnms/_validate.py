"""Every argument check and every message: name, need, got. The core trusts what has passed here.

The core takes plain arrays as they are and checks their numbers in the pass it makes anyway. Only when it refuses are
the arrays looked at here: `plain_arrays` converts them, `legal_numbers` and `refuse_codes` find out what is wrong.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from numbers import Real
from typing import Any, Literal, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from hashnms._tensors import array_of, is_tensor

Array = NDArray[Any]
Name = TypeVar("Name", bound=str)

BoxFormatName = Literal["xyxy", "xywh", "cxcywh"]
BOX_FORMATS: tuple[BoxFormatName, ...] = ("xyxy", "xywh", "cxcywh")

SoftMethodName = Literal["gaussian", "linear", "hard"]
SOFT_METHODS: tuple[SoftMethodName, ...] = ("gaussian", "linear", "hard")

_MOST_BOXES = 2**32 - 1
_FLOAT32, _FLOAT64, _INT64 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64)


def boxes_array(boxes: Any, name: str = "boxes") -> Array:
    """Boxes as a contiguous (N, 4) float32 or float64 array."""
    array = _real_array(name, boxes)
    if array.shape == (0,):
        array = array.reshape(0, 4)
    if array.ndim != 2 or array.shape[1] != 4:
        raise ValueError(f"{name} must have shape (N, 4), got {array.shape}")
    if len(array) > _MOST_BOXES:
        raise ValueError(f"{name} must be at most {_MOST_BOXES:,}, got {len(array):,}")
    return array


def scores_array(scores: Any, num_boxes: int | None = None) -> Array:
    """Scores as a contiguous float32 or float64 array, one for each box where their number is given."""
    array = _real_array("scores", scores)
    if num_boxes is not None and array.shape != (num_boxes,):
        raise ValueError(f"scores must have shape ({num_boxes},), one for each box, got {array.shape}")
    return array


def labels_array(labels: Any, num_boxes: int) -> Array | None:
    """Labels as a contiguous int64 array, one for each box, or None."""
    if labels is None:
        return None
    array = _as_array("labels", labels)
    if array.size == 0:  # of whatever type: an empty list is of floats
        array = array.astype(_INT64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"labels must be integers, got {array.dtype}")
    if array.shape != (num_boxes,):
        raise ValueError(f"labels must have shape ({num_boxes},), one for each box, got {array.shape}")
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise ValueError(f"labels must fit int64, got {array.max()}")
    return _plain(array, _INT64)


def plain_arrays(boxes: Any, scores: Any, labels: Any) -> tuple[Array, Array, Array | None]:
    """The arrays of a call in a form that the core takes."""
    box_array = boxes_array(boxes)
    return box_array, scores_array(scores, len(box_array)), labels_array(labels, len(box_array))


def same_device(boxes: Any, *others: Any) -> None:
    """Say which of scores and labels, where they are tensors, is not on the device of boxes, which is one."""
    if boxes.is_meta:
        raise ValueError("boxes must be a tensor with numbers, got one on the meta device")
    for name, values in zip(("scores", "labels"), others, strict=False):
        if is_tensor(values) and values.device != boxes.device:
            raise ValueError(f"{name} must be on the device of boxes, {boxes.device}, got {values.device}")


def box_format_value(box_format: Any) -> BoxFormatName:
    """The name of a box format."""
    return _name("box_format", box_format, BOX_FORMATS)


def alpha_value(alpha: Any) -> float:
    """Alpha in (0, 1)."""
    return _number("alpha", alpha, "in (0, 1)", lambda value: 0.0 < value < 1.0)


def bound_value(bound: Any) -> float:
    """An IoU bound in (0, 1)."""
    return _number("bound", bound, "in (0, 1)", lambda value: 0.0 < value < 1.0)


def share_value(name: str, share: Any) -> float:
    """A number in [0, 1]."""
    return _number(name, share, "in [0, 1]", lambda value: 0.0 <= value <= 1.0)


def score_threshold_value(score_threshold: Any) -> float:
    """A number; -inf, which every score is above, for None."""
    return -np.inf if score_threshold is None else score_value("score_threshold", score_threshold)


def score_value(name: str, score: Any) -> float:
    """Any number that scores can be compared with."""
    return _number(name, score, "not NaN", lambda value: not np.isnan(value))


def method_value(method: Any) -> SoftMethodName:
    """The name of the way Soft-NMS lowers scores."""
    return _name("method", method, SOFT_METHODS)


def sigma_value(sigma: Any) -> float:
    """The sigma of the gaussian decay. Beyond these limits all boxes decay to 0, or none at all."""
    return _number("sigma", sigma, "in [1e-30, 1e30]", lambda value: 1e-30 <= value <= 1e30)


def min_score_value(min_score: Any) -> float:
    """A score from 0 on: below 0 a decay would raise scores."""
    return _number("min_score", min_score, "finite and at least 0", lambda value: 0.0 <= value < np.inf)


def max_output_value(max_output: Any) -> int:
    """A number of boxes; more than there can be for None."""
    return _MOST_BOXES if max_output is None else min(count_value("max_output", max_output, least=0), _MOST_BOXES)


def origin_value(name: str, origin: Any) -> float:
    """The centre W_0 or H_0 of cell 0."""
    return _number(name, origin, "finite and above 0", lambda value: 0.0 < value < np.inf)


def shift_value(name: str, shift: Any) -> float:
    """The shift b_x or b_y, in cells."""
    return _number(name, shift, "below 2**53 in size", lambda value: abs(value) < 2.0**53)


def count_value(name: str, count: Any, least: int = 1, most: int | None = None) -> int:
    """An integer of at least `least` and at most `most`."""
    try:
        value = operator.index(count)
    except TypeError:
        value = None
    if value is None or isinstance(count, bool):
        raise TypeError(f"{name} must be an integer, got {count!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {_shown(value)}")
    if most is not None and value > most:
        raise ValueError(f"{name} must be at most {most}, got {_shown(value)}")
    return value


def num_hashes_value(num_hashes: Any) -> int:
    """The K of Multi-HNMS. More than a thousand shifts of a cell would only cost time."""
    return count_value("num_hashes", num_hashes, most=1000)


def steps_tuple(steps: Any, kinds: list[type]) -> tuple[Any, ...]:
    """The steps of a chain, one or more."""
    need = f"steps must be a list of one or more of {', '.join(kind.__name__ for kind in kinds)}"
    if isinstance(steps, str) or not isinstance(steps, Iterable):
        hint = " (Suppression.parse reads strings)" if isinstance(steps, str) else ""
        raise TypeError(f"{need}, got {steps!r}{hint}")
    chain = tuple(steps)
    if not chain:
        raise ValueError(f"{need}, got none")
    for step in chain:
        if type(step) not in kinds:
            raise TypeError(f"{need}, got {step!r}")
    return chain


def legal_numbers(boxes: Array, scores: Array, box_format: str) -> None:
    """Say which box or score is not legal."""
    legal_rows(boxes, box_format)
    finite_scores(scores)


def refuse_numbers(boxes: Array, scores: Array, box_format: str) -> NoReturn:
    """Say which box or score the core refused."""
    legal_numbers(boxes, scores, box_format)
    raise AssertionError("the core refused legal numbers")


def legal_rows(boxes: Array, box_format: str, name: str = "boxes") -> None:
    """Say which box is not finite or inside out."""
    not_finite = ~np.isfinite(boxes).all(axis=1)
    if not_finite.any():
        raise ValueError(f"{name} must be finite, got {_first_row(boxes, not_finite)}")
    inverted = (boxes[:, 2:] < (boxes[:, :2] if box_format == "xyxy" else 0)).any(axis=1)
    if inverted.any():
        need = "x2 >= x1 and y2 >= y1" if box_format == "xyxy" else "width >= 0 and height >= 0"
        raise ValueError(f"{name} must have {need}, got {_first_row(boxes, inverted)}")


def finite_scores(scores: Array) -> None:
    """Say which score is not finite."""
    not_finite = ~np.isfinite(scores)
    if not_finite.any():
        raise ValueError(f"scores must be finite, got {_first_row(scores, not_finite)}")


def refuse_codes(boxes: Array, has_code: Array, alpha: float) -> NoReturn:
    """Say which box has no code."""
    raise ValueError(
        f"boxes must have cells that 64-bit numbers can count, at alpha = {alpha}: not tiny for their distance from "
        f"the origin, nor near the largest float, got {_first_row(boxes, ~has_code)}"
    )


def _first_row(values: Array, bad: Any) -> str:
    row, count = int(np.argmax(bad)), int(np.sum(bad))
    return f"{values[row].tolist()} in row {row} ({count} such row{'s' if count != 1 else ''})"


def _name(name: str, value: Any, known: tuple[Name, ...]) -> Name:
    if isinstance(value, str):
        for one in known:
            if one == value:
                return one
    raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")


def _number(name: str, value: Any, need: str, fits: Callable[[float], bool]) -> float:
    if type(value) is not float and (not isinstance(value, Real) or isinstance(value, (bool, np.bool_))):
        raise TypeError(f"{name} must be a number, {need}, got {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = np.inf
    if not fits(number):
        raise ValueError(f"{name} must be {need}, got {_shown(value)}")
    return number


def _shown(number: Any) -> str:
    """A number as an error shows it: Python writes no integer of more than some thousand digits."""
    try:
        return str(number)
    except ValueError:
        return "an integer of thousands of digits"


def _as_array(name: str, values: Any) -> Array:
    if type(values) is np.ndarray:
        return values
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name} must be a plain array, got a masked one: its mask would be ignored")
    if is_tensor(values):
        return array_of(name, values)
    try:
        return np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} must be an array, got rows of different lengths") from None


def _real_array(name: str, values: Any) -> Array:
    """A contiguous float32 or float64 array: those as they are, smaller floats and integers as float32."""
    array = _as_array(name, values)
    if (array.dtype is _FLOAT32 or array.dtype is _FLOAT64) and array.flags.c_contiguous and array.flags.aligned:
        return array
    dtype: np.dtype[Any]
    if array.dtype.name == "float64":
        dtype = _FLOAT64
    elif array.dtype.name in ("float16", "bfloat16", "float32"):
        dtype = _FLOAT32
    elif array.dtype.kind in "iu":
        dtype = _float_for_integers(name, array)
    else:
        got = type(values).__name__ if array.dtype == object else array.dtype
        raise TypeError(f"{name} must be real numbers (float16, bfloat16, float32, float64, integer), got {got}")
    return _plain(array, dtype)


def _plain(array: Array, dtype: np.dtype[Any]) -> Array:
    """Contiguous and aligned, in this type: a copy only where it is needed."""
    plain = np.asarray(array, dtype, order="C")
    return plain if plain.flags.aligned else plain.copy()


def _float_for_integers(name: str, array: Array) -> np.dtype[Any]:
    """float32 where it holds the integers exactly, else float64 where that does."""
    largest = max(abs(int(array.min())), abs(int(array.max()))) if array.size else 0
    if largest > 2**53:
        raise ValueError(f"{name} must be integers that float64 holds exactly, at most 2**53, got {largest}")
    return _FLOAT32 if largest <= 2**24 else _FLOAT64
