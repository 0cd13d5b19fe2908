"""Calls of torchvision's NMS led to hashnms, in code that is not ours to change."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torchvision  # noqa: F401  it registers the op
from torch import Tensor
from torch.overrides import TorchFunctionMode

from hashnms import nms
from hashnms.detectors.exporting import is_exporting


@dataclass
class Calls:
    """The calls of torchvision's NMS in a `routed` block: those that hashnms answered, those passed to torchvision."""

    answered: int = 0
    passed: int = 0

    def __str__(self) -> str:
        return f"calls of torchvision's NMS: {self.answered} answered by hashnms, {self.passed} passed to torchvision"


@contextmanager
def routed() -> Iterator[Calls]:
    """While the block runs, `hashnms.nms` answers this thread's calls of `torchvision.ops.nms` and `batched_nms`.

    However the code came by the functions: both end in the op `torch.ops.torchvision.nms`, and that is what is led
    elsewhere; so `batched_nms` still treats labels as torchvision does. Nothing of torch or torchvision is changed:
    other threads, and this one after the block, call torchvision's own.

    The result is what torchvision's op on the CPU returns, index by index, ties included, in the same class of tensor.
    A call goes to torchvision if its op on the CPU or `hashnms.nms` refuses the arguments (float16, infinite scores),
    and while torch exports the code. Code that is compiled to TorchScript calls the op without Python: it is not
    routed.

    Yields:
        The `Calls` that came so far, those in blocks inside this one included once these have ended.

    Warns:
        UserWarning: at the end of the block, if no call came.

    >>> import torch, torchvision
    >>> boxes = torch.tensor([[0.0, 0.0, 10.0, 10.0], [1.0, 0.0, 11.0, 10.0], [20.0, 0.0, 30.0, 10.0]])
    >>> with routed() as calls:
    ...     torchvision.ops.nms(boxes, torch.tensor([0.75, 0.875, 0.5]), 0.5)
    tensor([1, 2])
    >>> print(calls)
    calls of torchvision's NMS: 1 answered by hashnms, 0 passed to torchvision
    """
    calls, outer = Calls(), getattr(_innermost, "calls", None)
    _innermost.calls = calls
    try:
        with _Routing(calls):
            yield calls
    finally:
        _innermost.calls = outer
        if outer is not None:  # what is passed comes to it anyway
            outer.answered += calls.answered
    if calls == Calls():
        warnings.warn(_NO_CALLS, stacklevel=3)


_innermost = threading.local()  # its `calls` are those of the innermost block of this thread
_NO_CALLS = (
    "no call of torchvision's nms or batched_nms came in this routed() block. Calls in other threads, calls in "
    "TorchScript and other functions that suppress boxes are not routed"
)


class _Routing(TorchFunctionMode):
    def __init__(self, calls: Calls) -> None:
        super().__init__()
        self.calls = calls

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Every call of torch in the block comes through here."""
        kwargs = kwargs or {}
        if func is not torch.ops.torchvision.nms and func is not torch.ops.torchvision.nms.default:
            return func(*args, **kwargs)
        keep = self._of_subclass(func, types, args, kwargs) if types else self._of_hashnms(args, kwargs)
        if keep is None:
            self.calls.passed += 1
            return func(*args, **kwargs)
        return keep

    def _of_subclass(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Subclasses of Tensor come first, as in torch. Most call the op again on plain tensors: that call is led."""
        if torch.compiler.is_compiling():  # its second call looks like the first, without end
            return None
        with self:
            for kind in types:
                result = kind.__torch_function__(func, types, args, kwargs)
                if result is not NotImplemented:
                    return result
        return None

    def _of_hashnms(self, args: Any, kwargs: Any) -> Tensor | None:
        """None where the call is for torchvision, which may have an error to tell."""
        try:
            keep = None if is_exporting() else _nms(*args, **kwargs)
        except (TypeError, ValueError, OverflowError):
            return None
        self.calls.answered += keep is not None
        return keep


def _nms(dets: Any, scores: Any, iou_threshold: Any) -> Tensor | None:
    """With the names of the op's own arguments. None for types and shapes that torchvision's op on the CPU refuses."""
    taken = (
        isinstance(dets, Tensor)
        and isinstance(scores, Tensor)
        and dets.dtype == scores.dtype
        and dets.dtype in (torch.float32, torch.float64)
        and dets.ndim == 2
        and dets.shape[1] == 4
        and scores.shape == dets.shape[:1]
        and isinstance(iou_threshold, float | int | np.floating)
    )
    return nms(dets, scores, float(iou_threshold)) if taken else None
