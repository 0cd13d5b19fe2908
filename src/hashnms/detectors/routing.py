"""Redirect calls of torchvision's NMS to hashnms, in code that cannot be changed."""

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
    """Counts the calls of torchvision's NMS in a `routed` block: answered by hashnms, and passed to torchvision.

    `others` counts the calls of other known functions that hashnms answered, by the function's name.
    """

    answered: int = 0
    passed: int = 0
    others: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        text = f"calls of torchvision's NMS: {self.answered} answered by hashnms, {self.passed} passed to torchvision"
        return text + "".join(f"; calls of {name}: {count} answered" for name, count in self.others.items())


@contextmanager
def routed() -> Iterator[Calls]:
    """Let `hashnms.nms` answer this thread's calls of `torchvision.ops.nms` and `batched_nms` while the block runs.

    It does not matter how the code imported the functions: both call the op `torch.ops.torchvision.nms`, and that is
    redirected. So `batched_nms` still treats labels as torchvision does. Nothing in torch or torchvision is changed:
    other threads, and this one after the block, call torchvision's own NMS.

    The result is what torchvision's op on the CPU returns, index by index, including ties, in the same class of tensor.
    The functions in the table `KNOWN`, today ultralytics' `TorchNMS.nms`, are redirected too, if their package was
    imported before. If hashnms refuses the arguments, the function itself answers.

    A call goes to torchvision if its op on the CPU or `hashnms.nms` refuses the arguments (float16, infinite scores),
    and while torch exports the code. Code compiled to TorchScript calls the op without Python and is not routed.

    Yields:
        The `Calls` so far. Calls in nested blocks are added when those end.

    Warns:
        UserWarning: at the end of the block, if there was no call.

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
        if outer is not None:  # passed calls reach the outer block anyway
            outer.answered += calls.answered
            for name, count in calls.others.items():
                outer.others[name] = outer.others.get(name, 0) + count
    if calls == Calls():
        warnings.warn(_NO_CALLS, stacklevel=3)


_innermost = threading.local()  # `calls` of the innermost block of this thread
_NO_CALLS = (
    "no call of torchvision's nms or batched_nms reached this routed() block. Calls in other threads, calls in "
    "TorchScript and other functions that suppress boxes are not routed"
)


class Known(NamedTuple):
    """A function `holder.function` of a module, called like torchvision's NMS: boxes, scores, IoU threshold.

    `ours` returns the same, or None for arguments that are left to the function.
    """

    name: str
    module: str
    holder: str
    function: str
    ours: Callable[..., Any]

    @contextmanager
    def led(self) -> Iterator[None]:
        """Let hashnms answer this thread's calls while the block runs. Does nothing if the module was not imported."""
        holder = getattr(sys.modules.get(self.module), self.holder, None)
        stock = None if holder is None else vars(holder).get(self.function)
        if holder is None or stock is None or isinstance(stock, _Led):
            yield
            return
        setattr(holder, self.function, _Led(self.name, getattr(holder, self.function), self.ours))
        try:
            yield
        finally:
            setattr(holder, self.function, stock)


class _Led:
    """The replacement of a known function: hashnms in threads with a `routed` block, the function itself in others."""

    def __init__(self, name: str, stock: Callable[..., Any], ours: Callable[..., Any]) -> None:
        self.name, self.stock, self.ours = name, stock, ours

    def __call__(self, boxes: Any, scores: Any, iou_threshold: Any) -> Any:
        calls = getattr(_innermost, "calls", None)
        keep = None
        if calls is not None:
            try:
                keep = None if is_exporting() else self.ours(boxes, scores, iou_threshold)
            except (TypeError, ValueError, OverflowError):
                keep = None
        if calls is None or keep is None:
            return self.stock(boxes, scores, iou_threshold)
        calls.others[self.name] = calls.others.get(self.name, 0) + 1
        return keep


class _Routing(TorchFunctionMode):
    def __init__(self, calls: Calls) -> None:
        super().__init__()
        self.calls = calls

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Handle every call of torch in the block."""
        kwargs = kwargs or {}
        if func is not torch.ops.torchvision.nms and func is not torch.ops.torchvision.nms.default:
            return func(*args, **kwargs)
        keep = self._of_subclass(func, types, args, kwargs) if types else self._of_hashnms(args, kwargs)
        if keep is None:
            self.calls.passed += 1
            return func(*args, **kwargs)
        return keep

    def _of_subclass(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Let subclasses of Tensor answer first, as torch does. Most then call the op on plain tensors."""
        if torch.compiler.is_compiling():  # under torch.compile this would recurse without end
            return None
        with self:
            for kind in types:
                result = kind.__torch_function__(func, types, args, kwargs)
                if result is not NotImplemented:
                    return result
        return None

    def _of_hashnms(self, args: Any, kwargs: Any) -> Tensor | None:
        """The answer of hashnms; None if torchvision must answer, possibly with an error."""
        try:
            keep = None if is_exporting() else _nms(*args, **kwargs)
        except (TypeError, ValueError, OverflowError):
            return None
        self.calls.answered += keep is not None
        return keep


def _nms(dets: Any, scores: Any, iou_threshold: Any) -> Tensor | None:
    """NMS with the op's argument names. None for types and shapes that torchvision's op on the CPU refuses."""
    return nms(dets, scores, float(iou_threshold)) if _are_usual(dets, scores, iou_threshold) else None


def _are_usual(boxes: Any, scores: Any, iou_threshold: Any) -> bool:
    return (
        isinstance(boxes, Tensor)
        and isinstance(scores, Tensor)
        and boxes.dtype == scores.dtype
        and boxes.dtype in (torch.float32, torch.float64)
        and boxes.ndim == 2
        and boxes.shape[1] == 4
        and scores.shape == boxes.shape[:1]
        and isinstance(iou_threshold, float | int | np.floating)
    )


def _ultralytics_nms(boxes: Any, scores: Any, iou_threshold: Any) -> Tensor | None:
    """NMS with the ties and the threshold of ultralytics' own: a sort that is not stable, and the boxes' float type."""
    if not _are_usual(boxes, scores, iou_threshold):
        return None
    order = scores.argsort(0, descending=True)
    ranks = torch.arange(len(order), 0, -1, dtype=torch.float64, device=boxes.device)
    keep: Any = nms(boxes[order], ranks, torch.tensor(iou_threshold, dtype=boxes.dtype).item())
    return order[keep]


#: Other functions that are routed.
KNOWN = [Known("ultralytics' TorchNMS.nms", "ultralytics.utils.nms", "TorchNMS", "nms", _ultralytics_nms)]
