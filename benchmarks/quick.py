"""Check for slowdowns: a part of `python -m benchmarks` in two minutes, compared with the committed results.

    python -m benchmarks.quick

It compares ratios of one run with ratios of another, because machines and their load differ. Fails if a ratio has
fallen by more than half.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks import workloads
from benchmarks.__main__ import on_one_thread
from benchmarks.compare import Result, Series
from benchmarks.families import hnms_is_right, nms_is_right, soft_nms_is_right
from benchmarks.peers import HNMS, LABELLED_NMS, NMS, OUR_HNMS, OUR_NMS, OUR_SOFT_NMS, SOFT_NMS, Peer, Workload
from benchmarks.record import COMMITTED, load
from benchmarks.tables import Family

LEAST_SHARE = 0.5
#: Peers that are quick themselves.
PEERS = ["torchvision", "lsnms", "powerboxes nms", "OpenCV", "onnxruntime", "plain loop", "plain hash map"]


class Ratio(NamedTuple):
    """How many times as long as ours a peer takes, before and now."""

    family: str
    workload: tuple[str, int]
    peer: str
    committed: float
    now: float

    @property
    def share(self) -> float:
        """The present ratio over the committed one."""
        return self.now / self.committed


def runs() -> list[tuple[str, Series, list[Workload]]]:
    def series(ours: Peer, peers: list[Peer], is_right: Callable[[Workload, Any], bool]) -> Series:
        return Series(ours, [peer for peer in peers if peer.name in PEERS and peer.installed()], is_right)

    def scenes(iou_threshold: float) -> list[Workload]:
        return list(workloads.scenes("parking_lot", workloads.sizes_to(45_000), iou_threshold))

    return [
        ("nms-0.5", series(OUR_NMS, NMS, nms_is_right), scenes(0.5)),
        ("nms-0.7", series(OUR_NMS, NMS, nms_is_right), scenes(0.7)),
        ("soft-nms", series(OUR_SOFT_NMS, SOFT_NMS, soft_nms_is_right), scenes(0.5)[:-1]),
        ("hnms", series(OUR_HNMS, HNMS, hnms_is_right), scenes(0.5)),
        ("classes", series(OUR_NMS, LABELLED_NMS, nms_is_right), list(workloads.classes(45_000))[2:3]),
    ]


def ratios(committed: Family, family: str, results: list[Result]) -> Iterator[Ratio]:
    ours = results[0].best
    for result in results[1:]:
        work = result.workload, result.boxes
        before = committed.ratio(work, result.peer)
        if before and result.best and ours:
            yield Ratio(family, work, result.peer, before, result.best / ours)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, default=COMMITTED, help="results of python -m benchmarks")
    families = load(parser.parse_args().against)["families"]
    on_one_thread()
    found: list[Ratio] = []
    console = Console()
    for name, series, works in runs():
        committed = Family(families[name]["results"])
        for work in track(works, description=f"{name} …", console=console, transient=True):
            found += ratios(committed, name, series.run(work, rounds=7))
    if not found:
        raise SystemExit(
            "there is nothing to compare: no peer is installed, or the committed results have other workloads"
        )
    fallen = [ratio for ratio in found if ratio.share < LEAST_SHARE]
    console.print(table(found))
    if fallen:
        named = "; ".join(f"{one.family}, {one.workload[1]:,} boxes, {one.peer}" for one in fallen)
        raise SystemExit(f"fell by more than half: {named}")
    console.print(f"none of {len(found)} ratios fell by more than half")


def table(found: list[Ratio]) -> Table:
    shown = Table("family", "workload", "boxes", "peer", "committed", "now", "share")
    for one in found:
        mark = "red" if one.share < LEAST_SHARE else ""
        name, size = one.workload
        numbers = [f"{one.committed:.2f}x", f"{one.now:.2f}x", f"{one.share:.0%}"]
        shown.add_row(one.family, name, f"{size:,}", one.peer, *numbers, style=mark)
    return shown


if __name__ == "__main__":
    main()
