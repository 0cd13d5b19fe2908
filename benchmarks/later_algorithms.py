"""NMS variants from later papers, in `later_algorithms.cpp`, on boxes with labels: rows and scores."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.peers import Call, Peer, Workload
from benchmarks.plain import compiled

#: The parameters of Matrix NMS and MaxpoolNMS in their papers.
MATRIX_SIGMA, POOLING_WINDOW = 2.0, 0.75


def later_nms(name: str, setting: float | None = None) -> Callable[[Workload], Call]:
    """One of the variants that keep boxes; `setting` replaces the IoU threshold."""

    def call_of(work: Workload) -> Call:
        function = getattr(compiled("later_algorithms.cpp"), name)
        value = ctypes.c_double(work.iou_threshold if setting is None else setting)
        out = np.empty(len(work.boxes), np.int64)

        def of_one_label(boxes: Any, scores: Any) -> Any:
            count = function(boxes.ctypes, scores.ctypes, ctypes.c_size_t(len(boxes)), value, out.ctypes)
            return out[:count].copy()

        return lambda: by_label(of_one_label, work)

    return call_of


def matrix_nms(boxes: Any, scores: Any) -> tuple[Any, Any]:
    """Rows by lowered score, and these scores, for boxes of one label."""
    rows, lowered = np.empty(len(boxes), np.int64), np.empty(len(boxes), np.float32)
    arrays = boxes.ctypes, scores.ctypes, ctypes.c_size_t(len(boxes))
    compiled("later_algorithms.cpp").matrix_nms(*arrays, ctypes.c_double(MATRIX_SIGMA), rows.ctypes, lowered.ctypes)
    order = np.argsort(-lowered, kind="stable")
    return rows[order], lowered[order]


def by_label(function: Callable[[Any, Any], Any], work: Workload) -> Any:
    """The rows that a function keeps in each label, by score."""
    if work.labels is None:
        return function(work.boxes, work.scores)
    kept = [np.zeros(0, np.int64)]
    for label in np.unique(work.labels):
        rows = np.flatnonzero(work.labels == label)
        kept.append(rows[function(work.boxes[rows], work.scores[rows])])
    keep = np.sort(np.concatenate(kept))
    return keep[np.argsort(-work.scores[keep], kind="stable")]


LATER = [
    Peer("BOE-NMS", "hashnms", later_nms("boe_nms")),
    Peer("Cluster-NMS", "hashnms", later_nms("cluster_nms")),
    Peer("Fast NMS", "hashnms", later_nms("fast_nms"), approximates=True),
    Peer("eQSI-NMS", "hashnms", later_nms("eqsi_nms"), approximates=True),
    Peer("MaxpoolNMS", "hashnms", later_nms("maxpool_nms", POOLING_WINDOW), approximates=True),
]
