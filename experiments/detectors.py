"""The paper's two detectors on torchvision: Faster R-CNN and RetinaNet, with a ResNet and a feature pyramid."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn
from torchvision.models import resnet
from torchvision.models.detection import FasterRCNN, RetinaNet
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.backbone_utils import BackboneWithFPN, _resnet_fpn_extractor
from torchvision.ops.feature_pyramid_network import LastLevelP6P7
from torchvision.ops.misc import FrozenBatchNorm2d

from experiments.configurations import Configuration

_ASPECT_RATIOS = (0.5, 1.0, 2.0)


def make_detector(configuration: Configuration, backbone_weights: Path | None = None) -> nn.Module:
    """A detector with new heads, and a backbone with these weights or new ones."""
    backbone = _backbone(configuration, backbone_weights)
    make = {"faster_rcnn": _faster_rcnn, "retinanet": _retinanet}[configuration.detector]
    return make(configuration, backbone).to(memory_format=torch.channels_last)  # faster convolutions on CPUs and GPUs


def _backbone(configuration: Configuration, weights: Path | None) -> BackboneWithFPN:
    name, _, of_msra = configuration.backbone.partition("_")
    body = getattr(resnet, name)(weights=None, norm_layer=FrozenBatchNorm2d)
    if of_msra:
        for stage in (body.layer2, body.layer3, body.layer4):
            stage[0].conv1.stride, stage[0].conv2.stride = (2, 2), (1, 1)
    if weights is not None:
        _load_backbone(body, weights)
    stages = configuration.trainable_stages
    if configuration.detector == "faster_rcnn":
        return _resnet_fpn_extractor(body, stages)
    return _resnet_fpn_extractor(body, stages, returned_layers=[2, 3, 4], extra_blocks=LastLevelP6P7(256, 256))


def _load_backbone(body: nn.Module, file: Path) -> None:
    """Load weights by torchvision's names, without the last layer: an NPZ file of arrays, or a torch file."""
    if file.suffix == ".npz":
        with np.load(file, allow_pickle=False) as arrays:
            state = {name: torch.from_numpy(arrays[name].astype(np.float32)) for name in arrays.files}
    else:
        state = torch.load(file, map_location="cpu", weights_only=True)
    state = {name: value for name, value in state.items() if not name.startswith("fc.")}
    result = body.load_state_dict(state, strict=False)
    missing = [name for name in result.missing_keys if not name.startswith("fc.")]
    unexpected = [name for name in result.unexpected_keys if not name.endswith("num_batches_tracked")]
    if missing or unexpected:
        first = f"{len(missing)} missing ({', '.join(missing[:2])}), {len(unexpected)} unknown"
        raise ValueError(f"{file} must hold the weights of a torchvision ResNet of this size, got {first}")


def _shorter_sides(configuration: Configuration) -> tuple[int, ...]:
    """The shorter sides as torchvision's detectors take them: a random one in training, the last one otherwise."""
    return (*configuration.training.shorter_sides, configuration.image_size[0])


def _faster_rcnn(configuration: Configuration, backbone: BackboneWithFPN) -> FasterRCNN:
    suppressing = configuration.suppressing
    sizes = tuple((size,) for size in configuration.anchor_sizes)
    return FasterRCNN(
        backbone,
        num_classes=configuration.num_classes + 1,
        min_size=_shorter_sides(configuration),
        max_size=configuration.image_size[1],
        rpn_anchor_generator=AnchorGenerator(sizes, (_ASPECT_RATIOS,) * len(sizes)),
        rpn_pre_nms_top_n_test=suppressing.candidates,
        rpn_post_nms_top_n_test=suppressing.kept_in_all,
        rpn_nms_thresh=suppressing.iou_threshold,
        rpn_batch_size_per_image=configuration.sampled_anchors,
        box_batch_size_per_image=configuration.sampled_boxes,
        box_detections_per_img=suppressing.evaluated,
        box_score_thresh=suppressing.score_threshold,
    )


def _retinanet(configuration: Configuration, backbone: BackboneWithFPN) -> RetinaNet:
    suppressing = configuration.suppressing
    sizes = tuple(tuple(size * 2 ** (k / 3) for k in range(3)) for size in configuration.anchor_sizes)
    return RetinaNet(
        backbone,
        num_classes=configuration.num_classes + 1,
        min_size=_shorter_sides(configuration),
        max_size=configuration.image_size[1],
        anchor_generator=AnchorGenerator(sizes, (_ASPECT_RATIOS,) * len(sizes)),
        topk_candidates=suppressing.candidates,
        nms_thresh=suppressing.iou_threshold,
        detections_per_img=suppressing.evaluated,
        score_thresh=suppressing.score_threshold,
    )
