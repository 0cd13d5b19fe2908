"""The functions of `hashnms` on tensors, and the registered ops `torch.ops.hashnms.*` for graphs.

On plain tensors a function runs directly. Under `torch.compile`, `torch.export` and transforms, and for subclasses of
tensors, the call goes through the op of the same name, whose fake kernel gives the shape of the result. Autograd
ignores them.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hashnms import _settings, _validate
from hashnms._calls import BATCHED_NMS, HNMS, IOU_HASH, JOIN, NMS, NMS_SUPPRESSOR, SOFT_NMS
from hashnms.hashing import IoUHash, hash_family
from hashnms.merging import fuse_on_host, merge_on_host
from hashnms.pipeline import Suppression
from hashnms.torch import device, onnx, portable
from hashnms.torch.device import DeviceCandidates, tensors_on
from hashnms.torch.onnx import OnnxCandidates
from hashnms.torch.registration import Function, is_compiling, is_tracing, register


def _some_rows(boxes: Tensor, *_: Any) -> Tensor:
    return boxes.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64)


def _some_rows_and_scores(boxes: Tensor, scores: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    rows = _some_rows(boxes)
    score_type = torch.float64 if scores.dtype == torch.float64 else torch.float32
    return rows, scores.new_empty(rows.shape[0], dtype=score_type)


def _rows_with_boxes(boxes: Tensor, scores: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    rows, final = _some_rows_and_scores(boxes, scores)
    box_type = torch.float64 if boxes.dtype == torch.float64 else torch.float32
    return rows, final, boxes.new_empty(rows.shape[0], 4, dtype=box_type)


_LARGE_INTEGERS = (torch.int32, torch.int64, torch.uint32, torch.uint64)


def _of_all_rows(dtype: torch.dtype, *columns: int) -> Function:
    return lambda boxes, *_: boxes.new_empty(boxes.shape[0], *columns, dtype=dtype)


def _family(*settings: Any) -> tuple[list[IoUHash], str]:
    alpha, num_hashes, box_format = HNMS.checked(*settings)
    return hash_family(alpha, num_hashes), box_format


def _one_function(*settings: Any) -> tuple[list[IoUHash], str]:
    *parameters, box_format = IOU_HASH.checked(*settings)
    return [IoUHash(*parameters)], box_format


def _hnms_on_device(functions_of: Function) -> Function:
    def hnms_on_device(boxes: Tensor, scores: Any, labels: Any, images: Any, *settings: Any) -> Tensor | None:
        functions, box_format = functions_of(*settings)
        given = DeviceCandidates.plain(boxes, scores, labels, images, box_format)
        return None if given is None else device.hnms(given, functions)

    return hnms_on_device


def _hnms_in_onnx(method: Function, functions_of: Function) -> Function:
    def hnms_in_onnx(boxes: Tensor, scores: Any, labels: Any, images: Any, *settings: Any) -> Any:
        functions, box_format = functions_of(*settings)
        return OnnxCandidates.of(boxes, scores, labels, images, box_format).hashed(method, functions)

    return hnms_in_onnx


def _hnms_rows(*arguments: Any) -> Tensor:
    return portable.hnms(*arguments)[0]


def _suppress_in_onnx(boxes: Tensor, scores: Any, labels: Any, images: Any, suppression: Any, box_format: Any) -> Any:
    given = (boxes, scores, labels, images, _settings.box_format_value(box_format))
    return onnx.suppress(_chain(suppression), *given)


def _hnms_once_on_host(boxes: Tensor, scores: Any, labels: Any, images: Any, *function: Any) -> Any:
    """HNMS with one hash function of any parameters: in torch operations; otherwise the core hashes and NumPy sorts."""
    keep = _hnms_on_device(_one_function)(boxes, scores, labels, images, *function)
    if keep is not None:
        return keep
    box_array, score_array, *groups = _validate.plain_arrays(boxes, scores, labels, images)
    _validate.finite_scores(score_array)
    i, j, m, n = IOU_HASH.converted(box_array, *function).T
    own = np.where(np.minimum(i, j) == np.iinfo(np.int64).min, np.arange(len(box_array)), -1)  # no cell: its row
    fields = np.stack([own, i, j, m, n, *(group for group in groups if group is not None)])
    by_score = np.argsort(-score_array, kind="stable")
    fields = fields[:, by_score]
    by_cell = np.lexsort(fields)
    is_first = np.ones(len(by_cell), np.bool_)
    is_first[1:] = (np.diff(fields[:, by_cell], axis=1) != 0).any(axis=0)
    return by_score[np.sort(by_cell[is_first])]


def _masked(hnms: Function) -> Function:
    """Turn the rows that a function returns, if any, into a mask."""

    def mask(boxes: Tensor, *arguments: Any) -> Tensor | None:
        keep = hnms(boxes, *arguments)
        if keep is None:
            return None
        rows = keep if isinstance(keep, Tensor) else torch.from_numpy(keep)
        return boxes.new_zeros(boxes.shape[0], dtype=torch.bool).scatter(0, rows, True)

    return mask


def _suppress_on_host(boxes: Any, scores: Any, labels: Any, images: Any, suppression: Any, box_format: Any) -> Any:
    return _chain(suppression).on_host(boxes, scores, labels, images, box_format)


def _suppress_on_device(boxes: Tensor, scores: Any, labels: Any, images: Any, suppression: Any, box_format: Any) -> Any:
    given = DeviceCandidates.plain(boxes, scores, labels, images, _settings.box_format_value(box_format))
    return _chain(suppression).run(given) if given is not None and given.are_valid() else None


def _merge_on_host(*arguments: Any) -> Any:
    keep, merged, scores = merge_on_host(*arguments)
    return keep, scores, merged


def _as_floats(boxes: Tensor) -> Tensor:
    """In a graph the type of merged boxes must follow from the type of the given ones: large integers are doubles."""
    return boxes.double() if boxes.dtype in _LARGE_INTEGERS and (is_compiling() or is_tracing()) else boxes


def suppress_and_merge(boxes: Tensor, *arguments: Any) -> Any:
    """Run a suppression that changes boxes: the remaining rows, scores and boxes."""
    return _suppress_and_merge(_as_floats(boxes), *arguments)


def order_corners(boxes: Tensor) -> Tensor:
    """As `hashnms.boxes.order_corners`."""
    first, second = boxes[:, :2], boxes[:, 2:]
    return torch.cat([first.minimum(second), first.maximum(second)], dim=1)


def merge(boxes: Tensor, scores: Any, suppressor: Any, how: Any, box_format: Any) -> tuple[Tensor, Tensor, Tensor]:
    """`hashnms.merge` for tensors."""
    keep, final, merged = _merge(_as_floats(boxes), scores, suppressor, how, box_format)
    return keep, merged, final


def fuse(boxes: Tensor, scores: Any, labels: Any, models: Any, images: Any, *settings: Any) -> tuple[Any, ...]:
    """`hashnms.weighted_boxes_fusion` for tensors; it runs on the host, and not in graphs."""
    if torch.onnx.is_in_onnx_export():
        onnx.refuse("weighted_boxes_fusion")
    if is_compiling() or is_tracing():
        raise TypeError(
            "weighted_boxes_fusion must be called outside compiled and exported code, got a call in a graph; "
            "use Suppression.parse('wbf:0.55') or hashnms.nmm there"
        )
    _validate.same_device(["boxes", "scores", "labels", "models", "images"], boxes, scores, labels, models, images)
    given = (boxes, scores, labels, models, images)
    copies = (value.cpu() if isinstance(value, Tensor) else value for value in given)
    fused = fuse_on_host(*copies, *settings)
    return tuple(None if values is None else tensors_on(boxes.device, values) for values in fused)


def _chain(suppression: Suppression | str) -> Suppression:
    return _parsed(suppression) if isinstance(suppression, str) else suppression


_parsed = lru_cache(maxsize=64)(Suppression.parse)
_BOXES = "Tensor boxes, Tensor scores, Tensor? labels, Tensor? images, "
_HNMS = f"({_BOXES}float alpha, int num_hashes, str box_format) -> Tensor"
_NMS = (
    f"({_BOXES}float iou_threshold, float? score_threshold, int? max_output, str metric, bool inclusive, "
    "str box_format) -> "
)
_FUNCTION = "float alpha, float w0, float h0, float bx, float by, str box_format) -> Tensor"

hnms = register(
    "hnms",
    _HNMS,
    core=HNMS.core,
    host=HNMS.converted,
    fake=_some_rows,
    on_device=_hnms_on_device(_family),
    in_onnx=_hnms_in_onnx(_hnms_rows, _family),
)
hnms_mask = register(
    "hnms_mask",
    _HNMS,
    host=_masked(HNMS.converted),
    fake=_of_all_rows(torch.bool),
    on_device=_masked(_hnms_on_device(_family)),
    in_onnx=_hnms_in_onnx(portable.hnms_mask, _family),
)
hnms_once = register(
    "hnms_once",
    f"({_BOXES}{_FUNCTION}",
    host=_hnms_once_on_host,
    fake=_some_rows,
    on_device=_hnms_on_device(_one_function),
    in_onnx=_hnms_in_onnx(_hnms_rows, _one_function),
)
nms = register("nms", f"{_NMS}Tensor", core=NMS.core, host=NMS.converted, fake=_some_rows, in_onnx=onnx.nms)
nms_suppressor = register(
    "nms_suppressor",
    f"{_NMS}(Tensor, Tensor)",
    core=NMS_SUPPRESSOR.core,
    host=NMS_SUPPRESSOR.converted,
    fake=lambda boxes, *_: (_some_rows(boxes), _of_all_rows(torch.int64)(boxes)),
    in_onnx=partial(onnx.refuse, "nms with return_suppressor=True, which nmm and vote use,"),
)
join = register(
    "join",
    f"{_NMS}(Tensor, Tensor)",
    core=JOIN.core,
    host=JOIN.converted,
    fake=lambda boxes, *_: (_of_all_rows(torch.int64)(boxes), _of_all_rows(torch.int64)(boxes)),
    in_onnx=partial(onnx.refuse, "nmm with transitive=True"),
)
batched_nms = register(
    "batched_nms",
    "(Tensor boxes, Tensor? scores, Tensor? idxs, float iou_threshold) -> Tensor",
    core=BATCHED_NMS.core,
    host=BATCHED_NMS.converted,
    fake=_some_rows,
    in_onnx=onnx.batched_nms,
)
soft_nms = register(
    "soft_nms",
    f"({_BOXES}str method, float sigma, float iou_threshold, float min_score, int? max_output, str box_format) -> "
    "(Tensor, Tensor)",
    core=SOFT_NMS.core,
    host=SOFT_NMS.converted,
    fake=_some_rows_and_scores,
    in_onnx=partial(onnx.refuse, "soft_nms"),
)
suppress = register(
    "suppress",
    f"({_BOXES}str suppression, str box_format) -> (Tensor, Tensor)",
    host=_suppress_on_host,
    fake=_some_rows_and_scores,
    on_device=_suppress_on_device,
    in_onnx=_suppress_in_onnx,
)
_suppress_and_merge = register(
    "suppress_and_merge",
    f"({_BOXES}str suppression, str box_format) -> (Tensor, Tensor, Tensor)",
    host=_suppress_on_host,
    fake=_rows_with_boxes,
    on_device=_suppress_on_device,
    in_onnx=_suppress_in_onnx,
)
_merge = register(
    "merge",
    "(Tensor boxes, Tensor scores, Tensor suppressor, str how, str box_format) -> (Tensor, Tensor, Tensor)",
    host=_merge_on_host,
    fake=_rows_with_boxes,
    in_onnx=partial(onnx.refuse, "merge"),
)
iou_hash = register(
    "iou_hash",
    f"(Tensor boxes, {_FUNCTION}",
    core=IOU_HASH.core,
    host=IOU_HASH.converted,
    fake=_of_all_rows(torch.int64, 4),
    in_onnx=partial(onnx.refuse, "iou_hash"),
)
