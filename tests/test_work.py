"""The core's work on boxes of every exponent, counted in steps and not timed, and no calculation of it overflows.

`tests/core/work.cpp` draws the boxes and calls the core. It is compiled here with UndefinedBehaviorSanitizer.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.boxes import REPOSITORY

COMPILER = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")

pytestmark = [pytest.mark.slow, pytest.mark.skipif(COMPILER is None, reason="g++ or clang++ is not there")]

#: What must stay near linear, whatever the sizes and places of boxes. Pairs of 16,000 boxes would be 8,000 steps a box.
FUNCTIONS = [
    *("nms iou 0", "nms iou 1e-07", "nms iou 0.9999", "nms suppressor ios 0.5", "nms diou 0"),
    *("nms diou 1e-07", "partial_nms open ios 0.5", "partial_nms half open ios 0.5", "fuse 0.5"),
]
MOST_STEPS = 1500

_MANY_SIZES = "at thresholds this low, boxes of many sizes can take longer (docs/explanation/nms.md)"
#: Function and kind of boxes -> why not.
EXCEPTIONS = {
    ("nms iou 1e-07", "needles 2^122"): _MANY_SIZES,
    ("nms diou 1e-07", "needles 2^122"): _MANY_SIZES,
    ("fuse 0.5", "half the largest area"): "weighted_boxes_fusion refuses boxes whose sums overflow",
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("work") / "work"
    flags = ["-std=c++20", "-O1", "-ffp-contract=off", "-pthread", "-DHASHNMS_COUNT_WORK"]
    flags += ["-fsanitize=undefined,float-cast-overflow", "-fno-sanitize-recover=all", f"-I{REPOSITORY / 'core'}"]
    subprocess.run([COMPILER, *flags, REPOSITORY / "tests" / "core" / "work.cpp", "-o", path], check=True)
    return path


def steps_of(program: Path, most: int, count: int, names: list[str]) -> dict[tuple[str, str, str], int]:
    """Function, type and kind of boxes -> steps, which end at `most` a box."""
    command = [program, str(most), str(count), *names]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    steps: dict[tuple[str, str, str], int] = {}
    for line in result.stdout.splitlines():
        function, dtype, kind, _, number = line.split("\t")
        steps[function, dtype, kind] = int(number)
    return steps


def test_no_calculation_overflows_and_work_stays_near_linear(program):
    """One test, because compiling takes most of its time."""
    assert len(steps_of(program, 3000, 600, [])) > 10_000  # every function and metric, for float32 and float64
    count = 16_000
    steps = steps_of(program, 2 * MOST_STEPS, count, FUNCTIONS)
    assert {function for function, _, _ in steps} == set(FUNCTIONS)
    too_many = {key: number / count for key, number in steps.items() if number > MOST_STEPS * count}
    assert {(function, kind) for function, _, kind in too_many} == set(EXCEPTIONS), too_many
