"""Plot the bound of HNMS over alpha, and the cost and quality of methods."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from itertools import product
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.ticker import LogLocator, NullFormatter

from hashnms.hashing import iou_lower_bound
from hashnms.pipeline import Suppression
from hashnms.plot import checks
from hashnms.plot.axes import darker, new_ax

_AXIS_NAMES = {
    "ms": "time in ms",
    "map_50": "mAP@0.5",
    "map": "mAP",
    "kept": "boxes kept",
    "recall_of_first": "recall of the first method's boxes",
}

#: Where a name may be placed around its point: the best first.
_AROUND = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1))
_ALIGNED = {1: "left", 0: "center", -1: "right"}
_ALIGNED_UP = {1: "bottom", 0: "center", -1: "top"}


def plot_bound(
    *, alphas: Iterable[float] | None = None, mark: Iterable[float] = (0.7, 0.73), ax: Axes | None = None
) -> Axes:
    """Draw `iou_lower_bound`, the least IoU of two boxes in one cell, over alpha, as in the paper's figure.

    Args:
        alphas: each in (0, 1); None: 0.01 to 0.99.
        mark: alphas that get a point, with its value in the legend.
        ax: the ax to draw on, None for a new figure.

    Returns:
        The ax. Its first line is the curve, the others are the points.

    >>> [round(float(line.get_ydata()[0]), 4) for line in plot_bound(mark=[0.5, 0.73]).lines[1:]]
    [0.1624, 0.5015]
    """
    curve = np.linspace(0.01, 0.99, 197).round(3) if alphas is None else checks.alphas_array("alphas", alphas)
    points = checks.alphas_array("mark", mark)
    ax = new_ax(7.0, 4.2) if ax is None else ax
    checks.instance_value("ax", ax, Axes)
    ax.plot(curve, [iou_lower_bound(alpha) for alpha in curve.tolist()], label="least IoU of two boxes in a cell")
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
    """Draw methods as points: their cost on a logarithmic x axis, their quality on the y axis.

    Each point is labelled with its method. Methods of one family, with the same steps but other numbers (`hnms:0.7/1`
    and `hnms:0.7/2`), have one colour and are joined by a line, in the order of their numbers. A name that is not a
    notation of a `Suppression` is a family of its own, joined in the order of the rows.

    Args:
        rows: dicts with "method", a string, and two finite numbers under the names `x` and `y`; the first must be above
            0.
        x: the name of the value on the x axis.
        y: the name of the value on the y axis.
        ax: the ax to draw on, None for a new figure.

    Returns:
        The ax. It has one line for each family, in the order of the rows.

    >>> rows = [{"method": f"hnms:0.7/{k}", "ms": k, "map_50": 0.5 + 0.1 * k} for k in (1, 2)]
    >>> ax = plot_tradeoff([*rows, {"method": "nms:0.5", "ms": 5, "map_50": 0.75}])
    >>> len(ax.lines), [text.get_text() for text in ax.texts]
    (2, ['hnms:0.7/1', 'hnms:0.7/2', 'nms:0.5'])
    """
    points = checks.method_points(rows, x, y)
    ax = new_ax(7.0, 4.2) if ax is None else ax
    checks.instance_value("ax", ax, Axes)
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


def _family(method: str) -> tuple[Any, tuple[float, ...]]:
    """The family of a method, which is its steps and the names in them, and its numbers."""
    try:
        steps = Suppression.parse(method).steps
    except ValueError:
        return method, ()
    values = [(type(step), value) for step in steps for value in astuple(step)]
    family = tuple((kind, value if isinstance(value, str) else None) for kind, value in values)
    return family, tuple(value for _, value in values if not isinstance(value, str))


def _label_points(ax: Axes, points: list[tuple[str, Sequence[float], Any]]) -> None:
    """Write the name of each point next to it, where it hides no or the fewest points and names."""
    ax.figure.figure.draw_without_rendering()  # computes the layout, so that positions are known
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
            color=darker(to_rgb(color)),
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
        _, reach, across, up, box = min(choices, key=lambda choice: choice[0])  # of equals, the nearest
        taken = np.concatenate([taken, [box]])
        text.set(position=(reach * across, reach * up), ha=_ALIGNED[across], va=_ALIGNED_UP[up])
        text.arrow_patch.set_visible(reach > 6)


def _set_log_ticks(axis: Any, values: list[float]) -> None:
    """Use plain numbers as ticks, and enough of them if values are close to each other."""
    decades = math.log10(max(values) / min(values)) if values else 0.0
    subs = (1.0,) if decades > 3 else (1.0, 2.0, 5.0) if decades > 0.5 else np.arange(1.0, 10.0, 0.5)
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())
