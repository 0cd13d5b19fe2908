"""SAHI's handling of overlapping predictions by hashnms, beside its own."""

import subprocess
import sys
from unittest.mock import Mock

import numpy as np
import pytest

pytest.importorskip("sahi")

from sahi.postprocess import backends, combine
from sahi.postprocess._numpy_backend import greedy_nmm_numpy, nmm_numpy, nms_numpy
from sahi.prediction import ObjectPrediction

from hashnms import nms
from hashnms.detectors import sahi as adapter
from hashnms.detectors.sahi import accelerated, greedy_nmm_hashnms, nmm_hashnms, nms_hashnms
from hashnms.synthetic import make_scene

THRESHOLDS = [-0.5, 0.0, 1e-9, 0.1, 1 / 3, 0.5, np.float32(0.7), np.float64(0.7), 0.9, 1.0, np.nextafter(1.0, 2), 1.5]


def rows(kind, count, seed=0):
    """Predictions: with ties in scores and overlaps on the thresholds, twins, boxes without area."""
    rng = np.random.default_rng(seed)
    if kind == "whole":  # IoU and IoS are fractions of small whole numbers: thresholds are hit
        corners = rng.integers(0, 40, (count, 2))
        boxes = np.concatenate([corners, corners + rng.integers(0, 12, (count, 2))], 1)
        scores = rng.integers(1, 9, count) / 8
    else:
        scene = make_scene("crowd", max(count, 1), seed=seed)
        boxes, scores = scene.boxes[:count], scene.scores[:count]
    return np.column_stack([boxes, scores, rng.integers(0, 4, count)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["whole", "scene"])
@pytest.mark.parametrize("count", [0, 1, 2, 700, pytest.param(2500, marks=pytest.mark.slow)])
def test_rows_and_groups_are_those_of_sahi(kind, count, dtype):
    predictions = rows(kind, count, seed=count).astype(dtype)
    for metric in ("IOU", "IOS"):
        for threshold in THRESHOLDS:
            assert nms_hashnms(predictions, metric, threshold) == nms_numpy(predictions, metric, threshold)
            ours = greedy_nmm_hashnms(predictions, metric, threshold)
            expected = greedy_nmm_numpy(predictions, metric, threshold)
            assert ours == expected
            assert list(ours) == list(expected)


def test_every_fraction_as_a_threshold_has_the_verdict_of_sahi():
    """Where the threshold is an overlap that occurs, rounded to float32 in one place and not in another."""
    predictions = rows("whole", 300, seed=5)
    fractions = sorted({a / b for b in range(1, 60) for a in range(1, b + 1)})[::7]
    for dtype in (np.float32, np.float64):
        typed = predictions.astype(dtype)
        for threshold in fractions:
            for metric in ("IOU", "IOS"):
                assert nms_hashnms(typed, metric, threshold) == nms_numpy(typed, metric, threshold)


def test_whole_numbers_which_sahi_refuses_are_taken_as_float64():
    predictions = rows("whole", 200)
    predictions[:, 4] = np.arange(200) % 7
    expected = greedy_nmm_numpy(predictions, "IOS", 0.5)
    assert greedy_nmm_hashnms(predictions.astype(np.int64), "IOS", 0.5) == expected


def test_nmm_is_that_of_sahi():
    predictions = rows("whole", 300)
    assert nmm_hashnms(predictions, "IOS", 0.5) == nmm_numpy(predictions, "IOS", 0.5)


def test_what_hashnms_refuses_is_an_error_that_names_the_row():
    predictions = rows("scene", 50).astype(np.float32)
    predictions[7, 2] = np.nan
    with pytest.raises(ValueError, match="boxes must"):
        nms_hashnms(predictions)


@pytest.fixture
def numpy_backend():
    backends.set_postprocess_backend("numpy")
    yield
    backends.set_postprocess_backend("auto")


@pytest.mark.usefixtures("numpy_backend")
@pytest.mark.parametrize("function", ["nms", "batched_nms", "greedy_nmm", "batched_greedy_nmm", "nmm", "batched_nmm"])
def test_all_of_sahis_functions_use_it_by_class_and_across_classes(function, monkeypatch):
    predictions = rows("scene", 3000).astype(np.float32)
    call = getattr(combine, function)
    expected = call(predictions, "IOS", 0.5)
    calls = Mock(wraps=nms)
    monkeypatch.setattr(adapter, "nms", calls)
    with accelerated():
        assert call(predictions, "IOS", 0.5) == expected
    assert calls.called == (function not in ("nmm", "batched_nmm"))
    calls.reset_mock()
    assert call(predictions, "IOS", 0.5) == expected
    assert not calls.called


def objects(count, masks):
    made = []
    for x1, y1, x2, y2, score, label in rows("whole", count, seed=3).tolist():
        box = [x1, y1, x2 + 1, y2 + 1]
        corners = [x1, y1, x2 + 1, y1, x2 + 1, y2 + 1, x1, y2 + 1]
        made.append(
            ObjectPrediction(
                bbox=box,
                segmentation=[corners] if masks else None,
                score=score,
                category_id=int(label),
                category_name=str(label),
                full_shape=[64, 64],
            )
        )
    return made


def as_values(predictions):
    return [
        (
            prediction.bbox.to_xyxy(),
            prediction.score.value,
            prediction.category.id,
            prediction.mask.segmentation if prediction.mask else None,
        )
        for prediction in predictions
    ]


@pytest.mark.usefixtures("numpy_backend")
@pytest.mark.parametrize("masks", [False, True])
@pytest.mark.parametrize("agnostic", [False, True])
@pytest.mark.parametrize("kind", [combine.NMSPostprocess, combine.GreedyNMMPostprocess, combine.NMMPostprocess])
def test_whole_predictions_come_out_as_without_it(kind, agnostic, masks):
    postprocess = kind(match_threshold=0.5, match_metric="IOS", class_agnostic=agnostic)
    count = 60 if masks else 300
    expected = as_values(postprocess(objects(count, masks)))
    with accelerated():
        assert as_values(postprocess(objects(count, masks))) == expected
    assert len(expected) < count


def test_the_backend_before_comes_back():
    for before in ("auto", "numpy"):
        backends.set_postprocess_backend(before)
        adapter.restore()
        assert backends.get_postprocess_backend() == before
        adapter.accelerate()
        adapter.accelerate()
        with accelerated():
            assert backends.get_postprocess_backend() == "hashnms"
        assert backends.get_postprocess_backend() == "hashnms"
        adapter.restore()
        assert backends.get_postprocess_backend() == before
    backends.set_postprocess_backend("auto")


@pytest.mark.slow
def test_the_command_line_of_sahi_runs_with_it():
    code = [sys.executable, "-m", "hashnms.detectors.sahi", "version"]
    run = subprocess.run(code, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip().startswith("0.")
