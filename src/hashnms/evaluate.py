"""How good a suppression is: average precision against ground truth, and agreement with the exact method."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from hashnms import _validate
from hashnms._validate import Array
from hashnms.boxes import pairwise_iou


@dataclass(frozen=True)
class Agreement:
    """Of two kept sets, how much of each is in the other."""

    precision: float  # the share of the approximation's boxes that the exact method keeps too
    recall: float  # the share of the exact method's boxes that the approximation keeps too


def agreement(keep: ArrayLike, exact_keep: ArrayLike) -> Agreement:
    """Compare the indices that a method keeps with those of the exact method. Of an empty set, all is in the other.

    >>> agreement([0, 1, 2, 5], [1, 2])
    Agreement(precision=0.5, recall=1.0)
    """
    kept, exact = np.unique(keep), np.unique(exact_keep)
    common = len(np.intersect1d(kept, exact, assume_unique=True))
    return Agreement(
        precision=common / len(kept) if len(kept) else 1.0,
        recall=common / len(exact) if len(exact) else 1.0,
    )


def matched_agreement(
    keep: ArrayLike,
    exact_keep: ArrayLike,
    boxes: ArrayLike,
    labels: ArrayLike | None = None,
    *,
    iou_threshold: float = 0.5,
) -> Agreement:
    """The same, but a box counts as kept by the other method if that keeps one that overlaps it.

    Args:
        keep: indices that a method keeps of the boxes.
        exact_keep: those of the exact method.
        boxes: (N, 4) xyxy, of which both are indices.
        labels: (N,) integers or None: only boxes of the same label count.
        iou_threshold: boxes match if their IoU is at least this.

    >>> boxes = [[0.0, 0.0, 10.0, 10.0], [1.0, 0.0, 11.0, 10.0], [50.0, 0.0, 60.0, 10.0]]
    >>> matched_agreement([0, 2], [1], boxes)
    Agreement(precision=0.5, recall=1.0)
    """
    box_array = _validate.boxes_array(boxes)
    label_array = _validate.labels_array(labels, len(box_array))
    _validate.share_value("iou_threshold", iou_threshold)
    kept, exact = np.unique(keep).astype(np.int64), np.unique(exact_keep).astype(np.int64)
    return Agreement(
        precision=_matched_share(kept, exact, box_array, label_array, iou_threshold),
        recall=_matched_share(exact, kept, box_array, label_array, iou_threshold),
    )


_PAIRS = 2**22  # as many are compared at a time


def _matched_share(some: Array, others: Array, boxes: Array, labels: Array | None, iou_threshold: float) -> float:
    """The share of some rows that overlap one of the others."""
    if len(some) == 0:
        return 1.0
    matched = 0
    for rows in np.array_split(some, -(-len(some) * len(others) // _PAIRS) or 1):
        match = pairwise_iou(boxes[rows], boxes[others]) >= iou_threshold
        if labels is not None:
            match &= labels[rows, None] == labels[None, others]
        matched += int(match.any(axis=1).sum())
    return matched / len(some)


ApStyle = Literal["coco", "voc", "voc07"]
_COCO_IOUS = np.linspace(0.5, 0.95, 10)


@dataclass(frozen=True)
class AveragePrecision:
    """Means over the labels that the ground truth has; NaN if it has none."""

    map: float  # at IoU 0.5, 0.55, ... 0.95
    map_50: float  # at IoU 0.5
    recall: float  # the greatest recall, at IoU 0.5, 0.55, ... 0.95
    recall_50: float
    ap_50: dict[int, float]  # of each label, at IoU 0.5


def average_precision(
    detections: Sequence[tuple[ArrayLike, ArrayLike, ArrayLike]],
    truths: Sequence[tuple[ArrayLike, ...]],
    *,
    style: ApStyle = "coco",
    max_detections: int = 1000,
) -> AveragePrecision:
    """Average precision and recall of detections, by faster-coco-eval (`pip install "hashnms[eval]"`).

    A detection goes to the box of its label, not yet taken, with the highest IoU. Where it goes to none but lies in an
    ignored region it does not count.

    Args:
        detections: of each image boxes (N, 4) xyxy, scores (N,) and labels (N,): what a suppression left.
        truths: of each image boxes (M, 4), labels (M,) and, if there are any, a mask (M,) of those that are ignored
            regions, for all labels.
        style: how the area under the precision-recall curve is taken: at 101 recalls ("coco"), all of it ("voc", as
            from 2010 on) or at 11 recalls ("voc07").
        max_detections: of each image and label at most so many count, the best. COCO has 100; crowds need more.

    >>> found = [([[0.0, 0.0, 10.0, 10.0], [50.0, 0.0, 60.0, 10.0]], [0.9, 0.8], [1, 1])]
    >>> average_precision(found, [([[0.0, 0.0, 10.0, 10.0], [20.0, 0.0, 30.0, 10.0]], [1, 1])]).recall_50
    0.5
    """
    if style not in ("coco", "voc", "voc07"):
        raise ValueError(f"style must be one of coco, voc, voc07, got {style!r}")
    max_detections = _validate.count_value("max_detections", max_detections)
    if len(detections) != len(truths):
        raise ValueError(
            f"truths must be one for each of the {len(detections)} images of detections, got {len(truths)}"
        )
    images = [_Image.of(*pair) for pair in zip(detections, truths, strict=True)]
    labels = np.unique(np.concatenate([image.gt_labels[~image.gt_ignore] for image in images] or [np.zeros(0)]))
    of_labels = [_of_label(images, label, style, max_detections) for label in labels.astype(np.int64)]
    precisions, recalls = (np.array(values) for values in zip(*of_labels, strict=True)) if of_labels else (_NONE, _NONE)
    return AveragePrecision(
        map=float(precisions.mean()),
        map_50=float(precisions[:, 0].mean()),
        recall=float(recalls.mean()),
        recall_50=float(recalls[:, 0].mean()),
        ap_50={int(label): float(precision[0]) for label, precision in zip(labels, precisions, strict=False)},
    )


_NONE = np.full((1, len(_COCO_IOUS)), np.nan)


@dataclass(frozen=True)
class _Image:
    boxes: Array
    scores: Array
    labels: Array
    gt_boxes: Array
    gt_labels: Array
    gt_ignore: Array

    @classmethod
    def of(cls, detected: tuple[Any, ...], truth: tuple[Any, ...]) -> _Image:
        boxes, scores, labels, _ = _validate.plain_arrays(*detected)
        gt_boxes = _validate.boxes_array(truth[0], "gt_boxes")
        gt_labels = _validate.labels_array(truth[1], len(gt_boxes))
        gt_ignore = np.asarray(truth[2] if len(truth) > 2 else np.zeros(len(gt_boxes)), dtype=bool)
        if labels is None or gt_labels is None:
            raise ValueError("labels must be given, of detections and of ground truth, got None")
        if gt_ignore.shape != (len(gt_boxes),):
            raise ValueError(f"a mask of ignored boxes must have shape ({len(gt_boxes)},), got {gt_ignore.shape}")
        return cls(boxes, scores, labels, gt_boxes, gt_labels, gt_ignore)


def _of_label(images: list[_Image], label: int, style: ApStyle, max_detections: int) -> tuple[Array, Array]:
    """The average precision and the greatest recall of a label at each IoU."""
    try:
        from faster_coco_eval import COCO, COCOeval_faster  # noqa: PLC0415
    except ImportError as error:
        need = 'average_precision needs faster-coco-eval: pip install "hashnms[eval]"'
        raise ImportError(need) from error
    truths = list(_annotations(images, label))
    num_truths = sum(not truth["iscrowd"] for truth in truths)
    dataset = {
        "images": [{"id": number} for number in range(len(images))],
        "categories": [{"id": 1}],
        "annotations": truths,
    }
    truth_set = COCO(dataset)
    evaluation = COCOeval_faster(truth_set, truth_set.loadRes(list(_results(images, label))), iouType="bbox")
    evaluation.params.maxDets = [max_detections]
    evaluation.params.areaRng, evaluation.params.areaRngLbl = [[0, 1e300]], ["all"]
    recalls = {"coco": np.linspace(0, 1, 101), "voc07": np.linspace(0, 1, 11)}
    evaluation.params.recThrs = recalls.get(style, np.arange(1, num_truths + 1) / num_truths)  # voc: every step
    evaluation.evaluate()
    evaluation.accumulate()
    precision = np.asarray(evaluation.eval["precision"])[:, :, 0, 0, 0]  # IoU, recall
    return precision.mean(axis=1), np.asarray(evaluation.eval["recall"])[:, 0, 0, 0]


def _annotations(images: list[_Image], label: int) -> Iterator[dict[str, Any]]:
    """The boxes of a label and all ignored regions."""
    number = 0
    for image_number, image in enumerate(images):
        for row in np.flatnonzero((image.gt_labels == label) | image.gt_ignore):
            number += 1
            box = _xywh(image.gt_boxes[row])
            crowd = int(image.gt_ignore[row])
            area = max(box[2] * box[3], 0.0)
            yield {
                "id": number,
                "image_id": image_number,
                "category_id": 1,
                "bbox": box,
                "area": area,
                "iscrowd": crowd,
            }


def _results(images: list[_Image], label: int) -> Iterator[dict[str, Any]]:
    for image_number, image in enumerate(images):
        for row in np.flatnonzero(image.labels == label):
            score = float(image.scores[row])
            yield {"image_id": image_number, "category_id": 1, "bbox": _xywh(image.boxes[row]), "score": score}


def _xywh(box: Array) -> list[float]:
    x1, y1, x2, y2 = (float(value) for value in box)
    return [x1, y1, x2 - x1, y2 - y1]
