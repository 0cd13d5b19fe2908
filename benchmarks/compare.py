"""Time our method and the peers on one workload. Every answer is checked before its time counts."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from benchmarks.peers import Peer, Workload
from hashnms.evaluate import agreement

#: A peer that would need more seconds or bytes for a call is left out. A call that took ENOUGH seconds is not repeated.
LONGEST, MOST_BYTES = 60.0, 4e9
ENOUGH = 3.0
#: Short calls are repeated for this many seconds within a round, so that the cache holds their data.
ROUND = 1e-3


#: Why a peer is left out.
TOO_LONG, TOO_MUCH = "over a minute", "over 4 GB"


Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True)
class Result:
    """The time of a peer on a workload, or why it was left out."""

    workload: str
    boxes: int
    peer: str
    best: float | None  # seconds
    median: float | None
    answer: str  # "same", or what differs, or why it was left out


@dataclass
class Series:
    """Our method and the peers on growing workloads: a peer is left out once it would take too long."""

    ours: Peer
    peers: list[Peer]
    verify: Callable[[Workload, Any], bool]  # whether our rows are correct

    def __post_init__(self) -> None:
        self._seen: dict[str, list[tuple[int, float]]] = {}

    def run(self, work: Workload, rounds: int = 15) -> list[Result]:
        """Results for one workload, ours first."""
        call = self.ours.call(work)
        rows = np.asarray(call())
        if not self.verify(work, rows):
            raise SystemExit(f"{self.ours.name} of {work.name}, {len(work.boxes):,} boxes, is wrong: nothing is timed")
        calls, answers, first_seconds, results = {self.ours.name: call}, {self.ours.name: "same"}, {}, []
        for peer in self.peers:
            left_out = self._why_not(peer, len(work.boxes))
            if not left_out:
                try:
                    peer.call(work.first(8))()  # loads and compiles
                    call = peer.call(work)
                    start = time.perf_counter()
                    answer = call()
                    first_seconds[peer.name] = time.perf_counter() - start
                    answers[peer.name] = difference(peer, work, rows, np.asarray(answer))
                    calls[peer.name] = call
                except Exception as error:
                    left_out = f"fails: {type(error).__name__}"
            if left_out:
                results.append(Result(work.name, len(work.boxes), peer.name, None, None, left_out))
        for name, times in interleaved(calls, rounds, first_seconds).items():
            self._seen.setdefault(name, []).append((len(work.boxes), min(times)))
            median = statistics.median(times)
            results.append(Result(work.name, len(work.boxes), name, min(times), median, answers[name]))
        order = [self.ours.name, *(peer.name for peer in self.peers)]
        return sorted(results, key=lambda result: order.index(result.peer))

    def _why_not(self, peer: Peer, boxes: int) -> str:
        if peer.bytes_per_pair * boxes**2 > MOST_BYTES:
            return TOO_MUCH
        return TOO_LONG if self._expected_seconds(peer.name, boxes) > LONGEST else ""

    def _expected_seconds(self, name: str, boxes: int) -> float:
        """Extrapolates the growth of the time so far; initially assumes quadratic growth."""
        seen = sorted(self._seen.get(name, []))
        if not seen:
            return 0.0
        size, seconds = seen[-1]
        exponent = fitted_exponent(seen[-2:]) if len({size for size, _ in seen[-2:]}) > 1 else 2.0
        return seconds * max(boxes / size, 1.0) ** float(np.clip(exponent, 1.0, 2.5))


def interleaved(
    calls: dict[Name, Callable[[], Any]], rounds: int, first_seconds: dict[Name, float] | None = None
) -> dict[Name, list[float]]:
    """Seconds of each call, in rounds: all calls once, then all again. Long calls have fewer rounds.

    Short calls are repeated within a round, and the mean counts. `first_seconds`: times of earlier calls, which are
    enough for long ones.
    """
    times: dict[Name, list[float]] = {name: [] for name in calls}
    repeats = dict.fromkeys(calls, 1)
    for name, call in calls.items():  # to warm up
        seconds = (first_seconds or {}).get(name, 0.0)
        if seconds < ENOUGH:
            seconds = _timed(call, 1)
        if seconds < ROUND:
            seconds = _timed(call, 3)
        repeats[name] = int(np.clip(ROUND / max(seconds, 1e-7), 1, 1000))
        if seconds >= ENOUGH:
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
    """How a peer's answer differs from the correct rows."""
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
