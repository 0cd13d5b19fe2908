"""Detections and ground truth of many images as flat arrays: row i is a box, and `images[i]` is its image.

Data that comes image by image is made flat once (`of_images`); all measurements work on the flat form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hashnms import _validate
from hashnms._validate import Array


@dataclass(frozen=True, eq=False)
class Detections:
    """The boxes that a detector found in many images.

    Args:
        boxes: (N, 4) xyxy.
        scores: (N,).
        labels: (N,) whole numbers, or None: all have one class.
        images: (N,) whole numbers, or None: all are in one image.

    >>> len(Detections([[0, 0, 9, 9], [1, 0, 9, 9]], [0.8, 0.9], images=[7, 8]))
    2
    """

    boxes: Array
    scores: Array
    labels: Array | None = None
    images: Array | None = None

    def __post_init__(self) -> None:
        arrays = _validate.plain_arrays(self.boxes, self.scores, self.labels, self.images)
        _set(self, boxes=arrays[0], scores=arrays[1], labels=arrays[2], images=arrays[3])

    @classmethod
    def of_images(cls, images: Sequence[tuple[Any, ...]]) -> Detections:
        """Join images, each given as boxes, scores and labels; they are numbered from 0."""
        parts = [_validate.plain_arrays(*image) for image in images]
        return cls(
            boxes=_joined([boxes for boxes, *_ in parts]).reshape(-1, 4),
            scores=_joined([scores for _, scores, *_ in parts]),
            labels=_joined([_validate.given_labels(labels) for *_, labels, _ in parts]),
            images=_numbers([len(boxes) for boxes, *_ in parts]),
        )

    def take(self, rows: Array, scores: Array, boxes: Array | None = None) -> Detections:
        """Take the rows that a suppression kept, with their final scores and, if given, boxes."""
        labels, images = (None if values is None else values[rows] for values in (self.labels, self.images))
        return Detections(self.boxes[rows] if boxes is None else boxes, scores, labels, images)

    def __len__(self) -> int:
        return len(self.boxes)


@dataclass(frozen=True, eq=False)
class Truth:
    """The ground truth of many images. Labels and images are numbered as in the detections.

    Args:
        boxes: (M, 4) xyxy.
        labels: (M,) whole numbers, or None: all have one class.
        images: (M,) whole numbers, or None: all are in one image.
        ignore: (M,) bools, True for ignored regions; None: there are none.
        areas: (M,) areas of the objects, as COCO gives them for masks; None: the areas of the boxes.

    >>> Truth([[0, 0, 9, 10]]).areas
    array([90.])
    """

    boxes: Array
    labels: Array | None = None
    images: Array | None = None
    ignore: Array = None  # type: ignore[assignment]  # an array once it is made
    areas: Array = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        boxes = _validate.boxes_array(self.boxes, "gt_boxes")
        _validate.finite_rows(boxes, "gt_boxes")
        _set(
            self,
            boxes=boxes,
            labels=_validate.labels_array(self.labels, len(boxes)),
            images=_validate.labels_array(self.images, len(boxes), "images"),
            ignore=_validate.ignore_array(self.ignore, len(boxes)),
            areas=_box_areas(boxes) if self.areas is None else _validate.areas_array(self.areas, len(boxes)),
        )

    @classmethod
    def of_images(cls, images: Sequence[tuple[Any, ...]]) -> Truth:
        """Join images, each given as boxes and labels, and optionally the mask of ignored regions and the areas."""
        parts = [cls(image[0], _validate.given_labels(image[1]), None, *image[2:]) for image in images]
        return cls(
            boxes=_joined([part.boxes for part in parts]).reshape(-1, 4),
            labels=_joined([part.labels for part in parts]),
            images=_numbers([len(part) for part in parts]),
            ignore=_joined([part.ignore for part in parts]),
            areas=_joined([part.areas for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.boxes)


def _set(value: Any, **fields: Any) -> None:
    """Set fields of a frozen dataclass while it is being made."""
    for name, field in fields.items():
        object.__setattr__(value, name, field)


def _joined(arrays: Sequence[Any]) -> Array:
    """Concatenate arrays. Empty ones, which may have any type, are skipped."""
    return np.concatenate([array for array in arrays if len(array)] or [np.zeros(0)])


def _numbers(counts: list[int]) -> Array:
    """Repeat 0 counts[0] times, 1 counts[1] times, and so on."""
    return np.repeat(np.arange(len(counts)), counts)


def _box_areas(boxes: Array) -> Array:
    sizes = boxes[:, 2:].astype(np.float64) - boxes[:, :2]
    return np.maximum(sizes[:, 0] * sizes[:, 1], 0.0)
