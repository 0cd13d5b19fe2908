"""The paper in plain Python, line by line: the oracle for the tests, and readable documentation. Slow on purpose.

Equation and algorithm numbers are those of "Hashing-based Non-Maximum Suppression for Crowded Object Detection".
Boxes are taken as (w, h, x, y) with x, y the centre, in double precision; inputs are not checked here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from itertools import product
from math import exp, floor
from typing import Any

import numpy as np
from numpy.typing import NDArray


def iou_hash(
    boxes: Any,
    *,
    alpha: float,
    w0: float = 1.0,
    h0: float = 1.0,
    bx: float = 0.0,
    by: float = 0.0,
    box_format: str = "xyxy",
) -> list[tuple[int, int, int, int] | None]:
    """Alg. 1: the code (i, j, m, n) of each box, None for a box without area."""
    codes: list[tuple[int, int, int, int] | None] = []
    for w, h, x, y in whxy(boxes, box_format):
        if w == 0 or h == 0:
            codes.append(None)
            continue
        i = _size_cell(w, w0, alpha)  # Eqn. 2
        j = _size_cell(h, h0, alpha)  # Eqn. 3
        delta_i = _cell_center(i, w0, alpha) * (1 - alpha) / (1 + alpha)  # Eqn. 4
        delta_j = _cell_center(j, h0, alpha) * (1 - alpha) / (1 + alpha)  # Eqn. 8
        m = _round(x * (1 / delta_i) - bx)  # Eqn. 6, with 1 / delta as in the core's table
        n = _round(y * (1 / delta_j) - by)  # Eqn. 7
        codes.append((i, j, m, n))
    return codes


def whxy(boxes: Any, box_format: str = "xyxy") -> list[tuple[float, float, float, float]]:
    """Width, height and centre of each box in double precision."""
    rows = np.asarray(boxes, np.float64).reshape(-1, 4).tolist()
    if box_format == "xyxy":
        return [(c - a, d - b, a / 2 + c / 2, b / 2 + d / 2) for a, b, c, d in rows]
    if box_format == "xywh":
        return [(c, d, a + c / 2, b + d / 2) for a, b, c, d in rows]
    return [(c, d, a, b) for a, b, c, d in rows]


def _round(value: float) -> int:
    """The rounding that fits the half-open cells [-0.5, 0.5) of Eqn. 15."""
    return floor(value + 0.5)


def _size_cell(w: float, w0: float, alpha: float) -> int:
    """Eqn. 2, i = round((log W_0 - log w) / log alpha), with enough digits to be exact on a cell's edge."""
    with localcontext(Context(prec=50)):
        exact = (Decimal(w0).ln() - Decimal(w).ln()) / Decimal(alpha).ln() + Decimal("0.5")
        return int((exact + Decimal("1e-40")).to_integral_value("ROUND_FLOOR"))  # 1e-40: the last digits are noise


def _cell_center(i: int, w0: float, alpha: float) -> float:
    """Eqn. 1, W_i = W_0 / alpha**i."""
    with localcontext(Context(prec=50)):
        return float(Decimal(w0) / Decimal(alpha) ** i)


def hash_family(alpha: float, num_hashes: int) -> list[dict[str, float]]:
    """Eqn. 16: log W_0 = log H_0 = -log(alpha) k/K and b_x = b_y = k/K."""
    family = []
    for k in range(num_hashes):
        with localcontext(Context(prec=50)):
            w0 = float((-Decimal(alpha).ln() * k / num_hashes).exp())
        family.append({"alpha": alpha, "w0": w0, "h0": w0, "bx": k / num_hashes, "by": k / num_hashes})
    return family


def iou_lower_bound(alpha: float) -> float:
    """Alg. 4: the least IoU over all corners of a cell."""
    if not (1 - alpha) / (1 + alpha) < alpha**0.5:  # Eqn. 14
        return 0.0
    delta = (1 - alpha) / (1 + alpha)
    min_iou = 1.0
    for i1, j1, m1, n1, i2, j2, m2, n2 in product((-0.5, 0.5), repeat=8):
        w1, h1, x1, y1 = 1 / alpha**i1, 1 / alpha**j1, m1 * delta, n1 * delta  # Eqn. 15
        w2, h2, x2, y2 = 1 / alpha**i2, 1 / alpha**j2, m2 * delta, n2 * delta
        overlap_x = min(x1 + w1 / 2, x2 + w2 / 2) - max(x1 - w1 / 2, x2 - w2 / 2)
        overlap_y = min(y1 + h1 / 2, y2 + h2 / 2) - max(y1 - h1 / 2, y2 - h2 / 2)
        intersection = overlap_x * overlap_y
        min_iou = min(min_iou, intersection / (w1 * h1 + w2 * h2 - intersection))
    return min_iou


def hnms(
    boxes: Any,
    scores: Any,
    *,
    alpha: float = 0.7,
    num_hashes: int = 1,
    labels: Any = None,
    box_format: str = "xyxy",
) -> NDArray[np.int64]:
    """Alg. 3: HNMS once for each hash of the family, each time on the boxes that the last one kept."""
    boxes, scores = np.asarray(boxes).reshape(-1, 4), np.asarray(scores)
    labels = np.zeros(len(boxes), np.int64) if labels is None else np.asarray(labels)
    keep = np.arange(len(boxes))
    for parameters in hash_family(alpha, num_hashes):
        codes = iou_hash(boxes[keep], **parameters, box_format=box_format)
        keep = keep[_best_of_each_cell(codes, scores[keep], labels[keep])]
    return keep[np.argsort(-scores[keep].astype(np.float64), kind="stable")]


def _best_of_each_cell(codes: list[Any], scores: Any, labels: Any) -> list[int]:
    """Alg. 2, with the label as part of the key; a box without a code is a cell of its own."""
    code2idx: dict[Hashable, int] = {}
    for i, code in enumerate(codes):
        cell = ("no area", i) if code is None else (code, int(labels[i]))
        if cell in code2idx:
            pre = code2idx[cell]
            if scores[pre] < scores[i]:
                code2idx[cell] = i
        else:
            code2idx[cell] = i
    return sorted(code2idx.values())


def nms(
    boxes: Any,
    scores: Any,
    iou_threshold: float = 0.5,
    *,
    labels: Any = None,
    score_threshold: float | None = None,
    max_output: int | None = None,
    metric: str = "iou",
    inclusive: bool = False,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sec. 2.2: by decreasing score, each remaining box suppresses the boxes of its label with IoU > threshold.

    Boxes are xyxy. The IoU, or another metric, is computed in their own float type and compared with the threshold as a
    double, with > or, if `inclusive`, with >=. Returns the kept indices and the suppressors: for each box, the kept box
    that removed it, the box itself if kept, otherwise -1.
    """
    boxes, scores = np.asarray(boxes).reshape(-1, 4), np.asarray(scores)
    labels = np.zeros(len(boxes), np.int64) if labels is None else np.asarray(labels)
    suppressor = np.full(len(boxes), -1)
    keep: list[int] = []
    order = np.argsort(-scores.astype(np.float64), kind="stable")
    if score_threshold is not None:
        order = order[scores[order].astype(np.float64) > score_threshold]
    for rank, i in enumerate(order):
        if suppressor[i] >= 0 or (max_output is not None and len(keep) == max_output):
            continue
        keep.append(i)
        suppressor[i] = i
        rest = order[rank + 1 :]
        rest = rest[(suppressor[rest] < 0) & (labels[rest] == labels[i])]
        overlap = _METRICS[metric](boxes[i], boxes[rest])
        suppressor[rest[overlap >= iou_threshold if inclusive else overlap > iou_threshold]] = i
    return np.array(keep, np.int64), suppressor


def partial_nms(
    boxes: Any, scores: Any, iou_threshold: float = 0.5, *, open: Any = None, labels: Any = None, metric: str = "iou"
) -> NDArray[np.int8]:
    """The certain status of each box in a part of a scene: 0 for suppressed, 1 for kept, 2 for undecided."""
    boxes, scores = np.asarray(boxes).reshape(-1, 4), np.asarray(scores)
    status = np.full(len(boxes), -1, np.int8)
    for i in np.argsort(-scores.astype(np.float64), kind="stable"):
        overlaps = _METRICS[metric](boxes[i], boxes).astype(np.float64) > iou_threshold
        if labels is not None:
            overlaps &= np.asarray(labels) == labels[i]
        if (overlaps & (status == 1)).any():
            status[i] = 0
        elif (open is not None and open[i]) or (overlaps & (status == 2)).any():
            status[i] = 2
        else:
            status[i] = 1
    return status


def join(
    boxes: Any,
    scores: Any,
    iou_threshold: float = 0.5,
    *,
    labels: Any = None,
    score_threshold: float | None = None,
    max_output: int | None = None,
    metric: str = "iou",
    inclusive: bool = False,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Transitive groups: by decreasing score, each box, kept or not, claims all unclaimed boxes that overlap it.

    A box is kept if no box has claimed it. Labels and overlaps are as in `nms`. Returns two arrays. The first has the
    box that claimed each box, or the box itself if it is kept. The second has the kept box at the end of this chain.
    Both are -1 if the score is too low; the second is also -1 beyond `max_output` kept boxes.
    """
    boxes, scores = np.asarray(boxes).reshape(-1, 4), np.asarray(scores)
    labels = np.zeros(len(boxes), np.int64) if labels is None else np.asarray(labels)
    joined, suppressor = np.full(len(boxes), -1), np.full(len(boxes), -1)
    num_kept = 0
    order = np.argsort(-scores.astype(np.float64), kind="stable")
    if score_threshold is not None:
        order = order[scores[order].astype(np.float64) > score_threshold]
    for rank, i in enumerate(order):
        if joined[i] < 0:
            joined[i] = i
            suppressor[i] = i if max_output is None or num_kept < max_output else -1
            num_kept += 1
        rest = order[rank + 1 :]
        rest = rest[(joined[rest] < 0) & (labels[rest] == labels[i])]
        overlap = _METRICS[metric](boxes[i], boxes[rest])
        claimed = rest[overlap >= iou_threshold if inclusive else overlap > iou_threshold]
        joined[claimed], suppressor[claimed] = i, suppressor[i]
    return joined, suppressor


def soft_nms(
    boxes: Any,
    scores: Any,
    *,
    method: str = "gaussian",
    sigma: float = 0.5,
    iou_threshold: float = 0.3,
    min_score: float = 1e-3,
    labels: Any = None,
    max_output: int | None = None,
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Soft-NMS (Bodla et al., 2017; the paper's appendix): select the best box, lower the boxes it overlaps, repeat.

    Boxes are xyxy. The IoU is computed in their own float type, the decay in double and rounded once to the scores'
    type. Returns the selected indices in order and their scores when selected.
    """
    boxes, scores = np.asarray(boxes).reshape(-1, 4), np.array(scores)
    labels = np.zeros(len(boxes), np.int64) if labels is None else np.asarray(labels)
    left = np.flatnonzero(scores.astype(np.float64) >= min_score)
    keep: list[int] = []
    while len(left) and len(keep) != max_output:
        i = left[np.argmax(scores[left])]  # the first of equals
        keep.append(i)
        left = left[left != i]
        met = left[labels[left] == labels[i]]
        iou = _iou(boxes[i], boxes[met])
        for j, overlap in zip(met, iou.tolist(), strict=True):
            if method == "gaussian" and overlap > 0:
                scores[j] *= scores.dtype.type(exp(-(overlap * overlap) / sigma))
            elif method == "linear" and overlap > iou_threshold:
                scores[j] *= scores.dtype.type(1.0 - min(overlap, 1.0))
        gone = met[(iou > iou_threshold) & (method == "hard") | (scores[met].astype(np.float64) < min_score)]
        left = left[~np.isin(left, gone)]
    return np.array(keep, np.int64), scores[keep]


def merge(boxes: Any, scores: Any, suppressor: Any, how: str = "union") -> tuple[Any, Any, Any]:
    """Merge the boxes that each kept box suppressed into it: the smallest box around all, or their score-weighted mean.

    Boxes are xyxy. The mean is computed exactly with fractions and rounded once. Returns the kept rows by decreasing
    score, their boxes in double precision and their scores.
    """
    rows, scores = np.asarray(boxes, np.float64).reshape(-1, 4), np.asarray(scores)
    merged = []
    for kept in [i for i, by in enumerate(suppressor) if by == i]:
        group = [i for i, by in enumerate(suppressor) if by == kept]
        if how == "union":
            box = [min(rows[group, 0]), min(rows[group, 1]), max(rows[group, 2]), max(rows[group, 3])]
            merged.append((max(scores[group]), kept, box))
            continue
        weights = [Fraction(float(scores[i])) for i in group]
        if sum(weights) == 0:
            box = rows[kept].tolist()
        else:
            sums = [sum(w * Fraction(rows[i, k]) for w, i in zip(weights, group, strict=True)) for k in range(4)]
            box = [float(total / sum(weights)) for total in sums]
        merged.append((scores[kept], kept, box))
    merged.sort(key=lambda entry: (-entry[0], entry[1]))
    keep = np.array([kept for _, kept, _ in merged], np.int64)
    return (
        keep,
        np.array([box for _, _, box in merged]).reshape(-1, 4),
        np.array([s for s, _, _ in merged], scores.dtype),
    )


def weighted_boxes_fusion(
    boxes: Any, scores: Any, weights: Any, *, labels: Any, iou_threshold: float = 0.55
) -> tuple[list[list[int]], NDArray[np.float64]]:
    """Solovyev et al., Sec. 3: clusters of boxes, and the fused box of each.

    Boxes are xyxy, and each box has a weight. By decreasing weighted score, a box joins the cluster whose fused box has
    the highest IoU with it above the threshold; otherwise it starts a new cluster. In a cluster whose first box is
    within [0, 1], sums are rounded to 24 bits, as float32 numbers are. Returns the rows of each cluster, in the order
    they joined, and the fused boxes.
    """
    rows, weighted = np.asarray(boxes, np.float64).reshape(-1, 4), np.asarray(scores, np.float64) * weights
    members: list[list[int]] = []
    fused, sums, digits = np.zeros((0, 4)), list[Any](), list[int]()
    for i in np.argsort(-weighted, kind="stable").tolist():
        iou = np.nan_to_num(_iou(rows[i], fused), nan=0.0)
        iou[[labels[group[0]] != labels[i] for group in members]] = 0.0
        best = int(np.argmax(iou)) if len(iou) else -1  # the first of equals
        if best < 0 or not iou[best] > iou_threshold:
            members.append([i])
            is_narrow = bool((rows[i] >= 0).all() and (rows[i] <= 1).all())
            digits.append(24 if is_narrow else 53)
            sums.append(_rounded(weighted[i] * rows[i], digits[-1]))
            fused = np.vstack([fused, rows[i]])
            continue
        members[best].append(i)
        sums[best] = _rounded(sums[best] + weighted[i] * rows[i], digits[best])
        total = sum(weighted[members[best]].tolist())
        if total > 0:
            fused[best] = _rounded(sums[best] / total, digits[best])
    return members, fused


def _rounded(values: Any, digits: int) -> Any:
    """Doubles rounded to this many binary digits, ties to even."""
    mantissas, exponents = np.frexp(values)
    return np.ldexp(np.rint(np.ldexp(mantissas, digits)), exponents - digits)


def of_images(
    of_one: Callable[..., Any], boxes: Any, scores: Any, images: Any, *, labels: Any = None, **settings: Any
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Several images in one call: apply a function for one image to each image.

    Returns the kept indices of all images and their final scores, by decreasing score, ties to the lower index.
    """
    boxes, scores, images = np.asarray(boxes).reshape(-1, 4), np.asarray(scores), np.asarray(images)
    keeps, finals = [np.zeros(0, np.int64)], [scores[:0]]
    for image in np.unique(images):
        rows = np.flatnonzero(images == image)
        of_image = None if labels is None else np.asarray(labels)[rows]
        result = of_one(boxes[rows], scores[rows], labels=of_image, **settings)
        keep = rows[result[0] if isinstance(result, tuple) else result]
        keeps.append(keep)
        finals.append(result[1] if of_one is soft_nms else scores[keep])
    keep, final = np.concatenate(keeps), np.concatenate(finals)
    order = np.lexsort((keep, -final.astype(np.float64)))
    return keep[order], final[order]


def _iou(box: Any, others: Any) -> Any:
    """IoU in the boxes' float type, returned as double; NaN for two boxes without area, which is above no threshold."""
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        intersection, area, areas = _intersection(box, others), _areas(box), _areas(others)
        return (intersection / (area + areas - intersection)).astype(np.float64)


def _ios(box: Any, others: Any) -> Any:
    """Intersection over the smaller area, in the same types."""
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        return (_intersection(box, others) / np.minimum(_areas(box), _areas(others))).astype(np.float64)


def _diou(box: Any, others: Any) -> Any:
    """Distance-IoU (Zheng et al., 2020, Eqn. 7); the penalty in double, rounded once to the boxes' type.

    Where squares could overflow, lengths are in units of 2**600, which does not change the quotient.
    """
    a, b = box.astype(np.float64), others.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        low, high = np.minimum(a[:2], b[:, :2]), np.maximum(a[2:], b[:, 2:])
        unit = np.where((high - low > 2.0**500).any(axis=1, keepdims=True), 2.0**-600, 1.0)
        between = unit * ((a[:2] / 2 + a[2:] / 2) - (b[:, :2] / 2 + b[:, 2:] / 2))
        around = unit * high - unit * low
        penalty = (between[:, 0] ** 2 + between[:, 1] ** 2) / (around[:, 0] ** 2 + around[:, 1] ** 2)
        return (_iou(box, others).astype(others.dtype) - penalty.astype(others.dtype)).astype(np.float64)


def _intersection(box: Any, others: Any) -> Any:
    x1, y1, x2, y2 = others.T
    width = np.maximum(np.minimum(box[2], x2) - np.maximum(box[0], x1), 0)
    height = np.maximum(np.minimum(box[3], y2) - np.maximum(box[1], y1), 0)
    return width * height


def _areas(boxes: Any) -> Any:
    return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])


_METRICS = {"iou": _iou, "ios": _ios, "diou": _diou}
