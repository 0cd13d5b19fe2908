"""Load detections from files as arrays, to compare, evaluate and plot them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hashnms._arrow import Arrays, BadRow
from hashnms.boxes import to_xyxy
from hashnms.detections import Detections
from hashnms.files.formats import Format, expanded
from hashnms.files.output import spooled
from hashnms.files.rows import Reading, joined_keys, located, read_alike


@dataclass(frozen=True)
class Loaded:
    """Detections loaded from files. Labels and images are numbered by their index in the lists of names."""

    detections: Detections
    images: list[Any]  #: whole numbers or strings, as in the files
    labels: list[Any]
    bad: int  #: rows that were dropped

    def __str__(self) -> str:
        count = max(len(self.images), 1)
        return f"{len(self.detections):,} boxes of {count:,} {'images' if count > 1 else 'image'}"

    def rows_of(self, image: int) -> NDArray[np.int64]:
        """The rows of an image."""
        if self.detections.images is None:
            return np.arange(len(self.detections))
        return np.flatnonzero(self.detections.images == image)


def load(inputs: Sequence[str | os.PathLike[str]], reading: Reading, format: str | None = None) -> Loaded:
    """Load all detections of files with one format; "-" is standard input."""
    with spooled(inputs) as given:
        return _loaded(*expanded(given, format), reading)


def _loaded(paths: list[Path], form: Format, reading: Reading) -> Loaded:
    sources = [form.open(path, reading) for path in paths]
    parts = list(read_alike(sources))
    columns = sources[0].columns
    keys = joined_keys(parts) if parts else pa.table({name: pa.nulls(0, pa.float64()) for name in columns.names})
    names: dict[str, list[Any]] = {}
    for name in (columns.image, columns.label):
        if name is not None:
            numbers, names[name] = _numbered(keys.column(name))
            keys = keys.set_column(keys.schema.get_field_index(name), name, numbers)
    if not parts:
        return Loaded(Detections(np.zeros((0, 4)), np.zeros(0)), [], [], 0)
    arrays = Arrays.of(keys, columns)
    bad = arrays.bad_rows(columns)
    if len(bad) and reading.on_bad == "raise":
        try:
            arrays.explain(columns)
        except BadRow as error:
            raise located(error, parts) from None
    if len(bad):
        arrays = arrays.take(np.delete(np.arange(len(keys)), bad))
    boxes = to_xyxy(arrays.boxes, columns.box_format)
    detections = Detections(boxes, arrays.scores, arrays.labels, arrays.images)
    images, labels = ([] if name is None else names[name] for name in (columns.image, columns.label))
    return Loaded(detections, images, labels, len(bad))


def _numbered(column: Any) -> tuple[Any, list[Any]]:
    """Number the values of a column in order of first appearance: the numbers, and the list of values."""
    encoded = pc.dictionary_encode(column.combine_chunks())
    return encoded.indices.cast(pa.int64()), encoded.dictionary.to_pylist()
