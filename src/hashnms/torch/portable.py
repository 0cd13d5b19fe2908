"""HNMS in plain torch operations, for any device that has float64: hash, sort, and keep the first of each cell.

Nothing leaves the device and nothing is N x N. The codes are the core's, bit for bit: the same table of cell edges,
the same double precision arithmetic in the same order, each operation rounded by itself. The same code can be exported
to ONNX.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from hashnms.hashing import IoUHash, cell_table

#: The sizes that the table of cells holds, which all of float32 are, and the offsets that are told apart here. Boxes
#: beyond are for the core.
LEAST_SIZE, SIZE_LIMIT, OFFSET_LIMIT = 2.0**-149, 2.0**129, 2.0**50
LARGEST_ALPHA = 0.99
_MOST_CELLS = 2**15  # a table has fewer, up to the largest alpha


class Cells(NamedTuple):
    """The cells of a hash function on a device: those of widths, then those of heights; see core/iou_hash.hpp."""

    edges: Tensor
    inverse_deltas: Tensor
    #: (2, 1), of widths and heights: where the cells start, the logarithm of the first edge, the shift in cells
    start: Tensor
    log_first_edge: Tensor
    shift: Tensor
    count: int  #: of widths, and of heights
    cells_per_nat: float


def make_cells(function: IoUHash, device: torch.device) -> Cells:
    """The table, with the numbers of the core."""
    tables = [cell_table(function.alpha, origin).float32_cells()[1:] for origin in (function.w0, function.h0)]
    count = min(len(edges) for edges, _ in tables)  # those of the last cells are beyond all sizes
    edges, inverse_deltas = (np.concatenate([table[k][:count] for table in tables]) for k in (0, 1))
    pairs = ((0, count), (math.log(edges[0]), math.log(edges[count])), (function.bx, function.by))
    columns = (torch.tensor(pair, device=device).reshape(2, 1) for pair in pairs)
    start, log_first_edge, shift = (column.to(torch.float64) for column in columns)
    return Cells(
        torch.from_numpy(edges).to(device),
        torch.from_numpy(inverse_deltas).to(device),
        start.to(torch.int64),
        log_first_edge,
        shift,
        count,
        -1.0 / math.log(function.alpha),
    )


#: The same, made once and kept.
known_cells = lru_cache(maxsize=64)(make_cells)


class Codes(NamedTuple):
    """The codes of N boxes, each row of N numbers that only `has_cell` says the use of."""

    index: Tensor  #: (2, N) int64, i and j, counted from the first cells of the table
    offset: Tensor  #: (2, N) int64, m and n
    has_cell: Tensor  #: (N,) bool, false for boxes without area
    fits: Tensor  #: one bool: whether all numbers are legal and within what the table holds


def hash_boxes(boxes: Tensor, function: IoUHash, box_format: str) -> Codes:
    """The code of each box (Alg. 1)."""
    # A graph that is exported gets a table of its own.
    cells = (make_cells if torch.onnx.is_in_onnx_export() else known_cells)(function, boxes.device)
    size, center = _sizes_and_centers(boxes, box_format)
    # A logarithm differs in its last bits between devices: as an estimate it is right to within one cell, and the
    # edges of the table, which are the same everywhere, decide.
    tabulated = size.clamp(LEAST_SIZE, SIZE_LIMIT)
    estimate = ((torch.log(tabulated) - cells.log_first_edge) * cells.cells_per_nat).to(torch.int64)
    estimate = estimate.clamp(0, cells.count - 2) + cells.start
    above = (tabulated >= cells.edges[estimate + 1]).to(torch.int64)
    below = (tabulated < cells.edges[estimate]).to(torch.int64)
    place = estimate + above - below
    has_size = size > 0
    inverse_delta = torch.where(has_size, cells.inverse_deltas[place], 0.0)
    offset = torch.floor(center * inverse_delta - cells.shift + 0.5)
    fits = _all_within(size, 0.0, SIZE_LIMIT) & _all_within(offset, -OFFSET_LIMIT, OFFSET_LIMIT)
    if boxes.dtype == torch.float64:
        fits = fits & (has_size == (size >= LEAST_SIZE)).all()
    return Codes(place - cells.start, offset.to(torch.int64), has_size.all(0), fits)


def _sizes_and_centers(boxes: Tensor, box_format: str) -> tuple[Tensor, Tensor]:
    """(2, N) each, in the words of core/box.hpp."""
    columns = boxes.to(torch.float64).T.contiguous()
    first, second = columns[:2], columns[2:]
    if box_format == "xyxy":
        return second - first, 0.5 * first + 0.5 * second
    return second, (first + 0.5 * second if box_format == "xywh" else first)


def _all_within(values: Tensor, least: float, limit: float) -> Tensor:
    """Whether all are in [least, limit); NaN is not."""
    return ((values >= least) & (values < limit)).all()


def hnms(
    boxes: Tensor, scores: Tensor, labels: Tensor | None, functions: list[IoUHash], box_format: str
) -> tuple[Tensor, Tensor]:
    """The rows that HNMS keeps (Alg. 2 and 3), by decreasing score, and whether that is right: see `Codes.fits`."""
    rows = ranked(scores)
    boxes = boxes[rows]
    labels = None if labels is None else labels[rows]
    fits = scores.isfinite().all()
    for function in functions:
        codes = hash_boxes(boxes, function, box_format)
        chosen = first_of_cells([codes.index[0] * _MOST_CELLS + codes.index[1], *codes.offset], labels, codes.has_cell)
        rows, boxes = rows[chosen], boxes[chosen]
        labels = None if labels is None else labels[chosen]
        fits = fits & codes.fits
    return rows, fits


def ranked(scores: Tensor) -> Tensor:
    """The rows by decreasing score, ties to the lower one."""
    # ONNX has no bits of floats.
    return sorting(scores if torch.onnx.is_in_onnx_export() else ordered_bits(scores), descending=True)


def sorting(values: Tensor, *, descending: bool = False) -> Tensor:
    """The rows by value, ties to the lower one."""
    # In ONNX a sort is TopK, whose ties go to the lower row by its definition; there is no other to ask for.
    stable = {} if torch.onnx.is_in_onnx_export() else {"stable": True}
    return torch.sort(values, **stable, descending=descending).indices


def first_of_cells(code: list[Tensor], labels: Tensor | None, has_cell: Tensor) -> Tensor:
    """The rows that are the first of their code and label, or without a cell, in their order."""
    place = torch.arange(has_cell.shape[0], device=has_cell.device)
    own = -1 - place  # a code that no other box has
    fields = [torch.where(has_cell, code[0], own), *code[1:], *([] if labels is None else [labels])]
    order = sorting(fields[0])
    for field in fields[1:]:
        order = order[sorting(field[order])]
    first = place == 0
    before = (place - 1).clamp(min=0)
    for field in fields:
        in_order = field[order]
        first = first | (in_order != in_order[before])
    return torch.zeros_like(first).scatter(0, order, first).nonzero()[:, 0]


def ordered_bits(scores: Tensor) -> Tensor:
    """float64 as int64 and other floats as int32 in the same order; they sort sooner, and atomics take them."""
    signed, bits = (torch.int64, 63) if scores.dtype == torch.float64 else (torch.int32, 31)
    floats = scores if scores.dtype == torch.float64 else scores.float()
    pattern = (floats + 0.0).view(signed)  # -0 becomes 0, which it is equal to
    return pattern ^ ((pattern >> bits) & ((1 << bits) - 1))
