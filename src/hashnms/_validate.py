"""All checks of arrays and their messages: name, need, got. The core does not check again what has passed these checks.

The core takes plain arrays as they are and checks their numbers while it reads them. Only arguments that it refuses
come here, through `_calls.py`: `..._array` converts them, as `..._value` in `_settings.py` converts settings;
`valid_numbers` and `refuse_codes` find out what is wrong.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from hashnms import _core, _dlpack
from hashnms._tensors import array_of, is_proxy, is_tensor, not_dense

Array = NDArray[Any]

#: Sums of score * coordinate must stay below this.
_GREATEST_SUM = 1e300

_FLOAT32, _FLOAT64, _INT64 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64)


def boxes_array(boxes: Any, name: str = "boxes") -> Array:
    """Boxes as a contiguous (N, 4) float32 or float64 array."""
    array = _real_array(name, boxes, axes=2)
    if array.shape == (0,):
        array = array.reshape(0, 4)
    boxes_shape(array.shape, name)
    if len(array) > _core.MOST_BOXES:
        raise ValueError(f"{name} must have at most {_core.MOST_BOXES:,} rows, got {len(array):,}")
    return array


def boxes_tensor(boxes: Any) -> None:
    """Raise an error if a tensor, whose values may not be read, has no boxes."""
    if boxes.is_complex() or boxes.is_sparse or str(boxes.dtype) == "torch.bool":
        raise not_dense("boxes", boxes)
    boxes_shape(tuple(boxes.shape))


def boxes_shape(shape: tuple[int, ...], name: str = "boxes") -> None:
    """Raise an error if this is not the shape of boxes."""
    if len(shape) != 2 or shape[1] != 4:
        hint = _shape_hint(shape) if name == "boxes" else ""
        raise ValueError(f"{name} must have shape (N, 4), got {shape}{hint}")


def _shape_hint(shape: tuple[int, ...]) -> str:
    """What to do with boxes of another shape that is usual elsewhere."""
    if shape == (4,):
        return ": one box is boxes.reshape(1, 4)"
    if len(shape) == 3 and shape[2] == 4:
        return ": pass boxes.reshape(-1, 4), and the image of each box as images= (docs/howto/many_images.md)"
    if len(shape) != 2:
        return ""
    columns = {
        5: ": pass boxes[:, :4], and column 4 as scores= if these are the scores; rotated boxes are not supported",
        6: ": pass boxes[:, :4], and scores and labels as scores= and labels=",
        8: ": quadrilaterals are not supported, only upright boxes, such as those around them",
    }
    return columns.get(shape[1], ": boxes.T has that shape" if shape[0] == 4 else "")


def scores_array(scores: Any, num_boxes: int) -> Array:
    """Scores as a contiguous float32 or float64 array, one for each box."""
    return _one_for_each_box("scores", _real_array("scores", scores), num_boxes)


def labels_array(labels: Any, num_boxes: int, name: str = "labels") -> Array | None:
    """Labels or images as a contiguous int64 array, one for each box, or None. Whole floats are accepted."""
    if labels is None:
        return None
    array = _as_array(name, labels)
    if array.size == 0:  # any type: an empty list has floats
        array = array.astype(_INT64)
    if array.dtype.kind not in "iu" and not _is_float(array):
        hint = f": np.unique({name}, return_inverse=True)[1] numbers them" if _is_text(array) else ""
        if array.dtype == np.bool_:
            hint = f": pass 0 and 1 if these are two {name}; to select rows with a mask, pass boxes[mask]"
        raise TypeError(f"{name} must be integers, got {_kind(labels, array)}{hint}")
    array = _one_for_each_box(name, array, num_boxes)
    return _integers(name, _whole_numbers(name, array) if _is_float(array) else array)


def groups_array(idxs: Any, num_boxes: int) -> Array:
    """Integers that are equal where idxs (integers, bools or floats) are equal. As usual, NaN equals nothing."""
    array = _as_array("idxs", idxs)
    if array.dtype.kind not in "iub" and (not _is_float(array) or array.itemsize > 8):
        raise TypeError(f"idxs must be integers, bools or floats of at most 64 bits, got {_kind(idxs, array)}")
    array = _one_for_each_box("idxs", array, num_boxes)
    if not _is_float(array):
        return _integers("idxs", array)
    floats = array.astype(_FLOAT64) + 0.0  # -0.0 is 0.0
    bits, are_nan = floats.view(_INT64), np.isnan(floats)
    bits[are_nan] = np.float64(np.nan).view(_INT64) + np.arange(are_nan.sum())
    return bits


def plain_arrays(
    boxes: Any, scores: Any, labels: Any, images: Any = None
) -> tuple[Array, Array, Array | None, Array | None]:
    """The arrays of a call in the form that the core takes."""
    box_array = boxes_array(boxes)
    count = len(box_array)
    return box_array, scores_array(scores, count), labels_array(labels, count), labels_array(images, count, "images")


def part_arrays(
    boxes: Any, scores: Any, labels: Any, images: Any, open_boxes: Any, kept: Any
) -> tuple[Array, Array, Array | None, Array | None, Array | None, Array | None]:
    """The arrays of a part of a scene."""
    arrays = plain_arrays(boxes, scores, labels, images)
    return *arrays, _flags("open", open_boxes, len(arrays[0])), _flags("kept", kept, len(arrays[0]))


def _flags(name: str, flags: Any, num_boxes: int) -> Array | None:
    if flags is None:
        return None
    array = _as_array(name, flags)
    if array.size == 0:
        array = array.astype(np.bool_)
    if array.dtype != np.bool_:
        raise TypeError(f"{name} must be bools, got {array.dtype}")
    return np.ascontiguousarray(_one_for_each_box(name, array, num_boxes))


def given_labels(labels: Any) -> Any:
    """Return labels, or raise an error if they are None."""
    if labels is None:
        raise ValueError("labels must be given for detections and ground truth, got None")
    return labels


def ignore_array(ignore: Any, num_boxes: int) -> Array:
    """A mask of ignored regions; by default there are none."""
    array = np.zeros(num_boxes, bool) if ignore is None else _as_array("ignore", ignore)
    if array.size == 0:
        array = array.astype(bool)
    if array.dtype.kind not in "biu":
        raise TypeError(f"a mask of ignored boxes must be bools, got {_kind(ignore, array)}")
    array = array.astype(bool)
    if array.shape != (num_boxes,):
        raise ValueError(f"a mask of ignored boxes must have shape ({num_boxes},), got {array.shape}")
    return array


def areas_array(areas: Any, num_boxes: int) -> Array:
    """Areas of objects, one for each box, at least 0."""
    array = _one_for_each_box("areas", _real_array("areas", areas), num_boxes)
    bad = ~((array >= 0) & np.isfinite(array))
    if bad.any():
        raise ValueError(f"areas must be finite and at least 0, got {_first_row(array, bad)}")
    return array


def grouped_arrays(boxes: Any, scores: Any, idxs: Any) -> tuple[Array, Array, Array]:
    """The arrays of `batched_nms`. Without boxes, scores and idxs may be None, as in torchvision."""
    box_array = boxes_array(boxes)
    count = len(box_array)
    if count == 0:
        scores, idxs = (np.empty(0) if values is None else values for values in (scores, idxs))
    return box_array, scores_array(scores, count), groups_array(idxs, count)


def suppressor_array(suppressor: Any, num_boxes: int) -> Array:
    """Suppressors, one for each box: -1, or a kept row."""
    array = labels_array(suppressor, num_boxes, "suppressor")
    if array is None:
        raise TypeError("suppressor must be integers, one for each box, got None")
    inside = (array >= -1) & (array < num_boxes)
    bad = ~inside | ((array >= 0) & (array[np.where(inside, array, 0)] != array)) if num_boxes else ~inside
    if bad.any():
        need = "-1 or a kept row, one that is its own suppressor"
        raise ValueError(f"suppressor must be {need}, got {_first_row(array, bad)}")
    return array


def rows_set(name: str, rows: Any, num_boxes: int | None = None) -> Array:
    """Rows of kept boxes, each once, in increasing order; all below `num_boxes`, if given."""
    array = _as_array(name, rows)
    array = array.astype(_INT64) if array.size == 0 else array
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be rows of kept boxes, (K,) integers, got {_kind(rows, array)} {array.shape}")
    array = np.unique(_integers(name, array))
    if len(array) and (array[0] < 0 or (num_boxes is not None and array[-1] >= num_boxes)):
        need = "at least 0" if num_boxes is None else f"rows of {num_boxes} boxes"
        raise ValueError(f"{name} must be {need}, got {array[0] if array[0] < 0 else array[-1]}")
    return array


def models_array(models: Any, num_boxes: int) -> Array:
    """The model of each box, at least 0; all 0 by default."""
    array = labels_array(models, num_boxes, "models")
    if array is None:
        return np.zeros(num_boxes, np.int64)
    if (array < 0).any():
        raise ValueError(f"models must be at least 0, got {_first_row(array, array < 0)}")
    return array


def weights_array(weights: Any, models: Array) -> Array:
    """The weight of each model, as doubles; 1 for each by default."""
    greatest = int(models.max(initial=0))
    if weights is None:
        if greatest > max(1000, 2 * len(models)):
            raise ValueError(f"models must be numbered from 0, got {greatest} for {len(models)} boxes")
        return np.ones(greatest + 1)
    array = _real_array("weights", weights).astype(_FLOAT64)
    if array.ndim != 1 or len(array) <= greatest:
        need = f"one for each model, at least {greatest + 1}"
        raise ValueError(f"weights must be {need}, got shape {array.shape}")
    bad = ~((array >= 0) & np.isfinite(array))
    if bad.any():
        raise ValueError(f"weights must be finite and at least 0, got {_first_row(array, bad)}")
    if not array.any():
        raise ValueError("weights must not all be 0, got only zeros")
    return array


def scores_from_0(scores: Array, rows: Any = None) -> None:
    """Raise an error that names the first score below 0."""
    if (scores < 0).any():
        raise ValueError(f"scores must be at least 0 to weigh boxes, got {_first_row(scores, scores < 0, rows)}")


def fusible(boxes: Array, scores: Array) -> None:
    """Raise an error if boxes are too large for sums of score * coordinate."""
    if len(boxes):
        largest, total = float(np.abs(boxes).max()), float(scores.sum())
        if not (total < _GREATEST_SUM and 2 * largest * max(total, 1.0) < _GREATEST_SUM):
            need = f"below {_GREATEST_SUM:g} when multiplied by the sum of all scores".replace("e+", "e")
            raise ValueError(f"boxes must be {need}, got {largest} and {total}")


def same_device(names: list[str], boxes: Any, *others: Any) -> None:
    """Raise an error that names the first tensor that is not on the device of boxes, which are a tensor."""
    if boxes.is_meta:
        raise ValueError("boxes must be a tensor with values, got one on the meta device")
    for name, values in zip(names[1:], others, strict=False):
        if is_tensor(values) and values.device != boxes.device:
            raise ValueError(f"{name} must be on the device of boxes, {boxes.device}, got {values.device}")


def valid_numbers(boxes: Array, scores: Array, box_format: str, rows: Any = None) -> None:
    """Raise an error that names the first invalid box or score. `rows`: the row numbers, if not 0, 1, 2 ..."""
    valid_rows(boxes, box_format, rows=rows)
    finite_scores(scores, rows)


def valid_rows(boxes: Array, box_format: str, name: str = "boxes", rows: Any = None) -> None:
    """Raise an error that names the first box that is not finite, has a negative size or an infinite corner."""
    finite_rows(boxes, name, rows)
    inverted = (boxes[:, 2:] < (boxes[:, :2] if box_format == "xyxy" else 0)).any(axis=1)
    if inverted.any():
        need, hint = "width >= 0 and height >= 0", ""
        if box_format == "xyxy":
            need, other = "x2 >= x1 and y2 >= y1", "box_format='xywh' or " if (boxes[:, 2:] >= 0).all() else ""
            hint = f"; did you mean {other}hashnms.boxes.order_corners(boxes)?"
        raise ValueError(f"{name} must have {need}, got {_first_row(boxes, inverted, rows)}{hint}")
    infinite = have_infinite_corners(boxes, box_format)
    if infinite.any():
        need = f"corners that are finite in {boxes.dtype}"
        raise ValueError(f"{name} must have {need}, got {_first_row(boxes, infinite, rows)}")


def have_infinite_corners(boxes: Array, box_format: str) -> NDArray[np.bool_]:
    """Which finite boxes have a corner beyond the greatest number of their type, such as x + w in xywh."""
    first, size = boxes[:, :2], boxes[:, 2:]
    if box_format == "xyxy":
        return np.zeros(len(boxes), np.bool_)
    with np.errstate(over="ignore", invalid="ignore"):
        corners = (first + size,) if box_format == "xywh" else (first - size / 2, first + size / 2)
    return np.asarray(~np.isfinite(np.concatenate(corners, axis=1)).all(axis=1))


def finite_rows(boxes: Array, name: str = "boxes", rows: Any = None) -> None:
    """Raise an error that names the first box that is not finite."""
    not_finite = ~np.isfinite(boxes).all(axis=1)
    if not_finite.any():
        raise ValueError(f"{name} must be finite, got {_first_row(boxes, not_finite, rows)}")


def finite_scores(scores: Array, rows: Any = None) -> None:
    """Raise an error that names the first score that is not finite."""
    not_finite = ~np.isfinite(scores)
    if not_finite.any():
        raise ValueError(f"scores must be finite, got {_first_row(scores, not_finite, rows)}")


def refuse_codes(boxes: Array, has_code: Array | None, alpha: float, rows: Any = None) -> NoReturn:
    """Raise an error that names the first box without a code."""
    assert has_code is not None, "the core refused valid numbers"
    raise ValueError(
        f"boxes must have codes that fit into 64 bits, at alpha = {alpha}: not tiny compared with their distance from "
        f"the origin, and not near the largest float, got {_first_row(boxes, ~has_code, rows)}"
    )


def _first_row(values: Array, bad: Any, rows: Any = None) -> str:
    row, count = int(np.argmax(bad)), int(np.sum(bad))
    name = row if rows is None else int(rows[row])
    return f"{values[row].tolist()} in row {name} ({count} such row{'s' if count != 1 else ''})"


def _as_array(name: str, values: Any, axes: int = 1) -> Array:
    if type(values) is np.ndarray:
        return values
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name} must be a plain array, got a masked array, whose mask would be ignored")
    if is_tensor(values):
        return array_of(name, values)
    if is_proxy(values):
        raise TypeError(
            f"{name} must be an array or a tensor, got a torch.fx.Proxy: use torch.export or torch.compile, or keep "
            "symbolic_trace out of hashnms with torch.fx.wrap('nms') after `from hashnms import nms`"
        )
    if not isinstance(values, (list, tuple)):
        return _dlpack.array_of(name, values)
    if values and getattr(values[0], "ndim", 0) >= axes:
        raise TypeError(
            f"{name} must be one array or tensor, got a list of {len(values)}: call once for each image, or join them "
            "with torch.cat or np.concatenate and pass the image of each box as images"
        )
    try:
        return np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} must be an array, got rows of different lengths") from None


def _real_array(name: str, values: Any, axes: int = 1) -> Array:
    """A contiguous float32 or float64 array: these as they are, smaller floats and integers as float32."""
    array = _as_array(name, values, axes)
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
        need = "real numbers (float16, bfloat16, float32, float64, integer)"
        hint = "" if array.dtype != np.bool_ else _HINTS_FOR_MASKS.get(name, "")
        raise TypeError(f"{name} must be {need}, got {_kind(values, array)}{hint}")
    return _plain(array, dtype)


_HINTS_FOR_MASKS = {
    "boxes": ": masks are not supported, only boxes, such as torchvision.ops.masks_to_boxes makes around them",
    "scores": ": select rows before the call, as in boxes[mask] and scores[mask]",
}


def _kind(values: Any, array: Array) -> str:
    """What a refused array contains, in words."""
    if array.dtype != object:
        return str(array.dtype)
    if array.ndim == 0 or array.size == 0:
        return type(values).__name__ if array.ndim == 0 else "an array of objects"
    return f"an array of objects, the first one a {type(array.flat[0]).__name__}"


def _is_float(array: Array) -> bool:
    return array.dtype.kind == "f" or array.dtype.name == "bfloat16"


def _is_text(array: Array) -> bool:
    return array.dtype.kind in "UST" or (array.dtype == object and isinstance(array.flat[0], str))


def _one_for_each_box(name: str, array: Array, num_boxes: int) -> Array:
    if array.shape != (num_boxes,):
        raise ValueError(f"{name} must have shape ({num_boxes},), one for each box, got {array.shape}")
    return array


def _whole_numbers(name: str, floats: Array) -> Array:
    """Floats that are whole numbers, as integers."""
    bad = ~(np.isfinite(floats) & (np.trunc(floats) == floats))
    if bad.any():
        raise ValueError(f"{name} must be whole numbers, got {_first_row(floats, bad)}")
    largest = float(np.abs(floats).max(initial=0))
    if largest >= 2.0**63:
        raise ValueError(f"{name} must fit int64, got {largest}")
    return floats.astype(_INT64)


def _integers(name: str, array: Array) -> Array:
    """Integers or bools as a contiguous int64 array."""
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise ValueError(f"{name} must fit int64, got {array.max()}")
    return _plain(array, _INT64)


def _plain(array: Array, dtype: np.dtype[Any]) -> Array:
    """A contiguous and aligned array of this type; a copy only where needed."""
    plain = np.asarray(array, dtype, order="C")
    if plain.dtype.num != dtype.num:  # NumPy does not convert C's long long to int64
        plain = plain.view(dtype)
    return plain if plain.flags.aligned else plain.copy()


def _float_for_integers(name: str, array: Array) -> np.dtype[Any]:
    """float32 if it holds the integers exactly, otherwise float64 if that does."""
    largest = max(abs(int(array.min())), abs(int(array.max()))) if array.size else 0
    if largest > 2**53:
        raise ValueError(f"{name} must be integers that float64 holds exactly, at most 2**53, got {largest}")
    return _FLOAT32 if largest <= 2**24 else _FLOAT64
