"""The most memory that a call takes beside its input, in a process of its own: `peak_bytes`. Linux only."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

from benchmarks.peers import NMS, OUR_NMS, OUR_SOFT_NMS, SOFT_NMS, Workload
from hashnms.synthetic import make_scene

_KINDS = {"nms": [OUR_NMS, *NMS], "soft_nms": [OUR_SOFT_NMS, *SOFT_NMS]}


def peak_bytes(kind: str, peer: str, size: int) -> int | None:
    """Of `peer` on a scene of so many boxes; None where that cannot be known."""
    if not Path("/proc/self/clear_refs").exists():
        return None
    command = [sys.executable, "-m", "benchmarks.memory", kind, peer, str(size)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(run.stdout.split()[-1]) if run.returncode == 0 else None


def peaks(size: int) -> dict[str, dict[str, int | None]]:
    """Of all that do so many boxes in time and memory, by kind."""
    slow = ("ultralytics", "supervision", "ensemble-boxes", "plain loop", "OpenCV")
    return {
        kind: {
            peer.name: peak_bytes(kind, peer.name, size) for peer in peers if peer.installed() and peer.name not in slow
        }
        for kind, peers in _KINDS.items()
    }


def _resident(field: str) -> int:
    with open("/proc/self/status", encoding="ascii") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith(field))


def _measure(kind: str, peer: str, size: int) -> int:
    call_of = next(one.call for one in _KINDS[kind] if one.name == peer)

    def workload(boxes: int) -> Workload:
        scene = make_scene("parking_lot", boxes)
        return Workload("", scene.boxes, scene.scores)

    call_of(workload(100))()  # whatever is loaded at the first call
    call = call_of(workload(size))
    ctypes.CDLL(None).malloc_trim(0)  # else what was freed before would serve, unseen
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak starts anew
    before = _resident("VmRSS")
    call()
    return max(_resident("VmHWM") - before, 0)


if __name__ == "__main__":
    print(_measure(sys.argv[1], sys.argv[2], int(sys.argv[3])))
