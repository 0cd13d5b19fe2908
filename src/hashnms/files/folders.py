"""Folders with a text file per image: YOLO (`class cx cy w h confidence`), VisDrone (`x,y,w,h,score,category,...`)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from hashnms._numbers import real
from hashnms.files.rows import Changes, FileError, Mask, Reading, Rows, Source, Writer, image_name
from hashnms.tables import Columns

_LINES_AT_A_TIME = 2**17


@dataclass(frozen=True)
class Layout:
    """The positions of the fields in a line."""

    separator: str | None  #: None: blanks
    fields: dict[str, int]  #: name -> position
    boxes: tuple[str, str, str, str]
    box_format: Any
    counts: tuple[int, ...]  #: the allowed numbers of fields in a line
    relative: bool = False  #: whether boxes are relative to the size of their image

    def values(self, line: str) -> list[Any]:
        """Parse the fields, in their order: the class as text, all others as numbers."""
        if not _is_utf8(line):
            raise FileError(f"must be UTF-8, got {line.encode(errors='surrogateescape')[:40]!r}")
        parts = line.strip().removesuffix(",").split(self.separator)
        if len(parts) not in self.counts:
            raise FileError(
                f"must have {self.counts[0]} fields, {' '.join(self.fields)}, got {len(parts)}: {line.strip()[:60]}"
            )
        values: list[Any] = []
        for name, place in self.fields.items():
            if name == "label":
                values.append(parts[place].strip())
                continue
            try:
                values.append(real(parts[place]))
            except ValueError:
                values.append(math.nan)
            if not math.isfinite(values[-1]):
                raise FileError(f"{name} must be a finite number, got {parts[place]!r}")
        return values


YOLO = Layout(
    None,
    {"label": 0, "cx": 1, "cy": 2, "w": 3, "h": 4, "score": 5},
    ("cx", "cy", "w", "h"),
    "cxcywh",
    (6, 7),  # the seventh is a track number
    relative=True,
)
VISDRONE = Layout(
    ",", {"x": 0, "y": 1, "w": 2, "h": 3, "score": 4, "label": 5}, ("x", "y", "w", "h"), "xywh", (8, 6, 7)
)


@dataclass(frozen=True)
class _File:
    name: str
    first: int  #: the number of its first line among the rows
    lines: list[str]


def _is_utf8(line: str) -> bool:
    """Whether a line has no byte that could not be decoded."""
    try:
        line.encode()
    except UnicodeEncodeError:
        return False
    return True


class FolderRows(Rows):
    """The lines of some files."""

    def __init__(self, first: int, source: FolderSource, files: list[_File], keys: pa.Table) -> None:
        self.first, self.source, self.files, self.keys = first, source, files, keys

    @property
    def nbytes(self) -> int:
        return int(self.keys.nbytes) + 120 * len(self.keys)  # one string per line

    def origins(self) -> Iterator[tuple[Path, int, int]]:
        for file in self.files:
            yield self.source.path / file.name, 0, len(file.lines)

    def table(self) -> pa.Table:
        return self.keys


class FolderSource(Source):
    """A folder of text files, each named after its image."""

    def __init__(self, path: Path, reading: Reading, *, layout: Layout) -> None:
        self.path, self._reading, self.layout, self.relative = path, reading, layout, layout.relative
        if not path.is_dir():
            raise FileError(f"{path}: must be a folder with one text file per image, got a file")
        self.paths = sorted(path.glob("*.txt"))
        if not self.paths:
            raise FileError(f"{path}: must be a folder with one text file per image, got no such file")
        self._check()
        label = reading.columns.get("label", "label")
        self.columns = Columns("image", label, layout.boxes, "score", layout.box_format)
        self._firsts: list[tuple[int, Path]] = []

    def _check(self) -> None:
        """Check that `columns` is empty, or only leaves out the class: the positions of the fields are fixed."""
        other = [
            f"{role}={name}" for role, name in self._reading.columns.items() if role != "label" or name is not None
        ]
        if other:
            raise FileError(f"{self.path}: columns of such a folder are fixed and must not be given, got {other[0]}")
        if self._reading.box_format not in (None, self.layout.box_format):
            need, got = self.layout.box_format, self._reading.box_format
            raise FileError(f"{self.path}: box_format of such a folder must be {need}, got {got!r}")

    def place(self, row: int) -> str:
        first, path = next((one for one in reversed(self._firsts) if one[0] <= row), (0, self.path))
        lines = path.read_bytes().decode(errors="replace").split("\n") if path.is_file() else []
        numbers = [number for number, line in enumerate(lines, 1) if line.strip()]
        return f"{path.name} line {numbers[row - first]}"

    def read(self) -> Iterator[Rows]:
        first, files, columns = 0, list[_File](), self._columns()
        self._firsts = []
        for number, path in enumerate(self.paths):
            count = len(columns["image"])
            self._firsts.append((first + count, path))
            files.append(_File(path.name, count, self._read(path, first + count, columns)))
            if len(columns["image"]) >= _LINES_AT_A_TIME or path == self.paths[-1]:
                rows = FolderRows(first, self, files, self._keys(columns))
                yield rows
                first, files, columns = first + len(rows), [], self._columns()
                self.done = (number + 1) / len(self.paths)

    def _columns(self) -> dict[str, list[Any]]:
        return {"image": [], **{name: [] for name in self.layout.fields}}

    def _keys(self, columns: dict[str, list[Any]]) -> pa.Table:
        texts = ("image", "label")
        return pa.table(
            {name: pa.array(values, pa.string() if name in texts else pa.float64()) for name, values in columns.items()}
        )

    def _read(self, path: Path, first: int, columns: dict[str, list[Any]]) -> list[str]:
        """Read the non-empty lines of a file, and add their fields to the columns."""
        text = path.read_bytes().removeprefix(b"\xef\xbb\xbf").decode(errors="surrogateescape")
        lines = [line for line in text.split("\n") if line.strip()]
        for number, line in enumerate(lines):
            try:
                values = self.layout.values(line)
            except FileError as error:
                if self._reading.on_bad == "raise":
                    raise self.error(first + number, str(error)) from None
                values = [None] * len(self.layout.fields)
            columns["image"].append(image_name(path.stem))
            for name, value in zip(self.layout.fields, values, strict=True):
                columns[name].append(value)
        return lines


class FolderWriter(Writer):
    """Writes the same files with only the kept lines; a file without any becomes empty."""

    def __init__(self, path: Path, source: Source) -> None:
        self._path = path
        if not isinstance(source, FolderSource):
            raise FileError(
                f"output must not be a folder of text files if the input has another format, got input {source.path}"
            )
        self._layout = source.layout

    def write(self, rows: Rows, keep: Mask, changes: Changes) -> None:
        assert isinstance(rows, FolderRows)
        new = iter(rows.new_numbers(keep, changes))  # of the kept rows, one after another
        for file in rows.files:
            of_file = range(file.first, file.first + len(file.lines))
            lines = [
                self._with_numbers(line, next(new)) for row, line in zip(of_file, file.lines, strict=True) if keep[row]
            ]
            target = self._path / file.name
            with target.open("ab") as stream:  # append: two folders may have a file of this name
                stream.write("".join(f"{line}\n" for line in lines).encode())

    def _with_numbers(self, line: str, new: dict[str, list[float]]) -> str:
        """Replace the numbers in some fields of a line."""
        if not new:
            return line
        field = r"\S+" if self._layout.separator is None else rf"(?:\A|(?<={self._layout.separator}))[^,\r]*"
        spans = [match.span() for match in re.finditer(field, line)]
        places = self._layout.fields
        for name in sorted(new, key=lambda name: -places[name]):
            start, end = spans[places[name]]
            line = f"{line[:start]}{new[name][0]!r}{line[end:]}"
        return line

    def close(self) -> None:
        pass
