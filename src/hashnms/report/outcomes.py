"""What a suppression does to each box of one image: kept, or removed by which box."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashnms import _validate
from hashnms.boxes import pairwise_iou
from hashnms.hashing import hash_family
from hashnms.merging import suppressor_of, weighted_boxes_fusion
from hashnms.pipeline import Suppression
from hashnms.report.data import Outcome
from hashnms.steps import Hnms, Nms, Step, Wbf

Array = NDArray[Any]

#: Values that are not rows: removed by a score threshold or limit; or not removed by a single box.
_LIMIT, _NO_ONE = -1, -2

#: This many boxes are compared at a time with the kept boxes around them: memory is (_BLOCK, kept) IoUs.
_BLOCK = 128


def outcome_of(
    suppression: Suppression | str, boxes: ArrayLike, scores: ArrayLike, labels: ArrayLike | None = None
) -> Outcome:
    """Run a suppression on the boxes of one image, and find the kept box that removed each removed box.

    The suppressor is known where `Nms`, `Hnms`, `Nmm`, `Vote` or `Wbf` removed the box for one that is kept in the end.
    It is -1 where a limit or score threshold removed the box, or removed its suppressor. In other cases (`SoftNms`, or
    a suppressor that a later step removed), it is the kept box that overlaps it most, among those with the same label
    and at least its raw score. Ties go to the higher score, then to the lower row. It is -1 if no such box overlaps it.

    Args:
        suppression: a `Suppression` or its notation.
        boxes: (N, 4), xyxy.
        scores: (N,).
        labels: (N,) integers or None.

    Returns:
        An `Outcome`. Its `scores` and `boxes` are None unless a step changes them. 45,000 boxes take under a second;
        memory is O(N).

    >>> boxes = [[0, 0, 10, 10], [1, 0, 11, 10], [20, 0, 30, 10]]
    >>> outcome_of("nms:0.5+limit:1", boxes, [0.75, 0.875, 0.5]).suppressor
    array([ 1,  1, -1])
    """
    chain = Suppression.of(suppression)
    box_array, score_array, label_array, _ = _validate.plain_arrays(boxes, scores, labels)
    if label_array is None:
        label_array = np.zeros(len(box_array), np.int64)
    rows, current, current_boxes = np.arange(len(box_array)), score_array, box_array
    remover = rows.copy()
    for step in chain.steps:
        data = current_boxes, current, label_array[rows]
        kept = Suppression([step])(*data)
        by = _remover(step, kept.keep, *data)
        remover[rows] = by if isinstance(by, int) else rows[by]
        order = kept.keep.argsort()
        places = kept.keep[order]
        current_boxes = current_boxes[places] if kept.boxes is None else kept.boxes[order]
        rows, current = rows[places], kept.scores[order]
        remover[rows] = rows
    keep = np.zeros(len(box_array), bool)
    keep[rows] = True
    suppressor = _kept_remover(keep, remover, box_array, score_array, label_array)
    final_scores = _with_rows(score_array, rows, current) if chain.changes_scores else None
    final_boxes = _with_rows(box_array, rows, current_boxes) if chain.changes_boxes else None
    return Outcome(keep, suppressor, final_scores, final_boxes)


def _with_rows(values: Array, rows: Array, new: Array) -> Array:
    """A copy with new values in these rows."""
    changed = values.copy()
    changed[rows] = new
    return changed


def _remover(step: Step, keep: Array, boxes: Array, scores: Array, labels: Array) -> Array | int:
    """For each box, the box that removed or absorbed it, or the box itself if kept; or why that is not known."""
    if isinstance(step, Nms):  # or a subclass that merges what it suppresses
        suppressor: Array = suppressor_of(boxes, scores, **asdict(step), labels=labels)
        return suppressor
    if isinstance(step, Hnms):
        return _hnms_remover(step, boxes, scores, labels)
    if isinstance(step, Wbf):
        founders: Array = keep[weighted_boxes_fusion(boxes, scores, labels=labels, **asdict(step)).clusters]
        return founders
    return _NO_ONE if step.removes_overlaps else _LIMIT


def parameters_of(suppression: Suppression | str) -> dict[str, float]:
    """The numbers in a suppression's steps, for `Method.parameters`; if a name comes twice, the first.

    >>> parameters_of("top:9000+hnms:0.73/1+nms:0.5")
    {'k': 9000, 'alpha': 0.73, 'num_hashes': 1, 'iou_threshold': 0.5}
    """
    parameters: dict[str, float] = {}
    for step in Suppression.of(suppression).steps:
        for name, value in asdict(step).items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                parameters.setdefault(name, value)
    return parameters


def _hnms_remover(step: Hnms, boxes: Array, scores: Array, labels: Array) -> Array:
    """For each box, the winner of its cell under the hash that removed it; the box itself if kept."""
    remover = np.arange(len(boxes))
    left = remover.copy()
    for iou_hash in hash_family(step.alpha, step.num_hashes):
        cells = np.column_stack([iou_hash(boxes[left]), labels[left]])
        has_area = (boxes[left, 2:] > boxes[left, :2]).all(axis=1)
        own_cell = np.where(has_area, 0, 1 + np.arange(len(left)))  # a box without area shares no cell
        order = np.lexsort((left, -scores[left].astype(np.float64), own_cell, *cells.T))
        in_order = np.column_stack([cells, own_cell])[order]
        starts = np.concatenate([[True], (in_order[1:] != in_order[:-1]).any(axis=1)])[: len(order)]
        winner = left[order[starts]][np.cumsum(starts) - 1]
        remover[left[order]] = winner
        left = np.sort(left[order[starts]])
    return remover


def _kept_remover(keep: Array, remover: Array, boxes: Array, scores: Array, labels: Array) -> Array:
    """The suppressor as `outcome_of` defines it, from the box that removed each box."""
    suppressor = remover.copy()
    removed = np.flatnonzero(remover >= 0)
    gone = removed[~keep[remover[removed]]]  # removed by a box that was itself removed
    suppressor[gone] = np.where(remover[remover[gone]] == _LIMIT, _LIMIT, _NO_ONE)
    open_rows = np.flatnonzero(suppressor == _NO_ONE)
    suppressor[open_rows] = _most_overlapping(open_rows, keep, boxes, scores, labels)
    return suppressor


def _most_overlapping(rows: Array, keep: Array, boxes: Array, scores: Array, labels: Array) -> Array:
    """For each row, the most overlapping kept box with the same label and at least its score, or -1."""
    boxes, scores = boxes.astype(np.float64), scores.astype(np.float64)
    result = np.full(len(boxes), -1)
    kept = np.flatnonzero(keep)
    kept = kept[np.lexsort((kept, -scores[kept]))]  # the first of equal overlaps is taken
    for label in np.unique(labels[rows]):
        of_label = rows[labels[rows] == label]
        others = kept[labels[kept] == label]
        for block in _neighbours(of_label, boxes):
            low, high = boxes[block, :2].min(axis=0), boxes[block, 2:].max(axis=0)
            near = others[((boxes[others, 2:] > low) & (boxes[others, :2] < high)).all(axis=1)]
            if len(near) == 0:
                continue
            with np.errstate(over="ignore", invalid="ignore"):  # boxes whose area overflows overlap nothing
                iou = np.nan_to_num(pairwise_iou(boxes[block], boxes[near]), nan=0.0)
            iou[scores[near] < scores[block][:, None]] = 0.0
            best = iou.argmax(axis=1)
            result[block] = np.where(iou[np.arange(len(block)), best] > 0, near[best], -1)
    return result[rows]


def _neighbours(rows: Array, boxes: Array) -> list[Array]:
    """Divide rows into blocks of boxes that lie close together: strips of y, sorted by x within each."""
    num_strips = max(1, round((len(rows) / _BLOCK) ** 0.5))
    by_y = rows[np.argsort(boxes[rows, 1] / 2 + boxes[rows, 3] / 2, kind="stable")]
    blocks = []
    for strip in np.array_split(by_y, num_strips):
        by_x = strip[np.argsort(boxes[strip, 0] / 2 + boxes[strip, 2] / 2, kind="stable")]
        blocks += [by_x[start : start + _BLOCK] for start in range(0, len(by_x), _BLOCK)]
    return blocks
