"""Objects cut at the borders of overlapping tiles: which method merges the parts? Prints Markdown.

    python -m benchmarks.tiles [--real DIR]

The objects are the boxes that NMS keeps in an image: the synthetic scene *aerial*, or raw detections in folders of NPZ
files. Each tile sees the part of an object that lies in it, if that is at least a tenth. The part is moved a little,
and its score is lower the less the tile sees. Each method gets the boxes of all tiles. An object is *lost* if no
remaining box overlaps it with IoU 0.5, and a box is *extra* if it is not the best for an object.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.tables import rows as markdown
from hashnms import Suppression, nms
from hashnms.boxes import pairwise_iou
from hashnms.synthetic import make_scene

TILE, OVERLAP, LEAST_SHARE = 512, 0.2, 0.1
METHODS = ("nms:0.5", "nms:0.1", "nms:0.5/ios", "nmm:0.1", "nmm:0.5/ios", "nmm:0.5/ios/transitive", "wbf:0.55")


def synthetic() -> Iterator[tuple[str, Any, Any]]:
    """Name, boxes and labels of the objects of an image."""
    for seed in range(5):
        scene = make_scene("aerial", 40_000, seed=seed)
        yield "aerial (synthetic)", scene.gt_boxes.astype(np.float32), scene.gt_labels


def real(folder: Path) -> Iterator[tuple[str, Any, Any]]:
    for path in sorted(folder.glob("*/*.npz")):
        if path.parent.name.endswith("_rpn"):  # proposals are not objects
            continue
        with np.load(path) as arrays:
            boxes, scores, labels = (arrays[name] for name in ("boxes", "scores", "labels"))
        likely = scores > 0.1
        boxes, scores, labels = boxes[likely], scores[likely], labels[likely]
        keep = nms(boxes, scores, 0.3, labels=labels)
        yield path.parent.name, boxes[keep], labels[keep]


def seen_in_tiles(boxes: Any, labels: Any, seed: int) -> tuple[Any, Any, Any]:
    """The parts of objects that all tiles see: boxes, scores, labels."""
    random_numbers = np.random.default_rng(seed)
    step = TILE * (1 - OVERLAP)
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
    parts: list[tuple[Any, Any, Any]] = []
    width, height = boxes[:, 2:].max(axis=0, initial=1.0)
    for left in np.arange(0, width, step):
        for top in np.arange(0, height, step):
            low, high = np.array([left, top]), np.array([left + TILE, top + TILE])
            clipped = np.hstack([np.clip(boxes[:, :2], low, high), np.clip(boxes[:, 2:], low, high)])
            share = (clipped[:, 2:] - clipped[:, :2]).prod(axis=1) / np.maximum(areas, 1e-9)
            seen = np.flatnonzero(share >= LEAST_SHARE)
            moved = clipped[seen] + random_numbers.normal(0, 0.5, (len(seen), 4))
            moved[:, 2:] = np.maximum(moved[:, 2:], moved[:, :2])
            parts.append((moved, 0.5 + 0.4 * share[seen] + 0.05 * random_numbers.random(len(seen)), labels[seen]))
    found, scores, of_labels = (np.concatenate(values) for values in zip(*parts, strict=True))
    return found.astype(np.float32), scores.astype(np.float32), of_labels


def lost_and_extra(left: Any, left_labels: Any, objects: Any, labels: Any) -> tuple[int, int]:
    """How many objects are lost, and how many boxes are extra."""
    overlap = pairwise_iou(objects, left) * (labels[:, None] == left_labels[None])
    found = overlap.max(axis=1, initial=0.0) >= 0.5
    best = np.unique(overlap[found].argmax(axis=1)) if len(left) else np.zeros(0)
    return int((~found).sum()), len(left) - len(best)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--real", type=Path, help="a folder with folders of NPZ files of raw detections")
    options = parser.parse_args()
    counts: dict[str, np.ndarray[Any, Any]] = {}
    chains = [Suppression.parse(method) for method in METHODS]
    images = [*synthetic(), *(real(options.real) if options.real else [])]
    for number, (name, objects, labels) in enumerate(images):
        boxes, scores, of_labels = seen_in_tiles(objects, labels, number)
        row = [len(objects), len(boxes)]
        for chain in chains:
            result: Any = chain(boxes, scores, of_labels)
            left = boxes[result.keep] if result.boxes is None else result.boxes
            row += lost_and_extra(left, of_labels[result.keep], objects, labels)
        counts[name] = counts.get(name, 0) + np.array(row)
    head = ["", "objects", "boxes of tiles", *(f"`{method}`: lost, extra" for method in METHODS)]
    body = (
        [name, f"{row[0]:,}", f"{row[1]:,}", *(f"{row[k]:,}, {row[k + 1]:,}" for k in range(2, len(row), 2))]
        for name, row in counts.items()
    )
    print("\n".join(markdown(head, body, left=1)))


if __name__ == "__main__":
    main()
