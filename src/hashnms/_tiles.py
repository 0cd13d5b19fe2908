"""Tiles with about equal numbers of boxes, for scenes too large for one call: `hashnms.scenes`, `hashnms.cluster`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashnms import _core, _validate
from hashnms._settings import BoxFormatName, MetricName


class Touched(NamedTuple):
    """The rows of the boxes that touch each tile: by tile, increasing within each."""

    starts: NDArray[np.int64]  #: where each tile starts in `rows`, and the end
    rows: NDArray[np.int64]
    copies: NDArray[np.int8]  #: 0: the box touches only this tile; 1: the first of several; 2: a later one


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

    def touched(
        self,
        boxes: NDArray[Any],
        iou_threshold: float,
        *,
        metric: MetricName = "iou",
        inclusive: bool = False,
        box_format: BoxFormatName = "xyxy",
    ) -> Touched:
        """The tiles that the `regions` of boxes touch. Two boxes that can suppress each other share a tile.

        Raises:
            UnusualSize: if a box is too small or too large. ValueError, TypeError: as `regions`.
        """
        boxes = _validate.boxes_array(boxes)
        found = _core.touched_tiles(boxes, iou_threshold, metric, inclusive, box_format, *self)
        if found is None:
            _validate.valid_rows(boxes, box_format)
            raise _unusual_size(boxes, box_format)
        return Touched(*found)


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
    """The error for the smallest box, or for the largest one if that is not small."""
    sizes = boxes[:, 2:] - boxes[:, :2] if box_format == "xyxy" else boxes[:, 2:]
    areas = np.log10(np.where(sizes > 0, sizes, 1).astype(np.float64)).sum(axis=1)
    row = int(np.argmin(areas) if areas.min() < -20 else np.argmax(areas))
    least = "1e-31" if boxes.dtype == np.float32 else "1e-301"
    need = f"ordinary sizes ({boxes.dtype} areas of at least {least})"
    return UnusualSize(row, f"boxes of a scene in parts must have {need}, got {boxes[row].tolist()}")
