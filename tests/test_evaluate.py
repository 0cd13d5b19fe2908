"""Agreement of two kept sets."""

import numpy as np

from hashnms.evaluate import Agreement, agreement, matched_agreement


def test_agreement_counts_common_boxes_in_any_order():
    assert agreement([5, 1, 2, 0], [2, 1]) == Agreement(precision=0.5, recall=1.0)
    assert agreement([3], [1, 2]) == Agreement(precision=0.0, recall=0.0)


def test_of_an_empty_set_all_is_in_the_other():
    assert agreement([], []) == Agreement(precision=1.0, recall=1.0)
    assert agreement([], [1]) == Agreement(precision=1.0, recall=0.0)
    assert matched_agreement([], [], np.zeros((2, 4))) == Agreement(precision=1.0, recall=1.0)
    assert matched_agreement([], [1], np.zeros((2, 4))) == Agreement(precision=1.0, recall=0.0)


def test_matched_boxes_overlap_and_have_the_same_label(monkeypatch):
    boxes = np.array([[0, 0, 10, 10], [1, 0, 11, 10], [0, 0, 10, 10], [50, 0, 60, 10]], np.float32)
    assert matched_agreement([0, 3], [1, 2], boxes) == Agreement(precision=0.5, recall=1.0)
    assert matched_agreement([0, 3], [1, 2], boxes, [0, 0, 1, 0]) == Agreement(precision=0.5, recall=0.5)
    assert matched_agreement([0, 3], [1], boxes, iou_threshold=9 / 11 + 1e-6) == Agreement(0.0, 0.0)
    monkeypatch.setattr("hashnms.evaluate._PAIRS", 1)  # one by one
    assert matched_agreement([0, 3], [1, 2], boxes, [0, 0, 1, 0]) == Agreement(precision=0.5, recall=0.5)
