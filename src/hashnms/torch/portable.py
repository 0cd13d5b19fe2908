"""HNMS in plain torch operations, for any device with float64: hash, sort, and keep the first box of each cell.

Memory is O(N). Only two values are copied from the device: the number of kept boxes, and whether all numbers are valid.
The codes are the core's, bit for bit: the same table of cell edges, the same double precision arithmetic in the same
order, each operation rounded by itself. The same code can be exported to ONNX.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from hashnms import _core
from hashnms.hashing import IoUHash

#: The sizes in the table of cells, which include all of float32, and the offsets that fit here. The core handles boxes
#: beyond these limits.
LEAST_SIZE, SIZE_LIMIT, OFFSET_LIMIT = 2.0**-149, 2.0**129, 2.0**31
LARGEST_ALPHA = 0.99
MOST_CELLS = 2**15  # in a table, up to the largest alpha


class Cells(NamedTuple):
    """The cells of all sizes for one alpha and origin (W_0 or H_0), on a device; see core/iou_hash.hpp."""

    edges: Tensor
    inverse_deltas: Tensor
    log_first_edge: float
    cells_per_nat: float


def make_cells(alpha: float, origin: float, device: torch.device) -> Cells:
    """Make the table with the core's numbers."""
    _, edges, inverse_deltas = _core.float32_cells(alpha, origin)
    assert len(edges) <= MOST_CELLS
    return Cells(
        torch.from_numpy(edges).to(device),
        torch.from_numpy(inverse_deltas).to(device),
        math.log(edges[0]),
        -1.0 / math.log(alpha),
    )


#: `make_cells` with a cache.
known_cells = lru_cache(maxsize=64)(make_cells)


class AxisCodes(NamedTuple):
    """Half of the codes of N boxes: i and m, or j and n."""

    index: Tensor  #: (N,) int64, counted from the first cell of the table
    offset: Tensor  #: (N,) int64
    has_size: Tensor  #: (N,) bool, false for boxes without size, which have no cell
    fits: Tensor  #: one bool: whether all numbers are valid and within the limits above


def hash_boxes(boxes: Tensor, function: IoUHash, box_format: str) -> tuple[AxisCodes, AxisCodes]:
    """The code of each box (Alg. 1)."""
    # An exported graph gets its own tables.
    cells_of = make_cells if torch.onnx.is_in_onnx_export() else known_cells
    widths, heights = (cells_of(function.alpha, origin, boxes.device) for origin in (function.w0, function.h0))
    x, y, second_x, second_y = boxes.unbind(1)
    return (
        _hash_axis(x, second_x, widths, function.bx, box_format),
        _hash_axis(y, second_y, heights, function.by, box_format),
    )


def _hash_axis(first: Tensor, second: Tensor, cells: Cells, shift: float, box_format: str) -> AxisCodes:
    size, center = _size_and_center(first.to(torch.float64), second.to(torch.float64), box_format)
    # A logarithm differs in its last bits between devices. It is only an estimate, correct to within one cell; the
    # edges of the table, which are the same everywhere, decide.
    tabulated = torch.where(size > LEAST_SIZE, size, LEAST_SIZE).minimum(operand(SIZE_LIMIT))  # never NaN
    estimate = torch.log(tabulated).sub_(cells.log_first_edge).mul_(cells.cells_per_nat)
    index = estimate.clamp_(0, len(cells.edges) - 2).to(torch.int64)
    index = index - (tabulated < cells.edges.index_select(0, index)).to(torch.int64)
    index = index + (tabulated >= cells.edges.index_select(0, index + 1)).to(torch.int64)
    has_size = size > 0
    inverse_delta = torch.where(has_size, cells.inverse_deltas.index_select(0, index), 0.0)
    offset = (center * inverse_delta).sub_(operand(shift)).add_(0.5).floor_()
    fits = _all_within(size, 0.0, SIZE_LIMIT) & _all_within(offset, -OFFSET_LIMIT, OFFSET_LIMIT)
    if first.dtype == torch.float64:
        fits = fits & (has_size == (size >= LEAST_SIZE)).all()
    return AxisCodes(index, offset.to(torch.int64), has_size, fits)


def _size_and_center(first: Tensor, second: Tensor, box_format: str) -> tuple[Tensor, Tensor]:
    """Size and centre as in core/boxes/box.hpp."""
    if box_format == "xyxy":
        return second - first, 0.5 * first + 0.5 * second
    return second, (first + 0.5 * second if box_format == "xywh" else first)


def corners_are_finite(boxes: Tensor, box_format: str) -> Tensor:
    """One bool: whether the corners of all boxes are finite in their type."""
    first, second = boxes[:, :2], boxes[:, 2:]
    if box_format == "xyxy":
        return boxes.isfinite().all()
    corners = (first + second,) if box_format == "xywh" else (first - second / 2, first + second / 2)
    return torch.cat([first, *corners], dim=1).isfinite().all()


def operand(number: float, dtype: torch.dtype = torch.float64) -> Tensor:
    """A number as a 0-dimensional tensor: the ONNX exporter turns Python floats into float32, even next to doubles."""
    return torch.tensor(number, dtype=dtype)


def _all_within(values: Tensor, least: float, limit: float) -> Tensor:
    """Whether all values are in [least, limit); NaN is not."""
    return ((values >= least) & (values < limit)).all()


def hnms(
    boxes: Tensor, scores: Tensor, labels: Tensor | None, functions: list[IoUHash], box_format: str
) -> tuple[Tensor, Tensor]:
    """The rows that HNMS keeps (Alg. 2 and 3), by decreasing score, and whether all boxes fit: see `AxisCodes`."""
    rows = ranked(scores)
    fits = scores.isfinite().all()
    for function in functions:
        x, y = hash_boxes(boxes.index_select(0, rows), function, box_format)
        some_labels = None if labels is None else labels.index_select(0, rows)
        rows = rows[are_first(_keys(x, y, x.has_size & y.has_size, some_labels))]
        fits = fits & x.fits & y.fits
    return rows, fits


def hnms_mask(
    boxes: Tensor, scores: Tensor, labels: Tensor | None, functions: list[IoUHash], box_format: str
) -> Tensor:
    """For each box, whether HNMS keeps it. No intermediate shape depends on the data, and nothing is checked."""
    rows = ranked(scores)
    boxes = boxes.index_select(0, rows)
    labels = None if labels is None else labels.index_select(0, rows)
    kept = torch.ones_like(rows, dtype=torch.bool)
    for function in functions:
        x, y = hash_boxes(boxes, function, box_format)
        kept = kept & are_first(_keys(x, y, kept & x.has_size & y.has_size, labels))
    return torch.zeros_like(kept).scatter(0, rows, kept)


def _keys(x: AxisCodes, y: AxisCodes, has_cell: Tensor, labels: Tensor | None) -> list[Tensor]:
    """Keys that are equal for boxes of the same cell and for no others; a box without a cell has a key of its own."""
    own = -1 - torch.arange(has_cell.shape[0], device=has_cell.device)
    sizes = torch.where(has_cell, x.index * MOST_CELLS + y.index, own)
    # Offsets are not checked in ONNX, so their limit cannot be relied on there.
    offsets = [x.offset, y.offset] if torch.onnx.is_in_onnx_export() else [x.offset * 2**32 + y.offset]
    return [sizes, *offsets, *([] if labels is None else [labels.to(torch.int64)])]


def are_first(fields: list[Tensor]) -> Tensor:
    """For each place, whether no place before it is equal in all fields."""
    runs = _runs(fields)
    return torch.zeros_like(runs.starts).scatter(0, runs.order, runs.starts)


def are_among_first(fields: list[Tensor], most: int) -> Tensor:
    """For each place, whether fewer than `most` places before it are equal in all fields."""
    runs = _runs(fields)
    rank = torch.arange(runs.order.shape[0], device=runs.order.device)
    rank_in_run = rank - rank[runs.starts].index_select(0, runs.numbers())
    return torch.zeros_like(runs.starts).scatter(0, runs.order, rank_in_run < most)


def numbered(fields: list[Tensor]) -> Tensor:
    """A number for each place; two places have the same number exactly if they are equal in all fields."""
    runs = _runs(fields)
    return torch.zeros_like(runs.order).scatter(0, runs.order, runs.numbers())


class _Runs(NamedTuple):
    """Places in an order where equal ones are adjacent, the lower one first."""

    order: Tensor
    starts: Tensor  #: for each place in this order, whether it differs from the one before it

    def numbers(self) -> Tensor:
        """For each place in this order, the number of its run."""
        return self.starts.to(torch.int64).cumsum(0) - 1


def _runs(fields: list[Tensor]) -> _Runs:
    order = sorting(fields[0])
    for field in fields[1:]:
        order = order.index_select(0, sorting(field.index_select(0, order)))
    starts = torch.arange(order.shape[0], device=order.device) == 0
    for field in fields:
        in_order = field.index_select(0, order)
        before = torch.nn.functional.pad(in_order, (1, 0))[:-1]
        starts = starts | (in_order != before)
    return _Runs(order, starts)


def ranked(scores: Tensor) -> Tensor:
    """The rows by decreasing score, ties to the lower row."""
    # ONNX cannot read the bits of floats.
    return sorting(scores if torch.onnx.is_in_onnx_export() else ordered_bits(scores), descending=True)


def sorting(values: Tensor, *, descending: bool = False) -> Tensor:
    """The rows by value, ties to the lower row."""
    # In ONNX a sort is TopK, which gives ties to the lower row by definition, and has no option for it.
    stable = {} if torch.onnx.is_in_onnx_export() else {"stable": True}
    return torch.sort(values, **stable, descending=descending).indices


def ordered_bits(scores: Tensor) -> Tensor:
    """float64 as int64 and other floats as int32, in the same order: integers sort faster, and atomics take them."""
    signed, bits = (torch.int64, 63) if scores.dtype == torch.float64 else (torch.int32, 31)
    floats = scores if scores.dtype == torch.float64 else scores.float()
    pattern = (floats + 0.0).view(signed)  # -0 becomes 0, which is equal to it
    return pattern ^ ((pattern >> bits) & ((1 << bits) - 1))
