"""What a report is about, as plain values: methods, pictures with their boxes, and what each method kept of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashnms import _validate

#: Media type -> what a file of it starts with. All else, SVG above all, could hold scripts or is shown by no browser.
IMAGE_STARTS = {"image/jpeg": b"\xff\xd8\xff", "image/png": b"\x89PNG\r\n\x1a\n", "image/webp": b"RIFF"}


@dataclass(frozen=True)
class Method:
    """One suppression on all data: a row of the table and a point in the plots.

    Args:
        name: its notation, e.g. "hnms:0.73/1+nms:0.5".
        values: the columns of the table, None where unknown. The page knows `kept`, `ms`, `speed_up`, and shares in
            [0, 1] such as `agreement`, `recall`, `precision`, `map`, `map_50`; others are shown as plain numbers.
        parameters: alpha and the like, see `parameters_of`.
    """

    name: str
    values: Mapping[str, float | int | None] = field(default_factory=dict)
    parameters: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """One method on one picture of N boxes; see `outcome_of`.

    Args:
        keep: (N,) bools, whether a box is kept.
        suppressor: (N,) integers, the kept box that removed it, itself if kept, -1 if unknown or no box did.
        scores: (N,) final scores where the method changes them, else None. Those of removed boxes are not shown.
        boxes: (N, 4) final xyxy boxes where the method changes them, else None, likewise; shown as float32.
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
                "suppressor must be the box itself if it is kept, else a kept box or -1, "
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
    """One image with its raw boxes and what each method kept of them.

    Args:
        name: what it is chosen by.
        width: of the image in the unit of the boxes; height likewise.
        height: of the image in the unit of the boxes.
        boxes: (N, 4) xyxy, shown as float32.
        scores: (N,).
        labels: (N,) integers or None: the class.
        label_names: the name of class k at place k; classes beyond are shown by their number.
        outcomes: name of a method -> its `Outcome`.
        image: a JPEG, PNG or WebP file's bytes, or None: boxes on an empty ground.
        media_type: of image; None to tell by its bytes.
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
            raise ValueError(f"labels must fit 32 bits, got {labels.min()} to {labels.max()}")
        for method, outcome in self.outcomes.items():
            if len(outcome.keep) != len(boxes):
                raise ValueError(f"outcome of {method!r} must be of {len(boxes)} boxes, got {len(outcome.keep)}")
        media_type = None if self.image is None else image_type(self.image, self.media_type)
        _set(self, boxes=boxes, scores=scores, labels=labels.astype(np.int32), media_type=media_type)


@dataclass(frozen=True)
class Report:
    """All that is on the page.

    Args:
        title: of the page.
        subtitle: a line below it: the data, the machine.
        methods: rows of the table; names are distinct.
        pictures: what the viewer shows.
        boxes_per_image: "raw" and names of methods -> how many boxes each image has, for the histograms.
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
                raise ValueError(f"outcomes of picture {picture.name!r} must be of the methods, got {unknown[0]!r}")


def image_type(image: bytes, media_type: str | None = None) -> str:
    """The media type that an image's first bytes tell, which must be the given one if there is one.

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
    """Boxes as the page has them."""
    with np.errstate(over="ignore"):
        shown = _validate.boxes_array(boxes).astype(np.float32)
    _validate.legal_rows(shown, "xyxy")
    return shown


def _set(value: Any, **fields: Any) -> None:
    """While it is being made: it is frozen."""
    for name, content in fields.items():
        object.__setattr__(value, name, content)
