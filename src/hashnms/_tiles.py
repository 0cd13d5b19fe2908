"""Tiles of a scene that no call holds, with about as many boxes each. `hashnms.scenes` and `hashnms.cluster` use it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashnms import _core, _validate
from hashnms._settings import BoxFormatName, MetricName


class Touched(NamedTuple):
    """Which of some boxes touch which tile: rows by tile, increasing within each."""

    starts: NDArray[np.int64]  #: of the tiles; and the end
    rows: NDArray[np.int64]
    copies: NDArray[np.int8]  #: 0: the box touches no other tile; 1: it does, and this is the first; 2: a later one


class UnusualSize(ValueError):
    """How far a box reaches depends on the other sizes of the scene, which a part of it does not know."""

    def __init__(self, row: int, problem: str) -> None:
        super().__init__(problem)
        self.row = row


class Tiles(NamedTuple):
    """Columns, each cut into tiles, which are numbered column by column. Those on the rim have no outer border."""

    across: NDArray[np.float64]  #: the borders between columns
    down: NDArray[np.float64]  #: the borders between the tiles of a column, column after column
    row_starts: NDArray[np.int64]  #: where those of each column start, and the end

    @property
    def num_tiles(self) -> int:
        return len(self.across) + len(self.down) + 1

    @classmethod
    def of(cls, boxes: NDArray[Any], wanted: int) -> Tiles:
        """About so many tiles, with about as many each of the boxes of which these are a sample, as corners.

        There are as many columns as let the fewest boxes touch several tiles.
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
        """The tiles that the `regions` of boxes touch: of two boxes that suppress each other, a tile has both.

        Raises:
            UnusualSize: if a box is too small or too large for that.
            ValueError, TypeError: as `regions`.
        """
        boxes = _validate.boxes_array(boxes)
        found = _core.touched_tiles(boxes, iou_threshold, metric, inclusive, box_format, *self)
        if found is None:
            _validate.legal_rows(boxes, box_format)
            raise _unusual_size(boxes, box_format)
        return Touched(*found)


def _best_columns(sizes: NDArray[np.float64], extents: NDArray[np.float64], wanted: int) -> int:
    """How many columns of so many tiles let the fewest boxes of such sizes, centred in such extents, cross borders."""
    tiny = np.finfo(np.float64).tiny
    crossing = np.maximum((sizes + tiny) / (np.maximum(sizes, extents) + tiny), 1e-9)  # a border: a share of the boxes
    return int(np.clip(round(np.sqrt(wanted * crossing[1] / crossing[0])), 1, wanted))


def _cuts(places: NDArray[np.float64], parts: int) -> NDArray[np.float64]:
    """Borders between parts of about equal numbers of places; fewer where places are equal."""
    if not len(places) or parts < 2:
        return np.zeros(0)
    return np.unique(np.quantile(places, np.arange(1, parts) / parts))


def _unusual_size(boxes: NDArray[Any], box_format: BoxFormatName) -> UnusualSize:
    """Of the smallest box; of the largest one where that is not small."""
    sizes = boxes[:, 2:] - boxes[:, :2] if box_format == "xyxy" else boxes[:, 2:]
    areas = np.log10(np.where(sizes > 0, sizes, 1).astype(np.float64)).sum(axis=1)
    row = int(np.argmin(areas) if areas.min() < -20 else np.argmax(areas))
    least = "1e-31" if boxes.dtype == np.float32 else "1e-301"
    need = f"ordinary sizes (areas of {boxes.dtype} from {least} on)"
    return UnusualSize(row, f"boxes of a scene in parts must have {need}, got {boxes[row].tolist()}")
