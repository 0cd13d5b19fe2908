"""Parquet and Feather (Arrow IPC) files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hashnms.files.rows import Changes, FileError, Mask, Reading, Rows, Source, Writer

_ROWS_AT_A_TIME = 2**17
_ROWS_OF_A_GROUP = 2**20


class ArrowRows(Rows):
    """Rows of a Parquet or Feather file, as an Arrow table."""

    def __init__(self, first: int, source: Source, table: pa.Table) -> None:
        self.first, self.source, self._table = first, source, table
        self.keys = table.select(source.columns.names)

    @property
    def nbytes(self) -> int:
        return int(self._table.nbytes)

    def table(self) -> pa.Table:
        return self._table


class _ArrowSource(Source):
    """A file that is read as Arrow tables."""

    schema: pa.Schema
    compression = "zstd"

    def __init__(self, path: Path, reading: Reading) -> None:
        self.path = path
        try:
            self._open()
        except (pa.ArrowInvalid, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise FileError(f"{path}: must be a {self.kind} file, got {error}") from None
        self.columns = reading.find(self.schema.names, path)

    kind: str

    def _open(self) -> None:
        raise NotImplementedError

    def _tables(self, names: list[str] | None) -> Iterator[tuple[float, pa.Table]]:
        """Tables, and the share of the file that has been read after each."""
        raise NotImplementedError

    def read(self) -> Iterator[Rows]:
        return self._read(None)

    def read_keys(self) -> Iterator[Rows]:
        return self._read(self.columns.names)

    def _read(self, names: list[str] | None) -> Iterator[Rows]:
        first = 0
        try:
            for done, table in self._tables(names):
                yield ArrowRows(first, self, table)
                first += len(table)
                self.done = done
        except (pa.ArrowInvalid, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise FileError(f"{self.path}: must be a {self.kind} file, got {error}") from None


class ParquetSource(_ArrowSource):
    """A Parquet file."""

    kind = "Parquet"

    def _open(self) -> None:
        with pq.ParquetFile(self.path, pre_buffer=False) as file:  # a buffer would keep everything that was read
            self.schema = file.schema_arrow
            self._count = file.metadata.num_rows
            if file.metadata.num_row_groups and file.metadata.num_columns:
                kind = file.metadata.row_group(0).column(0).compression
                self.compression = "none" if kind == "UNCOMPRESSED" else kind.lower()

    def _tables(self, names: list[str] | None) -> Iterator[tuple[float, pa.Table]]:
        with pq.ParquetFile(self.path, pre_buffer=False) as file:  # a buffer would keep everything that was read
            seen = 0
            for batch in file.iter_batches(_ROWS_AT_A_TIME, columns=names):
                seen += len(batch)
                yield seen / max(self._count, 1), pa.Table.from_batches([batch])


class FeatherSource(_ArrowSource):
    """A Feather (Arrow IPC) file."""

    kind = "Feather"

    def _open(self) -> None:
        with pa.memory_map(str(self.path)) as stream, pa.ipc.open_file(stream) as file:
            self.schema = file.schema

    def _tables(self, names: list[str] | None) -> Iterator[tuple[float, pa.Table]]:
        with pa.memory_map(str(self.path)) as stream:
            file = pa.ipc.open_file(stream)
            for number in range(file.num_record_batches):
                table = pa.Table.from_batches([file.get_batch(number)])
                yield (number + 1) / file.num_record_batches, table if names is None else table.select(names)


class _TableWriter(Writer):
    """Collects tables into parts of a good size."""

    def __init__(self, path: Path, source: Source) -> None:
        self._path, self._source = path, source
        self._schema: pa.Schema | None = getattr(source, "schema", None)
        self._compression = getattr(source, "compression", "zstd")
        self._file: Any = None
        self._waiting: list[pa.Table] = []
        self._empty = pa.schema([])  #: the schema of inputs without rows, whose types may be unknown

    def write(self, rows: Rows, keep: Mask, changes: Changes) -> None:
        table = rows.kept_table(keep, changes)
        if not len(table):
            self._empty = table.schema
            return
        if self._schema is None:
            self._schema = table.schema
        if not table.schema.equals(self._schema):
            table = _cast(table, self._schema, rows.source.path)
        self._waiting.append(table)
        if sum(map(len, self._waiting)) >= _ROWS_OF_A_GROUP:
            self._flush()

    def finish(self) -> None:
        self._flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _flush(self) -> None:
        if self._schema is None:
            self._schema = self._empty
        if self._file is None:
            self._file = self._opened(self._schema)
        self._file.write_table(pa.concat_tables(self._waiting or [self._schema.empty_table()]))
        self._waiting = []

    def _opened(self, schema: pa.Schema) -> Any:
        raise NotImplementedError


def _cast(table: pa.Table, schema: pa.Schema, path: Path) -> pa.Table:
    """Cast the table of a later file to the types of the first file."""
    if table.schema.names != schema.names:
        got, need = ", ".join(table.schema.names), ", ".join(schema.names)
        raise FileError(f"{path}: columns must be those of the first file, {need}, got {got}")
    try:
        return table.cast(schema)
    except pa.ArrowException as error:
        raise FileError(f"{path}: columns must have the types of the earlier rows, got {error}") from None


class ParquetWriter(_TableWriter):
    """Writes Parquet with the schema and the compression of the input."""

    def _opened(self, schema: pa.Schema) -> Any:
        return pq.ParquetWriter(self._path, schema, compression=self._compression)


class FeatherWriter(_TableWriter):
    """Writes Feather, uncompressed, so that it can be memory-mapped."""

    _stream: Any = None

    def _opened(self, schema: pa.Schema) -> Any:
        self._stream = pa.OSFile(str(self._path), "wb")
        return pa.ipc.new_file(self._stream, schema, options=pa.ipc.IpcWriteOptions(unify_dictionaries=True))

    def close(self) -> None:
        try:
            super().close()
        finally:
            if self._stream is not None:
                self._stream.close()
