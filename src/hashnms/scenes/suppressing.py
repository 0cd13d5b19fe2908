"""`suppress`: suppress the boxes of one scene of any size."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hashnms import _core
from hashnms._arrow import Arrays, BadRow, Numbering
from hashnms._settings import BoxFormatName
from hashnms.files.formats import FORMATS, expanded, output_format
from hashnms.files.output import beside
from hashnms.files.rows import Changes, FileError, Reading, Source, located, read_alike
from hashnms.files.suppressing import AnyPath, Progress, Summary, cost, memory_or_default
from hashnms.pipeline import Suppression
from hashnms.scenes import steps
from hashnms.scenes.folder import Folder, working_folder
from hashnms.scenes.records import Layout, Scene


def suppress(
    inputs: AnyPath | Sequence[AnyPath] | Any,
    output: AnyPath,
    suppression: Suppression | str,
    *,
    format: str | None = None,
    to: str | None = None,
    columns: dict[str, Any] | None = None,
    header: Sequence[str] | None = None,
    box_format: BoxFormatName | None = None,
    memory: int | None = None,
    folder: AnyPath | None = None,
    progress: Progress = lambda *_: None,
) -> Summary:
    """Suppress the boxes of one scene that need not fit into memory, and write the rows that are kept.

    All rows belong to one image. The kept boxes are exactly those that the suppression of all boxes at once would keep.
    Kept rows are copied unchanged and in their order. Boxes are processed tile by tile through files in a folder, which
    needs up to 100 bytes of disk per row. The output appears when it is complete.

    Args:
        inputs: files, folders or patterns, in any format that `hashnms.files` reads; or a `pyarrow.dataset.Dataset`, a
            `RecordBatchReader` or anything with `__arrow_c_stream__`, which is first written to the folder.
        output: the file to write.
        suppression: a `Suppression` or its notation, with only the steps `score`, `hnms` and `nms`, e.g.
            "hnms:0.7/2+nms:0.5".
        format: the format of the input, one of `files.FORMATS`; by default it is chosen by the suffix.
        to: the format of the output; by default it is chosen by the suffix, or is the format of the input.
        columns: the names of the columns `label`, `boxes` and `score`, if they are unusual. With a label of None, boxes
            of different classes suppress each other.
        header: the names of the columns of CSV files that have no header.
        box_format: "xyxy", "xywh" or "cxcywh"; by default the usual meaning of the column names.
        memory: how many bytes to use, approximately; by default a quarter of the machine's memory.
        folder: the working folder; by default a new one next to the output, which is always removed. If one is given
            and the process is killed, the same call continues where it stopped. It is removed when the work is done.
        progress: called now and then with the share of the work that is done, and the name of the current step.

    Returns:
        A `files.Summary`: the numbers of boxes read and kept, and the time taken.

    Raises:
        FileError, ValueError, TypeError: if a file or an argument is invalid, or the folder belongs to another call.
        OSError: if a file cannot be read or written.

    >>> import numpy as np, pyarrow as pa, tempfile
    >>> from hashnms import scenes
    >>> numbers = np.arange(100.0)
    >>> city = pa.table({"x": numbers, "y": numbers, "w": np.full(100, 9), "h": np.full(100, 9), "score": numbers})
    >>> with tempfile.TemporaryDirectory() as place:
    ...     scenes.suppress(city, f"{place}/kept.parquet", "nms:0.5", memory=10_000).boxes_out
    50
    """
    start = time.perf_counter()
    chain, target = Suppression.of(suppression), Path(output)
    steps.check(chain)
    if (columns or {}).get("image") is not None:
        raise ValueError(f"columns must have no image, because all rows are of one scene, got {columns!r}")
    reading = Reading({**(columns or {}), "image": None}, box_format, None if header is None else tuple(header))
    is_stream = not isinstance(inputs, str | os.PathLike | list | tuple)
    paths, kind = ([], FORMATS["parquet"]) if is_stream else expanded(_listed(inputs), format)
    work = {
        "source": str(_schema(inputs)) if is_stream else [_identity(path) for path in paths],
        "suppression": str(chain),
        "reading": [reading.columns, reading.box_format, reading.header],
        "output": str(target.absolute()),
    }
    where = None if folder is None else Path(folder)
    wanted = output_format(target, to, kind)
    with working_folder(where, target, work) as place:
        if is_stream:
            paths = [_spooled(inputs, place)]
        sources = [kind.open(path, reading) for path in paths]
        with (
            beside(target, folder=wanted.folder) as new,
            _read(sources, place, memory_or_default(memory), progress) as scene,
        ):
            steps.run(scene, chain)
            with wanted.writer(new, sources[0]) as writer:
                boxes_out, needed = _write(scene, sources, writer, progress)
            return Summary(scene.count, boxes_out, 0, time.perf_counter() - start, needed)


def _listed(inputs: Any) -> list[AnyPath]:
    return [inputs] if isinstance(inputs, str | os.PathLike) else list(inputs)


def _identity(path: Path) -> list[Any]:
    """Values that change when a file changes."""
    about = path.stat()
    return [str(path.absolute()), about.st_size, about.st_mtime_ns]


def _schema(stream: Any) -> Any:
    if not hasattr(stream, "schema") and not hasattr(stream, "__arrow_c_stream__"):
        raise TypeError(f"inputs must be paths, a dataset or an Arrow stream, got {type(stream).__name__}")
    return getattr(stream, "schema", type(stream).__name__)


def _spooled(stream: Any, place: Folder) -> Path:
    """Write a stream, which can be read only once, to a file."""
    path = place / "stream.parquet"
    if not path.exists():
        if hasattr(stream, "scanner"):  # a dataset
            stream = stream.scanner().to_reader()
        reader = stream if isinstance(stream, pa.RecordBatchReader) else pa.RecordBatchReader.from_stream(stream)
        with place.new(path.name) as new, pq.ParquetWriter(new, reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)
    return path


def _read(sources: list[Source], place: Folder, memory: int, progress: Progress) -> Scene:
    """Write the scene's boxes as records to the folder."""
    about = place.read_json("about")
    if about is None:
        with place.new("records") as path:
            about = _records(sources, path, progress)
        place.write_json("about", about)
    layout = Layout(_dtype(about["stored"]), about["box_type"], about["score_type"])
    return Scene(place, layout, about["count"], sources[0].columns.box_format, memory, progress)


def _dtype(fields: list[list[Any]]) -> np.dtype[Any]:
    """A dtype from its description in JSON."""
    return np.dtype([(name, kind, *map(tuple, shape)) for name, kind, *shape in fields])


def _records(sources: list[Source], path: Path, progress: Progress) -> dict[str, Any]:
    """Write the records; return how many there are, and their layout."""
    columns, numbering, count = sources[0].columns, Numbering(), 0
    layout, integers = None, _Integers()
    with path.open("wb") as file:
        for rows in read_alike(sources, keys_only=True):
            try:
                arrays = Arrays.of(numbering.numbered(rows.keys, [columns.label]), columns)
                if arrays.nulls:
                    arrays.explain(columns)
                layout = layout or Layout.of(arrays)
                integers.see(arrays)
                records = layout.records(arrays, count)
                if not _are_valid(arrays, layout, records, columns.box_format):
                    arrays.explain(columns)
            except BadRow as error:
                raise located(error, [rows]) from None
            except TypeError as error:
                raise FileError(f"{rows.source.path}: {error}") from None
            file.write(records.data)
            count += len(rows)
            progress(sum(source.done for source in sources) / len(sources), "reading")
    if layout is None:  # no rows
        layout = Layout.of(Arrays(np.zeros((0, 4)), np.zeros(0), None, None, {}))
    return {
        "count": count,
        "stored": layout.stored.descr,
        "box_type": integers.box_type(layout),
        "score_type": integers.score_type(layout),
    }


def _are_valid(arrays: Arrays, layout: Layout, records: Any, box_format: str) -> bool:
    """Whether the core accepts all numbers. It checks all boxes and returns none: the limit is 0."""
    nothing = (None, None, sys.float_info.max, None, 0, box_format)
    if _core.top_k(arrays.boxes, arrays.scores, *nothing) is not None:
        return True
    boxes, scores, _ = layout.arrays(records)  # the core refused the numbers or their types
    return _core.top_k(boxes, scores, *nothing) is not None


class _Integers:
    """The largest integers so far. Integers are computed as float32 if it holds all of them exactly."""

    def __init__(self) -> None:
        self._largest: dict[str, int] = {}

    def see(self, arrays: Arrays) -> None:
        for name, values in (("boxes", arrays.boxes), ("scores", arrays.scores)):
            if values.dtype.kind in "iu" and len(values):
                largest = max(abs(int(values.min())), abs(int(values.max())), self._largest.get(name, 0))
                if largest > 2**53:
                    raise FileError(f"{name} must be integers that float64 holds exactly, at most 2**53, got {largest}")
                self._largest[name] = largest

    def box_type(self, layout: Layout) -> str:
        return "f4" if self._largest.get("boxes", 2**53) <= 2**24 else layout.box_type

    def score_type(self, layout: Layout) -> str:
        return "f4" if self._largest.get("scores", 2**53) <= 2**24 else layout.score_type


def _write(scene: Scene, sources: list[Source], writer: Any, progress: Progress) -> tuple[int, int]:
    """Write the remaining rows unchanged. Returns how many, and the memory that a part of the rows needs."""
    first = written = needed = 0
    for source in sources:
        source.done = 0.0
    for rows in read_alike(sources):
        left = scene.left_from(first, len(rows))
        writer.write(rows, left, Changes())
        first, written, needed = first + len(rows), written + int(left.sum()), max(needed, cost(rows))
        progress(sum(source.done for source in sources) / len(sources), "writing")
    return written, needed
