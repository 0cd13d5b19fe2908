"""Pascal VOC: one XML file per image, and lists of images.

    JPEGImages/<id>.jpg
    Annotations/<id>.xml
    ImageSets/Main/{train,val,trainval,test}.txt

Pixels are numbered from 1, and `xmax`, `ymax` are the last pixels of the box: here it reaches from `xmin - 1` to
`xmax`. Objects marked as difficult are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from xml.etree import ElementTree
from xml.sax.saxutils import escape

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
    numbers,
    read_text,
    whole_size,
    write_text,
)

CLASSES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog"),
    *("horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"),
)
_CORNERS = ("xmin", "ymin", "xmax", "ymax")
_NAMES = {"car": "car", "van": "car", "bottle": "bottle", "person": "person"}


def read(root: Path, split: str, classes: Sequence[str] = CLASSES) -> Contents:
    """Read one split; other data in this format has its own classes."""
    list_file, folder = root / "ImageSets" / "Main" / f"{split}.txt", root / "JPEGImages"
    paths = images_by_id(folder)
    labels = {name: label for label, name in enumerate(classes, 1)}
    images = []
    for id in listed_ids(list_file):
        path = image_path(paths, id, folder, str(list_file))
        images.append(_read_image(id, path, root / "Annotations" / f"{id}.xml", labels))
    return tuple(classes), images


def _read_image(id: str, path: Path, file: Path, known: dict[str, int]) -> Image:
    annotation = _parsed(file)
    corners, labels, ignore = [], [], []
    for number, element in enumerate(annotation.iterfind("object"), 1):
        place = f"{file}, object {number}"
        name = _text(place, element, "name")
        if name not in known:
            raise DatasetError(f"{place}: name must be one of {', '.join(known)}, got {name!r}")
        x1, y1, x2, y2 = numbers(place, _CORNERS, [_text(place, element, f"bndbox/{corner}") for corner in _CORNERS])
        corners.append([x1 - 1, y1 - 1, x2, y2])
        labels.append(known[name])
        ignore.append(_flag(place, element, "difficult"))
    sides = [_text(str(file), annotation, f"size/{side}") for side in ("width", "height")]
    width, height = numbers(str(file), ("width", "height"), sides)
    boxes = checked_boxes(corners, lambda row: f"{file}, object {row + 1}")
    return make_image(id, path, whole_size(str(file), width, height), boxes, labels, ignore)


def _parsed(file: Path) -> ElementTree.Element:
    text = read_text(file)
    if "<!DOCTYPE" in text:  # entities can make a small file grow without limit
        raise DatasetError(f"{file} must be XML without a DOCTYPE, got one")
    try:
        annotation = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise DatasetError(f"{file} must be XML, got {error}") from error
    if annotation.tag != "annotation":
        raise DatasetError(f"{file} must be an <annotation>, got <{annotation.tag}>")
    return annotation


def _text(place: str, element: ElementTree.Element, path: str) -> str:
    text = element.findtext(path)
    if text is None or not text.strip():
        raise DatasetError(f"{place}: must have <{path.replace('/', '><')}>, got none")
    return text.strip()


def _flag(place: str, element: ElementTree.Element, name: str) -> bool:
    """True or false; false if it is missing."""
    text = element.findtext(name, "0").strip()
    if text not in ("0", "1"):
        raise DatasetError(f"{place}: {name} must be 0 or 1, got {text!r}")
    return text == "1"


def write(root: Path, split: str, drawings: Iterable[Drawing]) -> Counts:
    """Write one split: hidden objects are marked as difficult."""
    ids, num_boxes = [], 0
    for number, drawing in enumerate(drawings, 1):
        ids.append(f"{split}_{number:06}")
        drawing.save(root / "JPEGImages" / f"{ids[-1]}.jpg")
        write_text(root / "Annotations" / f"{ids[-1]}.xml", _annotation(f"{ids[-1]}.jpg", drawing))
        num_boxes += len(drawing.boxes)
    write_text(root / "ImageSets" / "Main" / f"{split}.txt", "".join(f"{id}\n" for id in ids))
    return Counts(len(ids), num_boxes)


def _annotation(name: str, drawing: Drawing) -> str:
    width, height = drawing.size
    lines = [
        "<annotation>",
        f"  <filename>{escape(name)}</filename>",
        f"  <size><width>{width}</width><height>{height}</height><depth>3</depth></size>",
    ]
    for kind, (x1, y1, x2, y2), hidden in zip(drawing.kinds, drawing.boxes.tolist(), drawing.hidden, strict=True):
        corners = (x1 + 1, y1 + 1, x2, y2)
        box = "".join(f"<{corner}>{value}</{corner}>" for corner, value in zip(_CORNERS, corners, strict=True))
        lines += [
            f"  <object><name>{_NAMES[kind]}</name><difficult>{int(hidden)}</difficult>",
            f"    <bndbox>{box}</bndbox></object>",
        ]
    return "\n".join([*lines, "</annotation>", ""])
