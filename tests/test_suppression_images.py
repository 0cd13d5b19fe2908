"""Many images in one call: what each of them would give alone, and limits that count by image."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hashnms
from hashnms import Suppression, reference
from tests.support.boxes import BOX_KINDS, boxes_and_scores, crowd

pytestmark = pytest.mark.core

METHODS: dict[str, tuple[Any, Any, list[dict[str, Any]]]] = {
    "hnms": (hashnms.hnms, reference.hnms, [{"alpha": 0.7}, {"alpha": 0.5, "num_hashes": 3}]),
    "nms": (hashnms.nms, reference.nms, [{"iou_threshold": 0.5}, {"iou_threshold": 0.3, "max_output": 2}]),
    "soft_nms": (
        hashnms.soft_nms,
        reference.soft_nms,
        [{}, {"method": "linear", "max_output": 2}, {"method": "hard", "iou_threshold": 0.4, "max_output": 1}],
    ),
}


def assert_as_one_by_one(name, boxes, scores, images, labels, settings):
    method, oracle, _ = METHODS[name]
    result = method(boxes, scores, labels=labels, images=images, **settings)
    keep, final = result if isinstance(result, tuple) else (result, scores[result])
    expected_keep, expected_final = reference.of_images(oracle, boxes, scores, images, labels=labels, **settings)
    assert keep.tolist() == expected_keep.tolist()
    assert final.tolist() == expected_final.tolist()


@given(data=boxes_and_scores(), draw=st.data())
@pytest.mark.parametrize("name", METHODS)
def test_images_never_meet_and_limits_count_by_image(name, data, draw):
    boxes, scores = data
    ids = draw.draw(st.sampled_from([[0, 1], [-5, 7, 7**20], [-(2**63), 2**63 - 1], list(range(9))]))
    choose = st.lists(st.sampled_from(ids), min_size=len(boxes), max_size=len(boxes))
    images = np.array(draw.draw(choose), np.int64)
    labels = np.array(draw.draw(choose), np.int64) if draw.draw(st.booleans()) else None
    assert_as_one_by_one(name, boxes, scores, images, labels, draw.draw(st.sampled_from(METHODS[name][2])))


@pytest.mark.parametrize("count", [700, 6000])
@pytest.mark.parametrize("kind", BOX_KINDS)
@pytest.mark.parametrize("name", ["hnms", "nms"])
def test_many_boxes_of_every_kind(name, kind, count):
    rng = np.random.default_rng(5)
    boxes, scores = BOX_KINDS[kind](rng, count).astype(np.float32), rng.random(count).astype(np.float32).round(2)
    images, labels = rng.integers(0, 12, count), rng.integers(-3, 3, count)
    for settings in METHODS[name][2]:
        method, _, _ = METHODS[name]
        together = method(boxes, scores, labels=labels, images=images, **settings)
        alone = []
        for image in range(12):
            rows = np.flatnonzero(images == image)
            alone.append(rows[method(boxes[rows], scores[rows], labels=labels[rows], **settings)])
        expected = np.concatenate(alone)
        assert together.tolist() == expected[np.lexsort((expected, -scores[expected]))].tolist()


def test_a_suppressor_is_of_the_same_image_and_within_its_limit():
    rng = np.random.default_rng(6)
    boxes, scores, images = crowd(rng, 400), rng.random(400), rng.integers(0, 5, 400)
    for most in (None, 3):
        keep, suppressor = hashnms.nms(boxes, scores, 0.4, images=images, max_output=most, return_suppressor=True)
        expected = np.full(400, -1)
        for image in range(5):
            rows = np.flatnonzero(images == image)
            of_image = reference.nms(boxes[rows], scores[rows], 0.4, max_output=most)[1]
            expected[rows] = np.where(of_image < 0, -1, rows[of_image])
        assert suppressor.tolist() == expected.tolist()
        assert sorted(keep) == np.flatnonzero(suppressor == np.arange(400)).tolist()


@pytest.mark.parametrize(
    "notation", ["top:3", "limit:4", "score:0.5+limit:2", "hnms:0.7/2+limit:5", "top:20+nms:0.4+limit:3"]
)
@pytest.mark.parametrize("labelled", [True, False])
def test_a_suppression_counts_by_image(notation, labelled):
    rng = np.random.default_rng(7)
    boxes, scores, images = crowd(rng, 500), rng.random(500).round(2), rng.integers(0, 6, 500) * 10**15
    labels = rng.integers(0, 3, 500) if labelled else None
    suppression = Suppression.parse(notation)
    keep, final = suppression(boxes, scores, labels, images)
    alone = []
    for image in np.unique(images):
        rows = np.flatnonzero(images == image)
        alone.append(rows[suppression(boxes[rows], scores[rows], None if labels is None else labels[rows]).keep])
    expected = np.concatenate(alone)
    expected = expected[np.lexsort((expected, -scores[expected]))]
    assert keep.tolist() == expected.tolist()
    assert final.tolist() == scores[expected].tolist()


def test_one_image_is_no_image():
    rng = np.random.default_rng(8)
    boxes, scores, images = crowd(rng, 600), rng.random(600), np.full(600, -7)
    for method, _, variants in METHODS.values():
        for settings in variants:
            result, expected = method(boxes, scores, images=images, **settings), method(boxes, scores, **settings)
            pairs = zip(result, expected, strict=True) if isinstance(result, tuple) else [(result, expected)]
            assert all(np.array_equal(ours, theirs) for ours, theirs in pairs)


@pytest.mark.parametrize(
    ("images", "error", "message"),
    [
        ([0, 1], ValueError, r"images must have shape \(3,\), one for each box, got \(2,\)"),
        (
            ["a", "b", "c"],
            TypeError,
            r"images must be integers, got <U1: np.unique\(images, return_inverse=True\)\[1\]",
        ),
        ([0.5, 1, 2], ValueError, r"images must be whole numbers, got 0.5 in row 0"),
    ],
)
def test_images_that_are_none_are_refused(images, error, message):
    boxes, scores = [[0, 0, 1, 1]] * 3, [1, 2, 3]
    for call in (hashnms.hnms, hashnms.nms, hashnms.soft_nms, Suppression.parse("nms:0.5")):
        with pytest.raises(error, match=message):
            call(boxes, scores, images=images)


def test_empty_input_has_no_images():
    for call in (hashnms.hnms, hashnms.nms, Suppression.parse("top:1+limit:1")):
        result = call(np.zeros((0, 4)), [], images=[])
        assert len(result if isinstance(result, np.ndarray) else result.keep) == 0


@pytest.mark.usefixtures("restored_threads")
def test_threads_change_nothing():
    rng = np.random.default_rng(9)
    boxes, scores, images = (
        crowd(rng, 60_000, 20.0).astype(np.float32),
        rng.random(60_000),
        rng.integers(0, 300, 60_000),
    )
    answers = []
    for threads in (1, 2, 5):
        hashnms.set_num_threads(threads)
        answers.append(
            [
                hashnms.nms(boxes, scores, 0.5, images=images, max_output=50).tolist(),
                hashnms.hnms(boxes, scores, images=images).tolist(),
                hashnms.soft_nms(boxes, scores, images=images, max_output=20)[0].tolist(),
            ]
        )
    assert answers[0] == answers[1] == answers[2]
