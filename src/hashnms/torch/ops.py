"""The functions of `hashnms` on tensors, and the registered ops `torch.ops.hashnms.*` that stand for them in graphs.

On plain tensors a function runs at once. Under `torch.compile` and `torch.export`, and on subclasses of tensors, the
call goes through the op of the same name, whose fake kernel tells the shape of its result. Autograd does not see them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any

import torch
from torch import Tensor

from hashnms import _validate
from hashnms.hashing import IoUHash, hash_family, host_iou_hash
from hashnms.pipeline import Suppression
from hashnms.suppression import host_hnms, host_hnms_once, host_nms, host_soft_nms
from hashnms.torch import device, portable, steps
from hashnms.torch.device import DeviceBoxes


def registered(
    schema: str, fake: Callable[..., Any], in_onnx: Callable[..., Any] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make an op `hashnms::name` of a function, and a function that goes through it just where it must."""

    def register(implementation: Callable[..., Any]) -> Callable[..., Any]:
        name = implementation.__name__
        torch.library.custom_op(f"hashnms::{name}", implementation, mutates_args=(), schema=schema).register_fake(fake)
        op = getattr(torch.ops.hashnms, name).default

        @wraps(implementation)
        def call(boxes: Tensor, *arguments: Any) -> Any:
            if type(boxes) is Tensor and not (torch.compiler.is_compiling() or torch.jit.is_tracing()):
                return implementation(boxes, *arguments)
            if not torch.onnx.is_in_onnx_export():
                return op(boxes.detach(), *(_in_graph(argument) for argument in arguments))
            if in_onnx is None:
                raise NotImplementedError(f"only HNMS can be exported to ONNX operators, got hashnms::{name}")
            return in_onnx(boxes, *arguments)

        return call

    return register


def _in_graph(argument: Any) -> Any:
    """An argument as ops take it."""
    if isinstance(argument, Tensor):
        return argument.detach()
    return str(argument) if isinstance(argument, Suppression) else argument


def _some_rows(boxes: Tensor, *_: Any) -> Tensor:
    return boxes.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64)


def _some_rows_and_scores(boxes: Tensor, scores: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    rows = _some_rows(boxes)
    score_type = torch.float64 if scores.dtype == torch.float64 else torch.float32
    return rows, scores.new_empty(rows.shape[0], dtype=score_type)


def _of_all_rows(dtype: torch.dtype, *columns: int) -> Callable[..., Tensor]:
    return lambda boxes, *_: boxes.new_empty(boxes.shape[0], *columns, dtype=dtype)


_BOXES = "Tensor boxes, Tensor scores, Tensor? labels, "
_HNMS = f"({_BOXES}float alpha, int num_hashes, str box_format) -> "
_NMS = f"({_BOXES}float iou_threshold, float? score_threshold, int? max_output, str box_format) -> "


def _hnms_in_onnx(boxes: Tensor, scores: Tensor, labels: Tensor | None, *settings: Any) -> Tensor:
    alpha, num_hashes, box_format = settings
    return portable.hnms(boxes, scores, labels, hash_family(alpha, num_hashes), box_format)[0]


def _hnms_mask_in_onnx(boxes: Tensor, *arguments: Any) -> Tensor:
    return _mask_of(_hnms_in_onnx(boxes, *arguments), boxes)


def _hnms_once_in_onnx(boxes: Tensor, scores: Tensor, labels: Tensor | None, *settings: Any) -> Tensor:
    *parameters, box_format = settings
    return portable.hnms(boxes, scores, labels, [IoUHash(*parameters)], box_format)[0]


@registered(f"{_HNMS}Tensor", _some_rows, _hnms_in_onnx)
def hnms(boxes: Tensor, scores: Any, labels: Any, alpha: float, num_hashes: int, box_format: Any) -> Tensor:
    if not boxes.is_cpu:
        keep = _on_device(boxes, scores, labels, hash_family(alpha, num_hashes), box_format)
        if keep is not None:
            return keep
    return _on_host(host_hnms, boxes, scores, labels, alpha, num_hashes, box_format)


@registered(f"{_HNMS}Tensor", _of_all_rows(torch.bool), _hnms_mask_in_onnx)
def hnms_mask(boxes: Tensor, *arguments: Any) -> Tensor:
    return _mask_of(hnms(boxes, *arguments), boxes)


@registered(
    f"({_BOXES}float alpha, float w0, float h0, float bx, float by, str box_format) -> Tensor",
    _some_rows,
    _hnms_once_in_onnx,
)
def hnms_once(boxes: Tensor, scores: Any, labels: Any, *settings: Any) -> Tensor:
    """HNMS with any one hash function."""
    *parameters, box_format = settings
    keep = _on_device(boxes, scores, labels, [IoUHash(*parameters)], box_format)
    return _on_host(host_hnms_once, boxes, scores, labels, *settings) if keep is None else keep


@registered(f"{_NMS}Tensor", _some_rows)
def nms(boxes: Tensor, scores: Any, labels: Any, *settings: Any) -> Tensor:
    return _on_host(host_nms, boxes, scores, labels, *settings, False)


@registered(f"{_NMS}(Tensor, Tensor)", lambda boxes, *_: (_some_rows(boxes), _of_all_rows(torch.int64)(boxes)))
def nms_suppressor(boxes: Tensor, scores: Any, labels: Any, *settings: Any) -> tuple[Tensor, Tensor]:
    return _on_host(host_nms, boxes, scores, labels, *settings, True)


@registered(
    f"({_BOXES}str method, float sigma, float iou_threshold, float min_score, int? max_output, str box_format) -> "
    "(Tensor, Tensor)",
    _some_rows_and_scores,
)
def soft_nms(boxes: Tensor, scores: Any, labels: Any, *settings: Any) -> tuple[Tensor, Tensor]:
    return _on_host(host_soft_nms, boxes, scores, labels, *settings)


@registered(
    "(Tensor boxes, float alpha, float w0, float h0, float bx, float by, str box_format) -> Tensor",
    _of_all_rows(torch.int64, 4),
)
def iou_hash(boxes: Tensor, *settings: Any) -> Tensor:
    return torch.from_numpy(host_iou_hash(boxes.cpu(), *settings)).to(boxes.device)


@registered(f"({_BOXES}str suppression, str box_format) -> (Tensor, Tensor)", _some_rows_and_scores)
def suppress(
    boxes: Tensor, scores: Any, labels: Any, suppression: Suppression | str, box_format: Any
) -> tuple[Tensor, Tensor]:
    """A `Suppression`, or one in its short notation."""
    chain = suppression if isinstance(suppression, Suppression) else _parsed(suppression)
    given = None if boxes.is_cpu else _device_boxes(boxes, scores, labels, box_format)
    if given is not None and given.are_legal():
        return steps.suppress(chain, given, _on_host)
    return _on_host(chain.on_host, boxes, scores, labels, box_format)


_parsed = lru_cache(maxsize=64)(Suppression.parse)


def _on_device(boxes: Tensor, scores: Any, labels: Any, functions: list[IoUHash], box_format: Any) -> Tensor | None:
    given = _device_boxes(boxes, scores, labels, box_format)
    return None if given is None else device.hnms(given, functions)


def _device_boxes(boxes: Tensor, scores: Any, labels: Any, box_format: Any) -> DeviceBoxes | None:
    _validate.same_device(boxes, scores, labels)
    _validate.box_format_value(box_format)
    return DeviceBoxes.plain(boxes, scores, labels, box_format)


def _mask_of(keep: Tensor, boxes: Tensor) -> Tensor:
    return torch.zeros_like(boxes[:, 0], dtype=torch.bool).scatter(0, keep, True)


def _on_host(function: Callable[..., Any], boxes: Tensor, scores: Any, labels: Any, *settings: Any) -> Any:
    """What a function of arrays and CPU tensors returns, as tensors on the device of boxes."""
    result = function(*_host_tensors(boxes, scores, labels), *settings)
    if isinstance(result, tuple):
        return tuple(_on(boxes, array) for array in result)
    return _on(boxes, result)


def _host_tensors(boxes: Tensor, scores: Any, labels: Any) -> tuple[Tensor, Tensor, Tensor | None]:
    if not (labels is None and type(scores) is Tensor and boxes.is_cpu and scores.is_cpu):  # most often, and at once
        _validate.same_device(boxes, scores, labels)
        boxes, scores, labels = boxes.cpu(), scores.cpu(), None if labels is None else labels.cpu()
    # The core reads memory as it is; negative views (of imaginary parts) have a sign beside it.
    return boxes.resolve_neg() if boxes.is_neg() else boxes, scores.resolve_neg() if scores.is_neg() else scores, labels


def _on(boxes: Tensor, array: Any) -> Tensor:
    tensor = torch.from_numpy(array)
    return tensor if boxes.is_cpu else tensor.to(boxes.device)
