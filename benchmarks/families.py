"""What `python -m benchmarks` measures: families of workloads, each a table on the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import workloads
from benchmarks.compare import Result, Series
from benchmarks.later_algorithms import LATER
from benchmarks.peers import (
    ALPHA,
    BATCHED_NMS,
    HNMS,
    LABELLED_NMS,
    MIN_SCORE,
    NMS,
    OUR_HNMS,
    OUR_NMS,
    OUR_SOFT_NMS,
    SIGMA,
    SOFT_NMS,
    Peer,
)
from benchmarks.plain import plain_hnms, plain_nms, plain_soft_nms
from hashnms import nms, reference
from hashnms.synthetic import PRESETS

#: Up to this many boxes, NMS is checked against the plain loop, and HNMS against the reference in Python. Beyond, NMS
#: tile by tile is checked against NMS of all boxes at once, and HNMS against the plain hash map.
CHECKED, CHECKED_HNMS = 45_000, 10_000

Runs = Iterator[list[Result]]


def nms_is_right(work: Any, rows: Any) -> bool:
    most = len(work.boxes)
    if most <= CHECKED:
        return np.array_equal(rows, plain_nms(work)())
    at_once = nms(work.boxes, work.scores, work.iou_threshold, labels=work.labels, max_output=most - 1)
    return np.array_equal(rows[: most - 1], at_once)


def soft_nms_is_right(work: Any, rows: Any) -> bool:
    return len(work.boxes) > CHECKED or np.array_equal(rows, plain_soft_nms(work, SIGMA, MIN_SCORE)())


def hnms_is_right(work: Any, rows: Any) -> bool:
    if len(work.boxes) > CHECKED_HNMS:
        return np.array_equal(rows, plain_hnms(work, ALPHA)())
    return np.array_equal(rows, reference.hnms(work.boxes, work.scores, alpha=ALPHA))


def nms_series(peers: list[Peer]) -> Series:
    return Series(OUR_NMS, [peer for peer in peers if peer.installed()], nms_is_right)


def nms_by_size(largest: int, iou_threshold: float) -> Runs:
    series = nms_series(NMS)
    for work in workloads.scenes("parking_lot", workloads.sizes_to(largest), iou_threshold):
        yield series.run(work)


def soft_nms_by_size(largest: int) -> Runs:
    series = Series(OUR_SOFT_NMS, [peer for peer in SOFT_NMS if peer.installed()], soft_nms_is_right)
    for work in workloads.scenes("parking_lot", workloads.sizes_to(largest), 0.5):
        yield series.run(work, rounds=7)


def hnms_by_size(largest: int) -> Runs:
    series = Series(OUR_HNMS, HNMS, hnms_is_right)
    for work in workloads.scenes("parking_lot", workloads.sizes_to(largest), 0.5):
        yield series.run(work)


def presets(largest: int) -> Runs:
    for preset in PRESETS:
        series = nms_series(NMS)
        for work in workloads.scenes(preset, [size for size in (10, 1000, 45_000) if size <= largest], 0.5):
            yield series.run(work, rounds=7)


def worst_cases(largest: int) -> Runs:
    for iou_threshold in (0.05, 0.5, 0.95):
        for work in workloads.worst_cases(min(10_000, largest), iou_threshold):
            yield nms_series(NMS).run(work, rounds=5)


def classes(largest: int) -> Runs:
    for work in workloads.classes(min(45_000, largest)):
        yield nms_series(LABELLED_NMS).run(work, rounds=7)


def batches(largest: int) -> Runs:
    for work in workloads.batches(1000, [number for number in (1, 8, 64) if 1000 * number <= largest]):
        yield nms_series(BATCHED_NMS).run(work, rounds=7)


def later(largest: int) -> Runs:
    series = nms_series(LATER)
    for work in workloads.scenes("parking_lot", workloads.sizes_to(min(largest, 1_000_000))[1:], 0.5):
        yield series.run(work, rounds=5)


def real(folder: Path, images: int) -> Runs:
    """The first images of each set: one series per image, because their sizes differ."""
    for directory in workloads.real_sets(folder):
        for work in islice(workloads.real_images(directory), images):
            yield nms_series(LABELLED_NMS).run(work, rounds=5)


#: Name of a family -> its title, and a function of the largest number of boxes that runs it.
FAMILIES: dict[str, tuple[str, Callable[[int], Runs]]] = {
    "nms-0.5": ("Exact NMS at IoU 0.5", lambda largest: nms_by_size(largest, 0.5)),
    "nms-0.7": ("Exact NMS at IoU 0.7", lambda largest: nms_by_size(largest, 0.7)),
    "soft-nms": ("Soft-NMS, gaussian, sigma 0.5", soft_nms_by_size),
    "hnms": ("HNMS, alpha 0.7, one hash", hnms_by_size),
    "presets": ("All kinds of scenes", presets),
    "classes": ("Exact NMS with classes", classes),
    "batches": ("Several images in one call", batches),
    "worst": ("Worst cases of exact NMS", worst_cases),
    "later": ("Later algorithms", later),
}
