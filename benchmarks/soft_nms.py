"""Time soft_nms: `python -m benchmarks.soft_nms --help`.

Gaussian Soft-NMS (sigma 0.5, min_score 0.001) on one thread, and how many times as long others take. These are the
plain O(N**2) loop, compiled (plain_loops.cpp, with the machine's C++ compiler), whose answer ours must equal in every
bit, and OpenCV and ensemble-boxes, if installed, which select as many boxes. Then how the time grows, and what HNMS
before it gains, next to the figures in the paper's appendix.
"""

from __future__ import annotations

import argparse
import platform
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import hashnms
from benchmarks.peers import MIN_SCORE, SIGMA, SOFT_NMS, Call, Peer, Workload
from benchmarks.plain import plain_soft_nms
from benchmarks.timing import shortest
from hashnms import Hnms, SoftNms, Suppression, soft_nms
from hashnms.synthetic import PRESETS, Scene, make_scene

SIZES = [100, 1000, 9000, 45_000, 100_000]
FEW = 1000
#: The speed-ups in the paper's appendix for HNMS, alpha 0.73, before Soft-NMS: by K, on CARPK, SKU-110K and CrowdHuman.
PAPER = {1: (4.00, 3.40, 2.52), 2: (5.62, 5.43, 3.85), 3: (7.41, 6.77, 4.77), 4: (8.57, 7.94, 5.53)}


def plain(boxes: Any, scores: Any, most: int) -> Call:
    return plain_soft_nms(Workload("", boxes, scores), SIGMA, MIN_SCORE, most, with_scores=True)


#: The most boxes that a peer can handle within a minute.
LARGEST = {"OpenCV": 45_000, "ensemble-boxes": 9000}


def check(scene: Scene, peers: list[Peer]) -> None:
    for peer in peers:
        selected = len(peer.call(Workload("", scene.boxes, scene.scores))())
        expected = len(soft_nms(scene.boxes, scene.scores)[0])
        if abs(selected - expected) > 0.02 * expected:  # OpenCV's boxes are rounded
            raise SystemExit(f"{peer.name} selects {selected:,} of {len(scene.boxes):,} boxes, not {expected:,}")
    for most in (FEW, len(scene.boxes)):
        keep, decayed = soft_nms(scene.boxes, scene.scores, max_output=most)
        expected_keep, expected_decayed = plain(scene.boxes, scene.scores, most)()
        if not np.array_equal(keep, expected_keep) or decayed.tobytes() != expected_decayed.tobytes():
            raise SystemExit(f"soft_nms of {len(scene.boxes):,} boxes differs from the plain loop: nothing is timed")


def against_peers(preset: str, sizes: list[int]) -> Table:
    installed = [peer for peer in SOFT_NMS if peer.name in LARGEST and peer.installed()]
    table = Table(title=f"soft_nms, {preset}, gaussian, sigma {SIGMA}, min_score {MIN_SCORE}, float32, one thread")
    columns = ["boxes", "selected", "ns per box", "plain loop / ours"]
    columns += [f"{peer.name} / ours" for peer in installed]
    columns += [f"max_output={FEW}: selected", "ns per box", "plain loop, all / ours", "plain loop, same limit / ours"]
    for column in columns:
        table.add_column(column, justify="right")
    for size in track(sizes, description="peers", transient=True):
        scene = make_scene(preset, size)
        check(scene, installed if size <= 1000 else [])
        data = scene.boxes, scene.scores
        calls: dict[str, Call] = {
            "ours": partial(soft_nms, *data),
            "few": partial(soft_nms, *data, max_output=FEW),
            "plain": plain(*data, size),
            "plain few": plain(*data, FEW),
        }
        calls |= {peer.name: peer.call(Workload("", *data)) for peer in installed if size <= LARGEST[peer.name]}
        best = shortest(calls, rounds=max(4, min(20, 40_000 // size)))
        selected = len(soft_nms(*data)[0])
        table.add_row(
            f"{size:,}",
            f"{selected:,}",
            f"{best['ours'] / size * 1e9:.0f}",
            f"{best['plain'] / best['ours']:.1f}x",
            *(f"{best[peer.name] / best['ours']:.0f}x" if peer.name in best else "" for peer in installed),
            f"{min(selected, FEW):,}",
            f"{best['few'] / size * 1e9:.0f}",
            f"{best['plain'] / best['few']:.1f}x",
            f"{best['plain few'] / best['few']:.1f}x",
        )
    return table


def on_threads(num_threads: int, *arrays: Any) -> Call:
    def call() -> Any:
        hashnms.set_num_threads(num_threads)
        boxes, scores, labels = arrays
        return soft_nms(boxes, scores, labels=labels)

    return call


def growth(preset: str) -> Table:
    """The time at constant density, where objects grow with boxes; and the gain from threads over labels."""
    smallest, *_ = sizes = [9000, 45_000, 100_000, 1_000_000]
    calls: dict[str, Call] = {}
    for size in sizes:
        scene = make_scene(preset, size, num_objects=round(PRESETS[preset].num_objects * size / smallest))
        calls[f"{size}"] = on_threads(1, scene.boxes, scene.scores, None)
        calls[f"{size} one"] = on_threads(1, scene.boxes, scene.scores, scene.labels)
        calls[f"{size} two"] = on_threads(2, scene.boxes, scene.scores, scene.labels)
    best = shortest(calls, rounds=6)
    hashnms.set_num_threads(1)
    table = Table(title=f"soft_nms, {preset}, {smallest // PRESETS[preset].num_objects} boxes an object at every size")
    for column in ("boxes", "ns per box", f"against {smallest:,}", "3 labels: ns per box", "one / two threads"):
        table.add_column(column, justify="right")
    for size in sizes:
        table.add_row(
            f"{size:,}",
            f"{best[f'{size}'] / size * 1e9:.0f}",
            f"{best[f'{size}'] / size / (best[f'{smallest}'] / smallest):.2f}x",
            f"{best[f'{size} one'] / size * 1e9:.0f}",
            f"{best[f'{size} one'] / best[f'{size} two']:.2f}x",
        )
    return table


def with_hnms(size: int) -> Table:
    """The paper's appendix: HNMS with alpha 0.73 before Soft-NMS, on the densities of its three datasets."""
    table = Table(title=f"HNMS 0.73/K before Soft-NMS, {size:,} boxes: how many times as fast as Soft-NMS alone")
    columns = ("K", "scene", "kept by HNMS", "plain loop", "the paper", "ours", "selected in common: recall, precision")
    for column in columns:
        table.add_column(column, justify="right")
    presets = {"parking_lot": "CARPK", "shelf": "SKU-110K", "crowd": "CrowdHuman"}
    for place, (preset, dataset) in enumerate(presets.items()):
        scene = make_scene(preset, size)
        data = scene.boxes, scene.scores
        alone = Suppression([SoftNms()])(*data).keep
        for num_hashes, factors in PAPER.items():
            chain = Suppression([Hnms(0.73, num_hashes), SoftNms()])
            hashed = np.sort(hashnms.hnms(*data, alpha=0.73, num_hashes=num_hashes))
            fewer = scene.boxes[hashed], scene.scores[hashed]
            keep = chain(*data).keep
            if not np.array_equal(keep, hashed[plain(*fewer, size)()[0]]):
                raise SystemExit(f"{chain} differs from HNMS and the plain loop: nothing is timed")
            calls = {
                "hnms": partial(hashnms.hnms, *data, alpha=0.73, num_hashes=num_hashes),
                "plain": plain(*data, size),
                "plain fewer": plain(*fewer, size),
                "ours": partial(soft_nms, *data),
                "chain": partial(chain, *data),
            }
            best = shortest(calls, rounds=4)
            agreed = hashnms.evaluate.agreement(keep, alone)
            table.add_row(
                f"{num_hashes}",
                f"{preset} ({dataset})",
                f"{len(hashed) / size:.0%}",
                f"{best['plain'] / (best['hnms'] + best['plain fewer']):.2f}x",
                f"{factors[place]:.2f}x",
                f"{best['ours'] / best['chain']:.2f}x",
                f"{agreed.recall:.0%}, {agreed.precision:.0%}",
            )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", choices=PRESETS, default="parking_lot")
    parser.add_argument("--largest", type=int, default=45_000, help="leave out sizes above this (default: 45000)")
    arguments = parser.parse_args()

    hashnms.set_num_threads(1)
    console = Console(width=140)
    sizes = [size for size in SIZES if size <= arguments.largest]
    console.print(against_peers(arguments.preset, sizes))
    console.print(growth(arguments.preset))
    console.print(with_hnms(sizes[-1]))
    console.print(f"{platform.processor() or platform.machine()}, NumPy {np.__version__}")


if __name__ == "__main__":
    main()
