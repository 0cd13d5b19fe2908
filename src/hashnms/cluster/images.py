"""Tables of many images in any order: brought together by image, then a call for many images at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import ray.data

from hashnms import _settings
from hashnms._frames import taken
from hashnms._settings import BoxFormatName
from hashnms.cluster.rows import (
    GROUP,
    ROW,
    by_group,
    columns_of,
    hashes_of,
    located,
    mapped,
    numbered,
    row_order,
    with_columns,
    with_hashed_group,
)
from hashnms.pipeline import Suppression
from hashnms.tables import USUAL, Columns, changed_columns, kept_rows

PARTITIONS = 200  #: as Ray has it


def suppress(
    dataset: Any,
    suppression: Suppression | str,
    *,
    image: str = USUAL,
    label: str | None = USUAL,
    boxes: str | Sequence[str] = USUAL,
    score: str = USUAL,
    box_format: BoxFormatName | None = None,
    row: str | None = None,
    partitions: int = PARTITIONS,
) -> Any:
    """Suppress the boxes of a Ray dataset, image by image and class by class; rows may be in any order.

    The rows of an image are brought together by a hash shuffle, and go through `hashnms.tables.suppress` with those of
    many other images in one call. The result is what that function keeps of the whole table, with all columns, in any
    order. No more than the first row is read before the result is used.

    Args:
        dataset: a `ray.data.Dataset` with a row a box.
        suppression: a `Suppression` or its notation, e.g. "hnms:0.73/1+nms:0.5".
        image: the column that says which image a box is of. By default it is found by its usual names, as the other
            columns are: see `hashnms.tables.suppress`.
        label: the column of the class; None: boxes of different classes may meet.
        boxes: one column of lists of four numbers, or the names of four columns.
        score: the column of the score.
        box_format: "xyxy", "xywh" or "cxcywh"; by default what the names of the columns usually mean.
        row: a column of whole numbers, each once: where scores tie, the lower wins. None: rows are numbered as they are
            read, so that a tie between rows of different blocks may end otherwise in another run.
        partitions: into how many parts rows are brought; a million rows each is good.

    Returns:
        A `ray.data.Dataset` of the rows that are kept.

    Raises:
        ValueError, TypeError: if columns are not there. When it runs: `RowError` if a row is bad; Ray wraps it.
    """
    columns = columns_of(dataset, row, image=image, label=label, boxes=boxes, score=score, box_format=box_format)
    partitions = _settings.count_value("partitions", partitions, least=1, most=2**20)
    chain = Suppression.of(suppression)
    dataset, row, empty = numbered(dataset, row)
    nothing = _suppressed(empty, chain, columns, row)
    if not dataset.take(1):  # a shuffle asks for columns
        return ray.data.from_arrow(nothing)
    return with_columns(by_image(dataset, chain, columns, row, partitions), nothing)


def by_image(dataset: Any, chain: Suppression, columns: Columns, row: str, partitions: int) -> Any:
    """The same with all that is known about the dataset."""
    if columns.image is None:
        raise ValueError("image must be the name of a column, got None: hashnms.cluster.scene takes one scene")
    grouped = mapped(dataset, _with_group, image=columns.image, partitions=partitions)
    return by_group(grouped, partitions, _suppressed, chain=chain, columns=columns, row=row)


def _with_group(table: pa.Table, image: str, partitions: int) -> pa.Table:
    return with_hashed_group(table, hashes_of(table, image), partitions)


def _suppressed(table: pa.Table, chain: Suppression, columns: Columns, row: str) -> pa.Table:
    """Of rows of whole images: those that are kept, by their numbers."""
    order = row_order(table, row)
    keys = table.select(columns.names).take(pa.array(order))
    with located(table, columns, row):
        kept = kept_rows(keys, chain, columns)
    result = taken(table, order[kept.rows], changed_columns(kept, chain, columns, keys.schema))
    return result.drop_columns([name for name in (GROUP, ROW) if name in result.column_names])
