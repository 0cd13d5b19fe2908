"""CSV and TSV files, with or without a header: pyarrow parses the needed columns, kept lines are copied unchanged."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv

from hashnms._frames import without_views
from hashnms._numbers import real
from hashnms.files.rows import Changes, FileError, Mask, Reading, Rows, Source, Writer
from hashnms.tables import Columns

_BLOCK = 2**23
_LONGEST = 2**28  #: bytes of one line
_BOM = b"\xef\xbb\xbf"


class DelimitedRows(Rows):
    """Lines of a file: their parsed columns, and their position in the file."""

    def __init__(self, first: int, source: DelimitedSource, span: tuple[int, int], keys: pa.Table) -> None:
        self.first, self.source, self._span, self.keys = first, source, span, keys
        self._delimited = source

    @property
    def names(self) -> list[str]:
        return self._delimited.names

    def _text(self) -> bytes:
        with self.source.path.open("rb") as stream:
            stream.seek(self._span[0])
            return stream.read(self._span[1] - self._span[0])

    def table(self) -> pa.Table:
        return self._parsed(self._text())

    def kept_table(self, keep: Mask, changes: Changes) -> pa.Table:
        lines = self.lines(keep, Changes())  # others may be bad
        for row, line in zip(np.flatnonzero(keep).tolist(), lines, strict=True):
            if not _is_utf8(line):
                problem = f"must be UTF-8 to be written in another format, got {line[:40]!r}"
                raise self.source.error(self.first + row, problem)
        return self.changed(self._parsed(b"".join(line + b"\n" for line in lines)), changes)

    def _parsed(self, text: bytes) -> pa.Table:
        try:
            return self._delimited.parsed(text, self.names)
        except pa.ArrowInvalid as error:
            raise FileError(
                f"{self.source.path}: columns must be text to be written in another format, got {error}"
            ) from None

    def lines(self, keep: Mask, changes: Changes) -> list[bytes]:
        """The lines that are kept, byte for byte, except for a new score or box."""
        lines = self._delimited.lines(self._text())
        if len(lines) != len(keep):
            problem = f"must have {len(keep):,} lines from here on, got {len(lines):,}: one contains a carriage return"
            raise self.source.error(self.first, problem)
        kept = list(compress(lines, keep.tolist()))
        if changes.are_none:
            return kept
        field = _FIELD[self._delimited.delimiter]
        places = {name: place for place, name in reversed(list(enumerate(self.names)))}
        return [
            _with_fields(line, field, {places[name]: number for name, (number,) in new.items()}) if new else line
            for line, new in zip(kept, self.new_numbers(keep, changes), strict=True)
        ]


def _is_utf8(text: bytes) -> bool:
    """Whether text can be decoded."""
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _with_fields(line: bytes, field: re.Pattern[bytes], values: dict[int, float]) -> bytes:
    """Replace the numbers in some fields of a line."""
    spans = [match.span(1) for match in field.finditer(line)]
    for place in sorted(values, reverse=True):
        start, end = spans[place]
        ending = b"\r" * line[start:end].endswith(b"\r")
        line = line[:start] + repr(values[place]).encode() + ending + line[end:]
    return line


def _pattern(delimiter: str) -> str:
    """The pattern of a field. As in pyarrow, only a quote at its beginning makes it a quoted field."""
    return rf'(?:"(?>[^"]+|"")*+(?:"|\Z)[^{delimiter}\n]*+|[^{delimiter}\n]*+)'


_FIELD = {mark: re.compile(rf"(?:\A|{mark})({_pattern(mark)})".encode()) for mark in ",\t"}
_LINE = {mark: re.compile(rf"{_pattern(mark)}(?:{mark}{_pattern(mark)})*+".encode()) for mark in ",\t"}


#: Text that ends within a quoted field.
_OPEN = {mark: re.compile(rf'(?:{_pattern(mark)}{mark})*+"(?>[^"]+|"")*+'.encode()) for mark in ",\t"}


def _all_lines(text: bytes, delimiter: str, count: int | None = None) -> list[bytes]:
    """The lines of a text; a line feed between quotes does not end a line.

    If `count` is given, it does where the whole would not have so many fields: one quote too many takes no other lines.
    """
    if b'"' not in text:
        return text.split(b"\n")
    lines, place = [], 0
    while place <= len(text):
        found = _LINE[delimiter].match(text, place)
        assert found is not None  # it matches anything, even an empty text
        line = found[0]
        if count is not None and b"\n" in line and not _has_fields(line, delimiter, count):
            line = line[: line.index(b"\n")]
        lines.append(line)
        place += len(line) + 1
    return lines


def _has_fields(line: bytes, delimiter: str, count: int) -> bool:
    return len(_FIELD[delimiter].findall(line)) == count and not _OPEN[delimiter].fullmatch(line)


class DelimitedSource(Source):
    """A file with one row per line."""

    def __init__(
        self,
        path: Path,
        reading: Reading,
        *,
        delimiter: str = ",",
        names: Sequence[str] | None = None,
        usual: dict[str, Any] | None = None,
    ) -> None:
        """Open a file. It has a header unless `names` are given. `usual`: the roles of the columns."""
        self.path, self.delimiter, self._reading = path, delimiter, reading
        given = reading.header or names
        self.header = b""
        with path.open("rb") as stream:
            head = stream.readline()
        if given is None:
            self.header = head.removeprefix(_BOM)
            given = self._names(self.header)
        self._start = len(head) if self.header else len(_BOM) * head.startswith(_BOM)
        self.names = [name.strip() for name in given]
        try:
            self.columns = reading.find(self.names, path, usual)
        except FileError as error:
            hint = "" if reading.header or names else "; if its first line is not a header, give the column names"
            raise FileError(f"{error}{hint}") from None

    def _names(self, line: bytes) -> list[str]:
        """The names of the columns, from the first line."""
        need = f"{self.path}: must have a first line with column names"
        try:
            names = next(csv.reader([line.decode(errors="replace")], delimiter=self.delimiter, strict=True), [])
        except csv.Error as error:
            raise FileError(f"{need}, got a line that is not CSV: {error}") from None
        if not any(names):
            raise FileError(f"{need}, got an empty line")
        return names

    def place(self, row: int) -> str:
        """The number of the line where a row begins; empty lines and line feeds between quotes count."""
        number, left = 1 + bool(self.header), row
        with self.path.open("rb") as stream:
            stream.seek(self._start)
            for _, text in _blocks(stream, self.delimiter):
                for line in _all_lines(text.removesuffix(b"\n"), self.delimiter, len(self.names)):
                    if line not in (b"", b"\r"):
                        if left == 0:
                            return f"line {number:,}"
                        left -= 1
                    number += 1 + line.count(b"\n")
        return f"line {number:,}"

    def lines(self, text: bytes) -> list[bytes]:
        """The lines of a block that are not empty, as pyarrow counts them."""
        return [line for line in _all_lines(text, self.delimiter, len(self.names)) if line not in (b"", b"\r")]

    def read(self) -> Iterator[Rows]:
        first, size = 0, self.path.stat().st_size
        with self.path.open("rb") as stream:
            stream.seek(self._start)
            for start, text in _blocks(stream, self.delimiter):
                if not text.strip():
                    continue
                last = start + len(text) == size
                keys = self._one_by_one(text, first) if last and self._is_open(text) else self._keys(text, first)
                yield DelimitedRows(first, self, (start, start + len(text)), keys)
                first += len(keys)
                self.done = (start + len(text)) / size
        if first == 0:  # only column names, for output in another format
            yield DelimitedRows(0, self, (0, 0), self.parsed(b"", self.columns.names))

    def _is_open(self, text: bytes) -> bool:
        """Whether a quote is left open, which pyarrow accepts at the end of a file."""
        return b'"' in text and bool(_OPEN[self.delimiter].fullmatch(_all_lines(text, self.delimiter)[-1]))

    def _keys(self, text: bytes, first: int) -> pa.Table:
        try:
            return self.parsed(text, self.columns.names)
        except pa.ArrowInvalid:
            return self._one_by_one(text, first)

    def parsed(self, text: bytes, names: list[str]) -> pa.Table:
        """Parse these columns: boxes and scores as numbers, all others as text."""
        numbers = (*self.columns.boxes, self.columns.score)
        types = {name: pa.float64() if name in numbers else pa.string() for name in names}
        if not text:
            return pa.schema(types).empty_table()
        table = arrow_csv.read_csv(
            pa.BufferReader(text),
            arrow_csv.ReadOptions(column_names=self.names, block_size=max(len(text), 1), use_threads=False),
            arrow_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=b'"' in text),
            arrow_csv.ConvertOptions(
                column_types=types, include_columns=names, null_values=[""], strings_can_be_null=True
            ),
        )
        return table

    def _one_by_one(self, text: bytes, first: int) -> pa.Table:
        """Parse line by line, to find the bad line."""
        columns: dict[str, list[Any]] = {name: [] for name in self.columns.names}
        for number, line in enumerate(self.lines(text)):
            try:
                values = self._values(line)
            except FileError as error:
                if self._reading.on_bad == "raise":
                    raise self.error(first + number, str(error)) from None
                values = dict.fromkeys(columns)
            for name, found in columns.items():
                found.append(values[name])
        numbers = (*self.columns.boxes, self.columns.score)
        return pa.table(
            {name: pa.array(found, pa.float64() if name in numbers else pa.string()) for name, found in columns.items()}
        )

    def _values(self, line: bytes) -> dict[str, Any]:
        text = line.decode(errors="surrogateescape")
        if _OPEN[self.delimiter].fullmatch(line):
            raise FileError(f"must have a quote at the end of each quoted field, got {text.strip()[:60]}")
        try:
            fields = next(csv.reader(io.StringIO(text, newline=""), delimiter=self.delimiter))
        except csv.Error as error:
            raise FileError(f"must be CSV, got {text.strip()[:60]}: {error}") from None
        if len(fields) != len(self.names):
            raise FileError(f"must have {len(self.names)} columns, got {len(fields)}: {text.strip()[:60]}")
        values: dict[str, Any] = dict(zip(self.names, fields, strict=True))
        for name in self.columns.names:  # others may have any encoding
            if not _is_utf8(field := values[name].encode(errors="surrogateescape")):
                raise FileError(f"column {name} must be UTF-8, got {field[:40]!r}")
        for name in (*self.columns.boxes, self.columns.score):
            try:
                values[name] = real(values[name])
            except ValueError:
                raise FileError(f"column {name} must be a number, got {values[name][:40]!r}") from None
            if not math.isfinite(values[name]):
                raise FileError(f"column {name} must be a finite number, got {values[name]}")
        return values


def _blocks(stream: io.BufferedReader, delimiter: str) -> Iterator[tuple[int, bytes]]:
    """Read the text in blocks of whole lines, with the position of each."""
    start, rest = stream.tell(), b""
    while more := stream.read(_BLOCK):
        text = rest + more
        whole = b'"' not in text or len(text) > _LONGEST
        cut = text.rfind(b"\n") + 1 if whole else len(text) - len(_all_lines(text, delimiter)[-1])
        if cut:
            yield start, text[:cut]
        start, rest = start + cut, text[cut:]
    if rest:
        yield start, rest


def _flat(table: pa.Table, columns: Columns) -> pa.Table:
    """Replace a column of lists by four columns."""
    if len(columns.boxes) == 4:
        return table
    place = table.schema.get_field_index(columns.boxes[0])
    boxes = np.array(table.column(place).to_pylist(), np.float64).reshape(-1, 4)
    table = table.remove_column(place)
    for number, name in enumerate(_NAMES[columns.box_format]):
        table = table.add_column(place + number, name, pa.array(boxes[:, number]))
    return table


_NAMES = {"xyxy": ("x1", "y1", "x2", "y2"), "xywh": ("x", "y", "w", "h"), "cxcywh": ("cx", "cy", "w", "h")}


class DelimitedWriter(Writer):
    """Writes the header of the input, if it has one, and the kept lines."""

    def __init__(self, path: Path, source: Source, *, delimiter: str = ",") -> None:
        self._file, self._delimiter, self._source = path.open("wb"), delimiter, source
        self._header: bytes | None = None
        if isinstance(source, DelimitedSource) and source.delimiter == delimiter:
            self._header, self._names = source.header, source.names
            self._file.write(self._header.removesuffix(b"\n") + b"\n" * bool(self._header))

    def write(self, rows: Rows, keep: Mask, changes: Changes) -> None:
        if isinstance(rows, DelimitedRows) and self._header is not None:
            if rows.names != self._names:
                need, got = ", ".join(self._names), ", ".join(rows.names)
                raise FileError(f"{rows.source.path}: columns must be those of the first file, {need}, got {got}")
            self._file.write(b"".join(line + b"\n" for line in rows.lines(keep, changes)))
            return
        self._convert(_flat(rows.kept_table(keep, changes), rows.source.columns))

    def _convert(self, table: pa.Table) -> None:
        """Write rows of another format, with their column names as the header."""
        if self._header is not None and table.schema.names != self._names:
            need, got = ", ".join(self._names), ", ".join(table.schema.names)
            raise FileError(f"{self._source.path}: columns must be those of the first rows, {need}, got {got}")
        options = arrow_csv.WriteOptions(
            include_header=self._header is None, delimiter=self._delimiter, quoting_style="needed"
        )
        self._header, self._names = b"written", table.schema.names
        try:
            arrow_csv.write_csv(without_views(table), self._file, options)
        except pa.ArrowInvalid as error:
            raise FileError(
                f"{self._source.path}: columns must be numbers or text to be written as CSV, got {error}"
            ) from None

    def close(self) -> None:
        self._file.close()
