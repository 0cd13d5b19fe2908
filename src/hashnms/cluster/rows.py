"""What all functions on a cluster share: row numbers, whole groups, and errors that name a row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import ray
import ray.data
from numpy.typing import NDArray
from ray.data.expressions import monotonically_increasing_id

from hashnms import set_num_threads
from hashnms._arrow import Arrays, BadRow
from hashnms._tiles import UnusualSize
from hashnms.tables import Columns

Function = Callable[..., pa.Table | Iterator[pa.Table]]

ROW = "hashnms_row"  #: the column of row numbers that is added if none is given
GROUP = "hashnms_group"  #: the column of groups, from one stage to the next
_GROUPS_OF_A_PARTITION = 8  #: groups are spread by a hash: more groups make partitions more even


class RowError(ValueError):
    """A bad row: its number, and what is wrong with it."""

    def __init__(self, row: int, problem: str) -> None:
        super().__init__(row, problem)
        self.row, self.problem = row, problem

    def __str__(self) -> str:
        return f"row {self.row:,}: {self.problem}"

    def __reduce__(self) -> tuple[type[RowError], tuple[int, str]]:
        return RowError, (self.row, self.problem)  # not from its args, which Ray changes


def numbered(dataset: Any, row: str | None) -> tuple[Any, str, pa.Table]:
    """A dataset with a column of row numbers, the name of that column, and an empty table with all columns."""
    schema = dataset.schema()
    empty = pa.schema(list(zip(schema.names, schema.types, strict=True))).empty_table()
    if row is not None:
        if not pa.types.is_integer(empty.schema.field(row).type):
            raise TypeError(f"row must be a column of whole numbers, got {row} of {empty.schema.field(row).type}")
        return dataset, row, empty
    numbers = pa.array([], pa.int64())
    return dataset.with_column(ROW, monotonically_increasing_id()), ROW, empty.append_column(ROW, numbers)


def with_columns(dataset: Any, empty: pa.Table) -> Any:
    """A dataset that keeps its columns even without rows: Ray loses them if a function makes every block empty."""
    return ray.data.from_arrow(empty).union(dataset)


def mapped(dataset: Any, function: Function, *, most: int | None = None, **arguments: Any) -> Any:
    """Apply a function to each block; or to up to `most` rows of one or more blocks."""
    return dataset.map_batches(partial(_alone, function, **arguments), batch_format="pyarrow", batch_size=most)


def by_group(dataset: Any, partitions: int, function: Function, **arguments: Any) -> Any:
    """Apply a function to each group; each call gets all rows of a group.

    Ray guarantees this for groups, but not for the batches of a dataset that was partitioned by a column.
    """
    groups = dataset.groupby(GROUP, num_partitions=partitions)
    return groups.map_groups(partial(_alone, function, **arguments), batch_format="pyarrow")


def tables_of(dataset: Any) -> Iterator[pa.Table]:
    """The blocks that have rows, one after another."""
    for block in dataset.to_arrow_refs():
        table = ray.get(block)
        if len(table):
            yield table


def gathered(dataset: Any) -> pa.Table | None:
    """All rows in this process; None if there are none."""
    tables = list(tables_of(dataset))
    return pa.concat_tables(tables) if tables else None


def without(table: pa.Table, names: list[str]) -> pa.Table:
    """A table without these columns, as far as it has them."""
    return table.drop_columns([name for name in names if name in table.column_names])


def _alone(function: Function, table: pa.Table, **arguments: Any) -> pa.Table | Iterator[pa.Table]:
    """Call a function on one thread: Ray runs one task per core."""
    set_num_threads(1)
    return function(table, **arguments)


def with_hashed_group(table: pa.Table, hashes: NDArray[np.uint64], partitions: int) -> pa.Table:
    """Add a column of groups; rows with equal hashes are in one group."""
    count = np.uint64(partitions * _GROUPS_OF_A_PARTITION)
    return table.append_column(GROUP, pa.array((hashes % count).astype(np.int32)))


def hashes_of(table: pa.Table, name: str) -> NDArray[np.uint64]:
    """Hashes of the values of a column, the same in every process."""
    column = table.column(name)
    if pa.types.is_nested(column.type):
        raise TypeError(f"column {name} must hold values such as integers or strings, got {column.type}")
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    values: NDArray[np.uint64] = pd.util.hash_array(column.to_pandas().to_numpy())
    return values


def check_distinct(numbers: NDArray[Any], row: str, times: NDArray[Any] | int = 1) -> None:
    """Check that no row number is there more often than this: one time for all, or one for each number in order."""
    if (numbers[1:] > numbers[:-1]).all():
        return
    values, counts = np.unique(numbers, return_counts=True)
    repeated = values[counts > times]
    if len(repeated):
        raise RowError(repeated[0].item(), f"column {row} must have distinct numbers, got {repeated[0]} twice")


def row_order(table: pa.Table, row: str) -> NDArray[np.int64]:
    """The order that sorts rows by their numbers."""
    return np.argsort(table.column(row).to_numpy(), kind="stable")


def arrays_of(table: pa.Table, columns: Columns, row: str) -> Arrays:
    """The arrays of a table without nulls."""
    with located(table, columns, row):
        arrays = Arrays.of(table.select(columns.names), columns)
        if arrays.nulls:
            arrays.explain(columns)
    return arrays


@contextmanager
def located(table: pa.Table, columns: Columns, row: str) -> Iterator[None]:
    """Add the row number to an error about a bad row of this table."""
    try:
        yield
    except UnusualSize as error:
        raise RowError(table.column(row)[error.row].as_py(), str(error)) from None
    except ValueError:
        try:
            Arrays.of(table.select(columns.names), columns).explain(columns)
        except BadRow as bad:
            number = table.column(row)[bad.row].as_py()
            raise RowError(number, f"column {bad.column} must be {bad.need}, got {bad.got}") from None
        raise


def columns_of(dataset: Any, row: str | None, **given: Any) -> Columns:
    """Find the columns of a dataset: as given, or by their usual names."""
    if not isinstance(dataset, ray.data.Dataset):
        raise TypeError(f"dataset must be a ray.data.Dataset, got {type(dataset).__name__}")
    names = dataset.columns() or []
    if row is not None and row not in names:
        raise ValueError(f"row must be the name of a column, one of {', '.join(names) or 'none'}, got {row!r}")
    return Columns.find(names, **given)
