"""How fast is nms? `make bench`, or `python -m benchmarks.nms --help`.

ns per box of exact NMS on one thread, and how many times as long the peers take that are installed: torchvision, lsnms
and powerboxes. Crowded scenes with 30 % and with 5 % background boxes. Every answer is checked: against torchvision
where it is installed and done within seconds, else against the reference on a part.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import hashnms
from benchmarks.timing import shortest
from hashnms.synthetic import PRESETS, make_scene

SIZES = [10, 100, 1000, 9000, 45_000, 100_000, 1_000_000]


def torchvision_call(boxes: Any, scores: Any, iou_threshold: float) -> Callable[[], Any]:
    import torch
    import torchvision

    torch.set_num_threads(1)
    tensors = torch.from_numpy(boxes), torch.from_numpy(scores)
    return lambda: torchvision.ops.nms(*tensors, iou_threshold).numpy()


def lsnms_call(boxes: Any, scores: Any, iou_threshold: float) -> Callable[[], Any]:
    import lsnms

    arrays = boxes.astype(np.float64), scores.astype(np.float64)
    return lambda: lsnms.nms(*arrays, iou_threshold)


def powerboxes_call(boxes: Any, scores: Any, iou_threshold: float) -> Callable[[], Any]:
    import powerboxes

    function = powerboxes.nms if len(boxes) <= 1000 else powerboxes.rtree_nms  # the faster of the two
    arrays = boxes.astype(np.float64), scores.astype(np.float64)
    return lambda: function(*arrays, iou_threshold, -1.0)


#: Peer -> the call it makes, and the most boxes it does in seconds.
PEERS = {
    "torchvision": (torchvision_call, 45_000),
    "lsnms": (lsnms_call, 100_000),
    "powerboxes": (powerboxes_call, 100_000),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", choices=PRESETS, default="parking_lot")
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="leave out sizes above this")
    parser.add_argument("--iou", type=float, nargs="+", default=[0.5, 0.7], help="the IoU thresholds")
    arguments = parser.parse_args()

    peers = [name for name in PEERS if find_spec(name)]
    table = Table(title=f"nms, {arguments.preset}, float32, one thread")
    for column in ("boxes", "background", "IoU", "kept", "ns per box", *(f"{peer} / nms" for peer in peers)):
        table.add_column(column, justify="right")
    sizes = [size for size in SIZES if size <= arguments.largest]
    cases = [(size, background, iou) for size in sizes for background in (0.3, 0.05) for iou in arguments.iou]
    with Progress(transient=True) as progress:
        for case in progress.track(cases, description="measuring"):
            table.add_row(*measure(arguments.preset, *case, peers))
    console = Console(width=140)
    console.print(table)
    console.print(f"{platform.processor() or platform.machine()}, NumPy {np.__version__}")


def measure(preset: str, size: int, background: float, iou_threshold: float, peers: list[str]) -> list[str]:
    """One row of the table."""
    scene = make_scene(preset, size, background=background)
    data = scene.boxes, scene.scores, iou_threshold
    keep = hashnms.nms(*data)
    calls = {name: PEERS[name][0](*data) for name in peers if size <= PEERS[name][1]}
    few = slice(0, 5000)
    expected = calls["torchvision"]() if "torchvision" in calls else None
    if expected is None:
        keep_few = hashnms.nms(scene.boxes[few], scene.scores[few], iou_threshold)
        right = np.array_equal(keep_few, hashnms.reference.nms(scene.boxes[few], scene.scores[few], iou_threshold)[0])
    else:
        right = np.array_equal(keep, expected)
    if not right:
        raise SystemExit(f"nms of {size:,} boxes at {iou_threshold} differs: nothing is timed")
    best = shortest({"nms": lambda: hashnms.nms(*data), **calls}, rounds=max(1, min(50, 20_000 // size)))
    ratios = [f"{best[name] / best['nms']:.1f}x" if name in best else "" for name in peers]
    return [
        f"{size:,}",
        f"{background:.0%}",
        f"{iou_threshold:g}",
        f"{len(keep) / size:.0%}",
        f"{best['nms'] / size * 1e9:.1f}",
        *ratios,
    ]


if __name__ == "__main__":
    main()
