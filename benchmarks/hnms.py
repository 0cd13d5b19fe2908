"""Time hnms: `python -m benchmarks.hnms --help`.

For each number of boxes: ns per box for K = 1..4 hashes on one thread; the ratio to copying the same boxes and scores
(20 bytes per box: no method can be faster than reading its input); all threads; and torchvision's nms at IoU 0.7 if it
is installed. Rounds are interleaved. Each call runs a few times in a row, so that its data is in the cache, and the
shortest time counts, because machines are noisy.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import hashnms
from benchmarks.timing import shortest
from hashnms import hnms
from hashnms.synthetic import PRESETS, make_scene

try:
    import torch
    import torchvision
except ImportError:
    torchvision = None

SIZES = [10**2, 10**3, 10**4, 45_000, 10**5, 10**6, 10**7]
TORCHVISION_LIMIT = 45_000  # quadratic: beyond, it takes seconds
HASHES = (1, 2, 3, 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", choices=PRESETS, default="parking_lot")
    parser.add_argument("--alpha", type=float, default=0.7)
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="leave out sizes above this")
    arguments = parser.parse_args()

    table = Table(title=f"hnms, alpha {arguments.alpha:g}, {arguments.preset}, float32: ns per box")
    columns = [
        "boxes",
        "kept",
        "copy",
        *(f"K={k}" for k in HASHES),
        "K=1 / copy",
        "K=4 / K=1",
        "all threads",
        "torchvision / K=1",
    ]
    for column in columns:
        table.add_column(column, justify="right")
    sizes = [size for size in SIZES if size <= arguments.largest]
    small_call = small_call_microseconds(arguments.preset)
    with Progress(transient=True) as progress:
        for size in progress.track(sizes, description="measuring"):
            table.add_row(*measure(arguments.preset, size, arguments.alpha))
    console = Console(width=150)
    console.print(table)
    console.print(f"one call with 10 boxes: {small_call:.1f} µs")
    console.print(
        f"{platform.processor() or platform.machine()}, {hashnms.get_num_threads()} cores, NumPy {np.__version__}"
    )


def measure(preset: str, size: int, alpha: float) -> list[str]:
    """One row of the table."""
    scene = make_scene(preset, size)
    boxes, scores = scene.boxes, scene.scores
    check_answer(scene, alpha)
    room = np.empty_like(boxes), np.empty_like(scores)

    def copy() -> None:
        np.copyto(room[0], boxes)
        np.copyto(room[1], scores)

    threads = hashnms.get_num_threads()
    calls: dict[str, Callable[[], Any]] = {"copy": copy}
    for k in HASHES:
        calls[f"K={k}"] = on_threads(1, lambda k=k: hnms(boxes, scores, alpha=alpha, num_hashes=k))
    calls["all threads"] = on_threads(threads, lambda: hnms(boxes, scores, alpha=alpha))
    best = shortest(calls, rounds=max(3, min(100, 4_000_000 // size)))
    if torchvision is not None and size <= TORCHVISION_LIMIT:
        tensors = torch.from_numpy(boxes), torch.from_numpy(scores)
        best |= shortest({"torchvision": lambda: torchvision.ops.nms(*tensors, 0.7)}, rounds=1)
    ns = {name: f"{seconds * 1e9 / size:.2f}" for name, seconds in best.items()}
    ratio = {
        "copy": best["K=1"] / best["copy"],
        "K=4": best["K=4"] / best["K=1"],
        "torchvision": best.get("torchvision", np.nan) / best["K=1"],
    }
    return [
        f"{size:,}",
        f"{len(hnms(boxes, scores, alpha=alpha)) / size:.0%}",
        ns["copy"],
        *(ns[f"K={k}"] for k in HASHES),
        f"{ratio['copy']:.1f}x",
        f"{ratio['K=4']:.1f}x",
        ns["all threads"],
        "" if np.isnan(ratio["torchvision"]) else f"{ratio['torchvision']:.0f}x",
    ]


def check_answer(scene: Any, alpha: float) -> None:
    """Check a few boxes against the reference, and all boxes, on all threads and on one, against sorting the codes."""
    few = slice(0, 1000)
    for k in HASHES:
        keep = hnms(scene.boxes[few], scene.scores[few], alpha=alpha, num_hashes=k)
        if not np.array_equal(
            keep, hashnms.reference.hnms(scene.boxes[few], scene.scores[few], alpha=alpha, num_hashes=k)
        ):
            raise SystemExit(f"hnms with {k} hashes differs from the reference: nothing is timed")
    codes = hashnms.iou_hash(scene.boxes, alpha=alpha)
    order = np.lexsort((-scene.scores, *codes.T))
    is_first = np.concatenate([[True], (codes[order[1:]] != codes[order[:-1]]).any(axis=1)])
    has_area = (scene.boxes[:, 2:] > scene.boxes[:, :2]).all(axis=1)
    best = np.union1d(order[is_first], np.flatnonzero(~has_area))
    expected = best[np.argsort(-scene.scores[best], kind="stable")]
    for threads in (1, hashnms.get_num_threads()):
        if not np.array_equal(on_threads(threads, lambda: hnms(scene.boxes, scene.scores, alpha=alpha))(), expected):
            raise SystemExit(f"hnms on {threads} threads differs from sorting the codes: nothing is timed")


def on_threads(count: int, call: Callable[[], Any]) -> Callable[[], Any]:
    """The call with `count` threads."""

    def run() -> Any:
        before = hashnms.get_num_threads()
        hashnms.set_num_threads(count)
        try:
            return call()
        finally:
            hashnms.set_num_threads(before)

    return run


def small_call_microseconds(preset: str) -> float:
    scene = make_scene(preset, 10)
    repeats = 1000

    def call() -> None:
        for _ in range(repeats):
            hnms(scene.boxes, scene.scores)

    return shortest({"call": call}, rounds=7)["call"] / repeats * 1e6


if __name__ == "__main__":
    main()
