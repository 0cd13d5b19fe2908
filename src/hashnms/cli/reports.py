"""The HTML page of `--report`: methods, plots, and some of the images with their boxes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hashnms.cli.common import warn
from hashnms.cli.pictures import image_file
from hashnms.compare import Compared, as_dicts, compare
from hashnms.files.loading import Loaded, load
from hashnms.files.rows import Reading
from hashnms.pipeline import Suppression
from hashnms.report import Method, Outcome, Picture, Report, outcome_of, parameters_of, write_report
from hashnms.sweeps import PARAMETERS

if TYPE_CHECKING:
    from hashnms.files.truth import LoadedTruth

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


def write(
    path: Path,
    loaded: Loaded,
    rows: list[Compared],
    images: Path | None,
    show: int,
    known: LoadedTruth | None = None,
) -> None:
    """Write the page about compared methods. Ground truth gives images and classes their names."""
    names = [row.method for row in rows]
    counts = {"raw": _counts(loaded, np.arange(len(loaded.detections)))}
    for name in names:
        counts[name] = _counts(loaded, _kept(loaded, name))
    title = names[0] if len(names) == 1 else f"{len(names)} methods"
    label_names = list(map(str, loaded.labels)) if known is None else known.class_names
    chosen = _chosen(loaded, show)
    files = [_file(images, loaded, number, known) for number in chosen]
    pictures = [_picture(loaded, number, names, label_names, file) for number, file in zip(chosen, files, strict=True)]
    _warn_of_pictures(images, pictures, files)
    write_report(Report(f"hashnms: {title}", str(loaded), methods_of(rows), pictures, counts), path)


def methods_of(rows: list[Compared]) -> list[Method]:
    """The rows of the page's table. A parameter is a column if methods differ in it."""
    hidden = {"method", "parameters", "boxes_in"}
    for name in PARAMETERS:
        if len({row.parameters[name] for row in rows if name in row.parameters}) < 2:
            hidden.add(name)
    return [
        Method(
            row.method, {name: value for name, value in values.items() if name not in hidden}, parameters_of(row.method)
        )
        for row, values in zip(rows, as_dicts(rows), strict=True)
    ]


def _file(folder: Path | None, loaded: Loaded, number: int, known: LoadedTruth | None) -> Path | None:
    """The picture of an image."""
    if folder is None or not loaded.images:
        return None
    return image_file(folder, loaded.images[number], None if known is None else known.file_names[number])


def _warn_of_pictures(folder: Path | None, pictures: list[Picture], files: list[Path | None]) -> None:
    """Say which images are shown without their picture."""
    if folder is None:
        return
    both = list(zip(pictures, files, strict=True))
    missing = [picture.name for picture, file in both if file is None]
    broken = [file for picture, file in both if file is not None and picture.image is None]
    if missing:
        warn(f"{folder} has no picture of {len(missing)} of {len(both)} images on the page, such as {missing[0]!r}")
    if broken:
        warn(f"{len(broken)} of {len(both)} pictures are not JPEG, PNG or WebP and are not shown, such as {broken[0]}")


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


def _picture(loaded: Loaded, number: int, names: list[str], label_names: list[str], file: Path | None) -> Picture:
    found, rows = loaded.detections, loaded.rows_of(number)
    if len(rows) > _MOST_BOXES:
        rows = np.sort(rows[np.argsort(-found.scores[rows], kind="stable")[:_MOST_BOXES]])
    with np.errstate(over="ignore"):  # `Picture` reports what is too large
        boxes, scores = found.boxes[rows].astype(np.float32), found.scores[rows].astype(np.float32)
    labels = None if found.labels is None else found.labels[rows]
    outcomes = {name: outcome_of(name, boxes, scores, labels) for name in names}
    name = str(loaded.images[number]) if loaded.images else "image"
    content = None if file is None else file.read_bytes()
    size = None if content is None else image_size(content)
    if size is None:
        content = None
        size = tuple(np.ceil(boxes[:, 2:].max(axis=0, initial=1.0)).tolist())
    if loaded.relative and content is not None:
        scale = np.array([*size, *size], np.float32)
        boxes, outcomes = boxes * scale, {name: _scaled(outcome, scale) for name, outcome in outcomes.items()}
    return Picture(
        name,
        *size,
        boxes,
        scores,
        labels,
        label_names,
        outcomes,
        content,
        rows=loaded.row_of[rows],
        files=_files(loaded, rows),
    )


def _scaled(outcome: Outcome, scale: Any) -> Outcome:
    return outcome if outcome.boxes is None else replace(outcome, boxes=outcome.boxes * scale)


def _files(loaded: Loaded, rows: Any) -> list[tuple[str, int]]:
    """The files of these rows, each with the place of its first row; none if all input is one file."""
    if len(loaded.files) < 2:
        return []
    numbers, first = np.unique(loaded.file_of[rows], return_index=True)
    return [(loaded.files[number], int(place)) for number, place in zip(numbers, first, strict=True)]


def image_size(content: bytes) -> tuple[float, float] | None:
    """Width and height of an image that browsers can show; None for anything else, and for broken images."""
    from PIL import Image  # noqa: PLC0415

    try:
        with Image.open(io.BytesIO(content), formats=("JPEG", "PNG", "WEBP")) as picture:
            return (float(picture.width), float(picture.height)) if picture.width and picture.height else None
    except Exception:  # Pillow raises many kinds of errors for broken images: boxes are shown without it
        return None
