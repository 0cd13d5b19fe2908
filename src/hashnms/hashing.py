"""IoUHash (Alg. 1), its family of shifted functions, and the lower bound of the IoU of two boxes in one cell."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashnms import _core, _settings
from hashnms._calls import IOU_HASH
from hashnms._settings import BoxFormatName
from hashnms._tensors import AnyTensor, Tensor, Values


@dataclass(frozen=True)
class IoUHash:
    """The parameters of one hash function: `IoUHash(...)(boxes)` is `iou_hash(boxes, ...)`."""

    alpha: float
    w0: float = 1.0
    h0: float = 1.0
    bx: float = 0.0
    by: float = 0.0

    @overload
    def __call__(self, boxes: AnyTensor[Tensor], *, box_format: BoxFormatName = ...) -> Tensor: ...
    @overload
    def __call__(self, boxes: ArrayLike, *, box_format: BoxFormatName = ...) -> NDArray[np.int64]: ...
    def __call__(self, boxes: Any, *, box_format: BoxFormatName = "xyxy") -> Any:
        """`iou_hash` with these parameters."""
        return iou_hash(boxes, **asdict(self), box_format=box_format)


@overload
def iou_hash(
    boxes: AnyTensor[Tensor],
    *,
    alpha: float,
    w0: float = ...,
    h0: float = ...,
    bx: float = ...,
    by: float = ...,
    box_format: BoxFormatName = ...,
) -> Tensor: ...
@overload
def iou_hash(
    boxes: ArrayLike,
    *,
    alpha: float,
    w0: float = ...,
    h0: float = ...,
    bx: float = ...,
    by: float = ...,
    box_format: BoxFormatName = ...,
) -> NDArray[np.int64]: ...
def iou_hash(
    boxes: Values,
    *,
    alpha: float,
    w0: float = 1.0,
    h0: float = 1.0,
    bx: float = 0.0,
    by: float = 0.0,
    box_format: BoxFormatName = "xyxy",
) -> Any:
    """Hash each box to its code (i, j, m, n). Boxes with the same code have an IoU >= `iou_lower_bound(alpha)`.

    The width falls into cell i, whose centre is W_i = w0 / alpha**i, and the height likewise into cell j. The x of the
    box's centre falls into cell m, which is (1 - alpha) / (1 + alpha) times W_i wide, and the y likewise into cell n.
    Cells are half-open: a value on an edge belongs to the upper cell. The same box has the same code on every machine
    and backend.

    Args:
        boxes: (N, 4), see `hnms` for the types.
        alpha: in (0, 1), the IoU of two boxes at the centres of adjacent cells. A greater alpha means smaller cells.
        w0: centre of width cell 0, above 0.
        h0: centre of height cell 0, above 0.
        bx: shift of the x cells, in cells.
        by: shift of the y cells, in cells.
        box_format: "xyxy", "xywh" or "cxcywh".

    Returns:
        (N, 4) int64, the columns i, j, m, n. A box without width has no cell: its i is the least int64 and its m is 0.
        The same holds for j and n of a box without height.

    Raises:
        ValueError: for invalid numbers, and where m or n does not fit into 64 bits (a tiny box far from the origin).

    >>> iou_hash([[0.0, 0.0, 10.0, 20.0]], alpha=0.7)
    array([[6, 8, 3, 3]])
    """
    if type(boxes) is np.ndarray:
        codes = _core.iou_hash(boxes, alpha, w0, h0, bx, by, box_format)
        if codes is not None:
            return codes
    return IOU_HASH.answer(boxes, alpha, w0, h0, bx, by, box_format)


def hash_family(alpha: float, num_hashes: int) -> list[IoUHash]:
    """The hash functions of Multi-HNMS: function k of K is shifted by k/K of a cell in every dimension (Eqn. 16).

    Args:
        alpha: in (0, 1), as in `hnms`.
        num_hashes: the number of hash functions, K in the paper, from 1 to 1000.

    Returns:
        A list of `IoUHash`, one for each function.

    >>> hash_family(0.25, 2)
    [IoUHash(alpha=0.25, w0=1.0, h0=1.0, bx=0.0, by=0.0), IoUHash(alpha=0.25, w0=2.0, h0=2.0, bx=0.5, by=0.5)]
    """
    alpha = _settings.alpha_value(alpha)
    count = _settings.num_hashes_value(num_hashes)
    origins = _core.family_origins(alpha, count).tolist()
    return [IoUHash(alpha, w0, w0, k / count, k / count) for k, w0 in enumerate(origins)]


def iou_lower_bound(alpha: float) -> float:
    """The least IoU that two boxes with the same code can have (Appendix, Alg. 4).

    It is attained at a corner of the cell, so trying all 2**8 corners finds it. It grows with alpha. It is 0 where two
    boxes of a cell need not overlap at all (alpha below about 0.296, where Eqn. 14 does not hold).

    Args:
        alpha: in (0, 1), as in `hnms`.

    >>> round(iou_lower_bound(0.73), 4)
    0.5015
    """
    alpha = _settings.alpha_value(alpha)
    delta = (1.0 - alpha) / (1.0 + alpha)
    least = math.sqrt(alpha)
    if not delta < least:  # Eqn. 14
        return 0.0
    # Along one axis, with the cell's centre at 0 and its size 1: the sizes of the two boxes, and how far they overlap.
    corner = np.array(list(product((-0.5, 0.5), repeat=4)))
    size = np.where(corner[:, :2] < 0, least, 1.0 / least)
    center = delta * corner[:, 2:]
    overlap = (center + size / 2).min(axis=1) - (center - size / 2).max(axis=1)
    intersection = overlap[:, None] * overlap[None, :]
    areas = (size[:, None, :] * size[None, :, :]).sum(axis=2)
    return float((intersection / (areas - intersection)).min())


def alpha_for_bound(bound: float) -> float:
    """The smallest alpha whose `iou_lower_bound` is at least `bound`.

    Args:
        bound: the IoU to guarantee, in (0, 1).

    >>> round(alpha_for_bound(0.5), 4)
    0.7291
    """
    bound = _settings.bound_value(bound)
    below, enough = 0.0, 1.0 - 2.0**-53
    if iou_lower_bound(enough) < bound:
        raise ValueError(
            f"bound must be at most {iou_lower_bound(enough)}, the bound of the largest alpha, got {bound}"
        )
    while True:
        middle = (below + enough) / 2
        if middle in (below, enough):
            return enough
        below, enough = (below, middle) if iou_lower_bound(middle) >= bound else (middle, enough)
