"""Thresholds that give the decisions of packages that round an overlap to float32 before they compare it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def least_float32(threshold: Any, compare: Callable[[Any, Any], Any], dtype: type = np.float32) -> np.float32:
    """The least float32 for which `compare(number, threshold)` is true in NumPy, with the number as `dtype`.

    NumPy compares a float32 with a Python float in float32, and with a NumPy float64 in float64, so it does the
    comparison.

    >>> least_float32(0.25, np.greater_equal), least_float32(0.25, np.greater, np.float64) > 0.25
    (np.float32(0.25), np.True_)
    """
    number: np.float32 = np.nextafter(np.float32(threshold), np.float32(-np.inf))
    while not compare(np.array([number], dtype), threshold)[0]:  # at most twice
        number = np.nextafter(number, np.float32(np.inf))
    return number


def least_rounding_to(number: np.float32) -> float:
    """The least float64 that rounds to this float32 or a greater one.

    >>> least_rounding_to(np.float32(1.0)) == 1 - 2**-25
    True
    """
    middle = (float(np.nextafter(number, np.float32(-np.inf))) + float(number)) / 2  # exact: one bit more than float32
    return middle if np.float32(middle) >= number else float(np.nextafter(middle, np.inf))
