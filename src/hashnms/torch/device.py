"""HNMS where the tensors are: by Triton kernels on GPUs that take them, else in plain torch operations."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hashnms._validate import BoxFormatName
from hashnms.hashing import IoUHash, hash_family
from hashnms.torch import portable

_FLOATS = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float32: torch.float32,
    torch.float64: torch.float64,
}
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_MOST_BOXES = 2**28  # the slots of a table are counted in 32 bits


class DeviceBoxes(NamedTuple):
    """Tensors of the types and shapes that everything here trusts: float32 or float64, int64 labels."""

    boxes: Tensor
    scores: Tensor
    labels: Tensor | None
    box_format: BoxFormatName

    @staticmethod
    def plain(boxes: Tensor, scores: Tensor, labels: Tensor | None, box_format: BoxFormatName) -> DeviceBoxes | None:
        """Tensors as such, or None if they are wrong or rare: the host knows what to do or say."""
        are_plain = (
            boxes.device.type != "mps"  # it has no float64
            and boxes.dtype in _FLOATS
            and boxes.ndim == 2
            and boxes.shape[1] == 4
            and len(boxes) <= _MOST_BOXES
            and _one_for_each(boxes, scores, _FLOATS)
            and (labels is None or _one_for_each(boxes, labels, _INTEGERS))
        )
        if not are_plain:
            return None
        return DeviceBoxes(
            boxes.detach().to(_FLOATS[boxes.dtype]).contiguous(),
            scores.detach().to(_FLOATS[scores.dtype]).contiguous(),
            None if labels is None else labels.to(torch.int64).contiguous(),
            box_format,
        )

    def of(self, rows: Tensor) -> DeviceBoxes:
        """Some of them."""
        labels = None if self.labels is None else self.labels[rows]
        return DeviceBoxes(self.boxes[rows], self.scores[rows], labels, self.box_format)

    def to(self, device: str) -> DeviceBoxes:
        """All of them on another device."""
        labels = None if self.labels is None else self.labels.to(device)
        return DeviceBoxes(self.boxes.to(device), self.scores.to(device), labels, self.box_format)

    def are_legal(self) -> bool:
        """Whether all numbers are: finite, and no size below 0."""
        first, second = self.boxes[:, :2], self.boxes[:, 2:]
        sizes_are = second >= (first if self.box_format == "xyxy" else 0)
        return bool(self.boxes.isfinite().all() & sizes_are.all() & self.scores.isfinite().all())


def _one_for_each(boxes: Tensor, values: Any, dtypes: Collection[torch.dtype]) -> bool:
    return (
        isinstance(values, Tensor)
        and values.device == boxes.device
        and values.shape == boxes.shape[:1]
        and values.dtype in dtypes
    )


def hnms(given: DeviceBoxes, functions: list[IoUHash]) -> Tensor | None:
    """The rows that HNMS keeps; None if a number is illegal or beyond the tables, which is for the host."""
    if functions[0].alpha > portable.LARGEST_ALPHA:
        return None
    if len(given.boxes) == 0:
        return torch.zeros_like(given.scores, dtype=torch.int64)
    kernels = _triton_kernels(given.boxes.device) if given.boxes.is_cuda else None
    if kernels is None:
        rows, fits = portable.hnms(*given[:3], functions, given.box_format)
    else:
        with torch.cuda.device(given.boxes.device):  # where Triton launches
            rows, fits = kernels.hnms(*given[:3], functions, given.box_format)
    return rows if bool(fits) else None


@lru_cache(maxsize=8)
def _triton_kernels(device: torch.device) -> Any:
    """The kernels, if they compile for this device and give what plain operations give; else None, and a warning."""
    try:
        from hashnms.torch import kernels  # noqa: PLC0415

        with torch.cuda.device(device):
            check_kernels(kernels, device)
    except Exception as error:  # of many kinds: no Triton, no C compiler, a GPU that it does not know
        warnings.warn(f"hashnms uses plain torch operations on {device}: {error}", RuntimeWarning, stacklevel=2)
        return None
    return kernels


def check_kernels(kernels: Any, device: torch.device) -> None:
    """Try them on some thousand boxes in heaps, with ties and labels."""
    place = torch.arange(4000, dtype=torch.float32, device=device)
    corner, size = (place * 7.3) % 97, (place * 3.7) % 11
    boxes = torch.stack([corner, corner, corner + size, corner + size * 1.5], dim=1)
    arguments = (boxes, place % 50, place.to(torch.int64) % 3, hash_family(0.7, 2), "xyxy")
    if not torch.equal(kernels.hnms(*arguments)[0], portable.hnms(*arguments)[0]):
        raise RuntimeError("the Triton kernels give other boxes there")
