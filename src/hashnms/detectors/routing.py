"""Calls of torchvision's NMS led to hashnms, in code that is not ours to change."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
import torchvision  # noqa: F401  it registers the op
from torch import Tensor
from torch.overrides import TorchFunctionMode

from hashnms import nms
from hashnms.detectors.exporting import is_exporting


@dataclass
class Calls:
    """The calls in a `routed` block: those of torchvision's NMS that hashnms answered, those passed to torchvision.

    `others` are the calls of other known functions that hashnms answered, by the function's name.
    """

    answered: int = 0
    passed: int = 0
    others: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        text = f"calls of torchvision's NMS: {self.answered} answered by hashnms, {self.passed} passed to torchvision"
        return text + "".join(f"; calls of {name}: {count} answered" for name, count in self.others.items())


@contextmanager
def routed() -> Iterator[Calls]:
    """While the block runs, `hashnms.nms` answers this thread's calls of `torchvision.ops.nms` and `batched_nms`.

    However the code came by the functions: both end in the op `torch.ops.torchvision.nms`, and that is what is led
    elsewhere; so `batched_nms` still treats labels as torchvision does. Nothing of torch or torchvision is changed:
    other threads, and this one after the block, call torchvision's own.

    The result is what torchvision's op on the CPU returns, index by index, ties included, in the same class of tensor.
    Functions of other packages that are such an NMS of their own are led here, too, if the package was imported before:
    those of the table `KNOWN`, which has ultralytics' `TorchNMS.nms`. What they are called with and hashnms refuses
    they answer themselves.

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
        with _Routing(calls), ExitStack() as stack:
            for known in KNOWN:
                stack.enter_context(known.led())
            yield calls
    finally:
        _innermost.calls = outer
        if outer is not None:  # what is passed comes to it anyway
            outer.answered += calls.answered
            for name, count in calls.others.items():
                outer.others[name] = outer.others.get(name, 0) + count
    if calls == Calls():
        warnings.warn(_NO_CALLS, stacklevel=3)


_innermost = threading.local()  # its `calls` are those of the innermost block of this thread
_NO_CALLS = (
    "no call of torchvision's nms or batched_nms came in this routed() block. Calls in other threads, calls in "
    "TorchScript and other functions that suppress boxes are not routed"
)


class Known(NamedTuple):
    """A function `holder.function` of a module, called with boxes, scores and an IoU threshold as torchvision's NMS."""

    name: str
    module: str
    holder: str
    function: str

    @contextmanager
    def led(self) -> Iterator[None]:
        """While the block runs, hashnms answers this thread's calls. Not if the module was not imported."""
        holder = getattr(sys.modules.get(self.module), self.holder, None)
        stock = None if holder is None else vars(holder).get(self.function)
        if holder is None or stock is None or isinstance(stock, _Led):
            yield
            return
        setattr(holder, self.function, _Led(self.name, getattr(holder, self.function)))
        try:
            yield
        finally:
            setattr(holder, self.function, stock)


class _Led:
    """What stands in for a known function: in threads with a `routed` block hashnms, in others the function."""

    def __init__(self, name: str, stock: Callable[..., Any]) -> None:
        self.name, self.stock = name, stock

    def __call__(self, boxes: Any, scores: Any, iou_threshold: Any) -> Any:
        calls = getattr(_innermost, "calls", None)
        keep = None
        if calls is not None:
            try:
                keep = None if is_exporting() else _nms(boxes, scores, iou_threshold)
            except (TypeError, ValueError, OverflowError):
                keep = None
        if calls is None or keep is None:
            return self.stock(boxes, scores, iou_threshold)
        calls.others[self.name] = calls.others.get(self.name, 0) + 1
        return keep


#: Functions that compare as torchvision does: IoU > threshold. They differ where scores tie.
KNOWN = [Known("ultralytics' TorchNMS.nms", "ultralytics.utils.nms", "TorchNMS", "nms")]


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
