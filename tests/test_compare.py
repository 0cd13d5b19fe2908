"""Methods side by side: what is measured, sweeps, and the ways to show them."""

import csv
import io
import json
import math
from decimal import Decimal
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from hashnms import Suppression
from hashnms import compare as module
from hashnms.compare import (
    Compared,
    Detections,
    Truth,
    as_csv,
    as_dicts,
    as_json,
    as_markdown,
    as_table,
    compare,
    sweep,
)
from hashnms.evaluate import Agreement, AveragePrecision, average_precision
from hashnms.sweeps import parameters_of
from hashnms.synthetic import make_scene

needs_coco = pytest.mark.skipif(find_spec("faster_coco_eval") is None, reason="faster-coco-eval is not installed")

# Two images with the same three boxes: 0 and 1 overlap by 9/11.
BOXES = np.array([[0, 0, 10, 10], [1, 0, 11, 10], [20, 0, 30, 10]] * 2, np.float32)
SCORES = np.array([0.75, 0.875, 0.5, 0.7, 0.6, 0.4], np.float32)
FOUND = Detections(BOXES, SCORES, images=[0, 0, 0, 1, 1, 1])


def notations(methods):
    return [str(method) for method in methods]


def test_rows_by_hand():
    rows = compare(FOUND, ["nms:0.5", "nms:0.9", "top:1+nms:0.5", "limit:2"], rounds=2)
    assert [row.method for row in rows] == ["nms:0.5", "nms:0.9", "top:1+nms:0.5", "limit:2"]
    assert [row.kept for row in rows] == [4, 6, 2, 4]
    assert [row.boxes_in for row in rows] == [6, 6, 2, 6]  # of limit alone: all
    assert rows[0].agreement == Agreement(precision=1.0, recall=1.0)
    assert rows[1].agreement == Agreement(precision=4 / 6, recall=1.0)
    assert rows[2].agreement == Agreement(precision=1.0, recall=0.5)
    assert rows[0].speed_up == 1.0
    assert all(row.seconds > 0 and row.spread >= 0 and row.quality is None for row in rows)
    assert all(row.speed_up == rows[0].seconds / row.seconds for row in rows)
    assert rows[2].parameters == {"iou": 0.5, "top": 1}


def test_boxes_in_is_what_the_last_suppressing_step_gets():
    (row,) = compare(FOUND, ["hnms:0.5/1+nms:0.5+limit:1"])
    assert row.boxes_in == len(Suppression.parse("hnms:0.5/1")(BOXES, SCORES, images=FOUND.images).keep)
    assert row.kept == 2  # one of each image


class Clock:
    """Each method takes the time that is said for it, whatever it really takes."""

    def __init__(self, seconds):
        self.now, self.seconds, self.calls = 0.0, seconds, []

    def perf_counter(self):
        return self.now

    def suppressed(self, chain, detections):
        self.calls.append(str(chain))
        of_method = self.seconds[str(chain)]
        self.now += of_method[min(self.calls.count(str(chain)), len(of_method)) - 1]
        return chain(detections.boxes, detections.scores, detections.labels, detections.images)


def measured(monkeypatch, seconds, **options):
    clock = Clock(seconds)
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(module, "_suppressed", clock.suppressed)
    return clock, compare(FOUND, list(seconds), **options)


def test_methods_are_timed_in_turn_and_the_median_counts(monkeypatch):
    clock, rows = measured(monkeypatch, {"nms:0.5": [0.5, 0.1, 0.2, 0.3, 0.4], "nms:0.7": [0.1]})
    assert clock.calls == ["nms:0.5", "nms:0.7"] * 5
    assert rows[0].seconds == pytest.approx(0.3)
    assert rows[0].spread == pytest.approx(0.1)  # quartiles 0.2 and 0.4
    assert (rows[1].seconds, rows[1].spread) == (pytest.approx(0.1), pytest.approx(0.0))
    assert rows[1].speed_up == pytest.approx(3.0)


def test_slow_methods_have_fewer_rounds(monkeypatch):
    steps = []
    seconds = {"nms:0.5": [0.9], "nms:0.6": [1.1], "nms:0.7": [5.1]}
    clock, _ = measured(monkeypatch, seconds, rounds=4, progress=lambda *step: steps.append(step))
    assert [clock.calls.count(method) for method in seconds] == [4, 3, 2]
    assert steps == [(k, 12) for k in range(1, 13)]
    clock, _ = measured(monkeypatch, seconds, rounds=1)
    assert len(clock.calls) == 3


@needs_coco
def test_quality_is_that_of_what_is_kept():
    """With the scores of Soft-NMS, the boxes of merging, and of all images as of one after the other."""
    scenes = [make_scene("crowd", 600, seed=seed) for seed in range(3)]
    found = Detections.of_images([(scene.boxes, scene.scores, scene.labels) for scene in scenes])
    truth = Truth.of_images([(scene.gt_boxes, scene.gt_labels) for scene in scenes])
    steps = []
    methods = ["nms:0.5+limit:100", "hnms:0.7/1", "softnms:gaussian/0.5", "vote:0.5", "wbf:0.5/max+limit:90"]
    rows = compare(found, methods, truth=truth, max_detections=50, rounds=1, progress=lambda *step: steps.append(step))
    for row in rows:
        kept = []
        for scene in scenes:
            result = Suppression.parse(row.method)(scene.boxes, scene.scores, scene.labels)
            boxes = scene.boxes[result.keep] if result.boxes is None else result.boxes
            kept.append((boxes, result.scores, scene.labels[result.keep]))
        assert row.kept == sum(len(scores) for _, scores, _ in kept)
        truths = [(scene.gt_boxes, scene.gt_labels) for scene in scenes]
        alone = average_precision(kept, truths, max_detections=50)
        assert row.quality.map == pytest.approx(alone.map, abs=1e-9)
        assert row.quality.recall_50 == pytest.approx(alone.recall_50, abs=1e-9)
    assert steps == [(k, 10) for k in range(1, 11)]


def test_no_boxes_are_no_error():
    rows = compare(Detections(np.zeros((0, 4)), []), ["nms:0.5", "top:5+hnms:0.7/1"], rounds=1)
    assert [(row.boxes_in, row.kept, row.agreement.recall) for row in rows] == [(0, 0, 1.0)] * 2


def test_wrong_arguments_of_compare_are_refused():
    truth = Truth(BOXES, [1] * 6, FOUND.images)
    cases: list[tuple[type[Exception], str, tuple[Any, ...], dict[str, Any]]] = [
        (ValueError, "suppressions must be a list of one or more .* got none", ([],), {}),
        (TypeError, "suppressions must be a list of one or more .* got 'nms:0.5'", ("nms:0.5",), {}),
        (TypeError, "a suppression must be a Suppression or its notation", ([3],), {}),
        (ValueError, "a step must be one of", (["nope:3"],), {}),
        (ValueError, "rounds must be at least 1, got 0", (["nms:0.5"],), {"rounds": 0}),
        (ValueError, "max_detections must be at least 1", (["nms:0.5"],), {"max_detections": 0}),
    ]
    if find_spec("faster_coco_eval") is not None:
        cases.append((ValueError, "labels must be given for both", (["nms:0.5"],), {"truth": truth}))
    for kind, message, arguments, options in cases:
        with pytest.raises(kind, match=message):
            compare(FOUND, *arguments, **options)
    with pytest.raises(ValueError, match=r"scores must have shape \(6,\)"):
        Detections(BOXES, SCORES[:5])
    with pytest.raises(ValueError, match="boxes must be finite"):
        compare(Detections(np.full((1, 4), np.nan), [1.0]), ["nms:0.5"])


def test_sweeps_replace_what_a_method_has():
    assert notations(sweep("hnms:0.7/1+nms:0.5", ["alpha=0.5:0.6:0.05"])) == [
        "hnms:0.5/1+nms:0.5",
        "hnms:0.55/1+nms:0.5",
        "hnms:0.6/1+nms:0.5",
    ]
    assert notations(sweep("hnms:0.7/1", ["k=1:3"])) == ["hnms:0.7/1", "hnms:0.7/2", "hnms:0.7/3"]
    assert notations(sweep("top:9+nms:0.5", "top=100,1000,9000")) == [f"top:{k}+nms:0.5" for k in (100, 1000, 9000)]
    assert notations(sweep("nms:0.5", ["iou=0.3:0.7:0.2"])) == ["nms:0.3", "nms:0.5", "nms:0.7"]
    assert notations(sweep("nms:0.5+limit:9", ["limit=1e2,20:40:20"])) == [f"nms:0.5+limit:{k}" for k in (100, 20, 40)]
    assert notations(sweep("score:0.1+nms:0.5", ["score=-1,0.05"])) == ["score:-1+nms:0.5", "score:0.05+nms:0.5"]
    assert notations(sweep("nms:0.5+nms:0.7", ["iou=0.6"])) == ["nms:0.6+nms:0.6"]


def test_several_sweeps_are_the_product():
    assert notations(sweep("hnms:0.7/1", ["alpha=0.6,0.8", "k=1:2"])) == [
        "hnms:0.6/1",
        "hnms:0.6/2",
        "hnms:0.8/1",
        "hnms:0.8/2",
    ]


def test_methods_without_the_parameter_stay_once():
    methods = ["nms:0.5", "hnms:0.7/1+nms:0.5", "hnms:0.9/1+nms:0.5", "softnms"]
    assert notations(sweep(methods, ["alpha=0.7,0.8"])) == [
        "nms:0.5",
        "hnms:0.7/1+nms:0.5",
        "hnms:0.8/1+nms:0.5",
        "softnms:gaussian/0.5",
    ]
    assert notations(sweep(methods, [])) == notations(map(Suppression.of, methods))


def test_soft_nms_has_the_parameter_of_its_method():
    methods = ["softnms:gaussian/0.5", "softnms:linear/0.3"]
    assert notations(sweep(methods, ["sigma=0.4"])) == ["softnms:gaussian/0.4", "softnms:linear/0.3"]
    assert notations(sweep(methods, ["iou=0.4"])) == ["softnms:gaussian/0.5", "softnms:linear/0.4"]
    with pytest.raises(ValueError, match=r"a sweep of iou needs a method that has it, .* got softnms:gaussian"):
        sweep(methods[0], ["iou=0.4"])


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("alpha", "a sweep must be name=values with a name of alpha, k, .* got 'alpha'"),
        ("beta=3", "a sweep must be name=values"),
        ("", "a sweep must be name=values"),
        ("alpha=", "a sweep of alpha must be start:stop:step or numbers"),
        ("alpha=0.5,", "a sweep of alpha must be start:stop:step or numbers"),
        ("alpha=x", "a sweep of alpha must be start:stop:step or numbers"),
        ("alpha=nan", "a sweep of alpha must be start:stop:step or numbers"),
        (
            "alpha=0.5:0.9",
            "a sweep of alpha must be start:stop:step or numbers separated by commas, got 'alpha=0.5:0.9'",
        ),
        ("alpha=0.1:0.2:0.1:0.1", "a sweep of alpha must be start:stop:step"),
        ("alpha=0.9:0.5:0.1", "a step above 0 and a stop not below its start"),
        ("alpha=0.5:0.9:0", "a step above 0"),
        ("alpha=0.5:0.9:-0.1", "a step above 0"),
        ("alpha=0.5:0.9:1e-9", "a sweep of alpha must have at most 1,000 values"),
        ("alpha=0.5:1.5:0.5", r"a sweep of alpha must have valid values, got 1.0: alpha must be in \(0, 1\)"),
        ("k=1.5", "a sweep of k must be start:stop, start:stop:step or whole numbers"),
        ("k=0:3", "a sweep of k must have valid values, got 0: num_hashes must be at least 1"),
        ("k=1e30", "a sweep of k must have valid values"),
        ("k=1e99999", "a sweep of k must be start:stop"),
        ("sigma=0.5", "a sweep of sigma needs a method that has it, one with softnms:gaussian, got hnms:0.7/1"),
    ],
)
def test_bad_sweeps_are_one_clear_error(spec, message):
    with pytest.raises(ValueError, match=message):
        sweep("hnms:0.7/1", [spec])


def test_sweeps_must_differ_and_be_few():
    with pytest.raises(ValueError, match="sweeps must have different parameters, got k twice"):
        sweep("hnms:0.7/1", ["k=1", "k=2"])
    with pytest.raises(ValueError, match=r"at most 1,000 methods, got 9,900 from hnms:0.7/1"):
        sweep("hnms:0.7/1", ["k=1:100", "alpha=0.01:0.99:0.01"])
    with pytest.raises(ValueError, match=r"at most 1,000 methods, got 1,200"):
        sweep(["hnms:0.7/1", "hnms:0.7/1+nms:0.5"], ["k=1:600"])
    with pytest.raises(ValueError, match="got none"):
        sweep([], ["k=1"])


@given(start=st.integers(1, 50), step=st.integers(1, 10), count=st.integers(1, 5), places=st.integers(2, 4))
def test_values_are_those_that_one_would_write(start, step, count, places):
    """Decimal-exact: each value is the float of its shortest decimal, and the stop is in."""
    unit = Decimal(1).scaleb(-places)
    expected = [float((start + k * step) * unit) for k in range(count)]
    spec = f"alpha={start * unit}:{(start + (count - 1) * step) * unit}:{step * unit}"
    values = [parameters_of(method)["alpha"] for method in sweep("hnms:0.7/1", [spec])]
    assert values == expected


QUALITY = AveragePrecision(map=0.25, map_50=0.5, recall=0.4, recall_50=0.75, ap_50={1: 0.5})
EXACT = Compared(
    method="nms:0.5",
    boxes_in=9_000,
    kept=100,
    seconds=0.0125,
    spread=0.00025,
    speed_up=1.0,
    agreement=Agreement(precision=1.0, recall=1.0),
    quality=QUALITY,
    parameters={"iou": 0.5},
)
HASHED = Compared(
    method="hnms:0.7/1+nms:0.5",
    boxes_in=2_000,
    kept=99,
    seconds=0.00125,
    spread=0.0,
    speed_up=10.0,
    agreement=Agreement(precision=0.75, recall=0.5),
    quality=AveragePrecision(math.nan, math.nan, math.nan, math.nan, {}),
    parameters={"alpha": 0.7, "k": 1, "iou": 0.5},
)


def without_quality(row):
    return Compared(**{**vars(row), "quality": None})


def test_dicts_are_flat_and_have_the_same_keys():
    exact, hashed = as_dicts([EXACT, HASHED])
    assert exact == {
        "method": "nms:0.5",
        "boxes_in": 9000,
        "kept": 100,
        "ms": 12.5,
        "ms_spread": 0.25,
        "speed_up": 1.0,
        "recall_of_first": 1.0,
        "precision_of_first": 1.0,
        "map_50": 0.5,
        "map": 0.25,
        "recall_50": 0.75,
        "iou": 0.5,
        "alpha": None,
        "k": None,
    }
    assert list(hashed) == list(exact)
    assert (hashed["map"], hashed["alpha"], hashed["k"]) == (None, 0.7, 1)  # NaN is None
    assert "map" not in as_dicts([without_quality(EXACT)])[0]
    assert as_dicts([]) == []


def test_json_reads_back():
    assert json.loads(as_json([EXACT, HASHED])) == as_dicts([EXACT, HASHED])
    assert "NaN" not in as_json([HASHED])


def test_csv_reads_back():
    rows = as_dicts([EXACT, HASHED])
    read = list(csv.DictReader(io.StringIO(as_csv([EXACT, HASHED]))))
    assert read == [{name: "" if value is None else str(value) for name, value in row.items()} for row in rows]
    assert [float(row["ms"]) for row in read] == [12.5, 1.25]


def test_markdown_has_a_column_for_each_heading():
    head, rule, *lines = as_markdown([EXACT, HASHED]).splitlines()
    assert head == "| method | boxes in | kept | time | speed-up | recall/precision | mAP @0.5 | mAP | recall @0.5 |"
    assert rule == "| --- |" + " ---: |" * 8
    assert lines[0] == "| `nms:0.5` | 9,000 | 100 | 12.5 ± 0.2 ms | 1.00x | 100.0/100.0% | 50.0% | 25.0% | 75.0% |"
    assert lines[1].count("|") == head.count("|")
    assert "| - | - | - |" in lines[1]
    assert "mAP" not in as_markdown([without_quality(EXACT)])


def printed(rows, width):
    text = io.StringIO()
    Console(width=width, file=text, color_system=None).print(as_table(rows, "title"))
    return text.getvalue()


def test_the_table_fits_into_a_terminal():
    """Long names of methods are folded where numbers are long too; numbers are always whole."""
    wide = Compared(
        **{
            **vars(EXACT),
            "method": "top:9000+softnms:gaussian/0.5+limit:1000",
            "boxes_in": 99_999_999,
            "kept": 9_999_999,
            "seconds": 0.999,
            "spread": 0.123,
            "speed_up": 12_345.0,
            "quality": AveragePrecision(1.0, 1.0, 1.0, 1.0, {}),
        }
    )
    text = printed([wide], 100)
    for cell in ("99,999,999", "999 ± 123 ms", "12,345x", "100.0/100.0%", "mAP"):
        assert cell in text
    assert wide.method in "".join(line.split()[0] for line in text.splitlines()[4:] if line.strip())
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 100
    usual = printed([Compared(**{**vars(EXACT), "method": "softnms:gaussian/0.5", "boxes_in": 60_000})], 100)
    assert "softnms:gaussian/0.5 " in usual
    short = printed([EXACT, HASHED], 80)
    assert "…" not in short
    for cell in ("hnms:0.7/1", "+nms:0.5", "1.25 ± 0.00 ms", "10.0x", "50.0/75.0%", "title"):
        assert cell in short
    assert "mAP" not in printed([without_quality(EXACT)], 80)


def test_short_times_and_long_ones_have_their_units():
    text = as_markdown([Compared(**{**vars(EXACT), "seconds": s, "spread": s / 10}) for s in (2e-5, 2e-3, 2.0, 200.0)])
    for cell in ("20.0 ± 2.0 µs", "2.00 ± 0.20 ms", "2.00 ± 0.20 s", "200 ± 20 s"):
        assert f"| {cell} |" in text


def test_detections_have_their_own_class():
    with pytest.raises(
        TypeError, match=r"^detections must be Detections\(boxes, scores, labels, images\), got ndarray$"
    ):
        compare(np.zeros((2, 4)), ["nms:0.5"])
