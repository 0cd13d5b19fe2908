"""How a call reaches the core: one `CoreCall` for each of its functions, in the table at the end.

A public function passes NumPy arrays straight to the core. Everything else takes the one slow path, `answer`:

- tensors go to the op of the same name in `hashnms.torch.ops`, which also passes CPU tensors straight to the core;
- lists, and arrays that the core refused, are checked, converted and passed to the core once;
- if the core refuses them again, they contain an invalid number, and `explain` raises the error that says which.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from hashnms import _core, _settings, _tensors, _validate
from hashnms._validate import Array


@dataclass(frozen=True)
class CoreCall:
    """A function of the core, and how to handle arguments that it refuses: arrays first, then settings."""

    name: str  #: the name of the function and of its op
    core: Callable[..., Any]  #: returns None for arguments that it refuses
    arrays: Callable[..., tuple[Any, ...]]  #: converts the arrays, or raises an error
    settings: tuple[Callable[[Any], Any], ...]  #: convert each setting, or raise an error
    explain: Callable[..., None]  #: raises the error for converted arguments that the core refuses

    def answer(self, boxes: Any, *arguments: Any) -> Any:
        """The result of a public function where the core was not tried or refused the arguments."""
        if _tensors.is_tensor(boxes):
            return getattr(_tensors.ops, self.name)(boxes, *arguments)
        return self.converted(boxes, *arguments)

    def converted(self, *arguments: Any, rows: Any = None) -> Any:
        """The result for arrays, lists and CPU tensors, as arrays. Errors use the row numbers in `rows`, if given."""
        num_arrays = len(arguments) - len(self.settings)
        settings = self.checked(*arguments[num_arrays:])
        arrays = self.arrays(*arguments[:num_arrays])
        result = self.core(*arrays, *settings)
        if result is None:
            self.explain(*arrays, *settings, rows=rows)
            raise AssertionError(f"the core refused valid arguments of {self.name}")
        return result

    def checked(self, *settings: Any) -> list[Any]:
        """Settings in the types that the core takes."""
        return [check(setting) for check, setting in zip(self.settings, settings, strict=True)]


def _explain_numbers(boxes: Array, scores: Array, *others: Any, rows: Any) -> None:
    _validate.valid_numbers(boxes, scores, others[-1], rows)


def _explain_nms(
    boxes: Array, scores: Array, _labels: Any, _images: Any, iou_threshold: float, *others: Any, rows: Any
) -> None:
    *_, inclusive, box_format = others
    _settings.inclusive_threshold(iou_threshold, inclusive)
    _validate.valid_numbers(boxes, scores, box_format, rows)


def _explain_partial_nms(boxes: Array, scores: Array, *others: Any, rows: Any) -> None:
    *_, iou_threshold, _metric, inclusive, box_format = others
    _settings.inclusive_threshold(iou_threshold, inclusive)
    _validate.valid_numbers(boxes, scores, box_format, rows)


def _explain_regions(boxes: Array, iou_threshold: float, _metric: str, *others: Any, rows: Any) -> None:
    inclusive, box_format = others
    _settings.inclusive_threshold(iou_threshold, inclusive)
    _validate.valid_rows(boxes, box_format, rows=rows)


def _explain_batched_nms(boxes: Array, scores: Array, _groups: Array, _iou_threshold: float, rows: Any) -> None:
    _validate.valid_numbers(boxes, scores, "xyxy", rows)


def _explain_hnms(
    boxes: Array, scores: Array, _labels: Any, _images: Any, alpha: float, *settings: Any, rows: Any
) -> None:
    _validate.valid_numbers(boxes, scores, settings[-1], rows)
    _validate.refuse_codes(boxes, _core.family_has_code(boxes, alpha, *settings), alpha, rows)


def _explain_iou_hash(boxes: Array, alpha: float, *settings: Any, rows: Any) -> None:
    _validate.valid_rows(boxes, settings[-1], rows=rows)
    _validate.refuse_codes(boxes, _core.has_code(boxes, alpha, *settings), alpha, rows)


_iou_threshold = partial(_settings.share_value, "iou_threshold")
_nms_settings = (
    _iou_threshold,
    _settings.score_threshold_value,
    _settings.max_output_value,
    _settings.metric_value,
    partial(_settings.bool_value, "inclusive"),
    _settings.box_format_value,
)

HNMS = CoreCall(
    "hnms",
    _core.hnms,
    _validate.plain_arrays,
    (_settings.alpha_value, _settings.num_hashes_value, _settings.box_format_value),
    _explain_hnms,
)
NMS = CoreCall("nms", _core.nms, _validate.plain_arrays, _nms_settings, _explain_nms)
NMS_SUPPRESSOR = CoreCall("nms_suppressor", _core.nms_suppressor, _validate.plain_arrays, _nms_settings, _explain_nms)
PARTIAL_NMS = CoreCall(
    "partial_nms",
    _core.partial_nms,
    _validate.part_arrays,
    (_iou_threshold, _settings.metric_value, partial(_settings.bool_value, "inclusive"), _settings.box_format_value),
    _explain_partial_nms,
)
REGIONS = CoreCall(
    "regions",
    _core.regions,
    lambda boxes: (_validate.boxes_array(boxes),),
    (_iou_threshold, _settings.metric_value, partial(_settings.bool_value, "inclusive"), _settings.box_format_value),
    _explain_regions,
)
JOIN = CoreCall("join", _core.join, _validate.plain_arrays, _nms_settings, _explain_nms)
BATCHED_NMS = CoreCall(
    "batched_nms", _core.batched_nms, _validate.grouped_arrays, (_iou_threshold,), _explain_batched_nms
)
SOFT_NMS = CoreCall(
    "soft_nms",
    _core.soft_nms,
    _validate.plain_arrays,
    (
        _settings.method_value,
        _settings.sigma_value,
        _iou_threshold,
        _settings.min_score_value,
        _settings.max_output_value,
        _settings.box_format_value,
    ),
    _explain_numbers,
)
TOP_K = CoreCall(
    "top_k",
    _core.top_k,
    _validate.plain_arrays,
    (
        _settings.score_threshold_value,
        _settings.max_output_value,
        _settings.max_output_value,
        _settings.box_format_value,
    ),
    _explain_numbers,
)
IOU_HASH = CoreCall(
    "iou_hash",
    _core.iou_hash,
    lambda boxes: (_validate.boxes_array(boxes),),
    (
        _settings.alpha_value,
        partial(_settings.origin_value, "w0"),
        partial(_settings.origin_value, "h0"),
        partial(_settings.shift_value, "bx"),
        partial(_settings.shift_value, "by"),
        _settings.box_format_value,
    ),
    _explain_iou_hash,
)
