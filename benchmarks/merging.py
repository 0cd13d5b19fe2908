"""Weighted boxes fusion compared with ensemble-boxes, and how its time and that of `nmm` grow. Prints Markdown.

    python -m benchmarks.merging [--rounds 3]

Fusion: boxes of four models around 500 places per 10,000 boxes. `nmm`: crowded scenes, and heaps that only get denser.
CPU time, one thread.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from ensemble_boxes import weighted_boxes_fusion as peer

import hashnms
from benchmarks.tables import rows as markdown
from hashnms.synthetic import make_scene

MODELS = 4


def boxes_of_models(count: int, labels: int) -> tuple[Any, Any, Any, Any]:
    """Boxes in [0, 1], scores, labels and models."""
    random_numbers = np.random.default_rng(0)
    places = random_numbers.random((count // 20, 2))
    size = 0.5 / np.sqrt(count // 20)
    corners = places[random_numbers.integers(len(places), size=count)] * (1 - 2 * size)
    corners += random_numbers.normal(0, size / 20, (count, 2))
    boxes = np.clip(np.hstack([corners, corners + size]), 0, 1)
    whole = (boxes[:, 2:] > boxes[:, :2]).all(axis=1)
    classes = random_numbers.integers(labels, size=count)
    models = random_numbers.integers(MODELS, size=count)
    return boxes[whole], random_numbers.random(count)[whole], classes[whole], models[whole]


def least(call: Callable[[], Any], rounds: int) -> tuple[float, Any]:
    """The least CPU seconds, and the result."""
    best, result = np.inf, None
    for _ in range(rounds):
        start = time.process_time()
        result = call()
        best = min(best, time.process_time() - start)
    return float(best), result


def by_ensemble_boxes(boxes: Any, scores: Any, labels: Any, models: Any) -> Callable[[], Any]:
    parts = [[values[models == model] for model in range(MODELS)] for values in (boxes, scores, labels)]
    return lambda: peer(*parts, iou_thr=0.55)


def by_hashnms(boxes: Any, scores: Any, labels: Any, models: Any) -> Callable[[], Any]:
    return lambda: hashnms.weighted_boxes_fusion(boxes, scores, labels=labels, models=models, iou_threshold=0.55)


def _scene(preset: str) -> Callable[[int], tuple[Any, Any]]:
    def make(count: int) -> tuple[Any, Any]:
        scene = make_scene(preset, count)
        return scene.boxes, scene.scores

    return make


def _identical(count: int) -> tuple[Any, Any]:
    return np.tile(np.float32([3, 4, 50, 60]), (count, 1)), np.random.default_rng(0).random(count)


def _in_a_row(count: int) -> tuple[Any, Any]:
    """A row ten boxes long, with scores that fall from left to right."""
    x = np.sort(np.random.default_rng(0).uniform(0, 10, count))
    return np.stack([x, x * 0, x + 1, x * 0 + 1], axis=1).astype(np.float32), -x


def _heap(count: int) -> tuple[Any, Any]:
    """A heap: corners within half a box, sizes from 1 to 1.6, scores that rise from left to right."""
    random_numbers = np.random.default_rng(0)
    corner = random_numbers.uniform(0, 0.5, (count, 2))
    size = np.exp(random_numbers.uniform(0, 0.5, (count, 2)))
    return np.hstack([corner, corner + size]).astype(np.float32), corner[:, 0]


#: Name -> a function that makes `count` boxes and scores, the threshold and the metric.
HEAPS: dict[str, tuple[Callable[[int], tuple[Any, Any]], float, str]] = {
    "crowd": (_scene("crowd"), 0.5, "ios"),
    "aerial": (_scene("aerial"), 0.5, "ios"),
    "all identical": (_identical, 0.5, "ios"),
    "in a row": (_in_a_row, 0.9, "iou"),
    "a heap": (_heap, 0.9, "ios"),
}


def nmm_rows(rounds: int) -> list[list[str]]:
    """Nanoseconds per box for the groups of `nms` and for transitive groups."""
    body = []
    for name, (make, threshold, metric) in HEAPS.items():
        row = [name, f"{metric} {threshold}"]
        for count in (10**4, 10**5, 10**6):
            boxes, scores = make(count)
            for transitive in (False, True):
                call = partial(hashnms.nmm, boxes, scores, threshold, metric=metric, transitive=transitive)
                seconds, _ = least(call, rounds)
                row.append(f"{1e9 * seconds / count:,.0f}")
        body.append(row)
    return body


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    hashnms.set_num_threads(1)
    counts = ("10⁴ boxes", "10⁵", "10⁶")
    header = ["boxes", "overlap", *(f"{count}{kind}" for count in counts for kind in (": ns a box", ", transitive"))]
    print("\n".join(markdown(header, nmm_rows(rounds), left=2)), end="\n\n")
    body = []
    for count, labels in ((10**4, 1), (10**4, 3), (10**5, 3), (10**6, 3)):
        data = boxes_of_models(count, labels)
        seconds, fused = least(by_hashnms(*data), rounds)
        ratio = ""
        if count == 10**4:
            others, (boxes, scores, _) = least(by_ensemble_boxes(*data), rounds)
            assert np.allclose(np.sort(scores), np.sort(fused.scores), atol=1e-6)
            assert len(boxes) == len(fused.boxes)
            ratio = f"{others / seconds:.0f}x"
        body.append([f"{count:,}", f"{labels}", f"{len(fused.boxes):,}", f"{1e9 * seconds / len(data[0]):,.0f}", ratio])
    print("\n".join(markdown(["boxes", "labels", "fused", "ns a box", "ensemble-boxes"], body, left=0)))


if __name__ == "__main__":
    main()
