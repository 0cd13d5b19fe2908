"""CrowdHuman: `.odgt` files with one JSON object per line, and three boxes (x, y, width, height) for each person.

    Images/<ID>.jpg
    annotation_{train,val}.odgt

`vbox` is around the visible part of a person, `fbox` around the whole body, `hbox` around the head. Boxes may be
negative or reach beyond the image, and are not changed here: `Image.targets` clips them for training. The tag *mask*, a
region of many people or of none, and `extra.ignore` are ignored. Heads with `head_attr.ignore` are ignored too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from experiments.datasets.common import (
    Contents,
    Counts,
    DatasetError,
    Drawing,
    Image,
    checked_boxes,
    image_path,
    images_by_id,
    json_corners,
    json_field,
    make_image,
    numbered_lines,
    write_text,
)

CLASSES = ("person",)
BoxName = Literal["vbox", "fbox", "hbox"]
_LABELS = {"person": 1, "mask": 0}


def read(root: Path, split: str, box: BoxName = "vbox") -> Contents:
    """Read one split with one of the three boxes of each person."""
    file, folder = root / f"annotation_{split}.odgt", root / "Images"
    lines = numbered_lines(file)
    if not lines:
        raise DatasetError(f"{file} must have at least one image, got an empty file")
    paths = images_by_id(folder)
    images: dict[str, Image] = {}
    for number, line in lines:
        place = f"{file}, line {number}"
        record = _parsed(place, line)
        id = json_field(place, record, "ID", str)
        if id in images:
            raise DatasetError(f"{place}: an ID must be unique, got {id!r} again")
        images[id] = _image(id, image_path(paths, id, folder, place), record, place, box)
    return CLASSES, list(images.values())


def _parsed(place: str, line: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise DatasetError(f"{place}: must be a JSON object, got {line[:40]!r} ({error})") from error


def _image(id: str, path: Path, record: Any, place: str, box: BoxName) -> Image:
    corners, labels, ignore = [], [], []
    for number, person in enumerate(json_field(place, record, "gtboxes", list)):
        here = f"{place}, gtboxes[{number}]"
        tag = json_field(here, person, "tag", str)
        if tag not in _LABELS:
            raise DatasetError(f"{here}: tag must be person or mask, got {tag!r}")
        corners.append(json_corners(here, person, box))
        labels.append(_LABELS[tag])
        flags = [person.get("extra"), person.get("head_attr") if box == "hbox" else None]
        ignore.append(tag == "mask" or any(flag.get("ignore") == 1 for flag in flags if isinstance(flag, dict)))
    boxes = checked_boxes(corners, lambda row: f"{place}, gtboxes[{row}], {box}")
    return make_image(id, path, None, boxes, labels, ignore)


def write(root: Path, split: str, drawings: Iterable[Drawing]) -> Counts:
    """Write one split: hidden people get `extra.ignore`, regions the tag *mask*."""
    lines, num_boxes = [], 0
    for number, drawing in enumerate(drawings, 1):
        id = f"{split},{number:08x}"
        drawing.save(root / "Images" / f"{id}.jpg")
        people = [_person(drawing, row) for row in range(len(drawing.boxes))]
        masks = [_mask(region) for region in drawing.regions.tolist()]
        lines.append(json.dumps({"ID": id, "gtboxes": people + masks}) + "\n")
        num_boxes += len(people) + len(masks)
    write_text(root / f"annotation_{split}.odgt", "".join(lines))
    return Counts(len(lines), num_boxes)


def _person(drawing: Drawing, row: int) -> dict[str, Any]:
    full = drawing.full_boxes[row].tolist()
    width, height = full[2] - full[0], full[3] - full[1]
    hidden = {"ignore": 1} if drawing.hidden[row] else {}
    head = [full[0] + width // 4, full[1], max(1, width // 2), max(1, height // 6)]
    return {
        "tag": "person",
        "hbox": head,
        "head_attr": {"ignore": 0, "occ": 0, "unsure": 0},
        "fbox": [*full[:2], width, height],
        "vbox": _xywh(drawing.boxes[row].tolist()),
        "extra": {"box_id": row, "occ": int(drawing.visible[row] < 1), **hidden},
    }


def _mask(region: list[int]) -> dict[str, Any]:
    box = _xywh(region)
    return {"tag": "mask", "hbox": box, "head_attr": {}, "fbox": box, "vbox": box, "extra": {"ignore": 1}}


def _xywh(box: list[int]) -> list[int]:
    return [box[0], box[1], box[2] - box[0], box[3] - box[1]]
