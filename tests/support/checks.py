"""What it means that two answers are the same."""

from __future__ import annotations

from typing import Any

import numpy as np

from hashnms import nms, reference, soft_nms
from hashnms.synthetic import lattice


def assert_same_nms(boxes: Any, scores: Any, iou_threshold: float, **options: Any) -> None:
    """Kept boxes, their order and every suppressor are the reference's; without suppressors the same are kept."""
    keep, suppressor = nms(boxes, scores, iou_threshold, return_suppressor=True, **options)
    expected_keep, expected_suppressor = reference.nms(boxes, scores, iou_threshold, **options)
    assert keep.dtype == suppressor.dtype == np.int64
    assert np.array_equal(keep, expected_keep)
    assert np.array_equal(suppressor, expected_suppressor)
    assert np.array_equal(nms(boxes, scores, iou_threshold, **options), expected_keep)


def among_many(boxes: Any, scores: Any) -> tuple[Any, Any]:
    """The same with so many worse boxes far away that not all pairs are compared."""
    boxes, scores = np.asarray(boxes), np.asarray(scores)
    span = np.float64(boxes.max(initial=1)) - boxes.min(initial=0)
    apart = (boxes.max(initial=1) + span + lattice(600, 8, 9) * span / 100).astype(boxes.dtype)
    return np.concatenate([boxes, apart]), np.concatenate([scores, np.full(600, -9, scores.dtype)])


#: Up to so many boxes of a label are selected by the plain loop, not from the tree.
FEW_SOFT = 128


def assert_same_soft_nms(boxes: Any, scores: Any, **options: Any) -> None:
    """The reference's boxes, order and bits of scores; also of the same boxes among more, of the first one's label."""
    assert_same_soft_nms_alone(boxes, scores, **options)
    if 0 < len(boxes) <= FEW_SOFT:
        if options.get("labels") is not None:
            options["labels"] = np.append(options["labels"], np.full(FEW_SOFT, options["labels"][0]))
        apart = np.random.default_rng(33).permutation(lattice(FEW_SOFT, size=10.0, step=8.0) + 4000).astype(boxes.dtype)
        more = (np.linspace(0, 1, FEW_SOFT) * scores.max()).astype(scores.dtype)
        assert_same_soft_nms_alone(np.concatenate([boxes, apart]), np.concatenate([scores, more]), **options)


def assert_same_soft_nms_alone(boxes: Any, scores: Any, **options: Any) -> None:
    """The reference's boxes, order and bits of scores, of these boxes as they are."""
    keep, decayed = soft_nms(boxes, scores, **options)
    expected_keep, expected_decayed = reference.soft_nms(boxes, scores, **options)
    assert keep.dtype == np.int64
    assert np.array_equal(keep, expected_keep)
    assert decayed.dtype == expected_decayed.dtype
    assert decayed.tobytes() == expected_decayed.tobytes()
