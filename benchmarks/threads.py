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
from functools import partial
from typing import Any

import numpy as np

from benchmarks.rounds import one_round
from benchmarks.tables import rows as markdown
from hashnms import _core, get_num_threads, nms, partial_nms, set_num_threads
from hashnms.synthetic import Scene, make_scene

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


def tile_seconds(scene: Scene, threshold: float, wanted: int) -> list[list[float]]:
    """The seconds of each tile, round by round."""
    rows, rounds = np.arange(len(scene.boxes)), []
    while len(rows):
        seconds: list[float] = []

        def timed(*arrays: Any, of_round: list[float] = seconds, **options: Any) -> Any:
            of_round.append(best(partial(partial_nms, *arrays, **options), time.process_time))
            return partial_nms(*arrays, **options)

        _, rows, _ = one_round(scene.boxes, scene.scores, rows, threshold, wanted, timed)
        rounds.append(seconds)
        wanted = max(wanted // 2, 1)
    return rounds


def row(name: str, boxes: int, threshold: float, threads: int) -> list[str]:
    scene = make_scene(name, boxes)
    call = partial(nms, scene.boxes, scene.scores, threshold)
    set_num_threads(1)
    alone = best(call, time.process_time)
    wanted = max(boxes // BOXES_PER_TILE, TILES_PER_THREAD * threads if threads > 1 else 1)
    rounds = tile_seconds(scene, threshold, wanted)
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
