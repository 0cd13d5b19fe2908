"""How a function becomes a registered op, and when a call goes through it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from hashnms import _validate
from hashnms.pipeline import Suppression
from hashnms.torch.device import tensors_on

Function = Callable[..., Any]

#: Every op reads a value from the device, at least whether all numbers are valid, so CUDA graphs cannot contain it.
#: Older versions of torch have no tag for this.
_TAGS = {"tags": [torch.Tag.cudagraph_unsafe]} if hasattr(torch.Tag, "cudagraph_unsafe") else {}


#: The implementation of each op for plain tensors, by name; for tests, which simulate a device.
implementations: dict[str, Function] = {}


def register(
    name: str,
    schema: str,
    *,
    host: Function,
    fake: Function,
    in_onnx: Function,
    core: Function | None = None,
    on_device: Function | None = None,
) -> Function:
    """Register the op `hashnms::name`, and return a function that goes through it only where needed.

    Args:
        name: the name of the op.
        schema: its arguments (boxes, other tensors, settings) and results.
        host: computes the result for CPU tensors; returns tensors or arrays.
        fake: gives the shapes of the results.
        in_onnx: the call in operations that ONNX has; may raise an error.
        core: a function of the core that reads CPU tensors in place. If it is None or returns None, `host` is called.
        on_device: a function for tensors on other devices that works there. If it is None or returns None, `host` is
            called.
    """
    names = re.findall(r"Tensor\?? (\w+)", schema)
    others = len(names) - 1

    def run(boxes: Tensor, *arguments: Any) -> Any:
        if boxes.is_cpu:
            if boxes.is_neg() or (type(arguments[0]) is Tensor and arguments[0].is_neg()):
                boxes, arguments = _positive(boxes), tuple(map(_positive, arguments))
            result = None if core is None else core(boxes, *arguments)
            return tensors_on(boxes.device, host(boxes, *arguments)) if result is None else result
        _validate.same_device(names, boxes, *arguments)
        result = None if on_device is None else on_device(boxes, *arguments)
        if result is None:
            copies = (argument.cpu() if isinstance(argument, Tensor) else argument for argument in (boxes, *arguments))
            result = tensors_on(boxes.device, host(*copies))
        return result

    custom_op = torch.library.custom_op(f"hashnms::{name}", run, mutates_args=(), schema=schema, **_TAGS)
    custom_op.register_fake(_outside_onnx(name, fake))
    implementations[name] = run
    op = getattr(torch.ops.hashnms, name).default

    def in_graph(boxes: Tensor, *arguments: Any) -> Any:
        if torch.onnx.is_in_onnx_export():
            return in_onnx(boxes, *arguments)
        return op(boxes.detach(), *map(_op_tensor, names[1:], arguments), *map(_op_setting, arguments[others:]))

    def call(boxes: Tensor, *arguments: Any) -> Any:
        if is_compiling() or is_tracing() or num_modes() or transform() is not None:
            return in_graph(boxes, *arguments)
        if not (type(boxes) is Tensor and all(type(value) in _USUAL for value in arguments[:others])):
            if not isinstance(boxes, Tensor):
                raise TypeError(f"boxes must be a tensor, got {type(boxes).__name__}")
            boxes, *given = map(_plain, (boxes, *arguments[:others]))
            arguments = (*given, *arguments[others:])
            if any(isinstance(value, Tensor) and type(value) is not Tensor for value in (boxes, *given)):
                return in_graph(boxes, *arguments)
        return run(boxes, *arguments)

    return call


def _outside_onnx(name: str, fake: Function) -> Function:
    """A fake kernel that refuses the op in ONNX: it must be replaced by other operations where it is called."""

    def fake_outside_onnx(*arguments: Any) -> Any:
        if torch.onnx.is_in_onnx_export():
            raise RuntimeError(  # torch would log a TypeError
                f"torch.ops.hashnms.{name} cannot be exported to ONNX: give torch.onnx.export the module that calls "
                "hashnms, not a program that torch.export has made from it"
            )
        return fake(*arguments)

    return fake_outside_onnx


_USUAL = (Tensor, type(None))

# These tell whether a call must go through the op; mostly it need not. Looked up once: a call takes microseconds.
is_compiling, is_tracing = torch.compiler.is_compiling, torch.jit.is_tracing
num_modes, transform = torch._C._len_torch_dispatch_stack, torch._C._functorch.peek_interpreter_stack


def _plain(value: Any) -> Any:
    """Turn subclasses that behave like plain tensors (parameters, torchvision's boxes) into plain tensors."""
    if type(value) is Tensor or not isinstance(value, Tensor):
        return value
    return value.as_subclass(Tensor) if type(value).__torch_dispatch__ == Tensor.__torch_dispatch__ else value


def _op_tensor(name: str, values: Any) -> Any:
    """A tensor other than boxes as ops take it. The type of scores must not depend on values, as it does for arrays."""
    if not isinstance(values, Tensor):
        return values
    return values.double() if name == "scores" and values.dtype in _LARGE_INTEGERS else values.detach()


def _op_setting(setting: Any) -> Any:
    """A setting as ops take it: a string, a number or None."""
    if isinstance(setting, Suppression):
        return str(setting)
    return setting.item() if isinstance(setting, Tensor) else setting


_LARGE_INTEGERS = (torch.int32, torch.int64, torch.uint32, torch.uint64)


def _positive(tensor: Any) -> Any:
    """Resolve negative views (of imaginary parts), because the core reads their memory, which has the other sign."""
    return tensor.resolve_neg() if isinstance(tensor, Tensor) else tensor
