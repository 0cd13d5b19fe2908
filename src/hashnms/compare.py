"""Compare methods on the same detections: time, boxes, agreement with the first method, average precision."""

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
    """The measurements of one method."""

    method: str  #: its notation
    boxes_in: int  #: how many boxes reach its last suppressing step; all if it has none
    kept: int
    seconds: float  #: the median of all rounds, for all images
    spread: float  #: half the distance between the quartiles of the rounds, in seconds
    speed_up: float  #: the first method's seconds / its own
    agreement: Agreement  #: with the boxes that the first method keeps
    quality: AveragePrecision | None  #: None without ground truth
    parameters: dict[str, float]  #: by the names that `sweep` uses


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
    """Measure several methods on the same detections, and compare the others with the first.

    All images go through the core in one call. Each round times every method once, so that other load on the machine
    affects all of them alike. A method that takes over 1 s is timed at most 3 times, one over 5 s at most twice.

    Args:
        detections: the raw detections of one or many images.
        suppressions: one or more `Suppression` values or notations; `sweep` makes several from one pattern.
        truth: the ground truth, for average precision by faster-coco-eval (the extra `eval`).
        max_detections: only this many detections, the best, of each image and label count for average precision.
        ignore_by_label: whether an ignored region applies to its own label only, or to all; see `average_precision`.
        rounds: how many times each method is timed.
        progress: called as progress(done, total) after each call and each evaluation; the total does not change.

    Returns:
        A list of `Compared`, one for each method.

    >>> found = Detections([[0, 0, 10, 10], [1, 0, 11, 10], [20, 0, 30, 10]], [0.75, 0.875, 0.5])
    >>> exact, softer = compare(found, ["nms:0.5", "nms:0.9"])
    >>> exact.kept, softer.kept, softer.agreement
    (2, 3, Agreement(precision=0.6666666666666666, recall=1.0))
    """
    if not isinstance(detections, Detections):
        raise TypeError(
            f"detections must be Detections(boxes, scores, labels, images), got {type(detections).__name__}"
        )
    chains = _settings.methods_list(suppressions, Suppression.of)
    rounds = _settings.count_value("rounds", rounds)
    max_detections = _settings.count_value("max_detections", max_detections)
    if truth is not None:  # report errors before anything takes time
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
    """Counts finished steps and reports progress."""

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
    """The boxes that each method keeps, and its seconds in each round."""
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
    """How many rounds are enough for a method with these times so far."""
    first = seconds[0] if seconds else 0.0
    if first > 5.0:
        return 2
    return 3 if first > 1.0 else np.inf


def _suppressed(chain: Suppression, detections: Detections) -> Suppressed[Any]:
    return chain(detections.boxes, detections.scores, detections.labels, detections.images)


def _boxes_in(chain: Suppression, detections: Detections, known: dict[tuple[Step, ...], int]) -> int:
    """How many boxes reach the last suppressing step. Methods that share their first steps share the result."""
    places = [place for place, step in enumerate(chain.steps) if step.removes_overlaps]
    before = chain.steps[: places[-1]] if places else ()
    if not before:
        return len(detections)
    if before not in known:
        known[before] = len(_suppressed(Suppression(before), detections).keep)
    return known[before]
