"""HNMS as Triton kernels, for CUDA and ROCm: hash every box, then find the best box of each cell.

The codes are the core's, bit for bit: the arithmetic is that of `portable.py`, with fusion off. A cell is a slot of an
open-addressing table. The first box to reach a slot owns it, and its key identifies the cell, so two cells never share
a slot. Each box has a distinct claim, and an atomic maximum of the claims decides which box wins the cell. So the
result does not depend on the order of threads.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from hashnms import _core
from hashnms.hashing import IoUHash
from hashnms.torch.portable import MOST_CELLS, OFFSET_LIMIT, known_cells, ordered_bits, ranked

#: A fused a * b + c is rounded once instead of twice, which could put a box into another cell.
OPTIONS = {"enable_fp_fusion": False}
BLOCK = 256
IDLE_SLOTS = 1024  # slots for boxes without a cell, spread out, while the rest of their block works
#: Keys are multiplied by this random int64, so that no input can be crafted to collide.
SEED = _core.hash_seed() - 2**64 * (_core.hash_seed() >= 2**63)
_OFFSET_LIMIT, _MOST_CELLS = tl.constexpr(OFFSET_LIMIT), tl.constexpr(MOST_CELLS)


@triton.jit
def hash_axis(first, second, edges, inverse_deltas, last_cell, parameters, BOX_FORMAT: tl.constexpr):
    """Index and offset along one axis, the size, and whether it fits: `_hash_axis` in portable.py."""
    if BOX_FORMAT == "xyxy":
        size = second - first
        center = 0.5 * first + 0.5 * second
    else:
        size = second
        center = first + 0.5 * second if BOX_FORMAT == "xywh" else first
    least, greatest = tl.load(edges), tl.load(edges + last_cell)
    tabulated = tl.where(size > least, size, least)  # never NaN
    tabulated = tl.where(tabulated < greatest, tabulated, greatest)
    estimate = (tl.log(tabulated) - tl.load(parameters)) * tl.load(parameters + 1)
    index = tl.minimum(tl.maximum(estimate.to(tl.int64), 0), last_cell - 1)
    index -= (tabulated < tl.load(edges + index)).to(tl.int64)
    index += (tabulated >= tl.load(edges + index + 1)).to(tl.int64)
    inverse_delta = tl.where(size > 0, tl.load(inverse_deltas + index), 0.0)
    offset = tl.floor(center * inverse_delta - tl.load(parameters + 2) + 0.5)
    fits = ((size == tabulated) | (size == 0)) & (offset >= -_OFFSET_LIMIT) & (offset < _OFFSET_LIMIT)
    return index, tl.where(fits, offset, 0.0).to(tl.int64), size, fits


@triton.jit
def hash_kernel(
    boxes,
    width_edges,
    width_inverse_deltas,
    last_width,
    width_parameters,
    height_edges,
    height_inverse_deltas,
    last_height,
    height_parameters,
    sizes,
    places,
    fits,
    count,
    BOX_FORMAT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write the two words of each code: (i, j), -1 for a box without area, and (m, n). Clears `fits` if not all fit."""
    box = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    exists = box < count
    x = tl.load(boxes + 4 * box, mask=exists, other=0.0).to(tl.float64)
    y = tl.load(boxes + 4 * box + 1, mask=exists, other=0.0).to(tl.float64)
    second_x = tl.load(boxes + 4 * box + 2, mask=exists, other=0.0).to(tl.float64)
    second_y = tl.load(boxes + 4 * box + 3, mask=exists, other=0.0).to(tl.float64)
    i, m, width, x_fits = hash_axis(
        x, second_x, width_edges, width_inverse_deltas, last_width, width_parameters, BOX_FORMAT
    )
    j, n, height, y_fits = hash_axis(
        y, second_y, height_edges, height_inverse_deltas, last_height, height_parameters, BOX_FORMAT
    )
    tl.store(sizes + box, tl.where((width > 0) & (height > 0), i * _MOST_CELLS + j, -1), mask=exists)
    tl.store(places + box, m * 2**32 + n, mask=exists)
    tl.atomic_min(fits, tl.min((x_fits & y_fits).to(tl.int32)))


@triton.jit
def claim_kernel(
    sizes,
    places,
    labels,
    claims,
    owners,
    best,
    slots,
    count,
    last_slot,
    seed,
    HAS_LABELS: tl.constexpr,
    IDLE_SLOTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Find the slot of each box's cell, and raise the best claim of the slot to that of the box."""
    box = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    exists = box < count
    size = tl.load(sizes + box, mask=exists, other=-1)
    place = tl.load(places + box, mask=exists, other=0)
    claim = tl.load(claims + box, mask=exists, other=0)
    key = (size ^ (place >> 29) ^ place) * seed
    if HAS_LABELS:
        label = tl.load(labels + box, mask=exists, other=0)
        key = (key ^ (key >> 32) ^ label) * seed
    has_cell = size >= 0
    slot = tl.where(has_cell, (key >> 32) & last_slot, last_slot + 1 + box % IDLE_SLOTS)
    nobody = tl.full((BLOCK,), -1, tl.int32)
    searching = has_cell
    while tl.max(searching.to(tl.int32)) > 0:
        # A box that has found its slot tries it again: the owner does not change.
        owner = tl.atomic_cas(owners + slot, nobody, box)
        owner = tl.where(owner == -1, box, owner)
        is_same = (tl.load(sizes + owner) == size) & (tl.load(places + owner) == place)
        if HAS_LABELS:
            is_same &= tl.load(labels + owner) == label
        searching &= is_same == 0
        slot = tl.where(searching, (slot + 1) & last_slot, slot)
    tl.atomic_max(best + slot, claim, mask=has_cell)
    tl.store(slots + box, slot, mask=exists)


def hnms(
    boxes: Tensor, scores: Tensor, labels: Tensor | None, functions: list[IoUHash], box_format: str
) -> tuple[Tensor, Tensor]:
    """`portable.hnms` by kernels, for at least one box."""
    rows = torch.arange(len(boxes), device=boxes.device)
    claims = claims_of(scores)
    fits = scores.isfinite().all()
    for function in functions:
        won, all_fit = _winners(boxes, labels, claims, function, box_format)
        rows, boxes, claims = rows[won], boxes[won], claims[won]
        labels = None if labels is None else labels[won]
        fits = fits & all_fit
    return rows[torch.sort(claims, descending=True).indices], fits


def claims_of(scores: Tensor) -> Tensor:
    """A distinct int64 for each row, in the order of the scores, ties to the lower row."""
    row = torch.arange(len(scores), device=scores.device)
    if scores.dtype == torch.float32:
        return (ordered_bits(scores).to(torch.int64) << 32) | (2**32 - 1 - row)
    return torch.empty_like(row).scatter_(0, ranked(scores), row.flip(0))


def _winners(
    boxes: Tensor, labels: Tensor | None, claims: Tensor, function: IoUHash, box_format: str
) -> tuple[Tensor, Tensor]:
    """For each box, whether it has no cell or the best claim of its cell; and whether all numbers fit."""
    count = len(boxes)
    device = boxes.device
    tables = []
    for origin, shift in ((function.w0, function.bx), (function.h0, function.by)):
        cells = known_cells(function.alpha, origin, device)
        parameters = (cells.log_first_edge, cells.cells_per_nat, shift)
        parameters = torch.tensor(parameters, dtype=torch.float64, device=device)
        tables += [cells.edges, cells.inverse_deltas, len(cells.edges) - 1, parameters]
    sizes, places = torch.empty_like(claims), torch.empty_like(claims)
    fits = torch.ones(1, dtype=torch.int32, device=device)
    grid = (triton.cdiv(count, BLOCK),)
    hash_kernel[grid](boxes, *tables, sizes, places, fits, count, BOX_FORMAT=box_format, BLOCK=BLOCK, **OPTIONS)
    num_slots = triton.next_power_of_2(2 * count)
    owners = torch.full((num_slots + IDLE_SLOTS,), -1, dtype=torch.int32, device=device)
    owners[num_slots:] = 0
    best = torch.full_like(owners, torch.iinfo(torch.int64).min, dtype=torch.int64)
    slots = torch.empty_like(claims)
    claim_kernel[grid](
        sizes,
        places,
        sizes if labels is None else labels,
        claims,
        owners,
        best,
        slots,
        count,
        num_slots - 1,
        SEED,
        HAS_LABELS=labels is not None,
        IDLE_SLOTS=IDLE_SLOTS,
        BLOCK=BLOCK,
        **OPTIONS,
    )
    return (sizes < 0) | (best[slots] == claims), fits[0] > 0
