"""A stand-in for a Ray dataset in this process: it notes how many rows each call of a function gets and returns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from types import GeneratorType, SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest


class Calls:
    """For each function, how many rows its calls got, and how many each of the tables has that they returned."""

    def __init__(self) -> None:
        self.got: dict[str, list[int]] = defaultdict(list)
        self.returned: dict[str, list[int]] = defaultdict(list)
        self.gathered: dict[str, list[int]] = defaultdict(
            list
        )  #: rows that the caller read, of what a function returned


class Blocks:
    """The methods of `ray.data.Dataset` that `hashnms.cluster` calls."""

    def __init__(self, tables: Iterable[pa.Table], calls: Calls, made_by: str = "") -> None:
        self.tables, self.calls, self.made_by = list(tables), calls, made_by

    def materialize(self) -> Blocks:
        return self

    def count(self) -> int:
        return sum(map(len, self.tables))

    def select_columns(self, names: list[str]) -> Blocks:
        return Blocks([table.select(names) for table in self.tables], self.calls)

    def union(self, *others: Blocks) -> Blocks:
        return Blocks([table for blocks in (self, *others) for table in blocks.tables], self.calls)

    def to_arrow_refs(self) -> list[pa.Table]:
        self.calls.gathered[self.made_by].append(self.count())
        return self.tables

    def map_batches(self, function: Any, *, batch_format: str, batch_size: int | None) -> Blocks:
        assert batch_format == "pyarrow"
        tables = [table for table in self.tables if len(table)]
        if batch_size is not None and tables:
            whole = pa.concat_tables(tables)
            tables = [whole.slice(first, batch_size) for first in range(0, len(whole), batch_size)]
        return self._called(function, tables)

    def groupby(self, name: str, num_partitions: int) -> SimpleNamespace:
        assert num_partitions > 0

        def map_groups(function: Any, *, batch_format: str) -> Blocks:
            assert batch_format == "pyarrow"
            whole = pa.concat_tables(self.tables).combine_chunks()
            groups = whole.column(name).to_numpy()
            return self._called(function, [whole.filter(pa.array(groups == group)) for group in set(groups.tolist())])

        return SimpleNamespace(map_groups=map_groups)

    def _called(self, function: Any, tables: list[pa.Table]) -> Blocks:
        name, results = function.args[0].__name__, []
        for table in tables:
            self.calls.got[name].append(len(table))
            result = function(table)
            several = list(result) if isinstance(result, GeneratorType) else [result]
            self.calls.returned[name] += map(len, several)
            results += several
        return Blocks(results, self.calls, name)


def instead_of_ray(monkeypatch: pytest.MonkeyPatch, *modules: Any) -> Callable[[pa.Table, int], Blocks]:
    """Replace Ray in these modules; returns a function that makes blocks of so many rows from a table."""
    calls = Calls()
    data = SimpleNamespace(from_arrow=lambda table: Blocks([table], calls))
    for module in modules:
        monkeypatch.setattr(module, "ray", SimpleNamespace(get=lambda it: it, put=lambda it: it, data=data))
    return lambda table, rows: Blocks([table.slice(first, rows) for first in range(0, len(table), rows)], calls)
