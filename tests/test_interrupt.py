"""Ctrl-C stops a long call soon, and the next call works as before."""

import subprocess
import sys
import time

import pytest

#: Each takes many seconds if nobody stops it.
CALLS = {
    "hnms": "hashnms.hnms(boxes, scores, num_hashes=1000)",
    "hnms of keys that do not fit one word": "[hashnms.hnms(tiny, scores) for _ in range(20)]",
    "iou_hash": "hashnms.iou_hash(boxes, alpha=0.9999)",
    "nms": "[hashnms.nms(boxes, scores, 0.95) for _ in range(100)]",
    "nms at a low threshold": "hashnms.nms(sizes, scores[: len(sizes)], 0.0)",
    "nms with labels": "[hashnms.nms(boxes, scores, 0.9, labels=labels) for _ in range(100)]",
    "soft_nms": "hashnms.soft_nms(heap, scores[: len(heap)], sigma=1e3)",
}

SCRIPT = """
import signal, sys, threading, time
import numpy as np
import hashnms
from hashnms.synthetic import WORST_CASES, make_scene

hashnms.set_num_threads(int(sys.argv[2]))
scene = make_scene("aerial", 3_000_000)
boxes, scores, labels = scene.boxes, scene.scores, np.arange(len(scene.boxes)) % 7
sizes = WORST_CASES["sizes from 1e-3 to 1e6"](1_000_000)
tiny = boxes.copy()
tiny[0] = [0, 0, 1e-13, 1e-13]
corner = np.random.default_rng(0).uniform(0, 10, (100_000, 2))
heap = np.concatenate([corner, corner + 50], axis=1).astype(np.float32)
expected = hashnms.nms(boxes[:1000], scores[:1000], 0.5)
threads = threading.active_count()

sent = []
def interrupt():
    time.sleep(0.6)
    sent.append(time.perf_counter())
    signal.raise_signal(signal.SIGINT)

threading.Thread(target=interrupt).start()
try:
    eval(compile(sys.argv[1], "call", "eval"))  # of a string it would leave a mark that Python ends with
except KeyboardInterrupt:
    print(time.perf_counter() - sent[0])
assert threading.active_count() <= threads + 1
assert np.array_equal(hashnms.nms(boxes[:1000], scores[:1000], 0.5), expected)
"""


@pytest.mark.timing
@pytest.mark.parametrize("num_threads", [1, 2])
@pytest.mark.parametrize("call", CALLS)
def test_ctrl_c_stops_a_call_within_a_fraction_of_a_second(call, num_threads):
    command = [sys.executable, "-c", SCRIPT, CALLS[call], str(num_threads)]
    start = time.perf_counter()
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert run.returncode == 0, run.stderr
    assert float(run.stdout) < 0.5  # about 0.1 on a quiet machine
    assert time.perf_counter() - start < 60


def test_a_process_may_end_while_another_thread_is_in_a_call():
    """Only the main thread receives signals: other threads need no interpreter to check for them."""
    script = """
import threading, time
import hashnms
from hashnms.synthetic import make_scene

scene = make_scene("aerial", 300_000)
call = lambda: hashnms.hnms(scene.boxes, scene.scores, num_hashes=1000)
threading.Thread(target=call, daemon=True).start()
time.sleep(0.3)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == 0, run.stderr
