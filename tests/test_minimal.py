"""The one file to run first: does the package work at all?"""

import numpy as np

import hashnms

BOXES = np.array([[0, 0, 100, 100], [1, 1, 101, 101], [200, 0, 300, 100]], np.float32)
SCORES = np.array([0.8, 0.9, 0.5], np.float32)


def test_hnms_keeps_the_best_of_two_alike_and_the_one_apart():
    keep = hashnms.hnms(BOXES, SCORES)
    assert keep.dtype == np.int64
    assert keep.tolist() == [1, 2]


def test_nms_keeps_the_best_of_two_that_overlap_and_the_one_apart():
    assert hashnms.nms(BOXES, SCORES, 0.5).tolist() == [1, 2]


def test_soft_nms_selects_the_lowered_one_last():
    keep, decayed = hashnms.soft_nms(BOXES, SCORES)
    assert keep.tolist() == [1, 2, 0]
    assert decayed.round(3).tolist() == np.float32([0.9, 0.5, 0.126]).tolist()


def test_a_suppression_is_a_chain_of_these():
    keep, scores = hashnms.Suppression.parse("hnms:0.7/1+nms:0.5+limit:1")(BOXES, SCORES)
    assert keep.tolist() == [1]
    assert scores.tolist() == SCORES[[1]].tolist()


def test_the_public_names_are_those_of_the_design():
    hashing = {"iou_hash", "hash_family", "iou_lower_bound", "alpha_for_bound"}
    functions = {
        "hnms",
        "nms",
        "batched_nms",
        "soft_nms",
        "merge",
        "nmm",
        "partial_nms",
        "regions",
        "vote",
        "weighted_boxes_fusion",
        "Suppression",
        "get_num_threads",
        "set_num_threads",
    } | hashing
    steps = {"Hnms", "Limit", "Nmm", "Nms", "ScoreThreshold", "SoftNms", "TopK", "Vote", "Wbf"}
    others = {"Fused", "IoUHash", "Merged", "Status", "Suppressed", "boxes", "evaluate", "reference", "synthetic"}
    assert set(hashnms.__all__) == functions | steps | others
    assert all(callable(getattr(hashnms, name)) for name in functions)
