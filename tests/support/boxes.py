"""Boxes of every difficult kind, synthetic scenes, and real detections if they are available."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import hashnms
from benchmarks.workloads import real_sets

REPOSITORY = Path(__file__).parents[2]
REAL = REPOSITORY.parent / "shared" / "real" / "raw"

#: From "any overlap suppresses" to "none does", on both sides of the threshold between pyramid and grid.
THRESHOLDS = [0.0, 0.01, 0.05, 0.25, 1 / 3, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.999, 1.0]


def crowd(rng: np.random.Generator, count: int, scale: float = 1.0) -> Any:
    """Boxes that overlap a lot, xyxy float64."""
    corner = rng.uniform(0, 100, (count, 2))
    size = rng.choice([8.0, 20.0, 21.0, 40.0], (count, 2)) * rng.uniform(0.9, 1.1, (count, 2))
    return scale * np.concatenate([corner, corner + size], axis=1)


def _zero_area(rng: np.random.Generator, count: int) -> Any:
    boxes = crowd(rng, count)
    boxes[::3, 2] = boxes[::3, 0]
    boxes[::5, 3] = boxes[::5, 1]
    return boxes


def _elongated(rng: np.random.Generator, count: int) -> Any:
    boxes = crowd(rng, count)
    return boxes * np.where(rng.random((count, 1)) < 0.5, [1, 1e4, 1, 1e4], [1e4, 1, 1e4, 1])


def _huge_and_tiny(rng: np.random.Generator, count: int) -> Any:
    return crowd(rng, count) * 10.0 ** rng.integers(-6, 7, (count, 1))


#: Kind of data -> function of (rng, count) that makes xyxy boxes.
BOX_KINDS: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "random": crowd,
    "duplicated": lambda rng, count: crowd(rng, -(-count // 5)).repeat(5, axis=0)[:count],
    "tiny": lambda rng, count: crowd(rng, count, 1e-8),
    "huge": lambda rng, count: crowd(rng, count, 1e6),
    "huge and tiny": _huge_and_tiny,
    "negative": lambda rng, count: crowd(rng, count) - 5000,
    "elongated": _elongated,
    "zero area": _zero_area,
    "integers": lambda rng, count: np.rint(crowd(rng, count)),
}


def boxes_around_every_edge(alpha: float) -> Any:
    """Boxes, cxcywh, whose widths are the edges of all cells a float32 box can have, and the doubles beside them."""
    _, edges, _ = hashnms._core.float32_cells(alpha, 1.0)
    edges = edges[(edges > 2.0**-149) & (edges < 2.0**128)]
    widths = np.concatenate([np.nextafter(edges, 0), edges, np.nextafter(edges, np.inf)])
    return np.stack([np.zeros_like(widths), np.zeros_like(widths), widths, np.ones_like(widths)], axis=1)


@st.composite
def boxes_and_scores(draw: st.DrawFn, max_boxes: int = 30) -> tuple[Any, Any]:
    """Corners of boxes in one float type, crowded together at a random scale, and scores with many ties."""
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    count = draw(st.integers(0, max_boxes))
    scale = dtype(draw(st.sampled_from([1e-6, 0.1, 1.0, 16.0, 1e6])))
    corner = draw(hnp.arrays(dtype, (count, 2), elements=st.integers(-40, 40)))
    size = draw(hnp.arrays(dtype, (count, 2), elements=st.sampled_from([0, 1, 2, 3, 4, 5, 8, 8.5, 9, 16, 40])))
    scores = draw(hnp.arrays(dtype, count, elements=st.sampled_from([-1.0, -0.0, 0.0, 0.25, 0.5, 0.75, 1.0, 3.0])))
    return np.concatenate([corner, corner + size], axis=1) * scale, scores


def real_images(max_images: int = 2) -> list[Any]:
    """One parameter for each of a few images of each real set of upright boxes."""
    if not REAL.is_dir():
        reason = "the real detections are not beside this repository (../shared/real/raw)"
        return [pytest.param(None, marks=pytest.mark.skip(reason=reason))]
    files = [file for folder in real_sets(REAL) for file in sorted(folder.glob("*.npz"))[:max_images]]
    return [pytest.param(file, id=f"{file.parent.name}/{file.stem}") for file in files]
