"""JSON text as rows: the objects of a list, or lines. Text that is broken is divided as well as it can be."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from hashnms.files.rows import FileError

#: What msgspec raises for text that it cannot read. It checks UTF-8 only in the strings that it decodes.
UNREADABLE = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)

_BETWEEN = re.compile(rb"\}\s*,\s*(?=\{)")
_BEGIN = re.compile(rb"[,}]\s*(?=\{)")
_EMPTY_LINE = re.compile(rb"(?:\A|\n)\s*\n")
_MOST_CUTS = 64  #: within an object that is sought in broken text
_RAWS = msgspec.json.Decoder(list[msgspec.Raw])
_RAW_LINES = msgspec.json.Decoder(msgspec.Raw)
_TOKEN = re.compile(rb'"(?:[^"\\\x00-\x1f]|\\[^\x00-\x1f])*+"|[{}\[\],]')
_ANY_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Block(NamedTuple):
    """Whole rows of a file: its bytes from start to end, put between brackets if they are a list."""

    start: int
    end: int
    before: bytes = b""
    after: bytes = b""

    def text(self, stream: BinaryIO) -> bytes:
        stream.seek(self.start)
        return b"".join((self.before, stream.read(self.end - self.start), self.after))


def start_of_list(stream: BinaryIO, path: Path) -> int:
    """The position after the bracket that opens the list."""
    head = stream.read(256)
    text = head.removeprefix(b"\xef\xbb\xbf")
    found = re.match(rb"\s*\[", text)
    if found is None:
        hint = ", a COCO dataset instead of COCO results" if text.lstrip().startswith(b"{") else ""
        got = short(text[:24]) if text else "an empty file"
        raise FileError(f"{path}: must be a JSON list of objects, got {got}{hint}")
    return len(head) - len(text) + found.end()


def ends(text: bytes) -> list[tuple[int, int]]:
    """The last places where one object ends and the next begins: both positions of each."""
    found = [match.span() for match in _BETWEEN.finditer(text, max(0, len(text) - 2**16))]
    found = found or [match.span() for match in _BETWEEN.finditer(text)]
    return [(end + 1, following) for end, following in reversed(found[-8:])]


def blocks_of_lines(stream: BinaryIO, size: int) -> Iterator[tuple[bytes, Block]]:
    """The text of a file in blocks of whole lines."""
    start = 3 if stream.read(3) == b"\xef\xbb\xbf" else 0
    stream.seek(start)
    rest = b""
    while more := stream.read(size):
        text = rest + more
        end = text.rfind(b"\n") + 1
        if text[:end].strip():
            yield text[:end], Block(start, start + end)
        start, rest = start + end, text[end:]
    if rest.strip():
        yield rest, Block(start, start + len(rest))


def rows_of_lines(text: bytes) -> list[Any]:
    """The rows of JSON Lines, one on each line; those of broken lines too."""
    with suppress(*UNREADABLE):
        rows: list[Any] = _RAW_LINES.decode_lines(text)
        if is_one_each(rows, text):
            return rows
    return [line for line in text.split(b"\n") if line.strip()]


def is_one_each(rows: list[Any], text: bytes) -> bool:
    """Whether there is one row on each line: msgspec also takes several on a line, and one on several."""
    count = text.count(b"\n") + (not text.endswith(b"\n"))
    return len(rows) == (sum(map(bool, map(bytes.strip, text.split(b"\n")))) if _EMPTY_LINE.search(text) else count)


def rows_of_list(text: bytes) -> list[Any]:
    """The rows of a list; an error if it is broken."""
    rows: list[Any] = _RAWS.decode(text)
    return rows


def rows_of_broken_list(text: bytes) -> list[bytes]:
    """The rows of a list that is broken: those that are whole, and the parts of others."""
    commas = [0, *_commas(text), len(text)]
    pieces = [text[start + 1 : end].strip() for start, end in pairwise(commas)]
    if not _is_object(pieces[-1]):
        pieces[-1] = pieces[-1].removesuffix(b"]").rstrip()
    rows = [row for piece in pieces for row in ([piece] if _is_object(piece) else _objects(piece))]
    return rows if rows[-1] else rows[:-1]


def _objects(piece: bytes) -> list[bytes]:
    """A piece of a broken list, cut where an object seems to begin after another row, if that is not within one."""
    cuts = [(found.start() + found[0].startswith(b"}"), found.end()) for found in _BEGIN.finditer(piece)]
    starts, ends = [0, *(start for _, start in cuts)], [*(end for end, _ in cuts), len(piece)]
    rows, place = list[bytes](), 0
    while place < len(starts):
        lasts = range(place, min(place + _MOST_CUTS, len(ends)))
        last = next((last for last in lasts if _is_object(piece[starts[place] : ends[last]])), place)
        rows.append(piece[starts[place] : ends[last]].strip())
        place = last + 1
    return rows


def _is_object(text: bytes) -> bool:
    try:
        _ANY_OBJECT.decode(text)
    except UNREADABLE:
        return False
    return True


def _commas(text: bytes) -> Iterator[int]:
    """The positions of the commas between the rows of a list."""
    depth = 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in b"[{":
            depth += 1
        elif token in b"]}":
            depth = max(depth - 1, 1)  # one too many closes nothing
        elif depth == 1 and token == b",":
            yield match.start()


def broken_row(text: bytes, error: Exception) -> int:
    """The number of the row, from 0, where a list that cannot be read is broken."""
    return sum(1 for _ in _commas(text[: _place(error, len(text))]))


def _place(error: Exception, end: int) -> int:
    found = re.search(r"\(byte (\d+)\)", str(error))
    return int(found[1]) if found else end


def where_broken(error: Exception, before: int, what: str) -> str:
    """Where text is broken and how, as the end of a message: "" if it is not. `before`: the bytes before the text."""
    if isinstance(error, RecursionError):
        return " (nested too deeply)"
    if isinstance(error, UnicodeDecodeError):
        return " (not UTF-8)"
    if "truncated" in str(error):
        return " (cut off)"
    found = re.fullmatch(r"JSON is malformed: (.*) \(byte (\d+)\)", str(error))
    return "" if found is None else f" ({found[1]} near byte {before + int(found[2]) + 1:,} of the {what})"


def short(value: Any) -> str:
    """The beginning of a value, for messages."""
    text = bytes(value).decode(errors="replace") if isinstance(value, bytes | msgspec.Raw) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
