"""Calls of torchvision's NMS led to hashnms, in code that is not ours to change."""

from __future__ import annotations

from typing import Any

import torch
import torchvision  # noqa: F401  it registers the op
from torch.overrides import TorchFunctionMode

from hashnms import nms


class routed(TorchFunctionMode):
    """While the block runs, `hashnms.nms` answers this thread's calls of `torchvision.ops.nms` and `batched_nms`.

    However the code came by the functions: both end in the op `torch.ops.torchvision.nms`, and that is what is led
    elsewhere; so `batched_nms` still treats labels as torchvision does. Nothing of torch or torchvision is changed:
    other threads, and this one after the block, call torchvision's own.

    The result is what torchvision's op on the CPU returns, index by index, ties included. Calls that `hashnms.nms`
    refuses, with infinite scores for one, are torchvision's to answer. Code that is compiled to TorchScript calls the
    op without Python and is not routed.

    >>> import torch, torchvision
    >>> boxes = torch.tensor([[0.0, 0.0, 10.0, 10.0], [1.0, 0.0, 11.0, 10.0], [20.0, 0.0, 30.0, 10.0]])
    >>> with routed():
    ...     torchvision.ops.nms(boxes, torch.tensor([0.75, 0.875, 0.5]), 0.5)
    tensor([1, 2])
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Every call of torch in the block comes through here."""
        if func is torch.ops.torchvision.nms or func is torch.ops.torchvision.nms.default:
            try:
                return _nms(*args, **(kwargs or {}))
            except (TypeError, ValueError):
                pass
        return func(*args, **(kwargs or {}))


def _nms(dets: Any, scores: Any, iou_threshold: float) -> Any:
    """With the names of the op's own arguments."""
    return nms(dets, scores, float(iou_threshold))
