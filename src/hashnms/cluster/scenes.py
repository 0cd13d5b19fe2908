"""One scene that is too large for a machine: HNMS by combining and merging, exact NMS in rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hashnms import _settings, hnms
from hashnms._arrow import Arrays
from hashnms._settings import BoxFormatName
from hashnms.cluster.rounds import nms
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
    without,
)
from hashnms.cluster.survey import Scene, Survey, survey
from hashnms.hashing import IoUHash, hash_family
from hashnms.pipeline import Suppression
from hashnms.steps import Hnms, Nms, ScoreThreshold, Step
from hashnms.tables import USUAL, Columns


def scene(
    dataset: Any,
    suppression: Suppression | str,
    *,
    label: str | None = USUAL,
    boxes: str | Sequence[str] = USUAL,
    score: str = USUAL,
    box_format: BoxFormatName | None = None,
    row: str | None = None,
    tile_boxes: int = 2**20,
    gather: int = 2**22,
) -> Any:
    """Suppress the boxes of one scene on a cluster: keep the rows that the same steps keep of the whole table.

    `nms` goes tile by tile. Each tile gets all boxes that can overlap its own, and decides those that do not depend on
    boxes elsewhere. The undecided rows, a few in a hundred, are gathered where this function is called. If they are too
    many, there is another round. If tiles do not help, because boxes reach over many of them or are at one place, the
    best rows are gathered and decided, then the best of those that they do not suppress, and so on. `hnms` takes the
    best box of each cell of each block, then of all blocks, once for each hash.

    Args:
        dataset: a `ray.data.Dataset` with one row per box. It is read three times, the first two to choose the tiles:
            if that takes long, give it `materialize()`.
        suppression: a `Suppression` or its notation, with only the steps `score`, `hnms` and `nms`, e.g.
            "hnms:0.73/1+nms:0.5".
        label: the column of the class. None: boxes of different classes suppress each other. By default it is found by
            its usual names, like the other columns: see `hashnms.tables.suppress`.
        boxes: the name of a column with lists of four numbers, or the names of four columns.
        score: the column of the score.
        box_format: "xyxy", "xywh" or "cxcywh"; by default the usual meaning of the column names.
        row: a column of distinct whole numbers: where scores tie, the lower number wins. None: rows are numbered as
            they are read, so a tie between rows of different blocks may be broken differently in another run.
        tile_boxes: the approximate number of boxes in a tile; none gets more than twice as many, copies included.
        gather: how many rows at most are gathered in the process that calls this function, in addition to a sample of
            up to 2**21 boxes. Each task may also get the columns of this many kept boxes.

    Returns:
        A `ray.data.Dataset` of the kept rows, with all columns, in any order.

    Raises:
        ValueError, TypeError: if a column is missing or a step is not supported; `RowError` if a row is bad. Ray wraps
            it.
    """
    chain = Suppression.of(suppression)
    given = {"label": label, "boxes": boxes, "score": score, "box_format": box_format}
    columns = columns_of(dataset, row, image=None, **given)
    tile_boxes, gather = _settings.count_value("tile_boxes", tile_boxes), _settings.count_value("gather", gather)
    dataset, row, empty = numbered(dataset, row)
    known = scene_of(chain, columns, row, tile_boxes=tile_boxes, gather=gather)
    return with_columns(by_steps(dataset, chain, known), without(empty, [ROW]))


def scene_of(chain: Suppression, columns: Columns, row: str, **sizes: Any) -> Scene:
    """What the steps need to know; an error if a step is not supported."""
    for step in chain.steps:
        if type(step) not in _STEPS:
            raise ValueError(
                f"the suppression of a scene on a cluster must have only the steps score, hnms and nms, got {step}"
            )
    return Scene(columns, row, **sizes)


def by_steps(dataset: Any, chain: Suppression, of: Scene) -> Any:
    """Run the steps one after another."""
    found = survey(dataset, of)
    of = replace(of, as_float64=found.as_float64)
    for number, step in enumerate(chain.steps):
        if number:
            dataset = dataset.materialize()
            found = survey(dataset, of)
        dataset = _STEPS[type(step)](dataset, step, of, found)
    return mapped(dataset, without, names=[ROW])


# Scores: each block by itself.


def _above(dataset: Any, step: ScoreThreshold, of: Scene, _: Survey) -> Any:
    return mapped(dataset, _rows_above, step=step, of=of)


def _rows_above(table: pa.Table, step: ScoreThreshold, of: Scene) -> pa.Table:
    with located(table, of.columns, of.row):
        kept = Suppression([step])(*_values(of.arrays(table)), box_format=of.columns.box_format)
    return table.take(pa.array(np.sort(kept.keep)))


def _values(arrays: Arrays) -> tuple[Any, Any, Any]:
    return arrays.boxes, arrays.scores, arrays.labels


# HNMS: the best box of each cell in each block, then in all blocks. Once for each hash, because each hash gets the
# boxes that the one before it kept.


def _hnms(dataset: Any, step: Hnms, of: Scene, found: Survey) -> Any:
    if not found.count:  # Ray loses the columns of a dataset without rows
        return dataset
    partitions = -(-found.count // of.tile_boxes)
    for cells in hash_family(step.alpha, step.num_hashes):
        combined = mapped(dataset, _combined, cells=cells, of=of, partitions=partitions)
        dataset = by_group(combined, partitions, _merged, cells=cells, of=of)
    return dataset


def _combined(table: pa.Table, cells: IoUHash, of: Scene, partitions: int) -> pa.Table:
    """The best box of each cell in a block, in the group of its cell. Boxes without area are in any group."""
    table = _best_of_cells(table, cells, of)
    codes = cells(of.arrays(table).boxes, box_format=of.columns.box_format)
    mixed = np.zeros(len(codes), np.uint64)
    for code in codes.T:
        mixed = (mixed ^ code.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(32)
    return with_hashed_group(table, np.where(_without_area(codes), hashes_of(table, of.row), mixed), partitions)


def _merged(table: pa.Table, cells: IoUHash, of: Scene) -> pa.Table:
    return _best_of_cells(table, cells, of).drop_columns([GROUP])


def _best_of_cells(table: pa.Table, cells: IoUHash, of: Scene) -> pa.Table:
    table = table.take(pa.array(row_order(table, of.row)))
    boxes, scores, labels = _values(of.arrays(table))
    with located(table, of.columns, of.row):
        if cells == IoUHash(cells.alpha):
            keep = hnms(boxes, scores, alpha=cells.alpha, labels=labels, box_format=of.columns.box_format)
        else:
            keep = _first_of_codes(cells(boxes, box_format=of.columns.box_format), scores, labels)
    return table.take(pa.array(np.sort(keep)))


def _first_of_codes(codes: NDArray[np.int64], scores: Any, labels: Any) -> Any:
    """The row with the highest score of each code and label, ties to the lower row; boxes without area are kept."""
    keys = [*codes.T] if labels is None else [labels, *codes.T]
    order = np.lexsort([-scores.astype(np.float64), *keys])
    is_first = np.ones(len(order), bool)
    is_first[1:] = np.any([key[order[1:]] != key[order[:-1]] for key in keys], axis=0)
    return order[is_first | _without_area(codes[order])]


def _without_area(codes: NDArray[np.int64]) -> Any:
    return (codes[:, :2] == np.iinfo(np.int64).min).any(axis=1)


_STEPS: dict[type[Step], Callable[[Any, Any, Scene, Survey], Any]] = {ScoreThreshold: _above, Hnms: _hnms, Nms: nms}
