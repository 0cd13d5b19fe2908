"""What all file formats share: rows that can be read in parts, and a writer that copies the kept rows."""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds
from numpy.typing import NDArray

from hashnms._arrow import Arrays, BadRow
from hashnms._frames import replaced, taken
from hashnms._settings import BoxFormatName
from hashnms.tables import Columns, OnBad, new_boxes

Mask = NDArray[np.bool_]
Scores = NDArray[Any]
Boxes = NDArray[Any]


class Changes(NamedTuple):
    """The new numbers of the kept rows, in their order; None where nothing changes."""

    scores: Scores | None = None
    boxes: Boxes | None = None  #: (K, 4), in the format of the input

    @property
    def are_none(self) -> bool:
        """Whether nothing changes."""
        return self.scores is None and self.boxes is None

    def part(self, start: int, end: int) -> Changes:
        """The changes of some of the rows."""
        return Changes(*(None if values is None else values[start:end] for values in self))


class FileError(ValueError):
    """An invalid file: which file and where, what is needed, and what it has."""


def image_name(text: str) -> str:
    """The name of a file as the name of its image: in any locale, and if it is not UTF-8."""
    return os.fsencode(text).decode(errors="backslashreplace")


def unreadable(error: Exception, path: Path, need: str) -> Exception:
    """The error for a file that a library cannot read: an invalid file, unless the system could not read it."""
    if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):  # EINVAL: a place that cannot be
        error.filename = error.filename or str(path)
        return error
    return FileError(f"{path}: {need}, got {str(error) or type(error).__name__}")


@dataclass(frozen=True)
class Reading:
    """How files are read."""

    columns: dict[str, Any] = field(default_factory=dict)  #: image, label, boxes, score: the names of their columns
    box_format: BoxFormatName | None = None  #: None: the usual meaning of the column names
    header: tuple[str, ...] | None = None  #: the names of the columns of a CSV file without a header
    on_bad: OnBad = "raise"

    def find(self, names: list[str], path: Path, usual: dict[str, Any] | None = None) -> Columns:
        """The columns of a file with these names."""
        try:
            return Columns.find(names, **{**(usual or {}), **self.columns}, box_format=self.box_format)
        except ValueError as error:
            raise FileError(f"{path}: {error}") from None


class Rows(ABC):
    """Consecutive rows of a file."""

    first: int  #: the number of the first row in its file, from 0
    source: Source
    keys: pa.Table  #: the columns that a suppression needs

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def nbytes(self) -> int:
        """The memory that these rows take."""
        return int(self.keys.nbytes)

    def origins(self) -> Iterator[tuple[Path, int, int]]:
        """The files that these rows come from: the path, the number of the first row there, how many rows."""
        yield self.source.path, self.first, len(self)

    @abstractmethod
    def table(self) -> pa.Table:
        """All columns of all rows, for output in another format."""

    def kept_table(self, keep: Mask, changes: Changes) -> pa.Table:
        """All columns of the kept rows, with their new numbers, if any."""
        return self.changed(taken(self.table(), np.flatnonzero(keep), {}), changes)

    def changed(self, table: pa.Table, changes: Changes) -> pa.Table:
        """A table of kept rows, with their new numbers, if any."""
        columns = self.source.columns
        new = {} if changes.scores is None else {columns.score: changes.scores}
        if changes.boxes is not None:
            new |= new_boxes(changes.boxes, columns, table.schema)
        return replaced(table, new)

    def new_numbers(self, keep: Mask, changes: Changes) -> list[dict[str, list[float]]]:
        """For text formats: for each kept row, the columns that change and their new numbers.

        A box of four columns has one number in each. A box that did not change is not written again.
        """
        columns = self.source.columns
        new: list[dict[str, list[float]]] = [{} for _ in range(int(keep.sum()))]
        if changes.scores is not None:
            for numbers, score in zip(new, changes.scores.tolist(), strict=True):
                numbers[columns.score] = [score]
        if changes.boxes is not None:
            kept = self.keys.select(columns.names).filter(pa.array(keep))
            others = np.flatnonzero((Arrays.of(kept, columns).boxes != changes.boxes).any(axis=1))
            for row, box in zip(others.tolist(), changes.boxes[others].tolist(), strict=True):
                new[row] |= {columns.boxes[0]: box} if len(columns.boxes) == 1 else _one_each(columns.boxes, box)
        return new


def _one_each(names: Sequence[str], numbers: Sequence[float]) -> dict[str, list[float]]:
    return {name: [number] for name, number in zip(names, numbers, strict=True)}


class Source(ABC):
    """A file that can be read several times, from its beginning."""

    path: Path
    columns: Columns
    relative = False  #: whether boxes are relative to the size of their image
    done = 0.0  #: the share of the file that has been read

    def is_image(self, name: str) -> None:  # noqa: B027  most have a column of images
        """Let all rows be of this image, if the file does not name images and does not stand for all rows."""

    @abstractmethod
    def read(self) -> Iterator[Rows]:
        """All rows, in parts."""

    def read_keys(self) -> Iterator[Rows]:
        """All rows, in parts, where only the keys are needed."""
        return self.read()

    def place(self, row: int) -> str:
        """Where a row is in the file, counted from 1."""
        return f"row {row + 1:,}"

    def error(self, row: int, problem: str) -> FileError:
        """An error about one of its rows."""
        return FileError(f"{self.path}, {self.place(row)}: {problem}")


class Writer(ABC):
    """Writes rows to a new file, in a `with` block. After an error in the block, the file is closed unfinished."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.finish()
            self.close()
            return
        with suppress(Exception):
            self.close()

    @abstractmethod
    def write(self, rows: Rows, keep: Mask, changes: Changes) -> None:
        """Write the kept rows, with their new numbers, if any."""

    def finish(self) -> None:  # noqa: B027  most have no remaining rows
        """Write the remaining rows."""

    @abstractmethod
    def close(self) -> None:
        """Close the file."""


def read_alike(sources: Sequence[Source], keys_only: bool = False) -> Iterator[Rows]:
    """The rows of all sources, one after another. Their columns must have the same names and types."""
    known: dict[str, Any] = {}
    for source in sources:
        for rows in source.read_keys() if keys_only else source.read():
            schema = rows.keys.schema
            if known and schema.names != list(known):
                need, got = ", ".join(known), ", ".join(schema.names)
                raise FileError(f"{source.path}: columns must be those of the first file, {need}, got {got}")
            for name, got in zip(schema.names, schema.types, strict=True):
                need = known.setdefault(name, got)
                if kinds.is_null(need):  # all rows so far are bad
                    known[name] = got
                elif got != need and not kinds.is_null(got):
                    kind = "integers or strings throughout" if kinds.is_string(need) or kinds.is_string(got) else need
                    raise source.error(rows.first, f"column {name} must be {kind}, got {need} and {got}")
            yield rows
        source.done = 1.0


def joined_keys(parts: Sequence[Rows], starts: Sequence[int] | None = None) -> pa.Table:
    """The keys of all parts; each part begins at its `start`."""
    tables = [rows.keys.slice(start) for rows, start in zip(parts, starts or [0] * len(parts), strict=True)]
    return pa.concat_tables(tables, promote_options="default")


def located(error: BadRow, parts: Sequence[Rows], starts: Sequence[int] | None = None) -> FileError:
    """The error for a row of several parts, with its file and its row in the file."""
    row = error.row
    for rows, start in zip(parts, starts or [0] * len(parts), strict=True):
        if row < len(rows) - start:
            problem = f"column {error.column} must be {error.need}, got {error.got}"
            return rows.source.error(rows.first + start + row, problem)
        row -= len(rows) - start
    raise error
