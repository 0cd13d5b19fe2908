"""hashnms in ultralytics: its `non_max_suppression`, and a YOLO that uses it.

Needs ultralytics and torchvision: the extra `ultralytics`.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from hashnms import _settings, nms
from hashnms._extras import missing
from hashnms.detectors._offsets import moved_apart

try:
    import ultralytics.utils.nms as _theirs
    from ultralytics.engine.model import Model
    from ultralytics.models.yolo.detect import DetectionPredictor
    from ultralytics.utils.ops import xywh2xyxy
except ImportError as error:
    raise missing("hashnms.detectors.ultralytics", "ultralytics", "ultralytics") from error

YOLO = TypeVar("YOLO", bound=Model)

_stock: Callable[..., Any] = _theirs.non_max_suppression


def non_max_suppression(
    prediction: Tensor | Sequence[Any],
    conf_thres: float = 0.25,
    iou_thres: float = 0.45,
    classes: Sequence[int] | None = None,
    agnostic: bool = False,
    multi_label: bool = False,
    max_det: int = 300,
    nc: int = 0,
    max_time_img: float = 0.05,
    max_nms: int | None = 30_000,
    max_wh: float = 7680,
    rotated: bool = False,
    end2end: bool = False,
    return_idxs: bool = False,
    *,
    exact_labels: bool = False,
) -> Any:
    """`ultralytics.utils.nms.non_max_suppression`, computed by `hashnms.nms` for all images in one call.

    The detections are bit for bit the same, in the same order, on the CPU. Two things differ:

    - there is no time limit, so no image is left empty: `max_time_img` has no effect;
    - with `return_idxs`, an image without boxes has an empty int64 tensor; ultralytics returns (0, 1) floats.

    Ultralytics' own function is called, with a warning, for rotated boxes, for end-to-end models, which have no NMS,
    and for batches with boxes that hashnms refuses (NaN, negative size).

    Args:
        prediction: (images, 4 + nc + extra, boxes), cxcywh, or a list or tuple that starts with it.
        conf_thres: in [0, 1]; only boxes with a score above it are used.
        iou_thres: in [0, 1]; a box is suppressed where IoU > iou_thres.
        classes: if given, only these classes are used.
        agnostic: boxes of different classes suppress each other.
        multi_label: each class of a box with a score above `conf_thres` is a detection, not only the best.
        max_det: the maximum number of detections in each image.
        nc: the number of classes; 0: all channels beyond the box.
        max_time_img: has no effect.
        max_nms: only this many candidates of each image, the best, are used. None: all.
        max_wh: the boxes of each class are moved by this many pixels, to keep classes apart.
        rotated: boxes have an angle.
        end2end: the model has no NMS.
        return_idxs: also return the indices of the kept boxes in the prediction.
        exact_labels: keep classes apart without moving boxes: `max_wh` has no effect. Moving rounds coordinates, so an
            IoU close to the threshold can fall on its other side, and lets boxes beyond `max_wh` suppress other
            classes.

    Returns:
        For each image (n, 6 + extra): x1, y1, x2, y2, score, class and the extra channels, by decreasing score. With
        `return_idxs`, a pair of these and the indices for each image.

    Raises:
        ValueError: for thresholds outside [0, 1].

    >>> prediction = torch.tensor([[[50.0, 52, 90], [50, 50, 50], [20, 20, 20], [20, 20, 20], [0.5, 0.75, 0.875]]])
    >>> non_max_suppression(prediction)[0]
    tensor([[ 80.0000,  40.0000, 100.0000,  60.0000,   0.8750,   0.0000],
            [ 42.0000,  40.0000,  62.0000,  60.0000,   0.7500,   0.0000]])
    """
    for name, value in (("conf_thres", conf_thres), ("iou_thres", iou_thres)):
        if not 0 <= value <= 1:
            raise ValueError(f"{name} must be in [0, 1], got {value}")
    if isinstance(prediction, list | tuple):
        prediction = prediction[0]
    assert isinstance(prediction, Tensor)
    exact_labels = _settings.bool_value("exact_labels", exact_labels)

    def left_to_ultralytics(why: str) -> Any:
        warnings.warn(f"{why}: ultralytics' own function is used", stacklevel=3)
        return _stock(
            prediction,
            conf_thres,
            iou_thres,
            classes,
            agnostic,
            multi_label,
            max_det,
            nc,
            max_time_img,
            sys.maxsize if max_nms is None else max_nms,
            max_wh,
            rotated,
            end2end,
            return_idxs,
        )

    if end2end or prediction.shape[-1] == 6:
        return left_to_ultralytics("an end-to-end model has no NMS")
    if rotated:
        return left_to_ultralytics("hashnms does not support rotated boxes")

    nc = nc or prediction.shape[1] - 4
    images, places = (prediction[:, 4 : 4 + nc].amax(1) > conf_thres).nonzero(as_tuple=True)
    rows = prediction.transpose(1, 2)[images, places]
    boxes, class_scores, extra = xywh2xyxy(rows[:, :4]), rows[:, 4 : 4 + nc], rows[:, 4 + nc :]
    if multi_label and nc > 1:
        chosen, labels = (class_scores > conf_thres).nonzero(as_tuple=True)
        scores = class_scores[chosen, labels]
        boxes, extra, images, places = boxes[chosen], extra[chosen], images[chosen], places[chosen]
    else:
        scores, labels = class_scores.max(1)
    detections = torch.cat((boxes, scores[:, None], labels[:, None].float(), extra), 1)
    taking_part = _taking_part(detections, labels, images, len(prediction), classes, max_nms)
    if taking_part is not None:
        detections, labels = detections[taking_part], labels[taking_part]
        images, places = images[taking_part], places[taking_part]
    boxes, classes_meet = detections[:, :4], agnostic
    if not agnostic and not exact_labels and len(boxes) > 0:
        # Moved classes only meet if an image is larger than the offset. Otherwise labels are given, too: faster.
        classes_meet = not bool(boxes.max() - boxes.min() < max_wh)
        boxes = moved_apart(boxes, labels, max_wh)
    try:
        keep: Any = nms(
            boxes,
            detections[:, 4],
            float(iou_thres),
            labels=None if classes_meet else labels,
            images=images,
            max_output=max_det,
        )
    except ValueError as error:
        return left_to_ultralytics(str(error))
    keep = keep[images[keep].argsort(stable=True)]
    counts = images[keep].bincount(minlength=len(prediction)).tolist()
    output = list(detections[keep].split(counts))
    return (output, list(places[keep].split(counts))) if return_idxs else output


def _taking_part(
    detections: Tensor, labels: Tensor, images: Tensor, num_images: int, classes: Sequence[int] | None, most: int | None
) -> Tensor | None:
    """The rows of these classes, at most the best `most` of each image; None for all rows."""
    rows = None
    if classes is not None:
        rows = torch.isin(labels, torch.as_tensor(classes, device=labels.device)).nonzero()[:, 0]
    if most is None:
        return rows
    counts = (images if rows is None else images[rows]).bincount(minlength=num_images)
    if not (counts > most).any():
        return rows
    if rows is None:
        rows = torch.arange(len(labels), device=labels.device)
    of_images = rows.split(counts.tolist())
    return torch.cat([_best(detections, few, most) if len(few) > most else few for few in of_images])


def _best(detections: Tensor, rows: Tensor, most: int) -> Tensor:
    """The rows with the best scores, in the order of ultralytics: its sort is not stable, so it must be the same."""
    return rows[detections[rows][:, 4].argsort(descending=True)[:most]]


def accelerate(model: YOLO, *, exact_labels: bool = False) -> YOLO:
    """Make `predict`, `track` and `val` of a YOLO suppress boxes with hashnms, until `restore`.

    Its predictors and validators, also in training, run ultralytics' own `postprocess` with our `non_max_suppression`
    instead of theirs. This works for models that detect boxes, masks or poses. Other models, and the export of this
    one, do not change. It uses callbacks of the model, so `model.reset_callbacks()` also undoes it for later runs.

    Args:
        model: ultralytics' YOLO.
        exact_labels: see `non_max_suppression`. By default, detections are bit for bit ultralytics'.

    Returns:
        The model. A second call replaces the settings of the first.

    >>> from ultralytics import YOLO
    >>> model = YOLO("yolov8n.yaml", verbose=False)
    >>> accelerate(model) is model, is_accelerated(model)
    (True, True)
    >>> is_accelerated(restore(model))
    False
    """
    if not isinstance(model, Model):
        raise TypeError(f"model must be ultralytics' YOLO, got {type(model).__name__}")
    if not issubclass(model.task_map[model.task]["predictor"], DetectionPredictor):
        need = "model must be one of ultralytics' that calls its non_max_suppression"
        raise ValueError(f"{need}, got {type(model).__name__} for the task {model.task}")
    use_hashnms = _UseHashnms(_settings.bool_value("exact_labels", exact_labels))
    restore(model)
    for event in _EVENTS:
        model.add_callback(event, use_hashnms)
    return model


def restore(model: YOLO) -> YOLO:
    """Undo `accelerate`; a YOLO that was not accelerated stays as it is."""
    for event in _EVENTS:
        calls = model.callbacks[event]
        calls[:] = [call for call in calls if not isinstance(call, _UseHashnms)]
    if isinstance(vars(model.predictor).get("postprocess") if model.predictor else None, _Postprocess):
        del model.predictor.postprocess
    return model


@contextmanager
def accelerated(model: YOLO, *, exact_labels: bool = False) -> Iterator[YOLO]:
    """Apply `accelerate` while the block runs; afterwards the model is as before."""
    before = _in_use(model)
    try:
        yield accelerate(model, exact_labels=exact_labels)
    finally:
        restore(model)
        if before is not None:
            accelerate(model, exact_labels=before.exact_labels)


def is_accelerated(model: Any) -> bool:
    """Whether hashnms does all of a YOLO's NMS."""
    return _in_use(model) is not None


def acceleration(model: YOLO) -> dict[str, str]:
    """What suppresses boxes in a YOLO, in a few words.

    >>> from ultralytics import YOLO
    >>> acceleration(accelerate(YOLO("yolov8n.yaml", verbose=False), exact_labels=True))
    {'postprocess': 'exact NMS, exact labels, by hashnms'}
    """
    use_hashnms = _in_use(model)
    if use_hashnms is None:
        return {"postprocess": "ultralytics' own"}
    return {"postprocess": f"exact NMS{', exact labels,' if use_hashnms.exact_labels else ''} by hashnms"}


#: When a predictor or validator begins to run.
_EVENTS = ("on_predict_start", "on_val_start")


@dataclass(frozen=True)
class _UseHashnms:
    """A callback for a predictor or validator."""

    exact_labels: bool

    def __call__(self, runner: Any) -> None:
        runner.postprocess = _Postprocess(runner, self.exact_labels)


def _in_use(model: Any) -> _UseHashnms | None:
    """The callback that is in all the places of a YOLO, or None."""
    found = [[call for call in model.callbacks[event] if isinstance(call, _UseHashnms)] for event in _EVENTS]
    return found[0][0] if all(found) else None


@dataclass(frozen=True)
class _Postprocess:
    """A predictor's or validator's own `postprocess`, with our function instead of theirs."""

    runner: Any
    exact_labels: bool

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with _in_place(self.exact_labels):
            return type(self.runner).postprocess(self.runner, *args, **kwargs)


_lock = threading.Lock()
_running: list[Callable[..., Any]] = []  # the original function, once for each thread in the block
_of_thread = threading.local()  # `exact_labels` in threads in the block


def _by_thread(*args: Any, **kwargs: Any) -> Any:
    """Our function in threads in the block, the original one in others."""
    exact_labels = getattr(_of_thread, "exact_labels", None)
    if exact_labels is None:
        with _lock:
            original = _running[0] if _running else _stock
        return original(*args, **kwargs)
    return non_max_suppression(*args, **kwargs, exact_labels=exact_labels)


@contextmanager
def _in_place(exact_labels: bool) -> Iterator[None]:
    """Replace the function in ultralytics' module, where it is looked up, while any thread is in the block."""
    before_here = getattr(_of_thread, "exact_labels", None)
    with _lock:
        _running.append(_running[0] if _running else _theirs.non_max_suppression)
        _theirs.non_max_suppression = _by_thread
    _of_thread.exact_labels = exact_labels
    try:
        yield
    finally:
        _of_thread.exact_labels = before_here
        with _lock:
            before = _running.pop()
            if not _running:
                _theirs.non_max_suppression = before
