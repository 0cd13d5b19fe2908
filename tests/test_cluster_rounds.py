"""Rounds of a scene on a cluster, without Ray: the same answer as `nms` of all, and how many rows each call gets."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("ray", reason="ray is not installed")

from hashnms import Suppression, tables
from hashnms.cluster import RowError, rounds, rows, scenes, survey
from hashnms.cluster.survey import Scene
from hashnms.synthetic import WORST_CASES, make_scene
from tests.support.blocks import instead_of_ray
from tests.support.boxes import BOX_KINDS

SEEN = {"_seen", "_sizes"}  # what the caller reads of these is a sample, and the sizes of tiles


def table_of(boxes, scores, labels=None, names=("x1", "y1", "x2", "y2")):
    columns = dict(zip(names, np.asarray(boxes).T, strict=True))
    label = {} if labels is None else {"label": labels}
    return pa.table({**columns, "score": scores, **label, "row": np.arange(len(scores))})


def run(table, notation, *, block=700, **sizes):
    """The rows that are kept, in order, and the calls."""
    with pytest.MonkeyPatch.context() as patched:
        dataset = instead_of_ray(patched, rounds, rows)(table, block)
        known = Scene(tables.Columns.find(table.column_names, image=None), "row", **sizes)
        kept = scenes.by_steps(dataset, Suppression.parse(notation), known)
        found = [number for part in kept.tables for number in part.column("row").to_pylist()]
    return sorted(found), dataset.calls


def check(boxes, scores, notation, labels=None, *, tile_boxes, gather, block=700):
    """Check the answer, and that no call gets and no copying makes more rows than the limits say."""
    kept, calls = run(table_of(boxes, scores, labels), notation, block=block, tile_boxes=tile_boxes, gather=gather)
    assert kept == sorted(Suppression.parse(notation)(boxes, scores, labels).keep.tolist())
    assert max(calls.got["_decided"], default=0) <= 2 * tile_boxes
    assert max(calls.got["_below"], default=0) <= tile_boxes
    for name, counts in calls.gathered.items():
        assert name in SEEN or max(counts) <= gather
    rounds_by_place = len(calls.gathered["_sizes"])
    assert sum(calls.got["_decided"]) <= 2.25 * len(boxes) * rounds_by_place
    return calls


def among_small(giants, count=20_000, extent=4000.0):
    """Small boxes all over a scene, the first of them replaced by these."""
    rng = np.random.default_rng(11)
    corner, size = rng.random((count, 2)) * extent, rng.uniform(10, 40, (count, 2))
    boxes = np.concatenate([corner, corner + size], axis=1).astype(np.float32)
    if len(giants):
        boxes[: len(giants)] = giants
    return rng.permutation(boxes), rng.random(count).astype(np.float32)


def giants(count, extent=4000.0):
    """Boxes about as large as the scene."""
    rng = np.random.default_rng(12)
    return np.array([0, 0, extent, extent]) + rng.uniform(-200, 200, (count, 4))


def nested(count, extent=4000.0):
    """Boxes around one centre, each a little larger than the one before."""
    half = np.linspace(1, extent / 2, count)
    return np.stack([-half, -half, half, half], axis=1) + extent / 2


@pytest.mark.parametrize("metric", ["iou", "ios", "diou"])
@pytest.mark.parametrize("large", [giants(5), giants(1000), giants(10_000), nested(1000), nested(20_000)])
def test_large_boxes_over_many_tiles_do_not_multiply(large, metric):
    boxes, scores = among_small(large)
    check(boxes, scores, f"nms:0.5/{metric}", tile_boxes=500, gather=1000)


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["iou", "ios"])
def test_a_few_boxes_as_large_as_the_scene_cost_a_copy_for_each_tile(metric):
    boxes, scores = among_small(giants(5), 100_000, 10_000.0)
    calls = check(boxes, scores, f"nms:0.5/{metric}", tile_boxes=1000, gather=4000, block=10_000)
    assert not calls.got["_below"]  # tiles decide all
    assert sum(calls.got["_decided"]) < 1.2 * len(boxes)


def test_large_boxes_in_one_block_are_copied_some_at_a_time():
    boxes, scores = among_small(giants(300), 20_000)
    order = np.argsort(-(boxes[:, 2] - boxes[:, 0]), kind="stable")
    calls = check(boxes[order], scores, "nms:0.5", tile_boxes=1000, gather=500, block=5000)
    assert max(calls.returned["_in_tiles"]) <= 2 * 1000
    assert sum(calls.returned["_in_tiles"]) > 5000


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(20, 500),
    st.integers(1, 500),
    st.sampled_from(["nms:0", "nms:0.2", "nms:0.5/ios", "nms:0.5/diou", "nms:0.7/iou/inclusive", "nms:0.3/ios"]),
    st.sampled_from([np.float32, np.float64]),
)
def test_any_boxes_and_any_limits(seed, tile_boxes, gather, notation, dtype):
    rng = np.random.default_rng(seed)
    boxes = BOX_KINDS[rng.choice(list(BOX_KINDS))](rng, 900).astype(dtype)
    boxes[:, [0, 2]] *= rng.choice([1, 10, 100])
    large = rng.integers(0, 900, rng.choice([0, 3, 100]))
    boxes[large, :2], boxes[large, 2:] = boxes[large, :2] - 1e3, boxes[large, 2:] + 1e3
    scores = rng.integers(0, 60, 900).astype(rng.choice([np.float32, np.float64, np.int64]))
    labels = rng.integers(-1, 2, 900) if rng.random() < 0.5 else None
    small = np.prod((boxes[:, 2:] - boxes[:, :2]).astype(float), axis=1)
    if (small[small > 0] < 1e-30).any():
        return
    # Rounds by rank read all boxes for each part, so very small limits take long.
    check(boxes, scores, notation, labels, tile_boxes=tile_boxes, gather=max(gather, 30), block=int(tile_boxes))


@pytest.mark.parametrize("case", WORST_CASES)
def test_worst_cases(case):
    boxes, rng = WORST_CASES[case](2000).astype(np.float32), np.random.default_rng(74)
    for scores in (rng.random(2000), np.arange(2000.0), np.zeros(2000)):
        check(boxes, scores, "nms:0.5", tile_boxes=200, gather=150)


def test_an_ordinary_scene_needs_only_tiles():
    scene = make_scene("aerial", 20_000)
    calls = check(scene.boxes, scene.scores, "nms:0.5", scene.labels, tile_boxes=300, gather=50)
    assert len(calls.gathered["_sizes"]) > 1
    assert not calls.got["_below"]


def test_a_tile_with_too_many_boxes_is_left_out_and_the_others_are_decided():
    """Points are in one tile, whatever its borders are."""
    boxes, scores = among_small(np.tile([2000.0, 2000, 2000, 2000], (3000, 1)))
    calls = check(boxes, scores, "nms:0.5", tile_boxes=1000, gather=4000)
    assert sum(calls.returned["_waiting"]) >= 3000
    assert not calls.got["_below"]


def test_boxes_at_one_place_with_equal_scores_are_decided_by_rank():
    boxes = np.tile(np.float32([0, 0, 10, 10]), (3000, 1))
    calls = check(boxes, np.zeros(3000), "nms:0.5", tile_boxes=100, gather=50)
    assert calls.returned["_below"]
    check(boxes, np.zeros(3000), "nms:1", tile_boxes=500, gather=500)  # all are kept


def test_a_staircase_across_all_tiles_is_decided():
    place = 3.0 * np.arange(600, dtype=np.float32)
    boxes = np.stack([place, place / 2, place + 16, place / 2 + 16], axis=1)
    scores = -np.arange(600, dtype=np.float32)
    assert check(boxes, scores, "nms:0.5", tile_boxes=60, gather=40).got["_below"]
    assert not check(boxes, scores, "nms:0.5", tile_boxes=300, gather=40).got["_below"]  # a tile can have all


# What is seen of a scene first.


def test_each_box_has_the_same_chance_to_be_in_the_sample(monkeypatch):
    """Whether its block is large or small."""
    table = table_of(np.tile([0.0, 0, 1, 1], (50_000, 1)), np.zeros(50_000))
    make = instead_of_ray(monkeypatch, rounds, rows)
    known = Scene(tables.Columns.find(table.column_names, image=None), "row")
    one, many = table.slice(0, 40_000), table.slice(40_000)
    found = survey.survey(make(one, 40_000).union(make(many, 100)), known)
    of_one = int((found.sample.column("row").to_numpy() < 40_000).sum())
    assert found.count == 50_000
    assert of_one == 1000
    assert 150 < len(found.sample) - of_one < 350
    monkeypatch.setattr(survey, "_MOST_IN_SAMPLE", 300)
    assert len(survey.survey(make(table, 100), known).sample) == 300


def test_numbers_of_rows_that_are_not_distinct_are_an_error():
    boxes, scores = among_small([], 600)
    table = table_of(boxes, scores)
    again = table.set_column(5, "row", pa.array(np.arange(600) // 2))
    with pytest.raises(RowError, match="row 0: column row must have distinct numbers, got 0 twice"):
        run(again, "nms:0.5", tile_boxes=300, gather=100)
    far = table.set_column(5, "row", pa.array(np.zeros(600, int)))  # the same in each block
    with pytest.raises(ValueError, match="distinct numbers"):
        run(far, "nms:0.5", block=1, tile_boxes=50, gather=10)


# Sizes that are not ordinary.


@pytest.mark.parametrize("place", [0, 321, 899])
def test_a_box_of_unusual_size_is_an_error_with_its_row(place):
    boxes, scores = among_small([], 900)
    boxes[place] = [0, 0, 1e-20, 1e-20]
    with pytest.raises(RowError, match=rf"row {place}: boxes of a scene in parts must have ordinary sizes \(float32"):
        run(table_of(boxes, scores), "nms:0.5", block=100, tile_boxes=100, gather=10)


def test_an_ordinary_area_is_no_error_whatever_the_sides():
    """The smallest width and the smallest height of a block may be of two boxes."""
    boxes, scores = among_small([[0, 0, 1e-18, 1e18], [0, 0, 1e18, 1e-18]], 3000)
    check(boxes, scores, "nms:0.5", tile_boxes=300, gather=100)


@pytest.mark.parametrize("notation", ["nms:0.5/ios", "nms:0", "nms:0.0005"])
def test_any_sizes_where_regions_are_whole_boxes(notation):
    boxes, scores = among_small([[0, 0, 1e-20, 1e-20], [5, 5, 5 + 1e-6, 4000]], 3000)
    check(boxes, scores, notation, tile_boxes=300, gather=100)


# The other steps.


def test_scores_and_cells_of_boxes_with_sizes():
    """As xywh, where x2 >= x1 need not hold for the columns."""
    boxes, scores = among_small([], 3000)
    boxes[:, 2:] -= boxes[:, :2]
    table = table_of(boxes, scores, names=("x", "y", "w", "h"))
    for notation in ("score:0.3", "score:0.3+nms:0.5", "hnms:0.7/2+nms:0.5"):
        kept, _ = run(table, notation, tile_boxes=300, gather=100)
        assert kept == sorted(Suppression.parse(notation)(boxes, scores, box_format="xywh").keep.tolist())


def test_boxes_without_area_are_not_all_in_one_group():
    boxes = np.zeros((4000, 4), np.float32)
    kept, calls = run(table_of(boxes, np.zeros(4000)), "hnms:0.7/2", tile_boxes=500, gather=100)
    assert kept == list(range(4000))
    assert max(calls.got["_merged"]) < 500
