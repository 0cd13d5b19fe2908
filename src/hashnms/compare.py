"""Methods side by side on the same detections: time, boxes, agreement with the first of them, average precision."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hashnms import _settings
from hashnms._coco import evaluator
from hashnms._output import as_csv, as_dicts, as_json, as_markdown, as_table
from hashnms.detections import Detections, Truth
from hashnms.evaluate import Agreement, AveragePrecision, agreement, average_precision, task_of
from hashnms.pipeline import Suppressed, Suppression
from hashnms.steps import Step
from hashnms.sweeps import parameters_of, sweep

__all__ = [
    "Compared",
    "Detections",
    "Truth",
    "as_csv",
    "as_dicts",
    "as_json",
    "as_markdown",
    "as_table",
    "compare",
    "sweep",
]


@dataclass(frozen=True)
class Compared:
    """One method, measured."""

    method: str  #: its notation
    boxes_in: int  #: how many boxes its last step other than limits gets; all if it has none
    kept: int
    seconds: float  #: the median of all rounds, for all images
    spread: float  #: half of what lies between the quartiles of the rounds, in seconds
    speed_up: float  #: the first method's seconds by its own
    agreement: Agreement  #: with what the first method keeps
    quality: AveragePrecision | None  #: None without ground truth
    parameters: dict[str, float]  #: by the names that `sweep` has for them


def compare(
    detections: Detections,
    suppressions: Sequence[Suppression | str],
    *,
    truth: Truth | None = None,
    max_detections: int = 1000,
    ignore_by_label: bool = False,
    rounds: int = 5,
    progress: Callable[[int, int], None] | None = None,
) -> list[Compared]:
    """Measure several methods on the same detections; the first is the one that the others are compared with.

    All images go through the core in one call. Each round times every method once, one after the other, so that what
    else the machine does meets all of them. A method that takes over 1 s has 3 rounds at most, over 5 s 2.

    Args:
        detections: raw ones, of one or many images.
        suppressions: one or more methods or their notations; `sweep` makes several of one.
        truth: the ground truth, for average precision by faster-coco-eval (`pip install "hashnms[eval]"`).
        max_detections: of each image and label at most so many count for average precision, the best.
        ignore_by_label: whether an ignored region is one for its own label only, or for all: see `average_precision`.
        rounds: how many times each method is timed.
        progress: called as progress(done, total) after each call and each evaluation; the total stays the same.

    >>> found = Detections([[0, 0, 10, 10], [1, 0, 11, 10], [20, 0, 30, 10]], [0.75, 0.875, 0.5])
    >>> exact, softer = compare(found, ["nms:0.5", "nms:0.9"])
    >>> exact.kept, softer.kept, softer.agreement
    (2, 3, Agreement(precision=0.6666666666666666, recall=1.0))
    """
    chains = _settings.methods_list(suppressions, Suppression.of)
    rounds = _settings.count_value("rounds", rounds)
    max_detections = _settings.count_value("max_detections", max_detections)
    if truth is not None:  # what is wrong is said before anything takes time
        evaluator()
        task_of(detections, truth)
    steps = _Steps(len(chains) * (rounds + (truth is not None)), progress)
    results, seconds = _timed(chains, detections, rounds, steps)
    medians = [float(np.median(values)) for values in seconds]
    before: dict[tuple[Step, ...], int] = {}
    rows = []
    for chain, result, values, median in zip(chains, results, seconds, medians, strict=True):
        quality = None
        if truth is not None:
            kept = detections.take(result.keep, result.scores, result.boxes)
            quality = average_precision(kept, truth, max_detections=max_detections, ignore_by_label=ignore_by_label)
            steps.advance()
        low, high = np.percentile(values, [25, 75])
        rows.append(
            Compared(
                method=str(chain),
                boxes_in=_boxes_in(chain, detections, before),
                kept=len(result.keep),
                seconds=median,
                spread=float(high - low) / 2,
                speed_up=medians[0] / median,
                agreement=agreement(result.keep, results[0].keep),
                quality=quality,
                parameters=parameters_of(chain),
            )
        )
    return rows


@dataclass
class _Steps:
    """Counts what is done, and tells."""

    total: int
    progress: Callable[[int, int], None] | None
    done: int = 0

    def advance(self) -> None:
        self.done += 1
        if self.progress is not None:
            self.progress(self.done, self.total)


def _timed(
    chains: list[Suppression], detections: Detections, rounds: int, steps: _Steps
) -> tuple[list[Suppressed[Any]], list[list[float]]]:
    """What each method keeps, and its seconds in each round."""
    results: dict[int, Suppressed[Any]] = {}
    seconds: list[list[float]] = [[] for _ in chains]
    for number in range(rounds):
        for place, chain in enumerate(chains):
            if number < _enough(seconds[place]):
                start = time.perf_counter()
                results[place] = _suppressed(chain, detections)
                seconds[place].append(time.perf_counter() - start)
            steps.advance()
    return [results[place] for place in range(len(chains))], seconds


def _enough(seconds: list[float]) -> float:
    """How many rounds will do for a method with these times so far."""
    first = seconds[0] if seconds else 0.0
    if first > 5.0:
        return 2
    return 3 if first > 1.0 else np.inf


def _suppressed(chain: Suppression, detections: Detections) -> Suppressed[Any]:
    return chain(detections.boxes, detections.scores, detections.labels, detections.images)


def _boxes_in(chain: Suppression, detections: Detections, known: dict[tuple[Step, ...], int]) -> int:
    """How many boxes the last suppressing step gets. Methods that begin alike share what is known."""
    places = [place for place, step in enumerate(chain.steps) if step.removes_overlaps]
    before = chain.steps[: places[-1]] if places else ()
    if not before:
        return len(detections)
    if before not in known:
        known[before] = len(_suppressed(Suppression(before), detections).keep)
    return known[before]
