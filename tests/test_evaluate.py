"""Agreement of two kept sets, average precision and recall, COCO's summary."""

import math
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from hashnms import Suppression
from hashnms.boxes import pairwise_iou
from hashnms.detections import Detections, Truth
from hashnms.evaluate import Agreement, agreement, average_precision, coco_summary, matched_agreement
from tests.support.boxes import REAL

needs_coco = pytest.mark.skipif(find_spec("faster_coco_eval") is None, reason="faster-coco-eval is not installed")

TRUTH = ([[0.0, 0.0, 10.0, 10.0], [20.0, 0.0, 30.0, 10.0]], [7, 7])
FOUND = ([[0.0, 0.0, 10.0, 10.0], [50.0, 0.0, 60.0, 10.0], [20.0, 0.0, 30.0, 10.0]], [0.9, 0.8, 0.7], [7, 7, 7])
FLAT = Detections(*FOUND)


def test_agreement_counts_common_boxes_in_any_order():
    assert agreement([5, 1, 2, 0], [2, 1]) == Agreement(precision=0.5, recall=1.0)
    assert agreement([3], [1, 2]) == Agreement(precision=0.0, recall=0.0)


def test_of_an_empty_set_all_is_in_the_other():
    assert agreement([], []) == Agreement(precision=1.0, recall=1.0)
    assert agreement([], [1]) == Agreement(precision=1.0, recall=0.0)
    assert matched_agreement([], [], np.zeros((2, 4))) == Agreement(precision=1.0, recall=1.0)
    assert matched_agreement([], [1], np.zeros((2, 4))) == Agreement(precision=1.0, recall=0.0)


def test_matched_boxes_overlap_and_have_the_same_label(monkeypatch):
    boxes = np.array([[0, 0, 10, 10], [1, 0, 11, 10], [0, 0, 10, 10], [50, 0, 60, 10]], np.float32)
    assert matched_agreement([0, 3], [1, 2], boxes) == Agreement(precision=0.5, recall=1.0)
    assert matched_agreement([0, 3], [1, 2], boxes, [0, 0, 1, 0]) == Agreement(precision=0.5, recall=0.5)
    assert matched_agreement([0, 3], [1], boxes, iou_threshold=9 / 11 + 1e-6) == Agreement(0.0, 0.0)
    monkeypatch.setattr("hashnms.evaluate._PAIRS", 1)  # one by one
    assert matched_agreement([0, 3], [1, 2], boxes, [0, 0, 1, 0]) == Agreement(precision=0.5, recall=0.5)


@needs_coco
@pytest.mark.parametrize(
    ("style", "expected"),
    [("voc", (1 + 2 / 3) / 2), ("voc07", (6 + 5 * 2 / 3) / 11), ("coco", (51 + 50 * 2 / 3) / 101)],
)
def test_right_wrong_right_has_the_area_of_its_style(style, expected):
    result = average_precision([FOUND], [TRUTH], style=style)
    assert result.map_50 == pytest.approx(expected, abs=1e-12)
    assert result.map == pytest.approx(expected, abs=1e-12)
    assert result.recall == result.recall_50 == 1.0
    assert result.ap_50 == {7: result.map_50}


@needs_coco
def test_only_the_best_detections_count():
    result = average_precision([FOUND], [TRUTH], max_detections=2)
    assert result.recall == 0.5
    assert result.map_50 == pytest.approx(51 / 101)


@needs_coco
def test_a_detection_in_an_ignored_region_does_not_count():
    boxes, labels = TRUTH
    truth = ([*boxes, [40.0, 0.0, 100.0, 10.0]], [*labels, -1], [False, False, True])
    assert average_precision([FOUND], [truth]).map_50 == 1.0


@needs_coco
def test_labels_and_images_are_apart_and_labels_without_truth_do_not_count():
    truths = [TRUTH, ([[0.0, 0.0, 10.0, 10.0]], [3])]
    result = average_precision([FOUND, ([[0.0, 0.0, 10.0, 10.0]] * 2, [0.5, 0.9], [3, 99])], truths, style="voc")
    assert result.ap_50 == {3: 1.0, 7: pytest.approx(5 / 6)}
    assert result.map_50 == pytest.approx((1 + 5 / 6) / 2)
    moved = average_precision([([], [], []), FOUND], [TRUTH, ([[0.0, 0.0, 10.0, 10.0]], [3])])
    assert moved.map == moved.recall == 0.0


@needs_coco
def test_without_truth_there_is_no_number():
    result = average_precision([FOUND], [(np.zeros((0, 4)), [])])
    assert np.isnan([result.map, result.map_50, result.recall, result.recall_50]).all()
    assert result.ap_50 == {}
    assert np.isnan(average_precision([], []).map)


def ap_by_hand(found, truths, iou_threshold):
    """Of one label, all of the area: by decreasing score each detection takes the free box it overlaps most."""
    hits, num_truths = [], 0
    for (boxes, scores), truth in zip(found, truths, strict=True):
        iou, free = pairwise_iou(boxes, truth), np.ones(len(truth), bool)
        num_truths += len(truth)
        for row in np.argsort(-scores, kind="stable"):
            best = np.argmax(np.where(free, iou[row], -1)) if len(truth) else -1
            hit = best >= 0 and free[best] and iou[row, best] >= iou_threshold
            free[best if hit else []] = False
            hits.append((scores[row], hit))
    right = np.array([hit for _, hit in sorted(hits, key=lambda pair: -pair[0])])
    precision = np.cumsum(right) / np.arange(1, len(right) + 1)
    return sum(precision[k:].max() for k in np.flatnonzero(right)) / num_truths


@needs_coco
@pytest.mark.parametrize("seed", range(5))
def test_the_area_is_that_by_hand(seed):
    rng = np.random.default_rng(seed)
    truths, found = [], []
    for _ in range(3):
        corner = rng.uniform(0, 60, (12, 2))
        truth = np.concatenate([corner, corner + rng.uniform(5, 20, (12, 2))], axis=1)
        boxes = np.repeat(truth, 4, axis=0) + rng.normal(0, 1.5, (48, 4))
        boxes[:, 2:] = np.maximum(boxes[:, :2], boxes[:, 2:])
        truths.append(truth)
        found.append((boxes, rng.permutation(48) + rng.random()))
    result = average_precision(
        [(boxes, scores, np.zeros(48, int)) for boxes, scores in found],
        [(truth, np.zeros(12, int)) for truth in truths],
        style="voc",
    )
    assert result.map_50 == pytest.approx(ap_by_hand(found, truths, 0.5), abs=1e-9)
    expected = np.mean([ap_by_hand(found, truths, iou) for iou in np.linspace(0.5, 0.95, 10)])
    assert result.map == pytest.approx(expected, abs=1e-9)


@needs_coco
def test_wrong_arguments_are_refused():
    cases = [
        (ValueError, "style must be one of coco, voc, voc07, got 'kitti'", ([FOUND], [TRUTH]), {"style": "kitti"}),
        (ValueError, "max_detections must be", ([FOUND], [TRUTH]), {"max_detections": 0}),
        (
            ValueError,
            "truths must have one entry for each of the 1 images of detections, got 2",
            ([FOUND], [TRUTH] * 2),
            {},
        ),
        (ValueError, r"gt_boxes must have shape \(N, 4\), got \(1, 3\)", ([FOUND], [([[0, 0, 1]], [1])]), {}),
        (ValueError, r"mask of ignored boxes must have shape \(2,\)", ([FOUND], [(*TRUTH, [True])]), {}),
        (ValueError, "labels must be given", ([FOUND], [(TRUTH[0], None)]), {}),
        (ValueError, "labels must be given", ([(*FOUND[:2], None)], [TRUTH]), {}),
        (ValueError, "scores must be finite, got nan in row 0", ([(FOUND[0], [np.nan] * 3, FOUND[2])], [TRUTH]), {}),
        (ValueError, "gt_boxes must be finite, got .* in row 0", ([FOUND], [([[0, 0, np.inf, 1]], [1])]), {}),
        (ValueError, "labels must be given for both .* got None for ground truth", (FLAT, Truth([[0, 0, 1, 1]])), {}),
        (ValueError, "images must be given for both .* got None for detections", (FLAT, Truth(*TRUTH, [0, 0])), {}),
        (ValueError, r"areas must have shape \(2,\)", ([FOUND], [(*TRUTH, None, [1.0])]), {}),
        (
            ValueError,
            "areas must be finite and at least 0, got -1.0 in row 1",
            ([FOUND], [(*TRUTH, None, [1, -1])]),
            {},
        ),
    ]
    for kind, message, arguments, options in cases:
        with pytest.raises(kind, match=message):
            average_precision(*arguments, **options)


def random_images(seed, *, labels=5, images=6, found=60, truths=12):
    """Detections near the truth, some of another label, with equal scores; an image without truth, one without any."""
    rng = np.random.default_rng(seed)
    detections, truth = [], []
    for number in range(images):
        count = 0 if number == 1 else truths
        corner, size = rng.uniform(0, 300, (truths, 2)), np.exp(rng.uniform(1, 5.5, (truths, 2)))
        boxes, of_labels = np.concatenate([corner, corner + size], axis=1), rng.integers(0, labels, truths) * 3
        some = rng.integers(0, truths, 0 if number == 2 else found)
        near = boxes[some] + rng.normal(0, 0.05, (len(some), 4)) * np.tile(size[some], 2)
        near[:, 2:] = np.maximum(near[:, :2], near[:, 2:])
        near_labels = np.where(rng.random(len(some)) < 0.8, of_labels[some], 3 * rng.integers(0, labels + 1, len(some)))
        detections.append((near.astype(np.float32), rng.integers(0, 30, len(some)) / 30, near_labels))
        ignore = rng.random(truths) < 0.2
        areas = size.prod(axis=1) * rng.uniform(0.3, 1, truths)
        truth.append(tuple(values[:count] for values in (boxes, of_labels, ignore, areas)))
    return detections, truth


def coco_run(detections, truths, label=None, *, max_detections=None, recalls=None, wide=False):
    """faster-coco-eval on dicts made one by one. With one label, all ignored regions apply to it."""
    from faster_coco_eval import COCO, COCOeval_faster  # noqa: PLC0415

    gts: list[dict[str, Any]] = []
    dts: list[dict[str, Any]] = []
    for image, (boxes, labels, ignore, areas) in enumerate(truths):
        for (x1, y1, x2, y2), of_label, crowd, area in zip(boxes.tolist(), labels, ignore, areas, strict=True):
            if label is None or of_label == label or crowd:
                entry = {"id": len(gts) + 1, "image_id": image, "bbox": [x1, y1, x2 - x1, y2 - y1], "area": float(area)}
                category = int(of_label if label is None else label)
                gts.append({**entry, "category_id": category, "iscrowd": int(crowd)})
    for image, (boxes, scores, labels) in enumerate(detections):
        for (x1, y1, x2, y2), score, of_label in zip(boxes.tolist(), scores, labels, strict=True):
            if label is None or of_label == label:
                entry = {"image_id": image, "bbox": [x1, y1, x2 - x1, y2 - y1], "score": float(score)}
                dts.append({**entry, "category_id": int(of_label)})
    categories = sorted({entry["category_id"] for entry in gts + dts})
    truth_set = COCO(
        {
            "images": [{"id": image} for image in range(len(truths))],
            "categories": [{"id": category} for category in categories],
            "annotations": gts,
        }
    )
    run = COCOeval_faster(truth_set, truth_set.loadRes(dts), iouType="bbox")
    if max_detections is not None:
        run.params.maxDets = list(max_detections)
    if recalls is not None:
        run.params.recThrs = recalls
    if wide:
        run.params.areaRng, run.params.areaRngLbl = [[0, 1e300]], ["all"]
    run.evaluate()
    run.accumulate()
    return run


@needs_coco
@pytest.mark.parametrize("style", ["coco", "voc", "voc07"])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("max_detections", [1000, 5])
def test_all_labels_in_one_run_are_each_label_alone(style, seed, max_detections):
    """Bit for bit: as it was done before."""
    detections, truths = random_images(seed)
    result = average_precision(detections, truths, style=style, max_detections=max_detections)
    precisions, recalls = {}, []
    for label in np.unique(np.concatenate([labels[~ignore] for _, labels, ignore, _ in truths])).tolist():
        count = sum(int(np.sum((labels == label) & ~ignore)) for _, labels, ignore, _ in truths)
        steps = {"coco": np.linspace(0, 1, 101), "voc07": np.linspace(0, 1, 11)}
        at = steps.get(style, np.arange(1, count + 1) / count)
        run = coco_run(detections, truths, label, max_detections=[max_detections], recalls=at, wide=True)
        precisions[label] = np.asarray(run.eval["precision"])[:, :, 0, 0, 0].mean(axis=1)
        recalls.append(np.asarray(run.eval["recall"])[:, 0, 0, 0])
    assert result.ap_50 == {label: precision[0] for label, precision in precisions.items()}
    assert result.map == np.array(list(precisions.values())).mean()
    assert result.recall == np.array(recalls).mean()
    assert result.recall_50 == np.array(recalls)[:, 0].mean()


@needs_coco
def test_flat_and_image_by_image_are_the_same():
    """For any numbers of the images, and any order of the rows of different images."""
    detections, truths = random_images(7)
    detections = [
        (boxes, np.arange(len(scores)) + k / 10, labels) for k, (boxes, scores, labels) in enumerate(detections)
    ]
    flat, flat_truth = Detections.of_images(detections), Truth.of_images(truths)
    by_turns = np.argsort(np.concatenate([np.arange(len(scores)) for _, scores, _ in detections]), kind="stable")
    assert flat.images is not None
    assert flat_truth.images is not None
    mixed = Detections(
        flat.boxes[by_turns], flat.scores[by_turns], flat.labels[by_turns], 10**12 - 5 * flat.images[by_turns]
    )
    mixed_truth = Truth(
        flat_truth.boxes, flat_truth.labels, 10**12 - 5 * flat_truth.images, flat_truth.ignore, flat_truth.areas
    )
    expected = average_precision(detections, truths)
    assert average_precision(flat, flat_truth) == expected == average_precision(flat, truths)
    assert average_precision(mixed, mixed_truth) == expected
    assert coco_summary(flat, flat_truth) == coco_summary(detections, truths)


@needs_coco
def test_without_labels_and_images_all_are_of_one():
    boxes, scores, _ = FOUND
    result = average_precision(Detections(boxes, scores), Truth(TRUTH[0]), style="voc")
    assert result.ap_50 == {0: pytest.approx(5 / 6)}


@needs_coco
def test_a_region_of_another_label_counts_unless_regions_are_by_label():
    boxes, labels = TRUTH
    truth = [([*boxes, [40.0, 0.0, 100.0, 10.0]], [*labels, 3], [False, False, True])]
    assert average_precision([FOUND], truth).map_50 == 1.0
    assert average_precision([FOUND], truth, ignore_by_label=True).map_50 == pytest.approx((51 + 50 * 2 / 3) / 101)
    assert coco_summary([FOUND], truth, ignore_by_label=False).values["AP50"] == 1.0
    assert coco_summary([FOUND], truth).values["AP50"] == pytest.approx((51 + 50 * 2 / 3) / 101)


@needs_coco
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("max_detections", [(1, 10, 100), (2, 3, 7)])
def test_the_summary_is_that_of_faster_coco_eval(seed, max_detections):
    """With crowds, areas that are not those of boxes, an image without truth, one without detections."""
    detections, truths = random_images(seed)
    run = coco_run(detections, truths, max_detections=max_detections)
    run.summarize()
    result = coco_summary(detections, truths, max_detections=max_detections)
    assert list(result.values.values()) == pytest.approx(run.stats.tolist(), abs=1e-12)
    precision = run.eval["precision"][..., 0, -1]
    for k, label in enumerate(run.params.catIds):
        if label in result.ap:
            assert result.ap[label] == pytest.approx(precision[:, :, k].mean(), abs=1e-12)
            assert result.ap_50[label] == pytest.approx(precision[0, :, k].mean(), abs=1e-12)
        else:
            assert (precision[:, :, k] == -1).all()


@needs_coco
def test_the_lines_of_the_summary_are_those_of_coco():
    detections, truths = random_images(0)
    printed: list[str] = []
    run = coco_run(detections, truths)
    run.print_function = printed.append
    run.summarize()
    assert coco_summary(detections, truths).lines() == printed[:12]


@needs_coco
def test_the_summary_by_hand():
    """Two small objects and a large one; the large one and one small one are found, in this order of scores."""
    truth = Truth([[0, 0, 10, 10], [20, 0, 30, 10], [0, 100, 100, 200]], [1, 1, 1])
    found = Detections([[0, 100, 100, 200], [0, 0, 10, 10]], [0.9, 0.8], [1, 1])
    result = coco_summary(found, truth)
    two_thirds = 67 / 101  # recalls 0, 0.01 ... 0.66
    expected = {"AP": two_thirds, "AP50": two_thirds, "AP75": two_thirds, "APs": 51 / 101, "APm": np.nan, "APl": 1.0}
    expected |= {"AR1": 1 / 3, "AR10": 2 / 3, "AR100": 2 / 3, "ARs": 0.5, "ARm": np.nan, "ARl": 1.0}
    assert result.values == pytest.approx(expected, nan_ok=True)
    assert list(result.values) == list(expected)
    assert result.lines()[4] == " Average Precision  (AP) @[ IoU=0.50:0.95 | area=medium | maxDets=100 ] = -1.000"
    assert result.lines()[1] == " Average Precision  (AP) @[ IoU=0.50      | area=   all | maxDets=100 ] = 0.663"
    real = coco_summary(found, Truth(truth.boxes, truth.labels, areas=[2000.0, 90.0, 9000.0]))  # one is medium now
    assert (real.values["APm"], real.values["APs"], real.values["APl"]) == (
        1.0,
        0.0,
        pytest.approx(math.nan, nan_ok=True),
    )


@needs_coco
def test_the_summary_of_nothing():
    nothing = Detections(np.zeros((0, 4)), [], [], [])
    truth = Truth([[0, 0, 10, 10], [0, 0, 50, 50]], [1, 2], [0, 0])
    empty = coco_summary(nothing, truth)
    assert {name: value for name, value in empty.values.items() if value != 0} == pytest.approx(
        {"APl": np.nan, "ARl": np.nan}, nan_ok=True
    )
    assert empty.ap == empty.ap_50 == {1: 0.0, 2: 0.0}
    one = coco_summary(Detections([[0, 0, 10, 10]], [0.5], [1], [0]), truth)  # and nothing of the other label
    assert one.ap == {1: pytest.approx(1.0), 2: 0.0}
    without = coco_summary(Detections([[0, 0, 10, 10]], [0.5], [1], [0]), Truth(np.zeros((0, 4)), [], []))
    assert all(map(math.isnan, without.values.values()))
    assert without.lines()[0].endswith("= -1.000")
    assert coco_summary([], []).ap == {}


@needs_coco
def test_most_detections_are_three_that_rise():
    for wrong in [(1, 10), (10, 1, 100), (1, 1, 2), (0, 1, 2)]:
        with pytest.raises(ValueError, match="max_detections must be"):
            coco_summary(FLAT, Truth(*TRUTH), max_detections=wrong)
    with pytest.raises(TypeError, match="max_detections must be 3 integers"):
        coco_summary(FLAT, Truth(*TRUTH), max_detections=100)


@needs_coco
@pytest.mark.skipif(not REAL.is_dir(), reason="the real detections are not beside this repository (../shared/real/raw)")
@pytest.mark.parametrize("name", ["visdrone_yolov5s", "mot17_yolov5n"])
def test_hnms_before_nms_costs_real_detections_half_a_point_at_most(name):
    """What the paper says, and what was measured on sets like these."""
    images = [np.load(file) for file in sorted((REAL / name).glob("*.npz"))]
    truths = [(image["gt_boxes"], image["gt_labels"], image["gt_ignore"]) for image in images]
    maps = []
    for notation in ("top:9000+nms:0.5+limit:1000", "top:9000+hnms:0.73/1+nms:0.5+limit:1000"):
        found = []
        for image in images:
            boxes, labels = image["boxes"], image["labels"]
            keep, scores = Suppression.parse(notation)(boxes, image["scores"], labels)
            found.append((boxes[keep], scores, labels[keep]))
        maps.append(average_precision(found, truths).map_50)
    exact, filtered = maps
    assert exact > 0.2
    assert abs(exact - filtered) < 0.005


@pytest.mark.parametrize("wrong", [[0.5], [True], "ab", {1, 2}, [[0, 1]], 3, None])
def test_agreement_takes_rows_only(wrong):
    for arguments in ((wrong, [1]), ([1], wrong)):
        name = "keep" if arguments[0] is wrong else "exact_keep"
        with pytest.raises(TypeError, match=rf"^{name} must be rows of kept boxes, \(K,\) integers, got "):
            agreement(*arguments)
    with pytest.raises(ValueError, match=r"^keep must be at least 0, got -1$"):
        agreement([-1, 2], [1])
    with pytest.raises(ValueError, match=r"^exact_keep must be rows of 2 boxes, got 2$"):
        matched_agreement([0], [0, 2], [[0, 0, 1, 1], [2, 2, 3, 3]])
    assert agreement([], []).recall == 1.0
