"""SAHI's handling of overlapping predictions by hashnms, compared with its own."""

import subprocess
import sys
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("sahi")

from sahi import predict
from sahi.models.base import DetectionModel
from sahi.postprocess import backends, combine
from sahi.postprocess._numpy_backend import greedy_nmm_numpy, nmm_numpy, nms_numpy
from sahi.prediction import ObjectPrediction
from sahi.utils.compatibility import fix_full_shape_list, fix_shift_amount_list

from hashnms import _core
from hashnms.detectors import sahi as adapter
from hashnms.detectors.sahi import accelerated, greedy_nmm_hashnms, nmm_hashnms, nms_hashnms
from hashnms.synthetic import make_scene
from tests.support.boxes import boxes_and_scores

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
@pytest.mark.parametrize("count", [0, 1, 2, 700, pytest.param(1500, marks=pytest.mark.slow)])
def test_rows_and_groups_are_those_of_sahi(kind, count, dtype):
    predictions = rows(kind, count, seed=count).astype(dtype)
    for metric in ("IOU", "IOS"):
        for threshold in THRESHOLDS:
            assert nms_hashnms(predictions, metric, threshold) == nms_numpy(predictions, metric, threshold)
            for mine, stock in ((greedy_nmm_hashnms, greedy_nmm_numpy), (nmm_hashnms, nmm_numpy)):
                ours, expected = mine(predictions, metric, threshold), stock(predictions, metric, threshold)
                assert ours == expected
                assert list(ours) == list(expected)


def with_twins(data, categories):
    """Predictions of SAHI: some twice, so that boxes and scores tie, in some categories, and none below 0."""
    boxes, scores = data
    boxes = boxes - boxes.min(initial=0)
    predictions = np.column_stack([boxes, scores, np.arange(len(boxes)) % categories])
    again = predictions[::3]
    again[::2, 5] = categories - 1
    return np.concatenate([predictions, again]).astype(boxes.dtype)


@given(
    boxes_and_scores(),
    st.sampled_from([1e-9, 0.1, 1 / 3, 0.5, 0.7, 1.0, 1.0000000001]),
    st.sampled_from(["IOU", "IOS"]),
    st.integers(1, 3),
)
def test_any_predictions_give_what_sahi_gives(data, threshold, metric, categories):
    predictions = with_twins(data, categories)
    functions = {"nms": nms_numpy, "greedy_nmm": greedy_nmm_numpy, "nmm": nmm_numpy}
    backends.set_postprocess_backend("numpy")
    for name, stock in functions.items():
        expected, batched = stock(predictions, metric, threshold), getattr(combine, f"batched_{name}")
        ours = getattr(adapter, f"{name}_hashnms")(predictions, metric, threshold)
        assert ours == expected
        assert list(ours) == list(expected)
        if len(predictions):
            expected = batched(predictions, metric, threshold)
            with accelerated():
                ours = batched(predictions, metric, threshold)
            assert ours == expected
            assert list(ours) == list(expected)
    backends.set_postprocess_backend("auto")


def test_every_fraction_as_a_threshold_has_the_verdict_of_sahi():
    """The threshold equals an overlap that occurs, which is rounded to float32 in one code path and not in another."""
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


def test_of_equal_scores_only_twins_join():
    box, other = [0, 0, 10, 10], [1, 0, 11, 10]
    predictions = np.array([[*box, 0.5, 0], [*other, 0.5, 0], [*box, 0.5, 0], [*other, 0.25, 0]], np.float32)
    assert nmm_hashnms(predictions) == nmm_numpy(predictions) == {0: [2, 3], 1: []}


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
    name = "JOIN" if function in ("nmm", "batched_nmm") else "nms"
    calls = Mock(wraps=getattr(adapter, name))
    monkeypatch.setattr(adapter, name, calls)
    with accelerated():
        assert call(predictions, "IOS", 0.5) == expected
    assert calls.mock_calls
    calls.reset_mock()
    assert call(predictions, "IOS", 0.5) == expected
    assert not calls.mock_calls


#: Types of coordinates.
NUMBERS: list[Any] = [float, int, np.float64, np.float32]


def objects(predictions, masks=0.0, number: Any = float):
    """Predictions as SAHI has them; a share of them with masks, and all coordinates of one type."""
    rng = np.random.default_rng(6)
    made = []
    for x1, y1, x2, y2, score, label in predictions.tolist():
        left, top, right, bottom = map(number, (x1, y1, x2 + 1, y2 + 1))
        has_mask = rng.random() < masks
        made.append(
            ObjectPrediction(
                bbox=[left, top, right, bottom],
                segmentation=[[left, top, right, top, right, bottom, left, bottom]] if has_mask else None,
                score=score,
                category_id=int(label),
                category_name=f"kind {label}",
                shift_amount=[int(label), 2],
                full_shape=[10**9, 10**9] if has_mask else None,
            )
        )
    return made


def as_values(predictions):
    return [
        (
            prediction.bbox.to_xyxy(),
            prediction.bbox.shift_amount,
            prediction.score.value,
            prediction.category,
            prediction.mask.segmentation if prediction.mask else None,
        )
        for prediction in predictions
    ]


OURS: dict[str, Any] = dict(adapter._CLASSES)


def stock_and_ours(name, predictions, **settings):
    """The results of SAHI's class for a postprocess_type, and of ours."""
    backends.set_postprocess_backend("numpy")
    stock, ours = (classes[name](**settings) for classes in (predict.POSTPROCESS_NAME_TO_CLASS, OURS))
    given_list = list(predictions)
    results = as_values(stock(list(predictions))), as_values(ours(given_list))
    assert all(one is other for one, other in zip(given_list, predictions, strict=True))
    backends.set_postprocess_backend("auto")
    return results


@pytest.mark.parametrize("masks", [0, 0.5, 1])
@pytest.mark.parametrize("agnostic", [False, True])
@pytest.mark.parametrize("name", ["NMS", "GREEDYNMM", "NMM"])
def test_whole_predictions_come_out_as_without_it(name, agnostic, masks):
    for number, metric, threshold in zip(NUMBERS, ["IOS", "IOU"] * 2, [0.5, 0.1] * 2, strict=True):
        predictions = objects(rows("whole", 60 if masks else 300, seed=3), masks, number)
        settings = {"match_threshold": threshold, "match_metric": metric, "class_agnostic": agnostic}
        stock, ours = stock_and_ours(name, predictions, **settings)
        assert ours == stock
        assert len(stock) < len(predictions)


@given(
    boxes_and_scores(max_boxes=20),
    st.sampled_from([-0.5, 0.0, 0.1, 1 / 3, 0.5, 0.7, 1.0, 1.5]),
    st.sampled_from(["IOU", "IOS"]),
    st.sampled_from(["NMS", "GREEDYNMM", "NMM"]),
    st.booleans(),
    st.sampled_from([0.0, 0.3]),
)
def test_any_whole_predictions_come_out_as_without_it(data, threshold, metric, name, agnostic, masks):
    """Some scores differ in double but tie in float32, which SAHI sorts by."""
    predictions = with_twins(data, 3).astype(np.float64)
    predictions[:, 4] += np.arange(len(predictions)) % 2 * 1e-12
    settings = {"match_threshold": threshold, "match_metric": metric, "class_agnostic": agnostic}
    stock, ours = stock_and_ours(name, objects(predictions, masks), **settings)
    assert ours == stock


def test_a_category_comes_from_the_higher_score_where_float32_cannot_tell():
    predictions = objects(np.array([[0, 0, 9, 9, 0.1, 1], [1, 0, 9, 9, 0.1 + 1e-12, 2], [1, 1, 9, 9, 0.1 + 2e-12, 3]]))
    for threshold in (0.5, 0.9):
        stock, ours = stock_and_ours("GREEDYNMM", predictions, match_threshold=threshold, class_agnostic=True)
        assert ours == stock
    assert [value[3].id for value in ours] == [2, 3]


def test_other_metrics_are_refused_as_sahi_refuses_them():
    for kind in (combine.GreedyNMMPostprocess, adapter.GreedyNMMPostprocess):
        with pytest.raises(ValueError, match=r"^$"):
            kind(match_metric="GIOU")(objects(rows("whole", 20)))


class Model(DetectionModel):
    """Finds the same boxes in each slice."""

    def load_model(self):
        pass

    def perform_inference(self, image):
        self._original_predictions = [image]

    def _create_object_prediction_list_from_original_predictions(self, shift_amount_list, full_shape_list):
        full_shape = fix_full_shape_list(full_shape_list)[0]
        self._object_prediction_list_per_image = [
            [
                ObjectPrediction([x, x / 2, x + 30, 60], 0, "a", None, 0.25 + x / 200, shift, full_shape)
                for x in range(0, 60, 3)
            ]
            for shift in fix_shift_amount_list(shift_amount_list)
        ]


@pytest.mark.parametrize("kind", ["NMS", "GREEDYNMM", "NMM"])
def test_sliced_prediction_uses_the_classes_by_the_names_of_sahi(kind, monkeypatch):
    pytest.importorskip("torch")  # of the model
    model = Model(confidence_threshold=0.3, device="cpu")

    def found(**settings):
        image = np.zeros((256, 256, 3), np.uint8)
        result = predict.get_sliced_prediction(
            image, model, slice_height=100, slice_width=100, postprocess_type=kind, verbose=0, **settings
        )
        return as_values(result.object_prediction_list)

    for settings in ({}, {"postprocess_match_metric": "IOU", "postprocess_class_agnostic": True}):
        expected = found(**settings)
        ours = Mock(side_effect=adapter._CLASSES[kind].__call__, autospec=True)
        monkeypatch.setattr(adapter._CLASSES[kind], "__call__", lambda *given, ours=ours: ours(*given))
        with accelerated():
            assert found(**settings) == expected
        assert ours.call_count == 1
        assert found(**settings) == expected
        assert ours.call_count == 1


def test_what_was_there_before_comes_back():
    stock = dict(predict.POSTPROCESS_NAME_TO_CLASS)
    for before in ("auto", "numpy"):
        backends.set_postprocess_backend(before)
        adapter.restore()
        assert backends.get_postprocess_backend() == before
        adapter.accelerate()
        adapter.accelerate()
        with accelerated():
            assert backends.get_postprocess_backend() == "hashnms"
        assert backends.get_postprocess_backend() == "hashnms"
        assert stock | adapter._CLASSES == predict.POSTPROCESS_NAME_TO_CLASS
        adapter.restore()
        assert backends.get_postprocess_backend() == before
        assert stock == predict.POSTPROCESS_NAME_TO_CLASS
    backends.set_postprocess_backend("hashnms")  # by hand
    adapter.restore()
    assert backends.get_postprocess_backend() == "auto"


def test_groups_that_are_none_are_refused_by_the_core():
    boxes, none = np.zeros((3, 4)), np.zeros(0, np.int64)
    good: list[Any] = [boxes, np.array([0]), np.array([1, 2]), np.array([2]), 0.5, "ios"]
    assert _core.grow(*good) is not None
    assert _core.grow(boxes, none, none, none, 0.5, "ios") is not None
    for place, wrong in (
        (0, boxes.astype(np.float32)), (1, np.array([3])), (1, np.array([-1])), (2, np.array([1, 3])),
        (3, np.array([1])), (3, np.array([3])), (3, np.array([-1])), (4, -1.0), (5, "giou"), (2, None),
    ):  # fmt: skip
        some = good.copy()
        some[place] = wrong
        assert _core.grow(*some) is None


@pytest.mark.slow
def test_the_command_line_of_sahi_runs_with_it():
    code = [sys.executable, "-m", "hashnms.detectors.sahi", "version"]
    run = subprocess.run(code, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip().startswith("0.")
