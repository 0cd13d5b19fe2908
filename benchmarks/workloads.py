"""The workloads of the benchmarks: synthetic scenes of all sizes, worst cases, many classes, batches, real images."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.peers import Workload
from hashnms.synthetic import WORST_CASES, make_scene

SIZES = [10, 100, 1000, 10_000, 45_000, 100_000, 1_000_000, 10_000_000]
CLASSES = [1, 10, 80, 1203]


def sizes_to(largest: int) -> list[int]:
    return [size for size in SIZES if size <= largest]


def scenes(preset: str, sizes: list[int], iou_threshold: float) -> Iterator[Workload]:
    for size in sizes:
        scene = make_scene(preset, size)
        yield Workload(f"{preset}, IoU {iou_threshold:g}", scene.boxes, scene.scores, None, iou_threshold)


def worst_cases(size: int, iou_threshold: float) -> Iterator[Workload]:
    for name, make in WORST_CASES.items():
        scores = np.random.default_rng(0).random(size).astype(np.float32)
        yield Workload(f"{name}, IoU {iou_threshold:g}", make(size).astype(np.float32), scores, None, iou_threshold)


def classes(size: int, iou_threshold: float = 0.5) -> Iterator[Workload]:
    scene = make_scene("aerial", size)
    for count in CLASSES:
        labels = np.random.default_rng(0).integers(count, size=size)
        yield Workload(f"{count:,} classes", scene.boxes, scene.scores, labels, iou_threshold)


def batches(boxes_per_image: int, numbers_of_images: list[int], iou_threshold: float = 0.5) -> Iterator[Workload]:
    """Several images in one call: the label is the image."""
    for number in numbers_of_images:
        images = [make_scene("crowd", boxes_per_image, seed=seed) for seed in range(number)]
        boxes = np.concatenate([image.boxes for image in images])
        scores = np.concatenate([image.scores for image in images])
        labels = np.repeat(np.arange(number), boxes_per_image)
        yield Workload(f"{number} images of {boxes_per_image:,} boxes", boxes, scores, labels, iou_threshold)


def real_sets(folder: Path) -> list[Path]:
    """The subfolders that contain images of upright boxes."""
    return sorted(path for path in folder.iterdir() if _is_upright(next(path.glob("*.npz"), None)))


def _is_upright(file: Path | None) -> bool:
    if file is None:
        return False
    with np.load(file) as image:
        return bool(image["boxes"].shape[1] == 4)


def real_images(directory: Path, iou_threshold: float = 0.5) -> Iterator[Workload]:
    for file in sorted(directory.glob("*.npz")):
        with np.load(file) as image:
            boxes, scores = np.float32(image["boxes"]), np.float32(image["scores"])
            yield Workload(directory.name, boxes, scores, np.int64(image["labels"]), iou_threshold)
