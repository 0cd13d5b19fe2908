"""Calls of hashnms in ONNX: standard operators, such as NonMaxSuppression, instead of the ops.

NonMaxSuppression gets boxes by decreasing score, and distinct ranks instead of scores. So the result does not depend on
what the standard leaves open (ties, and the order of selected boxes), and scores may have any type. Ties go to the
lower row, as everywhere: the sort before it is ONNX's TopK, which does this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch import Tensor

from hashnms._calls import BATCHED_NMS, NMS
from hashnms._candidates import Candidates
from hashnms._settings import BoxFormatName
from hashnms.hashing import IoUHash, hash_family
from hashnms.pipeline import Suppression
from hashnms.torch import portable
from hashnms.torch.device import TensorCandidates, first_of_each, float_below

_HELD_BY_FLOAT32 = (torch.float32, torch.float16, torch.bfloat16, torch.int16, torch.int8, torch.uint8)
_NOT_HELD_BY_FLOAT32 = (torch.float64, torch.int64, torch.int32, torch.uint64, torch.uint32)
_NO_LIMIT = 2**31 - 1  # more boxes than any runtime has


def refuse(what: str, *_: Any) -> NoReturn:
    """Raise an error that says that this cannot be exported, and what can."""
    raise TypeError(
        f"{what} cannot be exported to ONNX. These can: hnms, hnms_mask, nms and batched_nms by IoU, and a Suppression "
        "of top, score, hnms, nms and limit. Or export the model without its suppression, and suppress its output"
    )


class OnnxCandidates(TensorCandidates):
    """Tensors of a graph that is being exported. No method reads a value or the number of boxes."""

    @staticmethod
    def of(boxes: Tensor, scores: Any, labels: Any, images: Any, box_format: BoxFormatName) -> OnnxCandidates:
        """The candidates of a call: scores are float32 or float64, labels and images int64 or such floats."""
        if boxes.ndim != 2:
            raise ValueError(f"boxes must have shape (N, 4), got {boxes.ndim} axes")
        plain_scores = _as_floats(_column("scores", scores))
        plain_labels = None if labels is None else _as_group(_column("labels", labels))
        plain_images = None if images is None else _as_group(_column("images", images))
        return OnnxCandidates(boxes.detach(), plain_scores, plain_labels, plain_images, box_format)

    def hnms(self, alpha: float, num_hashes: int, most: int | None) -> tuple[Tensor, Tensor]:
        places, _ = self.hashed(portable.hnms, hash_family(alpha, num_hashes))
        return self._with_scores(self._first(places, most))

    def hashed(self, method: Callable[..., Any], functions: list[IoUHash]) -> Any:
        """Run HNMS with a function of `portable`."""
        alpha = functions[0].alpha
        if alpha > portable.LARGEST_ALPHA:
            raise ValueError(f"alpha must be at most {portable.LARGEST_ALPHA} in ONNX, got {alpha}")
        return method(self.boxes, self.scores, self.pairs(), functions, self.box_format)

    def nms(self, iou_threshold: float, metric: str, inclusive: bool, most: int | None) -> tuple[Tensor, Tensor]:
        if metric != "iou":
            refuse(f"nms with metric={metric!r}")
        order, labels = portable.ranked(self.scores), self.pairs()
        kept = _kept_by_rank(
            self._corners().index_select(0, order),
            None if labels is None else labels.index_select(0, order),
            float_below(iou_threshold, torch.float32, or_at=not inclusive),
            most,
        )
        return self._with_scores(self._first(order[kept], most))

    def _corners(self) -> Tensor:
        """The corners of boxes, rounded as in the core."""
        if self.boxes.dtype not in _HELD_BY_FLOAT32:
            raise TypeError(
                f"boxes must be float32 or a smaller type for nms in ONNX, got {self.boxes.dtype}: "
                "NonMaxSuppression takes float32; boxes.float() rounds them"
            )
        first, second = self.boxes.float().split(2, dim=1)
        if self.box_format == "xywh":
            second = first + second
        elif self.box_format == "cxcywh":
            first, second = first - second / 2, first + second / 2
        return torch.cat([first, second], dim=1)

    def _first(self, places: Tensor, most: int | None) -> Tensor:
        return places if most is None else first_of_each(self.images, places, most)

    def _by_core(self, call: Any, *_: Any) -> NoReturn:
        refuse(call.name)


def _column(name: str, values: Any) -> Tensor:
    if not isinstance(values, Tensor) or values.ndim != 1:
        got = f"{values.ndim} axes" if isinstance(values, Tensor) else type(values).__name__
        raise ValueError(f"{name} must be a tensor of shape (N,) in ONNX, got {got}")
    return values.detach()


def _as_floats(values: Tensor) -> Tensor:
    return values.double() if values.dtype in _NOT_HELD_BY_FLOAT32 else values.float()


def _as_group(values: Tensor) -> Tensor:
    return _as_floats(values) if values.is_floating_point() else values.to(torch.int64)


def nms(boxes: Tensor, scores: Any, labels: Any, images: Any, *settings: Any) -> Tensor:
    """As `hashnms.nms`."""
    iou_threshold, score_threshold, max_output, metric, inclusive, box_format = NMS.checked(*settings)
    given: Candidates = OnnxCandidates.of(boxes, scores, labels, images, box_format)
    if score_threshold is not None:
        given = given.take(*given.top(score_threshold=score_threshold))
    places, _ = given.nms(iou_threshold, metric, inclusive, max_output)
    keep: Tensor = given.input_rows(places)
    return keep


def batched_nms(boxes: Tensor, scores: Any, idxs: Any, *settings: Any) -> Tensor:
    """As `hashnms.batched_nms`."""
    (iou_threshold,) = BATCHED_NMS.checked(*settings)
    return OnnxCandidates.of(boxes, scores, idxs, None, "xyxy").nms(iou_threshold, "iou", False, None)[0]


def suppress(suppression: Suppression, boxes: Tensor, *given: Any) -> tuple[Any, ...]:
    """Run a suppression: the remaining rows and their scores."""
    for step in suppression.steps:
        if step.changes_scores or step.changes_boxes:
            refuse(f"the step {step}")
    return suppression.run(OnnxCandidates.of(boxes, *given))


def _kept_by_rank(corners: Tensor, labels: Tensor | None, iou_threshold: float, most: int | None) -> Tensor:
    """For each box, given by decreasing score, whether NonMaxSuppression keeps it."""
    count, device = corners.shape[0], corners.device
    scores = torch.arange(count, 0, -1, device=device).to(torch.float32).unsqueeze(0)
    if labels is not None:  # a row for each label, in which boxes of other labels have no score
        names = labels[portable.are_first([labels])]
        scores = torch.where(names.unsqueeze(1) == labels, scores, 0.0)
    limit = _NO_LIMIT if most is None else min(most, _NO_LIMIT)
    some_score = 0.5  # the lowest rank is 1, and 0 means no score
    selected = _non_max_suppression(corners.unsqueeze(0), scores.unsqueeze(0), limit, iou_threshold, some_score)
    ranks = selected[:, 2]
    kept = torch.zeros(count, dtype=torch.bool, device=device)
    return kept.scatter(0, ranks, torch.ones_like(ranks, dtype=torch.bool))


def _non_max_suppression(boxes: Tensor, scores: Tensor, *limits: float) -> Tensor:
    """The operator: a row (batch, label, box) for each selected box. Limits: boxes of a label, IoU, score."""
    if torch.jit.is_tracing():
        traced: Tensor = _TracedOperator.apply(boxes, scores, *limits)
        return traced
    some = boxes[0, :, 0].nonzero().shape[0]  # an unknown size; the exporter drops the operations that would compute it
    selected: Tensor = torch.onnx.ops.symbolic(
        "NonMaxSuppression", (boxes, scores, *_as_inputs(*limits)), dtype=torch.int64, shape=(some, 3)
    )
    return selected.to(boxes.device)


def _as_inputs(most: float, *thresholds: float) -> tuple[Tensor, ...]:
    return torch.tensor([most]), *(torch.tensor([threshold], dtype=torch.float32) for threshold in thresholds)


class _TracedOperator(torch.autograd.Function):
    """The operator for `torch.onnx.export(dynamo=False)`, which runs the code on an example: a node and a result."""

    @staticmethod
    def forward(_: Any, boxes: Tensor, scores: Tensor, most: int, iou_threshold: float, least_score: float) -> Tensor:
        """The boxes selected in the example."""
        names, rows = (scores[0] > least_score).nonzero(as_tuple=True)
        settings = (iou_threshold, None, None, "iou", False, "xyxy")
        keep = torch.from_numpy(NMS.converted(boxes[0, rows], scores[0, names, rows], names, None, *settings))
        keep = keep[portable.are_among_first([names[keep]], most)]
        return torch.stack([torch.zeros_like(keep), names[keep], rows[keep]], dim=1)

    @staticmethod
    def symbolic(graph: Any, boxes: Any, scores: Any, *limits: float) -> Any:
        """The node in the model."""
        inputs = (graph.op("Constant", value_t=tensor) for tensor in _as_inputs(*limits))
        return graph.op("NonMaxSuppression", boxes, scores, *inputs)
