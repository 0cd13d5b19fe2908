"""COCO results (a JSON list of objects) and JSON Lines: known fields are decoded, kept rows are copied unchanged."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain, compress, islice
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from hashnms.files.rows import Changes, FileError, Mask, Reading, Rows, Source, Writer
from hashnms.tables import Columns

_BLOCK = 2**23
_LONGEST = 2**28  #: bytes of one row
_BETWEEN = re.compile(rb"\}\s*,\s*(?=\{)")
_RAWS = msgspec.json.Decoder(list[msgspec.Raw])
_RAW_LINES = msgspec.json.Decoder(msgspec.Raw)


class _Block(NamedTuple):
    """Whole rows of a file: its bytes from start to end, put between brackets if they are a list."""

    start: int
    end: int
    before: bytes = b""
    after: bytes = b""

    def text(self, stream: BinaryIO) -> bytes:
        stream.seek(self.start)
        return b"".join((self.before, stream.read(self.end - self.start), self.after))


class JsonRows(Rows):
    """Rows of a JSON file: their decoded fields, and the position of their text."""

    def __init__(self, first: int, source: JsonSource, block: _Block, keys: pa.Table) -> None:
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
        except (msgspec.DecodeError, pa.ArrowException, OverflowError) as error:
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
        """Split a text into rows, each as bytes."""
        try:
            rows: list[Any] = _RAW_LINES.decode_lines(text) if self._lines else _RAWS.decode(text)
        except (msgspec.DecodeError, RecursionError):
            if not self._lines:
                raise
            rows = [line for line in text.split(b"\n") if line.strip()]  # a row is bad
        return rows

    def _names(self) -> list[str] | None:
        """The keys of the first objects; None if there are no rows. Other errors are reported when rows are read."""
        names: dict[str, None] = {}
        for text, _ in self._texts(2**16):
            rows = self.raws(text)
            for row in rows:
                with suppress(msgspec.DecodeError, RecursionError):
                    names |= dict.fromkeys(msgspec.json.decode(row, type=dict[str, msgspec.Raw]))
            if names:
                return list(names)
            if self._reading.on_bad == "raise":
                got = _short(bytes(rows[0]))
                raise self.error(0, f"rows must be objects with keys such as image_id, got {got}")
        return None

    def read(self) -> Iterator[Rows]:
        first = 0
        for text, block in self._texts(_BLOCK):
            keys = _keys(self._decoded(text, first), self.columns)
            yield JsonRows(first, self, block, keys)
            first += len(keys)

    def _texts(self, size: int) -> Iterator[tuple[bytes, _Block]]:
        """Read the file in blocks of whole rows, each a list or lines."""
        whole = self.path.stat().st_size
        with self.path.open("rb") as stream:
            blocks = _blocks_of_lines(stream, size) if self._lines else self._blocks_of_list(stream, size, whole)
            for text, block in blocks:
                yield text, block
                self.done = block.end / whole

    def _blocks_of_list(self, stream: BinaryIO, size: int, whole: int) -> Iterator[tuple[bytes, _Block]]:
        start, first = _start_of_list(stream, self.path), 0
        while True:
            text, block, start, count = self._block_of_list(stream, start, size, whole, first)
            first += count
            if count:
                yield text, block
            if start >= whole:
                return

    def _block_of_list(
        self, stream: BinaryIO, start: int, size: int, whole: int, first: int
    ) -> tuple[bytes, _Block, int, int]:
        """The next rows: their text, its position, where the next block begins, and the number of rows."""
        while start + size < whole:
            text = _Block(start, start + size).text(stream)
            for end, following in _ends(text):  # the end of an object, possibly one within a row
                rows = b"".join((b"[", memoryview(text)[:end], b"]"))
                count = self._count(rows)
                if count is not None:
                    return rows, _Block(start, start + end, b"[", b"]"), start + following, count
            if size >= _LONGEST:
                break
            size *= 8
        block = _Block(start, min(whole, start + max(size, _LONGEST)), b"[")
        text = block.text(stream)
        try:
            count = len(_RAWS.decode(text))
        except (msgspec.DecodeError, RecursionError) as error:
            raise self._malformed(text, first, error) from None
        return text, block, whole, count

    @staticmethod
    def _count(text: bytes) -> int | None:
        """The number of rows in a list; None if the text is not a list."""
        try:
            return len(_RAWS.decode(text))
        except (msgspec.DecodeError, RecursionError):
            return None

    def _malformed(self, text: bytes, first: int, error: Exception) -> FileError:
        """The error for a text that is not a list, with the row that cannot be read."""
        if isinstance(error, RecursionError):
            return FileError(f"{self.path}: must be a JSON list of objects, got one nested too deeply")
        found = re.search(r"byte (\d+)", str(error))
        before = text[: int(found[1])] if found else text
        good = 0
        for end in reversed([match.start() + 1 for match in _BETWEEN.finditer(before)][-64:]):
            count = self._count(text[:end] + b"]")
            if count is not None:
                good = count
                break
        return self.error(first + good, f"must be JSON, got invalid text: {error}")

    def _decoded(self, text: bytes, first: int) -> list[Any]:
        """The rows as objects; None for a bad row, if bad rows are dropped."""
        try:
            rows: list[Any] = self._decoder.decode_lines(text) if self._lines else self._decoder.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return list(self._one_by_one(text, first))
        return rows

    def _one_by_one(self, text: bytes, first: int) -> Iterator[Any]:
        decode = _decoder(self.columns, lines=True).decode
        for number, row in enumerate(self.raws(text)):
            try:
                yield decode(row)
            except (msgspec.DecodeError, RecursionError) as error:
                if self._reading.on_bad == "raise":
                    raise self.error(first + number, _explained(error, bytes(row))) from None
                yield None


def _start_of_list(stream: BinaryIO, path: Path) -> int:
    """The position after the bracket that opens the list."""
    head = stream.read(256)
    text = head.removeprefix(b"\xef\xbb\xbf")
    found = re.match(rb"\s*\[", text)
    if found is None:
        hint = ", a COCO dataset instead of COCO results" if text.lstrip().startswith(b"{") else ""
        got = _short(text[:24]) if text else "an empty file"
        raise FileError(f"{path}: must be a JSON list of objects, got {got}{hint}")
    return len(head) - len(text) + found.end()


def _ends(text: bytes) -> list[tuple[int, int]]:
    """The last places where one object ends and the next begins: both positions of each."""
    found = [match.span() for match in _BETWEEN.finditer(text, max(0, len(text) - 2**16))]
    found = found or [match.span() for match in _BETWEEN.finditer(text)]
    return [(end + 1, following) for end, following in reversed(found[-8:])]


def _blocks_of_lines(stream: BinaryIO, size: int) -> Iterator[tuple[bytes, _Block]]:
    start = 3 if stream.read(3) == b"\xef\xbb\xbf" else 0
    stream.seek(start)
    rest = b""
    while more := stream.read(size):
        text = rest + more
        end = text.rfind(b"\n") + 1
        if text[:end].strip():
            yield text[:end], _Block(start, start + end)
        start, rest = start + end, text[end:]
    if rest.strip():
        yield rest, _Block(start, start + len(rest))


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


def _explained(error: Exception, row: bytes) -> str:
    """The error for a row: the field, what it needs and what it has."""
    text = str(error)
    missing = re.search(r"missing required field `(.*?)`", text)
    if missing:
        return f"{missing[1]} must be given, got {_short(row)}"
    wrong = re.fullmatch(r"(?:Expected )?(.*?)(?:, got .*?)? - at `\$\.(.*?)`", text)
    if wrong is None:
        return f"must be a JSON object, got {_short(row)}"
    need = wrong[1].replace("`", "").replace("Number out of range", "a finite number")
    for kind, plain in _KINDS.items():
        need = re.sub(kind, plain, need)
    values = msgspec.json.decode(row, type=dict[str, msgspec.Raw])
    name = wrong[2] if wrong[2] in values else wrong[2].rpartition("[")[0]
    return f"{wrong[2]} must be {need}, got {_short(values[name])}"


def _short(value: Any) -> str:
    text = bytes(value).decode(errors="replace") if isinstance(value, bytes | msgspec.Raw) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


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
