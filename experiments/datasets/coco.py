"""COCO: one JSON file per split, with `images`, `annotations` and `categories`; boxes are x, y, width, height.

    annotations/instances_{train,val}2017.json
    {train,val}2017/<file_name>

Other data in this format names file and folder differently. Labels are 1, 2, ... in the order of the categories' ids.
Annotations with `iscrowd` are ignored, and so are boxes of zero width or height, of which the published files have a
few.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.datasets.common import (
    Contents,
    Counts,
    DatasetError,
    Drawing,
    Image,
    Size,
    checked_boxes,
    files_in,
    image_path,
    json_corners,
    json_field,
    json_number,
    make_image,
    read_text,
    whole_size,
    write_text,
)

ANNOTATIONS, IMAGES = "annotations/instances_{split}2017.json", "{split}2017"
#: Drawn kinds -> their ids and names in COCO.
_CATEGORIES = {"person": (1, "person"), "car": (3, "car"), "van": (8, "truck"), "bottle": (44, "bottle")}


@dataclass
class _Rows:
    """What the file says about one image."""

    name: str
    size: Size
    boxes: list[list[float]] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)
    ignore: list[bool] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)  # the numbers of the annotations


def read(root: Path, split: str, annotations: str = ANNOTATIONS, images: str = IMAGES) -> Contents:
    """Read one split; `annotations` and `images` say where file and folder are, with `{split}` in their names."""
    file, folder = root / annotations.format(split=split), root / images.format(split=split)
    record = _parsed(file)
    classes, labels = _categories(file, record)
    by_id = _images(file, record)
    for number, annotation in enumerate(json_field(str(file), record, "annotations", list)):
        _add(by_id, labels, f"{file}, annotations[{number}]", number, annotation)
    paths = files_in(folder)
    return classes, [_image(id, rows, paths, folder, file) for id, rows in by_id.items()]


def _parsed(file: Path) -> Any:
    try:
        return json.loads(read_text(file))
    except json.JSONDecodeError as error:
        raise DatasetError(f"{file} must be JSON, got {error}") from error


def _categories(file: Path, record: Any) -> tuple[tuple[str, ...], dict[int, int]]:
    """The names of the classes, and the label of each id."""
    names: dict[int, str] = {}
    for number, category in enumerate(json_field(str(file), record, "categories", list)):
        place = f"{file}, categories[{number}]"
        id = json_field(place, category, "id", int)
        if id in names:
            raise DatasetError(f"{place}: an id must be unique, got {id} again")
        names[id] = json_field(place, category, "name", str)
    return tuple(names[id] for id in sorted(names)), {id: label for label, id in enumerate(sorted(names), 1)}


def _images(file: Path, record: Any) -> dict[int, _Rows]:
    by_id: dict[int, _Rows] = {}
    names: set[str] = set()
    for number, image in enumerate(json_field(str(file), record, "images", list)):
        place = f"{file}, images[{number}]"
        id, name = json_field(place, image, "id", int), json_field(place, image, "file_name", str)
        if id in by_id or name in names:
            raise DatasetError(f"{place}: id and file_name must be unique, got {id} and {name!r} again")
        names.add(name)
        width, height = (json_number(place, side, image.get(side)) for side in ("width", "height"))
        by_id[id] = _Rows(name, whole_size(place, width, height))
    if not by_id:
        raise DatasetError(f"{file} must have at least one image, got none")
    return by_id


def _add(by_id: dict[int, _Rows], labels: dict[int, int], place: str, number: int, annotation: Any) -> None:
    image, category = json_field(place, annotation, "image_id", int), json_field(place, annotation, "category_id", int)
    if image not in by_id:
        raise DatasetError(f"{place}: image_id must be the id of an image, got {image}")
    if category not in labels:
        raise DatasetError(f"{place}: category_id must be the id of a category, got {category}")
    rows, box = by_id[image], json_corners(place, annotation, "bbox")
    rows.boxes.append(box)
    rows.labels.append(labels[category])
    rows.ignore.append(annotation.get("iscrowd", 0) == 1 or box[0] == box[2] or box[1] == box[3])
    rows.numbers.append(number)


def _image(id: int, rows: _Rows, paths: dict[str, Path], folder: Path, file: Path) -> Image:
    path = image_path(paths, rows.name, folder, f"{file}, image {id}")
    boxes = checked_boxes(rows.boxes, lambda row: f"{file}, annotations[{rows.numbers[row]}]", empty=True)
    return make_image(str(id), path, rows.size, boxes, rows.labels, rows.ignore)


def write(root: Path, split: str, drawings: Iterable[Drawing]) -> Counts:
    """Write one split: hidden objects and regions of people get `iscrowd`."""
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for number, drawing in enumerate(drawings, 1):
        name = f"{number:012}.jpg"
        drawing.save(root / IMAGES.format(split=split) / name)
        images.append({"id": number, "file_name": name, "width": drawing.size[0], "height": drawing.size[1]})
        objects = list(zip(drawing.kinds, drawing.boxes.tolist(), drawing.hidden, strict=True))
        for kind, (x1, y1, x2, y2), crowd in objects + [("person", box, True) for box in drawing.regions.tolist()]:
            box = {"bbox": [x1, y1, x2 - x1, y2 - y1], "area": (x2 - x1) * (y2 - y1), "iscrowd": int(crowd)}
            ids = {"id": len(annotations) + 1, "image_id": number, "category_id": _CATEGORIES[kind][0]}
            annotations.append(ids | box)
    categories = [{"id": id, "name": name} for id, name in _CATEGORIES.values()]
    record = {"images": images, "annotations": annotations, "categories": categories}
    write_text(root / ANNOTATIONS.format(split=split), json.dumps(record))
    return Counts(len(images), len(annotations))
