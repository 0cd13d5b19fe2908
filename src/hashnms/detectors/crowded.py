"""Detectors with random weights that return as many boxes as trained ones in a crowd: for demo, benchmarks, tests."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torchvision.models.detection import fasterrcnn_resnet50_fpn

Model = TypeVar("Model", bound=nn.Module)

#: The last layers of torchvision's detectors, by name, and the spread of their output: logits, box deltas.
_SPREADS = {
    r"(cls_logits|cls_score|classification_head\.module_list\.\d+(\.1)?)$": 2.0,
    r"(bbox_pred|bbox_reg|regression_head\.module_list\.\d+(\.1)?)$": 0.2,
}


@torch.no_grad()
def crowd_scores(model: Model, images: list[Tensor]) -> Model:
    """Scale the last layers of a model in eval mode so that scores spread over (0, 1) and boxes stay near anchors.

    Untrained layers give all anchors nearly the same score, too low to pass. Returns the same model.
    """
    layers = {}
    for name, module in model.named_modules():
        for pattern, spread in _SPREADS.items():
            if isinstance(module, nn.Conv2d | nn.Linear) and re.search(pattern, name):
                layers[module] = spread
    measured: dict[nn.Module, Tensor] = {}

    def measure(module: nn.Module, _inputs: Any, output: Tensor) -> None:
        measured.setdefault(module, output.std())

    handles = [layer.register_forward_hook(measure) for layer in layers]
    try:
        model(images)
    finally:
        for handle in handles:
            handle.remove()
    for layer, spread in layers.items():
        layer.weight *= spread / measured[layer].clamp(min=1e-12)
        layer.bias.zero_()
    return model


def crowded_faster_rcnn(*, size: int = 800, candidates: int = 9000, seed: int = 0) -> tuple[nn.Module, list[Tensor]]:
    """The paper's Faster R-CNN with a ResNet-50 FPN, and an image of `size` pixels; `candidates` is the paper's P1."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        images = [torch.rand(3, size, size)]
        model = fasterrcnn_resnet50_fpn(
            weights=None, weights_backbone=None, num_classes=2, min_size=size, rpn_pre_nms_top_n_test=candidates
        )
    return crowd_scores(model.eval(), images), images
