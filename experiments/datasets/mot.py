"""MOT17: `frame,id,x,y,width,height,counted,class,visibility` a line of a sequence.

    <split>/MOT17-<number>[-<detector>]/img1/<frame>.jpg
    <split>/MOT17-<number>[-<detector>]/gt/gt.txt

A sequence comes three times, once for each detector, with the same images and boxes: the first one is read. Pedestrians
that count are the objects; lines of other classes are left out.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from experiments.datasets.common import (
    Contents,
    DatasetError,
    Image,
    checked_boxes,
    files_in,
    images_by_id,
    make_image,
    numbered_lines,
    numbers,
)

CLASSES = ("person",)
_FIELDS = ("frame", "id", "x", "y", "width", "height", "counted", "class", "visibility")
_PEDESTRIAN = 1


def read(root: Path, split: str) -> Contents:
    """Read all sequences of a split, by their names, frame by frame."""
    sequences: dict[str, Path] = {}
    for name, folder in files_in(root / split).items():
        if folder.is_dir():
            sequences.setdefault("-".join(name.split("-")[:2]), folder)
    images = [image for name, folder in sequences.items() for image in _read_sequence(name, folder)]
    if not images:
        raise DatasetError(f"{root / split} must have at least one image, got none")
    return CLASSES, images


def _read_sequence(name: str, folder: Path) -> list[Image]:
    file = folder / "gt" / "gt.txt"
    corners: dict[int, list[list[float]]] = defaultdict(list)
    lines: dict[int, list[int]] = defaultdict(list)
    for number, line in numbered_lines(file):
        frame, _, x, y, width, height, counted, kind, _ = numbers(f"{file}, line {number}", _FIELDS, line.split(","))
        if counted and kind == _PEDESTRIAN:
            corners[int(frame)].append([x, y, x + width, y + height])
            lines[int(frame)].append(number)
    images = []
    for stem, path in images_by_id(folder / "img1").items():
        if not stem.isdecimal():
            raise DatasetError(f"{path} must be named by the number of its frame, got {stem!r}")
        frame = int(stem)
        places = [f"{file}, line {number}" for number in lines[frame]]
        boxes = checked_boxes(corners[frame], places.__getitem__)
        images.append(make_image(f"{name}_{stem}", path, None, boxes, [1] * len(boxes), [False] * len(boxes)))
    return images
