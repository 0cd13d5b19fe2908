"""How much memory and time a call takes."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

_MEMORY_SCRIPT = """
import ctypes, sys
import numpy as np
from hashnms import *
from hashnms.synthetic import lattice
call, dtype, num_threads, count = sys.argv[1:]
boxes = lattice(int(count), 8, 9).astype(dtype)  # none overlaps: all are kept
scores = np.random.default_rng(0).random(len(boxes)).astype(dtype)
set_num_threads(int(num_threads))
eval(call, {**globals(), "boxes": boxes[:1000], "scores": scores[:1000]})

def kibibytes(field):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(field))

ctypes.CDLL(None).malloc_trim(0)
open("/proc/self/clear_refs", "w").write("5")  # forget the peak so far
before = kibibytes("VmRSS")
eval(call)
print((kibibytes("VmHWM") - before) * 1024 / len(boxes))
"""


def bytes_per_box(call: str, dtype: str, num_threads: int, count: int = 10**6) -> float:
    """The memory, result included, that a call takes on so many `boxes` and `scores` none of which overlap."""
    command = [sys.executable, "-c", _MEMORY_SCRIPT, call, dtype, str(num_threads), str(count)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def least_seconds(call: Callable[[], object], rounds: int = 3) -> float:
    """The shortest time of a few calls."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def is_faster_than(seconds: float, call: Callable[[], object], rounds: int = 3) -> bool:
    """Whether one of a few calls is; nothing is called again once one was."""
    return any(least_seconds(call, rounds=1) < seconds for _ in range(rounds))
