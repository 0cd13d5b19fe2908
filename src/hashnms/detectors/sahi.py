"""hashnms in SAHI: a backend for what it does with overlapping predictions of slices.

`accelerate()` makes `get_sliced_prediction` and all else of SAHI use it, `restore()` undoes that, `accelerated()` does
both around a block. `python -m hashnms.detectors.sahi predict ...` is `sahi predict ...` with it. Needs SAHI:
`pip install "hashnms[sahi]"`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashnms import nms
from hashnms.detectors._rounding import least_float32, least_rounding_to

try:
    from sahi.postprocess import _numpy_backend as _theirs
    from sahi.postprocess import backends, combine
    from sahi.postprocess._sparse_backend import should_use_sparse
except ImportError as error:
    raise ImportError('hashnms.detectors.sahi needs sahi: pip install "hashnms[sahi]"') from error

#: SAHI's name of a function -> ours.
_FUNCTIONS = {"nms": "nms_hashnms", "greedy_nmm": "greedy_nmm_hashnms", "nmm": "nmm_hashnms"}


def accelerate() -> None:
    """Make hashnms SAHI's backend, as `set_postprocess_backend("hashnms")`; for all threads, until `restore`.

    >>> from sahi.postprocess.backends import get_postprocess_backend
    >>> with accelerated():
    ...     get_postprocess_backend()
    'hashnms'
    >>> get_postprocess_backend()
    'auto'
    """
    register()
    if backends.get_postprocess_backend() != "hashnms":
        _before.append(backends.get_postprocess_backend())
        backends.set_postprocess_backend("hashnms")


def restore() -> None:
    """Give SAHI the backend back that it had before `accelerate`, if hashnms is its backend."""
    if backends.get_postprocess_backend() == "hashnms":
        backends.set_postprocess_backend(_before.pop() if _before else "auto")
    _before.clear()


@contextmanager
def accelerated() -> Iterator[None]:
    """`accelerate` while the block runs; afterwards SAHI has the backend it had before."""
    before = backends.get_postprocess_backend()
    accelerate()
    try:
        yield
    finally:
        if before != "hashnms":
            restore()


def register() -> None:
    """Add "hashnms" to the names that `sahi.postprocess.backends.set_postprocess_backend` takes."""
    if "hashnms" in backends.VALID_BACKENDS:
        return
    backends.VALID_BACKENDS = (*backends.VALID_BACKENDS, "hashnms")
    combine._BACKEND_MODULE_MAP["hashnms"] = "hashnms.detectors.sahi"
    for function, ours in _FUNCTIONS.items():
        combine._FUNC_NAME_MAP[function]["hashnms"] = ours


_before: list[str] = []  # the backend before `accelerate`


def nms_hashnms(predictions: NDArray[Any], match_metric: str = "IOU", match_threshold: float = 0.5) -> list[int]:
    """What SAHI's `nms_numpy` returns: the rows that are kept, by score and, where scores tie, by coordinates.

    Args:
        predictions: (N, 6): x1, y1, x2, y2, score, category, which is not looked at.
        match_metric: "IOU" or "IOS", intersection over the smaller area.
        match_threshold: a row is suppressed where its overlap with a kept one is at least this.

    >>> rows = np.array([[0, 0, 10, 10, 0.5, 0], [1, 0, 11, 10, 0.75, 0], [20, 0, 30, 10, 0.25, 0]], np.float32)
    >>> nms_hashnms(rows), greedy_nmm_hashnms(rows, "IOS")
    ([1, 2], {1: [0], 2: []})
    """
    if len(predictions) == 0 or match_threshold <= 0:  # at 0 boxes that do not touch match, too
        return list(_theirs.nms_numpy(predictions, match_metric, match_threshold))
    order, keep, _ = _suppressed(predictions, match_metric, match_threshold)
    kept: list[int] = order[keep].tolist()
    return kept


def greedy_nmm_hashnms(
    predictions: NDArray[Any], match_metric: str = "IOU", match_threshold: float = 0.5
) -> dict[int, list[int]]:
    """What SAHI's `greedy_nmm_numpy` returns: kept row -> the rows that it suppressed, all in the order of `nms`.

    Arguments as `nms_hashnms`.
    """
    if len(predictions) == 0 or match_threshold <= 0:
        return dict(_theirs.greedy_nmm_numpy(predictions, match_metric, match_threshold))
    order, keep, suppressor = _suppressed(predictions, match_metric, match_threshold)
    members = order[np.argsort(suppressor, kind="stable")].tolist()  # of a group the kept row comes first
    ends = np.cumsum(np.bincount(suppressor)[keep]).tolist()
    starts = [0, *ends[:-1]]
    return {members[start]: members[start + 1 : end] for start, end in zip(starts, ends, strict=True)}


def nmm_hashnms(
    predictions: NDArray[Any], match_metric: str = "IOU", match_threshold: float = 0.5
) -> dict[int, list[int]]:
    """SAHI's own `nmm_numpy`: there a box joins the group of any box that overlaps it, kept or not.

    So it is no matter of kept boxes, which is what makes `hashnms.nms` fast.
    """
    return dict(_theirs.nmm_numpy(predictions, match_metric, match_threshold))


def _suppressed(
    predictions: NDArray[Any], match_metric: str, match_threshold: float
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The rows in SAHI's order, the places in it that are kept, and for each place the one that suppressed it."""
    if predictions.dtype not in (np.float32, np.float64):
        predictions = predictions.astype(np.float64)
    order = _order(predictions)
    threshold = _threshold(len(predictions), predictions.dtype, match_threshold)
    if threshold > 1:
        return order, np.arange(len(order)), np.arange(len(order))
    ordered = predictions[order]
    keep, suppressor = nms(
        ordered[:, :4],
        ordered[:, 4],
        threshold,
        metric="iou" if match_metric == "IOU" else "ios",
        inclusive=True,
        return_suppressor=True,
    )
    return order, keep, suppressor


def _order(predictions: NDArray[Any]) -> NDArray[np.int64]:
    """By decreasing score, where scores tie by x1, y1, x2, y2."""
    order = np.argsort(-predictions[:, 4], kind="stable")
    scores = predictions[order, 4]
    tied = np.flatnonzero(scores[1:] == scores[:-1])
    if len(tied):
        places = np.union1d(tied, tied + 1)
        x1, y1, x2, y2, of_tied, *_ = predictions[order[places]].T
        order[places] = order[places][np.lexsort((y2, x2, y1, x1, -of_tied))]
    return order


def _threshold(count: int, dtype: np.dtype[Any], match_threshold: float) -> float:
    """The threshold that has SAHI's verdicts.

    It computes in the boxes' own type and compares in float32; float64 boxes, which it has only where it is called
    with them, are rounded to float32 where they are few, and are compared as they are where they are many.
    """
    if dtype == np.float32:
        return float(least_float32(match_threshold, np.greater_equal))
    if should_use_sparse(count, match_threshold):
        return float(match_threshold)
    return least_rounding_to(least_float32(match_threshold, np.greater_equal))


if __name__ == "__main__":
    from sahi.cli import app

    accelerate()
    app()
