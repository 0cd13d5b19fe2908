"""What several threads gain in exact NMS of one scene: measured where the machine has the cores, and simulated.

    python -m benchmarks.threads [--boxes 1000000] [--threads 1 2 4 8] [--iou 0.5 0.7]

The simulation times each tile alone on one thread, with `partial_nms`. An idle thread takes the next tile, as in the
core. All other work of the core (sharing out the boxes, joining the results) is assumed to be shared equally.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from benchmarks.tables import rows as markdown
from hashnms import Status, _core, get_num_threads, nms, partial_nms, set_num_threads
from hashnms._tiles import Tiles
from hashnms.synthetic import make_scene

#: As in core/support/tuning.hpp.
TILES_PER_THREAD, BOXES_PER_TILE = 3, 2**19
ROUNDS = 5


def best(call: Callable[[], object], clock: Callable[[], float], rounds: int = ROUNDS) -> float:
    """The least seconds that a call took."""
    seconds = []
    for _ in range(rounds):
        start = clock()
        call()
        seconds.append(clock() - start)
    return min(seconds)


def makespan(seconds: list[float], threads: int) -> float:
    """When the last thread ends, where an idle one takes the next piece of work."""
    ends = [0.0] * threads
    for taken in seconds:
        ends[ends.index(min(ends))] += taken
    return max(ends)


def tile_seconds(
    boxes: NDArray[np.float32], scores: NDArray[np.float32], threshold: float, wanted: int
) -> list[list[float]]:
    """Of each round, of each tile."""
    rows, rounds = np.arange(len(boxes)), []
    while len(rows):
        tiles = Tiles.of(boxes[rows[:: len(rows) // 4096 + 1]], wanted)
        starts, numbers, copies = tiles.touched(boxes[rows], threshold)
        undecided, of_round = np.zeros(len(rows), int), []
        for begin, end in pairwise(starts.tolist()):
            part, is_open = numbers[begin:end], copies[begin:end] > 0
            some_boxes, some_scores = boxes[rows[part]], scores[rows[part]]
            call = lambda b=some_boxes, s=some_scores, o=is_open: partial_nms(b, s, threshold, open=o)  # noqa: E731
            of_round.append(best(call, time.process_time))
            undecided[part[call() == Status.UNDECIDED]] += 1
        rounds.append(of_round)
        rows, wanted = rows[undecided == np.bincount(numbers, minlength=len(rows))], wanted // 2
    return rounds


def row(name: str, boxes: int, threshold: float, threads: int) -> list[str]:
    scene = make_scene(name, boxes)
    call = lambda: nms(scene.boxes, scene.scores, threshold)  # noqa: E731
    set_num_threads(1)
    alone = best(call, time.process_time)
    wanted = max(boxes // BOXES_PER_TILE, TILES_PER_THREAD * threads if threads > 1 else 1)
    rounds = tile_seconds(scene.boxes, scene.scores, threshold, wanted)
    _core.set_boxes_per_tile(boxes // wanted)
    rest = max(best(call, time.process_time) - sum(map(sum, rounds)), 0.0)
    _core.set_boxes_per_tile(BOXES_PER_TILE)
    simulated = rest / threads + sum(makespan(seconds, threads) for seconds in rounds)
    measured = ""
    if threads <= (os.cpu_count() or 1):
        one = best(call, time.perf_counter)
        set_num_threads(threads)
        measured = f"{one / best(call, time.perf_counter):.2f}x"
    return [name, f"{threshold}", f"{threads}", f"{len(rounds[0])}", f"{alone / simulated:.2f}x", measured]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boxes", type=int, default=10**6)
    parser.add_argument("--threads", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--iou", type=float, nargs="+", default=[0.5, 0.7])
    parser.add_argument("--scenes", nargs="+", default=["parking_lot", "aerial"])
    options = parser.parse_args()
    before = get_num_threads()
    body = [
        row(name, options.boxes, threshold, threads)
        for name in options.scenes
        for threshold in options.iou
        for threads in options.threads
    ]
    set_num_threads(before)
    print("\n".join(markdown(["scene", "IoU", "threads", "tiles", "simulated", "measured"], body, left=1)))


if __name__ == "__main__":
    main()
