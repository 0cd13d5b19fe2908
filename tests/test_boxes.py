"""Box formats and pairwise IoU."""

import numpy as np
import pytest

from hashnms.boxes import pairwise_iou, to_xyxy


@pytest.mark.parametrize(
    ("box_format", "box"), [("xyxy", [2, 3, 8, 7]), ("xywh", [2, 3, 6, 4]), ("cxcywh", [5, 5, 6, 4])]
)
def test_every_format_becomes_the_same_corners_in_its_own_type(box_format, box):
    for dtype in (np.float32, np.float64):
        corners = to_xyxy(np.array([box], dtype), box_format)
        assert corners.dtype == dtype
        assert corners.tolist() == [[2, 3, 8, 7]]


def test_an_unknown_format_is_named():
    with pytest.raises(ValueError, match=r"^box_format must be one of xyxy, xywh, cxcywh, got 'xyxyn'$"):
        to_xyxy([[0, 0, 1, 1]], "xyxyn")


def test_iou_of_equal_apart_touching_nested_and_empty_boxes():
    box = [[0.0, 0.0, 2.0, 2.0]]
    others = [[0, 0, 2, 2], [5, 5, 6, 6], [2, 0, 4, 2], [0, 0, 1, 1], [1, 1, 1, 1]]
    assert pairwise_iou(box, np.array(others, float)).tolist() == [[1.0, 0.0, 0.0, 0.25, 0.0]]
    empty = np.zeros((1, 4))
    assert pairwise_iou(empty, empty).tolist() == [[0.0]]


def test_illegal_boxes_are_refused_by_name():
    with pytest.raises(
        ValueError, match=r"^boxes2 must be finite, got \[0.0, 0.0, nan, 1.0\] in row 0 \(1 such row\)$"
    ):
        pairwise_iou([[0, 0, 1, 1]], [[0, 0, np.nan, 1]])
    with pytest.raises(ValueError, match=r"^boxes must have width >= 0 and height >= 0, got \[0.0, 0.0, -1.0, 1.0\]"):
        to_xyxy([[0, 0, -1, 1]], "xywh")


def test_the_result_does_not_share_memory_with_the_input():
    boxes = np.zeros((1, 4))
    assert not np.shares_memory(to_xyxy(boxes, "xyxy"), boxes)
