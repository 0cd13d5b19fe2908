"""NPZ files: `boxes` (N, 4), `scores` (N,), optionally `labels` and `images` (N,), and any other arrays.

Arrays of N rows are reduced to the kept rows; others are copied unchanged. Pickles are never read.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hashnms._memory import machine_memory
from hashnms.files.rows import Changes, FileError, Mask, Reading, Rows, Source, Writer, unreadable
from hashnms.tables import Columns, new_boxes

_NAMES = {
    "image": ("images", "image_ids", "image_id"),
    "label": ("labels", "class_ids", "classes"),
    "score": ("scores",),
}
_MOST_BYTES = machine_memory() // 4


class NpzRows(Rows):
    """All rows of a file."""

    def __init__(self, source: NpzSource, arrays: dict[str, Any]) -> None:
        self.first, self.source, self.arrays = 0, source, arrays
        self.keys = pa.table({name: self._column(name) for name in source.columns.names})

    def _column(self, name: str) -> Any:
        """An array as a column; of lists, if a row has several numbers."""
        values = self.arrays[name]
        native = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
        try:
            flat = pa.array(native.ravel())
        except pa.ArrowException as error:
            raise FileError(
                f"{self.source.path}: {name} must be numbers or text, got {values.dtype}: {error}"
            ) from None
        size = math.prod(values.shape[1:])
        return flat if values.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, size)

    @property
    def nbytes(self) -> int:
        return sum(values.nbytes for values in self.arrays.values())

    def table(self) -> pa.Table:
        return pa.table({name: self._column(name) for name, values in self.arrays.items() if self.has_rows(values)})

    def has_rows(self, values: Any) -> bool:
        """Whether an array has as many rows as there are boxes."""
        return bool(values.ndim) and len(values) == len(self)


class NpzSource(Source):
    """A file of NumPy arrays."""

    def __init__(self, path: Path, reading: Reading) -> None:
        self.path = path
        with self._readable("must be an NPZ file"):
            self._check()
            with np.load(path, allow_pickle=False) as arrays:
                names = list(arrays)
        roles: dict[str, Any] = {role: next((n for n in usual if n in names), None) for role, usual in _NAMES.items()}
        roles |= {"boxes": "boxes"} | reading.columns
        for role, name in roles.items():
            if (role == "score") if name is None else (name not in names):
                raise FileError(f"{path}: {role} must be one of the arrays {', '.join(names)}, got {name or 'none'}")
        boxes = roles["boxes"]
        self.columns = Columns(roles["image"], roles["label"], (boxes,), roles["score"], reading.box_format or "xyxy")
        self._has_no_images = roles["image"] is None and "image" not in reading.columns
        self.image: str | None = None  #: the image of all rows, if the file is one of several without images

    def is_image(self, name: str) -> None:
        if self._has_no_images:
            self.image, self.columns = name, replace(self.columns, image=_NAMES["image"][0])

    @contextmanager
    def _readable(self, need: str) -> Iterator[None]:
        """Turn the many kinds of errors that zipfile, its decompressors and NumPy raise into one."""
        try:
            yield
        except FileError:
            raise
        except Exception as error:
            raise unreadable(error, self.path, need) from None

    def _check(self) -> None:
        """Check that it is a zip file whose arrays fit into memory."""
        with zipfile.ZipFile(self.path) as file:
            size = sum(member.file_size for member in file.infolist())
        if size > _MOST_BYTES:
            raise FileError(f"{self.path}: arrays must have at most {_MOST_BYTES:,} bytes, got {size:,}")

    def read(self) -> Iterator[Rows]:
        with self._readable("must hold arrays of numbers"), np.load(self.path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file}
        other = next((name for name, values in arrays.items() if not isinstance(values, np.ndarray)), None)
        if other is not None:
            raise FileError(f"{self.path}: must hold only arrays, got {other}")
        boxes = arrays[self.columns.boxes[0]]
        if boxes.ndim != 2 or boxes.shape[1] != 4:
            raise FileError(f"{self.path}: {self.columns.boxes[0]} must have shape (N, 4), got {boxes.shape}")
        if self.image is not None:
            arrays[str(self.columns.image)] = np.full(len(boxes), self.image)
        for name in self.columns.names:
            values = arrays[name]
            if values.shape[:1] != boxes.shape[:1] or (values.ndim != 1 and values is not boxes):
                raise FileError(f"{self.path}: {name} must have shape ({len(boxes)},), got {values.shape}")
        yield NpzRows(self, arrays)


class NpzWriter(Writer):
    """Writes the arrays of the input, or the columns of a table."""

    def __init__(self, path: Path, source: Source) -> None:
        self._path, self._source = path, source
        self._parts, self._whole = list[dict[str, Any]](), dict[str, Any]()  #: arrays of N rows; other arrays
        self._empty: dict[str, Any] = {}  #: the arrays of inputs without rows, whose types may be unknown

    def write(self, rows: Rows, keep: Mask, changes: Changes) -> None:
        if not isinstance(rows, NpzRows):
            part = _arrays(rows.kept_table(keep, changes), rows.source)
            if keep.any():
                self._parts.append(part)
            else:
                self._empty = part
            return
        part = {name: values[keep] for name, values in rows.arrays.items() if rows.has_rows(values)}
        for name, values in rows.arrays.items():
            if name not in part and not np.array_equal(self._whole.setdefault(name, values), values):
                raise FileError(
                    f"{rows.source.path}: {name} must have a value for each box or be the same in all files, got other "
                    f"values than in {self._source.path}; otherwise suppress the files one by one"
                )
        if self._parts and part.keys() != self._parts[0].keys():
            need, got = ", ".join(self._parts[0]), ", ".join(part)
            raise FileError(f"{rows.source.path}: arrays must be those of the first file, {need}, got {got}")
        columns = rows.source.columns
        if changes.scores is not None:
            part[columns.score] = changes.scores.astype(part[columns.score].dtype)
        if changes.boxes is not None:
            part |= new_boxes(changes.boxes, columns, rows.keys.schema)
        self._parts.append(part)

    def close(self) -> None:
        pass

    def finish(self) -> None:
        joined: dict[str, Any] = self._parts[0] if self._parts else self._empty
        if len(self._parts) > 1:
            joined = {name: np.concatenate([part[name] for part in self._parts]) for name in joined}
        write_array: Any = np.lib.format.write_array  # without types in some versions of NumPy
        with zipfile.ZipFile(self._path, "w") as file:  # np.savez does not accept all names
            for name, values in (joined | self._whole).items():
                with file.open(f"{name}.npy", "w", force_zip64=True) as stream:
                    write_array(stream, values, allow_pickle=False)


def _arrays(table: pa.Table, source: Source) -> dict[str, Any]:
    """The columns of a table as arrays, by their names in an NPZ file."""
    columns = source.columns
    boxes = (
        [np.stack([table.column(name).to_numpy() for name in columns.boxes], axis=1)] if len(columns.boxes) == 4 else []
    )
    if not boxes:
        boxes = [np.array(table.column(columns.boxes[0]).to_pylist(), np.float64).reshape(-1, 4)]
    box = boxes[0]
    if columns.box_format == "xywh":
        box = np.hstack([box[:, :2], box[:, :2] + box[:, 2:]])
    elif columns.box_format == "cxcywh":
        box = np.hstack([box[:, :2] - box[:, 2:] / 2, box[:, :2] + box[:, 2:] / 2])
    made = {"boxes": box, "scores": table.column(columns.score).to_numpy()}
    for role, name in (("labels", columns.label), ("images", columns.image)):
        if name is not None:
            values = table.column(name).to_numpy()
            made[role] = values.astype(str) if values.dtype == object else values
    return made
