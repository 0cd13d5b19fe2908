"""Quality: mean average precision on real detections, in the form of the paper's tables and figures.

    python -m benchmarks.quality DIR

DIR holds sets of images, DIR/*/*.npz, each with boxes, scores and labels, and gt_boxes, gt_labels and gt_ignore. Sets
without ground truth are left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.compare import interleaved
from benchmarks.later_algorithms import LATER, matrix_nms
from benchmarks.peers import Peer, Workload
from benchmarks.workloads import real_sets
from hashnms import Suppression
from hashnms.evaluate import agreement, average_precision, matched_agreement

ALPHAS, HASHES = [0.5, 0.6, 0.7, 0.73, 0.8, 0.9], [1, 2, 3, 4]
#: The numbers of candidates, P1 in the paper; and the number of boxes returned.
MOST_IN, MOST_OUT = [100, 300, 1000, 2000, 4000, 9000], 1000
IOU_THRESHOLD = 0.5
#: Parameters of the methods that are measured over P1.
ALPHA, NUM_HASHES = 0.73, 1

Suppress = Callable[[Any, Any, Any], tuple[Any, Any]]  # boxes, scores, labels to rows and their scores


class Image(NamedTuple):
    """Raw detections and ground truth."""

    boxes: Any
    scores: Any
    labels: Any
    truth: tuple[Any, Any, Any]


class Setting(NamedTuple):
    """A method and its parameters."""

    method: str
    alpha: float | None = None
    num_hashes: int | None = None
    most_in: int = MOST_IN[-1]


def images_of(directory: Path) -> list[Image]:
    """All images of a set, or none if one has no ground truth."""
    found = []
    for file in sorted(directory.glob("*.npz")):
        with np.load(file) as image:
            if "gt_boxes" not in image:
                return []
            truth = image["gt_boxes"], image["gt_labels"], image["gt_ignore"]
            arrays = np.float32(image["boxes"]), np.float32(image["scores"]), np.int64(image["labels"])
            found.append(Image(*arrays, truth))
    return found


def chain(*steps: str, most_in: int = MOST_IN[-1]) -> Suppress:
    return Suppression.parse("+".join([f"top:{most_in}", *steps, f"limit:{MOST_OUT}"]))


def methods(alpha: float, num_hashes: int, most_in: int = MOST_IN[-1]) -> dict[Setting, Suppress]:
    """The paper's methods: HNMS instead of NMS, before NMS, and before Soft-NMS."""
    hnms, exact = f"hnms:{alpha}/{num_hashes}", f"nms:{IOU_THRESHOLD}"
    hashed = alpha, num_hashes, most_in
    return {
        Setting("NMS", most_in=most_in): chain(exact, most_in=most_in),
        Setting("HNMS", *hashed): chain(hnms, most_in=most_in),
        Setting("HNMS + NMS", *hashed): chain(hnms, exact, most_in=most_in),
        Setting("Soft-NMS", most_in=most_in): chain("softnms", most_in=most_in),
        Setting("HNMS + Soft-NMS", *hashed): chain(hnms, "softnms", most_in=most_in),
    }


def let_in(suppress: Suppress) -> Suppress:
    """Apply a method to the best MOST_IN[-1] boxes of each class, and return the first MOST_OUT."""
    best = Suppression.parse(f"top:{MOST_IN[-1]}")

    def of_the_best(boxes: Any, scores: Any, labels: Any) -> tuple[Any, Any]:
        rows = np.sort(best(boxes, scores, labels)[0])
        keep, lowered = suppress(boxes[rows], scores[rows], labels[rows])
        return rows[keep[:MOST_OUT]], lowered[:MOST_OUT]

    return of_the_best


def later(peer: Peer) -> Suppress:
    def suppress(boxes: Any, scores: Any, labels: Any) -> tuple[Any, Any]:
        keep = peer.call(Workload("", boxes, scores, labels, IOU_THRESHOLD))()
        return keep, scores[keep]

    return let_in(suppress)


def matrix(boxes: Any, scores: Any, labels: Any) -> tuple[Any, Any]:
    """Matrix NMS keeps all boxes and lowers scores."""
    lowered = np.empty_like(scores)
    for label in np.unique(labels):
        of_label = np.flatnonzero(labels == label)
        places, values = matrix_nms(boxes[of_label], scores[of_label])
        lowered[of_label[places]] = values
    keep = np.argsort(-lowered, kind="stable")
    return keep, lowered[keep]


def evaluated(
    images: list[Image], suppressions: dict[Setting, Suppress], with_agreement: bool
) -> Iterator[dict[str, Any]]:
    """For each method: seconds for all images, the boxes left, and average precision and recall."""
    kept: dict[Setting, list[tuple[Any, Any]]] = {}

    def timed(setting: Setting) -> Callable[[], None]:
        def call() -> None:
            kept[setting] = [suppressions[setting](image.boxes, image.scores, image.labels) for image in images]

        return call

    times = interleaved({setting: timed(setting) for setting in suppressions}, rounds=15)
    truths = [image.truth for image in images]
    for setting, seconds in track(times.items(), description="average precision …", transient=True):
        pairs = zip(images, kept[setting], strict=True)
        found = [(image.boxes[rows], scores, image.labels[rows]) for image, (rows, scores) in pairs]
        measured = average_precision(found, truths, max_detections=MOST_OUT)
        yield {
            **setting._asdict(),
            "seconds": min(seconds),
            "boxes": sum(len(rows) for rows, _ in kept[setting]),
            "map_50": measured.map_50,
            "map": measured.map,
            "recall_50": measured.recall_50,
        } | (agreements(images, [rows for rows, _ in kept[setting]]) if with_agreement else {})


def agreements(images: list[Image], kept: list[Any]) -> dict[str, float]:
    """Agreement with exact NMS with the same numbers of boxes in and out: means over the images."""
    exact = chain(f"nms:{IOU_THRESHOLD}")
    same, matched = [], []
    for image, rows in zip(images, kept, strict=True):
        of_nms = exact(image.boxes, image.scores, image.labels)[0]
        same.append(agreement(rows, of_nms))
        matched.append(matched_agreement(rows, of_nms, image.boxes, image.labels, iou_threshold=IOU_THRESHOLD))
    return {
        "recall_of_nms": float(np.mean([one.recall for one in same])),
        "precision_of_nms": float(np.mean([one.precision for one in same])),
        "matched_recall_of_nms": float(np.mean([one.recall for one in matched])),
        "matched_precision_of_nms": float(np.mean([one.precision for one in matched])),
    }


def quality(directory: Path) -> dict[str, list[dict[str, Any]]]:
    """The results of one set: over alpha and K, over P1, and of later algorithms."""
    images = images_of(directory)
    over_hashes: dict[Setting, Suppress] = {}
    for alpha in ALPHAS:
        for num_hashes in HASHES:
            over_hashes |= methods(alpha, num_hashes)
    over_most_in: dict[Setting, Suppress] = {}
    for most_in in MOST_IN:
        over_most_in |= methods(ALPHA, NUM_HASHES, most_in)
    others = methods(ALPHA, NUM_HASHES)
    others |= {Setting(peer.name): later(peer) for peer in LATER} | {Setting("Matrix NMS"): let_in(matrix)}
    groups = {"over_hashes": over_hashes, "over_most_in": over_most_in, "later": others}
    return {name: list(evaluated(images, group, group is others)) for name, group in groups.items()}


def sets_with_truth(folder: Path) -> list[Path]:
    return [directory for directory in real_sets(folder) if images_of(directory)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="DIR")
    for directory in sets_with_truth(parser.parse_args().folder):
        console = Console()
        for group, rows in quality(directory).items():
            table = Table(*rows[0], title=f"{directory.name}, {group}")
            for row in rows:
                table.add_row(*(f"{value:.4f}" if isinstance(value, float) else str(value) for value in row.values()))
            console.print(table)


if __name__ == "__main__":
    main()
