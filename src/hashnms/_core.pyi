"""The compiled core of hashnms."""

from typing import Any

import numpy
import numpy.typing


class CellTable:
    """The cells of all widths for one alpha and W_0."""

    def __init__(self, alpha: float, origin: float) -> None: ...

    def float32_cells(self) -> tuple[int, numpy.typing.NDArray[numpy.float64], numpy.typing.NDArray[numpy.float64]]:
        """
        The index of the first cell, and the least width and 1/delta of every cell a float32 box can have.
        """

def set_num_threads(num_threads: int) -> None: ...

def get_num_threads() -> int: ...

def hnms(boxes: object, scores: object, labels: object, alpha: object, num_hashes: object, box_format: object) -> numpy.typing.NDArray[numpy.int64] | None:
    """The best box of each cell, for one hash after another."""

def nms(boxes: object, scores: object, labels: object, iou_threshold: object, score_threshold: object, max_output: object, box_format: object, want_suppressor: bool) -> numpy.typing.NDArray[numpy.int64] | tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.int64]] | None:
    """
    The boxes that greedy NMS keeps; with want_suppressor, a pair of these and the suppressor of each box.
    """

def soft_nms(boxes: object, scores: object, labels: object, method: object, sigma: object, iou_threshold: object, min_score: object, max_output: object, box_format: object) -> tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[Any]] | None:
    """
    The boxes that Soft-NMS selects, in this order, and their scores by then.
    """

def top_k(boxes: object, scores: object, labels: object, score_threshold: object, most_of_label: object, most_in_all: object, box_format: object) -> numpy.typing.NDArray[numpy.int64] | None:
    """The boxes with the highest scores, of each label and in all."""

def iou_hash(boxes: object, widths: CellTable, heights: CellTable, bx: float, by: float, box_format: str) -> numpy.typing.NDArray[numpy.int64] | None:
    """The codes i, j, m, n; None if one of them does not fit 64 bits."""

def has_code(boxes: object, widths: CellTable, heights: CellTable, bx: float, by: float, box_format: str, int64: bool) -> numpy.typing.NDArray[numpy.bool_]:
    """Of each box, whether it has a code; with int64, one that int64 holds."""
