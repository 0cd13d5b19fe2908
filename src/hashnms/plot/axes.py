"""What all plots share: the ax of a new figure, the colours, counts in words."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

#: Label k has colour k % 10, the same in every plot.
COLORS = tuple(mpl.colormaps["tab10"].colors)

WIDTH = 8.0  # of a new figure, in inches


def figure_height(width: float, height: float) -> float:
    """The height of a new figure, in inches."""
    return float(np.clip(WIDTH * height / width, 0.35 * WIDTH, 1.5 * WIDTH))


def new_ax(width: float, height: float, below: float = 0.0) -> Axes:
    """The ax of a new figure, for a plot of these proportions with `below` inches under it."""
    return Figure(figsize=(WIDTH, figure_height(width, height) + below), layout="compressed").subplots()


def darker(color: Any) -> tuple[float, ...]:
    return tuple(0.75 * part for part in color)


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}es"
