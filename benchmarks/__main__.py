"""hashnms beside its peers: `make bench`, or `python -m benchmarks --help`.

Every peer that is installed, in one process on one thread each, in interleaved rounds; every answer is looked at before
its time counts. The results go to a JSON file, from which `benchmarks.page` makes a page of tables.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import hashnms
from benchmarks import workloads
from benchmarks.compare import Result, Series
from benchmarks.memory import peak_bytes
from benchmarks.peers import LABELLED_NMS, MIN_SCORE, NMS, OUR_NMS, OUR_SOFT_NMS, SIGMA, SOFT_NMS, Peer
from benchmarks.plain import plain_nms, plain_soft_nms

PACKAGES = ["torch", "torchvision", "ultralytics", "lsnms", "powerboxes", "opencv-python-headless", "supervision"]
PACKAGES += ["ensemble-boxes", "onnxruntime", "numpy"]
#: Up to so many boxes our answer is held against the plain loop; beyond, it has been shown on smaller ones.
CHECKED = 45_000


def nms_is_right(work: Any, rows: Any) -> bool:
    return len(work.boxes) > CHECKED or np.array_equal(rows, plain_nms(work)())


def soft_nms_is_right(work: Any, rows: Any) -> bool:
    return len(work.boxes) > CHECKED or np.array_equal(rows, plain_soft_nms(work, SIGMA, MIN_SCORE)())


def nms_series(peers: list[Peer]) -> Series:
    return Series(OUR_NMS, [peer for peer in peers if peer.installed()], nms_is_right)


def by_size(largest: int, iou_threshold: float, preset: str = "parking_lot") -> Iterator[list[Result]]:
    series = nms_series(NMS)
    sizes = [size for size in workloads.SIZES if size <= largest]
    for work in workloads.scenes(preset, sizes, iou_threshold):
        yield series.run(work)


def worst(largest: int) -> Iterator[list[Result]]:
    for iou_threshold in (0.05, 0.5, 0.95):
        works = list(workloads.worst_cases([min(10_000, largest)], iou_threshold))
        for work in works:
            yield nms_series(NMS).run(work, rounds=5)


def classes(largest: int) -> Iterator[list[Result]]:
    for work in workloads.classes(min(45_000, largest)):
        yield nms_series(LABELLED_NMS).run(work, rounds=7)


def batches(largest: int) -> Iterator[list[Result]]:
    numbers = [number for number in (1, 8, 64) if 1000 * number <= largest]
    for work in workloads.batches(1000, numbers):
        yield nms_series(LABELLED_NMS).run(work, rounds=7)


def soft_by_size(largest: int) -> Iterator[list[Result]]:
    series = Series(OUR_SOFT_NMS, [peer for peer in SOFT_NMS if peer.installed()], soft_nms_is_right)
    sizes = [size for size in workloads.SIZES if size <= min(largest, 1_000_000)]
    for work in workloads.scenes("parking_lot", sizes, 0.5):
        yield series.run(work, rounds=7)


def real(folder: Path, images: int) -> Iterator[list[Result]]:
    """The first images of each set: one series an image, for their sizes differ."""
    for directory in sorted(path for path in folder.iterdir() if path.is_dir()):
        works = (work for work in workloads.real_images(folder) if work.name == directory.name)
        for work in islice(works, images):
            yield nms_series(LABELLED_NMS).run(work, rounds=5)


FAMILIES: dict[str, tuple[str, Callable[[int], Iterator[list[Result]]]]] = {
    "nms at 0.5": ("Exact NMS at IoU 0.5", lambda largest: by_size(largest, 0.5)),
    "nms at 0.7": ("Exact NMS at IoU 0.7", lambda largest: by_size(largest, 0.7)),
    "worst": ("Worst cases of exact NMS", worst),
    "classes": ("Exact NMS with classes", classes),
    "batches": ("Several images in one call", batches),
    "soft_nms": ("Soft-NMS, gaussian", soft_by_size),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=FAMILIES, default=list(FAMILIES), help="some of the tables")
    parser.add_argument("--largest", type=int, default=10**7, help="leave out workloads of more boxes")
    parser.add_argument("--real", type=Path, metavar="DIR", help="also the images in DIR/*/*.npz")
    parser.add_argument("--images", type=int, default=3, help="of each real set at most so many (default: 3)")
    parser.add_argument("--memory", type=int, default=100_000, metavar="N", help="peak memory with N boxes; 0: none")
    parser.add_argument("--output", type=Path, default=Path("benchmarks.json"), help="where the results go")
    arguments = parser.parse_args()

    for variable in ("OMP_NUM_THREADS", "RAYON_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[variable] = "1"  # before a peer is imported that starts threads
    hashnms.set_num_threads(1)
    families = {name: (title, run(arguments.largest)) for name, (title, run) in FAMILIES.items()}
    families = {name: families[name] for name in arguments.only}
    if arguments.real:
        families["real"] = ("Real detections, IoU 0.5, by class", real(arguments.real, arguments.images))
    console = Console(width=150)
    record: dict[str, Any] = {"machine": machine(), "versions": versions(), "families": {}}
    for name, (title, runs) in families.items():
        results = [result for run in shown(console, title, runs) for result in run]
        record["families"][name] = {"title": title, "results": [asdict(result) for result in results]}
        save(record, arguments.output)  # what is done is not lost
    if arguments.memory:
        with console.status("peak memory …"):
            record["memory"] = {"boxes": arguments.memory, "bytes": memory(arguments.memory)}
        save(record, arguments.output)
        for kind, peers in record["memory"]["bytes"].items():
            for peer, taken in peers.items():
                console.print(
                    f"{kind}: {peer} takes {'?' if taken is None else f'{taken / arguments.memory:.0f}'} bytes a box"
                )


def shown(console: Console, title: str, runs: Iterator[list[Result]]) -> Iterator[list[Result]]:
    """The same, with a table of each workload as it is done."""
    while True:
        with console.status(f"{title} …"):
            results = next(runs, None)
        if results is None:
            return
        ours = results[0]
        table = Table(title=f"{title}: {ours.workload}, {ours.boxes:,} boxes")
        for column in ("", "best", "median", "against ours", "answer"):
            table.add_column(column, justify="left" if column in ("", "answer") else "right")
        for result in results:
            if result.best is None or result.median is None or ours.best is None:
                table.add_row(result.peer, "", "", "", result.answer)
            else:
                times = [f"{1e6 * seconds:,.1f} us" for seconds in (result.best, result.median)]
                table.add_row(result.peer, *times, f"{result.best / ours.best:.2f}x", result.answer)
        console.print(table)
        yield results


def memory(size: int) -> dict[str, dict[str, int | None]]:
    """Of all that do so many boxes in time and memory."""
    slow = ("ultralytics", "supervision", "ensemble-boxes", "plain loop", "OpenCV")
    nms_peers = [OUR_NMS, *(peer for peer in NMS if peer.installed() and peer.name not in slow)]
    return {"nms": {peer.name: peak_bytes("nms", peer.name, size) for peer in nms_peers}}


def machine() -> str:
    return f"{os.cpu_count()}-core {platform.machine()}, Python {platform.python_version()}"


def versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def save(record: dict[str, Any], path: Path) -> None:
    """Beside, then into place."""
    beside = path.with_name(path.name + ".new")
    beside.write_text(json.dumps(record, indent=1), encoding="utf-8")
    beside.replace(path)


if __name__ == "__main__":
    main()
