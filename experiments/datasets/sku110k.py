"""SKU-110K: one CSV file per split, without a header, with lines of `name,x1,y1,x2,y2,class,width,height`.

    images/<name>
    annotations/annotations_{train,val,test}.csv

Images come in the order in which the file first names them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

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
    make_image,
    numbered_lines,
    numbers,
    whole_size,
    write_text,
)

CLASSES = ("object",)
_FIELDS = ("x1", "y1", "x2", "y2", "width", "height")


@dataclass
class _Rows:
    """What the file says about one image."""

    size: Size
    boxes: list[list[float]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)


def read(root: Path, split: str) -> Contents:
    """Read one split."""
    file = root / "annotations" / f"annotations_{split}.csv"
    by_name: dict[str, _Rows] = {}
    for number, line in numbered_lines(file):
        _read_line(by_name, f"{file}, line {number}", number, line)
    if not by_name:
        raise DatasetError(f"{file} must have at least one box, got an empty file")
    paths = files_in(root / "images")
    return CLASSES, [_image(name, rows, paths, root / "images", file) for name, rows in by_name.items()]


def _read_line(by_name: dict[str, _Rows], place: str, number: int, line: str) -> None:
    fields = line.split(",")
    if len(fields) != 8:
        raise DatasetError(f"{place}: must have 8 fields (name,x1,y1,x2,y2,class,width,height), got {len(fields)}")
    name, label = fields[0].strip(), fields[5].strip()
    if label not in CLASSES:
        raise DatasetError(f"{place}: class must be {CLASSES[0]!r}, got {label!r}")
    values = numbers(place, _FIELDS, fields[1:5] + fields[6:])
    size = whole_size(place, values[4], values[5])
    rows = by_name.setdefault(name, _Rows(size))
    if rows.size != size:
        raise DatasetError(f"{place}: {name} must be {rows.size} pixels as in line {rows.lines[0]}, got {size}")
    rows.boxes.append(values[:4])
    rows.lines.append(number)


def _image(name: str, rows: _Rows, paths: dict[str, Path], folder: Path, file: Path) -> Image:
    path = image_path(paths, name, folder, f"{file}, line {rows.lines[0]}")
    boxes = checked_boxes(rows.boxes, lambda row: f"{file}, line {rows.lines[row]}")
    return make_image(path.stem, path, rows.size, boxes, [1] * len(boxes), [False] * len(boxes))


def write(root: Path, split: str, drawings: Iterable[Drawing]) -> Counts:
    """Write one split; every image must have an object, because the format has no images without objects."""
    lines, num_images = [], 0
    for number, drawing in enumerate(drawings):
        name = f"{split}_{number}.jpg"
        drawing.save(root / "images" / name)
        width, height = drawing.size
        lines += [f"{name},{','.join(map(str, box))},object,{width},{height}\n" for box in drawing.boxes.tolist()]
        num_images += 1
    write_text(root / "annotations" / f"annotations_{split}.csv", "".join(lines))
    return Counts(num_images, len(lines))
