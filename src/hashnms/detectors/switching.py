"""A detector's own NMS exchanged for ours, and back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import torch
from torch import nn

from hashnms import Hnms, Nms, SoftNms, Suppression
from hashnms.detectors.torchvision import PLACES, SUPPORTED, Place

Model = TypeVar("Model", bound=nn.Module)


def accelerate(model: Model, *, proposals: Suppression | None = None, final: Suppression | None = None) -> Model:
    """Let a torchvision detector suppress boxes with hashnms: the same model, changed in place until `restore`.

    Without arguments NMS stays what it is, at the model's own thresholds and limits, and is found by `hashnms.nms`:
    the same detections, sooner. A suppression takes the place of NMS. What it does not say stays as the model has it:
    a `TopK` at its front is the number of candidates that go in, a `Limit` at its end the number of boxes that come
    out; where it has none, the model's own numbers hold. Score thresholds and smallest sizes are always the model's.

    `final` has no part in training, where torchvision's models return losses.

    Args:
        model: one of torchvision's Faster, Mask and Keypoint R-CNN, RetinaNet, FCOS and SSD, or a module with such a
            model in it, on any device. In training, too.
        proposals: in place of the RPN's NMS in two-stage models; the label is the level. The paper's
            "top:9000+hnms:0.7/1+top:2000+limit:4000" takes at most 9,000 a level in and lets at most 2,000 a level
            and 4,000 in all out.
        final: in place of the NMS that ends the model; the label is the class. The paper's one-stage
            "top:9000+hnms:0.73/1+nms:0.5+limit:1000" takes at most 9,000 of each level in (in SSD, whose own number of
            candidates is that of a class, 9,000 of each class).

    Returns:
        The model. Calling it again replaces the settings of the time before.

    Raises:
        TypeError, ValueError: if the model has no such detector in it, if it has methods of its own where these
            suppress boxes, or if `proposals` is given and there is no RPN. The model is unchanged then.

    >>> from torchvision.models.detection import fasterrcnn_mobilenet_v3_large_fpn
    >>> model = fasterrcnn_mobilenet_v3_large_fpn(weights=None, weights_backbone=None).eval()
    >>> accelerate(model, proposals=Suppression.parse("hnms:0.7/1")) is model
    True
    >>> _ = restore(model)
    """
    for module, place in checked_places(model, proposals, final):
        setattr(module, place.method, partial(place.function, module, place.replacement(proposals, final)))
    return model


def restore(model: Model) -> Model:
    """Give a model that was accelerated its own NMS back; one that was not stays as it is. Returns the model."""
    for module, place in _found(model):
        if is_accelerated(module, place):
            delattr(module, place.method)
    return model


@contextmanager
def accelerated(
    model: Model, *, proposals: Suppression | None = None, final: Suppression | None = None
) -> Iterator[Model]:
    """`accelerate` while the block runs; afterwards the model is as it was before."""
    with methods_kept(model):
        yield accelerate(model, proposals=proposals, final=final)


@contextmanager
def methods_kept(model: nn.Module) -> Iterator[None]:
    """Whatever the block puts in place of methods that suppress boxes, afterwards they are as they were."""
    before = [(module, place.method, vars(module).get(place.method)) for module, place in _found(model)]
    try:
        yield
    finally:
        for module, method, function in before:
            vars(module).pop(method, None)
            if function is not None:
                setattr(module, method, function)


def is_accelerated(module: nn.Module, place: Place) -> bool:
    """Whether the module has our function in this place."""
    function = vars(module).get(place.method)
    return isinstance(function, partial) and function.func is place.function


def _found(model: nn.Module) -> list[tuple[nn.Module, Place]]:
    if not isinstance(model, nn.Module):
        got = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
        raise TypeError(f"model must be a torch.nn.Module, got {got}")
    return [(module, place) for module in model.modules() for place in PLACES if isinstance(module, place.kind)]


def checked_places(model: nn.Module, proposals: Any, final: Any) -> list[tuple[nn.Module, Place]]:
    """The modules in which boxes are suppressed, with the place, if the model and these settings go together."""
    _check_suppression("proposals", proposals)
    _check_suppression("final", final)
    found = _found(model)
    name = type(model).__name__
    if isinstance(model, torch.jit.ScriptModule):
        raise ValueError(f"model must be Python code, got a scripted {name}: its NMS is compiled into it")
    if not found:
        raise ValueError(f"model must be or hold one of torchvision's {SUPPORTED}, got {name}. {_FOR_OTHERS}")
    if proposals is not None and not any(place.of_proposals for _, place in found):
        raise ValueError(f"proposals must be None where the model has no RPN, got {proposals} for {name}: use final")
    for module, place in found:
        for method in filter(None, (place.method, place.helper)):
            is_replaced = method in vars(module) and not is_accelerated(module, place)
            if is_replaced or not _is_of(place.kind, getattr(type(module), method)):
                need = f"model must have torchvision's own {place.kind.__name__}.{method}"
                raise ValueError(f"{need}, got another in this {type(module).__name__}. {_FOR_OTHERS}")
    return found


def _is_of(kind: type, method: Any) -> bool:
    """Whether it is the method that was written into this class, not one that was put there or in a subclass."""
    own = (kind.__module__, f"{kind.__qualname__}.{getattr(method, '__name__', '')}")
    return (getattr(method, "__module__", None), getattr(method, "__qualname__", None)) == own


_FOR_OTHERS = "For other code that calls torchvision's NMS there is hashnms.detectors.routed()"


def _check_suppression(name: str, value: Any) -> None:
    if not isinstance(value, Suppression | None):
        raise TypeError(f"{name} must be None or a Suppression, such as Suppression.parse('nms:0.5'), got {value!r}")
    if value is not None and not any(isinstance(step, Hnms | Nms | SoftNms) for step in value.steps):
        raise ValueError(f"{name} must have a step hnms, nms or softnms (nms:1 keeps all boxes), got {value}")
