"""Seeded scenes that look like a detector's raw output before suppression, and the worst cases of suppression.

They are for tests, benchmarks, the demo and docs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashnms import _settings

#: Five pyramid levels, as in FPN; level 0 takes the smallest objects.
NUM_LEVELS = 5

#: The raw boxes of one image at the paper's P1: 9,000 from each level. Larger scenes are larger images, just as dense.
BOXES_PER_IMAGE = 9_000 * NUM_LEVELS


# Chosen so that HNMS and NMS keep as large a share as with a real detector: of 9,000 raw boxes in a parking lot, about
# a half (alpha 0.7), a third (IoU 0.7) and a sixth (IoU 0.5).
_JITTER = 0.07  # of the size
_BOXES_PER_CLUTTER = 8


@dataclass(frozen=True)
class Preset:
    """What an image of one kind of scene contains; sizes are in pixels."""

    num_objects: int
    image_size: tuple[int, int]
    object_size: tuple[float, float]  #: median width and height
    size_spread: float  #: standard deviation of the logarithm of the size
    placement: float  #: 0: a regular grid; 1: anywhere in its grid cell; more: across cells
    num_classes: int


#: Densities of the paper's datasets (CARPK, SKU-110K, CrowdHuman), and an aerial view.
PRESETS = {
    "parking_lot": Preset(103, (1280, 720), (62.0, 58.0), 0.15, 0.5, 3),
    "shelf": Preset(147, (1333, 1000), (70.0, 95.0), 0.25, 0.3, 10),
    "crowd": Preset(27, (1333, 800), (110.0, 260.0), 0.45, 3.0, 2),
    "aerial": Preset(500, (1920, 1080), (26.0, 24.0), 0.40, 1.5, 10),
}


@dataclass(frozen=True)
class Scene:
    """Raw detections in random order, and the objects they were made from. Boxes are xyxy float32 pixels."""

    boxes: NDArray[np.float32]  #: (N, 4)
    scores: NDArray[np.float32]  #: (N,), in [0, 1]
    labels: NDArray[np.int64]  #: (N,), the class
    levels: NDArray[np.int64]  #: (N,), the pyramid level
    gt_boxes: NDArray[np.float32]  #: (M, 4)
    gt_labels: NDArray[np.int64]  #: (M,)
    image_size: tuple[int, int]  #: width, height


def make_scene(
    preset: str = "parking_lot",
    num_boxes: int = BOXES_PER_IMAGE,
    *,
    seed: int = 0,
    num_objects: int | None = None,
    background: float = 0.3,
) -> Scene:
    """Make a crowded scene with its raw boxes.

    Args:
        preset: one of `PRESETS`.
        num_boxes: the number of raw boxes, at least 0. 10**7 boxes take about ten seconds.
        seed: the same seed gives the same scene.
        num_objects: the number of objects in the scene. The image grows with it, so the density stays that of the
            preset. By default it is the preset's for up to 45,000 boxes, and proportional to the boxes beyond.
        background: the share of boxes that belong to no object, in [0, 1].

    Returns:
        A `Scene`: raw boxes in random order, and the objects.

    >>> scene = make_scene("shelf", 9_000)
    >>> scene.boxes.shape, len(scene.gt_boxes)
    ((9000, 4), 147)
    """
    if not isinstance(preset, str) or preset not in PRESETS:
        raise ValueError(f"preset must be one of {', '.join(PRESETS)}, got {preset!r}")
    kind = PRESETS[preset]
    num_boxes = _settings.count_value("num_boxes", num_boxes, least=0)
    if num_objects is None:
        num_objects = round(kind.num_objects * max(1.0, num_boxes / BOXES_PER_IMAGE))
    num_objects = _settings.count_value("num_objects", num_objects)
    background = _settings.share_value("background", background)
    rng = np.random.default_rng(_settings.count_value("seed", seed, least=0))
    stretch = (num_objects / kind.num_objects) ** 0.5
    image = np.array([max(1, round(side * stretch)) for side in kind.image_size], np.float32)

    centers, sizes = _place_objects(rng, kind, num_objects, image)
    gt_labels = rng.integers(kind.num_classes, size=num_objects)
    gt_quality = rng.beta(6.0, 2.0, num_objects).astype(np.float32)

    num_background = round(background * num_boxes)
    num_candidates = num_boxes - num_background
    owner = rng.integers(num_objects, size=num_candidates)
    candidates = _candidates(rng, centers, sizes, gt_quality, owner)
    strays = _background(rng, num_background, image)

    order = rng.permutation(num_boxes)
    boxes, scores, levels = (np.concatenate(pair)[order] for pair in zip(candidates, strays, strict=True))
    labels = np.concatenate([gt_labels[owner], rng.integers(kind.num_classes, size=num_background)])[order]
    return Scene(
        boxes=_clip(boxes, image),
        scores=scores,
        labels=labels,
        levels=levels,
        gt_boxes=_clip(_corners(centers, sizes), image),
        gt_labels=gt_labels,
        image_size=(int(image[0]), int(image[1])),
    )


def _place_objects(rng: np.random.Generator, kind: Preset, count: int, image: NDArray[Any]) -> tuple[Any, Any]:
    """Centres and sizes of the objects: one in each grid cell, moved at random by up to `placement`."""
    columns = int(np.ceil(np.sqrt(count * image[0] / image[1])))
    rows = -(-count // columns)
    cell = np.sort(rng.permutation(columns * rows)[:count])
    grid = np.stack([cell % columns, cell // columns], axis=1) + 0.5
    moved = grid + kind.placement * (rng.random((count, 2)) - 0.5)
    centers = (moved * (image / (columns, rows))).astype(np.float32)
    sizes = np.asarray(kind.object_size) * np.exp(kind.size_spread * rng.standard_normal((count, 2)))
    return np.clip(centers, 0, image), np.minimum(sizes, image).astype(np.float32)


def _candidates(
    rng: np.random.Generator, centers: Any, sizes: Any, quality: Any, owner: NDArray[np.int64]
) -> tuple[Any, Any, Any]:
    """Boxes around their objects; scores fall with the distance. Most come from the object's own level."""
    count = len(owner)
    detour = rng.choice(np.array([-1, 0, 0, 0, 1]), size=count)
    levels = np.clip(np.log2(np.sqrt(sizes.prod(axis=1)) / 12.0).astype(np.int64)[owner] + detour, 0, NUM_LEVELS - 1)
    noise = rng.standard_normal((count, 4), dtype=np.float32)
    noise *= np.float32(_JITTER) * (1 + np.abs(detour)[:, None]).astype(np.float32)
    size = sizes[owner]
    center = centers[owner] + noise[:, :2] * size
    scores = quality[owner] * np.exp(-6.0 * (noise**2).sum(axis=1)) * (1 - 0.3 * rng.random(count, dtype=np.float32))
    return _corners(center, size * np.exp(noise[:, 2:])), scores.astype(np.float32), levels


def _background(rng: np.random.Generator, count: int, image: NDArray[Any]) -> tuple[Any, Any, Any]:
    """Boxes with low scores around clutter at any place and of any size: false positives come in clusters too."""
    num_places = -(-count // _BOXES_PER_CLUTTER)
    centers = rng.random((num_places, 2), dtype=np.float32) * image
    level_size = 8.0 * 2.0 ** rng.integers(NUM_LEVELS, size=(num_places, 1))
    sizes = (level_size * np.exp(0.4 * rng.standard_normal((num_places, 2)))).astype(np.float32)
    quality = np.float32(0.3) * rng.random(num_places, dtype=np.float32) ** 3
    return _candidates(rng, centers, sizes, quality, rng.integers(num_places or 1, size=count))


def _corners(centers: Any, sizes: Any) -> Any:
    return np.concatenate([centers - sizes / 2, centers + sizes / 2], axis=1)


def _clip(boxes: Any, image: NDArray[Any]) -> Any:
    """Cut the boxes at the image's border, as detectors do."""
    return np.clip(boxes, 0, np.concatenate([image, image]), out=boxes)


def lattice(count: int, size: float, step: float) -> NDArray[np.float64]:
    """Boxes on a square lattice: neighbours in a row overlap by exactly (size - step) / (size + step).

    Rows are `size` apart, or `step` if that is more.
    """
    side = int(np.ceil(np.sqrt(count)))
    x, y = np.meshgrid(np.arange(side) * step, np.arange(side) * max(size, step))
    corner = np.stack([x.ravel(), y.ravel()], axis=1)[:count]
    return np.concatenate([corner, corner + size], axis=1)


def _concentric(count: int) -> NDArray[np.float64]:
    half = np.geomspace(1, 1000, count)[:, None]
    return np.concatenate([-half, -half, half, half], axis=1)


def _all_sizes(count: int) -> NDArray[np.float64]:
    rng = np.random.default_rng(0)
    corner = rng.uniform(0, 1e6, (count, 2))
    return np.concatenate([corner, corner + 10.0 ** rng.uniform(-3, 6, (count, 2))], axis=1)


def _needles(count: int) -> NDArray[np.float64]:
    """Long thin boxes, horizontal and vertical; how many overlap at a point does not depend on `count`."""
    rng = np.random.default_rng(1)
    corner = rng.uniform(0, 10 * np.sqrt(count), (count, 2))
    size = np.where(rng.random((count, 1)) < 0.5, [1, 10_000], [10_000, 1]) * rng.uniform(0.9, 1.1, (count, 2))
    return np.concatenate([corner, corner + size], axis=1)


def _needles_apart(count: int) -> NDArray[np.float64]:
    corner = np.arange(count)[:, None] * np.array([0.0, 2.0])
    return np.concatenate([corner, corner + np.array([10_000.0, 1.0])], axis=1)


def _giant_over_tiny(count: int) -> NDArray[np.float64]:
    tiny = lattice(max(count - 1, 0), 4, 5)
    return np.concatenate([[[0.0, 0.0, 1e4, 1e4]], tiny])[:count]


def _giants_over_tiny(count: int) -> NDArray[np.float64]:
    """A tenth of the boxes are giants, each covering a quarter of the scene."""
    tiny = lattice(count - count // 10, 4, 5)
    half = tiny.max(initial=0) / 2
    corner = np.random.default_rng(2).uniform(0, half, (count // 10, 2))
    return np.concatenate([tiny, np.concatenate([corner, corner + half], axis=1)])


#: The hardest inputs for suppression: name -> function that makes `count` boxes, xyxy float64.
WORST_CASES: dict[str, Callable[[int], NDArray[np.float64]]] = {
    "all identical": lambda count: np.tile([[3.0, 4.0, 50.0, 60.0]], (count, 1)),
    "concentric": _concentric,
    "sizes from 1e-3 to 1e6": _all_sizes,
    "needles": _needles,
    "needles apart": _needles_apart,
    "a giant over tiny ones": _giant_over_tiny,
    "giants over tiny ones": _giants_over_tiny,
    "a lattice with IoU 1/3": lambda count: lattice(count, 8, 4),
    "a lattice with IoU 1/2": lambda count: lattice(count, 9, 3),
    "a lattice with IoU 7/10 rounded": lambda count: lattice(count, 17, 3),
    "nothing overlaps": lambda count: lattice(count, 8, 9),
}
