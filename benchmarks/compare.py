"""One workload, ours and the peers: every answer is looked at before its time counts."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.peers import Peer, Workload
from hashnms.evaluate import agreement

#: A peer that would need longer than this for a call is left out, and so are rounds beyond this for one.
LONGEST = 60.0
ENOUGH = 3.0


@dataclass(frozen=True)
class Result:
    """What a peer took for a workload: nothing where it was left out, and then why."""

    workload: str
    boxes: int
    peer: str
    best: float | None  # seconds
    median: float | None
    answer: str  # "same", or what is different, or why it was left out


@dataclass
class Series:
    """Ours and the peers over workloads that grow: a peer is left out from where it would take too long."""

    ours: Peer
    peers: list[Peer]
    verify: Callable[[Workload, Any], bool]  # whether our rows are right

    def __post_init__(self) -> None:
        self._seen: dict[str, list[tuple[int, float]]] = {}

    def run(self, work: Workload, rounds: int = 15) -> list[Result]:
        """Of one workload, ours first."""
        call = self.ours.call(work)
        rows = np.asarray(call())
        if not self.verify(work, rows):
            raise SystemExit(f"{self.ours.name} of {work.name}, {len(work.boxes):,} boxes, is wrong: nothing is timed")
        calls, answers, results = {self.ours.name: call}, {self.ours.name: "same"}, []
        for peer in self.peers:
            if self._expected_seconds(peer.name, len(work.boxes)) > LONGEST:
                results.append(Result(work.name, len(work.boxes), peer.name, None, None, "over a minute"))
                continue
            try:
                call = peer.call(work)
                answers[peer.name] = difference(peer, work, rows, np.asarray(call()))
                calls[peer.name] = call
            except Exception as error:
                answer = f"fails: {type(error).__name__}"
                results.append(Result(work.name, len(work.boxes), peer.name, None, None, answer))
        for name, times in interleaved(calls, rounds).items():
            self._seen.setdefault(name, []).append((len(work.boxes), min(times)))
            median = statistics.median(times)
            results.append(Result(work.name, len(work.boxes), name, min(times), median, answers[name]))
        order = [self.ours.name, *(peer.name for peer in self.peers)]
        return sorted(results, key=lambda result: order.index(result.peer))

    def _expected_seconds(self, name: str, boxes: int) -> float:
        """From the greatest size so far, as if it were quadratic."""
        size, seconds = max(self._seen.get(name, [(1, 0.0)]))
        return seconds * max(boxes / size, 1.0) ** 2


def interleaved(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each call, in rounds: all calls once, then all again. A long call has fewer.

    Short calls are repeated within a round, so that the clock can tell them apart; the mean counts.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    repeats = dict.fromkeys(calls, 1)
    for name, call in calls.items():  # to warm up
        seconds = _timed(call, 1)
        repeats[name] = int(np.clip(2e-4 / max(seconds, 1e-7), 1, 100))
        if seconds > ENOUGH:
            times[name].append(seconds)
    for _ in range(rounds):
        for name, call in calls.items():
            if sum(times[name]) * repeats[name] < ENOUGH:
                times[name].append(_timed(call, repeats[name]))
    return times


def _timed(call: Callable[[], Any], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def difference(peer: Peer, work: Workload, rows: Any, answer: Any) -> str:
    """How a peer's answer differs from the right rows."""
    if peer.approximates:
        agreed = agreement(answer, rows)
        return f"recall {agreed.recall:.1%}, precision {agreed.precision:.1%}"
    if peer.returns_scores:
        alike = np.array_equal(np.sort(answer), np.sort(work.scores[rows]))
        return "same" if alike else f"{len(answer):,} boxes, not {len(rows):,}"
    answer = answer.astype(np.int64).ravel()
    if np.array_equal(answer, rows):
        return "same"
    missing, more = np.setdiff1d(rows, answer), np.setdiff1d(answer, rows)
    if len(missing) == len(more) == 0:
        in_order = np.array_equal(work.scores[answer], work.scores[rows])
        return "same boxes, ties in another order" if in_order else "same boxes, not by score"
    return f"{len(missing):,} boxes missing, {len(more):,} more, of {len(rows):,}"


def fitted_exponent(points: Iterable[tuple[int, float]]) -> float:
    """The slope of time over size in a log-log plot."""
    sizes, seconds = zip(*points, strict=True)
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
