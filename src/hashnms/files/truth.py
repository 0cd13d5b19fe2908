"""Load ground truth from COCO datasets."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from hashnms.boxes import to_xyxy
from hashnms.detections import Detections, Truth
from hashnms.files.loading import Loaded
from hashnms.files.rows import FileError


class _Image(msgspec.Struct):
    id: int | str
    file_name: str | None = None


class _Category(msgspec.Struct):
    id: int
    name: str | None = None


class _Annotation(msgspec.Struct):
    image_id: int | str
    category_id: int
    bbox: tuple[float, float, float, float]
    iscrowd: int | bool = 0
    ignore: int | bool = 0
    area: float | None = None


class _Dataset(msgspec.Struct):
    images: list[_Image]
    annotations: list[_Annotation]
    categories: list[_Category] = []


@dataclass(frozen=True)
class LoadedTruth:
    """Ground truth with images and labels numbered as in the detections, and the names of all labels."""

    truth: Truth
    detections: Detections  #: the same detections, with labels numbered as in the ground truth
    labels: list[str]


def load_truth(path: str | os.PathLike[str], loaded: Loaded) -> LoadedTruth:
    """Load a COCO dataset. Images are matched by their id, or by their file name with or without its suffix."""
    try:
        dataset = msgspec.json.decode(Path(path).read_bytes(), type=_Dataset)
    except (msgspec.DecodeError, RecursionError) as error:
        raise FileError(f"{path}: must be a COCO dataset with images and annotations, got {error}") from None
    images = _image_numbers(dataset, loaded, path)
    categories = {category.id: number for number, category in enumerate(dataset.categories)}
    for annotation in dataset.annotations:
        categories.setdefault(annotation.category_id, len(categories))
    by_id = {image.id: number for number, image in enumerate(dataset.images)}
    unknown = next((one for one in dataset.annotations if one.image_id not in by_id), None)
    if unknown is not None:
        raise FileError(f"{path}: image_id of an annotation must be the id of an image, got {unknown.image_id!r}")
    boxes = np.array([one.bbox for one in dataset.annotations], np.float64).reshape(-1, 4)
    areas = [one.bbox[2] * one.bbox[3] if one.area is None else one.area for one in dataset.annotations]
    try:
        truth = Truth(
            to_xyxy(boxes, "xywh"),
            np.array([categories[one.category_id] for one in dataset.annotations], np.int64),
            np.array([by_id[one.image_id] for one in dataset.annotations], np.int64),
            np.array([bool(one.iscrowd or one.ignore) for one in dataset.annotations], bool),
            np.array(areas, np.float64),
        )
    except ValueError as error:
        raise FileError(f"{path}, annotations: {error}") from None
    labels, names = _label_numbers(dataset, loaded, categories, path)
    found = loaded.detections
    count = len(found)
    detections = Detections(
        found.boxes,
        found.scores,
        np.zeros(count, np.int64) if found.labels is None else labels[found.labels],
        np.zeros(count, np.int64) if found.images is None else images[found.images],
    )
    return LoadedTruth(truth, detections, names)


def _image_numbers(dataset: _Dataset, loaded: Loaded, path: Any) -> NDArray[np.int64]:
    """For each image of the detections, its number in the dataset."""
    known: dict[Any, int] = {}
    for number, image in enumerate(dataset.images):
        if image.file_name is not None:
            known.setdefault(image.file_name, number)
            known.setdefault(Path(image.file_name).stem, number)
        known.setdefault(str(image.id), number)
    known |= {image.id: number for number, image in enumerate(dataset.images)}
    missing = [image for image in loaded.images if image not in known]
    if missing:
        raise FileError(
            f"{path}: must have every image of the detections, got none for {missing[0]!r} ({len(missing):,} such)"
        )
    if not loaded.images and len(dataset.images) > 1 and len(loaded.detections):
        raise FileError(f"{path}: must have one image, like the detections, got {len(dataset.images):,}")
    return np.array([known[image] for image in loaded.images], np.int64)


def _label_numbers(
    dataset: _Dataset, loaded: Loaded, categories: dict[int, int], path: Any
) -> tuple[NDArray[np.int64], list[str]]:
    """For each label of the detections, its number in the dataset; and the names of all numbers."""
    by_name = {category.name: categories[category.id] for category in dataset.categories if category.name is not None}
    names = {categories[category.id]: category.name for category in dataset.categories if category.name is not None}
    listed = [names.get(number, str(label)) for label, number in categories.items()]
    numbers = []
    for label in loaded.labels:
        number = categories.get(label, by_name.get(label))
        if number is None and isinstance(label, str) and re.fullmatch(r"[0-9]{1,18}", label):
            number = categories.get(int(label))
        if number is None:  # a class that the dataset does not have
            number = len(listed)
            listed.append(str(label))
        numbers.append(number)
    if len(categories) > 1 and not loaded.labels and len(loaded.detections):
        raise FileError(f"{path}: must have one class if the detections have no class column, got {len(categories)}")
    return np.array(numbers, np.int64), listed
