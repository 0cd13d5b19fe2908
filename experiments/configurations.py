"""All settings of all experiments, as plain values: the paper's, and smaller ones for small machines.

The names are `detector-dataset` for the paper's own settings, with `-cpu` for a machine of two cores without a GPU, and
`-tiny` for tests. Numbers that the paper does not give are torchvision's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

DetectorName = Literal["faster_rcnn", "retinanet"]
#: "resnet50_msra" is the original ResNet-50, with its strides in the 1 x 1 convolutions.
BackboneName = Literal["resnet50", "resnet50_msra", "resnet34", "resnet18"]


@dataclass(frozen=True)
class Training:
    """How a detector is trained: SGD with a learning rate that falls tenfold after 2/3 and 8/9 of all steps."""

    epochs: float
    learning_rate: float
    batch_size: int = 16  #: over all GPUs
    momentum: float = 0.9
    weight_decay: float = 1e-4
    warm_up_steps: int = 500
    milestones: tuple[float, float] = (2 / 3, 8 / 9)
    flips: tuple[str, ...] = ("horizontal",)
    shorter_sides: tuple[int, ...] = ()  #: an image is scaled to one of these, or to the configuration's size


@dataclass(frozen=True)
class SuppressionSettings:
    """How boxes are suppressed when the detector is evaluated: the paper's P1, P2, P3 and thresholds."""

    alpha: float
    iou_threshold: float
    candidates: int = 9000  #: P1, of each level
    kept_of_level: int | None = None  #: P2, of a two-stage detector
    kept_in_all: int = 1000  #: P3; for a one-stage detector, the boxes for evaluation
    evaluated: int = 1000  #: boxes of an image that are evaluated
    score_threshold: float = 0.05


@dataclass(frozen=True)
class Configuration:
    """One experiment."""

    name: str
    detector: DetectorName
    dataset: str
    training: Training
    suppressing: SuppressionSettings
    num_classes: int = 1  #: without the background
    backbone: BackboneName = "resnet50"
    trainable_stages: int = 3  #: of the backbone's five, counted from the top
    image_size: tuple[int, int] = (800, 1333)  #: the shorter side, and the maximum of the longer side
    anchor_sizes: tuple[float, ...] = (32, 64, 128, 256, 512)  #: of each level
    sampled_anchors: int = 256  #: of an image, for the loss of the RPN
    sampled_boxes: int = 512  #: of an image, for the loss of the RoI head
    timed_images: int = 100


def _faster_rcnn(dataset: str, epochs: float, kept_of_level: int, kept_in_all: int) -> Configuration:
    suppressing = SuppressionSettings(0.7, 0.7, kept_of_level=kept_of_level, kept_in_all=kept_in_all)
    return Configuration(f"faster_rcnn-{dataset}", "faster_rcnn", dataset, Training(epochs, 0.02), suppressing)


def _retinanet(dataset: str, epochs: int, learning_rate: float) -> Configuration:
    # The paper's times for Soft-NMS are for P1 boxes of each level, whatever their scores.
    suppressing = SuppressionSettings(0.73, 0.5, score_threshold=0.0)
    return Configuration(f"retinanet-{dataset}", "retinanet", dataset, Training(epochs, learning_rate), suppressing)


_FASTER_CARPK = _faster_rcnn("carpk", 20, 2000, 4000)
_RETINA_CARPK = _retinanet("carpk", 40, 0.01)

#: The paper's data sets, Sec. 4.
_PAPER = [
    _FASTER_CARPK,
    _faster_rcnn("sku110k", 80, 1000, 1000),
    _faster_rcnn("crowdhuman", 20, 2000, 4000),
    _RETINA_CARPK,
    _retinanet("sku110k", 40, 0.005),
    _retinanet("crowdhuman", 20, 0.02),
]

#: Its appendix: data sets with few boxes per image, trained for 9,000 and 180,000 steps of 16 images.
_APPENDIX = [
    replace(_faster_rcnn("voc", 9_000 * 16 / 5_011, 2000, 4000), num_classes=20, backbone="resnet34"),
    replace(_faster_rcnn("coco", 180_000 * 16 / 118_287, 2000, 4000), num_classes=80),
]

#: Half-size CARPK on two cores: one image per step. The anchors of the finest level fit a car of about 26 pixels. The
#: cars of the training images are a fifth larger than those of the test images, hence the smaller scales.
_CPU_TRAINING = Training(
    3, 0.0025, batch_size=1, warm_up_steps=200, flips=("horizontal", "vertical"), shorter_sides=(270, 300, 330)
)
_FASTER_CPU = replace(
    _FASTER_CARPK,
    name="faster_rcnn-carpk-cpu",
    training=_CPU_TRAINING,
    backbone="resnet50_msra",
    image_size=(360, 640),
    anchor_sizes=(24, 48, 96, 192, 384),
    sampled_boxes=128,
)
_RETINA_CPU = replace(
    _RETINA_CARPK,
    name="retinanet-carpk-cpu",
    training=replace(_CPU_TRAINING, epochs=2.5),
    backbone="resnet50_msra",
    image_size=(360, 640),
    anchor_sizes=(24, 48, 96, 192, 384),
)
_OF_WHEAT: dict[str, Any] = {
    "image_size": (512, 512),
    "training": replace(_CPU_TRAINING, epochs=2.5, shorter_sides=(384, 448)),
}
_CPU = [
    _FASTER_CPU,
    _RETINA_CPU,
    *(
        replace(configuration, name=configuration.name.replace("carpk", "wheat"), dataset="wheat", **_OF_WHEAT)
        for configuration in (_FASTER_CPU, _RETINA_CPU)
    ),
]

#: A few steps of a small network, for tests.
_TINY = [
    replace(
        configuration,
        name=configuration.name.replace("-cpu", "-tiny"),
        backbone="resnet18",
        training=Training(1, 0.005, batch_size=2, warm_up_steps=5, shorter_sides=(112,)),
        trainable_stages=5,
        image_size=(128, 192),
        sampled_boxes=64,
    )
    for configuration in (_FASTER_CPU, _RETINA_CPU)
]

CONFIGURATIONS: dict[str, Configuration] = {
    configuration.name: configuration for configuration in (*_PAPER, *_APPENDIX, *_CPU, *_TINY)
}
