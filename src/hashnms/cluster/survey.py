"""What a scene on a cluster is, and a pass over all its boxes: how many there are, and a sample of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hashnms._arrow import Arrays
from hashnms._tiles import Tiles, UnusualSize
from hashnms.boxes import to_xyxy
from hashnms.cluster.rows import RowError, arrays_of, check_distinct, hashes_of, located, mapped, tables_of
from hashnms.steps import Nms
from hashnms.tables import Columns

_SAMPLE_OF_A_BLOCK = 1000  #: boxes
_MOST_IN_SAMPLE = 2**20
_SAMPLE_COLUMNS = ["x1", "y1", "x2", "y2", "score", "row", "priority"]
_ALL = 2**64 - 1

#: The place of a box in the order of decision: its score, and its row where scores tie.
Rank = tuple[float, int]


@dataclass(frozen=True)
class Scene:
    """What all steps need to know about the dataset."""

    columns: Columns
    row: str
    tile_boxes: int = 2**20
    gather: int = 2**22
    as_float64: bool = False  #: whether some integers, in any block, do not fit into float32

    @property
    def most_at_once(self) -> int:
        """The most boxes that a tile may have."""
        return 2 * self.tile_boxes

    @property
    def keys(self) -> list[str]:
        """The columns that steps need."""
        return list(dict.fromkeys([*self.columns.names, self.row]))

    def arrays(self, table: pa.Table) -> Arrays:
        """The arrays of a table, in the types of the whole scene."""
        arrays = arrays_of(table, self.columns, self.row)
        return replace(arrays, boxes=arrays.boxes.astype(np.float64)) if self.as_float64 else arrays


@dataclass(frozen=True)
class Survey:
    """What a pass over all boxes finds."""

    count: int = 0
    sample: pa.Table = field(default_factory=lambda: pa.table({name: [] for name in _SAMPLE_COLUMNS}))
    as_float64: bool = False

    def tiles(self, step: Nms, of: Scene) -> Tiles | None:
        """Tiles for these boxes; one if it can have all. None if boxes reach over too many of them."""
        if self.count <= of.most_at_once:
            return Tiles.of(np.zeros((0, 4)), 1)
        corners = np.stack([self.sample.column(name).to_numpy() for name in _SAMPLE_COLUMNS[:4]], axis=1)
        wanted, fewest = (-(-self.count // boxes) for boxes in (of.tile_boxes, of.most_at_once))
        how = {"metric": step.metric, "inclusive": step.inclusive}
        try:
            return Tiles.useful(corners, wanted, fewest, step.iou_threshold, **how)
        except UnusualSize as error:
            raise RowError(self.sample.column("row")[error.row].as_py(), str(error)) from None

    def rank(self, wanted: int) -> Rank:
        """The rank of a box such that about `wanted` boxes have at least this rank."""
        scores, rows = (self.sample.column(name).to_numpy() for name in ("score", "row"))
        order = np.lexsort([rows, -scores.astype(np.float64)])
        place = order[max(len(order) * wanted // self.count - 1, 0)]
        return scores[place].item(), rows[place].item()


def survey(dataset: Any, of: Scene) -> Survey:
    """Read all boxes. Each box has the same chance to be in the sample."""
    count, as_float64, sample, parts, limit = 0, False, 0, list[pa.Table](), _ALL
    for table in tables_of(mapped(dataset.select_columns(of.keys), _seen, of=of)):
        of_block = {name: table.column(name)[0].as_py() for name in ("count", "wide", "limit")}
        count, as_float64 = count + of_block["count"], as_float64 or of_block["wide"]
        parts, sample, limit = [*parts, table], sample + len(table), min(limit, of_block["limit"])
        if sample > 2 * _MOST_IN_SAMPLE:
            parts, sample, limit = _thinned(parts, limit)
    return Survey(count, _thinned(parts, limit)[0][0], as_float64) if parts else Survey()


def _thinned(parts: list[pa.Table], limit: int) -> tuple[list[pa.Table], int, int]:
    """The sample up to this priority, in one part, or up to a lower one if it has too many boxes; its size."""
    whole = pa.concat_tables([part.select(_SAMPLE_COLUMNS) for part in parts])
    priorities = whole.column("priority").to_numpy()
    limit = min(limit, _limit(priorities, _MOST_IN_SAMPLE))
    whole = whole.filter(pa.array(priorities <= np.uint64(limit)))
    return [whole], len(whole), limit


def _limit(priorities: NDArray[np.uint64], most: int) -> int:
    """The priority up to which there are this many."""
    return _ALL if len(priorities) <= most else int(np.partition(priorities, most - 1)[most - 1])


def _seen(table: pa.Table, of: Scene) -> pa.Table:
    """For a block: a sample of its boxes, and in each row what is known about the whole block."""
    arrays, numbers = of.arrays(table), table.column(of.row).to_numpy()
    check_distinct(numbers, of.row)
    wide = arrays.boxes.dtype.kind in "iu" and len(table) > 0 and np.abs(arrays.boxes.astype(float)).max() > 2**24
    priorities = hashes_of(table, of.row)
    limit = _limit(priorities, _SAMPLE_OF_A_BLOCK)
    chosen = np.flatnonzero(priorities <= np.uint64(limit))
    with located(table, of.columns, of.row):
        corners = to_xyxy(arrays.boxes[chosen], of.columns.box_format).astype(np.float64)
    sample = [*corners.T, arrays.scores[chosen], numbers[chosen], priorities[chosen]]
    block = {"count": len(table), "wide": bool(wide), "limit": limit}
    about = {name: np.full(len(chosen), value) for name, value in block.items()}
    return pa.table(dict(zip(_SAMPLE_COLUMNS, sample, strict=True)) | about)
