"""Measure where the time of a detector's forward pass goes, with torchvision's suppression and with ours."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from io import StringIO
from types import FunctionType, SimpleNamespace
from typing import Any

import torch
import torchvision
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torchvision.models.detection.roi_heads import RoIHeads

from hashnms import Suppression, _settings
from hashnms.detectors.switching import attributes_kept, stand_ins
from hashnms.detectors.torchvision import Replacement, StandIn

#: Parts of a forward pass, in the order of the table. Submodules of a detector are parts, by their attribute names.
_PARTS = (
    "transform",
    "backbone",
    "proposals",
    "suppress proposals",
    "head",
    "candidates",
    "suppress detections",
    "rest",
)
_MODULES = {"transform": "transform", "backbone": "backbone", "rpn": "proposals", "roi_heads": "head", "head": "head"}


@dataclass(frozen=True)
class Cost:
    """The cost of a part: seconds, and for a suppression the numbers of boxes in and out, over all images."""

    seconds: float
    boxes_in: int | None = None
    boxes_out: int | None = None


@dataclass(frozen=True)
class Part:
    """A part of the forward pass, with torchvision's suppression and with ours."""

    name: str
    torchvision: Cost
    hashnms: Cost


@dataclass(frozen=True)
class Profile:
    """What `profile` returns: the parts in the order they run. `print` shows them as a table.

    Each part has a `name` and two costs, `torchvision` and `hashnms`, with `seconds` and, if it is a suppression,
    `boxes_in` and `boxes_out` of all images together.
    """

    parts: tuple[Part, ...]

    @property
    def torchvision_seconds(self) -> float:
        """The whole forward pass with torchvision's NMS: the sum of the parts."""
        return sum(part.torchvision.seconds for part in self.parts)

    @property
    def hashnms_seconds(self) -> float:
        """The whole forward pass with hashnms: the sum of the parts."""
        return sum(part.hashnms.seconds for part in self.parts)

    @property
    def suppression_speed_up(self) -> float:
        """How much faster the whole forward pass would be if only the suppressions differed."""
        saved = sum(p.torchvision.seconds - p.hashnms.seconds for p in self.parts if p.hashnms.boxes_in is not None)
        return self.torchvision_seconds / (self.torchvision_seconds - saved)

    def table(self, title: str | None = None) -> Table:
        """A table for rich's console; where the numbers of boxes differ, torchvision's comes first."""
        table = Table(title=title, box=SIMPLE, collapse_padding=True)
        for column in ("part", "torch-\nvision", "\nshare", "\nhashnms", "\nspeed-up", "boxes\nin", "boxes\nout"):
            is_name = column == "part"
            table.add_column(column, justify="left" if is_name else "right", vertical="bottom", no_wrap=is_name)
        before, after = self.torchvision_seconds, self.hashnms_seconds
        for part in self.parts:
            stock, ours = part.torchvision, part.hashnms
            boxes = [_both(stock.boxes_in, ours.boxes_in), _both(stock.boxes_out, ours.boxes_out)]
            speed_up = f"{stock.seconds / ours.seconds:.1f}x" if stock.boxes_in is not None else ""
            table.add_row(
                part.name, _ms(stock.seconds), f"{stock.seconds / before:.1%}", _ms(ours.seconds), speed_up, *boxes
            )
        table.add_section()
        table.add_row("total", _ms(before), f"{1:.1%}", _ms(after), f"{before / after:.2f}x")
        table.add_row("  by suppression", "", "", "", f"{self.suppression_speed_up:.2f}x")
        return table

    def __str__(self) -> str:
        text = StringIO()
        Console(file=text, width=120).print(self.table())
        return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.1f} ms"


def _both(stock: int | None, ours: int | None) -> str:
    if stock is None:
        return ""
    return f"{stock:,}" if stock == ours else f"{stock:,} / {ours:,}"


def profile(
    model: nn.Module,
    images: list[Tensor],
    *,
    proposals: Suppression | str | None = None,
    final: Suppression | str | None = None,
    exact_labels: bool = False,
    rounds: int = 3,
) -> Profile:
    """Measure where the time of a forward pass goes, with torchvision's suppression and with hashnms, in one run.

    Each variant runs once to warm up, then both run `rounds` times alternately. The shortest time of each part counts.
    The model is left as it was, accelerated or not.

    Args:
        model: see `accelerate`. It must be in eval mode.
        images: the input of the model: a list of (C, H, W) tensors.
        proposals: see `accelerate`.
        final: see `accelerate`.
        exact_labels: see `accelerate`.
        rounds: how many times each variant is measured.

    Returns:
        A `Profile`. Its parts: `transform` (resizing), `backbone`, `proposals` (the RPN except its suppression),
        `head`, `candidates` (decoding and choosing boxes in one-stage models), the suppressions, and the `rest`.
    """
    ours = stand_ins(model, proposals, final, exact_labels)
    if any(stand_in.module.training for stand_in in ours):
        raise ValueError("model must be in eval mode, got one in training mode: call model.eval() first")
    if not isinstance(images, list | tuple):
        raise TypeError(f"images must be a list of (C, H, W) tensors, got {type(images).__name__}")
    for image in images:
        if not isinstance(image, Tensor):
            raise TypeError(f"images must be a list of (C, H, W) tensors, got {type(image).__name__} in it")
    if not images:
        raise ValueError("images must have at least one image, got none")
    rounds = _settings.count_value("rounds", rounds)
    best: list[dict[str, Cost]] = [{}, {}]
    for round_number in range(rounds + 1):
        for costs, is_ours in zip(best, (False, True), strict=True):
            measured = _measured(model, images, ours, is_ours)
            for name, cost in measured.items():
                if round_number <= 1 or cost.seconds < costs[name].seconds:
                    costs[name] = cost
    parts = (Part(name, best[0][name], best[1][name]) for name in _PARTS if name in best[0])
    return Profile(tuple(parts))


@torch.no_grad()
def _measured(model: nn.Module, images: list[Tensor], ours: list[StandIn], is_ours: bool) -> dict[str, Cost]:
    """The cost of each part in one forward pass, with our suppression or with torchvision's own."""
    watch = _Stopwatch(images[0].device)
    with ExitStack() as stack:
        stack.enter_context(attributes_kept(model))
        for stand_in in ours:
            timed = partial(_timed_method, watch, stand_in, is_ours)
            setattr(stand_in.module, stand_in.place.method, timed)
        for module in model.modules():
            for attribute, part in _MODULES.items():
                if hasattr(module, "transform") and isinstance(child := getattr(module, attribute, None), nn.Module):
                    stack.callback(child.register_forward_pre_hook(lambda *_, part=part: watch.start(part)).remove)
                    stack.callback(child.register_forward_hook(lambda *_: watch.stop()).remove)
        with watch.part("rest"):
            model(images)
    return {
        name: Cost(seconds, *((watch.boxes_in[name], watch.boxes_out[name]) if name in watch.boxes_in else ()))
        for name, seconds in watch.seconds.items()
    }


def _timed_method(watch: _Stopwatch, stand_in: StandIn, is_ours: bool, *args: Any) -> Any:
    """Run the module's method here, timed, with our suppression or with torchvision's own."""
    module, place = stand_in.module, stand_in.place
    part = "suppress proposals" if place.of_proposals else "suppress detections"
    function: Callable[..., Any]
    if is_ours:
        function = partial(place.function, module, _TimedReplacement(stand_in.replacement, watch, part))
    else:
        method = getattr(type(module), place.method)
        timed = partial(_timed_suppression, watch, part, torchvision.ops.batched_nms)
        box_ops = SimpleNamespace(**{**vars(torchvision.ops.boxes), "batched_nms": timed})
        # torchvision's own code, with this one name replaced by a timed version: torchvision itself is not changed
        function = partial(FunctionType(method.__code__, {**method.__globals__, "box_ops": box_ops}), module)
    with watch.part("proposals" if place.of_proposals else "head" if place.kind is RoIHeads else "candidates"):
        result = function(*args)
    boxes = result[0] if isinstance(result, tuple) else [detections["boxes"] for detections in result]
    watch.boxes_out[part] += sum(map(len, boxes))
    return result


def _timed_suppression(watch: _Stopwatch, part: str, suppress: Callable[..., Any], boxes: Tensor, *args: Any) -> Any:
    watch.boxes_in[part] += len(boxes)
    with watch.part(part):
        return suppress(boxes, *args)


@dataclass(frozen=True)
class _TimedReplacement:
    replacement: Replacement
    watch: _Stopwatch
    part: str

    def candidates(self, usual: int) -> int:
        return self.replacement.candidates(usual)

    def __call__(self, *args: Any) -> Any:
        return _timed_suppression(self.watch, self.part, self.replacement, *args)


class _Stopwatch:
    """Times nested parts: the clock of an outer part stops while an inner part runs."""

    def __init__(self, device: torch.device) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.boxes_in: Counter[str] = Counter()
        self.boxes_out: Counter[str] = Counter()
        self._device = device
        self._running: list[str] = []
        self._since = 0.0

    def start(self, part: str) -> None:
        self._lap()
        self._running.append(part)

    def stop(self) -> None:
        self._lap()
        self._running.pop()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        self.start(name)
        yield
        self.stop()

    def _lap(self) -> None:
        if self._device.type != "cpu":
            torch.accelerator.synchronize(self._device)
        now = time.perf_counter()
        if self._running:
            self.seconds[self._running[-1]] += now - self._since
        self._since = now
