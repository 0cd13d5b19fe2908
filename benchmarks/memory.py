"""The peak memory that a call takes in addition to its input, in its own process: `peak_bytes`. Linux only."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import hashnms
from benchmarks.compare import MOST_BYTES, TOO_MUCH
from benchmarks.peers import HNMS, NMS, OUR_HNMS, OUR_NMS, OUR_SOFT_NMS, SOFT_NMS, Peer, Workload
from hashnms.synthetic import make_scene

_KINDS = {"nms": [OUR_NMS, *NMS], "soft_nms": [OUR_SOFT_NMS, *SOFT_NMS], "hnms": [OUR_HNMS, *HNMS]}

#: Seconds that a process may take for one call and its setup.
_LONGEST = 120.0


def peaks(size: int) -> dict[str, dict[str, int | str]]:
    """Bytes of all installed peers on a scene of `size` boxes, by kind; a text if there is no number."""
    return {
        kind: {peer.name: peak_bytes(kind, peer, size) for peer in peers if peer.installed()}
        for kind, peers in _KINDS.items()
    }


def peak_bytes(kind: str, peer: Peer, size: int) -> int | str:
    if not Path("/proc/self/clear_refs").exists():
        return "unknown"
    if peer.bytes_per_pair * size**2 > MOST_BYTES:
        return TOO_MUCH
    command = [sys.executable, "-m", "benchmarks.memory", kind, peer.name, str(size)]
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_LONGEST)
    except subprocess.TimeoutExpired:
        return f"over {_LONGEST:.0f} s"
    except subprocess.CalledProcessError:
        return "fails"
    return int(run.stdout.split()[-1])


def _resident(field: str) -> int:
    with open("/proc/self/status", encoding="ascii") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith(field))


def _measure(kind: str, peer: str, size: int) -> int:
    call_of = next(one.call for one in _KINDS[kind] if one.name == peer)

    def workload(boxes: int) -> Workload:
        scene = make_scene("parking_lot", boxes)
        return Workload("", scene.boxes, scene.scores)

    hashnms.set_num_threads(1)
    call_of(workload(100))()  # load everything that the first call loads
    call = call_of(workload(size))
    ctypes.CDLL(None).malloc_trim(0)  # otherwise freed memory would be reused unnoticed
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # reset the peak
    before = _resident("VmRSS")
    call()
    return max(_resident("VmHWM") - before, 0)


if __name__ == "__main__":
    print(_measure(sys.argv[1], sys.argv[2], int(sys.argv[3])))
