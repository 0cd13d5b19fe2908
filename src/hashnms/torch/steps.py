"""The steps of a `Suppression` that a device can do by itself, so that only the few boxes they leave go to the host."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hashnms.hashing import hash_family
from hashnms.pipeline import Hnms, Limit, ScoreThreshold, Step, Suppression, TopK
from hashnms.torch import device
from hashnms.torch.device import DeviceBoxes
from hashnms.torch.portable import ranked, sorting


def suppress(suppression: Suppression, given: DeviceBoxes) -> tuple[Tensor, Tensor]:
    """What the suppression keeps of legal boxes, and the scores."""
    rows = torch.arange(len(given.boxes), device=given.boxes.device)
    left, steps = given, list(suppression.steps)
    while steps and type(steps[0]) in _CHOICES:
        chosen = _CHOICES[type(steps[0])](steps[0], left)
        if chosen is None:
            break
        chosen = chosen.sort().values  # ties go by row at every step
        rows, left = rows[chosen], left.of(chosen)
        steps.pop(0)
    if steps:
        result = Suppression(steps).on_host(*left.to("cpu"))
        keep, scores = (torch.from_numpy(array).to(rows.device) for array in result)
    else:
        keep = ranked(left.scores)
        scores = left.scores[keep]
    return rows[keep], scores


def _best_of_cells(step: Hnms, candidates: DeviceBoxes) -> Tensor | None:
    return device.hnms(candidates, hash_family(step.alpha, step.num_hashes))


def _above(step: ScoreThreshold, candidates: DeviceBoxes) -> Tensor:
    return (candidates.scores.double() > step.score_threshold).nonzero()[:, 0]


def _best_of_all(step: Limit, candidates: DeviceBoxes) -> Tensor:
    return ranked(candidates.scores)[: step.k]


def _best_of_labels(step: TopK, candidates: DeviceBoxes) -> Tensor:
    rows = ranked(candidates.scores)
    if candidates.labels is None or len(rows) == 0:
        return rows[: step.k]
    rows = rows[sorting(candidates.labels[rows])]
    labels = candidates.labels[rows]
    place = torch.arange(len(rows), device=rows.device)
    starts = labels != labels[(place - 1).clamp(min=0)]
    place_in_label = place - torch.where(starts, place, 0).cummax(0).values
    return rows[place_in_label < step.k]


_CHOICES: dict[type[Step], Any] = {
    Hnms: _best_of_cells,
    TopK: _best_of_labels,
    Limit: _best_of_all,
    ScoreThreshold: _above,
}
