"""Pictures of boxes, of what suppression keeps, of hash cells and of methods (`pip install "hashnms[plot]"`).

Every function draws on the `ax` it is given, or on that of a new figure, and returns it. `ax.figure.savefig("out.png")`
saves it; in a notebook with `%matplotlib inline`, `ax.figure` at the end of a cell shows it. Pyplot is not touched and
no setting is changed: a new figure is a plain `matplotlib.figure.Figure`, gone when nobody holds it. Where pyplot is to
show a picture, give it an ax: `plot_boxes(boxes, ax=plt.gca())`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from itertools import product
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashnms import _validate, _validate_plot
from hashnms._tensors import Values
from hashnms._validate import BoxFormatName
from hashnms.boxes import pairwise_iou, to_xyxy
from hashnms.hashing import IoUHash, hash_family, iou_lower_bound
from hashnms.pipeline import Suppression

try:
    import matplotlib as mpl
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection, PolyCollection
    from matplotlib.colors import is_color_like, to_rgb
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle
    from matplotlib.ticker import LogLocator, NullFormatter
    from PIL import Image
except ImportError as error:
    raise ImportError('hashnms.plot needs matplotlib: pip install "hashnms[plot]"') from error

__all__ = ["plot_before_after", "plot_bound", "plot_boxes", "plot_cells", "plot_tradeoff"]

#: The colour of label k is number k % 10, so that it is the same in every picture.
COLORS = tuple(mpl.colormaps["tab10"].colors)

#: More boxes than this are an image in SVG and PDF files, which would be of many megabytes otherwise.
MOST_VECTORS = 5_000

_FAINTEST = 0.1  # the opacity of the lowest score
_WIDTH = 8.0  # of a new figure, in inches
_GRID_REACH = 12  # cells on either side of a box's own: beyond, small cells would be a grey area

_Array = NDArray[Any]


def plot_boxes(
    boxes: Values,
    scores: Values | None = None,
    labels: Values | None = None,
    *,
    image: Any = None,
    keep: Values | None = None,
    label_names: Mapping[int, str] | Sequence[str] | None = None,
    color: Any = None,
    linewidth: float | None = None,
    box_format: BoxFormatName = "xyxy",
    ax: Axes | None = None,
) -> Axes:
    """Draw boxes, on an image if there is one: coloured by label, the fainter the lower the score, the best on top.

    All boxes are one collection, the last of `ax.collections`: 45,000 take less than a second, saved. The y axis
    points down and x and y have one scale. The limits are those of the image, without one those of all boxes, so that
    pictures with different `keep` are alike. An ax that holds something already keeps its limits: draw detections, then
    the objects over them.

    Args:
        boxes: (N, 4), arrays, lists or CPU tensors, in pixels.
        scores: (N,) or None. Opacity is the score where all are in [0, 1], else from the lowest to the highest.
        labels: (N,) whole numbers or None: all in one colour. Label k has colour k % 10 of ten.
        image: what is drawn beneath: an array (H, W), (H, W, 3) or (H, W, 4), of integers in [0, 255] or floats in
            [0, 1], a PIL image, the path of one, or None. Pixel (0, 0) covers x and y from 0 to 1.
        keep: (M,) indices of the boxes to show, None for all.
        label_names: label -> name, or a list of names: then a legend lists the labels that are shown.
        color: one colour for all boxes, of any form matplotlib knows, in place of that of the label.
        linewidth: in points; None: 1.5, and thinner from 500 boxes on.
        box_format: "xyxy", "xywh" or "cxcywh".
        ax: where to draw, None for a new figure.

    Returns:
        The ax.

    >>> ax = plot_boxes([[0, 0, 10, 10], [5, 5, 20, 12]], [0.9, 0.5], labels=[0, 1])
    >>> len(ax.collections[-1].get_paths()), bool(ax.get_xlim()[1] > 20)
    (2, True)
    """
    checked = _checked(boxes, scores, labels, box_format)
    rows = _validate_plot.keep_array(keep, len(checked.corners))
    names = _names_of(label_names)
    return _drawn(checked, rows, None, _picture(image), names, color, linewidth, ax)


def plot_before_after(
    boxes: Values,
    scores: Values,
    suppression: Suppression | str,
    *,
    labels: Values | None = None,
    image: Any = None,
    label_names: Mapping[int, str] | Sequence[str] | None = None,
    color: Any = None,
    linewidth: float | None = None,
    box_format: BoxFormatName = "xyxy",
    axes: Sequence[Axes] | _Array | None = None,
) -> _Array:
    """Draw the raw boxes, and beside them what a suppression keeps, each as `plot_boxes` does, and say how many.

    Both have the same limits, colours and scale of opacity; after Soft-NMS the kept boxes have their lowered scores.

    Args:
        boxes: (N, 4), arrays, lists or CPU tensors, in pixels.
        scores: (N,).
        suppression: a `Suppression` or its notation, such as "hnms:0.73/1+nms:0.5".
        labels: (N,) whole numbers or None. Boxes of different labels never meet.
        image: as `plot_boxes`, and so are label_names, color, linewidth and box_format. The linewidth of each panel
            goes by its number of boxes.
        label_names: label -> name, for a legend.
        color: one colour for all boxes.
        linewidth: in points.
        box_format: "xyxy", "xywh" or "cxcywh".
        axes: two, or None for a new figure.

    Returns:
        An array of the two axes.

    >>> axes = plot_before_after([[0, 0, 10, 10], [1, 0, 11, 10]], [0.9, 0.8], "nms:0.5")
    >>> [ax.get_title() for ax in axes]
    ['2 raw boxes', 'nms:0.5 keeps 1']
    """
    chain = Suppression.of(suppression)
    box_array, score_array, label_array, _ = _validate.plain_arrays(boxes, scores, labels)
    keep, final = chain(box_array, score_array, label_array, box_format=box_format)
    checked = _Checked(to_xyxy(box_array, box_format), score_array, label_array)
    names, picture = _names_of(label_names), _picture(image)
    if axes is None:
        width, height = _extent(checked.corners, picture)[2:]
        figure = Figure(figsize=(2 * _WIDTH * 0.75, 0.75 * _height(width, height) + 0.3), layout="compressed")
        pair = figure.subplots(1, 2)
    else:
        pair = np.array(_validate_plot.instances_list("axes", axes, Axes, count=2), object)
    everything = np.arange(len(checked.corners))
    for ax, rows, shown_scores in zip(pair, (everything, keep), (None, final), strict=True):
        _drawn(checked, rows, shown_scores, picture, names, color, linewidth, ax)
    pair[0].set_title(_counted(len(everything), "raw box"))
    pair[1].set_title(f"{chain} keeps {len(keep):,}")
    return np.asarray(pair, object)


def plot_cells(
    boxes: Values,
    *,
    row: int = 0,
    alpha: float = 0.7,
    num_hashes: int = 1,
    box_format: BoxFormatName = "xyxy",
    ax: Axes | None = None,
) -> Axes:
    """Draw the cell that IoUHash puts a box in, and which other boxes are in it: what HNMS takes for one object.

    The size of a box gives its size class (i, j), and that the grid of cells for its centre. Drawn are this grid, the
    box's own cell (m, n) filled, and the boxes whose centres are in view: in colour those in the cell, dashed those of
    the same size class in another cell, dotted those of another size class, which have another grid. All boxes of the
    cell cover the dark rectangle and stay within the light one: hence the IoU that any two of them have at least.

    With several hashes, each has its shifted grid and own colour: a box has the colour of the first hash that puts it
    into one cell with the given box. Each hash of HNMS removes all but the best box of a cell.

    Args:
        boxes: (4,) or (N, 4), arrays, lists or CPU tensors.
        row: the row of the box whose cell is drawn. It must have an area.
        alpha: in (0, 1), as in `hnms`; the greater, the smaller the cells.
        num_hashes: how many hash functions, as in `hnms`, at most 10.
        box_format: "xyxy", "xywh" or "cxcywh".
        ax: where to draw, None for a new figure.

    Returns:
        The ax. Its title has the code (i, j, m, n) of the first hash.

    >>> plot_cells([0, 0, 10, 20], alpha=0.7).get_title().splitlines()[0]
    'alpha 0.7: code (6, 8, 3, 3)'
    """
    given = _validate_plot.box_or_boxes_array(boxes)
    corners = to_xyxy(given, box_format).astype(np.float64)
    row = _validate_plot.row_value(row, given)
    family = hash_family(alpha, _validate.count_value("num_hashes", num_hashes, most=len(COLORS)))
    _validate_plot.box_with_area(given, corners, row)
    codes = [one(given, box_format=box_format) for one in family]
    cells = [_Cell.of(one, code[row].tolist()) for one, code in zip(family, codes, strict=True)]
    met_by = np.full(len(given), -1)  # the first hash that puts a box into one cell with ours
    for k in reversed(range(len(family))):
        met_by[(codes[k] == codes[k][row]).all(axis=1)] = k
    same_size = (codes[0][:, :2] == codes[0][row, :2]).all(axis=1)

    hull = np.array([[*cell.x.hull, *cell.y.hull] for cell in cells])
    margin_x, margin_y = max(cell.x.step for cell in cells), max(cell.y.step for cell in cells)
    left, right = hull[:, 0].min() - margin_x / 2, hull[:, 1].max() + margin_x / 2
    top, bottom = hull[:, 2].min() - margin_y / 2, hull[:, 3].max() + margin_y / 2
    if ax is None:
        ax = _new_ax(right - left, bottom - top, below=1.4)
    _validate_plot.instance_value("ax", ax, Axes)
    centers = corners.reshape(-1, 2, 2).mean(axis=1)
    in_view = (centers >= (left, top)).all(axis=1) & (centers <= (right, bottom)).all(axis=1)

    cell_keys, box_keys = [], []
    for k, cell in enumerate(cells):
        cell_keys += _draw_cell(ax, cell, (left, right, top, bottom), COLORS[k], None if len(cells) == 1 else k + 1)
    others = (met_by < 0) & in_view
    dotted, dashed = ({"color": "0.6", "linestyles": style, "linewidths": 0.9} for style in ("dotted", "dashed"))
    groups: list[tuple[_Array, str, dict[str, Any]]] = [(others, "in no cell with it", dashed)]
    if len(cells) == 1:
        groups = [
            (others & ~same_size, "of another size class", dotted),
            (others & same_size, "of this size class, in another cell", dashed),
        ]
    for k in reversed(range(len(cells))):
        in_cell = "in the cell too" if len(cells) == 1 else f"in its cell of hash {k + 1} too"
        groups.append(((met_by == k) & (np.arange(len(given)) != row), in_cell, {"color": _darker(COLORS[k])}))
    for rows, what, style in groups:
        name = f"{_counted(rows.sum(), 'box')} {what}"
        if rows.any() and "too" in what:
            name += f", IoU {pairwise_iou(corners[[row]], corners[rows]).min():.2f} or more"
        box_keys += _draw_outlines(ax, corners[rows], centers[rows], name, style)
    box_keys += _draw_outlines(ax, corners[[row]], centers[[row]], "the box", {"color": "black", "linewidths": 2.2})
    ax.set(xlim=(left, right), ylim=(bottom, top), aspect="equal")
    code = ", ".join(map(str, codes[0][row].tolist()))
    bound = iou_lower_bound(alpha)
    ax.set_title(f"alpha {alpha:g}: code ({code})\ntwo boxes of a cell have IoU {bound:.3f} or more", fontsize="medium")
    keys = [*box_keys[::-1], *cell_keys[::-1]] if len(cells) == 1 else [*box_keys[::-1], *cell_keys]
    ax.legend(handles=keys, loc="upper center", bbox_to_anchor=(0.5, -0.07), ncols=2, fontsize="small", frameon=False)
    return ax


def plot_bound(
    *, alphas: Iterable[float] | None = None, mark: Iterable[float] = (0.7, 0.73), ax: Axes | None = None
) -> Axes:
    """Draw the IoU that two boxes of one cell have at least, over alpha: `iou_lower_bound`, the paper's figure.

    Args:
        alphas: each in (0, 1); None: 0.01 to 0.99.
        mark: alphas that get a point with its value in the legend.
        ax: where to draw, None for a new figure.

    Returns:
        The ax. Its first line is the curve, the others are the points.

    >>> [round(float(line.get_ydata()[0]), 4) for line in plot_bound(mark=[0.5, 0.73]).lines[1:]]
    [0.1624, 0.5015]
    """
    curve = np.linspace(0.01, 0.99, 197).round(3) if alphas is None else _validate_plot.alphas_array("alphas", alphas)
    points = _validate_plot.alphas_array("mark", mark)
    ax = _new_ax(7.0, 4.2) if ax is None else ax
    _validate_plot.instance_value("ax", ax, Axes)
    ax.plot(curve, [iou_lower_bound(alpha) for alpha in curve.tolist()], label="lowest IoU of two boxes of a cell")
    for alpha in points.tolist():
        bound = iou_lower_bound(alpha)
        ax.plot(alpha, bound, "o", markersize=4, label=f"alpha {alpha:g}: {bound:.4f}")
    ax.set(xlabel="alpha", ylabel="IoU")
    ax.grid(alpha=0.3)
    ax.legend()
    return ax


def plot_tradeoff(
    rows: Iterable[Mapping[str, Any]], *, x: str = "ms", y: str = "map_50", ax: Axes | None = None
) -> Axes:
    """Draw methods as points: what they cost on a logarithmic x axis, how good they are on the y axis.

    Each point has its method beside it. Methods of one family, the same steps with other numbers (`hnms:0.7/1` and
    `hnms:0.7/2`), have one colour and are joined by a line, in the order of their numbers. What is no notation of a
    `Suppression` is a family by its whole name, joined in the order of the rows.

    Args:
        rows: dicts with "method", a string, and two finite numbers by the names x and y; that of x is above 0.
        x: the name of what is drawn on the x axis.
        y: the name of what is drawn on the y axis.
        ax: where to draw, None for a new figure.

    Returns:
        The ax. It has one line for each family, in the order of the rows.

    >>> rows = [{"method": f"hnms:0.7/{k}", "ms": k, "map_50": 0.5 + 0.1 * k} for k in (1, 2)]
    >>> ax = plot_tradeoff([*rows, {"method": "nms:0.5", "ms": 5, "map_50": 0.75}])
    >>> len(ax.lines), [text.get_text() for text in ax.texts]
    (2, ['hnms:0.7/1', 'hnms:0.7/2', 'nms:0.5'])
    """
    points = _validate_plot.method_points(rows, x, y)
    ax = _new_ax(7.0, 4.2) if ax is None else ax
    _validate_plot.instance_value("ax", ax, Axes)
    families: dict[Any, list[tuple[Any, str, float, float]]] = {}
    for method, of_x, of_y in points:
        family, numbers = _family(method)
        families.setdefault(family, []).append((numbers, method, of_x, of_y))
    ax.set_xscale("log")
    _set_log_ticks(ax.xaxis, [of_x for _, of_x, _ in points])
    for members in families.values():
        members.sort(key=lambda member: member[0])
        ax.plot([one[2] for one in members], [one[3] for one in members], marker="o", markersize=4.5, linewidth=1.2)
    ax.set(xlabel=_AXIS_NAMES.get(x, x), ylabel=_AXIS_NAMES.get(y, y))
    ax.grid(alpha=0.3, which="both")
    ax.margins(0.12)
    colors = [line.get_color() for line in ax.lines[len(ax.lines) - len(families) :]]
    _label_points(
        ax,
        [(one[1], one[2:], color) for members, color in zip(families.values(), colors, strict=True) for one in members],
    )
    return ax


_AXIS_NAMES = {"ms": "ms an image", "map_50": "mAP@0.5", "map": "mAP", "kept": "boxes kept"}


class _Checked(NamedTuple):
    """The boxes of a picture."""

    corners: _Array  # (N, 4) xyxy
    scores: _Array | None
    labels: _Array | None


def _checked(boxes: Any, scores: Any, labels: Any, box_format: Any) -> _Checked:
    corners = to_xyxy(boxes, box_format)
    score_array = None if scores is None else _validate.scores_array(scores, len(corners))
    if score_array is not None:
        _validate.finite_scores(score_array)
    return _Checked(corners, score_array, _validate.labels_array(labels, len(corners)))


def _drawn(
    checked: _Checked,
    rows: _Array,
    final: _Array | None,
    picture: _Array | None,
    names: Mapping[int, str] | None,
    color: Any,
    linewidth: float | None,
    ax: Axes | None,
) -> Axes:
    """Draw these rows of the boxes, with their own scores or with final ones."""
    if color is not None and not is_color_like(color):
        raise ValueError(f"color must be a colour of matplotlib, such as 'red' or '#ff8800', got {color!r}")
    if linewidth is None:
        linewidth = float(np.clip(1.5 * (500 / max(len(rows), 1)) ** 0.3, 0.35, 1.5))
    linewidth = _validate_plot.width_value("linewidth", linewidth)
    left, top, width, height = _extent(checked.corners, picture)
    ax = _new_ax(width, height) if ax is None else ax
    _validate_plot.instance_value("ax", ax, Axes)
    is_empty = not ax.has_data()
    if picture is not None:
        gray = {"cmap": "gray", "vmin": 0, "vmax": 255 if picture.dtype == np.uint8 else 1} if picture.ndim == 2 else {}
        ax.imshow(picture, extent=(0, width, height, 0), aspect="equal", **gray)

    labels = None if checked.labels is None else checked.labels[rows]
    rgba = np.empty((len(rows), 4))
    if color is not None:
        rgba[:, :3] = to_rgb(color)
    else:
        rgba[:, :3] = np.asarray(COLORS)[0 if labels is None else labels % len(COLORS)]
    rgba[:, 3] = 1.0
    order = np.arange(len(rows))
    if checked.scores is not None:
        scores = checked.scores[rows] if final is None else final
        rgba[:, 3] = _opacity(scores, checked.scores)
        order = np.argsort(scores, kind="stable")
    ax.add_collection(
        PolyCollection(
            checked.corners[rows[order]][:, [[0, 1], [2, 1], [2, 3], [0, 3]]],
            facecolors="none",
            edgecolors=rgba[order],
            linewidths=linewidth,
            rasterized=len(rows) > MOST_VECTORS,
        ),
        autolim=False,
    )
    if is_empty:
        ax.set(xlim=(left, left + width), ylim=(top + height, top), aspect="equal")
    if names is not None and labels is not None and len(labels):
        keys = [
            Line2D(
                [],
                [],
                color=COLORS[label % len(COLORS)] if color is None else color,
                label=names.get(label, str(label)),
            )
            for label in np.unique(labels).tolist()
        ]
        ax.legend(handles=keys, loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0, fontsize="small")
    return ax


def _opacity(scores: _Array, all_scores: _Array) -> _Array:
    """From the faintest to 1, by the score itself where all are in [0, 1], else from the lowest to the highest."""
    low, high = 0.0, 1.0
    if len(all_scores) and not (all_scores.min() >= 0 and all_scores.max() <= 1):
        low, high = float(all_scores.min()), float(all_scores.max())
    share = (scores.astype(np.float64) - low) / (high - low) if high > low else np.ones(len(scores))
    return _FAINTEST + (1 - _FAINTEST) * np.clip(share, 0, 1)


def _extent(corners: _Array, picture: _Array | None) -> tuple[float, float, float, float]:
    """Left, top, width and height of what is in view: the image, or the boxes and a margin."""
    if picture is not None:
        return 0.0, 0.0, float(picture.shape[1]), float(picture.shape[0])
    if not len(corners):
        return 0.0, 0.0, 1.0, 1.0
    low, high = corners[:, :2].min(axis=0).astype(np.float64), corners[:, 2:].max(axis=0).astype(np.float64)
    margin = 0.02 * float((high - low).max()) or 0.5
    left, top = (low - margin).tolist()
    width, height = (high - low + 2 * margin).tolist()
    return left, top, width, height


def _height(width: float, height: float) -> float:
    """The height of a new figure, in inches."""
    return float(np.clip(_WIDTH * height / width, 0.35 * _WIDTH, 1.5 * _WIDTH))


def _new_ax(width: float, height: float, below: float = 0.0) -> Axes:
    """That of a new figure, for a picture of these proportions and so many inches below it."""
    return Figure(figsize=(_WIDTH, _height(width, height) + below), layout="compressed").subplots()


def _picture(image: Any) -> _Array | None:
    """An image of any kind as an array, of uint8 or of floats in [0, 1]."""
    if image is None:
        return None
    if isinstance(image, str | PathLike):
        with Image.open(image) as opened:
            opened.load()
            return _picture(opened)
    if isinstance(image, Image.Image):
        as_it_is = image.mode in ("L", "RGB", "RGBA") or image.mode[0] in "IF"  # I, I;16, F: numbers of any range
        image = np.asarray(image if as_it_is else image.convert("RGB"))
    return _validate_plot.picture_array(image)


def _names_of(label_names: Any) -> Mapping[int, str] | None:
    return None if label_names is None else _validate_plot.label_names_dict(label_names)


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}es"


class _Side(NamedTuple):
    """One dimension of a cell."""

    step: float  # the size of the cells of the centre, delta (Eqn. 4)
    low: float  # the edges of the box's own
    high: float
    core: tuple[float, float]  # what all boxes of the cell cover; the first is above the second if there is nothing
    hull: tuple[float, float]  # what no box of the cell goes beyond

    @classmethod
    def of(cls, alpha: float, origin: float, shift: float, i: int, m: int) -> _Side:
        size = origin / alpha**i  # Eqn. 1
        step = size * (1 - alpha) / (1 + alpha)
        low, high = (m + shift - 0.5) * step, (m + shift + 0.5) * step
        least, most = size * math.sqrt(alpha) / 2, size / math.sqrt(alpha) / 2  # half of the sizes of class i
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
    """The grid around a cell and the cell, filled; of a single hash also what its boxes cover and stay within."""
    x, y = cell
    keys = []
    if number is None:
        for (left, right), (top, bottom), opacity, name in (
            (x.hull, y.hull, 0.08, "what no box of the cell goes beyond"),
            (x.core, y.core, 0.14, "what all boxes of the cell cover"),
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
    name = "its cell: the centre is in it" if number is None else f"its cell of hash {number}"
    filled = Rectangle((x.low, y.low), x.high - x.low, y.high - y.low, fc=(*color, 0.45), ec=color, label=name)
    return [*keys, ax.add_patch(filled)]


def _grid_edges(side: _Side, least: float, most: float) -> list[float]:
    """The edges of cells in view, not too many of them."""
    before = min(math.ceil((side.low - least) / side.step), _GRID_REACH)
    behind = min(math.ceil((most - side.low) / side.step), _GRID_REACH + 1)
    return [side.low + k * side.step for k in range(-before, behind + 1)]


def _draw_outlines(ax: Axes, corners: _Array, centers: _Array, name: str, style: dict[str, Any]) -> list[Any]:
    """Boxes and their centres; a key for the legend if there are any."""
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


def _darker(color: Any) -> tuple[float, ...]:
    return tuple(0.75 * part for part in color)


def _family(method: str) -> tuple[Any, tuple[float, ...]]:
    """The steps of a method and the names in them, which are its family, and its numbers."""
    try:
        steps = Suppression.parse(method).steps
    except ValueError:
        return method, ()
    values = [(type(step), value) for step in steps for value in astuple(step)]
    family = tuple((kind, value if isinstance(value, str) else None) for kind, value in values)
    return family, tuple(value for _, value in values if not isinstance(value, str))


def _label_points(ax: Axes, points: list[tuple[str, Sequence[float], Any]]) -> None:
    """Write the name of each point beside it: where it hides no point and no other name, else where it hides least."""
    ax.figure.figure.draw_without_rendering()  # the layout, so that places are known
    pixel = ax.figure.dpi / 72
    frame = np.array(ax.get_window_extent().extents)
    places = ax.transData.transform([point for _, point, _ in points] or np.empty((0, 2)))
    taken = np.concatenate([places - 4 * pixel, places + 4 * pixel], axis=1)
    for place, (name, point, color) in zip(places, points, strict=True):
        text = ax.annotate(
            name.replace("+", "\n+") if len(name) > 24 else name,
            point,
            textcoords="offset points",
            xytext=(0, 0),
            fontsize=7.5,
            color=_darker(to_rgb(color)),
            arrowprops={"arrowstyle": "-", "color": color, "linewidth": 0.5, "alpha": 0.6, "shrinkA": 0, "shrinkB": 2},
        )
        size = np.array(text.get_window_extent().size)
        choices = []
        for reach, (across, up) in product((6, 15, 27, 40), _AROUND):
            low = place + reach * pixel * np.array([across, up]) + size * (np.array([across, up]) - 1) / 2
            box = np.concatenate([low, low + size])
            hidden = np.clip(np.minimum(box[2:], taken[:, 2:]) - np.maximum(box[:2], taken[:, :2]), 0, None).prod(
                axis=1
            )
            beyond = np.clip(frame[:2] - box[:2], 0, None).sum() + np.clip(box[2:] - frame[2:], 0, None).sum()
            choices.append((hidden.sum() + 100 * beyond, reach, across, up, box))
        _, reach, across, up, box = min(choices, key=lambda choice: choice[0])  # the first of equals: the nearest
        taken = np.concatenate([taken, [box]])
        text.set(position=(reach * across, reach * up), ha=_ALIGNED[across], va=_ALIGNED_UP[up])
        text.arrow_patch.set_visible(reach > 6)


#: Where a name may stand beside its point: the best first.
_AROUND = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1))
_ALIGNED = {1: "left", 0: "center", -1: "right"}
_ALIGNED_UP = {1: "bottom", 0: "center", -1: "top"}


def _set_log_ticks(axis: Any, values: list[float]) -> None:
    """Plain numbers, and enough of them where the values are close to each other."""
    decades = math.log10(max(values) / min(values)) if values else 0.0
    subs = (1.0,) if decades > 3 else (1.0, 2.0, 5.0) if decades > 0.5 else np.arange(1.0, 10.0, 0.5)
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())
