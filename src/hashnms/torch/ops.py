"""The functions of `hashnms` on tensors, and the registered ops `torch.ops.hashnms.*` that stand for them in graphs.

On plain tensors a function runs at once. Under `torch.compile` and `torch.export`, and on subclasses of tensors, the
call goes through the op of the same name, whose fake kernel tells the shape of its result. Autograd does not see them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
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


#: What each op does with plain tensors, by its name; for tests, which pretend to have a device.
implementations: dict[str, Function] = {}


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
    implementations[name] = run
    op = getattr(torch.ops.hashnms, name).default

    def in_graph(boxes: Tensor, *arguments: Any) -> Any:
        if in_onnx is not None and torch.onnx.is_in_onnx_export():
            return in_onnx(boxes, *arguments)
        return op(boxes.detach(), *_op_arguments(arguments))

    def call(boxes: Tensor, *arguments: Any) -> Any:
        if is_compiling() or is_tracing() or num_modes() or transform() is not None:
            return in_graph(boxes, *arguments)
        scores, labels = arguments[:2]
        if not (type(boxes) is Tensor and type(scores) is Tensor and (labels is None or type(labels) is Tensor)):
            boxes, *arguments = map(_plain, (boxes, *arguments))  # type: ignore[assignment]
            if not isinstance(boxes, Tensor):
                raise TypeError(f"boxes must be a tensor, got {type(boxes).__name__}")
            if any(isinstance(value, Tensor) and type(value) is not Tensor for value in (boxes, *arguments)):
                return in_graph(boxes, *arguments)
        return run(boxes, *arguments)

    return call


# Who may see a call that does not go through the op: nobody, mostly. Looked up once, for a call takes microseconds.
is_compiling, is_tracing = torch.compiler.is_compiling, torch.jit.is_tracing
num_modes, transform = torch._C._len_torch_dispatch_stack, torch._C._functorch.peek_interpreter_stack


def _plain(value: Any) -> Any:
    """A tensor of a class that only adds to tensors, as parameters and torchvision's boxes are, without that class."""
    if type(value) is Tensor or not isinstance(value, Tensor):
        return value
    return value.as_subclass(Tensor) if type(value).__torch_dispatch__ == Tensor.__torch_dispatch__ else value


def _op_arguments(arguments: tuple[Any, ...]) -> Iterator[Any]:
    """Arguments as ops take them."""
    for place, argument in enumerate(arguments):
        if isinstance(argument, Tensor):
            # On arrays it depends on the numbers whether float32 holds such scores.
            is_large = place == 0 and argument.dtype in _LARGE_INTEGERS
            yield argument.double() if is_large else argument.detach()
        else:
            yield str(argument) if isinstance(argument, Suppression) else argument


_LARGE_INTEGERS = (torch.int32, torch.int64, torch.uint32, torch.uint64)


def _positive(tensor: Any) -> Any:
    """Without the sign that negative views (of imaginary parts) have beside their memory, which the core reads."""
    return tensor.resolve_neg() if isinstance(tensor, Tensor) else tensor


def _on_host(host: Function, boxes: Tensor, arguments: tuple[Any, ...]) -> Any:
    copies = (argument.cpu() if isinstance(argument, Tensor) else argument for argument in (boxes, *arguments))
    return _tensors_on(boxes.device, host(*copies))


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
    _validate.box_format_value(box_format)
    return hash_family(alpha, num_hashes), box_format


def _one_function(
    alpha: float, w0: float, h0: float, bx: float, by: float, box_format: str
) -> tuple[list[IoUHash], str]:
    _validate.box_format_value(box_format)
    origins = _validate.origin_value("w0", w0), _validate.origin_value("h0", h0)
    shifts = _validate.shift_value("bx", bx), _validate.shift_value("by", by)
    return [IoUHash(_validate.alpha_value(alpha), *origins, *shifts)], box_format


def _hnms_on_device(functions_of: Function) -> Function:
    def hnms_on_device(boxes: Tensor, scores: Any, labels: Any, *settings: Any) -> Tensor | None:
        functions, box_format = functions_of(*settings)
        given = DeviceBoxes.plain(boxes, scores, labels, box_format)
        return None if given is None else device.hnms(given, functions)

    return hnms_on_device


def _in_onnx(hnms: Function, functions_of: Function) -> Function:
    def hnms_in_onnx(boxes: Tensor, scores: Tensor, labels: Tensor | None, *settings: Any) -> Tensor:
        functions, box_format = functions_of(*settings)
        if functions[0].alpha > portable.LARGEST_ALPHA:
            raise ValueError(f"alpha must be at most {portable.LARGEST_ALPHA} in ONNX, got {functions[0].alpha}")
        result: Tensor = hnms(boxes, scores, labels, functions, box_format)
        return result

    return hnms_in_onnx


def _hnms_once_on_cpu(boxes: Tensor, scores: Any, labels: Any, *settings: Any) -> Any:
    keep = _hnms_on_device(_one_function)(boxes, scores, labels, *settings)
    return host_hnms_once(boxes, scores, labels, *settings) if keep is None else keep


def _masked(hnms: Function) -> Function:
    """The rows that a function returns, if any, as a mask."""

    def mask(boxes: Tensor, *arguments: Any) -> Tensor | None:
        keep = hnms(boxes, *arguments)
        if keep is None:
            return None
        rows = keep if isinstance(keep, Tensor) else torch.from_numpy(keep)
        return boxes.new_zeros(boxes.shape[0], dtype=torch.bool).scatter(0, rows, True)

    return mask


def _suppress_on_host(boxes: Any, scores: Any, labels: Any, suppression: Suppression | str, box_format: Any) -> Any:
    return _chain(suppression).on_host(boxes, scores, labels, box_format)


def _suppress_on_device(boxes: Tensor, scores: Any, labels: Any, suppression: Any, box_format: Any) -> Any:
    _validate.box_format_value(box_format)
    given = DeviceBoxes.plain(boxes, scores, labels, box_format)
    if given is None or not given.are_legal():
        return None
    try:
        return steps.suppress(_chain(suppression), given)
    except ValueError:  # of a box among those left; the host names its row
        return None


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
    in_onnx=_in_onnx(lambda *arguments: portable.hnms(*arguments)[0], _family),
)
hnms_mask = register(
    "hnms_mask",
    _HNMS,
    host=_masked(host_hnms),
    fake=_of_all_rows(torch.bool),
    on_device=_masked(_hnms_on_device(_family)),
    in_onnx=_in_onnx(portable.hnms_mask, _family),
)
hnms_once = register(
    "hnms_once",
    f"({_BOXES}{_FUNCTION}",
    host=_hnms_once_on_cpu,
    fake=_some_rows,
    on_device=_hnms_on_device(_one_function),
    in_onnx=_in_onnx(lambda *arguments: portable.hnms(*arguments)[0], _one_function),
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
