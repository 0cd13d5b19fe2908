"""Plot boxes on an image, and the boxes that a suppression keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import is_color_like, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image

from hashnms import _validate
from hashnms._settings import BoxFormatName
from hashnms._tensors import Values
from hashnms._validate import Array
from hashnms.boxes import to_xyxy
from hashnms.pipeline import Suppression
from hashnms.plot import checks
from hashnms.plot.axes import COLORS, WIDTH, counted, figure_height, new_ax

#: More boxes than this are rasterized in SVG and PDF files, which would otherwise have many megabytes.
MOST_VECTORS = 5_000

_FAINTEST = 0.1  # the opacity of the lowest score


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
    """Draw boxes, on an image if given: coloured by label, fainter for lower scores, the best on top.

    All boxes are one collection, the last of `ax.collections`: 45,000 boxes take less than a second, including saving.
    The y axis points down, and x and y have the same scale. The limits are those of the image, or without one those of
    all boxes, so that plots with different `keep` are comparable. An ax that already has content keeps its limits, so
    objects can be drawn over detections.

    Args:
        boxes: (N, 4), arrays, lists or CPU tensors, in pixels.
        scores: (N,) or None. The opacity is the score if all are in [0, 1]; otherwise it goes from the lowest to the
            highest score.
        labels: (N,) whole numbers, or None for a single colour. Label k has colour k % 10 of ten.
        image: the background: an array (H, W), (H, W, 3) or (H, W, 4) of integers in [0, 255] or floats in [0, 1], a
            PIL image, the path of an image, or None. Pixel (0, 0) covers x and y from 0 to 1.
        keep: (M,) indices of the boxes to show, None for all.
        label_names: a dict of label -> name, or a list of names. If given, a legend lists the labels that are shown.
        color: one colour for all boxes, in any form that matplotlib knows, instead of the colours of labels.
        linewidth: in points; None: 1.5, and thinner for 500 boxes or more.
        box_format: "xyxy", "xywh" or "cxcywh".
        ax: the ax to draw on, None for a new figure.

    Returns:
        The ax.

    >>> ax = plot_boxes([[0, 0, 10, 10], [5, 5, 20, 12]], [0.9, 0.5], labels=[0, 1])
    >>> len(ax.collections[-1].get_paths()), bool(ax.get_xlim()[1] > 20)
    (2, True)
    """
    checked = _checked(boxes, scores, labels, box_format)
    rows = checks.keep_array(keep, len(checked.corners))
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
    axes: Sequence[Axes] | Array | None = None,
) -> Array:
    """Draw the raw boxes and, next to them, the boxes that a suppression keeps, with their numbers.

    Each panel is drawn by `plot_boxes`, with the same limits, colours and scale of opacity. After Soft-NMS, kept boxes
    have their lowered scores.

    Args:
        boxes: (N, 4), arrays, lists or CPU tensors, in pixels.
        scores: (N,).
        suppression: a `Suppression` or its notation, such as "hnms:0.73/1+nms:0.5".
        labels: (N,) whole numbers or None. Boxes with different labels are never compared.
        image: as in `plot_boxes`, like label_names, color, linewidth and box_format. The default linewidth of each
            panel depends on its number of boxes.
        label_names: label -> name, for a legend.
        color: one colour for all boxes.
        linewidth: in points.
        box_format: "xyxy", "xywh" or "cxcywh".
        axes: two axes, or None for a new figure.

    Returns:
        An array of the two axes.

    >>> axes = plot_before_after([[0, 0, 10, 10], [1, 0, 11, 10]], [0.9, 0.8], "nms:0.5")
    >>> [ax.get_title() for ax in axes]
    ['2 raw boxes', 'nms:0.5 keeps 1']
    """
    chain = Suppression.of(suppression)
    box_array, score_array, label_array, _ = _validate.plain_arrays(boxes, scores, labels)
    kept = chain(box_array, score_array, label_array, box_format=box_format)
    keep, final = kept
    checked = _Checked(to_xyxy(box_array, box_format), score_array, label_array)
    after = checked
    if kept.boxes is not None:
        after = checked._replace(corners=checked.corners.copy())
        after.corners[keep] = to_xyxy(kept.boxes, box_format)
    names, picture = _names_of(label_names), _picture(image)
    if axes is None:
        width, height = _extent(checked.corners, picture)[2:]
        figure = Figure(figsize=(2 * WIDTH * 0.75, 0.75 * figure_height(width, height) + 0.3), layout="compressed")
        pair = figure.subplots(1, 2)
    else:
        pair = np.array(checks.instances_list("axes", axes, Axes, count=2), object)
    everything = np.arange(len(checked.corners))
    panels = ((checked, everything, None), (after, keep, final))
    for ax, (shown, rows, shown_scores) in zip(pair, panels, strict=True):
        _drawn(shown, rows, shown_scores, picture, names, color, linewidth, ax)
    pair[0].set_title(counted(len(everything), "raw box"))
    pair[1].set_title(f"{chain} keeps {len(keep):,}")
    return np.asarray(pair, object)


class _Checked(NamedTuple):
    """The checked boxes of a plot."""

    corners: Array  # (N, 4) xyxy
    scores: Array | None
    labels: Array | None


def _checked(boxes: Any, scores: Any, labels: Any, box_format: Any) -> _Checked:
    corners = to_xyxy(boxes, box_format)
    score_array = None if scores is None else _validate.scores_array(scores, len(corners))
    if score_array is not None:
        _validate.finite_scores(score_array)
    return _Checked(corners, score_array, _validate.labels_array(labels, len(corners)))


def _drawn(
    checked: _Checked,
    rows: Array,
    final: Array | None,
    picture: Array | None,
    names: Mapping[int, str] | None,
    color: Any,
    linewidth: float | None,
    ax: Axes | None,
) -> Axes:
    """Draw these rows of the boxes, with their own scores or the final ones."""
    if color is not None and not is_color_like(color):
        raise ValueError(f"color must be a matplotlib colour, such as 'red' or '#ff8800', got {color!r}")
    if linewidth is None:
        linewidth = float(np.clip(1.5 * (500 / max(len(rows), 1)) ** 0.3, 0.35, 1.5))
    linewidth = checks.width_value("linewidth", linewidth)
    left, top, width, height = _extent(checked.corners, picture)
    ax = new_ax(width, height) if ax is None else ax
    checks.instance_value("ax", ax, Axes)
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


def _opacity(scores: Array, all_scores: Array) -> Array:
    """Opacities from the faintest to 1: by the score if all are in [0, 1], otherwise from the lowest to the highest."""
    low, high = 0.0, 1.0
    if len(all_scores) and not (all_scores.min() >= 0 and all_scores.max() <= 1):
        low, high = float(all_scores.min()), float(all_scores.max())
    share = (scores.astype(np.float64) - low) / (high - low) if high > low else np.ones(len(scores))
    return _FAINTEST + (1 - _FAINTEST) * np.clip(share, 0, 1)


def _extent(corners: Array, picture: Array | None) -> tuple[float, float, float, float]:
    """Left, top, width and height of the view: the image, or the boxes with a margin."""
    if picture is not None:
        return 0.0, 0.0, float(picture.shape[1]), float(picture.shape[0])
    if not len(corners):
        return 0.0, 0.0, 1.0, 1.0
    low, high = corners[:, :2].min(axis=0).astype(np.float64), corners[:, 2:].max(axis=0).astype(np.float64)
    margin = 0.02 * float((high - low).max()) or 0.5
    left, top = (low - margin).tolist()
    width, height = (high - low + 2 * margin).tolist()
    return left, top, width, height


def _picture(image: Any) -> Array | None:
    """Convert an image of any kind to an array of uint8 or of floats in [0, 1]."""
    if image is None:
        return None
    if isinstance(image, str | PathLike):
        with Image.open(image) as opened:
            opened.load()
            return _picture(opened)
    if isinstance(image, Image.Image):
        as_it_is = image.mode in ("L", "RGB", "RGBA") or image.mode[0] in "IF"  # I, I;16, F: numbers of any range
        image = np.asarray(image if as_it_is else image.convert("RGB"))
    return checks.picture_array(image)


def _names_of(label_names: Any) -> Mapping[int, str] | None:
    return None if label_names is None else checks.label_names_dict(label_names)
