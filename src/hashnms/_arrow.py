"""Columns of Arrow tables as arrays for the core, without a copy where a single chunk has the right type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds
from numpy.typing import NDArray

if TYPE_CHECKING:
    from hashnms.pipeline import Suppressed, Suppression
    from hashnms.tables import Columns

Array = NDArray[Any]


@dataclass(frozen=True)
class Arrays:
    """The boxes, scores, labels and images of a table, and which rows have nulls."""

    boxes: Array  #: (N, 4); NaN where there is a null
    scores: Array
    labels: Array | None  #: numbers that are equal where the labels are equal
    images: Array | None
    nulls: dict[str, Array]  #: column -> mask of its nulls, and of lists that do not have four numbers

    @classmethod
    def of(cls, table: pa.Table, columns: Columns) -> Arrays:
        """The arrays of these columns."""
        nulls: dict[str, Array] = {}
        if len(columns.boxes) == 1:
            boxes = _lists(table, columns.boxes[0], nulls)
        else:
            chunks = [_number_chunks(table, name, nulls) for name in columns.boxes]
            boxes = np.empty((len(table), 4), np.result_type(*(dtype for dtype, _ in chunks)))
            for place, (_, values) in enumerate(chunks):
                first = 0
                for chunk in values:
                    boxes[first : first + len(chunk), place] = chunk
                    first += len(chunk)
        return cls(
            boxes,
            _numbers(table, columns.score, nulls),
            None if columns.label is None else _codes(table, columns.label, nulls),
            None if columns.image is None else _codes(table, columns.image, nulls),
            nulls,
        )

    def take(self, rows: Array) -> Arrays:
        """Some of the rows, which have no nulls."""
        labels, images = (None if values is None else values[rows] for values in (self.labels, self.images))
        return Arrays(self.boxes[rows], self.scores[rows], labels, images, {})

    def suppressed(self, suppression: Suppression, columns: Columns) -> Suppressed[Any]:
        return suppression(self.boxes, self.scores, self.labels, self.images, box_format=columns.box_format)

    def _problems(self, columns: Columns) -> list[tuple[str, Any, str, Any]]:
        """Possible problems of rows: the column, a mask of the bad rows, what is needed, and the values."""
        box_name = ", ".join(columns.boxes)
        first, second = self.boxes[:, :2], self.boxes[:, 2:]
        inverted = second < (first if columns.box_format == "xyxy" else 0)
        size = "x2 >= x1 and y2 >= y1" if columns.box_format == "xyxy" else "width >= 0 and height >= 0"
        nulls = [(name, mask, "not null", None) for name, mask in self.nulls.items()]
        return [
            *nulls,
            (box_name, ~np.isfinite(self.boxes).all(axis=1), "finite numbers", self.boxes),
            (box_name, inverted.any(axis=1), f"a box with {size}", self.boxes),
            (columns.score, ~np.isfinite(self.scores), "a finite number", self.scores),
        ]

    def bad_rows(self, columns: Columns) -> NDArray[np.int64]:
        """The rows that have a problem."""
        bad = np.zeros(len(self.boxes), bool)
        for _, mask, _, _ in self._problems(columns):
            bad |= mask
        return np.flatnonzero(bad)

    def explain(self, columns: Columns) -> None:
        """Raise the error that names the first bad row of the first problem, if there is one."""
        for name, mask, need, values in self._problems(columns):
            if mask.any():
                raise BadRow(name, int(np.argmax(mask)), need, values, int(mask.sum()))


class Numbering:
    """Whole numbers for values of any type; equal values get equal numbers in all tables of a sequence."""

    def __init__(self) -> None:
        self._known: dict[str, dict[Any, int]] = {}

    def numbered(self, table: pa.Table, names: Iterable[str | None]) -> pa.Table:
        """Replace the values of these columns by numbers; integers stay as they are."""
        for name in names:
            if name is None or (kinds.is_integer(table.column(name).type) and table.column(name).type != pa.uint64()):
                continue  # uint64 values may be too large for int64
            encoded = table.column(name).combine_chunks().dictionary_encode()
            known = self._known.setdefault(name, {})
            codes = np.array(
                [known.setdefault(value, len(known)) for value in encoded.dictionary.to_pylist()], np.int64
            )
            numbers = pa.array(codes).take(encoded.indices)
            table = table.set_column(table.schema.get_field_index(name), name, numbers)
        return table


_ROWS_AT_A_TIME = 2**20  #: more is not faster, and takes memory


def parts_by_image(table: pa.Table, columns: Columns) -> Iterator[tuple[NDArray[np.int64], Arrays]]:
    """Divide the table into parts with whole images: the increasing rows of each part, and their arrays.

    Where the rows of each image are consecutive, parts are slices. Otherwise rows are chosen by a hash of their image.
    """
    if columns.image is None or len(table) <= _ROWS_AT_A_TIME or table.column(columns.image).null_count:
        yield np.arange(len(table)), Arrays.of(table, columns)
        return
    borders = _borders_between_images(_codes(table, columns.image, {}))
    if borders is not None:
        wanted = np.arange(_ROWS_AT_A_TIME, len(table), _ROWS_AT_A_TIME)
        cuts = np.unique(borders[np.searchsorted(borders, wanted)])
        for begin, end in pairwise([0, *cuts.tolist(), len(table)]):
            if begin < end:
                yield np.arange(begin, end), Arrays.of(table.slice(begin, end - begin), columns)
        return
    arrays = Arrays.of(table, columns)
    if arrays.nulls:
        yield np.arange(len(table)), arrays
        return
    count = -(-len(table) // _ROWS_AT_A_TIME)
    part_of = np.empty(len(table), np.uint16)
    for first in range(0, len(table), _ROWS_AT_A_TIME):  # the product takes eight bytes per row
        some: Any = arrays.images[first : first + _ROWS_AT_A_TIME]  # type: ignore[index]
        mixed = some.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(40)
        part_of[first : first + len(some)] = mixed % np.uint64(count)
    for part in range(count):
        rows = np.flatnonzero(part_of == part)
        yield rows, arrays.take(rows)


def _borders_between_images(images: Array) -> Any:
    """Where one image ends and the next begins, and the end; None if the rows of an image are not consecutive."""
    differ = images[1:] != images[:-1]
    if np.count_nonzero(differ) > len(images) // 4:
        return None
    borders = np.flatnonzero(differ) + 1
    firsts = images[np.concatenate([[0], borders])]
    return np.append(borders, len(images)) if len(np.unique(firsts)) == len(firsts) else None


class BadRow(ValueError):
    """A bad row of a table: its number, the column, what it needs and what it has."""

    def __init__(self, column: str, row: int, need: str, values: Any, count: int) -> None:
        self.column, self.row, self.need, self.count = column, row, need, count
        self.got = "null" if values is None else values[row].tolist()
        others = f" ({count:,} such rows)" if count > 1 else ""
        super().__init__(f"column {column} must be {need}, got {self.got} in row {row}{others}")


def _numbers(table: pa.Table, name: str, nulls: dict[str, Array]) -> Array:
    """A column of numbers; NaN where there is a null."""
    dtype, chunks = _number_chunks(table, name, nulls)
    return _joined(list(chunks), dtype)


def _number_chunks(table: pa.Table, name: str, nulls: dict[str, Array]) -> tuple[Any, Iterator[Array]]:
    """The type of a column of numbers, and its chunks; NaN where there is a null."""
    column = table.column(name)
    kind = column.type
    if kinds.is_decimal(kind) or kinds.is_null(kind):  # null: an empty dataframe, or only nulls
        column = column.cast(pa.float64())
    elif not (kinds.is_floating(kind) or kinds.is_integer(kind)):
        raise TypeError(f"column {name} must hold numbers, got {kind}")
    if column.null_count:
        nulls[name] = column.is_null().to_numpy()
    dtype = np.float64 if column.null_count and not kinds.is_floating(column.type) else numpy_type(column.type)
    return dtype, (chunk.to_numpy(zero_copy_only=False) for chunk in column.chunks)


def _lists(table: pa.Table, name: str, nulls: dict[str, Array]) -> Array:
    """A column of lists of four numbers, as (N, 4); NaN where there is no such list."""
    column = table.column(name)
    if kinds.is_null(column.type):
        column = column.cast(pa.list_(pa.float64()))
    kind = column.type
    if not (kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind)):
        raise TypeError(f"column {name} must hold lists of four numbers, got {kind}")
    if not (kinds.is_floating(kind.value_type) or kinds.is_integer(kind.value_type)):
        raise TypeError(f"column {name} must hold lists of four numbers, got {kind}")
    bad = np.zeros(len(column), bool)
    parts, first = [], 0
    for chunk in column.chunks:
        part, wrong = _boxes_of_chunk(chunk)
        bad[first : first + len(chunk)] = wrong
        parts.append(part)
        first += len(chunk)
    if bad.any():
        nulls[name] = bad
    return _joined(parts, numpy_type(kind.value_type)).reshape(-1, 4)


def _boxes_of_chunk(chunk: Any) -> tuple[Array, Any]:
    """The boxes of one chunk of lists, and a mask of lists that are not boxes."""
    if kinds.is_fixed_size_list(chunk.type):
        starts = np.arange(chunk.offset, chunk.offset + len(chunk), dtype=np.int64) * chunk.type.list_size
        lengths = np.full(len(chunk), chunk.type.list_size)
    else:
        offsets = chunk.offsets.to_numpy()
        starts, lengths = offsets[:-1], np.diff(offsets)
    values = chunk.values
    wrong = lengths != 4
    if chunk.null_count:
        wrong |= chunk.is_null().to_numpy(zero_copy_only=False)
    if not wrong.any() and len(chunk):
        numbers = values.slice(int(starts[0]), 4 * len(chunk)).to_numpy(zero_copy_only=False)
        return numbers.reshape(-1, 4), values.null_count and np.isnan(numbers.reshape(-1, 4)).any(axis=1)
    numbers = values.to_numpy(zero_copy_only=False)
    boxes = np.full((len(chunk), 4), np.nan)
    right = np.flatnonzero(~wrong)
    boxes[right] = numbers[starts[right][:, None] + np.arange(4)]
    return boxes, wrong


def _codes(table: pa.Table, name: str, nulls: dict[str, Array]) -> Array:
    """A column of any type as integers that are equal where its values are equal."""
    column = table.column(name)
    if column.null_count:
        nulls[name] = column.is_null().to_numpy()
    if kinds.is_integer(column.type) and column.type != pa.uint64():
        parts = (column.fill_null(0) if column.null_count else column).chunks
    elif kinds.is_nested(column.type):
        raise TypeError(f"column {name} must hold values such as integers or strings, got {column.type}")
    else:
        encoded = column if kinds.is_dictionary(column.type) else pc.dictionary_encode(column)
        parts = [chunk.indices.fill_null(0) for chunk in encoded.unify_dictionaries().chunks]
    return _joined([part.to_numpy(zero_copy_only=False) for part in parts], np.int64).astype(np.int64, copy=False)


def _joined(parts: list[Array], dtype: Any) -> Array:
    """Concatenate arrays; an empty array of this type if there are none."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.zeros(0, dtype)


def numpy_type(kind: pa.DataType) -> np.dtype[Any]:
    """NumPy's type for one of Arrow's numbers. `to_pandas_dtype` of older pyarrow needs pandas."""
    dtype: np.dtype[Any] = pa.array([], kind).to_numpy(zero_copy_only=False).dtype
    return dtype
