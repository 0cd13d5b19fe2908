"""The one file to run first: does the package work at all?"""

import numpy as np

import hashnms


def test_hnms_keeps_the_best_of_two_alike_and_the_one_apart():
    boxes = np.array([[0, 0, 100, 100], [1, 1, 101, 101], [200, 0, 300, 100]], np.float32)
    scores = np.array([0.8, 0.9, 0.5], np.float32)

    keep = hashnms.hnms(boxes, scores)

    assert keep.dtype == np.int64
    assert keep.tolist() == [1, 2]


def test_nms_keeps_the_best_of_two_that_overlap_and_the_one_apart():
    boxes = np.array([[0, 0, 100, 100], [1, 1, 101, 101], [200, 0, 300, 100]], np.float32)
    assert hashnms.nms(boxes, np.array([0.8, 0.9, 0.5], np.float32), 0.5).tolist() == [1, 2]


def test_the_public_names_are_those_of_the_design():
    functions = {"hnms", "nms", "batched_nms", "iou_hash", "hash_family", "iou_lower_bound", "alpha_for_bound"}
    others = {"IoUHash", "get_num_threads", "set_num_threads", "boxes", "evaluate", "reference", "synthetic"}
    assert set(hashnms.__all__) == functions | others
    assert all(callable(getattr(hashnms, name)) for name in functions)
