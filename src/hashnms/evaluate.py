"""How good a suppression is: average precision against ground truth, and agreement with the exact method.

`average_precision` and `coco_summary` use faster-coco-eval (the extra `eval`). They take detections and
ground truth of many images, flat (`Detections`, `Truth`) or image by image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from hashnms import _settings, _validate
from hashnms._coco import IOUS, Task
from hashnms._validate import Array
from hashnms.boxes import pairwise_iou
from hashnms.detections import Detections, Truth


@dataclass(frozen=True)
class Agreement:
    """How much of each of two kept sets is in the other."""

    precision: float  # the share of the approximation's boxes that the exact method keeps too
    recall: float  # the share of the exact method's boxes that the approximation keeps too


def agreement(keep: ArrayLike, exact_keep: ArrayLike) -> Agreement:
    """Compare the indices that a method keeps with those of the exact method. For an empty set, the share is 1.

    Args:
        keep: the indices of the boxes that a method keeps.
        exact_keep: the indices of the boxes that the exact method keeps.

    Returns:
        An `Agreement`: precision and recall of `keep`.

    >>> agreement([0, 1, 2, 5], [1, 2])
    Agreement(precision=0.5, recall=1.0)
    """
    kept, exact = _validate.rows_set("keep", keep), _validate.rows_set("exact_keep", exact_keep)
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
    """Like `agreement`, but a box also counts as kept by the other method if that keeps an overlapping box.

    Args:
        keep: the indices of the boxes that a method keeps.
        exact_keep: the indices of the boxes that the exact method keeps.
        boxes: (N, 4) xyxy, the boxes that both index.
        labels: (N,) integers or None. Only boxes with the same label match.
        iou_threshold: boxes match if their IoU is at least this.

    >>> boxes = [[0.0, 0.0, 10.0, 10.0], [1.0, 0.0, 11.0, 10.0], [50.0, 0.0, 60.0, 10.0]]
    >>> matched_agreement([0, 2], [1], boxes)
    Agreement(precision=0.5, recall=1.0)
    """
    box_array = _validate.boxes_array(boxes)
    label_array = _validate.labels_array(labels, len(box_array))
    _settings.share_value("iou_threshold", iou_threshold)
    kept = _validate.rows_set("keep", keep, len(box_array))
    exact = _validate.rows_set("exact_keep", exact_keep, len(box_array))
    return Agreement(
        precision=_matched_share(kept, exact, box_array, label_array, iou_threshold),
        recall=_matched_share(exact, kept, box_array, label_array, iou_threshold),
    )


_PAIRS = 2**22  # compared at a time


def _matched_share(some: Array, others: Array, boxes: Array, labels: Array | None, iou_threshold: float) -> float:
    """The share of `some` rows that overlap one of the `others`."""
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
#: Flat, or for each image boxes (N, 4) xyxy, scores (N,) and labels (N,).
AnyDetections: TypeAlias = Detections | Sequence[tuple[ArrayLike, ArrayLike, ArrayLike]]
#: Flat, or for each image boxes (M, 4), labels (M,) and optionally a mask (M,) of ignored regions and areas (M,).
AnyTruth: TypeAlias = Truth | Sequence[tuple[ArrayLike | None, ...]]

_COCO_RECALLS = np.linspace(0, 1, 101)
_ANY_AREA = {"all": [0.0, 1e300]}
_COCO_AREAS = {"all": [0.0, 1e10], "small": [0.0, 32.0**2], "medium": [32.0**2, 96.0**2], "large": [96.0**2, 1e10]}


@dataclass(frozen=True)
class AveragePrecision:
    """Means over the labels in the ground truth; NaN if it has none."""

    map: float  # at IoU 0.5, 0.55, ... 0.95
    map_50: float  # at IoU 0.5
    recall: float  # the greatest recall, at IoU 0.5, 0.55, ... 0.95
    recall_50: float
    ap_50: dict[int, float]  # of each label, at IoU 0.5


def average_precision(
    detections: AnyDetections,
    truths: AnyTruth,
    *,
    style: ApStyle = "coco",
    max_detections: int = 1000,
    ignore_by_label: bool = False,
) -> AveragePrecision:
    """Compute average precision and recall of detections with faster-coco-eval (the extra `eval`).

    A detection is matched to the unmatched ground truth box of its label with the highest IoU. An unmatched detection
    in an ignored region does not count. Images without ground truth count too: every detection there is wrong.

    Args:
        detections: the detections after suppression: `Detections`, or for each image boxes (N, 4) xyxy, scores (N,) and
            labels (N,).
        truths: `Truth`, or for each image boxes (M, 4), labels (M,) and optionally a mask (M,) of ignored regions.
        style: how the area under the precision-recall curve is computed: at 101 recalls ("coco"), exactly ("voc", as
            since 2010) or at 11 recalls ("voc07").
        max_detections: only this many detections, the best, of each image and label count. COCO uses 100; crowds need
            more.
        ignore_by_label: whether an ignored region applies to its own label only, like COCO's crowd regions, or to all
            labels.

    Returns:
        An `AveragePrecision`: mAP, recall and the AP of each label.

    >>> found = [([[0.0, 0.0, 10.0, 10.0], [50.0, 0.0, 60.0, 10.0]], [0.9, 0.8], [1, 1])]
    >>> average_precision(found, [([[0.0, 0.0, 10.0, 10.0], [20.0, 0.0, 30.0, 10.0]], [1, 1])]).recall_50
    0.5
    """
    _settings.choice_value("style", style, ("coco", "voc", "voc07"))
    max_detections = _settings.count_value("max_detections", max_detections)
    task = task_of(detections, truths)
    labels = task.labels()
    if len(labels) == 0:
        return AveragePrecision(np.nan, np.nan, np.nan, np.nan, {})
    if style == "voc":  # recall rises in steps that differ between labels
        counts = [int(np.sum(task.truth_labels[~task.truth.ignore] == label)) for label in labels]
        recalls_of = [(labels[[k]], np.arange(1, count + 1) / count) for k, count in enumerate(counts)]
    else:
        recalls_of = [(labels, _COCO_RECALLS if style == "coco" else np.linspace(0, 1, 11))]
    runs = [_means(task, some, steps, max_detections, ignore_by_label) for some, steps in recalls_of]
    precisions, recalls = (np.concatenate(means) for means in zip(*runs, strict=True))
    return AveragePrecision(
        map=float(precisions.mean()),
        map_50=float(precisions[:, 0].mean()),
        recall=float(recalls.mean()),
        recall_50=float(recalls[:, 0].mean()),
        ap_50=dict(zip(labels.tolist(), precisions[:, 0].tolist(), strict=True)),
    )


def _means(
    task: Task, labels: Array, recalls: Array, max_detections: int, ignore_by_label: bool
) -> tuple[Array, Array]:
    """The average precision and the greatest recall of each label at each IoU."""
    curves = task.curves(
        labels, recalls=recalls, max_detections=[max_detections], ranges=_ANY_AREA, ignore_by_label=ignore_by_label
    )
    precision = np.ascontiguousarray(curves.precision[..., 0, 0].transpose(2, 0, 1))  # label, IoU, recall
    return precision.mean(axis=2), np.ascontiguousarray(curves.recall[..., 0, 0].T)


def task_of(detections: AnyDetections, truths: AnyTruth) -> Task:
    """Make both flat, and check them."""
    if not isinstance(detections, Detections) and not isinstance(truths, Truth) and len(detections) != len(truths):
        raise ValueError(
            f"truths must have one entry for each of the {len(detections)} images of detections, got {len(truths)}"
        )
    return Task.of(
        detections if isinstance(detections, Detections) else Detections.of_images(detections),
        truths if isinstance(truths, Truth) else Truth.of_images(truths),
    )


@dataclass(frozen=True)
class CocoSummary:
    """COCO's twelve numbers by name, AP, AP50 ... ARl, and the AP of each label. NaN if there is no ground truth."""

    values: dict[str, float]
    ap: dict[int, float]  # of each label, at IoU 0.5, 0.55, ... 0.95
    ap_50: dict[int, float]  # of each label, at IoU 0.5
    max_detections: tuple[int, ...]

    def lines(self) -> list[str]:
        """The twelve lines that pycocotools prints; -1 is its NaN."""
        return [
            f" {'Average Recall' if line.recall else 'Average Precision':<18} {'(AR)' if line.recall else '(AP)'} "
            f"@[ IoU={line.iou or '0.50:0.95':<9} | area={line.area:>6} | maxDets={line.most:>3} ] = "
            f"{-1.0 if np.isnan(value) else value:0.3f}"
            for line, value in zip(_lines(self.max_detections), self.values.values(), strict=True)
        ]


@dataclass(frozen=True)
class _Line:
    """Which values one of the twelve numbers is the mean of."""

    name: str
    most: int  # detections that count
    recall: bool = False
    iou: str = ""  # empty: all
    area: str = "all"


def _lines(max_detections: tuple[int, ...]) -> list[_Line]:
    """The twelve lines in COCO's order."""
    most = max_detections[-1]
    sizes = [size for size in _COCO_AREAS if size != "all"]
    return [
        _Line("AP", most),
        _Line("AP50", most, iou="0.50"),
        _Line("AP75", most, iou="0.75"),
        *(_Line(f"AP{size[0]}", most, area=size) for size in sizes),
        *(_Line(f"AR{count}", count, recall=True) for count in max_detections),
        *(_Line(f"AR{size[0]}", most, recall=True, area=size) for size in sizes),
    ]


def coco_summary(
    detections: AnyDetections,
    truths: AnyTruth,
    *,
    max_detections: Sequence[int] = (1, 10, 100),
    ignore_by_label: bool = True,
) -> CocoSummary:
    """Compute COCO's twelve numbers, as pycocotools does, with faster-coco-eval (the extra `eval`).

    Args:
        detections: as in `average_precision`.
        truths: `Truth`, or for each image boxes (M, 4), labels (M,), a mask (M,) of ignored regions or None, and areas
            (M,) or None. Areas decide which objects are small, medium and large; by default they are the areas of the
            boxes.
        max_detections: three increasing numbers. Only this many detections, the best, of each image and label count in
            AR1, AR10 and AR100, which are named after them. All other numbers use the last.
        ignore_by_label: whether an ignored region applies to its own label only, like COCO's crowd regions, or to all
            labels.

    Returns:
        A `CocoSummary`.

    >>> found = [([[0.0, 0.0, 10.0, 10.0], [50.0, 0.0, 60.0, 10.0]], [0.9, 0.8], [1, 1])]
    >>> summary = coco_summary(found, [([[0.0, 0.0, 10.0, 10.0], [20.0, 0.0, 30.0, 10.0]], [1, 1])])
    >>> summary.values["AR100"]
    0.5
    >>> summary.lines()[6]
    ' Average Recall     (AR) @[ IoU=0.50:0.95 | area=   all | maxDets=  1 ] = 0.500'
    """
    counts = _settings.ascending_counts("max_detections", max_detections, 3)
    task = task_of(detections, truths)
    labels, lines = task.labels(), _lines(counts)
    if len(labels) == 0:
        return CocoSummary({line.name: np.nan for line in lines}, {}, {}, counts)
    curves = task.curves(
        labels,
        recalls=_COCO_RECALLS,
        max_detections=counts,
        ranges=_COCO_AREAS,
        ignore_by_label=ignore_by_label,
    )
    values = {}
    for line in lines:
        area, most = list(_COCO_AREAS).index(line.area), counts.index(line.most)
        measured = (curves.recall if line.recall else curves.precision)[..., area, most]
        some = measured[np.isclose(IOUS, float(line.iou))] if line.iou else measured
        there = some[some > -1]
        values[line.name] = float(there.mean()) if len(there) else np.nan
    of_labels = curves.precision[..., 0, -1].mean(axis=1)  # IoU, label
    ap, ap_50 = (dict(zip(labels.tolist(), means.tolist(), strict=True)) for means in (of_labels.mean(0), of_labels[0]))
    return CocoSummary(values, ap, ap_50, counts)
