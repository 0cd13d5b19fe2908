"""Suppress detections in Arrow tables and dataframes; the result has the same kind (`pip install "hashnms[tables]"`).

A table has one row per box. `Columns` names the columns of the image, the label, the box and the score; they are found
by their usual names. One call of the core handles many images and labels.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hashnms import _settings
from hashnms._arrow import Arrays, numpy_type, parts_by_image
from hashnms._frames import kind_of
from hashnms._settings import BoxFormatName
from hashnms.pipeline import Suppression

Table = TypeVar("Table")


class _Usual:
    """A placeholder for a column that is found by its usual names."""

    def __repr__(self) -> str:
        return "USUAL"


USUAL: Any = _Usual()

#: The usual names of columns, in upper or lower case; the first that a table has is used.
IMAGE_NAMES = (
    "image_id",
    "image",
    "image_name",
    "img_id",
    "file_name",
    "filename",
    "image_path",
    "frame",
    "frame_id",
    "images",
)
LABEL_NAMES = ("category_id", "class_id", "label", "class", "category", "cls", "class_name", "label_id", "labels")
SCORE_NAMES = ("score", "confidence", "conf", "scores", "probability")
BOX_NAMES: tuple[tuple[tuple[str, ...], BoxFormatName], ...] = (
    (("bbox",), "xywh"),  # COCO's format
    (("boxes",), "xyxy"),  # torchvision's format
    (("x1", "y1", "x2", "y2"), "xyxy"),
    (("xmin", "ymin", "xmax", "ymax"), "xyxy"),
    (("x_min", "y_min", "x_max", "y_max"), "xyxy"),
    (("left", "top", "right", "bottom"), "xyxy"),
    (("cx", "cy", "w", "h"), "cxcywh"),
    (("x_center", "y_center", "width", "height"), "cxcywh"),
    (("x", "y", "w", "h"), "xywh"),
    (("x", "y", "width", "height"), "xywh"),
    (("left", "top", "width", "height"), "xywh"),
    (("bb_left", "bb_top", "bb_width", "bb_height"), "xywh"),
)


@dataclass(frozen=True)
class Columns:
    """The names of the columns that hold images, labels, boxes and scores."""

    image: str | None  #: None: all rows belong to one image
    label: str | None  #: None: all rows have the same label
    boxes: tuple[str, ...]  #: four columns, or one of lists of four numbers
    score: str
    box_format: BoxFormatName

    @classmethod
    def find(
        cls,
        names: Sequence[str],
        *,
        image: str | None = USUAL,
        label: str | None = USUAL,
        boxes: str | Sequence[str] = USUAL,
        score: str = USUAL,
        box_format: BoxFormatName | None = None,
    ) -> Columns:
        """Find the columns of a table with these column names: as given, otherwise by their usual names.

        >>> Columns.find(["image_id", "category_id", "bbox", "score"])
        Columns(image='image_id', label='category_id', boxes=('bbox',), score='score', box_format='xywh')
        >>> Columns.find(["frame", "x1", "y1", "x2", "y2", "conf"]).box_format
        'xyxy'
        """
        found_boxes, usual_format = _box_columns(names, boxes)
        columns = cls(
            image=_column(names, "image", image, IMAGE_NAMES, "; image=None if all rows belong to one image"),
            label=_column(names, "label", label, LABEL_NAMES, None),
            boxes=found_boxes,
            score=str(_column(names, "score", score, SCORE_NAMES, "")),
            box_format=usual_format if box_format is None else _settings.box_format_value(box_format),
        )
        for name in columns.names:
            if list(names).count(name) > 1:
                raise ValueError(f"columns must have different names, got {list(names).count(name)} named {name!r}")
        return columns

    @property
    def names(self) -> list[str]:
        """The names of all these columns."""
        roles = (self.image, self.label, *self.boxes, self.score)
        return list(dict.fromkeys(name for name in roles if name is not None))


def _column(names: Sequence[str], role: str, given: Any, usual: Sequence[str], hint: str | None) -> str | None:
    """The name of one column. If no usual name is found: None, or an error with this hint."""
    if given is None and role != "score":
        return None
    if given is not USUAL:
        return _present(names, role, given)
    lowered = {name.lower(): name for name in reversed(names)}
    for name in usual:
        if name in lowered:
            return lowered[name]
    if hint is None:
        return None
    raise ValueError(
        f"{role} must be the name of a column, because none is named {', '.join(usual[:4])} or similar, "
        f"got columns {_listed(names)}{hint}"
    )


def _present(names: Sequence[str], role: str, name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{role} must be the name of a column, got {name!r}")
    if name not in names:
        raise ValueError(f"{role} must be the name of a column, one of {_listed(names)}, got {name!r}")
    return name


def _box_columns(names: Sequence[str], given: Any) -> tuple[tuple[str, ...], BoxFormatName]:
    """The names of the box columns, and the box format that these names usually mean."""
    if given is not USUAL:
        some = (given,) if isinstance(given, str) else tuple(given)
        if len(some) not in (1, 4):
            raise ValueError(f"boxes must be one column of lists or four columns, got {len(some)}: {_listed(some)}")
        found = tuple(_present(names, "boxes", name) for name in some)
        lowered_found = tuple(name.lower() for name in found)
        return found, next((kind for usual, kind in BOX_NAMES if usual == lowered_found), "xyxy")
    lowered = {name.lower(): name for name in reversed(names)}
    for usual, kind in BOX_NAMES:
        if all(name in lowered for name in usual):
            return tuple(lowered[name] for name in usual), kind
    raise ValueError(
        "boxes must name a column of lists or four columns, because none are named bbox, x1 y1 x2 y2, "
        f"xmin ymin xmax ymax or similar, got columns {_listed(names)}"
    )


def _listed(names: Sequence[Any]) -> str:
    return ", ".join(map(str, names)) or "none"


Order = Literal["input", "score"]
OnBad = Literal["raise", "drop"]


def suppress(
    table: Table,
    suppression: Suppression | str,
    *,
    image: str | None = USUAL,
    label: str | None = USUAL,
    boxes: str | Sequence[str] = USUAL,
    score: str = USUAL,
    box_format: BoxFormatName | None = None,
    order: Order = "input",
    on_bad: OnBad = "raise",
) -> Table:
    """Suppress the boxes of a table: return the same kind of table with fewer rows and all columns.

    Args:
        table: a pyarrow Table, RecordBatch or RecordBatchReader, a pandas, Polars, DuckDB or Daft dataframe, or
            anything with `__arrow_c_stream__`, which comes back as a pyarrow Table.
        suppression: a `Suppression` or its notation, e.g. "hnms:0.73/1+nms:0.5". `limit` and `top` count per image.
        image: the column with the image of each box, of any type; boxes of different images are never compared. None if
            all rows belong to one image. By default it is found by its usual names (`IMAGE_NAMES`), like the other
            columns.
        label: the column of the class, of any type; boxes of different classes are never compared. None: classes are
            ignored.
        boxes: the name of a column with lists of four numbers, or the names of four columns.
        score: the column of the score.
        box_format: "xyxy", "xywh" or "cxcywh"; by default the usual meaning of the column names: `bbox` is xywh, as in
            COCO.
        order: the order of the rows: "input", as they came, or "score", by decreasing final score, ties to the earlier
            row.
        on_bad: what to do with rows that have a null, a number that is not finite or a box of negative size: "raise" an
            error that names the first, or "drop" them with a warning that counts them.

    Returns:
        The kept rows. If a step changes scores (Soft-NMS, fusion) or boxes (merging, voting, fusion), they have the new
        values, in the types of the columns, rounded to the nearest integer in integer columns.

    Raises:
        ValueError, TypeError: if a column is missing or has the wrong type, or a row is bad.

    >>> import pyarrow as pa
    >>> table = pa.table({"image_id": ["a", "a", "b"], "bbox": [[0, 0, 9, 9], [1, 0, 9, 9], [1, 0, 9, 9]], "score": [0.8, 0.9, 0.7]})
    >>> suppress(table, "nms:0.5").to_pydict()
    {'image_id': ['a', 'b'], 'bbox': [[1, 0, 9, 9], [1, 0, 9, 9]], 'score': [0.9, 0.7]}
    """  # noqa: E501
    chain = Suppression.of(suppression)
    _settings.choice_value("order", order, ("input", "score"))
    _settings.choice_value("on_bad", on_bad, ("raise", "drop"))
    kind = kind_of(table)
    source: Any = kind.arrow(table, None) if kind.names is None else table
    names = source.schema.names if kind.names is None else kind.names(table)
    columns = Columns.find(names, image=image, label=label, boxes=boxes, score=score, box_format=box_format)
    if kind.reads_once and kind.names is not None:
        source = kind.arrow(table, None)
    arrow = source.select(columns.names) if kind.reads_once else kind.arrow(table, columns.names)
    kept = kept_rows(arrow, chain, columns, on_bad=on_bad)
    if len(kept.bad):
        warnings.warn(f"dropped {len(kept.bad):,} bad rows of {len(arrow):,}", UserWarning, stacklevel=2)
    if order == "score":
        kept = kept.by_score()
    result: Table = kind.take(source, kept.rows, changed_columns(kept, chain, columns, arrow.schema))
    return result


def changed_columns(kept: KeptRows, chain: Suppression, columns: Columns, schema: pa.Schema) -> dict[str, NDArray[Any]]:
    """The columns that a suppression changes, for a table with this schema."""
    new = {columns.score: kept.scores} if chain.changes_scores else {}
    return new if kept.boxes is None else new | new_boxes(kept.boxes, columns, schema)


def new_boxes(boxes: NDArray[Any], columns: Columns, schema: pa.Schema) -> dict[str, NDArray[Any]]:
    """Boxes as columns for this schema: four columns, or one of (K, 4) rows; integers where the schema has integers."""
    if len(columns.boxes) == 1:
        return {columns.boxes[0]: _in_type(boxes, schema.field(columns.boxes[0]).type.value_type)}
    return {name: _in_type(boxes[:, k], schema.field(name).type) for k, name in enumerate(columns.boxes)}


def _in_type(values: NDArray[Any], kind: Any) -> NDArray[Any]:
    if pa.types.is_decimal(kind):
        return values
    dtype = numpy_type(kind)
    return (np.rint(values) if dtype.kind in "iu" else values).astype(dtype)


def check_scores(table: pa.Table, suppression: Suppression, columns: Columns) -> None:
    """Check that the column of scores can hold the new scores."""
    kind = table.schema.field(columns.score).type
    if suppression.changes_scores and pa.types.is_integer(kind):
        raise TypeError(f"column {columns.score} must hold floats, because Soft-NMS lowers scores, got {kind}")


@dataclass(frozen=True)
class KeptRows:
    """The rows of a table that a suppression keeps."""

    rows: NDArray[np.int64]  #: increasing
    scores: NDArray[Any]  #: the final scores
    bad: NDArray[np.int64]  #: rows that were dropped because they are bad
    boxes: NDArray[Any] | None = None  #: the final boxes, in their format; None if no step changes boxes

    def take(self, places: Any) -> KeptRows:
        boxes = None if self.boxes is None else self.boxes[places]
        return KeptRows(self.rows[places], self.scores[places], self.bad, boxes)

    def by_row(self) -> KeptRows:
        return self.take(np.argsort(self.rows))

    def by_score(self) -> KeptRows:
        """The rows sorted by decreasing score, ties to the earlier row."""
        return self.take(np.argsort(-self.scores, kind="stable"))

    @classmethod
    def joined(cls, parts: list[KeptRows]) -> KeptRows:
        """Join the kept rows of several parts of a table."""
        rows, scores, bad = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("rows", "scores", "bad")
        )
        boxes = None if parts[0].boxes is None else np.concatenate([part.boxes for part in parts])
        return cls(rows, scores, np.sort(bad), boxes).by_row()


def kept_rows(table: pa.Table, suppression: Suppression, columns: Columns, *, on_bad: OnBad = "raise") -> KeptRows:
    """The rows of an Arrow table that a suppression keeps. Each call of the core handles many images and labels."""
    check_scores(table, suppression, columns)
    kept: list[KeptRows] = []
    for rows, arrays in parts_by_image(table, columns):
        bad: Any = arrays.bad_rows(columns) if on_bad == "drop" or arrays.nulls else np.zeros(0, np.int64)
        good: Any = slice(None)
        if len(bad):
            if on_bad == "raise":
                Arrays.of(table, columns).explain(columns)
            good = np.setdiff1d(np.arange(len(rows)), bad, assume_unique=True)
            arrays = arrays.take(good)  # noqa: PLW2901
        try:
            result = arrays.suppressed(suppression, columns)
        except ValueError:
            Arrays.of(table, columns).explain(columns)
            raise
        kept.append(KeptRows(rows[good][result.keep], result.scores, rows[bad], result.boxes).by_row())
    return kept[0] if len(kept) == 1 else KeptRows.joined(kept)
