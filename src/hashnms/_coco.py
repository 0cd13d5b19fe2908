"""faster-coco-eval on flat arrays: all images and labels in one run (the extra `eval`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hashnms import _validate
from hashnms._extras import missing
from hashnms._validate import Array
from hashnms.detections import Detections, Truth

IOUS = np.linspace(0.5, 0.95, 10)


def evaluator() -> Any:
    """The classes of faster-coco-eval: `COCO` and `COCOeval_faster`."""
    try:
        import faster_coco_eval  # noqa: PLC0415
    except ImportError as error:
        raise missing("average precision", error.name, "eval") from error
    return faster_coco_eval


@dataclass(frozen=True)
class Curves:
    """What the evaluator measures; -1 where there is no ground truth."""

    precision: Array  # (IoU, recall, label, area range, most detections)
    recall: Array  # (IoU, label, area range, most detections)


@dataclass(frozen=True)
class Task:
    """Matching detections and ground truth, with the labels and images of both."""

    found: Detections
    truth: Truth
    found_labels: Array
    truth_labels: Array
    found_images: Array
    truth_images: Array

    @classmethod
    def of(cls, found: Detections, truth: Truth) -> Task:
        """Check that both match; an error says what does not."""
        _validate.finite_rows(found.boxes)
        _validate.finite_scores(found.scores)
        labels = _of_both("labels", found.labels, truth.labels, len(found), len(truth))
        images = _of_both("images", found.images, truth.images, len(found), len(truth))
        return cls(found, truth, *labels, *images)

    def labels(self) -> Array:
        """The labels that count: those of the ground truth, sorted."""
        return np.unique(self.truth_labels[~self.truth.ignore])

    def curves(
        self,
        labels: Array,
        *,
        recalls: Array,
        max_detections: Sequence[int],
        ranges: dict[str, list[float]],
        ignore_by_label: bool,
    ) -> Curves:
        """Precision and recall for these labels and area ranges. Labels are sorted, and each has ground truth."""
        library = evaluator()
        rows = self._best_rows(labels, max_detections[-1])
        truth_rows, truth_labels = self._truth_rows(labels, rows, ignore_by_label)
        images = np.unique(np.concatenate([self.found_images[rows], self.truth_images[truth_rows]]))
        dataset = {
            "images": [{"id": number} for number in range(len(images))],
            "categories": [{"id": label} for label in labels.tolist()],
        }
        gt = _annotations(
            self.truth.boxes[truth_rows],
            truth_labels,
            np.searchsorted(images, self.truth_images[truth_rows]),
            self.truth.areas[truth_rows],
            "iscrowd",
            self.truth.ignore[truth_rows].astype(np.int64),
        )
        dt = _annotations(
            self.found.boxes[rows],
            self.found_labels[rows],
            np.searchsorted(images, self.found_images[rows]),
            None,
            "score",
            self.found.scores[rows],
        )
        run = library.COCOeval_faster(
            library.COCO({**dataset, "annotations": gt}), library.COCO({**dataset, "annotations": dt}), iouType="bbox"
        )
        run.params.iouThrs, run.params.recThrs = IOUS, recalls
        run.params.maxDets = list(max_detections)
        run.params.areaRng, run.params.areaRngLbl = list(ranges.values()), list(ranges)
        run.evaluate()
        run.accumulate()
        return Curves(np.asarray(run.eval["precision"]), np.asarray(run.eval["recall"]))

    def _best_rows(self, labels: Array, most: int) -> Array:
        """The detections that count: the best of each image and label; ties in the order of the input."""
        rows = np.flatnonzero(np.isin(self.found_labels, labels))
        rows = rows[np.lexsort((-self.found.scores[rows], self.found_labels[rows], self.found_images[rows]))]
        places = np.arange(len(rows))
        begins = _begins(self.found_images[rows], self.found_labels[rows])
        best: Array = rows[places - np.maximum.accumulate(np.where(begins, places, 0)) < most]
        return best

    def _truth_rows(self, labels: Array, found_rows: Array, ignore_by_label: bool) -> tuple[Array, Array]:
        """The rows of the ground truth that count, and their labels.

        An ignored region for all labels is repeated for each label that was detected in its image; other labels do not
        need it.
        """
        for_all = np.zeros(len(self.truth), bool) if ignore_by_label else self.truth.ignore
        rows = np.flatnonzero(np.isin(self.truth_labels, labels) & ~for_all)
        regions = np.flatnonzero(for_all)
        first_rows = found_rows[_begins(self.found_images[found_rows], self.found_labels[found_rows])]
        images = self.found_images[first_rows]
        begin, end = (np.searchsorted(images, self.truth_images[regions], side) for side in ("left", "right"))
        counts = end - begin
        places = np.repeat(begin - np.cumsum(counts) + counts, counts) + np.arange(
            counts.sum()
        )  # begin ... end of each
        all_rows = np.concatenate([rows, np.repeat(regions, counts)])
        all_labels = np.concatenate([self.truth_labels[rows], self.found_labels[first_rows][places]])
        order = np.argsort(all_rows, kind="stable")
        return all_rows[order], all_labels[order]


def _of_both(name: str, found: Any, truth: Any, num_found: int, num_truth: int) -> tuple[Array, Array]:
    """The values of detections and of ground truth: given for both or for neither."""
    if found is None and truth is None:
        return np.zeros(num_found, np.int64), np.zeros(num_truth, np.int64)
    if found is None or truth is None:
        without = "detections" if found is None else "ground truth"
        raise ValueError(
            f"{name} must be given for both detections and ground truth or for neither, got None for {without}"
        )
    return found, truth


def _begins(images: Array, labels: Array) -> Array:
    """Where the next image or label begins, in rows sorted by both."""
    begins = np.ones(len(images), bool)
    begins[1:] = (images[1:] != images[:-1]) | (labels[1:] != labels[:-1])
    return begins


def _annotations(
    boxes: Array, labels: Array, images: Array, areas: Array | None, name: str, values: Array
) -> list[dict[str, Any]]:
    """COCO annotations as dicts; `name` is the key of the values. Areas are those of the boxes if not given."""
    boxes = boxes.astype(np.float64)
    boxes[:, 2:] -= boxes[:, :2]
    areas = boxes[:, 2] * boxes[:, 3] if areas is None else areas
    rows = zip(*(column.tolist() for column in (images, labels, boxes, areas, values)), strict=True)
    return [
        {"id": number, "image_id": image, "category_id": label, "bbox": box, "area": area, name: value}
        for number, (image, label, box, area, value) in enumerate(rows, start=1)
    ]
