"""`suppress_files`: read Parquet files, write a folder of Parquet files."""

from __future__ import annotations

import bisect
import logging
import os
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import ray
import ray.data
from ray.exceptions import RayTaskError

from hashnms._settings import BoxFormatName
from hashnms.cluster.images import by_image
from hashnms.cluster.rows import ROW, RowError
from hashnms.cluster.scenes import by_steps, scene_of
from hashnms.files.arrow import ParquetSource
from hashnms.files.formats import expanded
from hashnms.files.output import beside
from hashnms.files.rows import FileError, Reading
from hashnms.files.suppressing import AnyPath, Summary
from hashnms.pipeline import Suppression
from hashnms.tables import Columns

_ROWS_OF_A_TASK = 2**20
_MOST_PARTITIONS = 2000  #: each block has a piece for each partition, and Ray tracks every piece


def suppress_files(
    inputs: AnyPath | Sequence[AnyPath],
    output: AnyPath,
    suppression: Suppression | str,
    *,
    columns: dict[str, Any] | None = None,
    box_format: BoxFormatName | None = None,
    address: str | None = None,
) -> Summary:
    """Suppress the boxes of Parquet files on a cluster, and write the kept rows as a folder of Parquet files.

    All machines must see the files under the same paths. Rows may be in any order, and are written in any order. The
    kept rows are those that `hashnms.files.suppress` keeps. The output appears when it is complete; after an error, an
    old output is unchanged.

    Args:
        inputs: files, folders or patterns such as `tiles/*.parquet`.
        output: the folder to write. If it exists, it may only contain Parquet files, which are replaced.
        suppression: a `Suppression` or its notation, e.g. "nms:0.5".
        columns: the names of the columns `image`, `label`, `boxes` and `score`, if they are unusual. With an image of
            None, all boxes belong to one scene.
        box_format: "xyxy", "xywh" or "cxcywh"; by default the usual meaning of the column names.
        address: the address of a Ray cluster, such as "auto" or "ray://head:10001". By default the cluster that Ray is
            connected to, or that RAY_ADDRESS names; otherwise Ray starts on this machine.

    Returns:
        A `files.Summary`: the numbers of boxes read and kept, and the time taken.

    Raises:
        FileError, ValueError, TypeError: if a file, a row or an argument is invalid.
    """
    start = time.perf_counter()
    chain = Suppression.of(suppression)
    found = _Files.of(inputs, Reading(columns or {}, box_format))
    target = Path(output)
    if target.exists() and not target.is_dir():
        raise FileError(f"output must be a folder, because machines write a file each, got the file {target}")
    with beside(target, folder=True, names=_parquet_names(target)) as new:
        if not found.count:  # Ray loses the columns of a dataset without rows
            pq.write_table(found.schema.empty_table(), new / "empty.parquet")
            return Summary(0, 0, 0, time.perf_counter() - start)
        scene = scene_of(chain, found.columns, ROW) if found.columns.image is None else None
        _connect(address)
        with _quiet(), _one_error(found):
            dataset = found.dataset()
            if scene is not None:
                kept = by_steps(dataset, chain, scene)
            else:
                kept = by_image(dataset, chain, found.columns, ROW, _partitions(found.count))
            kept.write_parquet(str(new))
        written = _counted(new, found.schema)
    return Summary(found.count, written, 0, time.perf_counter() - start)


def read_parquet(inputs: AnyPath | Sequence[AnyPath]) -> Any:
    """Read Parquet files as a dataset, with row numbers in a column `hashnms_row`.

    Rows are numbered over all files, in the order of the files. `suppress(..., row="hashnms_row")` and `scene` then
    break ties as `hashnms.files` does. They remove the column from the result.
    """
    return _Files.of(inputs, None).dataset()


@dataclass(frozen=True)
class _Files:
    """Parquet files with the same columns."""

    paths: list[Path]
    firsts: list[int]  #: the number of the first row of each file, and the number of all rows
    columns: Columns
    schema: pa.Schema
    pieces: list[pa.Table]  #: the input of each task: path, row group, number of its first row

    @property
    def count(self) -> int:
        """The number of rows."""
        return self.firsts[-1]

    @classmethod
    def of(cls, inputs: AnyPath | Sequence[AnyPath], reading: Reading | None) -> _Files:
        """Read the footers of the files."""
        given = [inputs] if isinstance(inputs, str | os.PathLike) else list(inputs)
        paths, _ = expanded(given, "parquet")
        first = ParquetSource(paths[0], reading or Reading({"image": None}))
        firsts, pieces = [0], []
        for path in paths:
            with pq.ParquetFile(path) as file:
                _check_alike(path, file.schema_arrow, first.schema)
                counts = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
            starts = firsts[-1] + np.cumsum([0, *counts])
            firsts.append(int(starts[-1]))
            pieces += [(str(path.resolve()), group, int(starts[group])) for group in range(len(counts))]
        return cls(paths, firsts, first.columns, first.schema, _tasks(pieces))

    def dataset(self) -> Any:
        """A dataset of all rows, with their numbers."""
        return ray.data.from_blocks(self.pieces).map_batches(_read, batch_format="pyarrow", batch_size=None)

    def error(self, error: RowError) -> FileError:
        """The error with the file, and the row in it."""
        number = bisect.bisect_right(self.firsts, error.row) - 1
        return FileError(f"{self.paths[number]}, row {error.row - self.firsts[number] + 1:,}: {error.problem}")


def _check_alike(path: Path, schema: pa.Schema, first: pa.Schema) -> None:
    if not schema.equals(first):
        need, got = (", ".join(f"{field.name} {field.type}" for field in one) for one in (first, schema))
        raise FileError(f"{path}: columns must be those of the first file, {need}, got {got}")


def _tasks(pieces: list[tuple[str, int, int]]) -> list[pa.Table]:
    """Divide consecutive row groups into tasks with about enough rows each."""
    tasks: dict[int, list[tuple[str, int, int]]] = {}
    for piece in pieces:
        tasks.setdefault(piece[2] // _ROWS_OF_A_TASK, []).append(piece)
    names = ("path", "group", "first")
    return [pa.table(dict(zip(names, map(list, zip(*task, strict=True)), strict=True))) for task in tasks.values()]


def _read(pieces: pa.Table) -> Iterator[pa.Table]:
    """Read the rows of row groups, with their numbers."""
    for piece in pieces.to_pylist():
        first = piece["first"]
        with pq.ParquetFile(piece["path"], pre_buffer=False) as file:
            for batch in file.iter_batches(_ROWS_OF_A_TASK, row_groups=[piece["group"]], use_threads=False):
                numbers = pa.array(np.arange(first, first + len(batch)))
                yield pa.Table.from_batches([batch]).append_column(ROW, numbers)
                first += len(batch)


def _connect(address: str | None) -> None:
    """Connect to the cluster, or to a new one on this machine."""
    if not ray.is_initialized():
        environment = _runtime_env(address)
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, runtime_env=environment)


def _runtime_env(address: str | None) -> dict[str, str] | None:
    """Where a new cluster on this machine finds Python. Ray does not quote its path: spaces would stop it.

    A cluster that is there already may be on other machines: its Python is its own.
    """
    new = (address or os.environ.get("RAY_ADDRESS", "local")) == "local"
    quoted = shlex.quote(sys.executable)
    return {"py_executable": quoted} if new and os.name == "posix" and quoted != sys.executable else None


def _partitions(count: int) -> int:
    """The number of partitions for `count` rows."""
    wanted = min(-(-count // _ROWS_OF_A_TASK), _MOST_PARTITIONS)
    return max(wanted, 2 * int(ray.cluster_resources().get("CPU", 1)))


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Ray's messages, and raise errors as they were raised in tasks."""
    context = ray.data.DataContext.get_current().copy()
    context.enable_progress_bars = context.print_on_execution_start = False
    context.raise_original_map_exception = True
    logger = logging.getLogger("ray.data")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with ray.data.DataContext.current(context):
            yield
    finally:
        logger.setLevel(level)


@contextmanager
def _one_error(files: _Files) -> Iterator[None]:
    """Raise the error of a task without Ray's additions; for a bad row, with its file."""
    try:
        yield
    except (RayTaskError, RowError) as error:
        cause = error.cause if isinstance(error, RayTaskError) else error  # Ray raises an error of both types
        if isinstance(cause, RowError):
            raise files.error(cause) from None
        if type(cause) in (ValueError, TypeError):
            raise type(cause)(str(cause).partition("\n")[0]) from None  # Ray adds lines
        raise


def _parquet_names(folder: Path) -> list[str]:
    """The names of the files that may be replaced."""
    return [path.name for path in folder.glob("*.parquet")] if folder.is_dir() else []


def _counted(folder: Path, schema: pa.Schema) -> int:
    """The number of rows written. If there are none, an empty file with the columns is written."""
    folder.mkdir(exist_ok=True)
    paths = sorted(folder.glob("*.parquet"))
    if not paths:
        pq.write_table(schema.empty_table(), folder / "empty.parquet")
    return sum(pq.read_metadata(path).num_rows for path in paths)
