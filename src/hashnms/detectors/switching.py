"""Replace a detector's own NMS by ours, and back."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeVar

import torch
from torch import nn

from hashnms import Suppression, _settings
from hashnms.detectors.torchvision import PLACES, SUPPORTED, Place, StandIn

Model = TypeVar("Model", bound=nn.Module)


def accelerate(
    model: Model,
    *,
    proposals: Suppression | str | None = None,
    final: Suppression | str | None = None,
    exact_labels: bool = False,
) -> Model:
    """Make a detector suppress boxes with hashnms. The model is changed in place until `restore`.

    Without arguments, `hashnms.nms` computes the model's NMS with its own thresholds and limits: bit for bit the same
    detections on the CPU, faster. If a suppression is given, it replaces the NMS. A `TopK` at its start sets the number
    of candidates, and a `Limit` at its end sets the number of boxes returned; otherwise the model's own numbers apply.
    Score thresholds and minimum sizes are always the model's.

    `print(model)` and `acceleration(model)` show the replacement. `final` is not used in training, where torchvision's
    models return losses.

    Args:
        model: one of torchvision's Faster, Mask and Keypoint R-CNN, RetinaNet, FCOS and SSD, or a module that contains
            such a model, on any device, also in training. Or ultralytics' YOLO, without a suppression: see
            `hashnms.detectors.ultralytics`.
        proposals: replaces the RPN's NMS in two-stage models: a `Suppression` or its notation; the label is the level.
            The paper's "top:9000+hnms:0.7/1+top:2000+limit:4000" takes at most 9,000 boxes per level, and returns at
            most 2,000 per level and 4,000 in all.
        final: replaces the NMS at the end of the model, given like `proposals`; the label is the class. The paper's
            one-stage "top:9000+hnms:0.73/1+nms:0.5+limit:1000" takes at most 9,000 boxes per level (in SSD, which
            counts candidates per class, 9,000 per class).
        exact_labels: of the model's own NMS, where no suppression is given. Torchvision and ultralytics keep labels
            apart by offsets: they move the boxes of each label, torchvision where there are few boxes. That rounds
            coordinates, so a box whose IoU is close to the threshold may be kept where it should not be, or the other
            way round. By default the same offsets are added. If True, none are added, and the IoU is that of the boxes
            as they are.

    Returns:
        The model. A second call replaces the settings of the first.

    Raises:
        TypeError, ValueError: if the model contains no such detector, if it overrides the methods that suppress boxes,
            if `proposals` is given and there is no RPN, or if a notation cannot be parsed. The model is then unchanged.

    >>> from torchvision.models.detection import fasterrcnn_mobilenet_v3_large_fpn
    >>> model = fasterrcnn_mobilenet_v3_large_fpn(weights=None, weights_backbone=None).eval()
    >>> accelerate(model, proposals="hnms:0.7/1") is model
    True
    >>> _ = restore(model)
    """
    adapter = _adapter(model)
    if adapter is not None:
        for name, value in (("proposals", proposals), ("final", final)):
            if value is not None:
                raise ValueError(f"{name} must be None for ultralytics' models, got {value!r}")
        adapter.accelerate(model, exact_labels=exact_labels)
        return model
    for stand_in in stand_ins(model, proposals, final, exact_labels):
        vars(stand_in.module).update(stand_in.attributes())
    return model


def restore(model: Model) -> Model:
    """Undo `accelerate`; a model that was not accelerated stays as it is. Returns the model."""
    adapter = _adapter(model)
    if adapter is not None:
        adapter.restore(model)
        return model
    for module, place in _found(model):
        if is_accelerated(module, place):
            for name in vars(module)[place.method].attributes():
                vars(module).pop(name, None)
    return model


@contextmanager
def accelerated(
    model: Model,
    *,
    proposals: Suppression | str | None = None,
    final: Suppression | str | None = None,
    exact_labels: bool = False,
) -> Iterator[Model]:
    """Apply `accelerate` while the block runs; afterwards the model is as before."""
    adapter = _adapter(model)
    with attributes_kept(model) if adapter is None else adapter.accelerated(model):
        yield accelerate(model, proposals=proposals, final=final, exact_labels=exact_labels)


def acceleration(model: nn.Module | str) -> dict[str, str]:
    """Describe what suppresses boxes in a model: the name of each method that does -> a few words.

    SAHI and supervision are accelerated as a whole: "sahi" and "supervision" describe these packages, as do the
    functions `acceleration()` of `hashnms.detectors.sahi` and `.supervision`, which need no torch.

    >>> from torchvision.models.detection import fasterrcnn_mobilenet_v3_large_fpn
    >>> model = fasterrcnn_mobilenet_v3_large_fpn(weights=None, weights_backbone=None).eval()
    >>> acceleration(model)["rpn.filter_proposals"]
    "torchvision's own"
    >>> with accelerated(model, proposals="hnms:0.7/1"):
    ...     for place, what in acceleration(model).items():
    ...         print(f"{place}: {what}")
    rpn.filter_proposals: hnms:0.7/1 by hashnms
    roi_heads.postprocess_detections: exact NMS by hashnms
    """
    described: dict[str, str]
    if isinstance(model, str):
        if model not in _PACKAGES:
            raise ValueError(f"model must be a torch.nn.Module, 'sahi' or 'supervision', got {model!r}")
        described = import_module(f"hashnms.detectors.{model}").acceleration()
        return described
    adapter = _adapter(model)
    if adapter is not None:
        described = adapter.acceleration(model)
        return described
    found = _found(model)
    names = {module: name for name, module in model.named_modules()}
    return {f"{names[module]}.{place.method}".lstrip("."): _in_words(module, place) for module, place in found}


#: Packages that are accelerated as a whole, not by model.
_PACKAGES = ("sahi", "supervision")


def _adapter(model: Any) -> Any:
    """The adapter for a model of another package, or None. A caller with a YOLO has imported ultralytics."""
    theirs = sys.modules.get("ultralytics.engine.model")
    if theirs is None or not isinstance(model, theirs.Model):
        return None
    from hashnms.detectors import ultralytics  # noqa: PLC0415  only if it is installed

    return ultralytics


def _in_words(module: nn.Module, place: Place) -> str:
    if is_accelerated(module, place):
        return str(vars(module)[place.method])
    return "torchvision's own" if _is_own(module, place.kind, place.method) else "another function"


@contextmanager
def attributes_kept(model: nn.Module) -> Iterator[None]:
    """Restore the methods that suppress boxes when the block ends."""
    names = [(module, (place.method, "extra_repr")) for module, place in _found(model)]
    before = [{name: vars(module)[name] for name in of_place if name in vars(module)} for module, of_place in names]
    try:
        yield
    finally:
        for (module, of_place), values in zip(names, before, strict=True):
            for name in of_place:
                vars(module).pop(name, None)
            vars(module).update(values)


def is_accelerated(module: nn.Module, place: Place) -> bool:
    """Whether the module has our function in this place."""
    return isinstance(vars(module).get(place.method), StandIn)


def _found(model: nn.Module) -> list[tuple[nn.Module, Place]]:
    if not isinstance(model, nn.Module):
        got = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
        raise TypeError(f"model must be a torch.nn.Module, got {got}")
    return [(module, place) for module in model.modules() for place in PLACES if isinstance(module, place.kind)]


def stand_ins(model: nn.Module, proposals: Any, final: Any, exact_labels: Any = False) -> list[StandIn]:
    """The replacements for the model, one for each place, if these settings fit the model."""
    exact_labels = _settings.bool_value("exact_labels", exact_labels)
    proposals, final = _suppression("proposals", proposals), _suppression("final", final)
    found = _found(model)
    name = type(model).__name__
    if isinstance(model, torch.jit.ScriptModule):
        raise ValueError(f"model must be Python code, got a scripted {name}: its NMS is compiled into it")
    if not found:
        raise ValueError(f"model must be or contain one of torchvision's {SUPPORTED}, got {name}. {_FOR_OTHERS}")
    if proposals is not None and not any(place.of_proposals for _, place in found):
        raise ValueError(f"proposals must be None if the model has no RPN, got {proposals} for {name}: use final")
    for module, place in found:
        for method in filter(None, (place.method, place.helper)):
            if not is_accelerated(module, place) and not _is_own(module, place.kind, method):
                need = f"model must have torchvision's own {place.kind.__name__}.{method}"
                raise ValueError(f"{need}, got another in this {type(module).__name__}. {_FOR_OTHERS}")
    return [StandIn(module, place, place.replacement(proposals, final, exact_labels)) for module, place in found]


def _is_own(module: nn.Module, kind: type, name: str) -> bool:
    """Whether a method is the one defined in this class, not replaced in the class, in a subclass or in the module."""
    method: Any = getattr(type(module), name)
    written = (getattr(method, "__module__", None), getattr(method, "__qualname__", None))
    return name not in vars(module) and written == (kind.__module__, f"{kind.__qualname__}.{name}")


_FOR_OTHERS = "For other code that calls torchvision's NMS, use hashnms.detectors.routed()"


def _suppression(name: str, value: Any) -> Suppression | None:
    """A setting as a `Suppression`, given as such or in its notation."""
    if value is None:
        return None
    try:
        suppression = Suppression.of(value)
    except TypeError:
        need = f"{name} must be None, a Suppression or its notation such as 'nms:0.5'"
        raise TypeError(f"{need}, got {value!r}") from None
    except ValueError as error:
        raise ValueError(f"{name} must be a suppression such as 'hnms:0.7/1+nms:0.5': {error}") from None
    if suppression.changes_boxes:
        need = f"{name} must have steps that do not change boxes, because masks and classes were computed for these"
        raise ValueError(f"{need}, got {suppression}: apply nmm, vote or wbf to the model's output")
    if not any(step.removes_overlaps for step in suppression.steps):
        raise ValueError(f"{name} must have a step hnms, nms or softnms (nms:1 keeps all boxes), got {suppression}")
    return suppression
