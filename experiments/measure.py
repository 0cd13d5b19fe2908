"""Run methods on raw boxes: how long each takes, and how good the remaining boxes are.

An image is read once and goes through all settings. Its results are kept in a file until the last image is done, so
that an interrupted measurement continues where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import hashnms
from experiments.clock import now
from experiments.configurations import SuppressionSettings
from experiments.datasets import DatasetError
from experiments.files import beside
from experiments.methods import Method, Timed, limits_of, run
from experiments.raw import Integers, Raw, RawFolder, Truth
from hashnms import Suppression
from hashnms.boxes import pairwise_iou
from hashnms.evaluate import average_precision

#: Each method is timed this many times per image and the best counts; one slower than SLOW seconds, twice.
ROUNDS, SLOW = 5, 0.2
#: The NMS of a second stage is the same for all.
_SECOND_NMS = 0.5
_RECALLS = {"proposal_recall_50": 0.5, "proposal_recall_70": 0.7}


@dataclass(frozen=True)
class Setting:
    """A method on the best `candidates` boxes of each level, the paper's P1."""

    method: Method
    candidates: int

    @property
    def answer(self) -> str:
        """A key: settings with the same key differ only in time."""
        return f"top:{self.candidates}+{self.method.suppression}"


@dataclass(frozen=True)
class Plan:
    """What is measured on a folder of raw boxes."""

    name: str
    settings: list[Setting]
    suppressing: SuppressionSettings
    of_proposals: bool  # boxes of an RPN, which a second stage turns into detections
    timed_images: int = 100
    images: int | None = None  # None: all
    devices: tuple[str, ...] = field(default_factory=lambda: ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",))

    @property
    def limits(self) -> Suppression:
        return limits_of(self.suppressing)

    def labels(self, raw: Raw) -> Integers:
        """The labels, which keep boxes apart: the level of proposals, the class of detections."""
        return raw.level if self.of_proposals else raw.labels

    def count(self, folder: RawFolder) -> int:
        """How many images are measured."""
        return len(folder) if self.images is None else min(self.images, len(folder))

    def digest(self, folder: RawFolder) -> str:
        """Identifies a measurement: if it changes, nothing is reused."""
        settings = [(setting.answer, setting.method.by) for setting in self.settings]
        files = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in folder.files]
        identity = [settings, str(self.suppressing), self.of_proposals, self.timed_images, self.devices]
        identity += [files[: self.count(folder)], ROUNDS, SLOW, hashnms.__version__, torch.__version__]
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]


def measure(
    folder: RawFolder, plan: Plan, results: Path, done: Callable[[int, int], None] = lambda *_: None
) -> dict[str, Any]:
    """Times, average precision and recall of every setting.

    Args:
        folder: raw boxes; without ground truth there are only times.
        plan: what to measure.
        results: a folder for intermediate results. `forget` removes them.
        done: called before the first image and after each image with the numbers of finished images and of all images.

    Returns:
        The record behind a table or a figure: what was measured where, and a row for each setting.
    """
    parts = results / f".{plan.name}-{plan.digest(folder)}"
    count = plan.count(folder)
    with _one_thread():
        for index in range(count):
            done(index, count)
            part = parts / f"{folder.files[index].stem}.npz"
            if not part.exists():
                with beside(part) as temporary, temporary.open("wb") as stream:
                    np.savez(stream, **_of_image(folder[index], plan, timed=index < plan.timed_images))
        done(count, count)
    return _collected(folder, plan, [parts / f"{file.stem}.npz" for file in folder.files[:count]])


def forget(plan: Plan, results: Path) -> None:
    """Remove the intermediate results of measurements of this name, also of abandoned ones."""
    for parts in results.glob(f".{plan.name}-" + "[0-9a-f]" * 16):
        shutil.rmtree(parts)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread for all methods, as the plain loops and torchvision's NMS do."""
    before, before_in_torch = hashnms.get_num_threads(), torch.get_num_threads()
    hashnms.set_num_threads(1)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        hashnms.set_num_threads(before)
        torch.set_num_threads(before_in_torch)


def _of_image(raw: Raw, plan: Plan, timed: bool) -> dict[str, Any]:
    """Detections and times of all settings, as arrays by name."""
    found: dict[str, Any] = {}
    labels = plan.labels(raw)
    for candidates in dict.fromkeys(setting.candidates for setting in plan.settings):
        rows = raw.best(candidates)
        settings = [setting for setting in plan.settings if setting.candidates == candidates]
        arrays = raw.boxes[rows], raw.scores[rows], labels[rows]
        for setting in settings:
            if f"{setting.answer}/kept" not in found:
                left, scores, kept = _left(raw, plan, setting, rows)
                found |= {f"{setting.answer}/kept": np.array([len(rows), kept])}
                found |= {f"{setting.answer}/{name}": value for name, value in _final(raw, plan, left, scores)}
        for device in plan.devices if timed else ():
            tensors = [torch.from_numpy(array).to(device) for array in arrays]
            for setting, milliseconds, differing in _timed(settings, tensors, device):
                name = f"{setting.answer}/{setting.method.by}/{device}"
                found |= {f"{name}/{stage}": np.float64(value) for stage, value in milliseconds.items()}
                found[f"{name}/differing"] = np.int64(differing)
    return found


def _left(raw: Raw, plan: Plan, setting: Setting, rows: Integers) -> tuple[Integers, Any, int]:
    """The rows that are left in the end, their scores, and how many rows the suppression itself keeps."""
    labels = plan.labels(raw)
    kept, scores = setting.method.suppression(raw.boxes[rows], raw.scores[rows], labels[rows])
    limited = plan.limits(raw.boxes[rows[kept]], scores, labels[rows[kept]])
    return rows[kept[limited.keep]], limited.scores, len(kept)


def left_by_any(raw: Raw, plans: list[Plan]) -> Integers:
    """The rows that at least one setting leaves, which a second stage must see, by decreasing score."""
    answers = {setting.answer: (plan, setting) for plan in plans for setting in plan.settings}
    chosen = [_left(raw, plan, setting, raw.best(setting.candidates))[0] for plan, setting in answers.values()]
    rows = np.unique(np.concatenate(chosen))
    best_first: Integers = rows[np.argsort(-raw.scores[rows], kind="stable")]
    return best_first


def _final(raw: Raw, plan: Plan, left: Integers, scores: Any) -> Iterator[tuple[str, Any]]:
    """The values to evaluate of the remaining boxes; for proposals, also how many objects they cover."""
    boxes, labels = raw.boxes[left], raw.labels[left]
    if plan.of_proposals and raw.truth is not None:
        objects = raw.truth.boxes[~raw.truth.ignore]
        overlap = pairwise_iou(objects, boxes).max(axis=1, initial=0.0)
        yield "covered", np.array([int((overlap >= least).sum()) for least in _RECALLS.values()])
    if plan.of_proposals:
        if raw.second is None:
            return
        if not raw.second.seen[left].all():
            missing = int((~raw.second.seen[left]).sum())
            need = f"the second stage must have processed all proposals that {plan.name} leaves"
            remedy = "run the command raw with --all-proposals or more --sweep-images"
            raise DatasetError(f"{need}, got {missing} that it has not processed: {remedy}")
        chosen = np.zeros(len(raw.boxes), bool)
        chosen[left] = True
        use = chosen[raw.second.rows]
        boxes, scores, labels = raw.second.boxes[use], raw.second.scores[use], raw.second.labels[use]
        keep = hashnms.nms(boxes, scores, _SECOND_NMS, labels=labels)[: plan.suppressing.evaluated]
        boxes, scores, labels = boxes[keep], scores[keep], labels[keep]
    yield from (("boxes", boxes), ("scores", scores), ("labels", labels))


def _timed(settings: list[Setting], tensors: list[Any], device: str) -> Iterator[tuple[Setting, dict[str, float], int]]:
    """The best time of several interleaved rounds; and how many boxes differ from the exact answer."""
    best: dict[int, Timed] = {}
    for setting in settings:  # compile what is compiled on the first call
        run(setting.method, *(tensor[:8] for tensor in tensors), now=partial(now, device))
    for round_number in range(ROUNDS):
        for number, setting in enumerate(settings):
            slow = number in best and sum(best[number].milliseconds.values()) > 1e3 * SLOW
            if round_number < 2 or not slow:
                this = run(setting.method, *tensors, now=partial(now, device))
                if number not in best or sum(this.milliseconds.values()) < sum(best[number].milliseconds.values()):
                    best[number] = this
    for number, setting in enumerate(settings):
        answer: Any = setting.method.suppression(*tensors).keep
        differing = set(answer.tolist()) ^ set(best[number].keep.tolist())
        yield setting, best[number].milliseconds, len(differing)


def _collected(folder: RawFolder, plan: Plan, parts: list[Path]) -> dict[str, Any]:
    """Combine the results of all images."""
    of_images = [dict(np.load(part, allow_pickle=False)) for part in parts]
    truths, network, second = [], [], []
    for number in range(len(parts)):
        raw = folder[number]
        truths.append(raw.truth)
        if number < plan.timed_images:
            network.append(raw.network_ms)
            second.append(raw.second_ms)
    quality = {answer: _quality(answer, of_images, truths) for answer in {s.answer for s in plan.settings}}
    rows = []
    for setting in plan.settings:
        method, hashed = setting.method, setting.method.suppression.steps[0]
        row = {
            "method": method.name,
            "by": method.by,
            "suppression": str(method.suppression),
            "alpha": getattr(hashed, "alpha", None),
            "num_hashes": method.num_hashes,
            "candidates": setting.candidates,
        }
        times = {device: _times(f"{setting.answer}/{method.by}/{device}", of_images) for device in plan.devices}
        rows.append(row | quality[setting.answer] | {"ms": times})
    return {
        "name": plan.name,
        "raw": folder.name,
        "about": folder.about,
        "images": len(parts),
        "timed_images": min(plan.timed_images, len(parts)),
        "network_ms": _mean(network),
        "second_ms": _mean(second),
        "rows": rows,
    }


def _mean(values: list[float | None]) -> float | None:
    """The mean of the known values."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _quality(answer: str, of_images: list[dict[str, Any]], truths: list[Truth | None]) -> dict[str, Any]:
    boxes_in, kept = np.mean([part[f"{answer}/kept"] for part in of_images], axis=0)
    measured: dict[str, Any] = {"boxes_in": float(boxes_in), "kept": float(kept)}
    if any(truth is None for truth in truths):
        return measured
    if f"{answer}/covered" in of_images[0]:
        objects = sum(int((~truth.ignore).sum()) for truth in truths if truth is not None)
        covered = np.sum([part[f"{answer}/covered"] for part in of_images], axis=0)
        measured |= dict(zip(_RECALLS, (covered / max(objects, 1)).tolist(), strict=True))
    if f"{answer}/boxes" in of_images[0]:
        found = [tuple(part[f"{answer}/{name}"] for name in ("boxes", "scores", "labels")) for part in of_images]
        precision = average_precision(found, truths)  # type: ignore[arg-type]  # none is None
        measured |= {"map_50": precision.map_50, "map": precision.map, "recall_50": precision.recall_50}
    return measured


def _times(name: str, of_images: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean and standard deviation of each stage and of all, and how many boxes differ from the exact answer."""
    stages: dict[str, list[float]] = {}
    for part in of_images:
        for key in part:
            if key.startswith(f"{name}/") and not key.endswith("/differing"):
                stages.setdefault(key.rpartition("/")[2], []).append(float(part[key]))
    differing = sum(int(part.get(f"{name}/differing", 0)) for part in of_images)
    sums = [sum(values) for values in zip(*stages.values(), strict=True)]
    if len(stages) != 1:
        stages["all"] = sums
    return {stage: _mean_and_deviation(values) for stage, values in stages.items()} | {"differing": differing}


def _mean_and_deviation(values: list[float]) -> list[float]:
    return [round(statistics.fmean(values), 4), round(statistics.pstdev(values), 4)] if values else []
