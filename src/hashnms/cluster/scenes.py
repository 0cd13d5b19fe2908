"""One scene that is too large for a machine: HNMS by combining and merging, exact NMS over tiles in rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import ray
import ray.data
from numpy.typing import NDArray

from hashnms import _settings, hnms, nms
from hashnms._arrow import Arrays
from hashnms._settings import BoxFormatName
from hashnms._tiles import Tiles
from hashnms.boxes import to_xyxy
from hashnms.cluster.rows import (
    GROUP,
    ROW,
    arrays_of,
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
from hashnms.hashing import IoUHash, hash_family
from hashnms.partial import Status, partial_nms
from hashnms.pipeline import Suppression
from hashnms.steps import Hnms, Nms, ScoreThreshold, Step
from hashnms.tables import USUAL, Columns

_COPIES = "hashnms_copies"  #: how many tiles have the box
_STATUS = "hashnms_status"
_CORNERS = ("x1", "y1", "x2", "y2")
_SAMPLE_OF_A_BLOCK = 1000  #: boxes, to choose tiles
_FEWER = 4  #: each round has this many times fewer tiles, so that even a chain of boxes across all tiles ends


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
    many, another round uses fewer tiles. `hnms` takes the best box of each cell of each block, then of all blocks, once
    for each hash.

    Args:
        dataset: a `ray.data.Dataset` with one row per box. It is read twice, the first time to choose the tiles.
        suppression: a `Suppression` or its notation, with only the steps `score`, `hnms` and `nms`, e.g.
            "hnms:0.73/1+nms:0.5".
        label: the column of the class. None: boxes of different classes suppress each other. By default it is found by
            its usual names, like the other columns: see `hashnms.tables.suppress`.
        boxes: the name of a column with lists of four numbers, or the names of four columns.
        score: the column of the score.
        box_format: "xyxy", "xywh" or "cxcywh"; by default the usual meaning of the column names.
        row: a column of distinct whole numbers: where scores tie, the lower number wins. None: rows are numbered as
            they are read, so a tie between rows of different blocks may be broken differently in another run.
        tile_boxes: the approximate number of boxes in a tile.
        gather: how many rows may be gathered in the process that calls this function.

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
    return with_columns(by_steps(dataset, chain, known), _without(empty, [ROW]))


@dataclass(frozen=True)
class _Scene:
    """What all steps need to know about the dataset."""

    columns: Columns
    row: str
    tile_boxes: int = 2**20
    gather: int = 2**22
    as_float64: bool = False  #: whether some integers, in any block, do not fit into float32

    def arrays(self, table: pa.Table) -> Arrays:
        """The arrays of a table, in the types of the whole scene."""
        arrays = arrays_of(table, self.columns, self.row)
        return replace(arrays, boxes=arrays.boxes.astype(np.float64)) if self.as_float64 else arrays


def scene_of(chain: Suppression, columns: Columns, row: str, **sizes: Any) -> _Scene:
    """What the steps need to know; an error if a step is not supported."""
    for step in chain.steps:
        if type(step) not in _STEPS:
            raise ValueError(
                f"the suppression of a scene on a cluster must have only the steps score, hnms and nms, got {step}"
            )
    return _Scene(columns, row, **sizes)


def by_steps(dataset: Any, chain: Suppression, of: _Scene) -> Any:
    """Run the steps one after another."""
    survey = _survey(dataset, of)
    of = replace(of, as_float64=survey.as_float64)
    for number, step in enumerate(chain.steps):
        if number:
            dataset = dataset.materialize()
            survey = _survey(dataset, of)
        dataset = _STEPS[type(step)](dataset, step, of, survey)
    return mapped(dataset, _without, names=[ROW])


@dataclass(frozen=True)
class _Survey:
    """What a first pass over all boxes finds."""

    count: int = 0
    sample: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 4)))  #: boxes, as corners
    as_float64: bool = False


def _survey(dataset: Any, of: _Scene) -> _Survey:
    found = _gathered(mapped(dataset.select_columns([*of.columns.names, of.row]), _seen, of=of))
    if found is None:
        return _Survey()
    sample = np.stack([found.column(name).to_numpy() for name in _CORNERS], axis=1)
    return _Survey(int(found.column("count").to_numpy().sum()), sample, bool(found.column("wide").to_numpy().any()))


def _seen(table: pa.Table, of: _Scene) -> pa.Table:
    """For a block: a sample of its boxes, and in the first row its number of boxes."""
    boxes = of.arrays(table).boxes
    wide = boxes.dtype.kind in "iu" and len(boxes) > 0 and float(np.abs(boxes.astype(np.float64)).max()) > 2**24
    with located(table, of.columns, of.row):
        some = to_xyxy(boxes[:: max(1, len(boxes) // _SAMPLE_OF_A_BLOCK)], of.columns.box_format)
    count = np.zeros(len(some), np.int64)
    count[:1] = len(boxes)
    corners = dict(zip(_CORNERS, some.astype(np.float64).T, strict=True))
    return pa.table({**corners, "count": count, "wide": np.full(len(some), wide)})


def _gathered(dataset: Any) -> pa.Table | None:
    """Gather all rows in this process; None if there are none."""
    tables = [table for table in ray.get(dataset.to_arrow_refs()) if len(table)]
    return pa.concat_tables(tables) if tables else None


def _without(table: pa.Table, names: list[str]) -> pa.Table:
    return table.drop_columns([name for name in names if name in table.column_names])


# Scores: each block by itself.


def _above(dataset: Any, step: ScoreThreshold, of: _Scene, _: _Survey) -> Any:
    return mapped(dataset, _rows_above, step=step, of=of)


def _rows_above(table: pa.Table, step: ScoreThreshold, of: _Scene) -> pa.Table:
    with located(table, of.columns, of.row):
        kept = Suppression([step])(*_values(of.arrays(table)))
    return table.take(pa.array(np.sort(kept.keep)))


def _values(arrays: Arrays) -> tuple[Any, Any, Any]:
    return arrays.boxes, arrays.scores, arrays.labels


# HNMS: the best box of each cell in each block, then in all blocks. Once for each hash, because each hash gets the
# boxes that the one before it kept.


def _hnms(dataset: Any, step: Hnms, of: _Scene, survey: _Survey) -> Any:
    if not survey.count:  # Ray loses the columns of a dataset without rows
        return dataset
    partitions = max(1, -(-survey.count // of.tile_boxes))
    for cells in hash_family(step.alpha, step.num_hashes):
        combined = mapped(dataset, _combined, cells=cells, of=of, partitions=partitions)
        dataset = by_group(combined, partitions, _merged, cells=cells, of=of)
    return dataset


def _combined(table: pa.Table, cells: IoUHash, of: _Scene, partitions: int) -> pa.Table:
    """The best box of each cell in a block, in the group of its cell."""
    table = _best_of_cells(table, cells, of)
    codes = cells(of.arrays(table).boxes, box_format=of.columns.box_format)
    mixed = np.zeros(len(codes), np.uint64)
    for code in codes.T:
        mixed = (mixed ^ code.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(32)
    return with_hashed_group(table, mixed, partitions)


def _merged(table: pa.Table, cells: IoUHash, of: _Scene) -> pa.Table:
    return _best_of_cells(table, cells, of).drop_columns([GROUP])


def _best_of_cells(table: pa.Table, cells: IoUHash, of: _Scene) -> pa.Table:
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
    without_area = (codes[order, :2] == np.iinfo(np.int64).min).any(axis=1)
    return order[is_first | without_area]


# NMS: tiles, in rounds.


def _nms(dataset: Any, step: Nms, of: _Scene, survey: _Survey) -> Any:
    """Run rounds over fewer and fewer tiles, until the rest can be gathered."""
    kept, most = [], survey.count
    while survey.count > of.gather:
        tiles = Tiles.of(survey.sample, min(most, -(-survey.count // of.tile_boxes)))
        if tiles.num_tiles == 1:
            break
        decided = _round(dataset, step, of, tiles).materialize()
        kept.append(mapped(decided, _with_status, status=Status.KEPT))
        dataset, survey = _next_scene(mapped(decided, _with_status, status=Status.UNDECIDED), of, tiles)
        most = max(1, tiles.num_tiles // _FEWER)
    last = _decided_here(dataset, step, of)
    datasets = [*kept, *([] if last is None else [ray.data.from_arrow(last)])]
    if len(datasets) > 1:
        return datasets[0].union(*datasets[1:])
    return datasets[0] if datasets else dataset


def _round(dataset: Any, step: Nms, of: _Scene, tiles: Tiles) -> Any:
    """The kept and undecided boxes with their status; undecided ones once for each tile."""
    copied = mapped(dataset, _in_tiles, step=step, of=of, tiles=tiles)
    return by_group(copied, tiles.num_tiles, _decided, step=step, of=of)


def _in_tiles(table: pa.Table, step: Nms, of: _Scene, tiles: Tiles) -> pa.Table:
    """A row for each pair of a box and a tile that its region touches."""
    boxes = of.arrays(table).boxes
    with located(table, of.columns, of.row):
        starts, rows, _ = tiles.touched(boxes, step.iou_threshold, **_how(step, of))
    tile = np.repeat(np.arange(tiles.num_tiles, dtype=np.int32), np.diff(starts))
    copies = np.bincount(rows, minlength=len(table))[rows].astype(np.int32)
    copied = table.take(pa.array(rows)).append_column(GROUP, pa.array(tile))
    return copied.append_column(_COPIES, pa.array(copies))


def _how(step: Nms, of: _Scene) -> dict[str, Any]:
    return {"metric": step.metric, "inclusive": step.inclusive, "box_format": of.columns.box_format}


def _decided(table: pa.Table, step: Nms, of: _Scene) -> pa.Table:
    """The kept and undecided boxes of a tile. Open boxes are also in other tiles, and are never kept here."""
    table = table.take(pa.array(row_order(table, of.row))).drop_columns([GROUP])
    boxes, scores, labels = _values(of.arrays(table))
    is_open = table.column(_COPIES).to_numpy() > 1
    with located(table, of.columns, of.row):
        status = partial_nms(boxes, scores, step.iou_threshold, open=is_open, labels=labels, **_how(step, of))
    stays = np.flatnonzero(status != Status.SUPPRESSED)
    return table.take(pa.array(stays)).append_column(_STATUS, pa.array(status[stays]))


def _with_status(table: pa.Table, status: Status) -> pa.Table:
    rows = table.filter(pa.array(table.column(_STATUS).to_numpy() == status))
    return _without(rows, [_STATUS, _COPIES] if status == Status.KEPT else [_STATUS])


def _next_scene(undecided: Any, of: _Scene, tiles: Tiles) -> tuple[Any, _Survey]:
    """The boxes that are undecided in all their tiles. No kept box suppresses them, so they are a scene of their own.

    If they are few, they are gathered: a table, or None if there are none.
    """
    count = undecided.count()
    if count <= of.gather:
        rest = _gathered(undecided)
        return None if rest is None else _undecided_everywhere(rest, of), _Survey()
    partitions = max(1, min(tiles.num_tiles, -(-count // of.tile_boxes)))
    grouped = mapped(undecided, _by_row, of=of, partitions=partitions)
    rest = by_group(grouped, partitions, _undecided_everywhere, of=of).materialize()
    return rest, _survey(rest, of)


def _by_row(table: pa.Table, of: _Scene, partitions: int) -> pa.Table:
    return with_hashed_group(table, hashes_of(table, of.row), partitions)


def _undecided_everywhere(table: pa.Table, of: _Scene) -> pa.Table:
    """One row of each box that is undecided in as many tiles as it has."""
    _, first, times = np.unique(table.column(of.row).to_numpy(), return_index=True, return_counts=True)
    complete = times == table.column(_COPIES).to_numpy()[first]
    return _without(table.take(pa.array(first[complete])), [_COPIES, GROUP])


def _decided_here(rest: Any, step: Nms, of: _Scene) -> pa.Table | None:
    """The rows that NMS keeps of the last rows, which are a dataset or already gathered."""
    table = rest if rest is None or isinstance(rest, pa.Table) else _gathered(rest)
    if table is None:
        return None
    table = table.take(pa.array(row_order(table, of.row)))
    boxes, scores, labels = _values(of.arrays(table))
    with located(table, of.columns, of.row):
        keep = nms(boxes, scores, step.iou_threshold, labels=labels, **_how(step, of))
    return table.take(pa.array(np.sort(keep)))


_STEPS: dict[type[Step], Callable[[Any, Any, _Scene, _Survey], Any]] = {
    ScoreThreshold: _above,
    Hnms: _hnms,
    Nms: _nms,
}
