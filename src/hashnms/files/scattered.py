"""For images whose rows are scattered over files larger than memory: bring them together on disk.

The values of each row that a suppression needs are written to one of several files, chosen by the image. So every image
is complete in one file, which fits into memory. Suppressing these files one after another gives a mask over all rows.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hashnms._arrow import Arrays, Numbering
from hashnms.files.rows import Changes, Mask
from hashnms.files.spread import MOST_FILES, Spread
from hashnms.pipeline import Suppression
from hashnms.tables import Columns, OnBad

#: Memory for a row that is being decided: what the file holds, and what the core needs.
_BYTES_OF_A_ROW = 250
_ENOUGH = 2**28  #: bytes processed at a time; more is not faster


class Scattered:
    """All rows of an input, in files by image, and a mask of the kept rows."""

    def __init__(self, beside: Path, columns: Columns, suppression: Suppression, estimate: int, memory: int) -> None:
        """For about `estimate` rows, in a new folder inside `beside`."""
        self._columns, self._suppression = columns, suppression
        count = min(max(1, -(-estimate * _BYTES_OF_A_ROW // min(memory, _ENOUGH))), MOST_FILES)
        self._folder = Path(tempfile.mkdtemp(prefix="images-", dir=beside))
        self._files = Spread([self._folder / f"{number}" for number in range(count)])
        self._counts = np.zeros(count, np.int64)  #: records in each file
        self._numbering = Numbering()
        self._dtype: np.dtype[Any] | None = None
        self._count = 0
        self._keep: Any = None
        self._scores: Any = None
        self._boxes: Any = None

    def __enter__(self) -> Scattered:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.close()
        self._keep = self._scores = self._boxes = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, keys: pa.Table, *, on_bad: OnBad) -> int:
        """Add the next rows. Returns how many bad rows were dropped."""
        named = (self._columns.image, self._columns.label)
        arrays = Arrays.of(self._numbering.numbered(keys, named), self._columns)
        bad = arrays.bad_rows(self._columns)
        if len(bad) and on_bad == "raise":
            arrays.explain(self._columns)
        good = np.delete(np.arange(len(keys)), bad)
        self._write(arrays.take(good) if len(bad) else arrays, self._count + good)
        self._count += len(keys)
        return len(bad)

    def _write(self, arrays: Arrays, rows: NDArray[np.int64]) -> None:
        if self._dtype is None:
            fields = [("row", np.int64), ("image", np.int64), ("label", np.int64)]
            self._dtype = np.dtype([*fields, ("box", arrays.boxes.dtype, 4), ("score", arrays.scores.dtype)])
        images = np.zeros(len(rows), np.int64) if arrays.images is None else arrays.images
        file_of = mixed(images) % np.uint64(len(self._files.paths))
        order = np.argsort(file_of.astype(np.uint16), kind="stable")
        records = np.empty(len(rows), self._dtype)
        records["row"], records["image"] = rows[order], images[order]
        records["label"] = 0 if arrays.labels is None else arrays.labels[order]
        records["box"], records["score"] = arrays.boxes[order], arrays.scores[order]
        counts = np.bincount(file_of.astype(np.int64), minlength=len(self._files.paths))
        self._counts += counts
        ends = np.cumsum(counts)
        self._files.append(records, ends.tolist())

    @property
    def needed(self) -> int:
        """The memory that the largest file needs."""
        return int(self._counts.max()) * _BYTES_OF_A_ROW

    def decide(self, progress: Callable[[float], None]) -> None:
        """Suppress the boxes of each file."""
        size = max(self._count, 1)
        self._keep = _mapped(self._folder / "keep", bool, (size,))
        if self._suppression.changes_scores:
            self._scores = _mapped(self._folder / "scores", np.float64, (size,))
        if self._suppression.changes_boxes:
            self._boxes = _mapped(self._folder / "boxes", np.float64, (size, 4))
        self._files.close()
        for number, path in enumerate(self._files.paths):
            if self._dtype is not None and path.stat().st_size:
                records = np.fromfile(path, self._dtype)
                values = [np.ascontiguousarray(records[name]) for name in ("box", "score", "label", "image")]
                rows = records["row"].copy()
                del records
                kept = self._suppression(*values, box_format=self._columns.box_format)
                of_input = rows[kept.keep]
                self._keep[of_input] = True
                if self._scores is not None:
                    self._scores[of_input] = kept.scores
                if self._boxes is not None:
                    self._boxes[of_input] = kept.boxes
            path.unlink()
            progress((number + 1) / len(self._files.paths))

    def kept(self, first: int, count: int) -> tuple[Mask, Changes]:
        """Which of `count` rows from `first` on are kept, and their changes."""
        keep = np.array(self._keep[first : first + count])
        changed = (
            None if values is None else np.array(values[first : first + count])[keep]
            for values in (self._scores, self._boxes)
        )
        return keep, Changes(*changed)


def _mapped(path: Path, dtype: Any, shape: tuple[int, ...]) -> Any:
    """A new array in a file. Zeros are written to it: on a full disk that is an error, a hole would end the process."""
    left, zeros = math.prod(shape) * np.dtype(dtype).itemsize, bytes(2**20)
    with path.open("wb") as file:
        while left > 0:
            left -= file.write(zeros[:left])
    return np.memmap(path, dtype, "r+", shape=shape)


def mixed(values: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A hash of whole numbers (the end of splitmix64), so that any numbering of images fills the files evenly."""
    mixed = values.astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed
