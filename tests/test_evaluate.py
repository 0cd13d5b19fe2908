"""Agreement of two kept sets, average precision and recall."""

from importlib.util import find_spec

import numpy as np
import pytest

from hashnms import Suppression
from hashnms.boxes import pairwise_iou
from hashnms.evaluate import Agreement, agreement, average_precision, matched_agreement
from tests.support.boxes import REAL

needs_coco = pytest.mark.skipif(find_spec("faster_coco_eval") is None, reason="faster-coco-eval is not installed")

TRUTH = ([[0.0, 0.0, 10.0, 10.0], [20.0, 0.0, 30.0, 10.0]], [7, 7])
FOUND = ([[0.0, 0.0, 10.0, 10.0], [50.0, 0.0, 60.0, 10.0], [20.0, 0.0, 30.0, 10.0]], [0.9, 0.8, 0.7], [7, 7, 7])


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
        (ValueError, "truths must be one for each of the 1 images of detections, got 2", ([FOUND], [TRUTH] * 2), {}),
        (ValueError, r"gt_boxes must have shape \(N, 4\), got \(1, 3\)", ([FOUND], [([[0, 0, 1]], [1])]), {}),
        (ValueError, r"mask of ignored boxes must have shape \(2,\)", ([FOUND], [(*TRUTH, [True])]), {}),
        (ValueError, "labels must be given", ([FOUND], [(TRUTH[0], None)]), {}),
    ]
    for kind, message, arguments, options in cases:
        with pytest.raises(kind, match=message):
            average_precision(*arguments, **options)


@needs_coco
@pytest.mark.skipif(not REAL.is_dir(), reason="the real detections are not here")
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
