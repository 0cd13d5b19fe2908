"""COCO results (a JSON list of objects) and JSON Lines: known fields are decoded, kept rows are copied unchanged."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain, compress, islice
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
import pyarrow as pa

from hashnms.files.json_text import (
    UNREADABLE,
    Block,
    blocks_of_lines,
    broken_row,
    ends,
    is_one_each,
    rows_of_broken_list,
    rows_of_lines,
    rows_of_list,
    short,
    start_of_list,
    where_broken,
)
from hashnms.files.rows import Changes, FileError, Mask, Reading, Rows, Source, Writer
from hashnms.tables import Columns

_BLOCK = 2**23
_LONGEST = 2**28  #: bytes of one row


class JsonRows(Rows):
    """Rows of a JSON file: their decoded fields, and the position of their text."""

    def __init__(self, first: int, source: JsonSource, block: Block, keys: pa.Table) -> None:
        self.first, self.source, self._block, self.keys = first, source, block, keys
        self._json = source

    def _raws(self) -> list[Any]:
        with self.source.path.open("rb") as stream:
            return self._json.raws(self._block.text(stream))

    def table(self) -> pa.Table:
        return self._table(self._raws())

    def kept_table(self, keep: Mask, changes: Changes) -> pa.Table:
        kept = list(compress(self._raws(), keep.tolist()))  # others may be bad
        return self.changed(self._table(kept), changes)

    def _table(self, raws: list[Any]) -> pa.Table:
        """All keys of the file's first rows; null where a row lacks one."""
        names, columns = self._json.names, self.source.columns
        number = pa.float64()
        types = {name: number if len(columns.boxes) == 4 else pa.list_(number) for name in columns.boxes}
        types[columns.score] = number
        try:
            rows = [msgspec.json.decode(raw, type=dict[str, Any]) for raw in raws]
            made = {name: pa.array([row.get(name) for row in rows], types.get(name)) for name in names}
        except (*UNREADABLE, pa.ArrowException, OverflowError) as error:
            problem = "all values of a key must have one type to be written in another format"
            raise FileError(f"{self.source.path}: {problem}, got {error}") from None
        more = set().union(*rows) - set(names)
        if more:
            problem = "all rows must have the keys of the first rows to be written in another format"
            raise FileError(f"{self.source.path}: {problem}, {', '.join(names)}, got {min(more)}")
        return pa.table(made)

    def texts(self, keep: Mask, changes: Changes) -> list[Any]:
        """The kept rows, byte for byte, except for a new score or box."""
        raws = list(compress(self._raws(), keep.tolist()))
        if changes.are_none:
            return raws
        lists = self.source.columns.boxes if len(self.source.columns.boxes) == 1 else ()
        return [
            _with_numbers(bytes(raw), self._json.values, new, lists) if new else raw
            for raw, new in zip(raws, self.new_numbers(keep, changes), strict=True)
        ]


def _with_numbers(
    row: bytes, values_of: Callable[[bytes], dict[str, Any]], new: dict[str, list[float]], lists: tuple[str, ...]
) -> bytes:
    """Replace some values of a row; all other bytes stay."""
    whole, values = _address(row), values_of(row)
    spans = sorted(((_address(values[name]) - whole, name) for name in new), reverse=True)
    for start, name in spans:  # from the last one: earlier positions stay valid
        text = ", ".join(map(repr, new[name]))
        end = start + len(memoryview(values[name]))
        row = row[:start] + (f"[{text}]" if name in lists else text).encode() + row[end:]
    return row


def _address(text: Any) -> int:
    return int(np.frombuffer(text, np.uint8).__array_interface__["data"][0])


class JsonSource(Source):
    """A JSON list of objects, such as COCO results; or JSON Lines."""

    def __init__(self, path: Path, reading: Reading, *, lines: bool = False) -> None:
        self.path, self._reading, self._lines = path, reading, lines
        self._row_name = "line" if lines else "row"
        self.names = self._names() or ["image_id", "category_id", "bbox", "score"]  # a file without rows
        self.columns = reading.find(self.names, path)
        roles = (self.columns.image, self.columns.label, *self.columns.boxes, self.columns.score)
        twice = next((name for name in roles if name is not None and roles.count(name) > 1), None)
        if twice is not None:
            raise FileError(f"{path}: image, label, boxes and score must be different keys, got {twice} twice")
        self._decoder = _decoder(self.columns, lines)
        names = [*self.columns.boxes, self.columns.score]
        fields = [(f"field_{number}", msgspec.Raw) for number in range(len(names))]
        rename = {field: name for (field, _), name in zip(fields, names, strict=True)}
        decode = msgspec.json.Decoder(msgspec.defstruct("Numbers", fields, rename=rename)).decode
        #: The bytes of a row's box and score, as views into the row.
        self.values: Callable[[bytes], dict[str, Any]] = lambda row: {
            name: getattr(found, field) for found in [decode(row)] for field, name in rename.items()
        }

    def place(self, row: int) -> str:
        if not self._lines:
            return super().place(row)
        with self.path.open("rb") as stream:
            lines = (number for number, line in enumerate(stream, 1) if line.strip())
            return f"line {next(islice(lines, row, None), row + 1):,}"

    def raws(self, text: bytes) -> list[Any]:
        """Split a text into rows, each as bytes. A list that is broken is an error, unless bad rows are dropped."""
        if self._lines:
            return rows_of_lines(text)
        try:
            return rows_of_list(text)
        except UNREADABLE:
            if self._reading.on_bad == "raise":
                raise
            return rows_of_broken_list(text)

    def _names(self) -> list[str] | None:
        """The keys of the first objects; None if there are no rows. Other errors are reported when rows are read."""
        names: dict[str, None] = {}
        for text, _ in self._texts(2**16):
            rows = self.raws(text)
            for row in rows:
                with suppress(*UNREADABLE):
                    names |= dict.fromkeys(msgspec.json.decode(row, type=dict[str, msgspec.Raw]))
            if names:
                return list(names)
            if self._reading.on_bad == "raise":
                got = short(bytes(rows[0]))
                raise self.error(0, f"rows must be objects with keys such as image_id, got {got}")
        return None

    def read(self) -> Iterator[Rows]:
        first = 0
        for text, block in self._texts(_BLOCK):
            keys = _keys(self._decoded(text, first), self.columns)
            yield JsonRows(first, self, block, keys)
            first += len(keys)

    def _texts(self, size: int) -> Iterator[tuple[bytes, Block]]:
        """Read the file in blocks of whole rows, each a list or lines."""
        whole = self.path.stat().st_size
        with self.path.open("rb") as stream:
            blocks = blocks_of_lines(stream, size) if self._lines else self._blocks_of_list(stream, size, whole)
            for text, block in blocks:
                yield text, block
                self.done = block.end / whole

    def _blocks_of_list(self, stream: BinaryIO, size: int, whole: int) -> Iterator[tuple[bytes, Block]]:
        start, first = start_of_list(stream, self.path), 0
        while True:
            text, block, start, count = self._block_of_list(stream, start, size, whole, first)
            first += count
            if count:
                yield text, block
            if start >= whole:
                return

    def _block_of_list(
        self, stream: BinaryIO, start: int, size: int, whole: int, first: int
    ) -> tuple[bytes, Block, int, int]:
        """The next rows: their text, its position, where the next block begins, and the number of rows."""
        skips, largest = self._reading.on_bad == "drop", 8 * size
        while start + size < whole:
            text = Block(start, start + size).text(stream)
            cuts = ends(text)  # the end of an object, possibly one within a row
            for end, following in cuts:
                rows = b"".join((b"[", memoryview(text)[:end], b"]"))
                try:
                    count = len(rows_of_list(rows))
                except UNREADABLE:
                    if not skips or size < largest or (end, following) != cuts[-1]:
                        continue
                    count = len(self.raws(rows))  # a row is broken: more text would not help
                return rows, Block(start, start + end, b"[", b"]"), start + following, count
            if size >= _LONGEST:
                break
            size *= 8
        block = Block(start, min(whole, start + max(size, _LONGEST)), b"[")
        text = block.text(stream)
        try:
            count = len(self.raws(text))
        except UNREADABLE as error:
            raise self._malformed(text, block, first, error) from None
        return text, block, whole, count

    def _malformed(self, text: bytes, block: Block, first: int, error: Exception) -> FileError:
        """The error for a text that is not a list, with the row that cannot be read."""
        where = where_broken(error, block.start - len(block.before), "file")
        return self.error(first + broken_row(text, error), f"must be JSON, got invalid text{where}")

    def _decoded(self, text: bytes, first: int) -> list[Any]:
        """The rows as objects; None for a bad row, if bad rows are dropped."""
        try:
            _ = text.isascii() or text.decode()
            rows: list[Any] = self._decoder.decode_lines(text) if self._lines else self._decoder.decode(text)
        except UNREADABLE:
            return list(self._one_by_one(text, first))
        is_whole = not self._lines or is_one_each(rows, text)
        return rows if is_whole else list(self._one_by_one(text, first))

    def _one_by_one(self, text: bytes, first: int) -> Iterator[Any]:
        decode = _decoder(self.columns, lines=True).decode
        for number, raw in enumerate(self.raws(text)):
            row = bytes(raw)
            try:
                row.decode()
                yield decode(row)
            except UNREADABLE as error:
                if self._reading.on_bad == "raise":
                    raise self.error(first + number, _explained(error, row, self._row_name)) from None
                yield None


def _decoder(columns: Columns, lines: bool) -> Any:
    """A decoder for the fields that a suppression needs; other keys are skipped."""
    fields: dict[str, tuple[str, Any]] = {}
    for name in (columns.image, columns.label):
        if name is not None:
            fields[name] = (f"field_{len(fields)}", int | str)
    kind = tuple[float, float, float, float] if len(columns.boxes) == 1 else float
    for name, type_ in (*((name, kind) for name in columns.boxes), (columns.score, float)):
        fields[name] = (f"field_{len(fields)}", type_)
    rename = {field: name for name, (field, _) in fields.items()}
    row: Any = msgspec.defstruct("Row", list(fields.values()), rename=rename, gc=False)
    return msgspec.json.Decoder(row if lines else list[row])


def _keys(rows: list[Any], columns: Columns) -> pa.Table:
    """Decoded rows as columns; null where a row is None."""
    good = [row for row in rows if row is not None]
    made: dict[str, Any] = {}
    for number, name in enumerate(columns.names):
        values = map(attrgetter(f"field_{number}"), good)
        if name in columns.boxes and len(columns.boxes) == 1:
            flat = np.fromiter(chain.from_iterable(values), np.float64, 4 * len(good))
            made[name] = pa.FixedSizeListArray.from_arrays(flat, 4)
        elif name in (columns.image, columns.label):
            made[name] = _ids(list(values))
        else:
            made[name] = pa.array(np.fromiter(values, np.float64, len(good)))
    table = pa.table(made)
    if len(good) == len(rows):
        return table
    places = np.cumsum([row is not None for row in rows]) - 1
    missing = np.array([row is None for row in rows])
    return table.take(pa.array(np.where(missing, 0, places), mask=missing))


def _ids(values: list[Any]) -> Any:
    """A column of whole numbers or strings; of null type if there are no values."""
    if not values:
        return pa.nulls(0)
    try:
        return pa.array(values, pa.int64() if isinstance(values[0], int) else pa.string())
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([str(value) for value in values], pa.string())


_KINDS = {
    r"\bfloat\b": "a number",
    r"\bint\b": "a whole number",
    r"\bstr\b": "a string",
    r"\barray\b": "a list",
    r" \| ": " or ",
}


def _explained(error: Exception, row: bytes, what: str) -> str:
    """The error for a row: the field, what it needs and what it has."""
    try:
        row.decode()
        values = msgspec.json.decode(row, type=dict[str, msgspec.Raw])
    except UnicodeDecodeError:
        return f"must be UTF-8, got {short(row)}"
    except (msgspec.DecodeError, RecursionError) as broken:
        return f"must be a JSON object, got {short(row)}{where_broken(broken, 0, what)}"
    text = str(error)
    missing = re.search(r"missing required field `(.*?)`", text)
    if missing:
        return f"{missing[1]} must be given, got {short(row)}"
    wrong = re.fullmatch(r"(?:Expected )?(.*?)(?:, got .*?)? - at `\$\.(.*?)`", text)
    if wrong is None:
        return f"must be a JSON object, got {short(row)}"
    need = wrong[1].replace("`", "").replace("Number out of range", "a finite number")
    for kind, plain in _KINDS.items():
        need = re.sub(kind, plain, need)
    name = wrong[2] if wrong[2] in values else wrong[2].rpartition("[")[0]
    return f"{wrong[2]} must be {need}, got {short(values[name])}"


class JsonWriter(Writer):
    """Writes a JSON list with one row per line, or JSON Lines."""

    def __init__(self, path: Path, source: Source, *, lines: bool = False) -> None:
        self._file, self._lines, self._empty = path.open("wb"), lines, True
        self._source = source
        if not lines:
            self._file.write(b"[")

    def write(self, rows: Rows, keep: Mask, changes: Changes) -> None:
        texts: Iterable[Any]
        if isinstance(rows, JsonRows):
            texts = rows.texts(keep, changes)
        else:
            table = rows.kept_table(keep, changes)
            objects = table.to_pylist() if self._lines else _coco_objects(table, rows.source.columns)
            texts = [msgspec.json.encode(value) for value in objects]
        texts = list(texts)
        if not texts:
            return
        between = b"\n" if self._lines else b",\n"
        self._file.write(b"" if self._empty else between)
        self._file.write(between.join(texts))
        self._empty = False

    def finish(self) -> None:
        if not (self._lines and self._empty):
            self._file.write(b"\n" if self._lines else b"]\n")

    def close(self) -> None:
        self._file.close()


def _coco_objects(table: pa.Table, columns: Columns) -> Iterator[dict[str, Any]]:
    """Rows of another format as COCO results: image_id, category_id, bbox as xywh, score, and all other columns."""
    for row in table.to_pylist():
        box = row[columns.boxes[0]] if len(columns.boxes) == 1 else [row[name] for name in columns.boxes]
        x, y, w, h = box
        if columns.box_format == "xyxy":
            w, h = w - x, h - y
        elif columns.box_format == "cxcywh":
            x, y = x - w / 2, y - h / 2
        known = {} if columns.image is None else {"image_id": row[columns.image]}
        known |= {} if columns.label is None else {"category_id": row[columns.label]}
        known |= {"bbox": [x, y, w, h], "score": row[columns.score]}
        yield known | {name: value for name, value in row.items() if name not in columns.names and name not in known}
