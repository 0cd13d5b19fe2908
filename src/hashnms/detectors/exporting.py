"""Whether torch is writing down a graph for others to run."""

from __future__ import annotations

import torch


def is_exporting() -> bool:
    """Whether `torch.export`, `torch.onnx.export` or `torch.jit.trace` runs this code. `torch.compile` is none of them.

    Who runs such a graph may not have hashnms; torchvision's NMS they all know.
    """
    return bool(torch.compiler.is_exporting() or torch.onnx.is_in_onnx_export() or torch.jit.is_tracing())
