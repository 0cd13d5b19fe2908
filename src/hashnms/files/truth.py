"""Load ground truth from COCO datasets."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
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
    width: float | None = None
    height: float | None = None


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
    detections: Detections  #: those of `loaded`, with images and labels numbered as in the ground truth
    labels: list[str]
    loaded: Loaded  #: the detections that are measured: all, or those of images in the ground truth
    file_names: list[str | None]  #: of the images of `loaded`
    class_names: list[str]  #: of the labels of `loaded`


def load_truth(
    path: str | os.PathLike[str],
    loaded: Loaded,
    *,
    class_offset: int = 0,
    class_order: bool = False,
    truth_images_only: bool = False,
) -> LoadedTruth:
    """Load a COCO dataset and match its images and classes with those of detections.

    Images are matched by their id, or by their file name with or without its folder and suffix. Classes are matched by
    the name or the id of their category. Detections of classes that the dataset does not have do not count; a warning
    names these classes. Boxes of YOLO's files, which are relative to their image, become pixels by its `width` and
    `height` in the dataset.

    Args:
        path: the dataset, a JSON file.
        loaded: the detections.
        class_offset: what is added to the class numbers of the detections: 1 if they start at 0 and the ids at 1.
        class_order: class k of the detections is category k of the dataset, counted from 0 in the order of the ids.
            YOLO numbers COCO's 80 classes like this; their ids are 1 to 90 with gaps.
        truth_images_only: leave out detections of images that the dataset does not have, instead of an error.

    Raises:
        FileError: if the file is invalid, if an image of the detections is missing, or if no image or no class matches.
    """
    dataset = _read(path)
    loaded, images = _matched_images(dataset, loaded, path, truth_images_only)
    if loaded.relative and loaded.images:
        loaded = loaded.in_pixels(_sizes([dataset.images[number] for number in images], path))
    categories = {category.id: number for number, category in enumerate(dataset.categories)}
    for annotation in dataset.annotations:
        categories.setdefault(annotation.category_id, len(categories))
    labels, names = _label_numbers(dataset, loaded, categories, path, class_offset, class_order)
    truth = _truth(dataset, categories, path)
    found = loaded.detections
    count = len(found)
    detections = Detections(
        found.boxes,
        found.scores,
        np.zeros(count, np.int64) if found.labels is None else labels[found.labels],
        np.zeros(count, np.int64) if found.images is None else images[found.images],
    )
    _warn_of_objects(truth, detections, path)
    file_names = [dataset.images[number].file_name for number in images]
    return LoadedTruth(truth, detections, names, loaded, file_names, [names[number] for number in labels])


def _read(path: str | os.PathLike[str]) -> _Dataset:
    try:
        dataset: _Dataset = msgspec.json.decode(Path(path).read_bytes(), type=_Dataset)
    except (msgspec.DecodeError, RecursionError) as error:
        raise FileError(f"{path}: must be a COCO dataset, an object with images and annotations: {error}") from None
    return dataset


def _sizes(images: list[_Image], path: Any) -> NDArray[np.float64]:
    """The width and height of each image."""
    for image in images:
        if not image.width or not image.height:
            raise FileError(
                f"{path}: images must have width and height, because the boxes of the detections are relative to them, "
                f"got none for {image.id!r}"
            )
    return np.array([(image.width, image.height) for image in images], np.float64).reshape(-1, 2)


def _truth(dataset: _Dataset, categories: dict[int, int], path: Any) -> Truth:
    by_id = {image.id: number for number, image in enumerate(dataset.images)}
    unknown = next((one for one in dataset.annotations if one.image_id not in by_id), None)
    if unknown is not None:
        raise FileError(f"{path}: image_id of an annotation must be the id of an image, got {unknown.image_id!r}")
    boxes = np.array([one.bbox for one in dataset.annotations], np.float64).reshape(-1, 4)
    areas = [one.bbox[2] * one.bbox[3] if one.area is None else one.area for one in dataset.annotations]
    try:
        return Truth(
            to_xyxy(boxes, "xywh"),
            np.array([categories[one.category_id] for one in dataset.annotations], np.int64),
            np.array([by_id[one.image_id] for one in dataset.annotations], np.int64),
            np.array([bool(one.iscrowd or one.ignore) for one in dataset.annotations], bool),
            np.array(areas, np.float64),
        )
    except ValueError as error:
        raise FileError(f"{path}, annotations: {error}") from None


def _warn_of_objects(truth: Truth, detections: Detections, path: Any) -> None:
    """Warn if there is nothing to find, or if nothing was found in some images."""
    assert truth.images is not None
    assert detections.images is not None
    images = np.unique(truth.images[~truth.ignore])
    if len(images) == 0:
        _warn(f"{path} has no objects: there is no average precision and no recall")
    missed = len(np.setdiff1d(images, detections.images))
    if missed:
        _warn(f"there are no detections in {missed:,} of the {len(images):,} images that have objects in {path}")
    if len(images) and len(detections) and detections.boxes.max() <= 2 and truth.boxes.max() > 20:
        _warn("the boxes of the detections end below 2, as if they were relative to their image; the truth has pixels")


def _matched_images(dataset: _Dataset, loaded: Loaded, path: Any, only: bool) -> tuple[Loaded, NDArray[np.int64]]:
    """The detections that are measured, and for each of their images its number in the dataset."""
    if not loaded.images and len(dataset.images) > 1 and len(loaded.detections):
        raise FileError(f"{path}: must have one image, like the detections, got {len(dataset.images):,}")
    known = _image_names(dataset)
    numbers = [known.get(image, known.get(str(image))) for image in loaded.images]
    missing = [image for image, number in zip(loaded.images, numbers, strict=True) if number is None]
    if missing and len(missing) == len(numbers):
        listed = _listed([image.id if image.file_name is None else image.file_name for image in dataset.images])
        raise FileError(
            f"{path} has none of the images of the detections: they are {_listed(missing)}, its own {listed}"
        )
    if missing and not only:
        raise FileError(
            f"{path} must have every image of the detections, got none for {_listed(missing)} ({len(missing):,} of "
            f"{len(numbers):,} images); truth_images_only=True leaves them out"
        )
    if missing:
        loaded = loaded.of_images([place for place, number in enumerate(numbers) if number is not None])
    return loaded, np.array([number for number in numbers if number is not None], np.int64)


def _image_names(dataset: _Dataset) -> dict[Any, int]:
    """The number of each image by its id, and by each of its names that only one image has."""
    named: dict[str, set[int]] = {}
    for number, image in enumerate(dataset.images):
        if image.file_name is not None:
            path = PurePosixPath(image.file_name)  # of any system: the name of an image, not of a file here
            for name in (image.file_name, path.name, str(path.with_suffix("")), path.stem):
                named.setdefault(name, set()).add(number)
    known: dict[Any, int] = {str(image.id): number for number, image in enumerate(dataset.images)}
    known |= {name: numbers.pop() for name, numbers in named.items() if len(numbers) == 1}
    known |= {image.file_name: number for number, image in enumerate(dataset.images) if image.file_name is not None}
    return known | {image.id: number for number, image in enumerate(dataset.images)}


def _label_numbers(
    dataset: _Dataset, loaded: Loaded, categories: dict[int, int], path: Any, offset: int, order: bool
) -> tuple[NDArray[np.int64], list[str]]:
    """For each label of the detections, its number in the dataset; and the names of all numbers."""
    if offset and order:
        raise ValueError(f"class_offset must be 0 with class_order, got {offset}")
    found = loaded.detections
    if len(categories) > 1 and found.labels is None and len(found):
        raise FileError(f"{path}: must have one class, because the detections have no classes, got {len(categories)}")
    by_name = {category.name: categories[category.id] for category in dataset.categories if category.name is not None}
    names = {categories[category.id]: category.name for category in dataset.categories if category.name is not None}
    listed = [names.get(number, str(label)) for label, number in categories.items()]
    ids = sorted(categories)
    by_number = dict(enumerate(ids)) if order else {number - offset: number for number in ids}
    numbers, unknown = [], []
    for place, label in enumerate(loaded.labels):
        number = by_name.get(label) if isinstance(label, str) else None
        whole = _whole(label)
        if number is None and whole in by_number:
            number = categories[by_number[whole]]
        if number is None:
            number = len(listed)
            listed.append(str(label))
            unknown.append(place)
        numbers.append(number)
    _check_classes(loaded, unknown, categories, names, path)
    return np.array(numbers, np.int64), listed


def _whole(label: Any) -> int | None:
    """The number of a class, which may be text."""
    if isinstance(label, str):
        return int(label) if re.fullmatch(r"-?[0-9]{1,18}", label) else None
    return int(label)


def _check_classes(
    loaded: Loaded, unknown: Sequence[int], categories: dict[int, int], names: dict[int, str], path: Any
) -> None:
    """Raise an error if the dataset has none of the classes that were detected; warn if it does not have some."""
    if loaded.detections.labels is None or not categories:
        return
    counts = np.bincount(loaded.detections.labels, minlength=len(loaded.labels))
    detected = [place for place in range(len(loaded.labels)) if counts[place]]
    missing = [place for place in unknown if counts[place]]
    if not missing:
        return
    classes = sorted((loaded.labels[place] for place in missing), key=lambda label: (_whole(label) or 0, str(label)))
    hint = _hint([loaded.labels[place] for place in detected], categories)
    if len(missing) == len(detected):
        known = [f"{label} ({names[number]})" if number in names else label for label, number in categories.items()]
        raise FileError(
            f"{path} has no category for any class of the detections: they are {_listed(classes)}, its own "
            f"{_listed(known)}{hint}"
        )
    boxes = int(counts[missing].sum())
    _warn(
        f"{path} has no category for class {_listed(classes)} of the detections ({len(missing):,} of {len(detected):,} "
        f"classes, {boxes:,} {'boxes' if boxes > 1 else 'box'}): these boxes do not count{hint}"
    )


def _hint(labels: Sequence[Any], ids: Collection[int]) -> str:
    """Which argument would match all classes, as the end of a message; empty if none would."""
    numbers = [_whole(label) for label in labels]
    wholes = [number for number in numbers if number is not None]
    if not ids or len(wholes) < len(numbers):
        return ""
    offset = min(ids) - min(wholes)
    fits_offset = offset and all(number + offset in ids for number in wholes)
    fits_order = min(wholes) >= 0 and max(wholes) < len(ids)
    if fits_order and (not fits_offset or max(ids) - min(ids) >= len(ids)):  # ids with gaps
        return "; class_order=True would match all classes"
    return f"; class_offset={offset} would match all classes" if fits_offset else ""


def _listed(values: Sequence[Any], most: int = 5) -> str:
    """The first values of a list, and how many more there are."""
    text = ", ".join(map(str, values[:most])) or "none"
    return f"{text} and {len(values) - most:,} more" if len(values) > most else text


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=3)
