"""Methods that users have today, with one signature: from a workload to a call that returns the kept rows.

Inputs are converted to the form that the peer wants before the call, so only its own work is timed. A peer is imported
on first use; peers that are not installed are left out.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

import hashnms
from benchmarks.plain import plain_hnms, plain_nms, plain_soft_nms

Call = Callable[[], Any]


class Workload(NamedTuple):
    """Boxes to suppress: float32 xyxy, float32 scores, and labels if there are several classes."""

    name: str
    boxes: Any
    scores: Any
    labels: Any | None = None
    iou_threshold: float = 0.5

    def first(self, count: int) -> Workload:
        """The workload with only its first boxes."""
        labels = None if self.labels is None else self.labels[:count]
        return self._replace(boxes=self.boxes[:count], scores=self.scores[:count], labels=labels)


@dataclass(frozen=True)
class Peer:
    """A function of another package. `module` must be installed."""

    name: str
    module: str
    call: Callable[[Workload], Call]
    returns_scores: bool = False  # scores of the kept boxes instead of rows
    approximates: bool = False  # not an exact method
    bytes_per_pair: float = 0.0  # peak bytes per pair of boxes, if that limits it

    def installed(self) -> bool:
        return find_spec(self.module) is not None


SIGMA, MIN_SCORE = 0.5, 1e-3  # of Soft-NMS
ALPHA = 0.7  # of HNMS


def hashnms_nms(work: Workload) -> Call:
    if work.labels is None:
        return lambda: hashnms.nms(work.boxes, work.scores, work.iou_threshold)
    return lambda: hashnms.nms(work.boxes, work.scores, work.iou_threshold, labels=work.labels)


def hashnms_nms_of_tensors(work: Workload) -> Call:
    import torch

    boxes, scores = torch.from_numpy(work.boxes), torch.from_numpy(work.scores)
    if work.labels is None:
        return lambda: hashnms.nms(boxes, scores, work.iou_threshold)
    labels = torch.from_numpy(work.labels)
    return lambda: hashnms.nms(boxes, scores, work.iou_threshold, labels=labels)


def torchvision_nms(work: Workload) -> Call:
    import torch
    import torchvision

    boxes, scores = torch.from_numpy(work.boxes), torch.from_numpy(work.scores)
    if work.labels is None:
        return lambda: torchvision.ops.nms(boxes, scores, work.iou_threshold)
    labels = torch.from_numpy(work.labels)
    return lambda: torchvision.ops.batched_nms(boxes, scores, labels, work.iou_threshold)


def ultralytics_nms(work: Workload) -> Call:
    """Ultralytics' own NMS, which it uses if torchvision is not imported."""
    os.environ.setdefault("YOLO_CONFIG_DIR", tempfile.gettempdir())  # it writes settings when imported
    import torch

    with np.printoptions():  # it also changes how arrays are printed
        from ultralytics.utils.nms import TorchNMS

    boxes, scores = torch.from_numpy(work.boxes), torch.from_numpy(work.scores)
    if work.labels is not None:  # like its own non_max_suppression
        boxes = boxes + 7680.0 * torch.from_numpy(work.labels)[:, None]
    return lambda: TorchNMS.nms(boxes, scores, work.iou_threshold)


def lsnms_nms(work: Workload) -> Call:
    import lsnms

    boxes, scores = work.boxes.astype(np.float64), work.scores.astype(np.float64)
    return lambda: lsnms.nms(boxes, scores, work.iou_threshold, class_ids=work.labels)


def powerboxes_nms(work: Workload, tree: bool = False) -> Call:
    import powerboxes

    function = powerboxes.rtree_nms if tree else powerboxes.nms
    boxes, scores = work.boxes, work.scores.astype(np.float64)
    return lambda: function(boxes, scores, work.iou_threshold, -1.0)


def opencv_nms(work: Workload) -> Call:
    import cv2

    xywh = np.concatenate([work.boxes[:, :2], work.boxes[:, 2:] - work.boxes[:, :2]], axis=1).astype(np.float64)
    scores = work.scores
    if work.labels is None:
        return lambda: cv2.dnn.NMSBoxes(xywh, scores, 0.0, work.iou_threshold)
    labels = work.labels.astype(np.int32)
    return lambda: cv2.dnn.NMSBoxesBatched(xywh, scores, labels, 0.0, work.iou_threshold)


def supervision_nms(work: Workload) -> Call:
    import supervision

    columns = [work.boxes, work.scores[:, None]] + ([] if work.labels is None else [work.labels[:, None]])
    predictions = np.concatenate(columns, axis=1).astype(np.float32)
    return lambda: np.flatnonzero(supervision.box_non_max_suppression(predictions, work.iou_threshold))


def ensemble_boxes_nms(work: Workload) -> Call:
    import ensemble_boxes

    shares = work.boxes / max(work.boxes.max(initial=0), 1.0)
    labels = np.zeros(len(shares)) if work.labels is None else work.labels
    lists = [shares], [work.scores], [labels]
    return lambda: ensemble_boxes.nms(*lists, iou_thr=work.iou_threshold)[1]


def onnxruntime_nms(work: Workload) -> Call:
    """Labels are consecutive images with equal numbers of boxes."""
    import onnx
    import onnxruntime

    kinds = {"boxes": 1, "scores": 1, "most": 7, "iou": 1}  # float and int64
    node = onnx.helper.make_node("NonMaxSuppression", [*kinds], ["selected"])
    inputs = [onnx.helper.make_tensor_value_info(name, kind, None) for name, kind in kinds.items()]
    output = onnx.helper.make_tensor_value_info("selected", 7, [None, 3])
    graph = onnx.helper.make_graph([node], "nms", inputs, [output])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    images = 1 if work.labels is None else len(np.unique(work.labels))
    boxes = work.boxes.reshape(images, -1, 4)
    feed = {
        "boxes": boxes,
        "scores": work.scores.reshape(images, 1, -1),
        "most": np.array([boxes.shape[1]]),
        "iou": np.array([work.iou_threshold], np.float32),
    }
    return lambda: session.run(None, feed)[0] @ [boxes.shape[1], 0, 1]


def hashnms_soft_nms(work: Workload) -> Call:
    return lambda: hashnms.soft_nms(work.boxes, work.scores, sigma=SIGMA, min_score=MIN_SCORE, labels=work.labels)[0]


def opencv_soft_nms(work: Workload) -> Call:
    import cv2

    xywh = np.rint(np.concatenate([work.boxes[:, :2], work.boxes[:, 2:] - work.boxes[:, :2]], axis=1)).astype(int)
    listed, scores = xywh.tolist(), work.scores.tolist()  # it accepts only lists of integer boxes
    method = cv2.dnn.SOFT_NMSMETHOD_SOFTNMS_GAUSSIAN
    return lambda: cv2.dnn.softNMSBoxes(listed, scores, MIN_SCORE, 0.3, sigma=SIGMA, method=method)[1]


def ensemble_boxes_soft_nms(work: Workload) -> Call:
    import ensemble_boxes

    lists = [work.boxes / work.boxes.max()], [work.scores], [np.zeros(len(work.boxes))]
    return lambda: ensemble_boxes.soft_nms(*lists, method=2, sigma=SIGMA, thresh=MIN_SCORE)[1]


def hashnms_hnms(work: Workload, num_hashes: int = 1) -> Call:
    return lambda: hashnms.hnms(work.boxes, work.scores, alpha=ALPHA, num_hashes=num_hashes, labels=work.labels)


def numpy_hnms(work: Workload) -> Call:
    """HNMS with one hash as one would write it in NumPy, for boxes with area."""
    corners, sizes = work.boxes[:, :2].astype(np.float64), work.boxes[:, 2:].astype(np.float64) - work.boxes[:, :2]

    def call() -> Any:
        indices = np.floor(-np.log(sizes) / np.log(ALPHA) + 0.5)
        pitches = ALPHA**-indices * (1 - ALPHA) / (1 + ALPHA)
        codes = np.concatenate([indices, np.floor((corners + sizes / 2) / pitches + 0.5)], axis=1)
        order = np.argsort(-work.scores, kind="stable")
        return order[np.sort(np.unique(codes[order], axis=0, return_index=True)[1])]

    return call


OUR_NMS = Peer("hashnms nms", "hashnms", hashnms_nms)
OUR_SOFT_NMS = Peer("hashnms soft_nms", "hashnms", hashnms_soft_nms)
OUR_HNMS = Peer(f"hashnms hnms:{ALPHA}/1", "hashnms", hashnms_hnms, approximates=True)

OUR_NMS_OF_TENSORS = Peer("hashnms nms, tensors", "torch", hashnms_nms_of_tensors)

NMS = [
    OUR_NMS_OF_TENSORS,
    OUR_HNMS,
    Peer(f"hashnms hnms:{ALPHA}/4", "hashnms", lambda work: hashnms_hnms(work, 4), approximates=True),
    Peer("torchvision", "torchvision", torchvision_nms),
    Peer("ultralytics TorchNMS", "ultralytics", ultralytics_nms),
    Peer("lsnms", "lsnms", lsnms_nms),
    Peer("powerboxes nms", "powerboxes", powerboxes_nms),
    Peer("powerboxes rtree_nms", "powerboxes", lambda work: powerboxes_nms(work, tree=True)),
    Peer("OpenCV", "cv2", opencv_nms),
    Peer("supervision", "supervision", supervision_nms, bytes_per_pair=55),
    Peer("ensemble-boxes", "ensemble_boxes", ensemble_boxes_nms, returns_scores=True),
    Peer("onnxruntime", "onnxruntime", onnxruntime_nms),
    Peer("plain loop", "hashnms", plain_nms),
]
#: Peers that handle classes.
LABELLED_NMS = [peer for peer in NMS if not peer.name.startswith(("powerboxes", "onnxruntime"))]
#: Peers that handle several images.
BATCHED_NMS = [peer for peer in NMS if not peer.name.startswith("powerboxes")]

SOFT_NMS = [
    Peer("OpenCV", "cv2", opencv_soft_nms),
    Peer("ensemble-boxes", "ensemble_boxes", ensemble_boxes_soft_nms, returns_scores=True),
    Peer("plain loop", "hashnms", lambda work: plain_soft_nms(work, SIGMA, MIN_SCORE)),
]

HNMS = [
    Peer("NumPy", "numpy", numpy_hnms),
    Peer("plain hash map", "hashnms", lambda work: plain_hnms(work, ALPHA)),
]
