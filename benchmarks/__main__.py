"""Compare hashnms with its peers: `make bench`, or `python -m benchmarks --help`.

All installed peers run in one process, each on one thread, in interleaved rounds. Every answer is checked before its
time counts. The results go to a JSON file, from which `benchmarks.page` makes a page of tables and plots.
"""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Iterator
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import hashnms
from benchmarks import families, quality
from benchmarks.compare import Result
from benchmarks.families import FAMILIES
from benchmarks.memory import peaks
from benchmarks.record import load, save

PACKAGES = ["torch", "torchvision", "ultralytics", "lsnms", "powerboxes", "opencv-python-headless", "supervision"]
PACKAGES += ["ensemble-boxes", "onnxruntime", "numpy", "faster-coco-eval"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=FAMILIES, default=list(FAMILIES), help="measure only these tables")
    parser.add_argument("--largest", type=int, default=10**7, help="leave out workloads with more boxes")
    parser.add_argument(
        "--real", type=Path, metavar="DIR", help="also measure the images in DIR/*/*.npz (benchmarks.quality)"
    )
    parser.add_argument("--images", type=int, default=1, help="images of each real set to time (default: 1)")
    parser.add_argument(
        "--memory", type=int, default=100_000, metavar="N", help="boxes for peak memory; 0: do not measure"
    )
    parser.add_argument(
        "--again", action="store_true", help="measure these tables again and keep the rest of the output"
    )
    parser.add_argument("--output", type=Path, default=Path("benchmarks.json"), help="where the results go")
    arguments = parser.parse_args()

    on_one_thread()
    runs = {name: (FAMILIES[name][0], FAMILIES[name][1](arguments.largest)) for name in arguments.only}
    if arguments.real:
        runs["real"] = ("Real detections, IoU 0.5, by class", families.real(arguments.real, arguments.images))
    console = Console(width=150)
    record: dict[str, Any] = {"families": {}}
    if arguments.again:
        if not arguments.output.exists():
            parser.error(
                f"--again needs the results of an earlier run in --output, got {arguments.output}, which does not exist"
            )
        record = load(arguments.output)
        if (record["machine"], record["versions"]) != (machine(), versions()):
            raise SystemExit(f"{arguments.output} is from another machine or other versions: nothing is measured")
    record |= {"machine": machine(), "versions": versions()}
    for name, (title, run) in runs.items():
        results = [result for of_workload in shown(console, title, run) for result in of_workload]
        record["families"][name] = {"title": title, "results": [asdict(result) for result in results]}
        save(record, arguments.output)  # so that finished tables are not lost
    if arguments.real:
        record["quality"] = {}
        for directory in quality.sets_with_truth(arguments.real):
            record["quality"][directory.name] = quality.quality(directory)
            save(record, arguments.output)
    if arguments.memory:
        with console.status("peak memory …"):
            record["memory"] = {"boxes": arguments.memory, "bytes": peaks(arguments.memory)}
        save(record, arguments.output)
    console.print(
        f"{arguments.output} has the results; python -m benchmarks.page {arguments.output} makes a page from them"
    )


def on_one_thread() -> None:
    """Set variables that peers read when they are imported."""
    for variable in ("OMP_NUM_THREADS", "RAYON_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = "1"
    hashnms.set_num_threads(1)


def shown(console: Console, title: str, runs: Iterator[list[Result]]) -> Iterator[list[Result]]:
    """The same results; prints a table of each workload when it is done."""
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


def machine() -> str:
    processor = Path("/proc/cpuinfo")
    is_virtual = processor.exists() and "hypervisor" in processor.read_text(encoding="utf-8")
    kind = f"{platform.machine()} virtual machine" if is_virtual else platform.machine()
    return f"{os.cpu_count()}-core {kind}, Python {platform.python_version()}"


def versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    main()
