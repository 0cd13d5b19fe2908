"""The steps of a suppression on a scene larger than memory: each removes boxes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from hashnms import _core
from hashnms._tiles import Touched
from hashnms.files.scattered import mixed
from hashnms.hashing import IoUHash, hash_family
from hashnms.pipeline import Suppression
from hashnms.scenes.records import Records, Scene
from hashnms.scenes.rounds import nms
from hashnms.steps import Hnms, Limit, Nmm, Nms, ScoreThreshold, SoftNms, Step, TopK, Vote, Wbf


def score(scene: Scene, step: ScoreThreshold, _name: str) -> None:
    """Keep boxes with a score above the threshold."""
    least = np.float64(step.score_threshold)  # compared as float64, as everywhere
    for records in scene.records(scene.all, "comparing scores"):
        scene.remove(records["row"][~(records["score"].astype(scene.layout.score_type) > least)])


def hnms(scene: Scene, step: Hnms, name: str) -> None:
    """Apply one hash function after another: divide boxes into tiles of whole cells, keep the best of each cell."""
    for number, function in enumerate(hash_family(step.alpha, step.num_hashes)):
        count = scene.tiles_for(scene.num_left(scene.all))

        touched = partial(_by_cell, scene, function, count)
        tiles = scene.divided(f"{name}-hash-{number}", scene.all, count, touched)
        for _, path in scene.each(tiles, f"hash {number + 1} of {step.num_hashes}"):
            best = np.zeros(0, scene.layout.stored)  # of the cells so far: a cell may hold any number of boxes
            for records in scene.records([path], at_a_time=2**19):
                both = np.concatenate([best, records])
                boxes, scores, labels = scene.layout.arrays(both)
                keep: Any = _core.hnms_of_function(
                    boxes, scores, labels, step.alpha, step.num_hashes, number, scene.box_format
                )
                best = both.take(np.sort(keep))
                scene.remove(np.delete(both["row"], keep))


def _by_cell(scene: Scene, function: IoUHash, count: int, records: Records) -> Iterator[tuple[int, Touched]]:
    """Put all boxes of a cell into the same tile, chosen by a hash of the cell."""
    boxes, _, labels = scene.layout.arrays(records)
    key = np.zeros(len(records), np.int64) if labels is None else labels
    for code in function(boxes, box_format=scene.box_format).T:
        key = key * np.int64(0x5851F42D4C957F2D) + code  # overflow is fine
    tile = (mixed(key) % np.uint64(count)).astype(np.uint16)
    starts = np.concatenate([[0], np.cumsum(np.bincount(tile, minlength=count))])
    yield 0, Touched(starts, np.argsort(tile, kind="stable"), np.zeros(len(records), np.int8))


_STEPS: dict[type[Step], Callable[[Scene, Any, str], None]] = {ScoreThreshold: score, Hnms: hnms, Nms: nms}
_COUNTS = "it counts the boxes of the whole scene"
_CHANGES = "it changes boxes and scores that other tiles need"
_WHY_NOT: dict[type[Step], str] = {
    TopK: _COUNTS, Limit: _COUNTS, SoftNms: _CHANGES, Nmm: _CHANGES, Vote: _CHANGES, Wbf: _CHANGES,
}  # fmt: skip


def check(suppression: Suppression) -> None:
    """Check that all steps can be done part by part."""
    for step in suppression.steps:
        if type(step) not in _STEPS:
            raise ValueError(
                f"the suppression of a scene must have only the steps score, hnms and nms, got {step}: "
                f"{_WHY_NOT.get(type(step), 'it is not supported')}; use files.suppress if the scene fits into memory"
            )


def run(scene: Scene, suppression: Suppression) -> None:
    """Run all steps one after another; once the rest of the scene fits into memory, run the remaining ones at once."""
    for number, step in enumerate(suppression.steps):
        done = f"step-{number}-done"
        if (scene.folder / done).exists():
            continue
        if scene.num_left(scene.all) <= scene.most_at_once:
            scene.suppress_at_once(suppression.steps[number:], scene.all)
            return
        _STEPS[type(step)](scene, step, f"step-{number}")
        scene.folder.write_json(done, True)
