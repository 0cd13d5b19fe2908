"""Exact NMS of a scene on a cluster, in rounds. Each round decides boxes by place or by rank.

By place: each tile gets all boxes whose regions touch it, and `partial_nms` decides what does not depend on boxes
elsewhere. Boxes that are undecided in all their tiles are the scene of the next round. A tile that would get too many
boxes is left out of the round, so all tiles together get at most a few copies of each box, however large boxes are.

By rank: the best boxes are gathered and decided, and every block drops the boxes that they suppress. This takes a pass
over all boxes for each part of them. It is for boxes that reach over many tiles, are at one place, or form chains.
`hashnms.scenes.rounds` does the same on one machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import ray
import ray.data
from numpy.typing import NDArray

from hashnms._tiles import USEFUL, Tiles, Touched
from hashnms.cluster.rows import (
    GROUP,
    by_group,
    check_distinct,
    gathered,
    hashes_of,
    located,
    mapped,
    row_order,
    tables_of,
    with_hashed_group,
    without,
)
from hashnms.cluster.survey import Rank, Scene, Survey, survey
from hashnms.partial import Status, partial_nms
from hashnms.steps import Nms
from hashnms.suppression import nms as nms_of_all

_COPIES = "hashnms_copies"  #: how many tiles of this round have the box
_OPEN = "hashnms_open"  #: whether the box touches several tiles
_STATUS = "hashnms_status"


class _Round(NamedTuple):
    """What is known after a round."""

    kept: Any
    rest: Any  #: the boxes that are neither kept nor suppressed; None if there are none
    survey: Survey  #: of the rest


def nms(dataset: Any, step: Nms, of: Scene, found: Survey) -> Any:
    """Decide boxes by place while that helps, otherwise by rank, until the rest can be gathered."""
    kept, before = [], np.inf  # the last round by place
    while found.count > of.gather:
        has_one = found.count <= of.most_at_once  # a tile with all boxes, which decides them
        tiles, part = found.tiles(step, of) if has_one or found.count < USEFUL * before else None, None
        if tiles is not None:
            before, part = found.count, _by_place(dataset, step, of, tiles)
        decided, dataset, found = part or _by_rank(dataset, step, of, found)
        kept.append(decided)
    last = None if dataset is None else gathered(dataset)
    if last is not None:
        kept.append(ray.data.from_arrow(_kept_of(last, step, of)))
    if not kept:
        return dataset
    return kept[0].union(*kept[1:]) if len(kept) > 1 else kept[0]


def _how(step: Nms, of: Scene) -> dict[str, Any]:
    return {"metric": step.metric, "inclusive": step.inclusive, "box_format": of.columns.box_format}


def _kept_of(table: pa.Table, step: Nms, of: Scene) -> pa.Table:
    """The rows that NMS keeps."""
    table = table.take(pa.array(row_order(table, of.row)))
    arrays = of.arrays(table)
    with located(table, of.columns, of.row):
        keep = nms_of_all(arrays.boxes, arrays.scores, step.iou_threshold, labels=arrays.labels, **_how(step, of))
    return table.take(pa.array(np.sort(keep)))


# By place.


def _by_place(dataset: Any, step: Nms, of: Scene, tiles: Tiles) -> _Round | None:
    """A round over tiles; None if all tiles would get too many boxes."""
    sizes = np.zeros(tiles.num_tiles, np.int64)
    for table in tables_of(mapped(dataset.select_columns(of.keys), _sizes, step=step, of=of, tiles=tiles)):
        sizes[table.column("tile").to_numpy()] += table.column("size").to_numpy()
    full = sizes > of.most_at_once
    if not sizes[~full].any():
        return None
    if full.any():
        dataset = dataset.materialize()  # read twice: rows that are numbered as they are read get the same numbers
    copied = mapped(dataset, _in_tiles, step=step, of=of, tiles=tiles, full=full)
    decided = by_group(copied, tiles.num_tiles, _decided, step=step, of=of).materialize()
    kept = mapped(decided, _with_status, status=Status.KEPT)
    rest, count = _undecided(mapped(decided, _with_status, status=Status.UNDECIDED), of)
    if full.any():
        waiting = mapped(dataset, _waiting, step=step, of=of, tiles=tiles, full=full)
        rest = (waiting if rest is None else waiting.union(rest)).materialize()
        count = None
    return _Round(kept, rest, survey(rest, of) if count is None else Survey(count))


def _touched(table: pa.Table, step: Nms, of: Scene, tiles: Tiles) -> Iterator[tuple[int, Touched]]:
    """Which tiles the boxes touch, for some boxes at a time: the first of them may have very many copies."""
    boxes = of.arrays(table).boxes
    with located(table, of.columns, of.row):
        yield from tiles.touched_in_parts(boxes, of.most_at_once, step.iou_threshold, **_how(step, of))


def _sizes(table: pa.Table, step: Nms, of: Scene, tiles: Tiles) -> pa.Table:
    """How many boxes of a block touch each tile."""
    sizes = np.zeros(tiles.num_tiles, np.int64)
    for _, touched in _touched(table, step, of, tiles):
        sizes += np.diff(touched.starts)
    tile = np.flatnonzero(sizes)
    return pa.table({"tile": tile, "size": sizes[tile]})


def _in_tiles(table: pa.Table, step: Nms, of: Scene, tiles: Tiles, full: NDArray[np.bool_]) -> Iterator[pa.Table]:
    """A row for each pair of a box and a tile that its region touches, except full tiles."""
    yield _copied(table, np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, bool))
    for first, (starts, rows, copies) in _touched(table, step, of, tiles):
        tile = np.repeat(np.arange(tiles.num_tiles), np.diff(starts))
        there = ~full[tile]
        times = np.bincount(rows[there])
        yield _copied(table, first + rows[there], tile[there], times[rows[there]], copies[there] > 0)


def _copied(table: pa.Table, rows: Any, tile: Any, times: Any, is_open: Any) -> pa.Table:
    columns = {GROUP: tile.astype(np.int32), _COPIES: times.astype(np.int32), _OPEN: is_open}
    copied = table.take(pa.array(rows))
    for name, values in columns.items():
        copied = copied.append_column(name, pa.array(values))
    return copied


def _waiting(table: pa.Table, step: Nms, of: Scene, tiles: Tiles, full: NDArray[np.bool_]) -> pa.Table:
    """The boxes that touch only full tiles."""
    waits = np.ones(len(table), bool)
    for first, (starts, rows, _) in _touched(table, step, of, tiles):
        waits[first + rows[~np.repeat(full, np.diff(starts))]] = False
    return table.filter(pa.array(waits))


def _decided(table: pa.Table, step: Nms, of: Scene) -> pa.Table:
    """The kept and undecided boxes of a tile. Open boxes are never kept here."""
    table = table.take(pa.array(row_order(table, of.row)))
    arrays, is_open = of.arrays(table), table.column(_OPEN).to_numpy()
    how = {**_how(step, of), "labels": arrays.labels, "open": is_open}
    with located(table, of.columns, of.row):
        status = partial_nms(arrays.boxes, arrays.scores, step.iou_threshold, **how)
    stays = np.flatnonzero(status != Status.SUPPRESSED)
    return without(table.take(pa.array(stays)), [GROUP, _OPEN]).append_column(_STATUS, pa.array(status[stays]))


def _with_status(table: pa.Table, status: Status) -> pa.Table:
    rows = table.filter(pa.array(table.column(_STATUS).to_numpy() == status))
    return without(rows, [_STATUS, _COPIES] if status == Status.KEPT else [_STATUS])


def _undecided(copies: Any, of: Scene) -> tuple[Any, int | None]:
    """The boxes that are undecided in all their tiles: None if there are none; and how many, if that is known.

    No kept box suppresses them, so they are a scene of their own.
    """
    count = copies.count()
    if count <= of.gather:
        table = gathered(copies)
        rest = None if table is None else _undecided_everywhere(table, of)
        return (ray.data.from_arrow(rest), len(rest)) if rest else (None, 0)
    partitions = -(-count // of.tile_boxes)
    grouped = mapped(copies, _by_row, of=of, partitions=partitions)
    return by_group(grouped, partitions, _undecided_everywhere, of=of).materialize(), None


def _by_row(table: pa.Table, of: Scene, partitions: int) -> pa.Table:
    return with_hashed_group(table, hashes_of(table, of.row), partitions)


def _undecided_everywhere(table: pa.Table, of: Scene) -> pa.Table:
    """One row of each box that is undecided in as many tiles as it has."""
    numbers = table.column(of.row).to_numpy()
    _, first, times = np.unique(numbers, return_index=True, return_counts=True)
    copies = table.column(_COPIES).to_numpy()[first]
    check_distinct(numbers, of.row, copies)
    complete = times == copies
    return without(table.take(pa.array(first[complete])), [_COPIES, GROUP])


# By rank.


def _by_rank(dataset: Any, step: Nms, of: Scene, found: Survey) -> _Round:
    """Decide the best boxes that can be gathered, and drop those that they suppress."""
    dataset = dataset.materialize()  # read twice, as above
    best, last = _best(dataset, of, found)
    kept = _kept_of(best, step, of)
    how = {"step": step, "of": of, "last": last, "kept": ray.put(kept.select(of.keys))}
    rest = mapped(dataset, _below, most=of.tile_boxes, **how).materialize()
    return _Round(ray.data.from_arrow(kept), rest, survey(rest, of))


def _best(dataset: Any, of: Scene, found: Survey) -> tuple[pa.Table, Rank]:
    """The boxes down to some rank, as many as can be gathered or somewhat fewer, and that rank."""
    while True:
        rank = found.rank(max(of.gather * 3 // 4, 1))  # from a sample, so it may be more
        best = mapped(dataset, _down_to, of=of, rank=rank).materialize()
        count = best.count()
        if count <= of.gather:
            return gathered(best), rank
        if count == found.count:
            raise ValueError(f"row must be a column of distinct numbers, got {of.row} with equal ones")
        dataset, found = best, survey(best, of)


def _are_down_to(rank: Rank, table: pa.Table, of: Scene) -> NDArray[np.bool_]:
    """Which boxes have at least this rank."""
    scores, rows = of.arrays(table).scores, table.column(of.row).to_numpy()
    are: NDArray[np.bool_] = (scores > rank[0]) | ((scores == rank[0]) & (rows <= rank[1]))
    return are


def _down_to(table: pa.Table, of: Scene, rank: Rank) -> pa.Table:
    return table.filter(pa.array(_are_down_to(rank, table, of)))


def _below(table: pa.Table, step: Nms, of: Scene, last: Rank, kept: Any) -> pa.Table:
    """The boxes below the last of the best that none of the kept ones suppresses."""
    table = table.filter(pa.array(~_are_down_to(last, table, of)))
    best = ray.get(kept)
    both = pa.concat_tables([best, table.select(of.keys)])
    arrays, is_open = of.arrays(both), np.arange(len(both)) >= len(best)  # the kept ones are before all others
    how = {**_how(step, of), "labels": arrays.labels, "open": is_open}
    with located(both, of.columns, of.row):
        status = partial_nms(arrays.boxes, arrays.scores, step.iou_threshold, **how)
    return table.filter(pa.array(status[len(best) :] != Status.SUPPRESSED))
