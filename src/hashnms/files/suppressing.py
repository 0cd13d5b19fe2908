"""`suppress`: suppress the boxes of files of any size."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hashnms._arrow import BadRow
from hashnms._memory import machine_memory
from hashnms._settings import BoxFormatName, count_value
from hashnms.files.folders import FolderSource
from hashnms.files.formats import Format, expanded, output_format
from hashnms.files.output import beside, spooled
from hashnms.files.rows import Changes, FileError, Mask, Reading, Rows, Source, Writer, joined_keys, located, read_alike
from hashnms.files.scattered import Scattered
from hashnms.pipeline import Suppression
from hashnms.tables import OnBad, check_scores, kept_rows

AnyPath = str | os.PathLike[str]
#: Called with the share of the work that is done, and the name of the current step.
Progress = Callable[[float, str], None]


@dataclass(frozen=True)
class Summary:
    """What `suppress` did."""

    boxes_in: int
    boxes_out: int
    bad: int  #: rows that were dropped because they are bad
    seconds: float
    memory_needed: int = 0  #: the least bytes for rows in memory at a time: more were used if `memory` was less

    def __str__(self) -> str:
        # in less than a second, most of the time is spent on starting
        rate = f", {self.boxes_in / self.seconds:,.0f} boxes/s" if self.seconds >= 1 else ""
        dropped = f", {self.bad:,} bad {'rows' if self.bad > 1 else 'row'} dropped" if self.bad else ""
        boxes = "box" if self.boxes_in == 1 else "boxes"
        return f"{self.boxes_in:,} {boxes} in, {self.boxes_out:,} out{dropped}, {self.seconds:.2f} s{rate}"


def suppress(
    inputs: AnyPath | Sequence[AnyPath],
    output: AnyPath,
    suppression: Suppression | str,
    *,
    format: str | None = None,
    to: str | None = None,
    columns: dict[str, Any] | None = None,
    header: Sequence[str] | None = None,
    box_format: BoxFormatName | None = None,
    on_bad: OnBad = "raise",
    memory: int | None = None,
    progress: Progress = lambda *_: None,
) -> Summary:
    """Suppress the boxes in files, image by image and class by class, and write the kept rows.

    Kept rows stay in their order and are copied unchanged, byte for byte in text formats. Only some steps change
    numbers: Soft-NMS the scores, merging (`nmm`, `vote`) the boxes that changed, and `wbf` both. The rows of an image
    may be anywhere, even in different files. Files need not fit into memory, but the boxes of each image must. The
    output appears when it is complete; after an error, an old output is unchanged.

    Args:
        inputs: files, folders or patterns such as `tiles/*.parquet`, all of one format; "-" is standard input.
        output: the file to write, or the folder for formats with one file per image; "-" is standard output.
        suppression: a `Suppression` or its notation, e.g. "nms:0.5".
        format: the format of the input, one of `FORMATS`; by default it is chosen by the suffix.
        to: the format of the output; by default it is chosen by the suffix, or is the format of the input.
        columns: the names of the columns `image`, `label`, `boxes` and `score`, if they are unusual. With a label of
            None, boxes of different classes suppress each other.
        header: the names of the columns of CSV files that have no header.
        box_format: "xyxy", "xywh" or "cxcywh"; by default the usual meaning of the column names.
        on_bad: "raise" an error that names the first bad row, or "drop" bad rows and count them.
        memory: how many bytes to use for rows, approximately; by default a quarter of the machine's memory. More are
            used if an image or a part of a file needs more: `Summary.memory_needed` says how many.
        progress: called now and then with the share of the work that is done, and the name of the current step.

    Returns:
        A `Summary`: the numbers of boxes read and kept, of bad rows dropped, and the time taken.

    Raises:
        FileError, ValueError, TypeError: if a file or an argument is invalid.
        OSError: if a file cannot be read or written.
    """
    start = time.perf_counter()
    chain = Suppression.of(suppression)
    given = [inputs] if isinstance(inputs, str | os.PathLike) else list(inputs)
    target = Path(output)
    reading = Reading(columns or {}, box_format, None if header is None else tuple(header), on_bad)
    with ExitStack() as stack:
        paths, kind = expanded(stack.enter_context(spooled(given)), format)
        sources = [kind.open(path, reading) for path in paths]
        wanted = output_format(target, to, kind)
        names = {file.name for source in sources if isinstance(source, FolderSource) for file in source.paths}
        new = stack.enter_context(beside(target, folder=wanted.folder, names=names))
        job = _Job(sources, wanted, new, chain, reading, memory_or_default(memory), progress)
        return job.run(start)


def memory_or_default(given: int | None) -> int:
    """How many bytes to use."""
    return machine_memory() // 4 if given is None else count_value("memory", given)


#: More bytes at a time are not faster: 10⁷ rows took 4.1 s of CPU time in one part, 1.8 s in parts of this size.
_ENOUGH = 2**28


class _NotGrouped(Exception):
    """Rows of an image came after it had been decided: its rows are scattered."""


@dataclass
class _Part:
    """Rows that are not yet decided from `start` on."""

    rows: Rows
    start: int = 0


@dataclass
class _Job:
    """One run: from sources to the file that will become the output."""

    sources: list[Source]
    format: Format
    output: Path
    chain: Suppression
    reading: Reading
    memory: int
    progress: Progress

    def run(self, start: float) -> Summary:
        self.boxes_in = self.boxes_out = self.bad = self.needed = 0
        try:
            self._grouped()
        except _NotGrouped:
            estimate = int(self.boxes_in / max(self._done(), 1e-9))
            self.boxes_in = self.boxes_out = self.bad = self.needed = 0
            self._scattered(estimate)
        return Summary(self.boxes_in, self.boxes_out, self.bad, time.perf_counter() - start, self.needed)

    def _writer(self) -> Writer:
        return self.format.writer(self.output, self.sources[0])

    def _done(self) -> float:
        return sum(source.done for source in self.sources) / len(self.sources)

    def _rows(self, text: str, keys_only: bool = False) -> Iterator[Rows]:
        """The rows of all sources, one after another."""
        for source in self.sources:
            source.done = 0.0
        for rows in read_alike(self.sources, keys_only):
            yield rows
            self.progress(self._done(), text)

    def _grouped(self) -> None:
        """Process as many rows at a time as fit into memory. Defer the last image if more of its rows may follow."""
        waiting, held, deferred = list[_Part](), 0, 0
        finished: set[Any] = set()
        with self._writer() as writer:
            for rows in self._rows("suppressing"):
                self.boxes_in += len(rows)
                waiting.append(_Part(rows))
                held += cost(rows)
                self.needed = max(self.needed, deferred + cost(rows))
                if held > min(self.memory, _ENOUGH):
                    waiting = self._decide(waiting, writer, finished, last=False)
                    held = deferred = sum(cost(part.rows) for part in waiting)
            self._decide(waiting, writer, finished, last=True)

    def _decide(self, parts: list[_Part], writer: Writer, finished: set[Any], *, last: bool) -> list[_Part]:
        """Decide all images, except the last one if more rows may follow, and write. Returns the deferred rows."""
        if not parts:
            return []
        keys = joined_keys([part.rows for part in parts], [part.start for part in parts])
        decided = len(keys)
        image = parts[0].rows.source.columns.image
        if image is not None and (finished or not last):
            if not last:
                decided = _start_of_last(keys.column(image))
            images = set(pc.unique(keys.column(image).slice(0, decided)).to_pylist())
            if images & finished:
                raise _NotGrouped
            finished |= images
        elif not last:
            decided = 0
        if decided == 0 and not last:
            return parts
        keep, changes, bad = self._kept(keys.slice(0, decided), parts)
        self.bad += bad
        return self._write(parts, keep, changes, decided, writer)

    def _kept(self, keys: pa.Table, parts: list[_Part]) -> tuple[Mask, Changes, int]:
        """For rows of whole images: which are kept, their changes, and how many are bad."""
        columns = parts[0].rows.source.columns
        try:
            kept = kept_rows(keys, self.chain, columns, on_bad=self.reading.on_bad)
        except BadRow as error:
            raise located(error, [part.rows for part in parts], [part.start for part in parts]) from None
        except TypeError as error:
            raise FileError(f"{parts[0].rows.source.path}: {error}") from None
        keep = np.zeros(len(keys), bool)
        keep[kept.rows] = True
        return keep, Changes(kept.scores if self.chain.changes_scores else None, kept.boxes), len(kept.bad)

    def _write(self, parts: list[_Part], keep: Mask, changes: Changes, decided: int, writer: Writer) -> list[_Part]:
        """Write the kept rows among the first `decided` rows. Returns the rest."""
        waiting, first, written = [], 0, 0
        for part in parts:
            count = len(part.rows) - part.start
            of_part = keep[first : first + count]
            mask = np.zeros(len(part.rows), bool)
            mask[part.start : part.start + len(of_part)] = of_part
            kept = int(of_part.sum())
            writer.write(part.rows, mask, changes.part(written, written + kept))
            first, written = first + count, written + kept
            if first > decided:
                waiting.append(_Part(part.rows, max(part.start, len(part.rows) - (first - decided))))
        self.boxes_out += written
        return waiting

    def _scattered(self, estimate: int) -> None:
        """Bring the rows of each image together in files next to the output, decide them, then read the input again."""
        columns = self.sources[0].columns
        with Scattered(self.output.parent, columns, self.chain, estimate, self.memory) as scattered:
            for rows in self._rows("sorting by image", keys_only=True):
                self.needed = max(self.needed, cost(rows))
                check_scores(rows.keys, self.chain, columns)
                try:
                    self.bad += scattered.add(rows.keys, on_bad=self.reading.on_bad)
                except BadRow as error:
                    raise located(error, [rows]) from None
                self.boxes_in += len(rows)
            self.needed = max(self.needed, scattered.needed)
            scattered.decide(lambda done: self.progress(done, "suppressing"))
            first = 0
            with self._writer() as writer:
                for rows in self._rows("writing"):
                    mask, changes = scattered.kept(first, len(rows))
                    writer.write(rows, mask, changes)
                    first += len(rows)
                    self.boxes_out += int(mask.sum())


def cost(rows: Rows) -> int:
    """The memory that rows take until they are written: the rows, their columns, and what the core needs."""
    return rows.nbytes + 3 * int(rows.keys.nbytes) + 64 * len(rows)


def _start_of_last(images: Any) -> int:
    """Where the rows of the last image begin, if they are all at the end."""
    if not images[-1].is_valid:
        return len(images)
    same = pc.fill_null(pc.equal(images, images[-1]), False).to_numpy()
    count = int(np.count_nonzero(same))
    if not same[len(same) - count :].all():
        raise _NotGrouped
    return len(same) - count
