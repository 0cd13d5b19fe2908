"""Exact NMS of a scene larger than memory, in rounds.

Two boxes can suppress each other only if their `regions` intersect. A round divides the plane into tiles. A tile has
all boxes whose regions touch it; a box that touches several tiles is open in each. `partial_nms` of a tile decides
which boxes are certainly kept or suppressed. A box that is undecided in all tiles it touches is not suppressed by any
box kept so far, so the undecided boxes are the scene of the next round. Rounds end when the rest fits into memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from hashnms._tiles import USEFUL, Tiles, Touched, UnusualSize
from hashnms.boxes import to_xyxy
from hashnms.partial import Status, partial_nms
from hashnms.scenes.records import Records, Scene, by_row
from hashnms.steps import Nms


def nms(scene: Scene, step: Nms, name: str) -> None:
    """Decide boxes by place while that helps, then the rest at once if it fits into memory, otherwise by rank."""
    paths, before = scene.all, np.inf
    for number in count(1):
        left = scene.num_left(paths)
        if left <= scene.most_at_once:
            scene.suppress_at_once([step], paths)
            return
        round_name = f"{name}-round-{number}"
        tiles = _tiles(scene, step, paths, left) if left < USEFUL * before else None
        if tiles is None and not (scene.folder / round_name).exists():
            _by_rank(scene, step, paths, f"{name}-cut")
            return
        paths, before = _by_place(scene, step, paths, tiles, round_name), left


# By place.


def _tiles(scene: Scene, step: Nms, paths: Sequence[Path], left: int) -> Tiles | None:
    """A good number of tiles; None if boxes reach over too many of them."""
    sample = scene.sample(paths)
    corners = to_xyxy(scene.layout.arrays(sample)[0], scene.box_format)
    wanted, fewest = scene.tiles_for(left), -(-left // scene.most_at_once)
    with _located(sample):
        return Tiles.useful(corners, wanted, fewest, step.iou_threshold, metric=step.metric, inclusive=step.inclusive)


@contextmanager
def _located(records: Records) -> Iterator[None]:
    """Add the row to an error about the size of one of these boxes."""
    try:
        yield
    except UnusualSize as error:
        raise ValueError(f"{error} in row {records['row'][error.row] + 1:,}") from None


def _by_place(scene: Scene, step: Nms, paths: Sequence[Path], tiles: Tiles | None, name: str) -> list[Path]:
    """Run one round and return the files of undecided boxes. Tiles are not needed if the scene is already divided."""

    def touched(records: Records) -> Iterator[tuple[int, Touched]]:
        assert tiles is not None
        boxes, how = scene.layout.arrays(records)[0], {"metric": step.metric, "inclusive": step.inclusive}
        most = 2 * scene.most_at_once  # copies: they are smaller than the records that are decided
        with _located(records):
            yield from tiles.touched_in_parts(boxes, most, step.iou_threshold, box_format=scene.box_format, **how)

    files = scene.divided(name, paths, 0 if tiles is None else tiles.num_tiles, touched)
    text = f"round {name.rpartition('-')[2]}"
    undecided = [path.with_name(f"{path.name}-undecided") for path in files]
    for number, tile in scene.each(files, text):
        with scene.folder.new(f"{name}/{undecided[number].name}") as new:
            _decide(scene, step, tile, new)
    return undecided


def _decide(scene: Scene, step: Nms, tile: Path, undecided: Path) -> None:
    """Decide the boxes of a tile; undecided ones go into a file, each box once."""
    if tile.stat().st_size > scene.most_at_once * scene.layout.stored.itemsize:  # too many boxes at one place
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
    undecided.write_bytes(records.take(np.flatnonzero((status == Status.UNDECIDED) & (records["copy"] < 2))).data)


# By rank.


def _by_rank(scene: Scene, step: Nms, paths: Sequence[Path], name: str) -> None:
    """Decide as many of the best boxes as fit, remove what they suppress, then take the best of the rest, and so on.

    For boxes that tiles do not divide: many at one place, or chains of overlaps across all tiles. It reads all boxes
    twice for each part.
    """
    total, most = scene.num_left(paths), max(scene.most_at_once // 4, 1)
    cut = scene.folder.read_json(name)  # boxes down to this rank (score, row) have been decided
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
    """The status of boxes, some of which are known to be kept; if there are such, the others are open."""
    return partial_nms(
        boxes, scores, step.iou_threshold, open=None if known is None else ~known, kept=known, labels=labels,
        metric=step.metric, inclusive=step.inclusive, box_format=scene.box_format,
    )  # fmt: skip


def _best(scene: Scene, paths: Sequence[Path], most: int, cut: Any) -> Records:
    """The best `most` boxes below a rank, by rank."""
    best = np.zeros(0, scene.layout.stored)
    for records in scene.records(paths):
        best = np.concatenate([best, _below(records, cut)])
        if len(best) > 2 * most:
            best = _ranked(best)[:most]
    return _ranked(best)[:most]


def _ranked(records: Records) -> Records:
    ranked: Records = records.take(np.lexsort((records["row"], -records["score"])))
    return ranked


def _below(records: Records, cut: Any) -> Records:
    if cut is None:
        return records
    score, row = np.float64(cut[0]), cut[1]
    lower = (records["score"] < score) | ((records["score"] == score) & (records["row"] > row))
    return records.take(np.flatnonzero(lower))
