"""The devkit of CARPK and PUCPR+: lines of `x1 y1 x2 y2 class`, and lists of images.

    data/Images/<id>.png (or .jpg)
    data/Annotations/<id>.txt
    data/ImageSets/{train,test}.txt

A file without lines is an image without cars.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from experiments.datasets.common import (
    Contents,
    Counts,
    DatasetError,
    Drawing,
    Image,
    checked_boxes,
    image_path,
    images_by_id,
    listed_ids,
    make_image,
    numbered_lines,
    numbers,
    write_text,
)

CLASSES = ("car",)
_FIELDS = ("x1", "y1", "x2", "y2", "class")


def read(root: Path, split: str) -> Contents:
    """Read one split; `root` is the folder `data` or the one above it."""
    data = root / "data" if (root / "data").is_dir() else root
    list_file, folder = data / "ImageSets" / f"{split}.txt", data / "Images"
    paths = images_by_id(folder)
    images = []
    for id in listed_ids(list_file):
        path = image_path(paths, id, folder, str(list_file))
        images.append(_read_image(id, path, data / "Annotations" / f"{id}.txt"))
    return CLASSES, images


def _read_image(id: str, path: Path, annotation: Path) -> Image:
    lines = numbered_lines(annotation)
    rows = [numbers(f"{annotation}, line {number}", _FIELDS, line.split()) for number, line in lines]
    for (number, _), row in zip(lines, rows, strict=True):
        if row[4] != 1:
            raise DatasetError(f"{annotation}, line {number}: class must be 1 (car), got {row[4]:g}")
    boxes = checked_boxes([row[:4] for row in rows], lambda row: f"{annotation}, line {lines[row][0]}")
    return make_image(id, path, None, boxes, [1] * len(rows), [False] * len(rows))


def write(root: Path, split: str, drawings: Iterable[Drawing]) -> Counts:
    """Write one split, with images as PNG like the original."""
    data, ids, num_boxes = root / "data", [], 0
    for number, drawing in enumerate(drawings, 1):
        ids.append(f"{split}_{number:05}")
        drawing.save(data / "Images" / f"{ids[-1]}.png")
        lines = [" ".join(map(str, box)) + " 1\n" for box in drawing.boxes.tolist()]
        write_text(data / "Annotations" / f"{ids[-1]}.txt", "".join(lines))
        num_boxes += len(lines)
    write_text(data / "ImageSets" / f"{split}.txt", "".join(f"{id}\n" for id in ids))
    return Counts(len(ids), num_boxes)
