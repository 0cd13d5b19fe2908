"""Time nms: `python -m benchmarks.nms --help`.

ns per box of exact NMS on one thread, and how many times as long the installed peers take: torchvision, lsnms and
powerboxes. On crowded scenes with 30 % and with 5 % background boxes; with --worst on the worst cases, with --real on
the images of a folder. The answer is checked against torchvision's if it is available, otherwise against the reference
on a part. In the worst cases a peer may give another answer (lsnms does at IoU 0); it is still timed.
"""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import hashnms
from benchmarks.peers import NMS, Workload
from benchmarks.timing import shortest
from hashnms._settings import METRICS
from hashnms.synthetic import PRESETS, WORST_CASES, make_scene

SIZES = [10, 100, 1000, 9000, 45_000, 100_000, 1_000_000]
WORST_SIZES = [10_000, 100_000, 1_000_000]


#: Peer -> the most boxes that it can handle within a minute.
LARGEST = {"torchvision": 100_000, "lsnms": 1_000_000, "powerboxes nms": 1000, "powerboxes rtree_nms": 1_000_000}
PEERS = {peer.name: peer for peer in NMS if peer.name in LARGEST}


def on_threads(num_threads: int, data: tuple[Any, Any, float]) -> Callable[[], Any]:
    def call() -> Any:
        hashnms.set_num_threads(num_threads)
        return hashnms.nms(*data)

    return call


def measure(data: tuple[Any, Any, float], peers: list[str], two_threads: bool = False) -> dict[str, float]:
    """Seconds that each takes, after the answer has been checked."""
    boxes = data[0]
    work = Workload("", *data[:2], None, data[2])
    calls = {name: PEERS[name].call(work) for name in peers if len(boxes) <= LARGEST[name]}
    check(data, calls)
    ours = {"nms": on_threads(1, data)}
    if two_threads:
        ours["two threads"] = on_threads(2, data)
    return shortest({**ours, **calls}, rounds=max(4, min(50, 20_000 // len(boxes))))


def check(data: tuple[Any, Any, float], calls: dict[str, Callable[[], Any]]) -> None:
    boxes, scores, iou_threshold = data
    few = slice(None) if "torchvision" in calls else slice(0, 1000)
    keep = hashnms.nms(boxes[few], scores[few], iou_threshold)
    expected = (
        np.asarray(calls["torchvision"]())
        if "torchvision" in calls
        else hashnms.reference.nms(boxes[few], scores[few], iou_threshold)[0]
    )
    if not np.array_equal(keep, expected):
        raise SystemExit(f"nms of {len(boxes):,} boxes at {iou_threshold} differs: nothing is timed")


def ratio(best: dict[str, float], name: str, to: str = "nms") -> str:
    return f"{best[name] / best[to]:.1f}x" if name in best else ""


def scenes(preset: str, largest: int, iou_thresholds: list[float], peers: list[str]) -> Table:
    table = Table(title=f"nms, {preset}, float32, one thread")
    columns = (
        "boxes",
        "background",
        "IoU",
        "kept",
        "ns per box",
        *(f"{peer} / nms" for peer in peers),
        "one / two threads",
    )
    for column in columns:
        table.add_column(column, justify="right")
    sizes = [size for size in SIZES if size <= largest]
    cases = [(size, background, iou) for size in sizes for background in (0.3, 0.05) for iou in iou_thresholds]
    for size, background, iou_threshold in track(cases, description="scenes", transient=True):
        scene = make_scene(preset, size, background=background)
        best = measure((scene.boxes, scene.scores, iou_threshold), peers, two_threads=size > 100_000)
        kept = len(hashnms.nms(scene.boxes, scene.scores, iou_threshold))
        table.add_row(
            f"{size:,}",
            f"{background:.0%}",
            f"{iou_threshold:g}",
            f"{kept / size:.0%}",
            f"{best['nms'] / size * 1e9:.1f}",
            *(ratio(best, peer) for peer in peers),
            f"{best['nms'] / best['two threads']:.2f}x" if "two threads" in best else "",
        )
    return table


def worst_cases(largest: int, iou_thresholds: list[float], peers: list[str]) -> Table:
    """At the smallest size, also the peers: brute force, and trees."""
    sizes = [size for size in WORST_SIZES if size <= largest]
    table = Table(title="nms, worst cases, float32, one thread")
    columns = [f"ns per box, {size:,}" for size in sizes] + [f"{peer} / nms, {sizes[0]:,}" for peer in peers]
    for column in ("boxes", "IoU", *columns):
        table.add_column(column, justify="left" if column == "boxes" else "right")
    cases = [(name, iou_threshold) for name in WORST_CASES for iou_threshold in iou_thresholds]
    for name, iou_threshold in track(cases, description="worst cases", transient=True):
        row = {}
        for size in sizes:
            boxes = WORST_CASES[name](size).astype(np.float32)
            scores = np.random.default_rng(0).random(size).astype(np.float32)
            row[size] = measure((boxes, scores, iou_threshold), peers if size == sizes[0] else [])
        table.add_row(
            name,
            f"{iou_threshold:g}",
            *(f"{row[size]['nms'] / size * 1e9:.0f}" for size in sizes),
            *(ratio(row[sizes[0]], peer) for peer in peers),
        )
    return table


def labels(preset: str, largest: int, iou_thresholds: list[float]) -> Table:
    """Ns per box with many scattered labels, on one thread and on two; and torchvision's batched_nms, if installed."""
    table = Table(title=f"nms with labels, {preset}, float32")
    columns = ("boxes", "labels", "IoU", "ns per box", "torchvision / nms", "one / two threads")
    for column in columns:
        table.add_column(column, justify="right")
    sizes = [size for size in SIZES if 1000 <= size <= largest]
    cases = [(size, count, iou) for size in sizes for count in (1, 2, 10, 80, 1203) for iou in iou_thresholds]
    for size, num_labels, iou_threshold in track(cases, description="labels", transient=True):
        scene = make_scene(preset, size)
        of_boxes = np.random.default_rng(0).integers(num_labels, size=size)
        calls = {f"{n} threads": labelled_call(n, scene, of_boxes, iou_threshold) for n in (1, 2)}
        if PEERS["torchvision"].installed() and size <= LARGEST["torchvision"]:
            work = Workload("", scene.boxes, scene.scores, of_boxes, iou_threshold)
            calls["torchvision"] = PEERS["torchvision"].call(work)
            assert np.array_equal(np.sort(calls["torchvision"]()), np.sort(calls["1 threads"]()))
        best = shortest(calls, rounds=max(3, min(50, 20_000 // size)))
        table.add_row(
            f"{size:,}",
            f"{num_labels:,}",
            f"{iou_threshold:g}",
            f"{best['1 threads'] / size * 1e9:.1f}",
            ratio(best, "torchvision", "1 threads"),
            ratio(best, "1 threads", "2 threads"),
        )
    return table


def metrics(largest: int, thresholds: list[float]) -> Table:
    """Ns per box by metric, and its ratio to the size before."""
    table = Table(title="nms by metric, float32, one thread: ns per box, and that over the size before")
    for column in ("scene", "boxes", "threshold", *METRICS):
        table.add_column(column, justify="left" if column == "scene" else "right")
    hashnms.set_num_threads(1)
    sizes = [size for size in (10_000, 100_000, 1_000_000) if size <= largest]
    cases = [(preset, threshold) for preset in PRESETS for threshold in thresholds]
    for preset, threshold in track(cases, description="metrics", transient=True):
        before: dict[str, float] = {}
        for size in sizes:
            scene = make_scene(preset, size)
            calls = {name: partial(hashnms.nms, scene.boxes, scene.scores, threshold, metric=name) for name in METRICS}
            best = shortest(calls, rounds=max(3, min(20, 1_000_000 // size)))
            each = {name: seconds / size * 1e9 for name, seconds in best.items()}
            growth = {name: f" ({each[name] / before[name]:.2f}x)" if before else "" for name in METRICS}
            cells = [f"{each[name]:.0f}{growth[name]}" for name in METRICS]
            table.add_row(preset, f"{size:,}", f"{threshold:g}", *cells)
            before = each
    return table


def labelled_call(num_threads: int, scene: Any, of_boxes: Any, iou_threshold: float) -> Callable[[], Any]:
    def call() -> Any:
        hashnms.set_num_threads(num_threads)
        return hashnms.nms(scene.boxes, scene.scores, iou_threshold, labels=of_boxes)

    return call


def real_images(folder: Path, iou_thresholds: list[float], peers: list[str]) -> Table:
    """Sums over the images of each set."""
    table = Table(title="nms, real detections, float32, one thread")
    for column in ("set", "images", "boxes", "IoU", "ns per box", *(f"{peer} / nms" for peer in peers)):
        table.add_column(column, justify="left" if column == "set" else "right")
    for directory in track(sorted(path for path in folder.iterdir() if path.is_dir()), "real", transient=True):
        images = [np.load(file) for file in sorted(directory.glob("*.npz"))]
        arrays = [(np.float32(image["boxes"]), np.float32(image["scores"])) for image in images]
        num_boxes = sum(len(boxes) for boxes, _ in arrays)
        for iou_threshold in iou_thresholds:
            times = [measure((boxes, scores, iou_threshold), peers) for boxes, scores in arrays if len(boxes)]
            total = {name: sum(best[name] for best in times) for name in times[0]}
            table.add_row(
                directory.name,
                f"{len(images)}",
                f"{num_boxes:,}",
                f"{iou_threshold:g}",
                f"{total['nms'] / num_boxes * 1e9:.1f}",
                *(ratio(total, peer) for peer in peers),
            )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", choices=PRESETS, default="parking_lot")
    parser.add_argument("--largest", type=int, default=100_000, help="leave out sizes above this (default: 100000)")
    parser.add_argument("--iou", type=float, nargs="+", help="the IoU thresholds (default: 0.5 and 0.7; --worst: 7)")
    parser.add_argument("--worst", action="store_true", help="the worst cases instead")
    parser.add_argument("--labels", action="store_true", help="with 1 to 1,203 labels instead")
    parser.add_argument("--metrics", action="store_true", help="IoU, IoS and DIoU on all scenes instead")
    parser.add_argument("--real", type=Path, metavar="DIR", help="the images in DIR/*/*.npz instead")
    arguments = parser.parse_args()

    os.environ["OMP_NUM_THREADS"] = "1"
    peers = [name for name, peer in PEERS.items() if peer.installed()]
    if arguments.worst:
        table = worst_cases(arguments.largest, arguments.iou or [0, 0.01, 0.05, 0.5, 0.95, 0.999, 1], peers)
    elif arguments.labels:
        table = labels(arguments.preset, arguments.largest, arguments.iou or [0.5, 0.7])
    elif arguments.metrics:
        table = metrics(arguments.largest, arguments.iou or [0.5])
    elif arguments.real:
        table = real_images(arguments.real, arguments.iou or [0.5, 0.7], peers)
    else:
        table = scenes(arguments.preset, arguments.largest, arguments.iou or [0.5, 0.7], peers)
    console = Console(width=140)
    console.print(table)
    console.print(f"{platform.processor() or platform.machine()}, NumPy {np.__version__}")


if __name__ == "__main__":
    main()
