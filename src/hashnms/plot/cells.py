"""Plot the cell of a box, the grid around it and the boxes in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from hashnms import _settings
from hashnms._settings import BoxFormatName
from hashnms._tensors import Values
from hashnms._validate import Array
from hashnms.boxes import pairwise_iou, to_xyxy
from hashnms.hashing import IoUHash, hash_family, iou_lower_bound
from hashnms.plot import checks
from hashnms.plot.axes import COLORS, counted, darker, new_ax

_GRID_REACH = 12  # cells on each side of the box's own: with more, small cells would be a grey area


def plot_cells(
    boxes: Values,
    *,
    row: int = 0,
    alpha: float = 0.7,
    num_hashes: int = 1,
    box_format: BoxFormatName = "xyxy",
    ax: Axes | None = None,
) -> Axes:
    """Draw the IoUHash cell of a box and the other boxes in it, which HNMS treats as one object.

    The size of a box gives its size class (i, j), which gives the grid of cells for its centre. The plot shows this
    grid, the box's own cell (m, n), filled, and the boxes whose centres are in view. Boxes in the cell are coloured.
    Boxes of the same size class in another cell are dashed. Boxes of another size class, which have another grid, are
    dotted. All boxes of the cell cover the dark rectangle and stay within the light one, which bounds the IoU of any
    two of them from below.

    With several hashes, each has its own shifted grid and colour. A box has the colour of the first hash that puts it
    into the same cell as the given box. Each hash of HNMS keeps only the best box of a cell.

    Args:
        boxes: (4,) or (N, 4), arrays, lists or CPU tensors.
        row: the row of the box whose cell is drawn. It must have an area.
        alpha: in (0, 1), as in `hnms`; a greater alpha means smaller cells.
        num_hashes: the number of hash functions, as in `hnms`, at most 10.
        box_format: "xyxy", "xywh" or "cxcywh".
        ax: the ax to draw on, None for a new figure.

    Returns:
        The ax. Its title has the code (i, j, m, n) of the first hash.

    >>> plot_cells([0, 0, 10, 20], alpha=0.7).get_title().splitlines()[0]
    'alpha 0.7: code (6, 8, 3, 3)'
    """
    given = checks.box_or_boxes_array(boxes)
    corners = to_xyxy(given, box_format).astype(np.float64)
    row = checks.row_value(row, given)
    family = hash_family(alpha, _settings.count_value("num_hashes", num_hashes, most=len(COLORS)))
    checks.box_with_area(given, corners, row)
    codes = [one(given, box_format=box_format) for one in family]
    cells = [_Cell.of(one, code[row].tolist()) for one, code in zip(family, codes, strict=True)]
    met_by = np.full(len(given), -1)  # the first hash that puts a box into the same cell as ours
    for k in reversed(range(len(family))):
        met_by[(codes[k] == codes[k][row]).all(axis=1)] = k
    same_size = (codes[0][:, :2] == codes[0][row, :2]).all(axis=1)

    hull = np.array([[*cell.x.hull, *cell.y.hull] for cell in cells])
    margin_x, margin_y = max(cell.x.step for cell in cells), max(cell.y.step for cell in cells)
    left, right = hull[:, 0].min() - margin_x / 2, hull[:, 1].max() + margin_x / 2
    top, bottom = hull[:, 2].min() - margin_y / 2, hull[:, 3].max() + margin_y / 2
    if ax is None:
        ax = new_ax(right - left, bottom - top, below=1.4)
    checks.instance_value("ax", ax, Axes)
    centers = corners.reshape(-1, 2, 2).mean(axis=1)
    in_view = (centers >= (left, top)).all(axis=1) & (centers <= (right, bottom)).all(axis=1)

    cell_keys, box_keys = [], []
    for k, cell in enumerate(cells):
        cell_keys += _draw_cell(ax, cell, (left, right, top, bottom), COLORS[k], None if len(cells) == 1 else k + 1)
    others = (met_by < 0) & in_view
    dotted, dashed = ({"color": "0.6", "linestyles": style, "linewidths": 0.9} for style in ("dotted", "dashed"))
    groups: list[tuple[Array, str, dict[str, Any]]] = [(others, "in no common cell", dashed)]
    if len(cells) == 1:
        groups = [
            (others & ~same_size, "of another size class", dotted),
            (others & same_size, "of the same size class, in another cell", dashed),
        ]
    for k in reversed(range(len(cells))):
        in_cell = "in the cell" if len(cells) == 1 else f"in its cell of hash {k + 1}"
        groups.append(((met_by == k) & (np.arange(len(given)) != row), in_cell, {"color": darker(COLORS[k])}))
    for rows, what, style in groups:
        name = f"{counted(rows.sum(), 'box')} {what}"
        if rows.any() and (met_by[rows] >= 0).all():
            name += f", IoU >= {pairwise_iou(corners[[row]], corners[rows]).min():.2f}"
        box_keys += _draw_outlines(ax, corners[rows], centers[rows], name, style)
    box_keys += _draw_outlines(ax, corners[[row]], centers[[row]], "the box", {"color": "black", "linewidths": 2.2})
    ax.set(xlim=(left, right), ylim=(bottom, top), aspect="equal")
    code = ", ".join(map(str, codes[0][row].tolist()))
    bound = iou_lower_bound(alpha)
    ax.set_title(f"alpha {alpha:g}: code ({code})\ntwo boxes of a cell have IoU >= {bound:.3f}", fontsize="medium")
    keys = [*box_keys[::-1], *cell_keys[::-1]] if len(cells) == 1 else [*box_keys[::-1], *cell_keys]
    ax.legend(handles=keys, loc="upper center", bbox_to_anchor=(0.5, -0.07), ncols=2, fontsize="small", frameon=False)
    return ax


class _Side(NamedTuple):
    """One dimension of a cell."""

    step: float  # the size of the cells of the centre, delta (Eqn. 4)
    low: float  # the edges of the box's own cell
    high: float
    core: tuple[float, float]  # covered by all boxes of the cell; empty if the first is above the second
    hull: tuple[float, float]  # no box of the cell goes beyond

    @classmethod
    def of(cls, alpha: float, origin: float, shift: float, i: int, m: int) -> _Side:
        size = origin / alpha**i  # Eqn. 1
        step = size * (1 - alpha) / (1 + alpha)
        low, high = (m + shift - 0.5) * step, (m + shift + 0.5) * step
        least, most = size * math.sqrt(alpha) / 2, size / math.sqrt(alpha) / 2  # half the sizes of class i
        return cls(step, low, high, (high - least, low + least), (low - most, high + most))


class _Cell(NamedTuple):
    """A cell of one hash function."""

    x: _Side
    y: _Side

    @classmethod
    def of(cls, function: IoUHash, code: Sequence[int]) -> _Cell:
        alpha, w0, h0, bx, by = astuple(function)
        i, j, m, n = code
        return cls(_Side.of(alpha, w0, bx, i, m), _Side.of(alpha, h0, by, j, n))


def _draw_cell(ax: Axes, cell: _Cell, view: tuple[float, ...], color: Any, number: int | None) -> list[Any]:
    """Draw the grid around a cell, and the cell filled; for a single hash, also the area its boxes cover and reach."""
    x, y = cell
    keys = []
    if number is None:
        for (left, right), (top, bottom), opacity, name in (
            (x.hull, y.hull, 0.08, "no box of the cell goes beyond"),
            (x.core, y.core, 0.14, "covered by all boxes of the cell"),
        ):
            if left < right and top < bottom:
                area = Rectangle((left, top), right - left, bottom - top, fc=color, alpha=opacity, lw=0, label=name)
                keys.append(ax.add_patch(area))
    left, right, top, bottom = view
    edges_x, edges_y = _grid_edges(x, left, right), _grid_edges(y, top, bottom)
    ends_x, ends_y = (max(left, edges_x[0]), min(right, edges_x[-1])), (max(top, edges_y[0]), min(bottom, edges_y[-1]))
    segments = [[(edge, ends_y[0]), (edge, ends_y[1])] for edge in edges_x]
    segments += [[(ends_x[0], edge), (ends_x[1], edge)] for edge in edges_y]
    ax.add_collection(LineCollection(segments, colors=[(*color, 0.35)], linewidths=0.6), autolim=False)
    name = "its cell: contains the centre" if number is None else f"its cell of hash {number}"
    filled = Rectangle((x.low, y.low), x.high - x.low, y.high - y.low, fc=(*color, 0.45), ec=color, label=name)
    return [*keys, ax.add_patch(filled)]


def _grid_edges(side: _Side, least: float, most: float) -> list[float]:
    """The edges of cells in view, not too many of them."""
    before = min(math.ceil((side.low - least) / side.step), _GRID_REACH)
    behind = min(math.ceil((most - side.low) / side.step), _GRID_REACH + 1)
    return [side.low + k * side.step for k in range(-before, behind + 1)]


def _draw_outlines(ax: Axes, corners: Array, centers: Array, name: str, style: dict[str, Any]) -> list[Any]:
    """Draw boxes and their centres; return a legend entry if there are any."""
    if not len(corners):
        return []
    style = {"linewidths": 1.2, **style}
    outlines = corners[:, [[0, 1], [2, 1], [2, 3], [0, 3], [0, 1]]]
    ax.add_collection(LineCollection(outlines, **style), autolim=False)
    ax.plot(*centers.T, ".", color=style["color"], markersize=4)
    line = Line2D(
        [], [], color=style["color"], linewidth=style["linewidths"], linestyle=style.get("linestyles", "solid")
    )
    line.set(label=name, marker=".")
    return [line]
