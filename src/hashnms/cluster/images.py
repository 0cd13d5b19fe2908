"""Tables of many images in any order: a shuffle by image, then one call for many images at a time."""

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

PARTITIONS = 200  #: Ray's default


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

    A hash shuffle brings the rows of each image together, and one call of `hashnms.tables.suppress` handles many
    images. The result has the rows that this function keeps of the whole table, with all columns, in any order. Only
    the first row is read before the result is used.

    Args:
        dataset: a `ray.data.Dataset` with one row per box.
        suppression: a `Suppression` or its notation, e.g. "hnms:0.73/1+nms:0.5".
        image: the column with the image of each box. By default it is found by its usual names, like the other columns:
            see `hashnms.tables.suppress`.
        label: the column of the class. None: boxes of different classes suppress each other.
        boxes: the name of a column with lists of four numbers, or the names of four columns.
        score: the column of the score.
        box_format: "xyxy", "xywh" or "cxcywh"; by default the usual meaning of the column names.
        row: a column of distinct whole numbers: where scores tie, the lower number wins. None: rows are numbered as
            they are read, so a tie between rows of different blocks may be broken differently in another run.
        partitions: the number of parts to divide rows into; a million rows in each is good.

    Returns:
        A `ray.data.Dataset` of the kept rows.

    Raises:
        ValueError, TypeError: if a column is missing. When it runs: `RowError` if a row is bad; Ray wraps it.
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
    """`suppress` with columns and row numbers that have been found."""
    if columns.image is None:
        raise ValueError("image must be the name of a column, got None: use hashnms.cluster.scene for one scene")
    grouped = mapped(dataset, _with_group, image=columns.image, partitions=partitions)
    return by_group(grouped, partitions, _suppressed, chain=chain, columns=columns, row=row)


def _with_group(table: pa.Table, image: str, partitions: int) -> pa.Table:
    return with_hashed_group(table, hashes_of(table, image), partitions)


def _suppressed(table: pa.Table, chain: Suppression, columns: Columns, row: str) -> pa.Table:
    """The kept rows of whole images, by their numbers."""
    order = row_order(table, row)
    keys = table.select(columns.names).take(pa.array(order))
    with located(table, columns, row):
        kept = kept_rows(keys, chain, columns)
    result = taken(table, order[kept.rows], changed_columns(kept, chain, columns, keys.schema))
    return result.drop_columns([name for name in (GROUP, ROW) if name in result.column_names])
