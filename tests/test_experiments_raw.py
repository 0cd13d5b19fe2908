"""Raw boxes on disk: what is written is read back, and an error names what is wrong."""

import numpy as np
import pytest

from experiments.datasets import DatasetError
from experiments.raw import Raw, RawFolder, SecondStage, Truth, load, save


def some(rng, count=20, with_all=True):
    boxes = np.sort(rng.uniform(0, 100, (count, 2, 2)), axis=1).reshape(count, 4).astype(np.float32)
    raw = Raw(boxes, rng.random(count).astype(np.float32), np.zeros(count, np.int64), rng.integers(0, 3, count))
    if not with_all:
        return raw
    truth = Truth(boxes[:2], np.array([1, 2]), np.array([False, True]))
    second = SecondStage(np.array([3, 3]), np.array([1, 2]), np.float32([0.5, 0.25]), boxes[:2], np.arange(count) < 9)
    return Raw(raw.boxes, raw.scores, raw.labels, raw.level, truth, second, 12.5, 3.25)


def assert_same(first, second):
    for name in ("boxes", "scores", "labels", "level"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    assert (first.network_ms, first.second_ms) == (second.network_ms, second.second_ms)
    for name in ("truth", "second"):
        ours, theirs = getattr(first, name), getattr(second, name)
        assert (ours is None) == (theirs is None)
        for one, other in zip(ours or (), theirs or (), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("with_all", [True, False])
def test_what_is_written_is_read(with_all, tmp_path):
    raw = some(np.random.default_rng(0), with_all=with_all)
    save(raw, tmp_path / "one.npz")
    assert_same(load(tmp_path / "one.npz"), raw)
    assert [file.name for file in tmp_path.iterdir()] == ["one.npz"]


def test_anybodys_detections_need_boxes_scores_and_labels_only(tmp_path):
    arrays = {"boxes": np.zeros((3, 4)), "scores": np.ones(3), "labels": np.ones(3, np.int32)}
    np.savez(tmp_path / "one.npz", **arrays, image_size=np.array([640, 360]))
    raw = load(tmp_path / "one.npz")
    assert raw.truth is raw.second is None
    assert raw.level.tolist() == [0, 0, 0]
    assert (raw.boxes.dtype, raw.labels.dtype) == (np.float32, np.int64)
    np.savez(tmp_path / "one.npz", **arrays, gt_boxes=np.zeros((2, 4)), gt_labels=[-1, 1])
    truth = load(tmp_path / "one.npz").truth
    assert (truth.labels.tolist(), truth.ignore.tolist()) == ([1], [False])
    ignored = {"gt_boxes": np.zeros((2, 4)), "gt_labels": [-1, 1], "gt_ignore": [True, False]}
    np.savez(tmp_path / "one.npz", **arrays, **ignored)
    assert load(tmp_path / "one.npz").truth.ignore.tolist() == [True, False]


def test_the_best_of_each_level_are_chosen_ties_to_the_lower_row():
    scores = np.float32([0.1, 0.5, 0.5, 0.9, 0.5, 0.2])
    raw = Raw(np.zeros((6, 4), np.float32), scores, np.zeros(6, np.int64), np.array([0, 1, 1, 1, 1, 0]))
    assert raw.best(2).tolist() == [0, 1, 3, 5]
    assert raw.best(1).tolist() == [3, 5]
    assert raw.best(9).tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"boxes": None}, "one.npz must have an array 'boxes', got scores, labels"),
        ({"boxes": np.zeros((3, 5))}, r"boxes must be numbers of shape \(N, 4\), got float64 of \(3, 5\)"),
        ({"scores": np.zeros(2)}, r"scores must be numbers of shape \(3,\), got float64 of \(2,\)"),
        ({"labels": np.array(["a", "b", "c"])}, r"labels must be numbers of shape \(3,\), got <U1"),
        ({"level": np.zeros((3, 1))}, r"level must be numbers of shape \(3,\)"),
        ({"gt_boxes": np.zeros((1, 4))}, "must have an array 'gt_labels'"),
        ({"second_rows": np.array([3])}, r"second_rows must be in 0 .. 2, got 3 .. 3"),
    ],
)
def test_an_array_that_is_not_as_it_must_be_is_named(change, message, tmp_path):
    arrays = {"boxes": np.zeros((3, 4)), "scores": np.ones(3), "labels": np.ones(3, np.int32)} | change
    np.savez(tmp_path / "one.npz", **{name: value for name, value in arrays.items() if value is not None})
    with pytest.raises(DatasetError, match=message):
        load(tmp_path / "one.npz")


def test_pickles_and_broken_files_are_refused(tmp_path):
    np.savez(tmp_path / "one.npz", boxes=np.array([{"a": 1}], dtype=object))
    with pytest.raises(DatasetError, match=r"one\.npz must be an NPZ file of arrays, got"):
        load(tmp_path / "one.npz")
    (tmp_path / "one.npz").write_bytes(b"PK\x03\x04 and then nothing")
    with pytest.raises(DatasetError, match=r"one\.npz must be an NPZ file of arrays, got"):
        load(tmp_path / "one.npz")


def test_a_folder_needs_files(tmp_path):
    with pytest.raises(DatasetError, match=r"must hold raw detections, <image>\.npz, got no such file"):
        RawFolder(tmp_path)
    with pytest.raises(DatasetError, match="which is not a folder"):
        RawFolder(tmp_path / "absent")
    save(some(np.random.default_rng(0)), tmp_path / "b.npz")
    save(some(np.random.default_rng(1), 5, with_all=False), tmp_path / "a.npz")
    assert [len(raw.boxes) for raw in RawFolder(tmp_path)] == [5, 20]
    (tmp_path / "about.json").write_text("{")
    with pytest.raises(DatasetError, match=r"about\.json must be JSON"):
        RawFolder(tmp_path)
