"""HNMS as modules with the signatures of the paper's code, and as a mask."""

from __future__ import annotations

from torch import Tensor, nn

from hashnms import hnms
from hashnms._settings import BoxFormatName, alpha_value, box_format_value, num_hashes_value, origin_value, shift_value
from hashnms.torch import ops


def hnms_mask(
    boxes: Tensor,
    scores: Tensor,
    *,
    alpha: float = 0.7,
    num_hashes: int = 1,
    labels: Tensor | None = None,
    images: Tensor | None = None,
    box_format: BoxFormatName = "xyxy",
) -> Tensor:
    """`hashnms.hnms` as a mask: an (N,) bool tensor that is True for kept boxes.

    The mask has the shape of the scores, so shapes in graphs do not depend on the data. Arguments and errors are those
    of `hashnms.hnms`; in ONNX, numbers are not checked.

    >>> import torch
    >>> boxes = torch.tensor([[0.0, 0.0, 100.0, 100.0], [1.0, 1.0, 101.0, 101.0], [200.0, 0.0, 300.0, 100.0]])
    >>> hnms_mask(boxes, torch.tensor([0.8, 0.9, 0.5]))
    tensor([False,  True,  True])
    """
    return ops.hnms_mask(boxes, scores, labels, images, alpha, num_hashes, box_format)


class MultiHNMS(nn.Module):
    """Multi-HNMS (Alg. 3): `MultiHNMS(num, alpha)(cxcywh, conf)` is `hashnms.hnms` with boxes as centre and size.

    Args:
        num: the number of hash functions, `num_hashes` of `hashnms.hnms`.
        alpha: in (0, 1).
        box_format: "cxcywh", "xyxy" or "xywh".

    >>> import torch
    >>> cxcywh = torch.tensor([[10.0, 20.0, 10.0, 20.0], [10.0, 20.0, 10.0, 20.0], [30.0, 6.0, 4.0, 5.0]])
    >>> MultiHNMS(num=1, alpha=0.7)(cxcywh, torch.tensor([0.9, 0.8, 0.9]))
    tensor([0, 2])
    """

    def __init__(self, num: int, alpha: float, *, box_format: BoxFormatName = "cxcywh") -> None:
        super().__init__()
        self.num = num_hashes_value(num)
        self.alpha = alpha_value(alpha)
        box_format_value(box_format)
        self.box_format = box_format

    def forward(self, rects: Tensor, conf: Tensor, labels: Tensor | None = None) -> Tensor:
        """The rows of the kept boxes, by decreasing score, ties to the lower row."""
        return hnms(rects, conf, alpha=self.alpha, num_hashes=self.num, labels=labels, box_format=self.box_format)

    def extra_repr(self) -> str:
        return f"num={self.num}, alpha={self.alpha}, box_format={self.box_format!r}"


class HNMS(nn.Module):
    """HNMS with one hash function (Alg. 2) with any parameters; see `hashnms.iou_hash`.

    `MultiHNMS(1, alpha)` is the same with w0 = h0 = 1 and bx = by = 0, and is faster on a CPU.

    >>> import torch
    >>> cxcywh = torch.tensor([[10.0, 20.0, 10.0, 20.0], [10.0, 20.0, 10.0, 20.0], [30.0, 6.0, 4.0, 5.0]])
    >>> HNMS(alpha=0.7)(cxcywh, torch.tensor([0.9, 0.8, 0.9]))
    tensor([0, 2])
    """

    def __init__(
        self,
        alpha: float,
        w0: float = 1.0,
        h0: float = 1.0,
        bx: float = 0.5,
        by: float = 0.5,
        *,
        box_format: BoxFormatName = "cxcywh",
    ) -> None:
        super().__init__()
        self.alpha = alpha_value(alpha)
        self.w0, self.h0 = origin_value("w0", w0), origin_value("h0", h0)
        self.bx, self.by = shift_value("bx", bx), shift_value("by", by)
        box_format_value(box_format)
        self.box_format = box_format

    def forward(self, rects: Tensor, conf: Tensor, labels: Tensor | None = None) -> Tensor:
        """The rows of the kept boxes, by decreasing score, ties to the lower row."""
        function = (self.alpha, self.w0, self.h0, self.bx, self.by)
        return ops.hnms_once(rects, conf, labels, None, *function, self.box_format)

    def extra_repr(self) -> str:
        names = ("alpha", "w0", "h0", "bx", "by", "box_format")
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
