"""Kinds of tables: how columns become Arrow, and how rows are taken. This module imports none of their packages.

A kind is recognized by the package and the name of its class. Other objects with `__arrow_c_stream__` are read too, and
come back as Arrow tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Rows = NDArray[np.int64]

#: The types of views, of which Arrow cannot take rows, and the types that hold the same values.
VIEWS = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}


@dataclass(frozen=True)
class Kind:
    """What one kind of table can do."""

    arrow: Callable[[Any, Sequence[str] | None], pa.Table]  #: converts these columns, or all, to an Arrow table
    take: Callable[[Any, Rows, dict[str, Any]], Any]  #: takes rows, and replaces some columns
    names: Callable[[Any], list[str]] | None  #: of its columns; None: the names in the Arrow table
    reads_once: bool = False  #: a stream, or a query whose rows may come in another order next time


def kind_of(table: Any) -> Kind:
    """The kind of a table."""
    for base in type(table).__mro__:
        package, kind = base.__module__.partition(".")[0], base.__name__
        if (package, kind) in _KINDS:
            return _KINDS[package, kind]
    if hasattr(table, "__arrow_c_stream__"):
        return _ANY
    hint = ": collect() it first" if type(table).__name__ == "LazyFrame" else ""
    raise TypeError(
        "table must be an Arrow table, a dataframe (pandas, Polars, DuckDB, Daft) or another object with "
        f"__arrow_c_stream__, got {type(table).__module__}.{type(table).__qualname__}{hint}"
    )


def replaced(table: pa.Table, new: dict[str, Any]) -> pa.Table:
    """An Arrow table with new numbers in some columns, in the columns' types; (K, 4) numbers become lists."""
    for name, values in new.items():
        index = table.schema.get_field_index(name)
        field = table.schema.field(index)
        array = pa.array(values) if values.ndim == 1 else _lists(values, field.type)
        table = table.set_column(index, field, array.cast(field.type, safe=False))
    return table


def _lists(rows: Any, kind: Any) -> Any:
    """Rows of numbers as lists of a kind."""
    count, length = rows.shape
    flat = pa.array(np.ascontiguousarray(rows).ravel())
    if pa.types.is_fixed_size_list(kind):
        return pa.FixedSizeListArray.from_arrays(flat, length)
    is_large = pa.types.is_large_list(kind)
    starts = np.arange(0, length * count + 1, length, dtype=np.int64 if is_large else np.int32)
    return (pa.LargeListArray if is_large else pa.ListArray).from_arrays(pa.array(starts), flat)


def taken(table: pa.Table, rows: Rows, new: dict[str, Any]) -> pa.Table:
    """Take rows of an Arrow table. Increasing rows are taken by a mask, which never joins chunks of text."""
    try:
        if len(rows) == 0 or (np.diff(rows) > 0).all():
            mask = np.zeros(len(table), bool)
            mask[rows] = True
            return replaced(table.filter(pa.array(mask)), new)
        return replaced(table.take(pa.array(rows)), new)
    except pa.ArrowNotImplementedError:  # a column has a type of which Arrow cannot take rows
        columns = [_taken_column(column, rows) for column in table.columns]
        return replaced(pa.Table.from_arrays(columns, schema=table.schema), new)


def without_views(table: pa.Table) -> pa.Table:
    """The same values where views, which Arrow cannot write as text, are plain strings."""
    fields = [field.with_type(VIEWS.get(str(field.type), field.type)) for field in table.schema]
    return table.cast(pa.schema(fields)) if any(str(field.type) in VIEWS for field in table.schema) else table


def _taken_column(column: Any, rows: Rows) -> Any:
    """Take rows of a column of any type; of most types at once, of others, such as lists of string views, in slices."""
    plain = VIEWS.get(str(column.type), column.type)
    with suppress(pa.ArrowNotImplementedError):
        return column.cast(plain).take(pa.array(rows)).cast(column.type)
    cuts = [0, *(np.flatnonzero(np.diff(rows) != 1) + 1).tolist(), len(rows)]
    slices = [column.slice(rows[start], end - start) for start, end in pairwise(cuts) if start < end]
    chunks = [chunk for part in slices for chunk in part.chunks]
    return pa.chunked_array([pa.concat_arrays(chunks)] if chunks else [], column.type)


def _arrow_table(table: Any, names: Sequence[str] | None) -> pa.Table:
    whole = table if isinstance(table, pa.Table) else pa.table(table)
    return whole if names is None else whole.select(list(names))


def _take_of_batch(batch: Any, rows: Rows, new: dict[str, Any]) -> Any:
    chunks = taken(pa.Table.from_batches([batch]), rows, new).combine_chunks().to_batches()
    return chunks[0] if chunks else batch.slice(0, 0)


def _take_of_pandas(frame: Any, rows: Rows, new: dict[str, Any]) -> Any:
    result = frame.iloc[rows]
    for name, values in new.items():
        result = result.assign(**{name: _pandas_column(frame[name], values, result.index)})
    return result


def _pandas_column(old: Any, values: Any, index: Any) -> Any:
    """New numbers as a column of the old column's type; (K, 4) numbers become lists or arrays, as the old rows were."""
    if values.ndim == 1:
        return type(old)(values, index=index).astype(old.dtype).array  # not by index: it may have duplicates
    kind = type(old.iloc[0]) if len(old) else list
    return [row if kind is np.ndarray else kind(row.tolist()) for row in values]


def _take_of_polars(frame: Any, rows: Rows, new: dict[str, Any]) -> Any:
    result = frame[rows]
    for name, values in new.items():
        series = type(frame[name])(name, values).cast(frame.schema[name])
        result = result.with_columns(series)
    return result


def _take_of_duckdb(table: pa.Table, rows: Rows, new: dict[str, Any]) -> Any:
    import duckdb  # noqa: PLC0415  a caller with a relation has imported it

    return duckdb.from_arrow(taken(table, rows, new))


def _take_of_daft(table: pa.Table, rows: Rows, new: dict[str, Any]) -> Any:
    import daft  # noqa: PLC0415  a caller with a dataframe has imported it

    return daft.from_arrow(taken(table, rows, new))


def _columns_of_pandas(frame: Any, names: Sequence[str] | None) -> pa.Table:
    return pa.Table.from_pandas(frame if names is None else frame[list(names)], preserve_index=False)


def _columns_of_polars(frame: Any, names: Sequence[str] | None) -> pa.Table:
    return pa.table(frame if names is None else frame.select(list(names)))


def _schema_names(table: Any) -> list[str]:
    return list(table.schema.names)


def _column_names(table: Any) -> list[str]:
    return [str(name) for name in table.columns]


_ANY = Kind(_arrow_table, taken, None, True)
_KINDS: dict[tuple[str, str], Kind] = {
    ("pyarrow", "Table"): Kind(_arrow_table, taken, _schema_names),
    ("pyarrow", "RecordBatch"): Kind(
        lambda batch, names: _arrow_table(pa.Table.from_batches([batch]), names), _take_of_batch, _schema_names
    ),
    ("pyarrow", "RecordBatchReader"): Kind(
        lambda reader, names: _arrow_table(reader.read_all(), names),
        lambda table, rows, new: taken(table, rows, new).to_reader(),
        _schema_names,
        True,
    ),
    ("pandas", "DataFrame"): Kind(_columns_of_pandas, _take_of_pandas, _column_names),
    ("polars", "DataFrame"): Kind(_columns_of_polars, _take_of_polars, _column_names),
    ("duckdb", "DuckDBPyRelation"): Kind(_arrow_table, _take_of_duckdb, _column_names, True),
    ("daft", "DataFrame"): Kind(_arrow_table, _take_of_daft, lambda frame: list(frame.column_names), True),
}
