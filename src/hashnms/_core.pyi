"""The compiled core of hashnms."""

from typing import Any

import numpy
import numpy.typing


MOST_BOXES: int = 4294967295

MOST_HASHES: int = 1000

LEAST_SIGMA: float = 1e-30

GREATEST_SIGMA: float = 1e+30

SHIFT_LIMIT: float = 9007199254740992.0

def set_num_threads(num_threads: int) -> None: ...

def set_boxes_per_tile(count: int) -> int:
    """
    Set the approximate number of boxes in a tile of NMS, for tests. Returns the previous number.
    """

def set_main_thread(ident: int) -> None: ...

def get_num_threads() -> int: ...

def hash_seed() -> int:
    """
    The random factor of keys in this process: for kernels, and for tests that attack it.
    """

def hnms(boxes: object, scores: object, labels: object, images: object, alpha: object, num_hashes: object, box_format: object) -> numpy.typing.NDArray[numpy.int64] | None:
    """The best box of each cell, for one hash after another."""

def hnms_of_function(boxes: object, scores: object, labels: object, alpha: object, num_hashes: object, function: int, box_format: object) -> numpy.typing.NDArray[numpy.int64] | None:
    """
    The best box of each cell of one function of a family. The number of the function is not checked.
    """

def nms(boxes: object, scores: object, labels: object, images: object, iou_threshold: object, score_threshold: object, max_output: object, metric: object, inclusive: object, box_format: object) -> numpy.typing.NDArray[numpy.int64] | None:
    """The boxes that greedy NMS keeps."""

def nms_suppressor(boxes: object, scores: object, labels: object, images: object, iou_threshold: object, score_threshold: object, max_output: object, metric: object, inclusive: object, box_format: object) -> tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.int64]] | None:
    """The boxes that greedy NMS keeps, and the suppressor of each box."""

def partial_nms(boxes: object, scores: object, labels: object, images: object, open: object, kept: object, iou_threshold: object, metric: object, inclusive: object, box_format: object) -> numpy.typing.NDArray[numpy.int8] | None:
    """
    The certain status of each box in a part of a scene: 0 for suppressed, 1 for kept, 2 for undecided.
    """

def regions(boxes: object, iou_threshold: object, metric: object, inclusive: object, box_format: object) -> numpy.typing.NDArray[numpy.float64] | None:
    """
    The region of each box: if one of two boxes can suppress the other, their regions intersect.
    """

def join(boxes: object, scores: object, labels: object, images: object, iou_threshold: object, score_threshold: object, max_output: object, metric: object, inclusive: object, box_format: object) -> tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.int64]] | None:
    """
    For each box, the first box that overlaps it, kept or not, and the kept box at the end of this chain.
    """

def touched_tiles(boxes: object, iou_threshold: object, metric: object, inclusive: object, box_format: object, across: numpy.typing.NDArray[numpy.float64], down: numpy.typing.NDArray[numpy.float64], row_starts: numpy.typing.NDArray[numpy.int64], most: int) -> tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.int8]] | None:
    """
    The boxes that touch each tile: where each tile starts, their rows, and which copy each is. Only the first boxes, with at most `most` copies, but at least one box. The borders and `most` are not checked.
    """

def clear_bits(bitmap: numpy.typing.NDArray[numpy.uint8], rows: numpy.typing.NDArray[numpy.int64]) -> None:
    """
    Clear the bits of rows; row r is bit r % 8 of byte r / 8. The arguments are not checked.
    """

def batched_nms(boxes: object, scores: object, idxs: object, iou_threshold: object) -> numpy.typing.NDArray[numpy.int64] | None:
    """The boxes that greedy NMS keeps in each group."""

def soft_nms(boxes: object, scores: object, labels: object, images: object, method: object, sigma: object, iou_threshold: object, min_score: object, max_output: object, box_format: object) -> tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[Any]] | None:
    """
    The boxes that Soft-NMS selects, in order, and their scores when selected.
    """

def top_k(boxes: object, scores: object, labels: object, images: object, score_threshold: object, most_of_label: object, most_in_all: object, box_format: object) -> numpy.typing.NDArray[numpy.int64] | None:
    """The boxes with the highest scores, in each label and in all."""

def fuse(boxes: object, scores: object, labels: object, images: object, iou_threshold: object, box_format: object) -> tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.float64]] | None:
    """
    The cluster of each box, and the first row and the fused xyxy box of each cluster.
    """

def grow(boxes: object, firsts: object, others: object, ends: object, threshold: object, metric: object) -> tuple[numpy.typing.NDArray[numpy.float64], numpy.typing.NDArray[numpy.bool_]] | None:
    """
    The first box of each group, grown by the others that overlap it as it is by then; and which these are.
    """

def iou_hash(boxes: object, alpha: object, w0: object, h0: object, bx: object, by: object, box_format: object) -> numpy.typing.NDArray[numpy.int64] | None:
    """The codes i, j, m, n."""

def has_code(boxes: object, alpha: object, w0: object, h0: object, bx: object, by: object, box_format: object) -> numpy.typing.NDArray[numpy.bool_] | None:
    """Whether each box has a code that fits into int64."""

def family_has_code(boxes: object, alpha: object, num_hashes: object, box_format: object) -> numpy.typing.NDArray[numpy.bool_] | None:
    """Whether each box has a code under every function of the family."""

def family_origins(alpha: float, num_hashes: int) -> numpy.typing.NDArray[numpy.float64]:
    """W_0 of each function of a family. The arguments are not checked."""

def float32_cells(alpha: float, origin: float) -> tuple[int, numpy.typing.NDArray[numpy.float64], numpy.typing.NDArray[numpy.float64]]:
    """
    The index of the first cell, and the least width and 1/delta of every cell that a float32 box can have. The arguments are not checked.
    """
