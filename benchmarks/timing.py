"""How every benchmark measures time: interleaved rounds in one process; the shortest counts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

#: A call that takes longer than this many seconds is measured once.
_LONG = 2.0


def shortest(
    calls: dict[str, Callable[[], Any]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """The shortest wall time of each call, in seconds, over interleaved rounds.

    In a round, each call runs a few times in a row, so that its data is in the cache.
    """
    best = dict.fromkeys(calls, np.inf)
    for _ in range(rounds):
        for name, call in calls.items():
            for _ in range(3):
                if _LONG < best[name] < np.inf:
                    break
                start = clock()
                call()
                best[name] = min(best[name], clock() - start)
    return best
