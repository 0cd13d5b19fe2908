"""Exact NMS of a scene larger than memory, in rounds.

Two boxes suppress each other only if their `regions` meet. A round divides the plane into tiles; a tile has all boxes
whose regions touch it, and one that touches several tiles is open there. `partial_nms` of a tile says which boxes are
kept or suppressed for good. A box that is undecided in all tiles it touches is suppressed by none kept so far, so the
undecided ones are the scene of the next round, until they fit into memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hashnms import _core
from hashnms.partial import Status, partial_nms, regions
from hashnms.scenes.records import Records, Scene, Touches, by_row
from hashnms.steps import Nms

_MOST_TOUCHED = 1.3  #: tiles a box touches on average; where it is more, fewer tiles are better
_USEFUL = 0.5  #: of the boxes of a round, if more than this are undecided, tiles are no use


class Borders(NamedTuple):
    """Of tiles: columns, each cut into tiles."""

    across: Any  #: between columns
    down: Any  #: between the tiles of a column, column after column
    row_starts: Any  #: where those of each column start, and the end

    @property
    def num_tiles(self) -> int:
        return len(self.across) + len(self.down) + 1


def nms(scene: Scene, step: Nms, name: str) -> None:
    """By place, while that is of use, and the rest by rank, or at once if it fits into memory."""
    paths, before = scene.all, np.inf
    for number in count(1):
        left = scene.num_left(paths)
        if left <= scene.most_at_once:
            scene.suppress_at_once([step], paths)
            return
        round_name = f"{name}-round-{number}"
        borders = _borders(scene, step, paths, left) if left < _USEFUL * before else None
        if borders is None and not (scene.folder / round_name).exists():
            _by_rank(scene, step, paths, f"{name}-cut")
            return
        paths, before = _by_place(scene, step, paths, borders, round_name), left


# By place.


def _borders(scene: Scene, step: Nms, paths: Sequence[Path], left: int) -> Borders | None:
    """Those of about as many tiles as are best; None if boxes reach over too many of them."""
    boxes = scene.layout.arrays(scene.sample(paths))[0]
    region = regions(
        boxes, step.iou_threshold, metric=step.metric, inclusive=step.inclusive, box_format=scene.box_format
    )
    wanted, fewest = scene.tiles_for(left), max(2, -(-left // scene.most_at_once))
    while wanted >= fewest:
        borders = _quantiles(region, wanted)
        touched = _touched(scene, step, boxes, borders)
        if touched is None or len(touched[1]) <= _MOST_TOUCHED * len(boxes):
            return borders  # what is wrong with the boxes is said when they are divided
        wanted //= 2
    return None


def _quantiles(region: Any, wanted: int) -> Borders:
    """Columns of about equal numbers of regions, each cut into tiles of about equal numbers."""
    centers, sizes = (region[:, :2] + region[:, 2:]) / 2, region[:, 2:] - region[:, :2]
    extent = np.ptp(centers, axis=0)
    share = sizes.mean(axis=0) / np.where(extent > 0, extent, np.inf)  # of the boxes on a border, if it is the only one
    columns = int(np.clip(round(np.sqrt(wanted * max(share[1], 1e-9) / max(share[0], 1e-9))), 1, wanted))
    across = _cuts(centers[:, 0], columns)
    column_of = np.searchsorted(across, centers[:, 0], "right")
    down = [_cuts(centers[column_of == k, 1], round(wanted / columns)) for k in range(len(across) + 1)]
    return Borders(across, np.concatenate(down), np.cumsum([0, *map(len, down)]))


def _cuts(places: Any, parts: int) -> Any:
    """Borders between parts of about equal numbers of places."""
    if not len(places) or parts < 2:
        return np.zeros(0)
    return np.unique(np.quantile(places, np.arange(1, parts) / parts))


def _touched(scene: Scene, step: Nms, boxes: Any, borders: Borders) -> Touches | None:
    """None if a size is not ordinary."""
    rule = (step.iou_threshold, step.metric, step.inclusive, scene.box_format)
    return _core.touched_tiles(boxes, *rule, borders.across, borders.down, borders.row_starts)


def _by_place(scene: Scene, step: Nms, paths: Sequence[Path], borders: Borders | None, name: str) -> list[Path]:
    """One round. Returns the files of what is undecided. Borders are not needed if the scene has been divided."""

    def touches(records: Records) -> Touches:
        assert borders is not None
        boxes = scene.layout.arrays(records)[0]
        touched = _touched(scene, step, boxes, borders)
        if touched is None:
            raise _not_ordinary(scene, records)
        return touched

    tiles = scene.divided(name, paths, 0 if borders is None else borders.num_tiles, touches)
    text = f"round {name.rpartition('-')[2]}"
    undecided = [path.with_name(f"{path.name}-undecided") for path in tiles]
    for number, tile in scene.each(tiles, text):
        with scene.folder.new(f"{name}/{undecided[number].name}") as new:
            _decide(scene, step, tile, new)
    return undecided


def _decide(scene: Scene, step: Nms, tile: Path, undecided: Path) -> None:
    """What is certain about the boxes of a tile; the rest goes into a file, each box once."""
    if tile.stat().st_size > scene.most_at_once * scene.layout.stored.itemsize:  # too many at one place
        with undecided.open("wb") as file:
            for records in scene.records([tile]):
                file.write(records.take(np.flatnonzero(records["copy"] < 2)).data)
        return
    records = by_row(np.fromfile(tile, scene.layout.stored))
    is_open = records["copy"] > 0
    left = ~is_open
    left[is_open] = scene.are_left(records["row"][is_open])  # another tile may have suppressed them
    if not left.all():
        records, is_open = records.take(np.flatnonzero(left)), is_open[left]
    boxes, scores, labels = scene.layout.arrays(records)
    status = partial_nms(
        boxes, scores, step.iou_threshold, open=is_open, labels=labels, metric=step.metric, inclusive=step.inclusive,
        box_format=scene.box_format,
    )  # fmt: skip
    scene.remove(records["row"][status == Status.SUPPRESSED])
    records.take(np.flatnonzero((status == Status.UNDECIDED) & (records["copy"] < 2))).tofile(undecided)


def _not_ordinary(scene: Scene, records: Records) -> ValueError:
    boxes = scene.layout.arrays(records)[0]
    sizes = boxes[:, 2:] - boxes[:, :2] if scene.box_format == "xyxy" else boxes[:, 2:]
    areas = np.where((sizes > 0).all(axis=1), sizes.astype(np.float64).prod(axis=1), np.inf)
    worst = int(np.argmin(areas))
    if areas[worst] > 1e-20:
        worst = int(np.argmax(np.where(np.isfinite(areas), areas, 0)))
    return ValueError(
        f"boxes of a scene larger than memory must have ordinary sizes (areas of {boxes.dtype} from "
        f"{'1e-31' if boxes.dtype == np.float32 else '1e-301'} on), got {boxes[worst].tolist()} "
        f"in row {records['row'][worst] + 1:,}"
    )


# By rank.


def _by_rank(scene: Scene, step: Nms, paths: Sequence[Path], name: str) -> None:
    """Decides the best boxes at once, then those that these suppress, then the best of the rest, and so on.

    For boxes that tiles do not divide: many at one place, or chains of overlaps across all tiles. Reads all boxes twice
    for each part.
    """
    total, most = scene.num_left(paths), max(scene.most_at_once // 4, 1)
    cut = scene.folder.read_json(name)  # boxes down to this rank, a score and a row, have been decided
    decided = 0
    while True:
        best = _best(scene, paths, most, cut)
        if not len(best):
            return
        by_rows = by_row(best)
        boxes, scores, labels = scene.layout.arrays(by_rows)
        status = _with_kept(scene, step, boxes, scores, labels, None)
        scene.remove(by_rows["row"][status == Status.SUPPRESSED])
        kept = by_rows.take(np.flatnonzero(status == Status.KEPT))
        cut = [float(best["score"][-1]), int(best["row"][-1])]
        for records in scene.records(paths, at_a_time=most):
            rest = np.concatenate([kept, _below(records, cut)])
            known = np.arange(len(rest)) < len(kept)
            rest_status = _with_kept(scene, step, *scene.layout.arrays(rest), known)
            scene.remove(rest["row"][rest_status == Status.SUPPRESSED])
        scene.folder.write_json(name, cut)
        decided += len(best)
        scene.progress(min(decided / total, 1.0), "by rank")


def _with_kept(scene: Scene, step: Nms, boxes: Any, scores: Any, labels: Any, known: Any) -> Any:
    """The status of boxes of which some are known to be kept, and then the others are open."""
    return partial_nms(
        boxes, scores, step.iou_threshold, open=None if known is None else ~known, kept=known, labels=labels,
        metric=step.metric, inclusive=step.inclusive, box_format=scene.box_format,
    )  # fmt: skip


def _best(scene: Scene, paths: Sequence[Path], most: int, cut: Any) -> Records:
    """The best so many below a rank, by rank."""
    best = np.zeros(0, scene.layout.stored)
    for records in scene.records(paths):
        best = np.concatenate([best, _below(records, cut)])
        if len(best) > 2 * most:
            best = _ranked(best)[:most]
    return _ranked(best)[:most]


def _ranked(records: Records) -> Records:
    return records.take(np.lexsort((records["row"], -records["score"])))


def _below(records: Records, cut: Any) -> Records:
    if cut is None:
        return records
    score, row = np.float64(cut[0]), cut[1]
    lower = (records["score"] < score) | ((records["score"] == score) & (records["row"] > row))
    return records.take(np.flatnonzero(lower))
