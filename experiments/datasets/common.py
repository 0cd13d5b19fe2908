"""What all formats share: the types, the checks and their messages."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import PIL.Image
from numpy.typing import NDArray

Boxes: TypeAlias = NDArray[np.float32]
Size: TypeAlias = tuple[int, int]  # width, height

#: The suffixes of images.
SUFFIXES = (".png", ".jpg", ".jpeg")


class DatasetError(ValueError):
    """Invalid data on disk. The message says where it is, what is needed and what was found."""


class MissingError(DatasetError):
    """A file or folder is missing."""


@dataclass(frozen=True, eq=False)
class Image:
    """One image and its annotation; the pixels stay on disk.

    Boxes are as in the file: in some datasets they may be negative or reach beyond the image.
    """

    id: str
    path: Path
    size: Size | None  # None if the annotation does not say it
    boxes: Boxes  # (N, 4) xyxy pixels; x2 > x1 and y2 > y1, except for some ignored ones
    labels: NDArray[np.int64]  # (N,) from 1, as in torchvision; 0: an ignored region without a class
    ignore: NDArray[np.bool_]  # (N,) removed in training, ignored in evaluation

    def pixels(self) -> NDArray[np.uint8]:
        """The image as (H, W, 3) RGB."""
        try:
            with PIL.Image.open(self.path) as picture:
                pixels: NDArray[np.uint8] = np.asarray(picture.convert("RGB"))
        except (OSError, SyntaxError) as error:  # Pillow raises both
            raise DatasetError(f"{self.path} must be an image, got {error}") from error
        height, width = pixels.shape[:2]
        if self.size not in (None, (width, height)):
            need = "{} x {}".format(*self.size or ())
            raise DatasetError(f"{self.path} must be {need} pixels as its annotation says, got {width} x {height}")
        return pixels

    def targets(self, size: Size) -> tuple[Boxes, NDArray[np.int64]]:
        """Boxes and labels to train on: without ignored ones, clipped to an image of this width and height.

        Boxes that lie completely outside are removed.
        """
        boxes = np.clip(self.boxes, 0, np.array([*size, *size], np.float32))
        use = ~self.ignore & (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
        return boxes[use], self.labels[use]


@dataclass(frozen=True, eq=False)
class Dataset:
    """One split of a dataset. `classes[label - 1]` is the name of a label."""

    name: str
    split: str
    classes: tuple[str, ...]
    images: tuple[Image, ...]

    def __len__(self) -> int:
        return len(self.images)

    @property
    def num_boxes(self) -> int:
        """The number of all boxes, including ignored ones."""
        return sum(len(image.boxes) for image in self.images)

    def pixels(self, index: int) -> NDArray[np.uint8]:
        """Image number `index` as (H, W, 3) RGB."""
        return self.images[index].pixels()

    def __str__(self) -> str:
        return f"{self.name} {self.split}: {Counts(len(self), self.num_boxes)}"


@dataclass(frozen=True)
class Counts:
    """The size of a split; None if the number of boxes is not published."""

    images: int
    boxes: int | None

    def __str__(self) -> str:
        images = f"{self.images:,} image{'s' * (self.images != 1)}"
        return images if self.boxes is None else f"{images}, {self.boxes:,} box{'es' * (self.boxes != 1)}"


#: What a reader returns: the names of the classes, and the images.
Contents: TypeAlias = tuple[tuple[str, ...], list[Image]]


@dataclass(frozen=True, eq=False)
class Drawing:
    """A drawn image with everything that a format can say about it, for writers. Boxes are xyxy whole pixels."""

    pixels: NDArray[np.uint8]  # (H, W, 3)
    kinds: tuple[str, ...]  # for each object: car, van, bottle or person
    boxes: NDArray[np.int64]  # (N, 4) around its visible part
    full_boxes: NDArray[np.int64]  # (N, 4) around all of it, including hidden parts and parts outside the image
    visible: NDArray[np.float64]  # (N,) its visible share
    regions: NDArray[np.int64]  # (R, 4) where objects are too small to distinguish

    @property
    def size(self) -> Size:
        return self.pixels.shape[1], self.pixels.shape[0]

    @property
    def hidden(self) -> list[bool]:
        """Whether each object is mostly hidden; formats that can say so mark it as ignored."""
        return [bool(share < 0.4) for share in self.visible]

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        PIL.Image.fromarray(self.pixels).save(path, quality=92)  # for JPEG; PNG ignores it


def make_image(
    id: str, path: Path, size: Size | None, boxes: Boxes, labels: Sequence[int], ignore: Sequence[bool]
) -> Image:
    return Image(id, path, size, boxes, np.array(labels, np.int64), np.array(ignore, np.bool_))


def read_text(path: Path) -> str:
    """The text of a file, without byte order mark and carriage returns."""
    if not path.is_file():
        raise MissingError(f"{path} must be a file, got {'a folder' if path.is_dir() else 'nothing'}")
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path} must be text in UTF-8, got {error}") from error


def write_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


def numbered_lines(path: Path) -> list[tuple[int, str]]:
    """The non-blank lines of a file, with their numbers from 1."""
    lines = (line.strip() for line in read_text(path).split("\n"))
    return [(number, line) for number, line in enumerate(lines, 1) if line]


def listed_ids(path: Path) -> list[str]:
    """The ids in a list of images, one per line."""
    lines = numbered_lines(path)
    if not lines:
        raise DatasetError(f"{path} must list at least one image, got an empty file")
    first: dict[str, int] = {}
    for number, line in lines:
        if line in first:
            raise DatasetError(
                f"{path}, line {number}: an id must be listed once, got {line!r} again, as in line {first[line]}"
            )
        first[line] = number
    return list(first)


def numbers(place: str, names: Sequence[str], fields: Sequence[str]) -> list[float]:
    """The numbers of one line, with these names."""
    if len(fields) != len(names):
        raise DatasetError(f"{place}: must have {len(names)} fields ({' '.join(names)}), got {len(fields)}")
    values = []
    for name, field in zip(names, fields, strict=True):
        try:
            values.append(float(field if "_" not in field else "no number"))  # Python accepts 1_0
        except ValueError:
            raise DatasetError(f"{place}: {name} must be a number, got {field!r}") from None
    return values


def json_number(place: str, name: str, value: Any) -> float:
    """A number of a JSON file."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise DatasetError(f"{place}: {name} must be a number, got {value!r}")
    return float(value) if abs(value) < 1e300 else math.inf  # float() refuses integers of 400 digits


def json_field(place: str, record: Any, name: str, kind: type) -> Any:
    """A value of a JSON object, of this type."""
    if not isinstance(record, dict) or name not in record:
        got = sorted(record) if isinstance(record, dict) else type(record).__name__
        raise DatasetError(f"{place}: must be an object with {name!r}, got {got}")
    if not isinstance(record[name], kind) or isinstance(record[name], bool):
        raise DatasetError(f"{place}: {name!r} must be of type {kind.__name__}, got {record[name]!r}")
    return record[name]


def json_corners(place: str, record: Any, name: str) -> list[float]:
    """A box of a JSON object, x, y, width and height, as x1, y1, x2, y2."""
    box = json_field(place, record, name, list)
    if len(box) != 4:
        raise DatasetError(f"{place}: {name} must be x, y, width, height, got {box}")
    x, y, width, height = (json_number(place, name, value) for value in box)
    return [x, y, x + width, y + height]


#: Beyond this, float32 has no halves of a pixel.
_FARTHEST = 2.0**22


def checked_boxes(values: Iterable[Sequence[float]], place: Callable[[int], str], *, empty: bool = False) -> Boxes:
    """Rows of x1, y1, x2, y2 as an array, if they are boxes; `place(row)` says where a row comes from.

    Boxes of zero width or height pass only if `empty`: published files of some datasets have a few.
    """
    boxes = np.array(values, np.float64).reshape(-1, 4)
    far = ~(np.abs(boxes) <= _FARTHEST).all(axis=1)  # also NaN
    low, high = boxes[:, :2], boxes[:, 2:]
    flat = ((high < low) if empty else (high <= low)).any(axis=1)
    for bad, need in ((far, f"finite coordinates within {_FARTHEST:.0f}"), (flat, "x2 > x1 and y2 > y1")):
        if bad.any():
            row = int(bad.argmax())
            shown = ", ".join(f"{value:g}" for value in boxes[row])
            raise DatasetError(f"{place(row)}: a box needs {need}, got x1, y1, x2, y2 = {shown}")
    return boxes.astype(np.float32)


def whole_size(place: str, width: float, height: float) -> Size:
    """Width and height of an image, from its annotation."""
    if not (width >= 1 and height >= 1 and math.isfinite(width + height)):
        raise DatasetError(f"{place}: width and height of an image must be at least 1, got {width:g} and {height:g}")
    return int(width), int(height)


def files_in(folder: Path) -> dict[str, Path]:
    """The files of a folder by name, with one listing for all."""
    if not folder.is_dir():
        raise MissingError(f"{folder} must be a folder, got {'a file' if folder.exists() else 'nothing'}")
    with os.scandir(folder) as entries:
        return {entry.name: folder / entry.name for entry in sorted(entries, key=lambda entry: entry.name)}


def images_by_id(folder: Path) -> dict[str, Path]:
    """The images of a folder by name without suffix."""
    images: dict[str, Path] = {}
    for name, path in files_in(folder).items():
        stem, suffix = os.path.splitext(name)
        if suffix.lower() not in SUFFIXES:
            continue
        if stem in images:
            raise DatasetError(f"{folder}: an id must have one image, got {images[stem].name} and {name}")
        images[stem] = path
    return images


def image_path(images: dict[str, Path], name: str, folder: Path, place: str) -> Path:
    """The image with this id or name, which must be in the folder."""
    if name not in images:
        raise MissingError(f"{place}: image {name!r} must be in {folder}, got no such file")
    return images[name]
