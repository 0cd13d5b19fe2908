"""The suppressions that the tables compare: the paper's baselines, and those of hashnms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torchvision.ops import batched_nms

from benchmarks.peers import Workload
from benchmarks.plain import plain_soft_nms
from experiments.configurations import SuppressionSettings
from hashnms import Suppression

#: A function from boxes, scores and labels to rows and their scores.
Stage = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]

NUM_HASHES = (1, 2, 3, 4)
#: The Soft-NMS of all tables: Bodla's Gaussian.
SOFT = "softnms:gaussian/0.5"


@dataclass(frozen=True)
class Method:
    """A suppression in one implementation: its answer is that of `suppression`, its time is its own."""

    name: str
    by: str  # the package of its last stage
    suppression: Suppression
    stages: dict[str, Stage]  # the columns of the tables: HNMS, NMS, Soft-NMS
    num_hashes: int | None = None


def proposals(alpha: float, iou_threshold: float) -> list[Method]:
    """Methods that replace the NMS of an RPN: Table 1. The labels are the levels."""
    return [*_exact(iou_threshold), *(hnms(alpha, count) for count in NUM_HASHES)]


def detections(alpha: float, iou_threshold: float) -> list[Method]:
    """Methods before the NMS of a one-stage detector: Table 2."""
    exact = _exact(iou_threshold)
    return [*exact, *(_filtered(alpha, count, last) for last in exact for count in NUM_HASHES)]


def soft_detections(alpha: float, evaluated: int) -> list[Method]:
    """Methods before its Soft-NMS: Table 5. Also with Soft-NMS that stops after the boxes that are evaluated."""
    loop, exact = _soft(None)
    loop_of_best, exact_of_best = _soft(evaluated)
    filtered = (_filtered(alpha, count, last) for last in (loop, exact, exact_of_best) for count in NUM_HASHES)
    return [loop, exact, loop_of_best, exact_of_best, *filtered]


def hnms(alpha: float, num_hashes: int) -> Method:
    suppression = Suppression.parse(f"hnms:{alpha}/{num_hashes}")
    return Method("HNMS", "hashnms", suppression, {"HNMS": suppression}, num_hashes)


def _exact(iou_threshold: float) -> list[Method]:
    suppression = Suppression.parse(f"nms:{iou_threshold}")

    def of_torchvision(boxes: Tensor, scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        keep = batched_nms(boxes, scores, labels, iou_threshold)
        return keep, scores[keep]

    return [
        Method("NMS", "torchvision", suppression, {"NMS": of_torchvision}),
        Method("NMS", "hashnms", suppression, {"NMS": suppression}),
    ]


def _filtered(alpha: float, num_hashes: int, last: Method) -> Method:
    """HNMS in front of a method."""
    first = hnms(alpha, num_hashes)
    suppression = Suppression([*first.suppression.steps, *last.suppression.steps])
    return Method(f"HNMS + {last.name}", last.by, suppression, {**first.stages, **last.stages}, num_hashes)


def _soft(most: int | None) -> list[Method]:
    """Soft-NMS of all boxes, or until `most` are selected: as a loop, and ours."""
    suppression = Suppression.parse(SOFT if most is None else f"{SOFT}+limit:{most}")
    name = "Soft-NMS" if most is None else f"Soft-NMS, best {most:,}"

    def loop(boxes: Tensor, scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        return _loop_soft_nms(boxes, scores, labels, most)

    return [
        Method(name, "plain loop", suppression, {"Soft-NMS": loop}),
        Method(name, "hashnms", suppression, {"Soft-NMS": suppression}),
    ]


def _loop_soft_nms(boxes: Tensor, scores: Tensor, labels: Tensor, most: int | None) -> tuple[Tensor, Tensor]:
    """The O(N²) loop, class by class, on the host."""
    step: Any = Suppression.parse(SOFT).steps[0]
    arrays = [values.cpu().numpy() for values in (boxes, scores, labels)]
    rows, lowered = [], []
    for label in np.unique(arrays[2]):
        of_label = np.flatnonzero(arrays[2] == label)
        work = Workload("", *(np.ascontiguousarray(values[of_label]) for values in arrays[:2]), None, 0.5)
        places, values = plain_soft_nms(work, step.sigma, step.min_score, most, with_scores=True)()
        rows.append(of_label[places])
        lowered.append(values.copy())
    keep, values = np.concatenate([*rows, np.zeros(0, np.int64)]), np.concatenate([*lowered, np.zeros(0, np.float32)])
    order = np.argsort(-values, kind="stable")[:most]
    return torch.from_numpy(keep[order]).to(boxes.device), torch.from_numpy(values[order]).to(boxes.device)


@dataclass(frozen=True)
class Timed:
    """The result of a method for an image, and the time of each stage."""

    keep: Tensor
    scores: Tensor
    milliseconds: dict[str, float]


def run(method: Method, boxes: Tensor, scores: Tensor, labels: Tensor, *, now: Callable[[], float]) -> Timed:
    """Run a method on one image. Each stage gets the boxes that the last one left; taking them is part of its time."""
    rows, places, milliseconds = torch.arange(len(boxes), device=boxes.device), None, {}
    for name, stage in method.stages.items():
        start = now()
        if places is not None:
            boxes, labels = boxes[places], labels[places]
        places, scores = stage(boxes, scores, labels)
        milliseconds[name] = 1e3 * (now() - start)
        rows = rows[places]
    return Timed(rows, scores, milliseconds)


def limits_of(suppressing: SuppressionSettings) -> Suppression:
    """The limits after a suppression: P2 of each level and P3 in all; for detections, the number that is evaluated."""
    levels = [] if suppressing.kept_of_level is None else [f"top:{suppressing.kept_of_level}"]
    return Suppression.parse("+".join([*levels, f"limit:{suppressing.kept_in_all}"]))
