"""The oracle itself, against results worked out by hand."""

import numpy as np

from hashnms import reference


def test_nms_suppresses_only_above_the_threshold():
    """Two boxes with IoU exactly 1/3: kept at 1/3, one suppressed just below it."""
    boxes = np.array([[0, 0, 2, 2], [1, 0, 3, 2]], np.float64)
    assert reference.nms(boxes, [0.9, 0.8], 1 / 3)[0].tolist() == [0, 1]
    assert reference.nms(boxes, [0.9, 0.8], 0.3333)[0].tolist() == [0]


def test_nms_by_ios_compares_with_the_smaller_area():
    """A third of the small box lies in the large one."""
    boxes = np.array([[0, 0, 30, 30], [29, 0, 32, 1]], np.float64)
    assert reference.nms(boxes, [0.9, 0.8], 1 / 3, metric="ios")[0].tolist() == [0, 1]
    assert reference.nms(boxes, [0.9, 0.8], 1 / 3, metric="ios", inclusive=True)[0].tolist() == [0]


def test_nms_by_diou_takes_off_the_distance_of_centres():
    """IoU 1/2; centres 1 apart, in a box of 4 x 4: 1/2 - 1/32."""
    boxes = np.array([[0, 0, 4, 4], [0, 0, 4, 2]], np.float32)
    assert reference.nms(boxes, [0.9, 0.8], 0.46875, metric="diou")[0].tolist() == [0, 1]
    assert reference.nms(boxes, [0.9, 0.8], 0.46874, metric="diou")[0].tolist() == [0]


def test_nms_keeps_labels_apart_and_breaks_ties_by_index():
    boxes = np.array([[0, 0, 2, 2]] * 3, np.float64)
    assert reference.nms(boxes, [1, 1, 1])[0].tolist() == [0]
    assert reference.nms(boxes, [1, 1, 2], labels=[0, 1, 0])[0].tolist() == [2, 1]


def test_nms_a_suppressed_box_suppresses_nothing():
    boxes = np.array([[0, 0, 10, 10], [4, 0, 14, 10], [8, 0, 18, 10]], np.float64)
    assert reference.nms(boxes, [0.9, 0.8, 0.7], 0.4)[0].tolist() == [0, 2]


def test_the_code_of_a_box_worked_out_by_hand():
    """Width 10 and height 20 at alpha 0.7: 0.7**-6 = 8.50 and 0.7**-8 = 17.35 are the centres nearest in ratio."""
    assert reference.iou_hash([[0, 0, 10, 20]], alpha=0.7) == [(6, 8, 3, 3)]
    assert reference.iou_hash([[0, 0, 0, 20]], alpha=0.7) == [None]


def test_a_width_on_an_edge_belongs_to_the_upper_cell():
    """An alpha of 1/4 has its edges at 2, 8, 32 ...: Eqn. 2 gives exactly 1/2 there."""
    widths = [2.0, np.nextafter(2.0, 0), 8.0, np.nextafter(8.0, 0)]
    codes = reference.iou_hash([[0, 0, w, 1] for w in widths], alpha=0.25)
    assert [code[0] for code in codes] == [1, 0, 2, 1]
