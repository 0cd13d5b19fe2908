"""Raw boxes of public YOLO models, run by onnxruntime: how the sets of real detections in the docs are made.

A model is what YOLOv5's `export.py --include onnx` or ultralytics' `model.export(format="onnx")` writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import PIL.Image
from numpy.typing import NDArray

from experiments.datasets import DatasetError, Image
from experiments.raw import Raw, Truth

#: A dataset's classes as those of COCO, which the detectors have learned; the others they do not have.
_AS_COCO = {
    **{"person": 0, "pedestrian": 0, "people": 0, "bicycle": 1, "car": 2, "van": 2, "motor": 3, "bus": 5, "truck": 7},
    "object": 0,  # the one class of SKU-110K
}
_STRIDES = (8, 16, 32)
_GREY = 114  # of what is beside the picture


@dataclass(frozen=True)
class RealSet:
    """Which images of a dataset the figures of the docs are made of."""

    dataset: str
    split: str
    weights: str  # what its detector is
    images: tuple[str, ...]


#: Name -> set. All at 1280 pixels, score above 0.001.
REAL_SETS = {
    "visdrone_yolov5s": RealSet(
        "visdrone",
        "val",
        "YOLOv5s, trained on COCO",
        (
            *("0000001_02999_d_0000005", "0000001_07999_d_0000012", "0000117_00112_d_0000087"),
            *("0000155_00401_d_0000001", "0000194_00399_d_0000121", "0000213_04998_d_0000245"),
            *("0000215_00000_d_0000256", "0000244_02000_d_0000005", "0000269_00001_d_0000348"),
            *("0000271_06201_d_0000403", "0000277_02601_d_0000552", "0000280_01201_d_0000618"),
            *("0000291_00401_d_0000870", "0000291_01001_d_0000873", "0000291_01401_d_0000875"),
            *("0000291_02201_d_0000879", "0000291_03201_d_0000884", "0000291_03801_d_0000887"),
            *("0000291_05001_d_0000892", "0000293_03601_d_0000940", "0000295_00600_d_0000024"),
            *("0000295_01000_d_0000026", "0000295_01400_d_0000028", "0000295_01800_d_0000030"),
            *("0000295_02200_d_0000032", "0000295_02900_d_0000034", "0000313_06601_d_0000469"),
            *("0000330_00201_d_0000801", "0000330_04201_d_0000821", "0000342_00393_d_0000244"),
        ),
    ),
    "mot17_yolov5n": RealSet(
        "mot17",
        "train",
        "YOLOv5n, trained on COCO",
        (
            *(f"MOT17-02_{frame:06}" for frame in range(1, 5)),
            *(f"MOT17-04_{frame:06}" for frame in range(1, 9)),
        ),
    ),
    "sku_yolov5n": RealSet(
        "sku110k",
        "test",
        "YOLOv5n, trained on a part of SKU-110K",
        tuple(f"test_{number}" for number in (0, 2, 6, 9, 12, 15, 18, 20)),
    ),
}


class Yolo:
    """An ONNX model of a YOLO detector, for pictures of one size."""

    def __init__(self, file: Path, size: int) -> None:
        if not file.is_file():
            raise DatasetError(f"weights must be an ONNX file, got {file}, which is no file")
        try:
            self._session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime has many of its own
            raise DatasetError(f"weights must be an ONNX model, got {file}: {error}") from error
        (given, *_), self.size = self._session.get_inputs(), size
        self._input = given.name
        fixed = [length for length in given.shape[2:] if isinstance(length, int)]
        if any(length != size for length in fixed):
            raise DatasetError(f"weights must be of a model for {size} x {size} pixels, got one for {fixed}")

    def rows(self, picture: NDArray[np.float32]) -> NDArray[np.float32]:
        """(N, 4 + C): centre, size and the score of each class, of each place, level after level."""
        output = np.asarray(self._session.run(None, {self._input: picture[None]})[0])[0]
        places = sum((self.size // stride) ** 2 for stride in _STRIDES)
        if output.shape[0] == 3 * places:  # YOLOv5: three anchors a place, and a score for any object at all
            return np.concatenate([output[:, :4], output[:, 4:5] * output[:, 5:]], axis=1)
        if output.shape[1] == places:  # as ultralytics exports it: no anchors
            return np.ascontiguousarray(output.T)
        raise DatasetError(f"weights must be of YOLOv5 or later, got a model whose output is {output.shape}")


def raw_of(yolo: Yolo, image: Image, classes: tuple[str, ...], *, least_score: float = 0.001) -> Raw:
    """What the detector puts out for an image, each box with its best class, and what is really there.

    Boxes are in pixels of the image, cut at its border.
    """
    pixels = image.pixels()
    picture, scale, left, top = _letterbox(pixels, yolo.size)
    rows = yolo.rows(picture)
    level = _levels(len(rows), yolo.size)
    labels, scores = rows[:, 4:].argmax(axis=1), rows[:, 4:].max(axis=1)
    centres, halves = rows[:, :2], rows[:, 2:4] / 2
    boxes = (np.concatenate([centres - halves, centres + halves], axis=1) - [left, top, left, top]) / scale
    height, width = pixels.shape[:2]
    boxes = np.clip(boxes, 0, [width, height, width, height]).astype(np.float32)
    use = (scores > least_score) & (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
    return Raw(
        boxes[use],
        scores[use].astype(np.float32),
        labels[use].astype(np.int64),
        level[use],
        truth_of(image, classes),
    )


def truth_of(image: Image, classes: tuple[str, ...]) -> Truth:
    """What is really there, with COCO's labels: -1 for what the detector does not have, and for ignored regions."""
    as_coco = np.array([-1, *(_AS_COCO.get(name, -1) for name in classes)])
    return Truth(image.boxes, np.where(image.ignore, -1, as_coco[image.labels]), image.ignore)


def _letterbox(pixels: NDArray[np.uint8], size: int) -> tuple[NDArray[np.float32], float, int, int]:
    """The picture in the middle of a grey square, as (3, size, size) in 0 .. 1; its scale, and where it begins."""
    height, width = pixels.shape[:2]
    scale = size / max(height, width)
    scaled = round(width * scale), round(height * scale)
    left, top = (size - scaled[0]) // 2, (size - scaled[1]) // 2
    square = np.full((size, size, 3), _GREY, np.uint8)
    inner: Any = PIL.Image.fromarray(pixels).resize(scaled, PIL.Image.Resampling.BILINEAR)
    square[top : top + scaled[1], left : left + scaled[0]] = inner
    return square.transpose(2, 0, 1).astype(np.float32) / np.float32(255), scale, left, top


def _levels(count: int, size: int) -> NDArray[np.int64]:
    """The level of each row: they come level after level."""
    places = np.array([(size // stride) ** 2 for stride in _STRIDES])
    return np.repeat(np.arange(len(places)), places * (count // places.sum()))
