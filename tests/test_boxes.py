"""Box formats, corners in order and pairwise IoU."""

from itertools import product

import numpy as np
import pytest

from hashnms import nms
from hashnms.boxes import order_corners, pairwise_iou, to_xyxy
from hashnms.synthetic import make_scene


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


def test_invalid_boxes_are_refused_by_name():
    with pytest.raises(
        ValueError, match=r"^boxes2 must be finite, got \[0.0, 0.0, nan, 1.0\] in row 0 \(1 such row\)$"
    ):
        pairwise_iou([[0, 0, 1, 1]], [[0, 0, np.nan, 1]])
    with pytest.raises(ValueError, match=r"^boxes must have width >= 0 and height >= 0, got \[0.0, 0.0, -1.0, 1.0\]"):
        to_xyxy([[0, 0, -1, 1]], "xywh")


def test_the_result_does_not_share_memory_with_the_input():
    boxes = np.zeros((1, 4))
    assert not np.shares_memory(to_xyxy(boxes, "xyxy"), boxes)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_two_opposite_corners_say_the_same_box(dtype):
    ordered = make_scene("crowd", 600).boxes.astype(dtype)
    for x, y in product((False, True), repeat=2):
        flipped = ordered.copy()
        if x:
            flipped[::3, [0, 2]] = flipped[::3, [2, 0]]
        if y:
            flipped[1::2, [1, 3]] = flipped[1::2, [3, 1]]
        result = order_corners(flipped)
        assert result.dtype == dtype
        assert np.array_equal(result, ordered)


def test_corners_in_order_are_not_copied():
    boxes = make_scene("crowd", 10).boxes
    assert order_corners(boxes) is boxes
    flipped = boxes[:, [2, 1, 0, 3]]
    before = flipped.copy()
    assert not np.shares_memory(order_corners(flipped), flipped)
    assert np.array_equal(flipped, before)


def test_ordering_corners_drops_nothing_in_silence():
    assert order_corners([]).shape == (0, 4)
    assert order_corners([[3, 4, 1, 2]]).dtype == np.float32
    with pytest.raises(ValueError, match=r"^boxes must have shape \(N, 4\), got \(1, 5\): pass boxes\[:, :4\]"):
        order_corners([[0, 0, 1, 1, 1]])
    with pytest.raises(ValueError, match=r"^boxes must be finite"):
        nms(order_corners([[2, 0, 1, np.nan]]), [1])


def test_corners_of_tensors_are_ordered_where_they_are():
    torch = pytest.importorskip("torch")
    boxes = torch.tensor([[5.0, 1.0, 2.0, 0.0], [0.0, 0.0, 1.0, 1.0]], requires_grad=True)
    expected = [[2.0, 0.0, 5.0, 1.0], [0.0, 0.0, 1.0, 1.0]]
    assert order_corners(boxes).tolist() == expected
    assert torch.compile(order_corners, fullgraph=True, backend="eager")(boxes).tolist() == expected
    assert order_corners(boxes.to("meta")).device.type == "meta"
    assert order_corners(boxes.to(torch.int32)).dtype == torch.int32
    order_corners(boxes)[0, 0].backward()
    assert boxes.grad[0].tolist() == [0, 0, 1, 0]
    with pytest.raises(ValueError, match=r"^boxes must have shape \(N, 4\), got \(4,\): one box is"):
        order_corners(torch.zeros(4))
