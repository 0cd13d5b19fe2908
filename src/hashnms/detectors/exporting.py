"""Tells whether torch is exporting a graph for other runtimes."""

from __future__ import annotations

import torch


def is_exporting() -> bool:
    """Whether `torch.export`, `torch.onnx.export` or `torch.jit.trace` runs this code; not `torch.compile`.

    A runtime of such a graph may not have hashnms, but knows torchvision's NMS.
    """
    return bool(_torch_is_exporting() or torch.onnx.is_in_onnx_export() or torch.jit.is_tracing())


#: Versions of torch before 2.7 do not have this function: their `torch.export` sees hashnms's ops.
_torch_is_exporting = getattr(torch.compiler, "is_exporting", lambda: False)
