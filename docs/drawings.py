"""Why exact NMS can be linear, drawn: the cells that a box looks into, and how many kept boxes it is compared with."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from hashnms import nms
from hashnms.boxes import to_xyxy
from hashnms.synthetic import make_scene

THRESHOLD = 0.5
#: How far apart the centres of two boxes can be, as a share of the mean of their sizes: IoU > t needs no more.
REACH = (1 - THRESHOLD) / (1 + THRESHOLD)


def centers_and_sizes(boxes: Any) -> tuple[Any, Any]:
    return (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]


def classes_of(sizes: Any) -> Any:
    """Classes of widths and of heights, in the ratio 1 / t: a box can meet those of its own and of the next ones."""
    return np.floor(np.log2(sizes) / -np.log2(THRESHOLD))


def pitch_of(classes: Any) -> Any:
    """How wide and high a cell is: what two boxes can be apart in both directions, so that two cells are enough."""
    return (1 / THRESHOLD + 1) * REACH * THRESHOLD ** -(classes + 1)


def search_picture() -> Any:
    """A box of a parking lot, the kept boxes around it, the cells of its size class, and those it looks into."""
    scene = make_scene("parking_lot", 9_000)
    boxes = scene.boxes.astype(np.float64)
    kept = boxes[nms(boxes, scene.scores, THRESHOLD)]
    centers, sizes = centers_and_sizes(kept)
    box = to_xyxy([[640.0, 370.0, 60.0, 52.0]], "cxcywh")
    center, size = (values[0] for values in centers_and_sizes(box))
    own = classes_of(size)
    pitch = pitch_of(own)
    reach = (size + THRESHOLD ** -(own + 1)) / 2 * REACH
    first = np.floor((center - reach) / pitch) * pitch
    same = (classes_of(sizes) == own).all(axis=1)
    asked = same & (centers >= first).all(axis=1) & (centers < first + 2 * pitch).all(axis=1)

    figure = Figure(figsize=(6.0, 5.6), layout="compressed")
    ax = figure.subplots()
    ax.set(xlim=(center[0] - 210, center[0] + 210), ylim=(center[1] + 140, center[1] - 140), aspect="equal")
    ax.set(xticks=[], yticks=[], title=f"{len(kept)} boxes are kept; in this size class the box meets {asked.sum()}")
    for axis, lines in enumerate((ax.axvline, ax.axhline)):
        for place in first[axis] + pitch[axis] * np.arange(-5, 6):
            lines(place, color="0.7", linewidth=0.8, zorder=0)
    ax.add_patch(
        Rectangle(first, *(2 * pitch), color="tab:orange", alpha=0.2, linewidth=0, label="cells it looks into")
    )
    outlined(ax, kept[same & ~asked], "0.55", label="kept boxes of its size class")
    outlined(ax, kept[asked], "tab:orange", linewidth=2, label="those it is compared with")
    outlined(ax, box, "tab:blue", linewidth=2.5, label="the box")
    place = np.concatenate([center - reach, center + reach])[None]
    outlined(ax, place, "tab:blue", linestyle=":", label="where the centre of a box that suppresses it can be")
    ax.plot(*centers[same & ~asked].T, ".", color="0.55")
    ax.plot(*centers[asked].T, "o", color="tab:orange", markersize=5)
    figure.legend(loc="outside lower left", frameon=False)
    return figure


def outlined(ax: Any, boxes: Any, color: str, *, label: str, **style: Any) -> None:
    for number, (x1, y1, x2, y2) in enumerate(boxes):
        name = "_" if number else label  # one line of the legend
        ax.add_patch(Rectangle((x1, y1), x2 - x1, y2 - y1, fill=False, edgecolor=color, label=name, **style))


def trials_picture() -> Any:
    """How many kept boxes a box is compared with, over the number of boxes: of all, and of those in its cells."""
    counts = [500, 1_000, 2_000, 4_000, 8_000, 16_000]
    means = np.array([trials(count) for count in counts])
    figure = Figure(figsize=(6.0, 3.6), layout="compressed")
    ax = figure.subplots()
    ax.loglog(counts, means[:, 0], "o-", color="0.4", label="a loop: all kept boxes, until one suppresses it")
    ax.loglog(counts, means[:, 1], "o-", color="tab:orange", label="a grid: those that can be in reach")
    ax.set(xlabel="boxes", ylabel="kept boxes compared with, on average", ylim=(0.5, None))
    ax.legend(frameon=False)
    ax.grid(color="0.9")
    ax.spines[["top", "right"]].set_visible(False)
    return figure


def trials(count: int) -> tuple[float, float]:
    """Means over the boxes of a scene, whose image grows with their number."""
    scene = make_scene("parking_lot", count, num_objects=count // 80)
    boxes = scene.boxes.astype(np.float64)
    keep, suppressor = nms(boxes, scene.scores, THRESHOLD, return_suppressor=True)
    rank = np.empty(count, int)
    rank[np.lexsort((np.arange(count), -scene.scores.astype(float)))] = np.arange(count)
    place = np.full(count, -1)
    place[keep] = np.arange(len(keep))  # kept boxes are tried in this order
    before = np.searchsorted(rank[keep], rank)  # how many are kept by the time a box comes
    of_loop = np.where(suppressor == np.arange(count), before, place[suppressor] + 1)
    centers, sizes = centers_and_sizes(boxes)
    of_grid = 0
    for row in range(count):
        earlier = keep[: before[row]]
        ratio = sizes[earlier] / sizes[row]
        near = np.abs(centers[earlier] - centers[row]) <= (sizes[earlier] + sizes[row]) / 2 * REACH
        of_grid += int((near & (ratio >= THRESHOLD) & (ratio <= 1 / THRESHOLD)).all(axis=1).sum())
    return float(of_loop.mean()), of_grid / count
