"""hashnms in SAHI: its postprocessing of overlapping predictions from slices.

`accelerate()` makes `get_sliced_prediction` and the rest of SAHI use hashnms. `restore()` undoes that, and
`accelerated()` does both around a block. `python -m hashnms.detectors.sahi predict ...` is `sahi predict ...` with
hashnms. Needs SAHI: the extra `sahi`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashnms import _core, nms
from hashnms._calls import JOIN, TOP_K
from hashnms._extras import missing
from hashnms.detectors._rounding import least_float32, least_rounding_to

try:
    from sahi import predict
    from sahi.postprocess import _numpy_backend as _theirs
    from sahi.postprocess import backends, combine
    from sahi.postprocess._sparse_backend import should_use_sparse
    from sahi.postprocess.utils import ObjectPredictionList
    from sahi.prediction import ObjectPrediction
except ImportError as error:
    raise missing("hashnms.detectors.sahi", "sahi", "sahi") from error

Array = NDArray[Any]


def accelerate() -> None:
    """Make SAHI use hashnms, in all threads, until `restore`.

    The classes in this module replace SAHI's own for `postprocess_type`, and "hashnms" becomes the backend of its
    functions and other classes, as after `set_postprocess_backend("hashnms")`.

    >>> from sahi.postprocess.backends import get_postprocess_backend
    >>> with accelerated():
    ...     get_postprocess_backend(), predict.POSTPROCESS_NAME_TO_CLASS["NMS"] is NMSPostprocess
    ('hashnms', True)
    >>> get_postprocess_backend()
    'auto'
    """
    register()
    for name, ours in _CLASSES.items():
        if predict.POSTPROCESS_NAME_TO_CLASS[name] is not ours:
            _before[name] = predict.POSTPROCESS_NAME_TO_CLASS[name]
            predict.POSTPROCESS_NAME_TO_CLASS[name] = ours
    if backends.get_postprocess_backend() != "hashnms":
        _before["backend"] = backends.get_postprocess_backend()
        backends.set_postprocess_backend("hashnms")


def restore() -> None:
    """Undo `accelerate`."""
    for name, ours in _CLASSES.items():
        if predict.POSTPROCESS_NAME_TO_CLASS[name] is ours:
            predict.POSTPROCESS_NAME_TO_CLASS[name] = _before[name]
    if backends.get_postprocess_backend() == "hashnms":
        backends.set_postprocess_backend(_before.get("backend", "auto"))
    _before.clear()


@contextmanager
def accelerated() -> Iterator[None]:
    """Apply `accelerate` while the block runs; afterwards SAHI is as before."""
    before = predict.POSTPROCESS_NAME_TO_CLASS["NMS"]
    accelerate()
    try:
        yield
    finally:
        if before is not NMSPostprocess:
            restore()


def acceleration() -> dict[str, str]:
    """Describe what postprocesses predictions in SAHI: each `postprocess_type` that hashnms can do, and the backend.

    >>> acceleration()
    {'NMS': "SAHI's own", 'NMM': "SAHI's own", 'GREEDYNMM': "SAHI's own", 'backend': "SAHI's auto"}
    >>> with accelerated():
    ...     acceleration()
    {'NMS': 'NMS by hashnms', 'NMM': 'NMM by hashnms', 'GREEDYNMM': 'GREEDYNMM by hashnms', 'backend': 'hashnms'}
    """
    described = {}
    for name, ours in _CLASSES.items():
        current: Any = predict.POSTPROCESS_NAME_TO_CLASS[name]
        is_stock = current in ours.__mro__
        described[name] = f"{name} by hashnms" if current is ours else "SAHI's own" if is_stock else "another class"
    backend = backends.get_postprocess_backend()
    return described | {"backend": backend if backend == "hashnms" else f"SAHI's {backend}"}


def register() -> None:
    """Add "hashnms" to the names that `sahi.postprocess.backends.set_postprocess_backend` accepts."""
    if "hashnms" in backends.VALID_BACKENDS:
        return
    backends.VALID_BACKENDS = (*backends.VALID_BACKENDS, "hashnms")
    combine._BACKEND_MODULE_MAP["hashnms"] = "hashnms.detectors.sahi"
    for function in ("nms", "greedy_nmm", "nmm"):
        combine._FUNC_NAME_MAP[function]["hashnms"] = f"{function}_hashnms"


_before: dict[str, Any] = {}  # what `accelerate` has replaced


def nms_hashnms(predictions: Array, match_metric: str = "IOU", match_threshold: float = 0.5) -> list[int]:
    """Return what SAHI's `nms_numpy` returns: the kept rows, by score and, where scores tie, by coordinates.

    Args:
        predictions: (N, 6): x1, y1, x2, y2, score, category. The category is ignored.
        match_metric: "IOU" or "IOS", intersection over the smaller area.
        match_threshold: a row is suppressed if its overlap with a kept row is at least this.

    >>> rows = np.array([[0, 0, 10, 10, 0.5, 0], [1, 0, 11, 10, 0.75, 0], [20, 0, 30, 10, 0.25, 0]], np.float32)
    >>> nms_hashnms(rows), greedy_nmm_hashnms(rows, "IOS")
    ([1, 2], {1: [0], 2: []})
    """
    if len(predictions) == 0 or match_threshold <= 0:  # at 0, even boxes that do not touch match
        return list(_theirs.nms_numpy(predictions, match_metric, match_threshold))
    kept: list[int] = _kept_rows(_Ordered.of(predictions), match_metric, match_threshold).tolist()
    return kept


def greedy_nmm_hashnms(
    predictions: Array, match_metric: str = "IOU", match_threshold: float = 0.5
) -> dict[int, list[int]]:
    """Return what SAHI's `greedy_nmm_numpy` returns: kept row -> the rows that it suppressed, in the order of `nms`.

    Arguments as in `nms_hashnms`.
    """
    if len(predictions) == 0 or match_threshold <= 0:
        return dict(_theirs.greedy_nmm_numpy(predictions, match_metric, match_threshold))
    return dict(_greedy_groups(_Ordered.of(predictions), match_metric, match_threshold).items())


def nmm_hashnms(predictions: Array, match_metric: str = "IOU", match_threshold: float = 0.5) -> dict[int, list[int]]:
    """Return what SAHI's `nmm_numpy` returns: kept row -> the rows that were merged into it, directly or not.

    By score, a row joins the group of the first row that overlaps it and has a higher score, kept or not. Among equal
    scores, only identical rows join. Arguments as in `nms_hashnms`.

    >>> rows = np.array([[0, 0, 9, 9, 0.5, 0], [4, 0, 13, 9, 0.75, 0], [8, 0, 17, 9, 0.25, 0]], np.float32)
    >>> nmm_hashnms(rows, "IOS")
    {1: [0, 2]}
    """
    if len(predictions) == 0 or match_threshold <= 0:
        return dict(_theirs.nmm_numpy(predictions, match_metric, match_threshold))
    return dict(_transitive_groups(_Ordered.of(predictions), match_metric, match_threshold).items())


class _Ordered(NamedTuple):
    """Rows in SAHI's order: by decreasing score; where scores tie, by x1, y1, x2, y2, then by row."""

    rows: Array  #: rows of the input
    boxes: Array
    scores: Array
    categories: Array | None  #: whole numbers; None if categories are ignored

    @staticmethod
    def of(predictions: Array, by_category: bool = False) -> _Ordered:
        """Sort SAHI's (N, 6) predictions."""
        if predictions.dtype not in (np.float32, np.float64):
            predictions = predictions.astype(np.float64)
        boxes, scores = np.ascontiguousarray(predictions[:, :4]), np.ascontiguousarray(predictions[:, 4])
        rows = _order(boxes, scores)
        categories = predictions[rows, 5].astype(np.int64) if by_category else None
        return _Ordered(rows, boxes.take(rows, axis=0), scores.take(rows), categories)

    def by_category(self, places: Array) -> Array:
        """Places sorted by category; the order within a category does not change."""
        return places if self.categories is None else places[_increasing(self.categories[places])]


def _order(boxes: Array, scores: Array) -> Array:
    order: Array = TOP_K.answer(boxes, scores, None, None, None, None, None, "xyxy")
    in_order = scores.take(order)
    tied = np.flatnonzero(in_order[1:] == in_order[:-1])
    if len(tied):
        places = np.union1d(tied, tied + 1)
        rows = np.sort(order[places])
        for keys in (*boxes.T[::-1], -scores):  # the last key counts most
            rows = rows[_increasing(keys[rows])]
        order[places] = rows
    return order


def _increasing(values: Array) -> Array:
    """Places by increasing value, a stable sort. The core sorts several times as fast as NumPy."""
    keys = -values if values.dtype.kind == "f" else -values.astype(np.float64)
    boxes = np.zeros((len(values), 4), np.float32)
    places: Array = TOP_K.answer(boxes, keys, None, None, None, None, None, "xyxy")
    return places


def _rule(ordered: _Ordered, match_metric: str, match_threshold: float) -> dict[str, Any] | None:
    """Arguments of `nms` that give SAHI's decisions; None if nothing matches.

    SAHI computes in the boxes' own type and compares in float32. If a caller passes float64 boxes, SAHI rounds overlaps
    to float32 where there are few boxes, but not where there are many.
    """
    if ordered.boxes.dtype == np.float32:
        threshold = float(least_float32(match_threshold, np.greater_equal))
    elif should_use_sparse(len(ordered.boxes), match_threshold):
        threshold = float(match_threshold)
    else:
        threshold = least_rounding_to(least_float32(match_threshold, np.greater_equal))
    if threshold > 1:
        return None
    return {
        "iou_threshold": threshold,
        "labels": ordered.categories,
        "metric": "iou" if match_metric == "IOU" else "ios",
        "inclusive": True,
    }


def _kept_rows(ordered: _Ordered, match_metric: str, match_threshold: float) -> Array:
    """The kept rows by score; where scores tie, by category, then in order."""
    rule = _rule(ordered, match_metric, match_threshold)
    keep = np.arange(len(ordered.rows)) if rule is None else nms(ordered.boxes, ordered.scores, **rule)
    if ordered.categories is not None:
        keep = ordered.by_category(keep)
        keep = keep[np.argsort(-ordered.scores[keep], kind="stable")]
    kept: Array = ordered.rows[keep]
    return kept


class _Groups(NamedTuple):
    """Kept rows, and the rows that are merged into each, one group after another."""

    keep: Array
    others: Array
    ends: Array  #: where each group ends in `others`

    @staticmethod
    def of(ordered: _Ordered, group: Array, places: Array) -> _Groups:
        """Make groups from the kept place of each place; the others of a group are in the order of `places`."""
        keep = ordered.by_category(np.flatnonzero(group == np.arange(len(group))))
        number = np.empty_like(group)
        number[keep] = np.arange(len(keep))
        others = places[group[places] != places]
        numbers = number[group[others]]
        ends = np.cumsum(np.bincount(numbers, minlength=len(keep)))
        return _Groups(ordered.rows[keep], ordered.rows[others[_increasing(numbers)]], ends)

    def items(self) -> Iterator[tuple[int, list[int]]]:
        """The kept row and the others of each group."""
        others, ends = self.others.tolist(), self.ends.tolist()
        return zip(self.keep.tolist(), map(others.__getitem__, map(slice, [0, *ends[:-1]], ends)), strict=True)


def _greedy_groups(ordered: _Ordered, match_metric: str, match_threshold: float) -> _Groups:
    """The rows that each kept row suppressed, in order."""
    places = np.arange(len(ordered.rows))
    rule = _rule(ordered, match_metric, match_threshold)
    group = places if rule is None else nms(ordered.boxes, ordered.scores, **rule, return_suppressor=True)[1]
    return _Groups.of(ordered, group, places)


def _transitive_groups(ordered: _Ordered, match_metric: str, match_threshold: float) -> _Groups:
    """The rows merged into each kept row: by the place that a row joined, then by row."""
    places = np.arange(len(ordered.rows))
    rule = _rule(ordered, match_metric, match_threshold)
    if rule is None:
        return _Groups.of(ordered, places, places)
    joined, group = JOIN.answer(
        ordered.boxes, ordered.scores, ordered.categories, None, rule["iou_threshold"], None, None, rule["metric"],
        rule["inclusive"], "xyxy",
    )  # fmt: skip
    # A row that joined a row of its own score overlaps no row of a higher score: it can only join an identical row.
    tied = np.flatnonzero((ordered.scores[joined] == ordered.scores) & (joined != places))
    if len(tied):
        joined[tied] = _first_twins(ordered)[tied]
        group = joined
        while not np.array_equal(group, group[group]):
            group = group[group]
    by_row = _increasing(ordered.rows)
    return _Groups.of(ordered, group, by_row[_increasing(joined[by_row])])


def _first_twins(ordered: _Ordered) -> Array:
    """For each place, the first with the same score, box and category."""
    differs = (ordered.boxes[1:] != ordered.boxes[:-1]).any(axis=1) | (ordered.scores[1:] != ordered.scores[:-1])
    twins = np.concatenate([[0], np.cumsum(differs)])
    if ordered.categories is not None:
        twins = twins * len(twins) + np.unique(ordered.categories, return_inverse=True)[1]
    _, first, number = np.unique(twins, return_index=True, return_inverse=True)
    return first[number]


class NMSPostprocess(combine.NMSPostprocess):
    """SAHI's class of this name, on all predictions at once: `postprocess_type="NMS"` after `accelerate`."""

    def __call__(self, object_predictions: list[ObjectPrediction]) -> list[ObjectPrediction]:
        """Return the kept predictions, the same objects."""
        if not _is_usual(self, object_predictions):
            kept: list[ObjectPrediction] = super().__call__(list(object_predictions))
            return kept
        rows = _as_rows(object_predictions, _as_boxes(_coordinates(object_predictions)))
        ordered = _Ordered.of(rows, by_category=not self.class_agnostic)
        keep = _kept_rows(ordered, self.match_metric, self.match_threshold)
        return [object_predictions[row] for row in keep.tolist()]


class NMMPostprocess(combine.NMMPostprocess):
    """SAHI's class of this name, on all predictions at once: `postprocess_type="NMM"` after `accelerate`."""

    _groups_of: Callable[[_Ordered, str, float], _Groups] = staticmethod(_transitive_groups)

    def __call__(self, object_predictions: list[ObjectPrediction]) -> list[ObjectPrediction]:
        """Return a prediction for each group: the kept one, or a new one if others were merged into it.

        SAHI's own class also writes the new ones into the given list.
        """
        if not _is_usual(self, object_predictions):
            merged: list[ObjectPrediction] = super().__call__(list(object_predictions))
            return merged
        coordinates = _coordinates(object_predictions)
        boxes = _as_boxes(coordinates)
        rows = _as_rows(object_predictions, boxes)
        ordered = _Ordered.of(rows, by_category=not self.class_agnostic)
        groups = self._groups_of(ordered, self.match_metric, self.match_threshold)
        if not set(map(type, coordinates)) <= {float, int}:  # SAHI may then compute in other types than double
            together = ObjectPredictionList(list(object_predictions))
            return list(combine._apply_merge(together, dict(groups.items()), self.match_metric, self.match_threshold))
        return _merged(object_predictions, groups, boxes, rows[:, 4], self.match_metric, float(self.match_threshold))


class GreedyNMMPostprocess(NMMPostprocess, combine.GreedyNMMPostprocess):
    """SAHI's class of this name, on all predictions at once: `postprocess_type="GREEDYNMM"` after `accelerate`."""

    _groups_of = staticmethod(_greedy_groups)


_CLASSES = {"NMS": NMSPostprocess, "NMM": NMMPostprocess, "GREEDYNMM": GreedyNMMPostprocess}


def _is_usual(postprocess: Any, predictions: list[ObjectPrediction]) -> bool:
    """Whether hashnms does it. Otherwise SAHI does: at a threshold of 0, even boxes that do not touch match."""
    return len(predictions) > 0 and postprocess.match_threshold > 0 and postprocess.match_metric in ("IOU", "IOS")


def _coordinates(predictions: list[ObjectPrediction]) -> list[Any]:
    return list(chain.from_iterable(map(attrgetter("bbox.box"), predictions)))


def _as_boxes(coordinates: list[Any]) -> Array:
    return np.array(coordinates, np.float64).reshape(-1, 4)


def _as_rows(predictions: list[ObjectPrediction], boxes: Array) -> Array:
    """The (N, 6) float32 array that SAHI makes from predictions."""
    rows = np.empty((len(boxes), 6), np.float32)
    rows[:, :4] = boxes
    for column, name in ((4, "score.value"), (5, "category.id")):
        rows[:, column] = np.fromiter(map(attrgetter(name), predictions), np.float32, len(boxes))
    return rows


def _merged(
    predictions: list[ObjectPrediction], groups: _Groups, boxes: Array, scores: Array, metric: str, threshold: float
) -> list[ObjectPrediction]:
    """Merge each group into one prediction: the kept box grows by each other box that matches the grown box.

    That is what SAHI does. If the kept prediction and another have masks, SAHI's own function merges them, because the
    box then depends on the mask.
    """
    result = _core.grow(boxes, groups.keep, groups.others, groups.ends, threshold, metric.lower())
    assert result is not None, "the core refused valid groups"
    grown, taken = result
    sizes = np.diff(groups.ends, prepend=0)
    numbers = np.repeat(np.arange(len(sizes)), sizes)
    has_grown = np.bincount(numbers[taken], minlength=len(sizes)) > 0
    # SAHI sorts scores in float32. Of predictions with equal scores, one may be higher in double and pass on its
    # category.
    equals: dict[int, list[ObjectPrediction]] = {}
    for at in np.flatnonzero(taken & (scores[groups.others] == scores[groups.keep][numbers])).tolist():
        equals.setdefault(int(numbers[at]), []).append(predictions[groups.others[at]])
    merged = []
    for number, (row, others) in enumerate(groups.items()):
        kept = predictions[row]
        if kept.mask and any(predictions[other].mask for other in others):
            together = ObjectPredictionList([kept, *(predictions[other] for other in others)])
            merged += combine._apply_merge(together, {0: list(range(1, len(together)))}, metric, threshold)
        else:
            merged.append(_grown(kept, grown[number], equals.get(number, [])) if has_grown[number] else kept)
    return merged


def _grown(kept: ObjectPrediction, box: Array, equals: list[ObjectPrediction]) -> ObjectPrediction:
    """The prediction with a new box, and the score and category after merging others of equal score."""
    score, category = kept.score.value, kept.category
    for other in equals:
        if not score > other.score.value:
            score, category = max(score, other.score.value), other.category
    return ObjectPrediction(
        bbox=box.tolist(),
        score=score,
        category_id=category.id,
        category_name=category.name,
        shift_amount=list(kept.bbox.shift_amount),
    )


if __name__ == "__main__":
    from sahi.cli import app

    accelerate()
    app()
