"""Tiles with about equal numbers of boxes, for scenes too large for one call: `hashnms.scenes`, `hashnms.cluster`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashnms import _core, _validate
from hashnms._settings import BoxFormatName, MetricName
from hashnms.boxes import to_xyxy

USEFUL = 0.5  #: if a larger share of a round's boxes stays undecided, tiles do not help
_MOST_TOUCHED = 1.3  #: tiles that a box touches on average; if it is more, fewer tiles are better


class Touched(NamedTuple):
    """The rows of the boxes that touch each tile: by tile, increasing within each."""

    starts: NDArray[np.int64]  #: where each tile starts in `rows`, and the end
    rows: NDArray[np.int64]
    copies: NDArray[np.int8]  #: 0: the box touches only this tile; 1: the first of several; 2: a later one

    @property
    def num_boxes(self) -> int:
        """How many boxes these are: each touches at least one tile."""
        return int(self.rows.max(initial=-1)) + 1


class UnusualSize(ValueError):
    """A box whose region depends on the other sizes of the scene, which are not known in a part of it."""

    def __init__(self, row: int, problem: str) -> None:
        super().__init__(problem)
        self.row = row


class Tiles(NamedTuple):
    """Columns, each divided into tiles, which are numbered column by column. Outermost tiles have no outer border."""

    across: NDArray[np.float64]  #: the borders between columns
    down: NDArray[np.float64]  #: the borders between the tiles of a column, column after column
    row_starts: NDArray[np.int64]  #: where the borders of each column start in `down`, and the end

    @property
    def num_tiles(self) -> int:
        return len(self.across) + len(self.down) + 1

    @classmethod
    def of(cls, boxes: NDArray[Any], wanted: int) -> Tiles:
        """About `wanted` tiles with equal numbers of boxes, from a sample of the boxes as corners.

        The number of columns is chosen so that the fewest boxes touch several tiles.
        """
        if not len(boxes):
            return cls(np.zeros(0), np.zeros(0), np.zeros(2, np.int64))
        first, last = np.hsplit(boxes.astype(np.float64) / 2, 2)
        centers = first + last
        columns = _best_columns(np.median(last - first, axis=0), np.ptp(centers, axis=0), wanted)
        across = _cuts(centers[:, 0], columns)
        column_of = np.searchsorted(across, centers[:, 0], "right")
        down = [_cuts(centers[column_of == k, 1], round(wanted / columns)) for k in range(len(across) + 1)]
        return cls(across, np.concatenate(down), np.cumsum([0, *map(len, down)]))

    @classmethod
    def useful(cls, boxes: NDArray[Any], wanted: int, fewest: int, iou_threshold: float, **how: Any) -> Tiles | None:
        """About `wanted` tiles, from a sample of the boxes as corners; fewer if boxes touch too many of them.

        None if boxes touch too many of `fewest` tiles, and if those are not at least two.
        """
        most = int(_MOST_TOUCHED * len(boxes))
        while wanted >= max(fewest, 2):
            tiles = cls.of(boxes, wanted)
            if tiles.touched(boxes, iou_threshold, **how, most=most).num_boxes == len(boxes):
                return tiles
            wanted //= 2
        return None

    def touched(
        self,
        boxes: NDArray[Any],
        iou_threshold: float,
        *,
        metric: MetricName = "iou",
        inclusive: bool = False,
        box_format: BoxFormatName = "xyxy",
        most: int = 2**62,
    ) -> Touched:
        """The tiles that the `regions` of boxes touch. Two boxes that can suppress each other share a tile.

        Only of the first boxes, which touch at most `most` tiles in all. The first box is always there.

        Raises:
            UnusualSize: if a box is too small or too large. ValueError, TypeError: as `regions`.
        """
        boxes = _validate.boxes_array(boxes)
        found = _core.touched_tiles(boxes, iou_threshold, metric, inclusive, box_format, *self, most)
        if found is None:
            _validate.valid_rows(boxes, box_format)
            raise _unusual_size(boxes, box_format)
        return Touched(*found)

    def touched_in_parts(
        self, boxes: NDArray[Any], most: int, iou_threshold: float, **how: Any
    ) -> Iterator[tuple[int, Touched]]:
        """`touched` for some boxes at a time, and the row of the first of them. A part has at most `most` copies."""
        first = 0
        while first < len(boxes):
            try:
                part = self.touched(boxes[first:], iou_threshold, **how, most=most)
            except UnusualSize as error:
                error.row += first
                raise
            yield first, part
            first += part.num_boxes


def _best_columns(sizes: NDArray[np.float64], extents: NDArray[np.float64], wanted: int) -> int:
    """The number of columns with which the fewest boxes of these sizes, centred in these extents, cross borders."""
    tiny = np.finfo(np.float64).tiny
    crossing = np.maximum((sizes + tiny) / (np.maximum(sizes, extents) + tiny), 1e-9)  # the share of boxes on a border
    columns = np.arange(1, wanted + 1)
    rows = np.round(wanted / columns)
    enough = (columns * rows >= wanted) & (columns * rows <= wanted * 9 / 8)
    columns, rows = columns[enough], rows[enough]
    return int(columns[np.argmin(columns * crossing[0] + rows * crossing[1])])


def _cuts(places: NDArray[np.float64], parts: int) -> NDArray[np.float64]:
    """Borders between parts with about equal numbers of places; fewer where places are equal."""
    if not len(places) or parts < 2:
        return np.zeros(0)
    return np.unique(np.quantile(places, np.arange(1, parts) / parts))


def _unusual_size(boxes: NDArray[Any], box_format: BoxFormatName) -> UnusualSize:
    """The error for the first such box."""
    corners = to_xyxy(boxes, box_format)
    sizes = (corners[:, 2:] - corners[:, :2]).astype(np.float64)
    least = 2.0**20 * np.finfo(corners.dtype).tiny
    with np.errstate(over="ignore"):
        ordinary = ((sizes >= 2.0**-900) & (sizes <= 2.0**900)).all(axis=1) & (sizes.prod(axis=1) >= least)
    row = int(np.argmin(ordinary | (sizes == 0).any(axis=1)))
    sides = "1e-31" if corners.dtype == np.float32 else "1e-301, sides of 1e-270 to 1e270"
    need = f"ordinary sizes ({corners.dtype} areas of at least {sides})"
    return UnusualSize(row, f"boxes of a scene in parts must have {need}, got {boxes[row].tolist()}")
