"""Time hashnms on tensors: `python -m benchmarks.gpu --help`.

On a GPU (`--device cuda`, the default if there is one): HNMS with Triton kernels and in plain torch operations, the
exact nms of hashnms, which copies the boxes to the host and back, and torchvision's nms, with the GPU memory that each
takes. Without a GPU, the same plain operations run on one CPU thread, and `hnms` is the core. Every answer is checked
against the core's before its time counts. The last line shows how much more a call with tensors costs on the CPU than
one with arrays.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import hashnms
from benchmarks.timing import shortest
from hashnms.hashing import hash_family
from hashnms.synthetic import PRESETS, make_scene
from hashnms.torch import portable
from hashnms.torch.device import DeviceCandidates

try:
    import torchvision
except ImportError:
    torchvision = None

SIZES = [10**3, 9_000, 45_000, 10**5, 10**6]
TORCHVISION_LIMIT = {"cpu": 45_000, "cuda": 10**5}  # beyond, it takes seconds, and N**2 / 8 bytes
HASHES = (1, 4)
IOU_THRESHOLD = 0.7


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--preset", choices=PRESETS, default="parking_lot")
    parser.add_argument("--alpha", type=float, default=0.7)
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="leave out sizes above this")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    if device.type == "cpu":
        torch.set_num_threads(1)
        hashnms.set_num_threads(1)

    console = Console()
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else f"{platform.machine()} {device.type}"
    table = Table(title=f"{name}, torch {torch.__version__}, {arguments.preset}, alpha {arguments.alpha:g}")
    for column in ("boxes", "method", "ms", "MiB", "torchvision / it"):
        table.add_column(column, justify="left" if column == "method" else "right")
    sizes = [size for size in SIZES if size <= arguments.largest]
    with Progress(console=console, transient=True) as progress:
        for size in progress.track(sizes, description="measuring"):
            for row in measure(size, device, arguments.preset, arguments.alpha):
                table.add_row(*row)
            table.add_section()
    console.print(table)
    console.print(f"10 boxes on the CPU, tensors against arrays: {call_overheads()}")


def measure(size: int, device: torch.device, preset: str, alpha: float) -> Iterator[tuple[str, ...]]:
    """Rows of the table, one for each method."""
    scene = make_scene(preset, size)
    boxes, scores = torch.from_numpy(scene.boxes).to(device), torch.from_numpy(scene.scores).to(device)
    calls: dict[str, Callable[[], Any]] = {}
    for num_hashes in HASHES:
        settings = {"alpha": alpha, "num_hashes": num_hashes}
        calls[f"hnms K={num_hashes}"] = lambda settings=settings: hashnms.hnms(boxes, scores, **settings)
        calls[f"plain torch K={num_hashes}"] = lambda settings=settings: plain_hnms(boxes, scores, **settings)
        expected = hashnms.hnms(scene.boxes, scene.scores, **settings)
        for name in list(calls)[-2:]:
            assert np.array_equal(calls[name]().cpu().numpy(), expected), name
    exact = hashnms.nms(scene.boxes, scene.scores, IOU_THRESHOLD)
    calls["nms"] = lambda: hashnms.nms(boxes, scores, IOU_THRESHOLD)
    assert np.array_equal(calls["nms"]().cpu().numpy(), exact)
    note = ""
    if torchvision and size <= TORCHVISION_LIMIT.get(device.type, 0):
        calls["torchvision"] = lambda: torchvision.ops.nms(boxes, scores, IOU_THRESHOLD)
        if not np.array_equal(calls["torchvision"]().cpu().numpy(), exact):
            note = " (other boxes)"  # on CUDA it compares with a threshold in float32
    times = shortest({name: finished(call, device) for name, call in calls.items()}, rounds=5)
    for name, time in times.items():
        ratio = f"{times['torchvision'] / time:,.1f}x" if "torchvision" in times else ""
        shown = name + note if name == "torchvision" else name
        yield f"{size:,}", shown, f"{1e3 * time:.3g}", memory_of(calls[name], device), ratio


def plain_hnms(boxes: torch.Tensor, scores: torch.Tensor, alpha: float, num_hashes: int) -> torch.Tensor:
    """HNMS in plain torch operations, on any device."""
    given = DeviceCandidates.plain(boxes, scores, None, "xyxy")
    assert given is not None
    rows, fits = portable.hnms(*given[:3], hash_family(alpha, num_hashes), given.box_format)
    assert bool(fits)
    return rows


def finished(call: Callable[[], Any], device: torch.device) -> Callable[[], None]:
    """The call, followed by waiting for the device."""

    def run() -> None:
        call()
        if device.type != "cpu":
            torch.accelerator.synchronize(device)

    return run


def memory_of(call: Callable[[], Any], device: torch.device) -> str:
    """The peak memory that a call takes on a GPU in addition to its input."""
    if device.type != "cuda":
        return ""
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    call()
    return f"{(torch.cuda.max_memory_allocated(device) - before) / 2**20:.3g}"


def call_overheads() -> str:
    """How much longer a call takes with tensors than with arrays, in microseconds, for each function."""
    scene = make_scene("parking_lot", 10)
    arrays = scene.boxes, scene.scores, scene.labels
    tensors = tuple(map(torch.from_numpy, arrays))
    times = shortest(
        {
            f"{name} {kind}": repeated(function, values)
            for name, function in SMALL_CALLS.items()
            for kind, values in (("arrays", arrays), ("tensors", tensors))
        },
        rounds=30,
    )
    more = {name: (times[f"{name} tensors"] - times[f"{name} arrays"]) * 1e6 / _REPEATS for name in SMALL_CALLS}
    return ", ".join(f"{name} +{microseconds:.1f} us" for name, microseconds in more.items())


_CHAIN = hashnms.Suppression.parse("hnms:0.7/1+nms:0.5")

#: Functions to call with boxes, scores and labels.
SMALL_CALLS: dict[str, Callable[..., Any]] = {
    "hnms": lambda boxes, scores, _: hashnms.hnms(boxes, scores),
    "nms": lambda boxes, scores, _: hashnms.nms(boxes, scores),
    "batched_nms": lambda boxes, scores, labels: hashnms.batched_nms(boxes, scores, labels, 0.5),
    "nms with suppressor": lambda boxes, scores, _: hashnms.nms(boxes, scores, return_suppressor=True),
    "soft_nms": lambda boxes, scores, _: hashnms.soft_nms(boxes, scores),
    "soft_nms hard": lambda boxes, scores, _: hashnms.soft_nms(boxes, scores, method="hard"),
    "iou_hash": lambda boxes, *_: hashnms.iou_hash(boxes, alpha=0.7),
    "Suppression": lambda boxes, scores, _: _CHAIN(boxes, scores),
}

_REPEATS = 1000


def repeated(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Callable[[], None]:
    def run() -> None:
        for _ in range(_REPEATS):
            function(*arguments)

    return run


if __name__ == "__main__":
    main()
