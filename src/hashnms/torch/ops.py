"""The functions of `hashnms` on tensors, and the registered ops `torch.ops.hashnms.*` that stand for them in graphs.

On plain tensors a function runs at once. Under `torch.compile` and `torch.export`, and on subclasses of tensors, the
call goes through the op of the same name, whose fake kernel tells the shape of its result. Autograd does not see them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor

from hashnms import _tensors, _validate
from hashnms.hashing import IoUHash, hash_family, host_iou_hash
from hashnms.pipeline import Suppression
from hashnms.suppression import host_hnms, host_hnms_once, host_nms, host_soft_nms
from hashnms.torch import device, portable, steps
from hashnms.torch.device import DeviceBoxes

Function = Callable[..., Any]

#: Every op waits for an answer of the device, if only whether its numbers are legal: no CUDA graph can hold it. Older
#: versions of torch cannot be told.
_TAGS = {"tags": [torch.Tag.cudagraph_unsafe]} if hasattr(torch.Tag, "cudagraph_unsafe") else {}


#: What each op does, by its name.
kernels: dict[str, Function] = {}


def register(
    name: str,
    schema: str,
    *,
    host: Function,
    fake: Function,
    on_device: Function | None = None,
    in_onnx: Function | None = None,
) -> Function:
    """Register the op `hashnms::name`, and return a function that goes through it just where it must.

    Args:
        name: of the op.
        schema: its arguments, boxes first, and results.
        host: the function of arrays and CPU tensors that it is.
        fake: tells the shapes of the results.
        on_device: the same for tensors elsewhere, without leaving their device; None, also as its result, for the host.
        in_onnx: the same in operations that ONNX has.
    """

    def run(boxes: Tensor, *arguments: Any) -> Any:
        if boxes.is_cpu:
            if boxes.is_neg() or (type(arguments[0]) is Tensor and arguments[0].is_neg()):
                boxes, arguments = _positive(boxes), tuple(map(_positive, arguments))
            result = host(boxes, *arguments)
            if type(result) is Tensor or (type(result) is tuple and type(result[1]) is Tensor):
                return result  # the core has read tensors, and returns such
            return _tensors_on(boxes.device, result)
        _validate.same_device(boxes, *arguments)
        result = None if on_device is None else on_device(boxes, *arguments)
        return _on_host(host, boxes, arguments) if result is None else result

    custom_op = torch.library.custom_op(f"hashnms::{name}", run, mutates_args=(), schema=schema, **_TAGS)
    custom_op.register_fake(fake)
    op = getattr(torch.ops.hashnms, name).default
    is_compiling, is_tracing = torch.compiler.is_compiling, torch.jit.is_tracing

    def call(boxes: Tensor, *arguments: Any) -> Any:
        if type(boxes) is Tensor and not (is_compiling() or is_tracing()):
            return run(boxes, *arguments)
        if not torch.onnx.is_in_onnx_export():
            return op(boxes.detach(), *map(_in_graph, arguments))
        if in_onnx is None:
            raise NotImplementedError(f"only HNMS can be exported to ONNX operators, got hashnms::{name}")
        return in_onnx(boxes, *arguments)

    kernels[name] = run
    return call


def _in_graph(argument: Any) -> Any:
    """An argument as ops take it."""
    if isinstance(argument, Tensor):
        return argument.detach()
    return str(argument) if isinstance(argument, Suppression) else argument


def _positive(tensor: Any) -> Any:
    """Without the sign that negative views (of imaginary parts) have beside their memory, which the core reads."""
    return tensor.resolve_neg() if isinstance(tensor, Tensor) else tensor


def _on_host(host: Function, boxes: Tensor, arguments: tuple[Any, ...]) -> Any:
    copies = (argument.cpu() if isinstance(argument, Tensor) else argument for argument in (boxes, *arguments))
    return _tensors_on(boxes.device, host(*map(_positive, copies)))


def _tensors_on(where: torch.device, result: Any) -> Any:
    """Arrays and CPU tensors as tensors on a device."""
    if isinstance(result, tuple):
        return tuple(_tensors_on(where, part) for part in result)
    return (result if isinstance(result, Tensor) else torch.from_numpy(result)).to(where)


def _some_rows(boxes: Tensor, *_: Any) -> Tensor:
    return boxes.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64)


def _some_rows_and_scores(boxes: Tensor, scores: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    rows = _some_rows(boxes)
    score_type = torch.float64 if scores.dtype == torch.float64 else torch.float32
    return rows, scores.new_empty(rows.shape[0], dtype=score_type)


def _of_all_rows(dtype: torch.dtype, *columns: int) -> Function:
    return lambda boxes, *_: boxes.new_empty(boxes.shape[0], *columns, dtype=dtype)


def _family(alpha: float, num_hashes: int, box_format: str) -> tuple[list[IoUHash], str]:
    return hash_family(alpha, num_hashes), box_format


def _one_function(*parameters_and_format: Any) -> tuple[list[IoUHash], str]:
    *parameters, box_format = parameters_and_format
    return [IoUHash(*parameters)], box_format


def _hnms_on_device(functions_of: Function) -> Function:
    def hnms_on_device(boxes: Tensor, scores: Any, labels: Any, *settings: Any) -> Tensor | None:
        functions, box_format = functions_of(*settings)
        given = DeviceBoxes.plain(boxes, scores, labels, box_format)
        return None if given is None else device.hnms(given, functions)

    return hnms_on_device


def _hnms_in_onnx(functions_of: Function) -> Function:
    return lambda boxes, scores, labels, *settings: portable.hnms(boxes, scores, labels, *functions_of(*settings))[0]


def _masked(hnms: Function) -> Function:
    """The rows that a function returns, if any, as a mask."""

    def mask(boxes: Tensor, *arguments: Any) -> Tensor | None:
        keep = hnms(boxes, *arguments)
        if keep is None:
            return None
        return torch.zeros_like(boxes[:, 0], dtype=torch.bool).scatter(0, torch.as_tensor(keep), True)

    return mask


def _suppress_on_host(boxes: Any, scores: Any, labels: Any, suppression: Suppression | str, box_format: Any) -> Any:
    return _chain(suppression).on_host(boxes, scores, labels, box_format)


def _suppress_on_device(boxes: Tensor, scores: Any, labels: Any, suppression: Any, box_format: Any) -> Any:
    given = DeviceBoxes.plain(boxes, scores, labels, box_format)
    return steps.suppress(_chain(suppression), given) if given is not None and given.are_legal() else None


def _chain(suppression: Suppression | str) -> Suppression:
    return _parsed(suppression) if isinstance(suppression, str) else suppression


_parsed = lru_cache(maxsize=64)(Suppression.parse)

_BOXES = "Tensor boxes, Tensor scores, Tensor? labels, "
_HNMS = f"({_BOXES}float alpha, int num_hashes, str box_format) -> Tensor"
_NMS = f"({_BOXES}float iou_threshold, float? score_threshold, int? max_output, str box_format) -> "
_FUNCTION = "float alpha, float w0, float h0, float bx, float by, str box_format) -> Tensor"

hnms = register(
    "hnms",
    _HNMS,
    host=host_hnms,
    fake=_some_rows,
    on_device=_hnms_on_device(_family),
    in_onnx=_hnms_in_onnx(_family),
)
hnms_mask = register(
    "hnms_mask",
    _HNMS,
    host=_masked(host_hnms),
    fake=_of_all_rows(torch.bool),
    on_device=_masked(_hnms_on_device(_family)),
    in_onnx=_masked(_hnms_in_onnx(_family)),
)
hnms_once = register(
    "hnms_once",
    f"({_BOXES}{_FUNCTION}",
    host=host_hnms_once,
    fake=_some_rows,
    on_device=_hnms_on_device(_one_function),
    in_onnx=_hnms_in_onnx(_one_function),
)
nms = register("nms", f"{_NMS}Tensor", host=host_nms, fake=_some_rows)
nms_suppressor = register(
    "nms_suppressor",
    f"{_NMS}(Tensor, Tensor)",
    host=partial(host_nms, return_suppressor=True),
    fake=lambda boxes, *_: (_some_rows(boxes), _of_all_rows(torch.int64)(boxes)),
)
soft_nms = register(
    "soft_nms",
    f"({_BOXES}str method, float sigma, float iou_threshold, float min_score, int? max_output, str box_format) -> "
    "(Tensor, Tensor)",
    host=host_soft_nms,
    fake=_some_rows_and_scores,
)
suppress = register(
    "suppress",
    f"({_BOXES}str suppression, str box_format) -> (Tensor, Tensor)",
    host=_suppress_on_host,
    fake=_some_rows_and_scores,
    on_device=_suppress_on_device,
)
iou_hash = register("iou_hash", f"(Tensor boxes, {_FUNCTION}", host=host_iou_hash, fake=_of_all_rows(torch.int64, 4))

_tensors.known_ops = sys.modules[__name__]
