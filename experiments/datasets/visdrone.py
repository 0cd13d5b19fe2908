"""VisDrone-DET: lines of `x,y,width,height,score,category,truncation,occlusion`; a comma may follow.

    VisDrone2019-DET-{train,val,test-dev}/images/<id>.jpg
    VisDrone2019-DET-{train,val,test-dev}/annotations/<id>.txt

Category 0 (ignored regions), category 11 (others) and score 0 are ignored, and so are boxes of zero width or height, of
which the published files have a few.
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
    MissingError,
    checked_boxes,
    files_in,
    image_path,
    images_by_id,
    make_image,
    numbered_lines,
    numbers,
    write_text,
)

CLASSES = (
    *("pedestrian", "people", "bicycle", "car", "van", "truck"),
    *("tricycle", "awning-tricycle", "bus", "motor"),
)
_FIELDS = ("x", "y", "width", "height", "score", "category", "truncation", "occlusion")
_IGNORED = (0, 11)
_CATEGORIES = {"person": 1, "car": 4, "van": 5}


def read(root: Path, split: str) -> Contents:
    """Read one split, in the order of names. A file without lines is an image without objects."""
    folder = root / f"VisDrone2019-DET-{split}"
    annotations = [path for path in files_in(folder / "annotations").values() if path.suffix == ".txt"]
    paths = images_by_id(folder / "images")
    images = []
    for file in annotations:
        images.append(_read_image(file, image_path(paths, file.stem, folder / "images", str(file))))
    if len(paths) != len(images):
        id = min(set(paths) - {image.id for image in images})
        raise MissingError(f"{folder / 'annotations'} must have {id}.txt for {paths[id]}, got no such file")
    if not images:
        raise DatasetError(f"{folder} must have at least one image, got none")
    return CLASSES, images


def _read_image(file: Path, path: Path) -> Image:
    lines = numbered_lines(file)
    corners, labels, ignore = [], [], []
    for number, line in lines:
        place = f"{file}, line {number}"
        x, y, width, height, score, category, _, _ = numbers(place, _FIELDS, line.removesuffix(",").split(","))
        if category not in range(12):
            raise DatasetError(f"{place}: category must be one of 0 to 11, got {category:g}")
        if score not in (0, 1):
            raise DatasetError(f"{place}: score must be 0 or 1, got {score:g}")
        corners.append([x, y, x + width, y + height])
        labels.append(0 if category in _IGNORED else int(category))
        ignore.append(category in _IGNORED or score == 0 or width == 0 or height == 0)
    boxes = checked_boxes(corners, lambda row: f"{file}, line {lines[row][0]}", empty=True)
    return make_image(file.stem, path, None, boxes, labels, ignore)


def write(root: Path, split: str, drawings: Iterable[Drawing]) -> Counts:
    """Write one split: hidden objects get score 0, regions category 0."""
    folder, num_images, num_boxes = root / f"VisDrone2019-DET-{split}", 0, 0
    for number, drawing in enumerate(drawings, 1):
        id = f"{number:07}_00000_d_0000001"
        drawing.save(folder / "images" / f"{id}.jpg")
        objects = [
            (box, f"{int(not hidden)},{_CATEGORIES[kind]},0,{2 if hidden else int(share < 1)}")
            for kind, box, hidden, share in zip(
                drawing.kinds, drawing.boxes.tolist(), drawing.hidden, drawing.visible, strict=True
            )
        ]
        regions = [(box, "0,0,0,0") for box in drawing.regions.tolist()]
        lines = [f"{x1},{y1},{x2 - x1},{y2 - y1},{rest}\n" for (x1, y1, x2, y2), rest in objects + regions]
        write_text(folder / "annotations" / f"{id}.txt", "".join(lines))
        num_images, num_boxes = num_images + 1, num_boxes + len(lines)
    return Counts(num_images, num_boxes)
