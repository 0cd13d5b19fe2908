"""How fast is soft_nms? `make bench`, or `python -m benchmarks.soft_nms --help`.

Gaussian Soft-NMS (sigma 0.5, min_score 0.001) on one thread, and how many times as long the peers take that are
installed: OpenCV, ensemble-boxes, and, where numba is, the plain O(N**2) loop compiled. Every answer of the plain loop is
compared with ours first; OpenCV's and ensemble-boxes' are not comparable, see docs/soft_nms.md. Then what
HNMS in front of it gains, as in the appendix of the paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

SIZES = [100, 1000, 9000, 45_000, 100_000]
#: What the paper's appendix reports for HNMS (alpha 0.73) before Soft-NMS: by K, on CARPK, SKU-110K and CrowdHuman.
PAPER = {1: (4.00, 3.40, 2.52), 2: (5.62, 5.43, 3.85), 3: (7.41, 6.77, 4.77), 4: (8.57, 7.94, 5.53)}

Call = Callable[[], Any]


def compiled_plain_loop() -> Any:
    """The textbook loop: find the best box, lower those that it overlaps, drop those that fall below min_score."""
    from numba import njit

    @njit
    def plain_loop(boxes: Any, all_scores: Any, sigma: float, min_score: float, max_output: int) -> Any:
        rows = np.flatnonzero(all_scores >= min_score)
        x1, y1, x2, y2 = boxes[rows, 0], boxes[rows, 1], boxes[rows, 2], boxes[rows, 3]
        scores = all_scores[rows]
        left = len(rows)
        keep = np.empty(left, np.int64)
        decayed = np.empty(left, scores.dtype)
        kept = 0
        while left > 0 and kept < max_output:
            best = 0
            for k in range(1, left):
                if scores[k] > scores[best] or (scores[k] == scores[best] and rows[k] < rows[best]):
                    best = k
            keep[kept], decayed[kept] = rows[best], scores[best]
            kept += 1
            left -= 1
            bx1, by1, bx2, by2 = x1[best], y1[best], x2[best], y2[best]
            area = (bx2 - bx1) * (by2 - by1)
            x1[best], y1[best], x2[best], y2[best] = x1[left], y1[left], x2[left], y2[left]
            scores[best], rows[best] = scores[left], rows[left]
            k = 0
            while k < left:
                width, height = min(bx2, x2[k]) - max(bx1, x1[k]), min(by2, y2[k]) - max(by1, y1[k])
                if width > 0 and height > 0:
                    overlap = width * height
                    iou = float(overlap / (area + (x2[k] - x1[k]) * (y2[k] - y1[k]) - overlap))
                    scores[k] *= np.float32(math.exp(-(iou * iou) / sigma))
                    if scores[k] < min_score:
                        left -= 1
                        x1[k], y1[k], x2[k], y2[k] = x1[left], y1[left], x2[left], y2[left]
                        scores[k], rows[k] = scores[left], rows[left]
                        continue
                k += 1
        return keep[:kept], decayed[:kept]

    return plain_loop
