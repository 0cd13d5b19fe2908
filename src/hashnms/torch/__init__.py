"""hashnms in PyTorch: ops for graphs, modules, and HNMS on any device.

The functions of `hashnms` itself take tensors: `hashnms.nms(boxes, scores)` returns a tensor on their device, also
under `torch.compile` and `torch.export`. This module has what exists only for torch: `hnms_mask`, whose result has a
fixed size, and the modules `HNMS` and `MultiHNMS`. Importing it registers `torch.ops.hashnms`, which saved programs
need.
"""

from hashnms.torch.modules import HNMS, MultiHNMS, hnms_mask

__all__ = ["HNMS", "MultiHNMS", "hnms_mask"]
