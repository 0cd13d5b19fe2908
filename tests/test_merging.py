"""Merging: unions, votes and weighted boxes fusion are what their references and ensemble-boxes say."""

import re
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hashnms
from hashnms import Nmm, Suppression, Vote, Wbf, merge, nmm, nms, reference, vote, weighted_boxes_fusion
from hashnms.boxes import to_xyxy
from tests.support.boxes import BOX_KINDS, boxes_and_scores, crowd

pytestmark = pytest.mark.core

HOWS: dict[str, Any] = {"union": nmm, "vote": vote}
CONFIDENCES = ["avg", "max", "box_and_model_avg", "absent_model_aware_avg"]


def as_format(boxes, box_format):
    if box_format == "xyxy":
        return boxes
    size = boxes[:, 2:] - boxes[:, :2]
    return np.hstack([boxes[:, :2] if box_format == "xywh" else boxes[:, :2] + size / 2, size])


@given(data=boxes_and_scores(), threshold=st.sampled_from([0.0, 0.25, 0.5, 1.0]), labelled=st.booleans())
@pytest.mark.parametrize("how", HOWS)
def test_what_was_suppressed_is_merged_as_the_reference_does_it(how, data, threshold, labelled):
    boxes, scores = data
    scores = np.abs(scores) if how == "vote" else scores
    labels = np.arange(len(boxes)) % 2 if labelled else None
    result = HOWS[how](boxes, scores, threshold, labels=labels)
    suppressor = nms(boxes, scores, threshold, labels=labels, return_suppressor=True)[1]
    keep, merged, final = reference.merge(boxes, scores, suppressor, how)
    assert result.keep.tolist() == keep.tolist()
    assert result.scores.tolist() == final.tolist()
    assert (result.boxes.dtype, result.scores.dtype) == (boxes.dtype, scores.dtype)
    if how == "union":
        assert result.boxes.tolist() == merged.tolist()
    else:
        scale = np.abs(boxes).max(initial=0) * np.finfo(boxes.dtype).eps
        np.testing.assert_allclose(result.boxes, merged, rtol=0, atol=4 * scale)
        assert (result.boxes[:, 2:] >= result.boxes[:, :2]).all()


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("box_format", ["xyxy", "xywh", "cxcywh"])
def test_every_format_gives_the_same_boxes_in_that_format(box_format, how):
    boxes = np.rint(crowd(np.random.default_rng(0), 400)) * 2
    scores = np.random.default_rng(1).random(400)
    expected = HOWS[how](boxes, scores)
    result = HOWS[how](as_format(boxes, box_format), scores, box_format=box_format)
    assert result.keep.tolist() == expected.keep.tolist()
    np.testing.assert_allclose(to_xyxy(result.boxes, box_format), expected.boxes, rtol=0, atol=1e-10)


@pytest.mark.parametrize("how", HOWS)
def test_a_box_alone_stays_to_the_bit_and_equal_boxes_stay_equal(how):
    boxes = np.array([[0.1, 0.2, 0.1, 0.3], [0.1, 0.7, 1e-3, 0.3], [0.1, 0.7, 1e-3, 0.3], [1e300, 0, 3e299, 1]])
    result = merge(boxes, [0.1, 0.7, 0.3, 0.2], [0, 1, 1, 3], how=how, box_format="xywh")
    assert result.keep.tolist() == [1, 3, 0]
    assert result.boxes[1:].tolist() == boxes[[3, 0]].tolist()
    np.testing.assert_allclose(result.boxes[0], boxes[1], rtol=1e-15)
    if how == "vote":
        assert result.boxes[0].tolist() == boxes[1].tolist()


def test_merging_takes_any_suppressors():
    boxes = [[0, 0, 4, 4], [10, 10, 12, 12], [0, 0, 1, 9], [5, 5, 6, 6]]
    result = merge(boxes, [0.5, 0.25, 0.75, 1.0], [0, 1, 0, -1])
    assert result.keep.tolist() == [0, 1]  # row 3 is part of nothing
    assert result.boxes.tolist() == [[0, 0, 4, 9], [10, 10, 12, 12]]
    assert result.scores.tolist() == [0.75, 0.25]  # the highest, not that of the kept box
    voted = merge(boxes, [0.5, 0.25, 0.0, 1.0], [0, 1, 0, -1], how="vote")
    assert voted.boxes.tolist() == [[0, 0, 4, 4], [10, 10, 12, 12]]
    zeros = merge(boxes, [0.0, 0.0, 0.0, 0.0], [0, 1, 0, -1], how="vote")
    assert zeros.boxes.tolist() == [[0, 0, 4, 4], [10, 10, 12, 12]]


def test_huge_coordinates_have_a_mean():
    box = np.array([[-1.5e308, 0, 1.5e308, 1], [-1e308, 0, 1.5e308, 1]])
    result = merge(box, [1e308, 1e308], [0, 0], how="vote")
    np.testing.assert_allclose(result.boxes, [[-1.25e308, 0, 1.5e308, 1]])


@pytest.mark.parametrize("function", [nmm, vote, weighted_boxes_fusion])
def test_no_boxes_give_none(function):
    result = function(np.zeros((0, 4), np.float32), np.zeros(0))
    assert (result.boxes.shape, result.boxes.dtype, len(result.scores)) == ((0, 4), np.float32, 0)


BAD = {
    "a suppressor that was suppressed": (
        lambda: merge([[0, 0, 1, 1]] * 3, [1, 1, 1], [0, 0, 1]),
        ValueError,
        "suppressor must be -1 or a kept row, one that is its own suppressor, got 1 in row 2 (1 such row)",
    ),
    "a suppressor that is no row": (lambda: merge([[0, 0, 1, 1]], [1], [7]), ValueError, "got 7 in row 0"),
    "no suppressor": (lambda: merge([[0, 0, 1, 1]], [1], None), TypeError, "suppressor must be integers"),
    "how": (lambda: merge([[0, 0, 1, 1]], [1], [0], how="mean"), ValueError, "how must be one of union, vote, got"),
    "a metric": (lambda: nmm([[0, 0, 1, 1]], [1], metric="giou"), ValueError, "metric must be one of iou"),
    "a negative score of a vote": (
        lambda: vote([[0, 0, 1, 1]], [-1.0]),
        ValueError,
        "scores must be at least 0 to weigh boxes, got -1.0 in row 0 (1 such row)",
    ),
    "a negative score of a step": (
        lambda: Suppression.parse("top:2+vote:0.5")([[0, 0, 1, 1]] * 3, [-2, 0, -1.0]),
        ValueError,
        "scores must be at least 0 to weigh boxes, got -1.0 in row 2 (1 such row)",
    ),
    "a negative score of a fusion": (
        lambda: weighted_boxes_fusion([[0, 0, 1, 1]] * 2, [1, -3], score_threshold=-np.inf),
        ValueError,
        "scores must be at least 0 to weigh boxes, got -3.0 in row 1 (1 such row)",
    ),
    "an inverted box": (
        lambda: weighted_boxes_fusion([[0, 0, 1, 1], [5, 0, 1, 1]], [1, 1]),
        ValueError,
        "boxes must have x2 >= x1 and y2 >= y1, got [5.0, 0.0, 1.0, 1.0] in row 1",
    ),
    "an inverted box of a step": (
        lambda: Suppression([Wbf()])([[0, 0, 1, 1], [5, 0, 1, 1]], [1, 1]),
        ValueError,
        "boxes must have x2 >= x1 and y2 >= y1, got [5.0, 0.0, 1.0, 1.0] in row 1",
    ),
    "a model without a weight": (
        lambda: weighted_boxes_fusion([[0, 0, 1, 1]], [1], models=[2], weights=[1, 1]),
        ValueError,
        "weights must be one for each model, at least 3, got shape (2,)",
    ),
    "a negative model": (
        lambda: weighted_boxes_fusion([[0, 0, 1, 1]], [1], models=[-1]),
        ValueError,
        "models must be at least 0, got -1 in row 0",
    ),
    "models far apart": (
        lambda: weighted_boxes_fusion([[0, 0, 1, 1]], [1], models=[10**9]),
        ValueError,
        "models must be numbered from 0, got 1000000000 for 1 boxes",
    ),
    "a negative weight": (
        lambda: weighted_boxes_fusion([[0, 0, 1, 1]], [1], weights=[-1]),
        ValueError,
        "weights must be finite and at least 0, got -1.0 in row 0",
    ),
    "no weight": (
        lambda: weighted_boxes_fusion([[0, 0, 1, 1]], [1], weights=[0]),
        ValueError,
        "weights must not all be 0",
    ),
    "a confidence": (
        lambda: weighted_boxes_fusion([[0, 0, 1, 1]], [1], confidence="mean"),
        ValueError,
        "confidence must be one of avg, max, box_and_model_avg, absent_model_aware_avg, got 'mean'",
    ),
    "a step's confidence": (lambda: Wbf(confidence="x"), ValueError, "confidence must be one of avg, max, got 'x'"),
    "sums beyond double": (
        lambda: weighted_boxes_fusion(np.array([[0, 0, 1e305, 1]]), [1.0]),
        ValueError,
        "boxes must be below 1e300 when multiplied by the sum of all scores, got 1e+305 and 1.0",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_named(name):
    call, error, message = BAD[name]
    with pytest.raises(error, match=re.escape(message)):
        call()


def assert_fused_as_the_reference(boxes, scores, labels, images, threshold, weights=(1.0,), models=None):
    """Clusters exactly, boxes rounded once."""
    models = np.zeros(len(boxes), np.int64) if models is None else models
    fused = weighted_boxes_fusion(
        boxes, scores, labels=labels, images=images, models=models, weights=weights, iou_threshold=threshold
    )
    zeros = np.zeros(len(boxes), np.int64)
    pairs = [*zip(zeros if labels is None else labels, zeros if images is None else images, strict=True)]
    members, expected = reference.weighted_boxes_fusion(
        boxes, scores, np.asarray(weights)[models], labels=pairs, iou_threshold=threshold
    )
    assert len(fused.boxes) == len(members)
    places = [int(fused.clusters[group[0]]) for group in members]
    assert [set(np.flatnonzero(fused.clusters == place)) for place in places] == [set(group) for group in members]
    assert sorted(places) == list(range(len(members)))
    assert fused.boxes[places].tolist() == expected.astype(boxes.dtype).tolist()
    mean = [np.mean(scores[group].astype(np.float64) * np.asarray(weights)[models[group]]) for group in members]
    of_models = [min(len(group), len(weights)) / sum(weights) for group in members]
    np.testing.assert_allclose(fused.scores[places], np.multiply(mean, of_models), rtol=1e-6)
    assert (np.diff(fused.scores) <= 0).all()
    for name, given_values in (("labels", labels), ("images", images)):
        found = getattr(fused, name)
        assert (found is None) == (given_values is None)
        if found is not None:
            assert found[places].tolist() == [given_values[group[0]] for group in members]


@given(
    data=boxes_and_scores(),
    threshold=st.sampled_from([0.0, 0.1, 0.25, 1 / 3, 0.5, 0.55, 0.8, 1.0]),
    labelled=st.booleans(),
    several=st.booleans(),
)
def test_fusion_is_that_of_the_reference(data, threshold, labelled, several):
    boxes, scores = data
    row = np.arange(len(boxes))
    labels, images = row % 2 if labelled else None, row % 3 - 1 if several else None
    assert_fused_as_the_reference(boxes, np.abs(scores), labels, images, threshold, (1.0, 0.5), row // 3 % 2)


@pytest.mark.parametrize("kind", BOX_KINDS)
def test_fusion_of_many_boxes_of_every_kind(kind):
    rng = np.random.default_rng(3)
    for number, threshold in enumerate([0.0, 0.03, 0.3, 0.55, 0.7, 0.95]):
        boxes = BOX_KINDS[kind](rng, 500).astype([np.float64, np.float32][number % 2])
        assert_fused_as_the_reference(boxes, rng.random(500), None, None, threshold)
        scaled = (boxes - boxes.min()) / max(np.ptp(boxes), 1e-300)  # within [0, 1]: sums in float32
        assert_fused_as_the_reference(
            scaled, rng.random(500).astype(np.float32), rng.integers(0, 2, 500), None, threshold
        )


def test_boxes_within_boxes_and_of_sizes_far_apart():
    rng = np.random.default_rng(5)
    size = 2.0 ** rng.uniform(-60, 60, (600, 1))
    corner = np.where(rng.random((600, 1)) < 0.5, 0.0, rng.uniform(0, 3, (600, 2))) * size
    boxes = np.hstack([corner, corner + size * rng.uniform(0.8, 1.2, (600, 2))])
    for threshold in (0.0, 1e-12, 0.01, 0.5):
        assert_fused_as_the_reference(boxes, rng.random(600), None, None, threshold)


def test_areas_near_the_ends_of_doubles():
    rng = np.random.default_rng(6)
    for scale in (1e-160, 1e-155, 1e-150, 1e150):
        assert_fused_as_the_reference(crowd(rng, 300) * scale, rng.random(300), None, None, 0.5)


def test_what_fusion_does_with_boxes_without_area_and_scores_of_0():
    boxes = np.array([[0, 0, 0, 9], [0, 0, 0, 9], [0, 0, 9, 9], [0, 0, 9, 8.0]])
    fused = weighted_boxes_fusion(boxes, [0.5, 0.75, 0, 0])
    assert fused.boxes.tolist() == boxes[[1, 0, 2]].tolist()
    assert fused.clusters.tolist() == [1, 0, 2, 2]
    assert weighted_boxes_fusion(boxes, [0.5, 0.75, 0, 0], score_threshold=0.5).clusters.tolist() == [1, 0, -1, -1]


def ensemble_data(rng, count, spread=0.3):
    objects = rng.random((max(1, count // 12), 2))
    of = rng.integers(0, len(objects), count)
    center = objects[of] + rng.normal(0, 0.02, (count, 2))
    size = spread * rng.uniform(0.3, 0.5, (count, 2))
    boxes = np.clip(np.hstack([center - size, center + size]), 0, 1)
    boxes = boxes[((boxes[:, 2:] - boxes[:, :2]) > 0).all(axis=1)]
    return (
        boxes,
        rng.permutation(len(boxes)) / len(boxes),
        rng.integers(0, 3, len(boxes)),
        rng.integers(0, 2, len(boxes)),
    )


@pytest.mark.parametrize("confidence", CONFIDENCES)
def test_fusion_is_that_of_ensemble_boxes(confidence):
    peer = pytest.importorskip("ensemble_boxes")
    rng = np.random.default_rng(CONFIDENCES.index(confidence))
    for number in range(24):
        boxes, scores, models, labels = ensemble_data(rng, int(rng.integers(1, 300)))
        weights = None if number % 3 == 0 else rng.uniform(0.1, 3, 3)
        threshold, overflow = float(rng.choice([0, 0.1, 0.4, 0.55, 0.8, 1])), bool(number % 2)
        per_model = [[values[models == model] for model in range(3)] for values in (boxes, scores, labels)]
        expected = peer.weighted_boxes_fusion(
            *per_model, weights=weights, iou_thr=threshold, skip_box_thr=0.1, conf_type=confidence,
            allows_overflow=overflow,
        )  # fmt: skip
        fused = weighted_boxes_fusion(
            boxes, scores, labels=labels, models=models, weights=np.ones(3) if weights is None else weights,
            iou_threshold=threshold, score_threshold=0.1, confidence=confidence, allows_overflow=overflow,
        )  # fmt: skip
        ours, theirs = (
            np.column_stack([*fused.boxes.T, fused.scores, fused.labels]),
            np.column_stack([*expected[0].T, expected[1], expected[2]]),
        )
        ours, theirs = (rows[np.lexsort(np.round(rows, 5).T)] for rows in (ours, theirs))
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("confidence", "weights", "expected"),
    [  # by hand: scores 0.9 and 0.6 of models 0 and 1 in one cluster, 0.3 of model 1 alone
        ("avg", [1, 1], [0.75, 0.15]),
        ("avg", [2, 1], [0.8, 0.1]),
        ("max", [1, 1], [0.9, 0.3]),
        ("max", [2, 1], [0.9, 0.15]),
        ("box_and_model_avg", [1, 1], [0.75, 0.15]),
        ("box_and_model_avg", [2, 1], [0.8, 0.1]),
        ("absent_model_aware_avg", [1, 1], [0.75, 0.15]),
        ("absent_model_aware_avg", [2, 1], [0.8, 0.1]),
    ],
)
def test_confidences_by_hand(confidence, weights, expected):
    boxes, scores = np.array([[0, 0, 0.5, 0.5], [0, 0, 0.5, 0.4], [0.6, 0.6, 1, 1]]), np.array([0.9, 0.6, 0.3])
    fused = weighted_boxes_fusion(boxes, scores, models=[0, 1, 1], weights=weights, confidence=confidence)
    np.testing.assert_allclose(fused.scores, expected, rtol=1e-12)
    share = 0.9 * weights[0] / (0.9 * weights[0] + 0.6 * weights[1])
    np.testing.assert_allclose(fused.boxes[0], [0, 0, 0.5, 0.5 * share + 0.4 * (1 - share)], atol=1e-7)


def test_images_give_what_each_gives_alone():
    rng = np.random.default_rng(8)
    boxes, scores, images = crowd(rng, 900), rng.random(900), rng.integers(0, 5, 900)
    fused = weighted_boxes_fusion(boxes, scores, images=images)
    for image in range(5):
        alone = weighted_boxes_fusion(boxes[images == image], scores[images == image])
        assert fused.boxes[fused.images == image].tolist() == alone.boxes.tolist()
        assert fused.scores[fused.images == image].tolist() == alone.scores.tolist()


def test_chains_hand_merged_boxes_on():
    rng = np.random.default_rng(9)
    boxes, scores, labels, images = crowd(rng, 800), rng.random(800), rng.integers(0, 2, 800), rng.integers(0, 3, 800)
    for notation in (
        "top:100+nmm:0.5+limit:10",
        "vote:0.6+nms:0.4+limit:20",
        "wbf:0.5/max+nmm:0.1",
        "hnms+wbf+score:0.3",
    ):
        chain = Suppression.parse(notation)
        result = chain(boxes, scores, labels, images)
        rows, now, final = np.arange(800), boxes, scores
        for step in chain.steps:  # one after another, each on the boxes that the last one kept
            part = Suppression([step])(now, final, labels[rows], images[rows])
            order = np.argsort(part.keep)
            now = (now[part.keep] if part.boxes is None else part.boxes)[order]
            rows, final = rows[part.keep[order]], part.scores[order]
        order = np.lexsort((rows, -final))
        assert result.keep.tolist() == rows[order].tolist()
        assert result.scores.tolist() == final[order].tolist()
        assert result.boxes.tolist() == now[order].tolist()
        keep, same = result
        assert keep is result.keep
        assert same is result.scores
    assert hashnms.Suppression.parse("nms:0.5")(boxes, scores).boxes is None


def test_a_limit_after_merging_gives_the_same_first_boxes():
    rng = np.random.default_rng(10)
    boxes, scores = crowd(rng, 500), rng.random(500)
    for name in ("nmm:0.5", "vote:0.3", "wbf:0.4"):
        everything, some = (Suppression.parse(text)(boxes, scores) for text in (name, f"{name}+limit:7"))
        assert some.keep.tolist() == everything.keep[:7].tolist()
        assert some.boxes.tolist() == everything.boxes[:7].tolist()


def test_steps_are_the_functions():
    rng = np.random.default_rng(11)
    boxes, scores, labels = crowd(rng, 300).astype(np.float32), rng.random(300), rng.integers(0, 2, 300)
    for step, merged in ((Nmm(0.4), nmm), (Vote(0.4), vote)):
        result, expected = Suppression([step])(boxes, scores, labels), merged(boxes, scores, 0.4, labels=labels)
        assert [*map(np.ndarray.tolist, (result.keep, result.boxes))] == [
            expected.keep.tolist(),
            expected.boxes.tolist(),
        ]
    result, fused = Suppression([Wbf()])(boxes, scores, labels), weighted_boxes_fusion(boxes, scores, labels=labels)
    assert result.boxes.tolist() == fused.boxes.tolist()
    assert result.scores.tolist() == fused.scores.tolist()
    assert [fused.clusters[row] for row in result.keep] == list(range(len(fused.boxes)))


@pytest.mark.torch
def test_tensors_give_tensors_also_in_compiled_code():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(12)
    boxes, scores = crowd(rng, 200).astype(np.float32), rng.random(200).astype(np.float32)
    given_tensors = torch.from_numpy(boxes), torch.from_numpy(scores)
    for notation in ("nmm:0.5", "top:50+vote:0.5+limit:9", "wbf:0.55"):
        chain = Suppression.parse(notation)
        expected, result = chain(boxes, scores), chain(*given_tensors)
        for name in ("keep", "scores", "boxes"):
            assert torch.equal(getattr(result, name), torch.from_numpy(getattr(expected, name)))
        assert result == result._replace(boxes=result.boxes.clone())
        assert result not in (expected, result._replace(boxes=result.boxes + 1), result._replace(boxes=None))
    for function in (nmm, vote, weighted_boxes_fusion):
        for ours, theirs in zip(function(*given_tensors), function(boxes, scores), strict=True):
            assert ours is theirs is None or torch.equal(ours, torch.from_numpy(theirs))


@pytest.mark.torch
@pytest.mark.slow
def test_graphs_take_merging_but_not_the_function_of_fusion():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(12)
    tensors = torch.from_numpy(crowd(rng, 200)), torch.from_numpy(rng.random(200))
    chain = Suppression.parse("nmm:0.5+limit:20")
    compiled = torch.compile(nmm, fullgraph=True, backend="eager")
    for ours, theirs in zip(compiled(*tensors), nmm(*tensors), strict=True):
        assert torch.equal(ours, theirs)
    compiled = torch.compile(chain, fullgraph=True, backend="eager")
    assert compiled(*tensors) == chain(*tensors)
    integers = tensors[0].to(torch.int64)
    compiled = torch.compile(nmm, fullgraph=True, backend="eager")
    assert torch.equal(compiled(integers, tensors[1]).boxes, nmm(integers.double(), tensors[1]).boxes)
    with pytest.raises(Exception, match="outside compiled and exported code"):
        torch.compile(weighted_boxes_fusion, fullgraph=True, backend="eager")(*tensors)


def test_nothing_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for notation in ("nmm:0", "vote:0", "wbf:0"):
            Suppression.parse(notation)(np.zeros((5, 4)), np.zeros(5))
            Suppression.parse(notation)(np.zeros((0, 4)), np.zeros(0))


@pytest.mark.parametrize("wrong", ["no", 1, None, [False]])
def test_whether_scores_may_be_above_1_is_a_bool(wrong):
    with pytest.raises(TypeError, match=r"^allows_overflow must be True or False, got "):
        weighted_boxes_fusion([[0, 0, 1, 1]], [0.5], allows_overflow=wrong)
    assert weighted_boxes_fusion([[0, 0, 1, 1]], [0.5], allows_overflow=np.bool_(True)).scores.tolist() == [0.5]
