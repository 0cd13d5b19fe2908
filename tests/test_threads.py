"""Several Python threads at once: with a lock of Python's, and where it has none (free-threaded builds)."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import hashnms
from hashnms.synthetic import make_scene

pytestmark = pytest.mark.core

SCENE = make_scene("crowd", 200)
#: More settings than the core remembers the tables of, so that threads replace them all the time.
ALPHAS = [0.5 + k / 100 for k in range(20)]


def answers():
    hashed = [hashnms.hnms(SCENE.boxes, SCENE.scores, alpha=alpha, num_hashes=2) for alpha in ALPHAS]
    codes = [hashnms.iou_hash(SCENE.boxes, alpha=alpha) for alpha in ALPHAS]
    return [*hashed, *codes, hashnms.nms(SCENE.boxes, SCENE.scores, 0.5), *hashnms.soft_nms(SCENE.boxes, SCENE.scores)]


def test_threads_that_call_at_once_get_what_one_gets():
    expected, start = answers(), threading.Barrier(4)

    def repeated(_):
        start.wait()
        return [answers() for _ in range(5)]

    with ThreadPoolExecutor(4) as pool:
        for runs in pool.map(repeated, range(4)):
            for run in runs:
                for result, wanted in zip(run, expected, strict=True):
                    np.testing.assert_array_equal(result, wanted)
