"""The compiled core of hashnms."""

from collections.abc import Sequence
import enum
from typing import Annotated, overload

import numpy
from numpy.typing import NDArray


class BoxFormat(enum.Enum):
    """What the four numbers of a box are."""

    xyxy = 0

    xywh = 1

    cxcywh = 2

class CellTable:
    """The cells of all widths for one alpha and W_0."""

    def __init__(self, alpha: float, origin: float) -> None: ...

    def float32_cells(self) -> tuple[int, NDArray[numpy.float64], NDArray[numpy.float64]]:
        """
        The index of the first cell, and the least width and 1/delta of every cell a float32 box can have.
        """

class HashFamily:
    """The hash functions of Multi-HNMS, one for each W_0."""

    def __init__(self, alpha: float, origins: Sequence[float]) -> None: ...

@overload
def hnms(boxes: Annotated[NDArray[numpy.float32], dict(shape=(None, 4), order='C', device='cpu', writable=False)], scores: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], labels: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, family: HashFamily, box_format: BoxFormat, num_threads: int) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))] | None: ...

@overload
def hnms(boxes: Annotated[NDArray[numpy.float32], dict(shape=(None, 4), order='C', device='cpu', writable=False)], scores: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], labels: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, family: HashFamily, box_format: BoxFormat, num_threads: int) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))] | None: ...

@overload
def hnms(boxes: Annotated[NDArray[numpy.float64], dict(shape=(None, 4), order='C', device='cpu', writable=False)], scores: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], labels: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, family: HashFamily, box_format: BoxFormat, num_threads: int) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))] | None: ...

@overload
def hnms(boxes: Annotated[NDArray[numpy.float64], dict(shape=(None, 4), order='C', device='cpu', writable=False)], scores: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], labels: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, family: HashFamily, box_format: BoxFormat, num_threads: int) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))] | None:
    """
    The best box of each cell, for one hash after another; None if a number is not legal.
    """

@overload
def nms(boxes: Annotated[NDArray[numpy.float32], dict(shape=(None, 4), order='C', device='cpu', writable=False)], scores: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], labels: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, iou_threshold: float, score_threshold: float, max_output: int, want_suppressor: bool, box_format: BoxFormat) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))] | None] | None: ...

@overload
def nms(boxes: Annotated[NDArray[numpy.float32], dict(shape=(None, 4), order='C', device='cpu', writable=False)], scores: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], labels: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, iou_threshold: float, score_threshold: float, max_output: int, want_suppressor: bool, box_format: BoxFormat) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))] | None] | None: ...

@overload
def nms(boxes: Annotated[NDArray[numpy.float64], dict(shape=(None, 4), order='C', device='cpu', writable=False)], scores: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], labels: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, iou_threshold: float, score_threshold: float, max_output: int, want_suppressor: bool, box_format: BoxFormat) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))] | None] | None: ...

@overload
def nms(boxes: Annotated[NDArray[numpy.float64], dict(shape=(None, 4), order='C', device='cpu', writable=False)], scores: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], labels: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, iou_threshold: float, score_threshold: float, max_output: int, want_suppressor: bool, box_format: BoxFormat) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))] | None] | None:
    """
    The boxes that greedy NMS keeps, and of each box its suppressor if wanted; None if a number is not legal.
    """

@overload
def iou_hash(boxes: Annotated[NDArray[numpy.float32], dict(shape=(None, 4), order='C', device='cpu', writable=False)], widths: CellTable, heights: CellTable, bx: float, by: float, box_format: BoxFormat) -> Annotated[NDArray[numpy.int64], dict(shape=(None, None))] | None: ...

@overload
def iou_hash(boxes: Annotated[NDArray[numpy.float64], dict(shape=(None, 4), order='C', device='cpu', writable=False)], widths: CellTable, heights: CellTable, bx: float, by: float, box_format: BoxFormat) -> Annotated[NDArray[numpy.int64], dict(shape=(None, None))] | None:
    """The codes i, j, m, n; None if one of them does not fit 64 bits."""

@overload
def has_code(boxes: Annotated[NDArray[numpy.float32], dict(shape=(None, 4), order='C', device='cpu', writable=False)], widths: CellTable, heights: CellTable, bx: float, by: float, box_format: BoxFormat, int64: bool) -> Annotated[NDArray[numpy.bool_], dict(shape=(None,))]: ...

@overload
def has_code(boxes: Annotated[NDArray[numpy.float64], dict(shape=(None, 4), order='C', device='cpu', writable=False)], widths: CellTable, heights: CellTable, bx: float, by: float, box_format: BoxFormat, int64: bool) -> Annotated[NDArray[numpy.bool_], dict(shape=(None,))]:
    """Of each box, whether it has a code; with int64, one that int64 holds."""
