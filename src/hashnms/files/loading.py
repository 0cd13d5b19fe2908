"""Load detections from files as arrays, to compare, evaluate and plot them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hashnms._arrow import Arrays, BadRow
from hashnms.boxes import to_xyxy
from hashnms.detections import Detections
from hashnms.files.formats import Format, expanded, opened
from hashnms.files.output import spooled, stream_name
from hashnms.files.rows import Reading, Rows, joined_keys, located, read_alike


@dataclass(frozen=True)
class Loaded:
    """Detections loaded from files. Labels and images are numbered by their index in the lists of names."""

    detections: Detections
    images: list[Any]  #: whole numbers or strings, as in the files
    labels: list[Any]
    bad: int  #: rows that were dropped
    files: list[str]
    file_of: NDArray[np.int32]  #: for each box, the index of its file
    row_of: NDArray[np.int64]  #: for each box, its row in that file, counted from 1
    relative: bool = False  #: whether boxes are relative to the size of their image

    def __str__(self) -> str:
        boxes, images = len(self.detections), max(len(self.images), 1)
        return f"{boxes:,} {'box' if boxes == 1 else 'boxes'} of {images:,} {'image' if images == 1 else 'images'}"

    def rows_of(self, image: int) -> NDArray[np.int64]:
        """The rows of an image."""
        if self.detections.images is None:
            return np.arange(len(self.detections))
        return np.flatnonzero(self.detections.images == image)

    def of_images(self, chosen: Sequence[int]) -> Loaded:
        """Only the boxes of these images."""
        found = self.detections
        number = np.full(len(self.images), -1)
        number[chosen] = np.arange(len(chosen))
        images = number[found.images]
        rows = np.flatnonzero(images >= 0)
        labels = None if found.labels is None else found.labels[rows]
        detections = Detections(found.boxes[rows], found.scores[rows], labels, images[rows])
        names = [self.images[place] for place in chosen]
        return replace(self, detections=detections, images=names, file_of=self.file_of[rows], row_of=self.row_of[rows])

    def in_pixels(self, sizes: NDArray[np.float64]) -> Loaded:
        """The boxes of images with these (width, height), in pixels instead of relative to their image."""
        found = self.detections
        pixels = Detections(found.boxes * np.tile(sizes[found.images], 2), found.scores, found.labels, found.images)
        return replace(self, detections=pixels, relative=False)


def load(inputs: Sequence[str | os.PathLike[str]], reading: Reading, format: str | None = None) -> Loaded:
    """Load all detections of files with one format; "-" is standard input."""
    with spooled(inputs) as given:
        loaded = _loaded(*expanded(given, format), reading)
    names = {str(path): stream_name(name) for path, name in zip(given, inputs, strict=True)}
    return replace(loaded, files=[names.get(name, name) for name in loaded.files])


def _loaded(paths: list[Path], form: Format, reading: Reading) -> Loaded:
    sources = opened(paths, form, reading)
    parts = list(read_alike(sources))
    columns = sources[0].columns
    keys = joined_keys(parts) if parts else pa.table({name: pa.nulls(0, pa.float64()) for name in columns.names})
    names: dict[str, list[Any]] = {}
    for name in (columns.image, columns.label):
        if name is not None:
            numbers, names[name] = _numbered(keys.column(name))
            keys = keys.set_column(keys.schema.get_field_index(name), name, numbers)
    if not parts:
        return Loaded(Detections(np.zeros((0, 4)), np.zeros(0)), [], [], 0, [], np.zeros(0, np.int32), np.zeros(0, int))
    arrays = Arrays.of(keys, columns)
    bad = arrays.bad_rows(columns)
    if len(bad) and reading.on_bad == "raise":
        try:
            arrays.explain(columns)
        except BadRow as error:
            raise located(error, parts) from None
    files, file_of, row_of = _origins(parts)
    if len(bad):
        good = np.delete(np.arange(len(keys)), bad)
        arrays, file_of, row_of = arrays.take(good), file_of[good], row_of[good]
    boxes = to_xyxy(arrays.boxes, columns.box_format)
    detections = Detections(boxes, arrays.scores, arrays.labels, arrays.images)
    images, labels = ([] if name is None else names[name] for name in (columns.image, columns.label))
    return Loaded(detections, images, labels, len(bad), files, file_of, row_of, sources[0].relative)


def _origins(parts: Sequence[Rows]) -> tuple[list[str], NDArray[np.int32], NDArray[np.int64]]:
    """The files of all rows, and for each row the index of its file and its row there, counted from 1."""
    pieces = [piece for rows in parts for piece in rows.origins()]
    index = {path: number for number, path in enumerate(dict.fromkeys(path for path, _, _ in pieces))}
    file_of = np.repeat(np.array([index[path] for path, _, _ in pieces], np.int32), [count for *_, count in pieces])
    row_of = np.concatenate([np.arange(first + 1, first + 1 + count) for _, first, count in pieces])
    return list(map(str, index)), file_of, row_of


def _numbered(column: Any) -> tuple[Any, list[Any]]:
    """Number the values of a column in order of first appearance: the numbers, and the list of values."""
    encoded = pc.dictionary_encode(column.combine_chunks())
    return encoded.indices.cast(pa.int64()), encoded.dictionary.to_pylist()
