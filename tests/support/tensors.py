"""Every function of tensors and every op, and scenes as tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch

import hashnms
from hashnms import Suppression
from hashnms.synthetic import make_scene


def since_torch(major: int, minor: int, what: str) -> pytest.MarkDecorator:
    """Skips a test of what older versions of torch cannot do, whatever hashnms does (docs/installing.md)."""
    here = tuple(map(int, torch.__version__.split(".")[:2]))
    return pytest.mark.skipif(here < (major, minor), reason=f"{what} needs torch {major}.{minor}")


one_graph = since_torch(2, 9, "torch.compile(fullgraph=True) of ops whose results have any size")

CHAIN = Suppression.parse("score:0.1+top:300+hnms:0.73/2+nms:0.5+limit:50")
IOS_CHAIN = Suppression.parse("top:300+nms:0.6/ios/inclusive+limit:50")
FUSED = Suppression.parse("top:400+wbf:0.5")

#: Name -> function of (boxes, scores, labels), arrays or tensors, that returns a tuple of such.
FUNCTIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "hnms": lambda boxes, scores, labels: (hashnms.hnms(boxes, scores, alpha=0.6, num_hashes=2, labels=labels),),
    "nms": lambda boxes, scores, labels: (hashnms.nms(boxes, scores, 0.4, labels=labels, max_output=200),),
    "nms_suppressor": lambda boxes, scores, labels: hashnms.nms(
        boxes, scores, 0.4, labels=labels, score_threshold=0.05, return_suppressor=True
    ),
    "nms_ios": lambda boxes, scores, labels: (
        hashnms.nms(boxes, scores, 0.5, labels=labels, metric="ios", inclusive=True),
    ),
    "nms_diou": lambda boxes, scores, labels: hashnms.nms(
        boxes, scores, 0.4, labels=labels, metric="diou", return_suppressor=True
    ),
    "batched_nms": lambda boxes, scores, labels: (
        hashnms.batched_nms(boxes, scores, (scores > 0.5) * 1 if labels is None else labels, 0.4),
    ),
    "soft_nms": lambda boxes, scores, labels: hashnms.soft_nms(boxes, scores, labels=labels, max_output=200),
    "soft_nms_hard": lambda boxes, scores, labels: hashnms.soft_nms(boxes, scores, method="hard", labels=labels),
    "nms_images": lambda boxes, scores, labels: (hashnms.nms(boxes, scores, 0.4, images=labels, max_output=20),),
    "hnms_images": lambda boxes, scores, labels: (hashnms.hnms(boxes, scores, images=labels),),
    "suppression_images": lambda boxes, scores, labels: tuple(CHAIN(boxes, scores, _halved(labels), labels)),
    "suppression": lambda boxes, scores, labels: tuple(CHAIN(boxes, scores, labels)),
    "suppression_ios": lambda boxes, scores, labels: tuple(IOS_CHAIN(boxes, scores, labels)),
    "nmm": lambda boxes, scores, labels: tuple(hashnms.nmm(boxes, scores, 0.4, labels=labels)),
    "nmm_transitive": lambda boxes, scores, labels: tuple(
        hashnms.nmm(boxes, scores, 0.4, labels=labels, metric="ios", transitive=True)
    ),
    "vote": lambda boxes, scores, labels: tuple(hashnms.vote(boxes, abs(scores), 0.4, labels=labels)),
    "fused_chain": lambda boxes, scores, labels: _fused(boxes, scores, labels=labels),
    "iou_hash": lambda boxes, scores, labels: (hashnms.iou_hash(boxes, alpha=0.7, w0=1.5),),  # noqa: ARG005
}

#: Op name -> the arguments after boxes, scores, labels and images.
OPS: dict[str, tuple[Any, ...]] = {
    "hnms": (0.7, 2, "xyxy"),
    "hnms_mask": (0.7, 2, "xyxy"),
    "hnms_once": (0.7, 1.5, 2.0, 0.25, 0.75, "xyxy"),
    "nms": (0.5, 0.1, 100, "ios", True, "xyxy"),
    "nms_suppressor": (0.5, None, None, "diou", False, "xyxy"),
    "join": (0.5, 0.1, 100, "ios", True, "xyxy"),
    "soft_nms": ("gaussian", 0.5, 0.3, 1e-3, None, "xyxy"),
    "suppress": ("top:300+hnms:0.73/2+nms:0.5", "xyxy"),
    "suppress_and_merge": ("top:300+nmm:0.5/iou/transitive+wbf:0.4", "xyxy"),
}


def _fused(boxes: Any, scores: Any, labels: Any) -> tuple[Any, ...]:
    result = FUSED(boxes, abs(scores), labels)
    return (*result, result.boxes)


def _halved(labels: Any) -> Any:
    return None if labels is None else labels // 2


def scene_tensors(count: int = 1000, dtype: Any = np.float32) -> tuple[Any, ...]:
    """Boxes, scores and labels."""
    scene = make_scene("aerial", count)
    arrays = scene.boxes.astype(dtype), scene.scores.astype(dtype), scene.labels
    return tuple(torch.from_numpy(array) for array in arrays)


def tensor_of(array: Any) -> Any:
    return None if array is None else torch.from_numpy(array)


def assert_same_tensors(results: Iterable[Any], expected: Iterable[Any]) -> None:
    """Plain tensors with the types and numbers of these arrays."""
    for result, wanted in zip(results, expected, strict=True):
        assert type(result) is torch.Tensor
        assert result.numpy().dtype == wanted.dtype
        assert np.array_equal(result.numpy(), wanted)
