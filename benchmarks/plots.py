"""Plots of the page, as SVG: how time grows, and average precision over time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt

from benchmarks.tables import Family, Results

mpl.rcParams |= {
    "svg.fonttype": "none",
    "svg.hashsalt": "hashnms",
    "font.size": 9,
    "axes.grid": True,
    "grid.alpha": 0.3,
}


def growth(results: Results, title: str, path: Path) -> None:
    """Time over the number of boxes, ours in bold."""
    family = Family(results)
    figure, axes = plt.subplots(figsize=(7, 4.2))
    axes.set_prop_cycle(color=mpl.colormaps["tab20"].colors)
    for peer in [family.ours, *family.others]:
        points = [(work[1], seconds) for work in family.works if (seconds := family.seconds(work, peer))]
        if points:
            is_ours = peer.startswith("hashnms")
            style = {"linewidth": 2.5, "zorder": 3} if is_ours else {"linewidth": 1, "linestyle": "--"}
            axes.loglog(*zip(*points, strict=True), marker="o", markersize=3, label=peer, **style)
    axes.set(xlabel="boxes", ylabel="seconds", title=title)
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    _save(figure, path)


def precision(measured: Results, title: str, path: Path) -> None:
    """Average precision over the time it takes, a line for each method, a point for each P1."""
    unit = max(one["seconds"] for one in measured if one["method"] == "NMS")
    figure, axes = plt.subplots(figsize=(7, 4.2))
    for method in dict.fromkeys(one["method"] for one in measured):
        points = [
            (one["seconds"] / unit, 100 * one["map_50"], one["most_in"]) for one in measured if one["method"] == method
        ]
        times, precisions, counts = zip(*sorted(points, key=lambda point: point[2]), strict=True)
        axes.semilogx(times, precisions, marker="o", markersize=3, label=method)
        for time, value, count in zip(times, precisions, counts, strict=True):
            axes.annotate(f"{count:,}", (time, value), fontsize=6, xytext=(2, 2), textcoords="offset points")
    axes.set(xlabel="time (1: NMS of the most boxes)", ylabel="mAP@0.5, %", title=title)
    axes.legend(fontsize=7)
    _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    """Save the figure and move it into place when complete; the bytes are the same each time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".new")
    figure.savefig(beside, format="svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    beside.replace(path)
