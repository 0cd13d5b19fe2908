"""Every kind of torchvision's detectors, small, with random weights and crowded scores: for tests of `detectors`."""

from functools import cache

import torch
import torchvision
from torchvision.models import detection
from torchvision.models.detection.backbone_utils import BackboneWithFPN
from torchvision.models.detection.keypoint_rcnn import KeypointRCNNHeads
from torchvision.models.detection.mask_rcnn import MaskRCNNHeads
from torchvision.ops import FrozenBatchNorm2d

from hashnms.detectors.crowded import crowd_scores

#: Channels of each level of the feature pyramid. A quarter of torchvision's: the layers of a head take a sixteenth.
_CHANNELS = 64


def _backbone():
    """A ResNet-18 with a feature pyramid."""
    body = torchvision.models.resnet18(weights=None, norm_layer=FrozenBatchNorm2d)
    layers = {f"layer{number}": str(number - 1) for number in (1, 2, 3, 4)}
    return BackboneWithFPN(body, layers, [64, 128, 256, 512], _CHANNELS)


def _mobilenet():
    """With batch norms that have seen noise: otherwise all places of an image look alike."""
    settings = {"box_score_thresh": 0.1, "rpn_pre_nms_top_n_test": 300, "rpn_post_nms_top_n_test": 300}
    settings["box_detections_per_img"] = 400
    model = detection.fasterrcnn_mobilenet_v3_large_320_fpn(weights=None, weights_backbone=None, **settings)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = 1.0
    with torch.no_grad():
        model.backbone.train()(torch.rand(2, 3, 320, 320))
    return model


_SMALL = {"num_classes": 4, "min_size": 112, "max_size": 160}
_TWO_STAGE = {**_SMALL, "rpn_pre_nms_top_n_test": 900, "rpn_post_nms_top_n_test": 200, "box_detections_per_img": 10}
_MAKERS = {
    "Faster R-CNN": lambda: detection.FasterRCNN(_backbone(), **_TWO_STAGE),
    "Mask R-CNN": lambda: detection.MaskRCNN(_backbone(), mask_head=MaskRCNNHeads(_CHANNELS, (256,), 1), **_TWO_STAGE),
    "Keypoint R-CNN": lambda: detection.KeypointRCNN(
        _backbone(), keypoint_head=KeypointRCNNHeads(_CHANNELS, (512,)), **{**_TWO_STAGE, "num_classes": 2}
    ),
    "RetinaNet": lambda: detection.RetinaNet(_backbone(), **_SMALL),
    "FCOS": lambda: detection.FCOS(_backbone(), **_SMALL),
    "MobileNet": _mobilenet,
    "SSD": lambda: detection.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=4),
}
TWO_STAGE = ["Faster R-CNN", "Mask R-CNN", "Keypoint R-CNN"]
ONE_STAGE = ["RetinaNet", "FCOS", "SSD"]


@cache
def images():
    generator = torch.Generator().manual_seed(0)
    return [torch.rand(3, height, width, generator=generator) for height, width in ((112, 140), (150, 112))]


@cache
def detector(name, copy=0):
    """A model in eval mode, the same each time: tests leave it as it was. Each number of a copy has other weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1 + copy)  # with 0 no box of Faster R-CNN is of class 1
        return crowd_scores(_MAKERS[name]().eval(), images())


@torch.no_grad()
def detections(model):
    return model(images())


def targets(name):
    """Two objects in the first image, none in the second."""
    boxes = [torch.tensor([[10.0, 10.0, 50.0, 60.0], [70.0, 20.0, 130.0, 100.0]]), torch.zeros(0, 4)]
    made = [{"boxes": b, "labels": torch.ones(len(b), dtype=torch.int64)} for b in boxes]
    for target, image in zip(made, images(), strict=True):
        if name == "Mask R-CNN":
            target["masks"] = torch.ones(len(target["boxes"]), *image.shape[1:], dtype=torch.uint8)
        if name == "Keypoint R-CNN":
            target["keypoints"] = target["boxes"][:, None, :2].repeat(1, 17, 1).add(5.0)
            target["keypoints"] = torch.cat([target["keypoints"], torch.ones(len(target["boxes"]), 17, 1)], -1)
    return made


def same(results, others):
    """Bit for bit."""
    return len(results) == len(others) and all(
        one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)
        for one, other in zip(results, others, strict=True)
    )


def nms_per_label(boxes, scores, idxs, iou_threshold):
    """What torchvision's batched_nms means: its op, label by label, then by score, ties to the lower index."""
    keep = [
        rows[torchvision.ops.nms(boxes[rows], scores[rows], iou_threshold)]
        for rows in ((idxs == label).nonzero()[:, 0] for label in idxs.unique())
    ]
    keep = torch.cat([*keep, idxs.new_zeros(0)]).sort().values
    return keep[scores[keep].sort(descending=True, stable=True).indices]
