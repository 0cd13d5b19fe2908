"""hnms against the reference, on every kind of data, type, layout and thread count."""

from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hashnms
from hashnms import hnms, reference
from hashnms.synthetic import PRESETS, make_scene
from tests.support.boxes import BOX_KINDS, boxes_and_scores, boxes_around_every_edge, real_images

pytestmark = pytest.mark.core


def tied_scores(rng, count):
    return rng.integers(0, 8, count) / 8


def test_the_papers_example_keeps_A_and_B_where_nms_keeps_A_and_C():
    boxes = np.array([[54.1, 50, 100, 100], [79.1, 50, 100, 100], [96.1, 50, 100, 100]])
    scores = np.array([0.9, 0.8, 0.7])
    assert hnms(boxes, scores, alpha=0.73, box_format="cxcywh").tolist() == [0, 1]
    corners = hashnms.boxes.to_xyxy(boxes, "cxcywh")
    assert reference.nms(corners, scores, 0.5015)[0].tolist() == [0, 2]
    assert hashnms.nms(corners, scores, 0.5015).tolist() == [0, 2]


@pytest.mark.parametrize("kind", BOX_KINDS)
def test_hnms_equals_the_reference(kind):
    """Up to four hashes in a row, by turns in both types; labels, ties, and alphas with and without a table."""
    rng = np.random.default_rng(6)
    boxes, labels = BOX_KINDS[kind](rng, 150), rng.integers(-2, 3, 150)
    for num_hashes, dtype in ((1, np.float32), (2, np.float64), (3, np.float32), (4, np.float64)):
        for alpha, scores, some_labels in (
            (0.7, rng.standard_normal(150), None),
            (0.5, tied_scores(rng, 150), labels),
            (0.995, tied_scores(rng, 150), labels),
        ):
            data = boxes.astype(dtype), scores.astype(dtype)
            parameters = {"alpha": alpha, "num_hashes": num_hashes, "labels": some_labels}
            keep = hnms(*data, **parameters)
            assert keep.dtype == np.int64
            assert np.array_equal(keep, reference.hnms(*data, **parameters))


@pytest.mark.parametrize("kind", BOX_KINDS)
def test_hnms_of_few_boxes_equals_the_reference(kind):
    rng = np.random.default_rng(7)
    for count, dtype in product((3, 16, 17, 23, 24, 25), (np.float32, np.float64)):
        boxes, scores = BOX_KINDS[kind](rng, count).astype(dtype), tied_scores(rng, count).astype(dtype)
        boxes[count // 2 :] = boxes[: count - count // 2]  # cells that boxes share
        for num_hashes in (1, 3):
            assert np.array_equal(
                hnms(boxes, scores, num_hashes=num_hashes), reference.hnms(boxes, scores, num_hashes=num_hashes)
            )


@given(boxes_and_scores(), st.sampled_from([0.25, 0.6, 0.7, 0.95]), st.integers(1, 4), st.booleans())
def test_hnms_equals_the_reference_on_any_boxes(data, alpha, num_hashes, labelled):
    boxes, scores = data
    labels = np.arange(len(boxes)) % 3 if labelled else None
    parameters = {"alpha": alpha, "num_hashes": num_hashes, "labels": labels}
    assert np.array_equal(hnms(boxes, scores, **parameters), reference.hnms(boxes, scores, **parameters))


@given(boxes_and_scores(), st.randoms(use_true_random=False))
def test_permuting_the_input_permutes_the_output(data, random):
    boxes = data[0]
    scores = np.sin(np.arange(len(boxes)))  # no ties: they go by index
    order = list(range(len(boxes)))
    random.shuffle(order)
    permuted = hnms(boxes[order], scores[order], num_hashes=2)
    assert np.array_equal(np.array(order, np.int64)[permuted], hnms(boxes, scores, num_hashes=2))


def test_labels_equal_running_each_label_alone():
    scene = make_scene("shelf", 3000, seed=7)
    keep = hnms(scene.boxes, scene.scores, labels=scene.labels, num_hashes=2)
    alone = []
    for label in np.unique(scene.labels):
        rows = np.flatnonzero(scene.labels == label)
        alone.append(rows[hnms(scene.boxes[rows], scene.scores[rows], num_hashes=2)])
    merged = np.sort(np.concatenate(alone))
    assert np.array_equal(np.sort(keep), merged)
    assert (np.diff(scene.scores[keep]) <= 0).all()


@pytest.mark.parametrize(
    "labels",
    [np.array([0, 2**62, -(2**62), 5]), np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max, 0, 1])],
)
def test_labels_of_any_size_keep_identical_boxes_apart(labels):
    boxes, scores = np.tile([[0.0, 0.0, 10.0, 10.0]], (4, 1)), np.ones(4)
    assert hnms(boxes, scores, labels=labels).tolist() == [0, 1, 2, 3]
    assert hnms(boxes, scores, labels=np.zeros(4, np.int64)).tolist() == [0]


@pytest.mark.parametrize("num_hashes", [1, 2, 3])
def test_keys_too_wide_for_one_word_give_the_reference(num_hashes):
    """A tiny box far out and large labels need more than 63 bits; the answer must not change."""
    rng = np.random.default_rng(8)
    boxes = BOX_KINDS["random"](rng, 120)
    far = np.concatenate([boxes, [[1e9, 1e9, 1e9 + 1e-3, 1e9 + 1e-3]]])
    scores, labels = rng.random(121), rng.integers(0, 2, 121) * 2**40
    keep = hnms(far, scores, labels=labels, num_hashes=num_hashes)
    assert np.array_equal(keep, reference.hnms(far, scores, labels=labels, num_hashes=num_hashes))


@pytest.mark.usefixtures("restored_threads")
def test_many_keys_too_wide_for_one_word_are_partitioned_too():
    """Wide keys with and without parts; two threads partition from 131,072 boxes on."""
    rng = np.random.default_rng(15)
    boxes = np.rint(BOX_KINDS["random"](rng, 140_000) / 4)
    boxes[:, 2:] += 1
    scores, labels = rng.random(140_000), rng.integers(0, 2, 140_000) * 2**60
    far = [[1e9, 1e9, 1e9 + 1e-3, 1e9 + 1e-3]]
    for num_threads in (1, 2):
        hashnms.set_num_threads(num_threads)
        narrow = hnms(boxes, scores, labels=labels // 2**60)
        wide = hnms(np.concatenate([boxes, far]), np.append(scores, -1.0), labels=np.append(labels, 0))
        assert wide.tolist() == [*narrow.tolist(), 140_000]


@pytest.mark.parametrize("num_bits", range(58, 67))
def test_keys_of_63_and_64_bits_do_not_collide(num_bits):
    """Labels that fill the word to its last bit, with boxes that differ in the lowest and in the highest."""
    boxes = np.array([[0, 0, 8, 8], [8, 0, 16, 8], [0, 8, 8, 16], [0, 0, 8, 8], [0, 0, 30, 30]], np.float32)
    layout_bits = 5 + 5 + 3 + 3
    labels = np.array([0, 0, 0, min(2 ** (num_bits - layout_bits), 2**62), 0])
    assert sorted(hnms(boxes, np.ones(5), labels=labels).tolist()) == [0, 1, 2, 3, 4]


def test_a_code_and_label_of_64_ones_are_a_cell():
    """Two equal boxes whose fields are all at their greatest: one bit each for m and n, 62 for the label."""
    boxes = np.array([[0, 0, 1, 1], [0.25, 0.25, 1, 1], [0.25, 0.25, 1, 1]])
    labels = np.array([0, 2**62 - 1, 2**62 - 1])
    for dtype in (np.float32, np.float64):
        keep = hnms(boxes.astype(dtype), [3, 2, 1], alpha=0.6, labels=labels, box_format="cxcywh")
        assert keep.tolist() == [0, 1]


@pytest.mark.parametrize("alpha", [0.5, 0.7, 0.9])
def test_float32_boxes_whose_width_is_rounded_over_an_edge_are_in_the_right_cell(alpha):
    """The exact width lies on the other side of a cell's edge than the float32 one, at either end of the extents."""
    rng = np.random.default_rng(16)
    edges = boxes_around_every_edge(alpha)[:, 2]
    edges = np.repeat(edges[(edges > 1) & (edges < 1000)], 200)
    x1 = (edges * rng.uniform(0.01, 0.3, len(edges))).astype(np.float32)
    x2 = (x1 + edges).astype(np.float32)
    rounded = (x2 - x1).astype(np.float64)
    exact = x2.astype(np.float64) - x1.astype(np.float64)
    zeros = np.zeros_like(exact)
    cells = [hashnms.iou_hash(np.stack([zeros, zeros, w, w], axis=1), alpha=alpha)[:, 0] for w in (rounded, exact)]
    rows = np.flatnonzero(cells[0] != cells[1])
    assert len(rows) > 20
    for row in rng.choice(rows, 20, replace=False):
        box = np.array([x1[row], 0, x2[row], 7], np.float32)
        for other in (box * [1, 1, 1, 3], box + np.array([0, 0, 40, 0], np.float32)):
            pair = np.stack([box, other.astype(np.float32)])
            assert np.array_equal(hnms(pair, [1, 2], alpha=alpha), reference.hnms(pair, np.array([1, 2]), alpha=alpha))
        assert hashnms.iou_hash(box[None], alpha=alpha)[0, 0] == cells[1][row]


@pytest.mark.parametrize("alpha", [0.7, 0.9])
def test_a_key_has_room_for_a_height_that_float32_rounds_into_the_cell_below(alpha):
    """Around the origin m and n are 0. One cell higher and one cell wider are two cells, not one."""
    rng = np.random.default_rng(17)
    edges = boxes_around_every_edge(alpha)[:, 2]
    edges = np.repeat(edges[(edges > 1) & (edges < 1000)], 200)
    y1 = (-edges * rng.uniform(0.49, 0.5, len(edges))).astype(np.float32)
    y2 = (y1 + edges).astype(np.float32)
    exact, rounded = y2.astype(np.float64) - y1, (y2 - y1).astype(np.float64)
    zeros = np.zeros_like(exact)
    cells = [hashnms.iou_hash(np.stack([zeros, zeros, h, h], axis=1), alpha=alpha)[:, 0] for h in (rounded, exact)]
    rows = np.flatnonzero(cells[0] < cells[1])
    assert len(rows) > 5
    for row in rows[:20]:
        height = exact[row] * alpha**0.25
        pair = np.array(
            [[-0.5, y1[row], 0.5, y2[row]], [-0.5 / alpha, -height / 2, 0.5 / alpha, height / 2]], np.float32
        )
        codes = hashnms.iou_hash(pair, alpha=alpha)
        assert (codes[1] - codes[0]).tolist() == [1, -1, 0, 0]
        assert hnms(pair, [1, 2], alpha=alpha).tolist() == [1, 0]


def test_float64_boxes_too_far_out_for_their_cells_to_be_told_apart_are_refused():
    """Eight disjoint boxes of width 1 at 2**52: rounding would merge their cells."""
    x = 2.0**52 + np.arange(8)
    boxes = np.stack([x, 0 * x, x + 1, 0 * x + 1], axis=1)
    with pytest.raises(ValueError, match=r"^boxes must have codes that fit into 64 bits, .* \(8 such rows\)$"):
        hnms(boxes, np.ones(8))
    near = boxes - [2.0**52 - 2.0**40, 0, 2.0**52 - 2.0**40, 0]
    assert len(hnms(near, np.ones(8))) == 8


def test_float64_sizes_outside_the_table_give_the_reference():
    rng = np.random.default_rng(9)
    boxes = BOX_KINDS["random"](rng, 100)
    mixed = np.concatenate([boxes * 1e-60, boxes * 1e60, boxes])
    scores = rng.random(300)
    for num_hashes in (1, 2):
        assert np.array_equal(
            hnms(mixed, scores, num_hashes=num_hashes), reference.hnms(mixed, scores, num_hashes=num_hashes)
        )


@pytest.mark.parametrize("alpha", [1e-300, 1e-9, 0.999, 0.999999999, 1 - 2**-53])
def test_any_alpha_between_0_and_1_works(alpha):
    rng = np.random.default_rng(10)
    boxes, scores = np.rint(BOX_KINDS["random"](rng, 60)).repeat(2, axis=0), rng.random(120)
    keep = hnms(boxes.astype(np.float32), scores, alpha=alpha, num_hashes=2)
    assert np.array_equal(keep, reference.hnms(boxes, scores, alpha=alpha, num_hashes=2))


def test_many_hashes_work():
    scene = make_scene("crowd", 200)
    keep = hnms(scene.boxes, scene.scores, num_hashes=40)
    assert np.array_equal(keep, reference.hnms(scene.boxes, scene.scores, num_hashes=40))


def test_boxes_without_area_are_all_kept():
    boxes = np.tile([[5.0, 5.0, 5.0, 9.0], [5.0, 5.0, 9.0, 5.0], [5.0, 5.0, 5.0, 5.0]], (4, 1))
    assert hnms(boxes, np.ones(12)).tolist() == list(range(12))
    assert hnms(boxes.astype(np.float32), np.ones(12), labels=np.zeros(12, int)).tolist() == list(range(12))


@pytest.mark.parametrize("scale", [1.0, -1.0, 1e-30, 1e30])
def test_ties_go_to_the_lower_index_in_a_cell_and_in_the_order(scale):
    boxes = np.repeat([[0.0, 0.0, 10.0, 10.0], [50.0, 0.0, 60.0, 10.0]], 300, axis=0)
    scores = np.full(600, scale)
    assert hnms(boxes, scores).tolist() == [0, 300]
    apart = np.arange(600)[:, None] * [100, 0, 100, 0] + [0, 0, 10, 10]
    assert hnms(apart, scores).tolist() == list(range(600))


def test_negative_and_positive_zero_scores_tie():
    boxes = np.array([[0.0, 0, 10, 10], [0, 0, 10, 10], [50, 0, 60, 10]])
    assert hnms(boxes, np.array([-0.0, 0.0, 0.0])).tolist() == [0, 2]


def test_the_order_is_that_of_a_stable_sort_for_any_number_and_range_of_scores():
    rng = np.random.default_rng(11)
    for count in (2, 255, 256, 1000, 5000, 140_000):
        boxes = np.arange(count)[:, None] * np.array([100.0, 0, 100, 0]) + [0, 0, 10, 10]
        for scores in (
            rng.random(count),
            rng.random(count).astype(np.float32),
            rng.integers(0, 3, count).astype(np.float32),
            0.5 + 1e-12 * rng.random(count),
            np.full(count, 7.0),
            rng.standard_normal(count) * 10.0 ** rng.integers(-300, 300, count),
        ):
            assert np.array_equal(hnms(boxes, scores), np.argsort(-scores, kind="stable"))


def test_box_formats_agree():
    boxes = BOX_KINDS["integers"](np.random.default_rng(12), 500)
    scores = np.random.default_rng(12).random(500)
    x1, y1, x2, y2 = boxes.T
    expected = hnms(boxes, scores, num_hashes=2)
    xywh = np.stack([x1, y1, x2 - x1, y2 - y1], axis=1)
    cxcywh = np.stack([(x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1], axis=1)
    for dtype in (np.float32, np.float64):
        assert np.array_equal(hnms(xywh.astype(dtype), scores, num_hashes=2, box_format="xywh"), expected)
        assert np.array_equal(hnms(cxcywh.astype(dtype), scores, num_hashes=2, box_format="cxcywh"), expected)


def test_a_key_has_room_for_centres_beyond_every_corner_that_is_given():
    """Of xywh the left corners reach from 0 to 1/4, one cell further, the centres from 1/2 to 3/4."""
    boxes = np.array([[0, 0, 1, 1], [0.25, 0, 1, 1], [0, 0.25, 1, 1], [0.25, 0.25, 1, 1]])
    for dtype in (np.float32, np.float64):
        assert hnms(boxes.astype(dtype), [4, 3, 2, 1], alpha=0.6, box_format="xywh").tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("dtype", ["f2", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">f4", ">f8", "bfloat16"])
def test_other_types_are_computed_as_float32(dtype):
    dtype = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    boxes = np.rint(BOX_KINDS["random"](np.random.default_rng(13), 200) * 0.8).astype(dtype)
    scores = np.arange(200, 0, -1).astype(np.uint8)
    expected = hnms(boxes.astype(np.float32), scores.astype(np.float32))
    assert np.array_equal(hnms(boxes, scores), expected)


def test_integers_beyond_float32_are_computed_as_float64():
    boxes = np.array([[2**24 + 1, 0, 2**24 + 3, 2], [2**24, 0, 2**24 + 2, 2]])
    assert np.array_equal(hnms(boxes, [1, 2]), hnms(boxes.astype(np.float64), [1, 2]))
    scores = np.array([2**24, 2**24 + 1])
    assert hnms(boxes * [0, 0, 1, 1], scores).tolist() == [1]
    with pytest.raises(ValueError, match=r"^scores must be integers that float64 holds exactly, at most 2\*\*53, got"):
        hnms(boxes, np.array([2**60, 2**60 + 1]))


def test_any_memory_layout_gives_the_same():
    scene = make_scene("aerial", 2000)
    boxes, scores, labels = scene.boxes, scene.scores, scene.labels
    expected = hnms(boxes, scores, labels=labels)
    wide = np.zeros((4000, 9), np.float32)
    wide[::2, 1:9:2] = boxes
    strided = wide[::2, 1:9:2]
    read_only = boxes.copy()
    read_only.flags.writeable = False
    unaligned = np.frombuffer(b"x" + boxes.tobytes(), np.uint8)[1:].view(np.float32).reshape(-1, 4)
    assert not unaligned.flags.aligned
    for other in (np.asfortranarray(boxes), strided, read_only, unaligned, boxes.tolist(), boxes[::-1][::-1]):
        assert np.array_equal(hnms(other, scores, labels=labels), expected)
    columns = np.zeros((2000, 3), np.float32)
    columns[:, 1] = scores
    assert np.array_equal(hnms(boxes, columns[:, 1], labels=np.stack([labels, labels], axis=1)[:, 0]), expected)
    assert np.array_equal(hnms(boxes, scores.tolist(), labels=labels.tolist()), expected)
    assert np.array_equal(hnms(boxes, scores.astype(np.float64), labels=labels.astype(np.int8)), expected)


def test_the_input_is_not_changed():
    scene = make_scene("crowd", 500)
    before = scene.boxes.copy(), scene.scores.copy(), scene.labels.copy()
    hnms(scene.boxes, scene.scores, labels=scene.labels, num_hashes=3)
    for array, copy in zip((scene.boxes, scene.scores, scene.labels), before, strict=True):
        assert np.array_equal(array, copy)


@pytest.mark.parametrize("num_hashes", [1, 4])
def test_none_one_and_two_boxes(num_hashes):
    kinds: list[Any] = [np.zeros((0, 4), np.float32), np.zeros((0, 4)), [], np.zeros((0, 4), np.int64)]
    for empty in kinds:
        keep = hnms(empty, [], num_hashes=num_hashes, labels=[])
        assert keep.dtype == np.int64
        assert keep.shape == (0,)
    box = [1.0, 1.0, 5.0, 5.0]
    assert hnms([box], [0.5], num_hashes=num_hashes).tolist() == [0]
    assert hnms([box, box], [0.5, 0.6], num_hashes=num_hashes).tolist() == [1]


@pytest.mark.usefixtures("restored_threads")
@pytest.mark.parametrize("preset", PRESETS)
def test_the_answer_does_not_depend_on_the_number_of_threads(preset):
    scene = make_scene(preset, 450_000, num_objects=4000)
    hashnms.set_num_threads(1)
    expected = hnms(scene.boxes, scene.scores, labels=scene.labels, num_hashes=2)
    for count in (2, 3, 8):
        hashnms.set_num_threads(count)
        assert np.array_equal(hnms(scene.boxes, scene.scores, labels=scene.labels, num_hashes=2), expected)


@pytest.mark.slow
@pytest.mark.usefixtures("restored_threads")
@pytest.mark.parametrize("num_threads", [1, 2])
def test_a_million_boxes_keep_the_best_of_each_code(num_threads):
    """Large inputs are partitioned first; compare with sorting the codes."""
    hashnms.set_num_threads(num_threads)
    scene = make_scene("aerial", 1_200_000, seed=14)
    codes = hashnms.iou_hash(scene.boxes, alpha=0.7)
    order = np.lexsort((-scene.scores, scene.labels, *codes.T))  # by code and label, then best first, then by index
    cells = np.column_stack([codes, scene.labels])[order]
    first = np.concatenate([[True], (cells[1:] != cells[:-1]).any(axis=1)])
    without_area = ((scene.boxes[:, 2:] - scene.boxes[:, :2]) == 0).any(axis=1)
    expected = np.union1d(order[first], np.flatnonzero(without_area))
    keep = hnms(scene.boxes, scene.scores, labels=scene.labels)
    assert np.array_equal(np.sort(keep), expected)
    assert np.array_equal(keep, np.sort(keep)[np.argsort(-scene.scores[np.sort(keep)], kind="stable")])


def test_more_hashes_keep_fewer_boxes_and_only_boxes_kept_before():
    scene = make_scene("parking_lot", 20_000)
    first = hnms(scene.boxes, scene.scores)
    kept = [len(first)]
    for num_hashes in (2, 3, 4):
        keep = hnms(scene.boxes, scene.scores, num_hashes=num_hashes)
        assert np.isin(keep, first).all()
        kept.append(len(keep))
    assert kept == sorted(kept, reverse=True)


@pytest.mark.parametrize("file", real_images(max_images=1))
def test_hnms_equals_the_reference_on_real_detections(file):
    with np.load(file) as image:
        boxes, scores, labels = image["boxes"][:800], image["scores"][:800], image["labels"][:800]
    for num_hashes in (1, 2):
        parameters = {"alpha": 0.73, "num_hashes": num_hashes, "labels": labels}
        assert np.array_equal(hnms(boxes, scores, **parameters), reference.hnms(boxes, scores, **parameters))
