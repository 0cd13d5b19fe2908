"""Run a detector up to its suppression, once per image, for any number of settings.

Everything before the suppression is the detector's own code. A recorder replaces the suppression, stores its input and
keeps all boxes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torchvision.models.detection import FasterRCNN, RetinaNet
from torchvision.ops import clip_boxes_to_image, remove_small_boxes

from experiments.clock import now
from experiments.datasets import Image
from experiments.raw import Integers, Raw, SecondStage, Truth
from hashnms.detectors.torchvision import Replacement, dense_detections, rpn_proposals


@dataclass(frozen=True)
class _Recorder(Replacement):
    """Keeps every box, and stores its input: boxes, scores and labels."""

    seen: list[Tensor] = field(default_factory=list)

    def __call__(
        self, boxes: Tensor, scores: Tensor, labels: Tensor, iou_threshold: float, usual: int
    ) -> tuple[Tensor, Tensor]:
        del iou_threshold, usual
        self.seen[:] = boxes, scores, labels
        return torch.arange(len(boxes), device=boxes.device), scores


#: A function from raw proposals to the rows for the second stage.
Choose = Callable[[Raw], Integers]


def raw_of(model: nn.Module, image: Image, *, choose: Choose | None = None, device: str = "cpu") -> Raw:
    """The output of a Faster R-CNN or a RetinaNet before it suppresses boxes.

    Boxes and ground truth are in pixels of the image as the network sees it. The candidates of each level and the score
    threshold are the model's. The second stage of a Faster R-CNN gets the chosen proposals, or all.
    """
    pixels = torch.from_numpy(image.pixels().copy()).permute(2, 0, 1).float() / 255
    height, width = pixels.shape[1:]
    model.eval()
    with torch.inference_mode():
        if isinstance(model, FasterRCNN):
            raw, (seen_height, seen_width) = _two_stage(model, pixels.to(device), choose, device)
        else:
            raw, (seen_height, seen_width) = _one_stage(model, pixels.to(device), device)
    scale = np.array([seen_width / width, seen_height / height] * 2, np.float32)
    boxes = np.clip(image.boxes, 0, np.array([width, height] * 2, np.float32)) * scale
    inside = (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
    return replace(raw, truth=Truth(boxes[inside], image.labels[inside], image.ignore[inside]))


def _two_stage(model: FasterRCNN, pixels: Tensor, choose: Choose | None, device: str) -> tuple[Raw, tuple[int, int]]:
    recorder = _Recorder()
    model.rpn.filter_proposals = partial(rpn_proposals, model.rpn, recorder)
    try:
        start = now(device)
        images, _ = model.transform([pixels])
        features = model.backbone(images.tensors)
        model.rpn(images, features)
        network_ms = 1e3 * (now(device) - start)
    finally:
        del model.rpn.filter_proposals
    shape = images.image_sizes[0]
    proposals, scores, levels = recorder.seen
    boxes, scores, labels, level = _host(proposals, scores, torch.zeros_like(levels), levels)
    raw = Raw(boxes, scores, labels, level, network_ms=network_ms)
    rows = np.arange(len(boxes)) if choose is None else choose(raw)
    second, second_ms = _second_stage(model, features, proposals, torch.from_numpy(rows).to(device), shape, device)
    return replace(raw, second=second, second_ms=second_ms), shape


def _second_stage(
    model: FasterRCNN,
    features: dict[str, Tensor],
    proposals: Tensor,
    chosen: Tensor,
    shape: tuple[int, int],
    device: str,
) -> tuple[SecondStage, float]:
    """Run the second stage on the chosen proposals, as many at a time as usual; the time is that of the first batch."""
    heads, most = model.roi_heads, model.rpn.post_nms_top_n()
    parts, milliseconds = [], []
    for some in chosen.split(most) if len(chosen) else [chosen]:
        start = now(device)
        pooled = heads.box_roi_pool(features, [proposals[some]], [shape])
        logits, regression = heads.box_predictor(heads.box_head(pooled))
        boxes = clip_boxes_to_image(heads.box_coder.decode(regression, [proposals[some]]), shape)
        milliseconds.append(1e3 * (now(device) - start))
        scores = logits.softmax(-1)[:, 1:]  # without the background
        places, classes = (scores > heads.score_thresh).nonzero(as_tuple=True)
        boxes, scores = boxes[places, classes + 1], scores[places, classes]
        valid = remove_small_boxes(boxes, 1e-2)
        parts.append([some[places[valid]], classes[valid] + 1, scores[valid], boxes[valid]])
    rows, classes, scores, boxes = _host(*(torch.cat(column) for column in zip(*parts, strict=True)))
    seen = np.zeros(len(proposals), bool)
    seen[chosen.cpu().numpy()] = True
    return SecondStage(rows, classes, scores, boxes, seen), milliseconds[0]


def _one_stage(model: RetinaNet, pixels: Tensor, device: str) -> tuple[Raw, tuple[int, int]]:
    seen: list[Any] = []

    def record(*given: Any) -> list[dict[str, Tensor]]:
        seen[:] = given
        return [_NOTHING]

    model.postprocess_detections = record
    try:
        start = now(device)
        model([pixels])
        head_outputs, anchors, shapes = seen
        parts = []
        for level, of_level in enumerate(anchors[0]):
            recorder = _Recorder()
            outputs = {name: values[level : level + 1] for name, values in head_outputs.items()}
            outputs["cls_logits"] = [outputs["cls_logits"][0][..., 1:]]  # without the background, number 0
            dense_detections(model, recorder, outputs, [[of_level]], shapes)
            boxes, scores, labels = recorder.seen
            parts.append([boxes, scores, labels + 1, torch.full_like(labels, level)])
        network_ms = 1e3 * (now(device) - start)
    finally:
        del model.postprocess_detections
    boxes, scores, labels, level = _host(*(torch.cat(column) for column in zip(*parts, strict=True)))
    return Raw(boxes, scores, labels, level, network_ms=network_ms), shapes[0]


#: An empty result that the rest of a RetinaNet can resize.
_NOTHING = {"boxes": torch.zeros(0, 4), "scores": torch.zeros(0), "labels": torch.zeros(0, dtype=torch.int64)}


def _host(*tensors: Tensor) -> Any:
    return [
        tensor.detach().cpu().numpy().astype(np.float32 if tensor.is_floating_point() else np.int64)
        for tensor in tensors
    ]
