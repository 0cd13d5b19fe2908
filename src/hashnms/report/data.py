"""The content of a report as plain values: methods, pictures with their boxes, and the boxes each method kept."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashnms import _validate

#: Media type -> the first bytes of such a file. Other types, above all SVG, could contain scripts or are not shown by
#: browsers.
IMAGE_STARTS = {"image/jpeg": b"\xff\xd8\xff", "image/png": b"\x89PNG\r\n\x1a\n", "image/webp": b"RIFF"}


@dataclass(frozen=True)
class Method:
    """One suppression on all data: a row of the table and a point in the plots.

    Args:
        name: the notation, e.g. "hnms:0.73/1+nms:0.5".
        values: the columns of the table, None where unknown. The page knows `kept`, `ms` (of all images together),
            `speed_up`, and shares in [0, 1] such as `recall`, `precision`, `map`, `map_50`; others are shown as plain
            numbers. `map`, `map_50`, `recall` or `recall_of_first`, the first that two methods have, is plotted over
            `ms`.
        parameters: the method's numbers, such as alpha, see `parameters_of`.
    """

    name: str
    values: Mapping[str, float | int | None] = field(default_factory=dict)
    parameters: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """The result of one method on one picture with N boxes; see `outcome_of`.

    Args:
        keep: (N,) bools, whether a box is kept.
        suppressor: (N,) integers: the kept box that removed a box, the box itself if kept, -1 if unknown or no box did.
        scores: (N,) final scores if the method changes them, otherwise None. Scores of removed boxes are not shown.
        boxes: (N, 4) final xyxy boxes if the method changes them, otherwise None. Shown as float32.
    """

    keep: NDArray[np.bool_]
    suppressor: NDArray[np.int64]
    scores: NDArray[Any] | None = None
    boxes: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        keep, suppressor = np.asarray(self.keep), np.asarray(self.suppressor)
        if keep.dtype != bool or keep.ndim != 1:
            raise ValueError(f"keep must be bools of shape (N,), got {keep.dtype} of shape {keep.shape}")
        if suppressor.dtype.kind not in "iu" or suppressor.shape != keep.shape:
            raise ValueError(
                f"suppressor must be integers of shape {keep.shape}, got {suppressor.dtype} of shape {suppressor.shape}"
            )
        suppressor = suppressor.astype(np.int64)
        rows = np.arange(len(keep))
        bad = (suppressor < -1) | (suppressor >= len(keep)) | ((suppressor == rows) != keep)
        bad |= ~keep[np.where(bad, 0, suppressor)] & (suppressor >= 0) if len(keep) else False
        if bad.any():
            row = int(bad.argmax())
            raise ValueError(
                "suppressor must be the box itself if it is kept, otherwise a kept box or -1, "
                f"got {suppressor[row]} in row {row} ({bad.sum()} in all)"
            )
        scores = None if self.scores is None else _validate.scores_array(self.scores, len(keep))
        if scores is not None:
            _validate.finite_scores(scores)
        boxes = None if self.boxes is None else _shown_boxes(self.boxes)
        if boxes is not None and len(boxes) != len(keep):
            raise ValueError(f"boxes must have shape ({len(keep)}, 4), got {boxes.shape}")
        _set(self, keep=keep, suppressor=suppressor, scores=scores, boxes=boxes)


@dataclass(frozen=True)
class Picture:
    """One image with its raw boxes and the boxes that each method kept.

    Args:
        name: the name in the list of pictures.
        width: the width of the image, in the unit of the boxes.
        height: the height of the image, in the unit of the boxes.
        boxes: (N, 4) xyxy, shown as float32.
        scores: (N,).
        labels: (N,) integers, the class of each box, or None.
        label_names: the name of class k at index k; classes without a name are shown as numbers.
        outcomes: the name of a method -> its `Outcome`.
        image: the bytes of a JPEG, PNG or WebP file, or None for an empty background.
        media_type: the type of `image`; None to detect it from the bytes.
        rows: (N,) the row of each box in its file, counted from 1, by which the viewer names boxes; None to name them
            by their index.
        files: the files of the boxes, each with the index of its first box; empty if there is only one.
    """

    name: str
    width: float
    height: float
    boxes: NDArray[np.float32]
    scores: NDArray[np.float32]
    labels: NDArray[np.integer[Any]] | None = None
    label_names: Sequence[str] = ()
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    image: bytes | None = None
    media_type: str | None = None
    rows: NDArray[np.integer[Any]] | None = None
    files: Sequence[tuple[str, int]] = ()

    def __post_init__(self) -> None:
        for name, value in (("width", self.width), ("height", self.height)):
            if not 0 < value < math.inf:
                raise ValueError(f"{name} must be a positive number, got {value!r}")
        boxes = _shown_boxes(self.boxes)
        _, scores, labels, _ = _validate.plain_arrays(boxes, self.scores, self.labels)
        with np.errstate(over="ignore"):
            scores = scores.astype(np.float32)
        _validate.finite_scores(scores)
        if labels is None:
            labels = np.zeros(len(boxes), np.int32)
        if len(labels) and not -(2**31) <= labels.min() <= labels.max() < 2**31:
            raise ValueError(f"labels must fit into 32 bits, got {labels.min()} to {labels.max()}")
        rows = None if self.rows is None else _validate.labels_array(self.rows, len(boxes), "rows")
        if rows is not None and len(rows) and not 0 <= rows.min() <= rows.max() < 2**32:
            raise ValueError(f"rows must fit into 32 bits without a sign, got {rows.min()} to {rows.max()}")
        for method, outcome in self.outcomes.items():
            if len(outcome.keep) != len(boxes):
                raise ValueError(f"outcome of {method!r} must have {len(boxes)} boxes, got {len(outcome.keep)}")
        media_type = None if self.image is None else image_type(self.image, self.media_type)
        _set(self, boxes=boxes, scores=scores, labels=labels.astype(np.int32), rows=rows, media_type=media_type)


@dataclass(frozen=True)
class Report:
    """The whole content of the page.

    Args:
        title: the title of the page.
        subtitle: a line below the title, e.g. the data and the machine.
        methods: the rows of the table; names must be distinct.
        pictures: the pictures that the viewer shows.
        boxes_per_image: "raw" or the name of a method -> the number of boxes in each image, for the histograms.
    """

    title: str
    subtitle: str = ""
    methods: Sequence[Method] = ()
    pictures: Sequence[Picture] = ()
    boxes_per_image: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [method.name for method in self.methods]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(f"methods must have distinct names, got {twice[0]!r} {len(twice)} times")
        for picture in self.pictures:
            unknown = [name for name in picture.outcomes if name not in names]
            if unknown:
                raise ValueError(f"outcomes of picture {picture.name!r} must be of known methods, got {unknown[0]!r}")


def image_type(image: bytes, media_type: str | None = None) -> str:
    """Detect the media type of an image from its first bytes, and check that it is `media_type`, if given.

    >>> image_type(bytes.fromhex("ffd8ffe0"))
    'image/jpeg'
    """
    need = "image must be a JPEG, PNG or WebP"
    if not isinstance(image, bytes):
        raise TypeError(f"{need} as bytes, got {type(image).__name__}")
    found = [kind for kind, start in IMAGE_STARTS.items() if image.startswith(start)]
    if not found or (found[0] == "image/webp" and image[8:12] != b"WEBP"):
        raise ValueError(f"{need}, got bytes that start with {image[:4]!r}")
    if media_type not in (None, found[0]):
        raise ValueError(f"media_type must be that of the image, {found[0]!r}, got {media_type!r}")
    return found[0]


def _shown_boxes(boxes: Any) -> NDArray[np.float32]:
    """Boxes as the page stores them."""
    with np.errstate(over="ignore"):
        shown = _validate.boxes_array(boxes).astype(np.float32)
    _validate.valid_rows(shown, "xyxy")
    return shown


def _set(value: Any, **fields: Any) -> None:
    """Set fields of a frozen dataclass while it is being made."""
    for name, content in fields.items():
        object.__setattr__(value, name, content)
