"""Raw boxes, one NPZ file per image: the output of a network before any suppression, stored so that it runs only once.

A folder holds `<image>.npz` files and, if we wrote it, `about.json`. Raw detections from any source can be
used. The arrays of a file, all in pixels of the same image:

| array | shape | what |
|---|---|---|
| `boxes`, `scores`, `labels` | (N, 4), (N,), (N,) | xyxy boxes; the labels of proposals are all 0 |
| `level` | (N,) | the level of the feature pyramid; may be absent: one level |
| `gt_boxes`, `gt_labels`, `gt_ignore` | (M, 4), (M,), (M,) | the ground truth; objects with a label below 0 (a class that the detector does not know) are left out, ignored regions are not; may be absent |
| `second_rows`, `second_labels`, `second_scores`, `second_boxes` | (S,), (S,), (S,), (S, 4) | the output of the second stage: detection s comes from box `second_rows[s]`; may be absent |
| `second_seen` | (N,) | which boxes the second stage has processed; may be absent: all |
| `network_ms`, `second_ms` | () | the time before the suppression, and that of the second stage; may be absent |
"""  # noqa: E501

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.configurations import CONFIGURATIONS, Configuration
from experiments.datasets import DatasetError
from experiments.files import beside

#: The file in a folder that we wrote: which detector processed which images.
ABOUT = "about.json"

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]


class Truth(NamedTuple):
    """The ground truth of an image."""

    boxes: Floats
    labels: Integers
    ignore: NDArray[np.bool_]


class SecondStage(NamedTuple):
    """The output of the second stage: detections, each with the row of its proposal."""

    rows: Integers
    labels: Integers
    scores: Floats
    boxes: Floats
    seen: NDArray[np.bool_]  # (N,) the proposals that it has processed


@dataclass(frozen=True, eq=False)
class Raw:
    """The boxes of one image before any suppression."""

    boxes: Floats
    scores: Floats
    labels: Integers
    level: Integers
    truth: Truth | None = None
    second: SecondStage | None = None
    network_ms: float | None = None
    second_ms: float | None = None

    def best(self, candidates: int) -> Integers:
        """The rows of the best boxes of each level, the paper's P1: increasing, ties to the lower row."""
        order = np.lexsort((-self.scores, self.level))
        levels = self.level[order]
        place = np.arange(len(order)) - np.searchsorted(levels, levels)
        return np.sort(order[place < candidates])


def save(raw: Raw, file: Path) -> None:
    """Write a file and move it into place when complete."""
    arrays: dict[str, Any] = {name: getattr(raw, name) for name in ("boxes", "scores", "labels", "level")}
    if raw.truth is not None:
        arrays |= {f"gt_{name}": value for name, value in raw.truth._asdict().items()}
    if raw.second is not None:
        arrays |= {f"second_{name}": value for name, value in raw.second._asdict().items()}
    times = {"network_ms": raw.network_ms, "second_ms": raw.second_ms}
    arrays |= {name: np.float64(value) for name, value in times.items() if value is not None}
    with beside(file) as temporary, temporary.open("wb") as stream:
        np.savez(stream, **arrays)


def load(file: Path) -> Raw:
    """Read a file and check its arrays."""
    try:
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, zipfile.BadZipFile, KeyError) as error:
        raise DatasetError(f"{file} must be an NPZ file of arrays, got {error}") from error
    boxes = _array(file, found, "boxes", np.float32, (None, 4))
    count = len(boxes)
    level = found.get("level", np.zeros(count, np.int64))
    truth = second = None
    if "gt_boxes" in found:
        gt_boxes = _array(file, found, "gt_boxes", np.float32, (None, 4))
        found.setdefault("gt_ignore", np.zeros(len(gt_boxes), bool))
        gt_labels = _array(file, found, "gt_labels", np.int64, (len(gt_boxes),))
        ignore = _array(file, found, "gt_ignore", np.bool_, (len(gt_boxes),))
        known = (gt_labels >= 0) | ignore
        truth = Truth(gt_boxes[known], gt_labels[known], ignore[known])
    if "second_rows" in found:
        rows = _array(file, found, "second_rows", np.int64, (None,))
        if len(rows) and not (rows.min() >= 0 and rows.max() < count):
            raise DatasetError(f"{file}: second_rows must be in 0 .. {count - 1}, got {rows.min()} .. {rows.max()}")
        of_rows = (len(rows),)
        found.setdefault("second_seen", np.ones(count, bool))
        second = SecondStage(
            rows,
            _array(file, found, "second_labels", np.int64, of_rows),
            _array(file, found, "second_scores", np.float32, of_rows),
            _array(file, found, "second_boxes", np.float32, (*of_rows, 4)),
            _array(file, found, "second_seen", np.bool_, (count,)),
        )
    times = {name: float(found[name]) if name in found else None for name in ("network_ms", "second_ms")}
    return Raw(
        boxes,
        _array(file, found, "scores", np.float32, (count,)),
        _array(file, found, "labels", np.int64, (count,)),
        _array(file, {"level": level}, "level", np.int64, (count,)),
        truth,
        second,
        times["network_ms"],
        times["second_ms"],
    )


def _array(file: Path, found: dict[str, Any], name: str, kind: Any, shape: tuple[int | None, ...]) -> Any:
    """One array of a file, with this type and shape; None means any length."""
    if name not in found:
        raise DatasetError(f"{file} must have an array {name!r}, got {', '.join(found) or 'none'}")
    value = found[name]
    as_needed = value.ndim == len(shape) and all(need in (None, got) for need, got in zip(shape, value.shape))  # noqa: B905
    if not as_needed or value.dtype.kind not in "fiub":
        need = str(shape).replace("None", "N")
        raise DatasetError(f"{file}: {name} must be numbers of shape {need}, got {value.dtype} of {value.shape}")
    return value.astype(kind)


class RawFolder(Sequence[Raw]):
    """The files of a folder, read on demand, in the order of their names."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
            raise DatasetError(f"a folder of raw detections must exist, got {self.path}, which is not a folder")
        self.files = sorted(self.path.glob("*.npz"))
        if not self.files:
            raise DatasetError(f"{self.path} must hold raw detections, <image>.npz, got no such file")
        self.about: dict[str, Any] = {}
        if (self.path / ABOUT).exists():
            try:
                self.about = json.loads((self.path / ABOUT).read_text(encoding="utf-8"))
            except ValueError as error:
                raise DatasetError(f"{self.path / ABOUT} must be JSON, got {error}") from error

    @property
    def name(self) -> str:
        """The name of the experiment: that of the configuration, or of the folder."""
        return str(self.about.get("configuration", self.path.resolve().name))

    @property
    def configuration(self) -> Configuration | None:
        """The configuration that the boxes come from, if known."""
        return CONFIGURATIONS.get(str(self.about.get("configuration")))

    @property
    def of_proposals(self) -> bool | None:
        """Whether these are boxes of an RPN, which have no classes yet; None if unknown."""
        if self.configuration is not None:
            return self.configuration.detector == "faster_rcnn"
        return True if self[0].second is not None else None

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: Any) -> Any:
        return load(self.files[index])

    def __iter__(self) -> Iterator[Raw]:
        return map(load, self.files)
