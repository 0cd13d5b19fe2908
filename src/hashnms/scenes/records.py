"""The boxes of a scene as records in files, and a bitmap of the boxes that remain."""

from __future__ import annotations

import mmap
import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hashnms import _core
from hashnms._arrow import Arrays
from hashnms._settings import BoxFormatName
from hashnms._tiles import Touched
from hashnms.files.spread import MOST_FILES, Spread
from hashnms.pipeline import Suppression
from hashnms.scenes.folder import Folder
from hashnms.steps import Step

Records = NDArray[Any]
Rows = NDArray[np.int64]
#: Called with the share of the work that is done, and the name of the current step.
Progress = Callable[[float, str], None]

#: Memory for a record that is being decided: the record itself and what the core needs for it.
_BYTES_OF_A_ROW = 250
_ENOUGH = 2**28  #: bytes processed at a time; more is not faster
_AT_A_TIME = 2**17
_SAMPLE_PIECES, _PIECE = 2**13, 16  #: many small pieces, because neighbouring rows are often from one place


@dataclass(frozen=True)
class Layout:
    """How a scene's boxes are stored in files, and the types in which the core computes."""

    stored: np.dtype[Any]  #: row, box, score, label if there are labels, and copy
    box_type: str
    score_type: str

    @classmethod
    def of(cls, arrays: Arrays) -> Layout:
        """The layout for these arrays. Integers are stored as float64 until all have been seen."""
        boxes, scores = _stored(arrays.boxes.dtype), _stored(arrays.scores.dtype)
        label = [] if arrays.labels is None else [("label", "i8")]
        # copy: which copy of its box a record is. 0: the only one; 1: the first of several; 2: a later one.
        stored = np.dtype([("row", "i8"), ("box", boxes, 4), ("score", scores), *label, ("copy", "i4")])
        return cls(stored, boxes, scores)

    def records(self, arrays: Arrays, first: int) -> Records:
        """The records of these rows, which are numbered from `first`."""
        records = np.zeros(len(arrays.boxes), self.stored)
        records["row"] = np.arange(first, first + len(records))
        records["box"], records["score"] = arrays.boxes, arrays.scores
        if arrays.labels is not None:
            records["label"] = arrays.labels
        return records

    def arrays(self, records: Records) -> tuple[Any, Any, Any]:
        """Boxes, scores and labels in the types that the core takes."""
        boxes = np.ascontiguousarray(records["box"], self.box_type)
        scores = np.ascontiguousarray(records["score"], self.score_type)
        return boxes, scores, np.ascontiguousarray(records["label"]) if "label" in self.stored.names else None  # type: ignore[operator]


def _stored(dtype: np.dtype[Any]) -> str:
    return "f8" if dtype.itemsize > (4 if dtype.kind == "f" else 2) else "f4"


def boxes_at_once(count: int, memory: int) -> int:
    """How many of `count` boxes are decided at a time: so many that there are not too many tiles."""
    least = 2 * -(-count // MOST_FILES) * _BYTES_OF_A_ROW
    if memory < least:
        raise ValueError(f"memory must be at least {least:,} bytes for {count:,} boxes, got {memory:,}")
    return max(min(memory, max(_ENOUGH, least)) // _BYTES_OF_A_ROW, 1)


class Scene:
    """The boxes of a scene. A bit for each box says whether it remains; steps clear the bits of boxes that they remove.

    A cleared bit stays cleared, and a step that is repeated on partly processed boxes ends with the same result. So
    interrupted work may be repeated from any earlier moment.
    """

    def __init__(
        self, folder: Folder, layout: Layout, count: int, box_format: BoxFormatName, memory: int, progress: Progress
    ) -> None:
        """A scene of `count` rows; the file `records` in the folder has all of them."""
        self.folder, self.layout, self.count, self.box_format = folder, layout, count, box_format
        self.progress = progress
        self.most_at_once = boxes_at_once(count, memory)
        self.all = [folder / "records"]
        bits = folder / "left"
        if not bits.exists():
            with folder.new("left") as path:
                path.write_bytes(np.full(-(-count // 8) or 1, 255, np.uint8).data)
        with bits.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self.bits = np.frombuffer(self._map, np.uint8)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Unmap the bits: Windows does not remove a file that is mapped."""
        del self.bits
        traceback.clear_frames(trace)  # variables there may be parts of the bits
        with suppress(BufferError):  # a part is still in use: unmapped with it
            self._map.close()

    def tiles_for(self, count: int) -> int:
        """How many tiles to divide boxes into. A tile uses half of the memory on average: some turn out larger."""
        return -(-count // max(self.most_at_once // 2, 1))

    def remove(self, rows: Rows) -> None:
        _core.clear_bits(self.bits, np.ascontiguousarray(rows))

    def are_left(self, rows: Rows) -> NDArray[np.bool_]:
        bits: NDArray[np.uint8] = self.bits[rows >> 3] >> (rows & 7).astype(np.uint8) & np.uint8(1)
        return bits.astype(bool)

    def left_from(self, first: int, count: int) -> NDArray[np.bool_]:
        """Which of `count` rows from `first` on remain."""
        skipped = first % 8
        some = self.bits[first // 8 : -(-(first + count) // 8)]
        return np.unpackbits(some, bitorder="little")[skipped : skipped + count].astype(bool)

    def num_left(self, paths: Sequence[Path]) -> int:
        """How many boxes of these files remain."""
        if paths == self.all:
            firsts = range(0, self.count, 2**20)
            return sum(int(self.left_from(first, min(2**20, self.count - first)).sum()) for first in firsts)
        return sum(map(len, self.records(paths)))

    def records(self, paths: Sequence[Path], text: str | None = None, at_a_time: int = _AT_A_TIME) -> Iterator[Records]:
        """The remaining records in these files, some at a time."""
        at_a_time = min(at_a_time, self.most_at_once)
        sizes, done = sum(path.stat().st_size for path in paths), 0
        for path in paths:
            with path.open("rb") as file:
                while len(records := np.fromfile(file, self.layout.stored, at_a_time)):
                    rows = records["row"]
                    left = self.left_from(int(rows[0]), len(rows)) if paths == self.all else self.are_left(rows)
                    if left.any():
                        yield records if left.all() else records.take(np.flatnonzero(left))
                    done += records.nbytes
                    if text is not None:
                        self.progress(done / sizes, text)

    def gathered(self, paths: Sequence[Path]) -> Records:
        """All remaining records in these files, by row."""
        parts = list(self.records(paths))
        return by_row(np.concatenate(parts)) if parts else np.zeros(0, self.layout.stored)

    def sample(self, paths: Sequence[Path]) -> Records:
        """A sample of the remaining records, from all parts of the files."""
        size = self.layout.stored.itemsize
        counts = [path.stat().st_size // size for path in paths]
        total, sampled, random = sum(counts), bytearray(), np.random.default_rng(0)
        for path, count in zip(paths, counts, strict=True):
            pieces = min(-(-_SAMPLE_PIECES * count // max(total, 1)), -(-count // _PIECE))
            borders = np.linspace(0, max(count - _PIECE, 0), pieces + 1)
            with path.open("rb", buffering=0) as file:
                for place in random.uniform(borders[:-1], borders[1:]).astype(np.int64).tolist():
                    file.seek(place * size)
                    sampled += file.read(_PIECE * size)
        sample = np.frombuffer(sampled, self.layout.stored)
        return sample.take(np.flatnonzero(self.are_left(sample["row"])))

    def divided(
        self, name: str, paths: Sequence[Path], count: int, touched: Callable[[Records], Touched]
    ) -> list[Path]:
        """Divide records into a folder with one file for each tile. Existing files are not made again.

        A box is copied to all tiles that it touches. Files are removed once they have been decided.
        """
        if not (self.folder / name).exists():
            with self.folder.new(name) as new:
                new.mkdir()
                self._divide(new, paths, count, touched)
                (new / "count").write_text(str(count), "utf-8")
        folder = self.folder / name
        return [folder / str(tile) for tile in range(int((folder / "count").read_text("utf-8")))]

    def _divide(self, new: Path, paths: Sequence[Path], count: int, touched: Callable[[Records], Touched]) -> None:
        with Spread([new / str(tile) for tile in range(count)]) as files:
            for records in self.records(paths, "dividing"):
                starts, places, copies = touched(records)
                copied = records.take(places)
                copied["copy"] = copies
                files.append(copied, starts[1:].tolist())

    def each(self, tiles: Sequence[Path], text: str) -> Iterator[tuple[int, Path]]:
        """The existing tiles and their numbers. Each is removed when the next is requested."""
        for number, path in enumerate(tiles):
            if path.exists():
                yield number, path
                os.unlink(path)
            self.progress((number + 1) / len(tiles), text)

    def suppress_at_once(self, steps: Sequence[Step], paths: Sequence[Path]) -> None:
        """Apply the steps to all remaining boxes in these files, in one call."""
        records = self.gathered(paths)
        boxes, scores, labels = self.layout.arrays(records)
        keep = Suppression(steps)(boxes, scores, labels, box_format=self.box_format).keep
        self.remove(np.delete(records["row"], keep))


def by_row(records: Records) -> Records:
    """Sort by row, as ties between scores require."""
    rows = records["row"]
    return records if (rows[1:] > rows[:-1]).all() else records.take(np.argsort(rows, kind="stable"))
