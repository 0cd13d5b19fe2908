"""What runs on the device itself: HNMS, in Triton kernels or otherwise in plain torch operations, and top k."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hashnms._calls import CoreCall
from hashnms._candidates import Candidates
from hashnms._settings import BoxFormatName
from hashnms.hashing import IoUHash, hash_family
from hashnms.torch import portable

_FLOATS = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float32: torch.float32,
    torch.float64: torch.float64,
}
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_MOST_BOXES = 2**28  # slots of a table are counted in 32 bits


class TensorCandidates(Candidates):
    """Candidates as tensors, with `top` in torch operations, on any device and in ONNX."""

    def top(
        self, *, score_threshold: float | None = None, of_label: int | None = None, in_all: int | None = None
    ) -> tuple[Tensor, Tensor]:
        places = portable.ranked(self.scores)
        if score_threshold is not None:
            least = portable.operand(float_below(score_threshold, self.scores.dtype), self.scores.dtype)
            places = places[self.scores.index_select(0, places) > least]
        if of_label is not None:
            places = first_of_each(self.pairs(), places, of_label)
        if in_all is not None:
            places = first_of_each(self.images, places, in_all)
        return self._with_scores(places)

    def pairs(self) -> Tensor | None:
        """A number for each pair of image and label, so that code for labels also handles images."""
        if self.images is None or self.labels is None:
            return self.labels if self.images is None else self.images
        return portable.numbered([self.images, self.labels])


class DeviceCandidates(TensorCandidates):
    """Candidates as tensors with checked types and shapes: float32 or float64, int64 labels.

    What the device cannot do itself, the core does on a copy of the remaining boxes.
    """

    @staticmethod
    def plain(
        boxes: Tensor, scores: Tensor, labels: Tensor | None, images: Tensor | None, box_format: BoxFormatName
    ) -> DeviceCandidates | None:
        """The tensors as candidates, or None if they are invalid or have rare types, which the host handles."""
        are_plain = (
            boxes.device.type != "mps"  # it has no float64
            and boxes.dtype in _FLOATS
            and boxes.ndim == 2
            and boxes.shape[1] == 4
            and len(boxes) <= _MOST_BOXES
            and _one_for_each(boxes, scores, _FLOATS)
            and all(value is None or _one_for_each(boxes, value, (*_INTEGERS, *_FLOATS)) for value in (labels, images))
        )
        if not are_plain or not (_are_whole(labels) and _are_whole(images)):
            return None
        plain_labels, plain_images = (
            None if value is None else value.detach().to(torch.int64).contiguous() for value in (labels, images)
        )
        return DeviceCandidates(
            boxes.detach().to(_FLOATS[boxes.dtype]).contiguous(),
            scores.detach().to(_FLOATS[scores.dtype]).contiguous(),
            plain_labels,
            plain_images,
            box_format,
        )

    def are_valid(self) -> bool:
        """Whether all numbers are valid: finite, also the corners, and no negative sizes."""
        first, second = self.boxes[:, :2], self.boxes[:, 2:]
        sizes_are = second >= (first if self.box_format == "xyxy" else 0)
        return bool(self.have_finite_corners() & sizes_are.all() & self.scores.isfinite().all())

    def have_finite_corners(self) -> Tensor:
        """One bool on the device."""
        return portable.corners_are_finite(self.boxes, self.box_format)

    def hnms(self, alpha: float, num_hashes: int, most: int | None) -> tuple[Tensor, Tensor]:
        places = hnms(self, hash_family(alpha, num_hashes))
        return super().hnms(alpha, num_hashes, most) if places is None else self._with_scores(self._first(places, most))

    def _by_core(self, call: CoreCall, *settings: Any) -> Any:
        tensors = (self.boxes, self.scores, self.labels, self.images)
        copies = (None if tensor is None else tensor.cpu() for tensor in tensors)
        return tensors_on(self.boxes.device, call.converted(*copies, *settings, self.box_format, rows=self.rows))

    def _by_arrays(self, function: Callable[..., Any], *settings: Any) -> Any:
        arrays = (value.cpu().numpy() if isinstance(value, Tensor) else value for value in (*self, *settings))
        given = Candidates._make(islice(arrays, len(self)))
        return tensors_on(self.boxes.device, function(given, *arrays))


def first_of_each(labels: Tensor | None, places: Tensor, most: int) -> Tensor:
    """The first `most` places of each label, in their order."""
    if labels is None and torch.onnx.is_in_onnx_export():  # torch 2.9 cannot export a slice of unknown length
        return places[torch.arange(places.shape[0], device=places.device) < most]
    if labels is None:
        return places[:most]
    return places[portable.are_among_first([labels.index_select(0, places)], most)]


def float_below(number: float, dtype: torch.dtype, *, or_at: bool = True) -> float:
    """The greatest float32 or float64 below the number, or equal to it: floats above one are above the other.

    >>> float_below(0.5, torch.float32), float_below(0.1, torch.float32) < 0.1
    (0.5, True)
    """
    floats = np.float64 if dtype == torch.float64 else np.float32
    with np.errstate(over="ignore"):
        nearest = floats(number)
    is_below = float(nearest) <= number if or_at else float(nearest) < number
    return float(nearest if is_below else np.nextafter(nearest, floats(-np.inf)))


def tensors_on(where: torch.device, result: Any) -> Any:
    """Arrays and CPU tensors as tensors on a device."""
    if isinstance(result, tuple):
        return tuple(tensors_on(where, part) for part in result)
    return (result if isinstance(result, Tensor) else torch.from_numpy(result)).to(where)


def _one_for_each(boxes: Tensor, values: Any, dtypes: Collection[torch.dtype]) -> bool:
    return (
        isinstance(values, Tensor)
        and values.device == boxes.device
        and values.shape == boxes.shape[:1]
        and values.dtype in dtypes
    )


def _are_whole(labels: Tensor | None) -> bool:
    """Whether labels are integers, or floats that are whole numbers and fit into int64."""
    if labels is None or not labels.is_floating_point():
        return True
    return bool(((labels.trunc() == labels) & (labels.abs() < 2.0**63)).all())


def hnms(given: DeviceCandidates, functions: list[IoUHash]) -> Tensor | None:
    """The rows that HNMS keeps; None if a number is invalid or beyond the tables, which the host handles."""
    if functions[0].alpha > portable.LARGEST_ALPHA:
        return None
    if len(given.boxes) == 0:
        return torch.zeros_like(given.scores, dtype=torch.int64)
    arguments = (given.boxes, given.scores, given.pairs(), functions, given.box_format)
    kernels = _triton_kernels(given.boxes.device) if given.boxes.is_cuda else None
    if kernels is None:
        rows, fits = portable.hnms(*arguments)
    else:
        with torch.cuda.device(given.boxes.device):  # the device where Triton launches
            rows, fits = kernels.hnms(*arguments)
    if given.box_format != "xyxy":
        fits = fits & given.have_finite_corners()
    return rows if bool(fits) else None


@lru_cache(maxsize=8)
def _triton_kernels(device: torch.device) -> Any:
    """The kernels, if they compile for this device and agree with plain operations; otherwise None, with a warning."""
    try:
        from hashnms.torch import kernels  # noqa: PLC0415

        with torch.cuda.device(device):
            check_kernels(kernels, device)
    except Exception as error:  # many kinds: no Triton, no C compiler, an unknown GPU
        warnings.warn(f"hashnms uses plain torch operations on {device}: {error}", RuntimeWarning, stacklevel=2)
        return None
    return kernels


def check_kernels(kernels: Any, device: torch.device) -> None:
    """Test the kernels on a few thousand crowded boxes with ties and labels."""
    place = torch.arange(4000, dtype=torch.float32, device=device)
    corner, size = (place * 7.3) % 97, (place * 3.7) % 11
    boxes = torch.stack([corner, corner, corner + size, corner + size * 1.5], dim=1)
    arguments = (boxes, place % 50, place.to(torch.int64) % 3, hash_family(0.7, 2), "xyxy")
    if not torch.equal(kernels.hnms(*arguments)[0], portable.hnms(*arguments)[0]):
        raise RuntimeError("the Triton kernels and plain operations keep different boxes")
