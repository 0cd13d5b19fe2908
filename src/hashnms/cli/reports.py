"""The HTML page of `--report`: methods, plots, and some of the images with their boxes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hashnms.cli.pictures import image_file
from hashnms.compare import Compared, as_dicts, compare
from hashnms.files.loading import Loaded, load
from hashnms.files.rows import Reading
from hashnms.pipeline import Suppression
from hashnms.report import Method, Picture, Report, outcome_of, parameters_of, write_report

#: Boxes in a picture on the page; if there are more, only the best are shown.
_MOST_BOXES = 100_000


def report_of_files(
    path: Path,
    inputs: Sequence[str],
    suppression: str,
    format: str | None,
    reading: Reading,
    images: Path | None,
    show: int,
) -> None:
    """Write the page about one suppression of detections in files."""
    loaded = load(inputs, reading, format)
    write(path, loaded, compare(loaded.detections, [suppression], rounds=3), images, show)


def write(path: Path, loaded: Loaded, rows: list[Compared], images: Path | None, show: int) -> None:
    """Write the page about compared methods."""
    names = [row.method for row in rows]
    counts = {"raw": _counts(loaded, np.arange(len(loaded.detections)))}
    for name in names:
        counts[name] = _counts(loaded, _kept(loaded, name))
    title = names[0] if len(names) == 1 else f"{len(names)} methods"
    pictures = [_picture(loaded, number, names, images) for number in _chosen(loaded, show)]
    write_report(Report(f"hashnms: {title}", str(loaded), methods_of(rows), pictures, counts), path)


def methods_of(rows: list[Compared]) -> list[Method]:
    """The rows of the page's table."""
    hidden = ("method", "parameters", "boxes_in")
    methods = []
    for row, values in zip(rows, as_dicts(rows), strict=True):
        known = {name: value for name, value in values.items() if name not in hidden and name not in row.parameters}
        methods.append(Method(row.method, known, parameters_of(row.method)))
    return methods


def _kept(loaded: Loaded, name: str) -> Any:
    found = loaded.detections
    return Suppression.parse(name)(found.boxes, found.scores, found.labels, found.images).keep


def _counts(loaded: Loaded, rows: Any) -> list[int]:
    """How many of these rows belong to each image."""
    if loaded.detections.images is None:
        return [len(rows)]
    counts: list[int] = np.bincount(loaded.detections.images[rows], minlength=len(loaded.images)).tolist()
    return counts


def _chosen(loaded: Loaded, show: int) -> list[int]:
    """The images with the most boxes."""
    counts = np.array(_counts(loaded, np.arange(len(loaded.detections))))
    return sorted(np.argsort(-counts, kind="stable")[:show].tolist())


def _picture(loaded: Loaded, number: int, names: list[str], folder: Path | None) -> Picture:
    found, rows = loaded.detections, loaded.rows_of(number)
    if len(rows) > _MOST_BOXES:
        rows = np.sort(rows[np.argsort(-found.scores[rows], kind="stable")[:_MOST_BOXES]])
    with np.errstate(over="ignore"):  # `Picture` reports what is too large
        boxes, scores = found.boxes[rows].astype(np.float32), found.scores[rows].astype(np.float32)
    labels = None if found.labels is None else found.labels[rows]
    outcomes = {name: outcome_of(name, boxes, scores, labels) for name in names}
    name = str(loaded.images[number]) if loaded.images else "image"
    file = image_file(folder, loaded.images[number]) if loaded.images else None
    content = None if file is None else file.read_bytes()
    size = None if content is None else image_size(content)
    if size is None:
        content = None
        size = tuple(np.ceil(boxes[:, 2:].max(axis=0, initial=1.0)).tolist())
    return Picture(name, *size, boxes, scores, labels, [str(label) for label in loaded.labels], outcomes, content)


def image_size(content: bytes) -> tuple[float, float] | None:
    """Width and height of an image that browsers can show; None for anything else, and for broken images."""
    from PIL import Image  # noqa: PLC0415

    try:
        with Image.open(io.BytesIO(content), formats=("JPEG", "PNG", "WEBP")) as picture:
            return (float(picture.width), float(picture.height)) if picture.width and picture.height else None
    except Exception:  # Pillow raises many kinds of errors for broken images: boxes are shown without it
        return None
