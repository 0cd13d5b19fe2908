"""How many boxes are undecided after each round over tiles, and how many copies tiles need. For docs/howto/scale.md.

    python -m benchmarks.rounds [--boxes 1000000] [--tiles 16 64 256]

Each round has a quarter of the tiles of the one before, and the last has one. The kept boxes are compared with `nms` of
all boxes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from benchmarks.tables import rows as markdown
from hashnms import Status, nms, partial_nms
from hashnms._tiles import Tiles
from hashnms.synthetic import make_scene

SCENES = ("aerial", "parking_lot", "shelf", "crowd")


def one_round(
    boxes: NDArray[np.float32],
    scores: NDArray[np.float32],
    rows: NDArray[np.int64],
    threshold: float,
    count: int,
    decide: Callable[..., NDArray[np.int8]] = partial_nms,
) -> tuple[NDArray[np.int64], NDArray[np.int64], float]:
    """The kept rows, the undecided rows, and the share of copies in the tiles, each decided by `decide`."""
    starts, numbers, copies = Tiles.of(boxes[rows], count).touched(boxes[rows], threshold)
    touched = np.bincount(numbers)
    undecided, kept = np.zeros(len(rows), int), []
    for begin, end in pairwise(starts.tolist()):
        part = numbers[begin:end]
        of_scene = rows[part]
        status = decide(boxes[of_scene], scores[of_scene], threshold, open=copies[begin:end] > 0)
        kept.append(of_scene[status == Status.KEPT])
        undecided[part[status == Status.UNDECIDED]] += 1
    return np.concatenate(kept), rows[undecided == touched], len(numbers) / len(rows) - 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boxes", type=int, default=10**6)
    parser.add_argument("--tiles", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--iou", type=float, nargs="+", default=[0.5])
    options = parser.parse_args()
    body = []
    for name in SCENES:
        scene = make_scene(name, options.boxes)
        for threshold in options.iou:
            expected = np.sort(nms(scene.boxes, scene.scores, threshold))
            for most in options.tiles:
                rows, kept, shares, count = np.arange(options.boxes), [], [], most
                copies = None
                while len(rows):
                    decided, rows, more = one_round(scene.boxes, scene.scores, rows, threshold, count)
                    kept.append(decided)
                    shares.append(len(rows) / options.boxes)
                    copies = more if copies is None else copies
                    count = max(1, count // 4)
                assert np.array_equal(np.sort(np.concatenate(kept)), expected)
                left = ", ".join("0" if share == 0 else f"{share:.2g}" for share in (100 * np.array(shares)).tolist())
                body.append([name, f"{threshold}", f"{options.boxes // most:,}", f"{copies:.1%}", left])
    head = ["scene", "IoU", "boxes a tile", "copies", "% undecided after each round"]
    print("\n".join(markdown(head, body, left=1)))


if __name__ == "__main__":
    main()
