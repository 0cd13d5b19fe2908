"""NMS, Soft-NMS and HNMS as in their papers, from `plain_loops.cpp`.

They are compiled with the machine's C++ compiler on the first call.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np


@cache
def compiled(source: str) -> Any:
    """Compile a C++ file of this folder to a library, with the flags of the package, so that it rounds as ours does."""
    compiler = os.environ.get("CXX", "c++")
    flags = ["-std=c++20", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC"]
    with TemporaryDirectory() as folder:
        library = Path(folder) / "library.so"
        subprocess.run([compiler, *flags, str(Path(__file__).with_name(source)), "-o", str(library)], check=True)
        return ctypes.CDLL(str(library))


def plain_nms(work: Any) -> Callable[[], Any]:
    """NMS of a workload: see `benchmarks.peers`."""
    function, count = compiled("plain_loops.cpp").plain_nms, len(work.boxes)
    rows = np.empty(count, np.int64)

    def call() -> Any:
        labels = None if work.labels is None else work.labels.ctypes
        arrays = work.boxes.ctypes, work.scores.ctypes, labels, ctypes.c_size_t(count)
        return rows[: function(*arrays, ctypes.c_double(work.iou_threshold), rows.ctypes)]

    return call


def plain_soft_nms(
    work: Any, sigma: float, min_score: float, max_output: int | None = None, with_scores: bool = False
) -> Callable[[], Any]:
    """Soft-NMS of a workload without labels; `with_scores`: return the rows and the lowered scores."""
    function, count = compiled("plain_loops.cpp").plain_soft_nms, len(work.boxes)
    rows, lowered = np.empty(count, np.int64), np.empty(count, np.float32)
    most = count if max_output is None else max_output

    def call() -> Any:
        arrays = work.boxes.ctypes, work.scores.ctypes, ctypes.c_size_t(count)
        limits = ctypes.c_double(sigma), ctypes.c_float(min_score), ctypes.c_size_t(most)
        selected = function(*arrays, *limits, rows.ctypes, lowered.ctypes)
        return (rows[:selected], lowered[:selected]) if with_scores else rows[:selected]

    return call


def plain_hnms(work: Any, alpha: float) -> Callable[[], Any]:
    """HNMS with one hash, of a workload without labels."""
    function, count = compiled("plain_loops.cpp").plain_hnms, len(work.boxes)
    rows = np.empty(count, np.int64)

    def call() -> Any:
        arrays = work.boxes.ctypes, work.scores.ctypes, ctypes.c_size_t(count)
        return rows[: function(*arrays, ctypes.c_double(alpha), rows.ctypes)]

    return call
