"""The boxes that a step of a `Suppression` chooses from, and the operations on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hashnms._calls import HNMS, JOIN, NMS, NMS_SUPPRESSOR, SOFT_NMS, TOP_K, CoreCall
from hashnms._settings import BoxFormatName, ConfidenceName, HowName
from hashnms.merging import fuse_clusters, merge_groups


class Candidates(NamedTuple):
    """Arrays in the core's types, by increasing input row, so that ties go by row in every step.

    The methods `hnms`, `nms`, `soft_nms` and `top` return places among the candidates, by decreasing score, ties to the
    lower place, and the new scores of these boxes. `most`: only the first `most` boxes of each image are needed.
    `merge` and `fuse` also return the boxes, which they change. `hashnms.torch.device` has candidates that are tensors,
    with the same methods.
    """

    boxes: Any
    scores: Any
    labels: Any
    images: Any
    box_format: BoxFormatName
    rows: Any = None  #: rows in the input; None for all

    def hnms(self, alpha: float, num_hashes: int, most: int | None) -> tuple[Any, Any]:
        """As `hashnms.hnms`."""
        return self._with_scores(self._first(self._by_core(HNMS, alpha, num_hashes), most))

    def nms(self, iou_threshold: float, metric: str, inclusive: bool, most: int | None) -> tuple[Any, Any]:
        """As `hashnms.nms`."""
        return self._with_scores(self._by_core(NMS, iou_threshold, None, most, metric, inclusive))

    def soft_nms(
        self, method: str, sigma: float, iou_threshold: float, min_score: float, most: int | None
    ) -> tuple[Any, Any]:
        """As `hashnms.soft_nms`."""
        kept: tuple[Any, Any] = self._by_core(SOFT_NMS, method, sigma, iou_threshold, min_score, most)
        return kept

    def top(
        self, *, score_threshold: float | None = None, of_label: int | None = None, in_all: int | None = None
    ) -> tuple[Any, Any]:
        """The boxes above the score threshold, at most `of_label` of each label and `in_all` of each image."""
        return self._with_scores(self._by_core(TOP_K, score_threshold, of_label, in_all))

    def merge(
        self,
        how: HowName,
        iou_threshold: float,
        metric: str,
        inclusive: bool,
        most: int | None,
        *,
        transitive: bool = False,
    ) -> tuple[Any, Any, Any]:
        """Merge as `hashnms.nmm` and `hashnms.vote` do."""
        call = JOIN if transitive else NMS_SUPPRESSOR
        _, suppressor = self._by_core(call, iou_threshold, None, most, metric, inclusive)
        places, boxes, scores = self._by_arrays(_merged, suppressor, how)
        return places, scores, boxes

    def fuse(self, iou_threshold: float, confidence: ConfidenceName, most: int | None) -> tuple[Any, Any, Any]:
        """Fuse as `hashnms.weighted_boxes_fusion` does with one model; a fused box has the place of its first box."""
        self.top(in_all=0)  # the core reports invalid numbers
        places, boxes, scores = (
            self._first(values, most) for values in self._by_arrays(_fused, iou_threshold, confidence)
        )
        return places, scores, boxes

    def take(self, places: Any, scores: Any, boxes: Any = None) -> Candidates:
        """The result of a method as the candidates of the next step."""
        order = places.argsort()
        places = places[order]
        labels, images = (None if values is None else values[places] for values in (self.labels, self.images))
        taken = self.boxes[places] if boxes is None else boxes[order]
        return type(self)(taken, scores[order], labels, images, self.box_format, self.input_rows(places))

    def input_rows(self, places: Any) -> Any:
        """The rows of the input at these places."""
        return places if self.rows is None else self.rows[places]

    def _first(self, places: Any, most: int | None) -> Any:
        """The first `most` places; all places if there are several images, because `most` counts per image."""
        return places[:most] if self.images is None else places

    def _with_scores(self, places: Any) -> tuple[Any, Any]:
        return places, self.scores[places]

    def _by_core(self, call: CoreCall, *settings: Any) -> Any:
        arguments = (self.boxes, self.scores, self.labels, self.images, *settings, self.box_format)
        result = call.core(*arguments)
        return call.converted(*arguments, rows=self.rows) if result is None else result

    def _by_arrays(self, function: Callable[..., Any], *settings: Any) -> Any:
        return function(self, *settings)


def _merged(given: Candidates, suppressor: Any, how: HowName) -> tuple[Any, Any, Any]:
    return merge_groups(given.boxes, given.scores, suppressor, how, given.box_format, given.rows)


def _fused(given: Candidates, iou_threshold: float, confidence: ConfidenceName) -> tuple[Any, Any, Any]:
    one_model = np.zeros(len(given.boxes), np.int64)
    fused = fuse_clusters(
        given.boxes, given.scores, given.labels, given.images, one_model, np.ones(1), iou_threshold, confidence,
        False, given.box_format, given.rows,
    )  # fmt: skip
    return fused.founders, fused.boxes, fused.scores
