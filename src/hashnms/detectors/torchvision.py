"""The methods of torchvision's detectors that call NMS, with a `Replacement` for it: one function per method.

Each function takes the module, the replacement and the arguments of the method. It calls the same operations on the
same numbers, so that everything except the suppression is the same as in the method, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torchvision.models.detection import FCOS, RetinaNet
from torchvision.models.detection._utils import _topk_min
from torchvision.models.detection.roi_heads import RoIHeads
from torchvision.models.detection.rpn import RegionProposalNetwork
from torchvision.models.detection.ssd import SSD
from torchvision.ops import clip_boxes_to_image, remove_small_boxes

from hashnms import Limit, SoftNms, Suppression, TopK
from hashnms.detectors._offsets import torchvision_keep
from hashnms.detectors.exporting import is_exporting


@dataclass(frozen=True)
class Replacement:
    """The replacement for a detector's NMS: exact NMS at the detector's own threshold, or a suppression.

    Unless it says otherwise, the detector's own numbers of candidates and of returned boxes apply. Exact NMS keeps
    labels apart as torchvision does, with offsets where there are few boxes, or exactly.
    """

    suppression: Suppression | None = None
    most_candidates: int | None = None
    exact_labels: bool = False

    def candidates(self, usual: int) -> int:
        """The number of candidates, where the detector's own number is `usual`."""
        return usual if self.most_candidates is None else self.most_candidates

    def __call__(
        self, boxes: Tensor, scores: Tensor, labels: Tensor, iou_threshold: float, usual: int
    ) -> tuple[Tensor, Tensor]:
        """The kept rows and their scores; at most `usual` if there is no `Limit` at the end."""
        if self.suppression is None:
            keep = torchvision_keep(boxes, scores, labels, iou_threshold, usual, exact_labels=self.exact_labels)
            return keep, scores[keep]
        kept: Any = self.suppression(boxes, scores, labels)
        most = None if isinstance(self.suppression.steps[-1], Limit) else usual
        keep, decayed = kept.keep[:most], kept.scores[:most]
        soft = any(isinstance(step, SoftNms) for step in self.suppression.steps)
        return keep, decayed.to(scores.dtype) if soft else scores[keep]

    def __str__(self) -> str:
        if self.suppression is None:
            return "exact NMS, exact labels," if self.exact_labels else "exact NMS"
        front = [] if self.most_candidates is None else [TopK(self.most_candidates)]
        return str(Suppression([*front, *self.suppression.steps]))


def rpn_proposals(
    rpn: RegionProposalNetwork,
    replacement: Replacement,
    proposals: Tensor,
    objectness: Tensor,
    image_shapes: list[tuple[int, int]],
    num_anchors_per_level: list[int],
) -> tuple[list[Tensor], list[Tensor]]:
    """`RegionProposalNetwork.filter_proposals`; labels are the levels."""
    objectness = objectness.detach().reshape(len(proposals), -1)
    most = replacement.candidates(rpn.pre_nms_top_n())
    rows_of_levels, labels, start = [], [], 0
    for level, count in enumerate(num_anchors_per_level):
        scores_of_level = objectness[:, start : start + count]
        best = scores_of_level.topk(_topk_min(scores_of_level, most, 1), dim=1).indices
        rows_of_levels.append(best + start)
        labels.append(torch.full_like(best[0], level))
        start += count
    rows, levels = torch.cat(rows_of_levels, 1), torch.cat(labels)
    all_scores = objectness.gather(1, rows).sigmoid()  # in one call: the last bit can depend on the position
    results = []
    for image, shape in enumerate(image_shapes):
        boxes, scores = clip_boxes_to_image(proposals[image, rows[image]], shape), all_scores[image]
        large = remove_small_boxes(boxes, rpn.min_size)
        valid = large[scores[large] >= rpn.score_thresh]
        boxes, scores = boxes[valid], scores[valid]
        keep, scores = replacement(boxes, scores, levels[valid], rpn.nms_thresh, rpn.post_nms_top_n())
        results.append((boxes[keep], scores))
    return [boxes for boxes, _ in results], [scores for _, scores in results]


def roi_detections(
    heads: RoIHeads,
    replacement: Replacement,
    class_logits: Tensor,
    box_regression: Tensor,
    proposals: list[Tensor],
    image_shapes: list[tuple[int, int]],
) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """`RoIHeads.postprocess_detections`; labels are the classes; 0 is the background."""
    counts = [boxes.shape[0] for boxes in proposals]  # no len(): when traced, it would be that of the example
    boxes_of_images = heads.box_coder.decode(box_regression, proposals).split(counts)
    scores_of_images = class_logits.softmax(-1).split(counts)
    classes = torch.arange(1, class_logits.shape[-1], device=class_logits.device)
    results = []
    for all_boxes, all_scores, shape in zip(boxes_of_images, scores_of_images, image_shapes, strict=True):
        boxes = clip_boxes_to_image(all_boxes, shape)[:, 1:].reshape(-1, 4)
        scores = all_scores[:, 1:].reshape(-1)
        labels = classes.repeat(all_scores.shape[0])
        above = (scores > heads.score_thresh).nonzero()[:, 0]
        valid = above[remove_small_boxes(boxes[above], min_size=1e-2)]
        results.append(
            _kept(replacement, boxes[valid], scores[valid], labels[valid], heads.nms_thresh, heads.detections_per_img)
        )
    return [r.boxes for r in results], [r.scores for r in results], [r.labels for r in results]


def dense_detections(
    model: RetinaNet | FCOS,
    replacement: Replacement,
    head_outputs: dict[str, list[Tensor]],
    anchors: list[list[Tensor]],
    image_shapes: list[tuple[int, int]],
) -> list[dict[str, Tensor]]:
    """`postprocess_detections` of RetinaNet and FCOS; candidates are chosen by level, labels are the classes."""
    decode = model.box_coder.decode if isinstance(model, FCOS) else model.box_coder.decode_single
    most = replacement.candidates(model.topk_candidates)
    results = []
    for image, shape in enumerate(image_shapes):
        levels = []
        for level, anchors_of_level in enumerate(anchors[image]):
            scores = head_outputs["cls_logits"][level][image].sigmoid()
            if isinstance(model, FCOS):
                scores = (scores * head_outputs["bbox_ctrness"][level][image].sigmoid()).sqrt()
            rows, best_scores = _best_above(scores.flatten(), model.score_thresh, most)
            anchor, label = rows // scores.shape[-1], rows % scores.shape[-1]
            regression = head_outputs["bbox_regression"][level][image]
            boxes = clip_boxes_to_image(decode(regression[anchor], anchors_of_level[anchor]), shape)
            levels.append((boxes, best_scores, label))
        boxes, scores, labels = (torch.cat(parts) for parts in zip(*levels, strict=True))
        results.append(_kept(replacement, boxes, scores, labels, model.nms_thresh, model.detections_per_img)._asdict())
    return results


def ssd_detections(
    model: SSD,
    replacement: Replacement,
    head_outputs: dict[str, Tensor],
    image_anchors: list[Tensor],
    image_shapes: list[tuple[int, int]],
) -> list[dict[str, Tensor]]:
    """`SSD.postprocess_detections`; candidates are chosen by class, labels are the classes; 0 is the background."""
    most = replacement.candidates(model.topk_candidates)
    all_scores = head_outputs["cls_logits"].softmax(-1)
    results = []
    for regression, scores_of_image, anchors, shape in zip(
        head_outputs["bbox_regression"], all_scores, image_anchors, image_shapes, strict=True
    ):
        all_boxes = clip_boxes_to_image(model.box_coder.decode_single(regression, anchors), shape)
        classes = []
        for label in range(1, all_scores.shape[-1]):
            rows, best_scores = _best_above(scores_of_image[:, label], model.score_thresh, most)
            classes.append((all_boxes[rows], best_scores, torch.full_like(rows, label)))
        boxes, scores, labels = (torch.cat(parts) for parts in zip(*classes, strict=True))
        results.append(_kept(replacement, boxes, scores, labels, model.nms_thresh, model.detections_per_img)._asdict())
    return results


class _Detections(NamedTuple):
    boxes: Tensor
    scores: Tensor
    labels: Tensor


def _kept(
    replacement: Replacement, boxes: Tensor, scores: Tensor, labels: Tensor, iou_threshold: float, usual: int
) -> _Detections:
    keep, scores = replacement(boxes, scores, labels, iou_threshold, usual)
    return _Detections(boxes[keep], scores, labels[keep])


def _best_above(scores: Tensor, score_threshold: float, most: int) -> tuple[Tensor, Tensor]:
    """The rows with the best scores above the threshold, and these scores."""
    above = (scores > score_threshold).nonzero()[:, 0]
    scores = scores[above]
    best_scores, places = scores.topk(_topk_min(scores, most, 0))
    return above[places], best_scores


class Place(NamedTuple):
    """A method that suppresses boxes, and its replacement."""

    kind: type[nn.Module]
    method: str
    function: Callable[..., Any]
    of_proposals: bool = False
    chooses_candidates: bool = True
    helper: str | None = None  # a method that only the original calls

    def replacement(
        self, proposals: Suppression | None, final: Suppression | None, exact_labels: bool = False
    ) -> Replacement:
        """The replacement for this place. In a method that chooses candidates, a `TopK` at its start says how many."""
        suppression = proposals if self.of_proposals else final
        if suppression is None or not self.chooses_candidates or not isinstance(suppression.steps[0], TopK):
            return Replacement(suppression, exact_labels=exact_labels)
        return Replacement(Suppression(suppression.steps[1:]), suppression.steps[0].k)


@dataclass(frozen=True)
class StandIn:
    """What an accelerated module has in place of a method: it is called instead, and shows in the module's repr."""

    module: nn.Module
    place: Place
    replacement: Replacement

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the replaced method. In exported graphs, exact NMS is torchvision's own, which other runtimes know."""
        if self.replacement.suppression is None and is_exporting():
            return getattr(type(self.module), self.place.method)(self.module, *args, **kwargs)
        return self.place.function(self.module, self.replacement, *args, **kwargs)

    def __str__(self) -> str:
        return f"{self.replacement} by hashnms"

    def extra_repr(self) -> str:
        """The module's own `extra_repr`, and a line."""
        lines = [type(self.module).extra_repr(self.module), f"{self.place.method}: {self}"]
        return "\n".join(filter(None, lines))

    def attributes(self) -> dict[str, Any]:
        """The attributes that it adds to the module."""
        return {self.place.method: self, "extra_repr": self.extra_repr}


#: Every method of torchvision's detectors that suppresses boxes.
PLACES = [
    Place(RegionProposalNetwork, "filter_proposals", rpn_proposals, of_proposals=True, helper="_get_top_n_idx"),
    Place(RoIHeads, "postprocess_detections", roi_detections, chooses_candidates=False),
    Place(RetinaNet, "postprocess_detections", dense_detections),
    Place(FCOS, "postprocess_detections", dense_detections),
    Place(SSD, "postprocess_detections", ssd_detections),
]

SUPPORTED = "Faster R-CNN, Mask R-CNN, Keypoint R-CNN, RetinaNet, FCOS, SSD"
