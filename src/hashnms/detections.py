"""Detections and ground truth of many images as flat arrays: row i is a box, `images` says of which image.

What comes image by image is made flat once (`of_images`); all that measures works on the flat form.
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
    """The boxes that a detector found, of many images.

    Args:
        boxes: (N, 4) xyxy.
        scores: (N,).
        labels: (N,) whole numbers, or None: all are of one class.
        images: (N,) whole numbers, or None: all are of one image.

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
        """Of each image its boxes, scores and labels; the images are numbered from 0."""
        parts = [_validate.plain_arrays(*image) for image in images]
        return cls(
            boxes=_joined([boxes for boxes, *_ in parts]).reshape(-1, 4),
            scores=_joined([scores for _, scores, *_ in parts]),
            labels=_joined([_validate.given_labels(labels) for *_, labels, _ in parts]),
            images=_numbers([len(boxes) for boxes, *_ in parts]),
        )

    def take(self, rows: Array, scores: Array, boxes: Array | None = None) -> Detections:
        """Some rows, with these scores and maybe other boxes: what a suppression left."""
        labels, images = (None if values is None else values[rows] for values in (self.labels, self.images))
        return Detections(self.boxes[rows] if boxes is None else boxes, scores, labels, images)

    def __len__(self) -> int:
        return len(self.boxes)


@dataclass(frozen=True, eq=False)
class Truth:
    """The boxes that are there, of many images. Labels and images are numbered as those of the detections.

    Args:
        boxes: (M, 4) xyxy.
        labels: (M,) whole numbers, or None: all are of one class.
        images: (M,) whole numbers, or None: all are of one image.
        ignore: (M,) mask of the boxes that are ignored regions; None: none is.
        areas: (M,) of the objects where they are not those of their boxes, as COCO has them; None: those of the boxes.

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
        """Of each image its boxes and labels, and maybe the mask of ignored regions and the areas."""
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
    """While it is being made: it is frozen."""
    for name, field in fields.items():
        object.__setattr__(value, name, field)


def _joined(arrays: Sequence[Any]) -> Array:
    """One after the other. Empty ones, which may be of any type, do not count."""
    return np.concatenate([array for array in arrays if len(array)] or [np.zeros(0)])


def _numbers(counts: list[int]) -> Array:
    """0 as often as the first says, then 1, and so on."""
    return np.repeat(np.arange(len(counts)), counts)


def _box_areas(boxes: Array) -> Array:
    sizes = boxes[:, 2:].astype(np.float64) - boxes[:, :2]
    return np.maximum(sizes[:, 0] * sizes[:, 1], 0.0)
