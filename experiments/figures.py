"""The paper's figures: what each measures, and how it is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

from benchmarks.tables import rows as markdown
from experiments import methods
from experiments.configurations import SuppressionSettings
from experiments.datasets import DatasetError
from experiments.files import beside
from experiments.measure import Plan, Setting
from experiments.methods import NUM_HASHES, Method
from experiments.tables import Record, Row, boxes_of, described, time_of
from hashnms import iou_lower_bound
from hashnms.plot import plot_bound

ALPHAS = tuple(round(0.5 + 0.05 * step, 2) for step in range(9))
CANDIDATES = (100, 300, 1000, 2000, 3000, 5000, 9000)


def _over_alpha(suppressing: SuppressionSettings, of_proposals: bool) -> Iterator[Setting]:
    """NMS, and HNMS instead of it or before it for every alpha and K."""
    for alpha in (*ALPHAS, suppressing.alpha):
        choose = methods.proposals if of_proposals else methods.detections
        for method in choose(alpha, suppressing.iou_threshold):
            if method.by == "hashnms":
                yield Setting(method, suppressing.candidates)


def _over_candidates(suppressing: SuppressionSettings, of_proposals: bool) -> Iterator[Setting]:
    """NMS and HNMS with the paper's alpha for every P1."""
    choose = methods.proposals if of_proposals else methods.detections
    yield from _for_every_count(choose(suppressing.alpha, suppressing.iou_threshold), suppressing)


def _soft_over_candidates(suppressing: SuppressionSettings, of_proposals: bool) -> Iterator[Setting]:
    del of_proposals
    yield from _for_every_count(methods.soft_detections(suppressing.alpha, suppressing.evaluated), suppressing)


def _for_every_count(some: list[Method], suppressing: SuppressionSettings) -> Iterator[Setting]:
    for count in CANDIDATES:
        if count <= suppressing.candidates:
            yield from (Setting(method, count) for method in some if method.num_hashes in (None, 1, 4))


@dataclass(frozen=True)
class Figure:
    """One of the paper's figures."""

    title: str
    settings: Callable[[SuppressionSettings, bool], Iterator[Setting]]
    draw: Callable[[Any, Record], None]
    timed: bool
    of_proposals: bool | None = None  # None: for both kinds of boxes


def plan_of(name: str, of: str, suppressing: SuppressionSettings, of_proposals: bool, **limits: Any) -> Plan:
    """The plan of a figure for the raw boxes of this name."""
    figure = FIGURES[name]
    if figure.of_proposals not in (None, of_proposals):
        raise DatasetError(f"figure {name} needs boxes of a one-stage detector, got proposals of an RPN")
    if figure.timed and limits.get("timed_images") == 0:
        raise DatasetError(f"figure {name} needs times of at least one image, got none")
    settings = list({(one.answer, one.method.by): one for one in figure.settings(suppressing, of_proposals)}.values())
    if not figure.timed:
        limits["timed_images"] = 0
    return Plan(f"{name}-{of}", settings, suppressing, of_proposals, **limits)


def draw(name: str, record: Record, path: Path, suffixes: tuple[str, ...] = ("png", "svg")) -> None:
    """Write the figure and move it into place when complete; the bytes of an SVG are the same each time."""
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "hashnms", "font.size": 9}):
        figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
        FIGURES[name].draw(axes, record)
        axes.set_title("\n".join([FIGURES[name].title, *([boxes_of(record)] if name in OF_RAW else [])]), fontsize=9)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
        for suffix in suffixes:
            with beside(path.with_name(f"{path.name}.{suffix}")) as temporary:
                figure.savefig(temporary, format=suffix, dpi=144, metadata={"Date": None} if suffix == "svg" else None)
        plt.close(figure)


def quality_of(record: Record) -> tuple[str, str]:
    """The quantity on the y axis: average precision, or recall if there is no second stage."""
    has_precision = "map_50" in record["rows"][0]
    return ("map_50", "mAP@0.5, %") if has_precision else ("proposal_recall_70", "recall@0.7 of proposals, %")


def _draw_alpha(axes: Any, record: Record) -> None:
    key, label = quality_of(record)
    plain = next(row for row in record["rows"] if row["num_hashes"] is None)
    axes.axhline(100 * plain[key], color="black", linestyle="--", label="NMS")
    for count in NUM_HASHES:
        points = sorted((row["alpha"], 100 * row[key]) for row in record["rows"] if row["num_hashes"] == count)
        axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=f"HNMS, K = {count}")
    axes.set(xlabel="alpha", ylabel=label)


def _draw_candidates(axes: Any, record: Record) -> None:
    """A line for each method, a point for each P1, as in the paper."""
    key, label = quality_of(record)
    devices = list(record["rows"][0]["ms"])
    series: dict[str, list[tuple[float, float, int]]] = {}
    for row in record["rows"]:
        hashes = f" {row['alpha']:g}/{row['num_hashes']}" if row["num_hashes"] else ""
        for device in devices:
            where = f", {device}" if len(devices) > 1 else ""
            name = f"{row['method'].replace('HNMS', f'HNMS{hashes}')} ({row['by']}{where})"
            series.setdefault(name, []).append((time_of(row, device)[0], 100 * row[key], row["candidates"]))
    for name, points in series.items():
        ours = "(hashnms" in name
        times, values, counts = zip(*sorted(points, key=lambda point: point[2]), strict=True)
        style = {"linewidth": 1.6} if ours else {"linewidth": 1, "linestyle": "--"}
        axes.semilogx(times, values, marker="o", markersize=3, label=name, **style)
        for time, value, count in zip(times, values, counts, strict=True):
            axes.annotate(f"{count:,}", (time, value), fontsize=5, xytext=(2, 2), textcoords="offset points")
    axes.set(xlabel=f"suppression, ms an image ({', '.join(devices)})", ylabel=label)


def bound_record() -> Record:
    """The record of the bound, which is not measured: it follows from alpha."""
    alphas = [round(alpha, 3) for alpha in np.linspace(0.01, 0.99, 197).tolist()]
    return {"kind": "bound", "rows": [{"alpha": alpha, "bound": iou_lower_bound(alpha)} for alpha in alphas]}


def _draw_bound(axes: Any, record: Record) -> None:
    plot_bound(alphas=[row["alpha"] for row in record["rows"]], ax=axes)


FIGURES: dict[str, Figure] = {
    "bound": Figure("The IoU bound over alpha", lambda *_: iter(()), _draw_bound, False),
    "alpha": Figure("Accuracy over alpha and K", _over_alpha, _draw_alpha, False),
    "p1": Figure("Accuracy over time, P1 at each point", _over_candidates, _draw_candidates, True),
    "softnms": Figure(
        "Soft-NMS: accuracy over time, P1 at each point", _soft_over_candidates, _draw_candidates, True, False
    ),
}

#: The figures that are drawn from raw boxes.
OF_RAW = [name for name in FIGURES if name != "bound"]


def lines(name: str, record: Record) -> Iterator[str]:
    """The points of a figure as Markdown: a row for each method, a column for each alpha or P1."""
    if name not in OF_RAW:
        yield f"## {FIGURES[name].title}\n"
        shown = [row for row in record["rows"] if round(row["alpha"] * 100, 6) % 10 == 0]
        yield from markdown(
            ["alpha", "IoU bound"], ([f"{row['alpha']:g}", f"{row['bound']:.4f}"] for row in shown), left=0
        )
        return
    key, label = quality_of(record)
    yield f"## {FIGURES[name].title}\n"
    yield f"{described(record)} {label}{' (and ms)' if FIGURES[name].timed else ''}:\n"
    column = "alpha" if name == "alpha" else "candidates"
    found: dict[tuple[str, str], dict[Any, Row]] = {}
    for row in record["rows"]:
        hashes = f", K = {row['num_hashes']}" if row["num_hashes"] else ""
        found.setdefault((row["method"] + hashes, row["by"]), {})[row[column]] = row
    values = sorted({row[column] for row in record["rows"]} - {None})

    def cell(row: Row | None) -> str:
        if row is None:
            return ""
        times = [time for device in row["ms"] if (time := time_of(row, device))]
        return f"{100 * row[key]:.1f}" + "".join(f" ({time[0]:,.2f})" for time in times)

    body = (
        [*names, *(cell(of_method.get(value, of_method.get(None))) for value in values)]
        for names, of_method in found.items()
    )
    yield from markdown(["method", "by", *(f"{value:,}" for value in values)], body, left=2)
