"""Tiles of a scene with about as many boxes each: columns, and in each column rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_HEIGHTS = 4096  #: borders of rows lie at so many places


@dataclass(frozen=True)
class Tiles:
    """Where the borders are. Tiles on the rim have no outer border."""

    columns: NDArray[np.float64]  #: x of the borders between columns
    heights: NDArray[np.float64]  #: y of all places where a border between rows may be
    rows: NDArray[np.int32]  #: (columns, heights + 1): the tile of each column between two such places

    @property
    def count(self) -> int:
        """How many tiles there are."""
        return int(self.rows[-1, -1]) + 1

    @classmethod
    def of(cls, centers: NDArray[np.float64], count: int) -> Tiles:
        """About so many tiles for boxes of which these are the centres of a sample."""
        across = max(1, round(count**0.5))
        down = max(1, round(count / across))
        columns = _borders(centers[:, 0], across)
        heights = _borders(centers[:, 1], min(_HEIGHTS, max(2, len(centers))))
        column = np.searchsorted(columns, centers[:, 0], "right")
        height = np.searchsorted(heights, centers[:, 1], "right")
        inside = np.zeros((len(columns) + 1, len(heights) + 1))
        np.add.at(inside, (column, height), 1)
        before = inside.cumsum(axis=1) - inside
        rows = (before * down / np.maximum(inside.sum(axis=1, keepdims=True), 1)).astype(np.int32)
        firsts = np.concatenate([[0], np.cumsum(rows[:-1, -1] + 1)]).astype(np.int32)
        return cls(columns, heights, rows + firsts[:, None])

    def touched(self, regions: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Every tile that a region touches: the number of the region, and the tile."""
        first = np.searchsorted(self.columns, regions[:, 0], "right")
        last = np.searchsorted(self.columns, regions[:, 2], "right")
        numbers, column = _spread(first, last)
        low = np.searchsorted(self.heights, regions[:, 1], "right")[numbers]
        high = np.searchsorted(self.heights, regions[:, 3], "right")[numbers]
        again, tile = _spread(self.rows[column, low], self.rows[column, high])
        return numbers[again], tile.astype(np.int32)


def _borders(values: NDArray[np.float64], parts: int) -> NDArray[np.float64]:
    """Between parts with as many of the values each; fewer where values are equal."""
    if not len(values):
        return np.zeros(0)
    return np.unique(np.quantile(values, np.arange(1, parts) / parts))


def _spread(first: NDArray[np.integer], last: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All whole numbers from first to last, of each pair, and the number of the pair."""
    lengths = (last - first + 1).astype(np.int64)
    pairs = np.repeat(np.arange(len(first)), lengths)
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    return pairs, first[pairs].astype(np.int64) + np.arange(len(pairs)) - starts
