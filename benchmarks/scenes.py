"""One scene larger than memory: `hashnms.scenes` compared with `nms` of all boxes in memory. Prints Markdown.

    python -m benchmarks.scenes [--boxes 10000000] [--memory 256] [--folder DIR]

Each job runs in its own process, several times, alternating with the others. The least CPU time, on one thread, and the
peak memory count. Answers are compared.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.tables import rows as markdown
from hashnms.synthetic import make_scene

#: Name -> Python text with `source`, `output` and `memory`; the time between "start()" and "stop()" counts.
JOBS = {
    "`nms` of arrays in memory": """
columns = pq.read_table(source)
boxes = np.stack([columns[name].to_numpy() for name in ("x1", "y1", "x2", "y2")], axis=1)
scores, columns = columns["score"].to_numpy(), None
start()
keep = hashnms.nms(boxes, scores, 0.5)
stop()
pq.write_table(pq.read_table(source).take(np.sort(keep)), output)
""",
    "`files.suppress`, all of it in memory": """
from hashnms import files
start()
files.suppress(source, output, "nms:0.5", columns={"image": None}, memory=2**40)
stop()
""",
    "`scenes.suppress`": """
from hashnms import scenes
start()
scenes.suppress(source, output, "nms:0.5", memory=memory)
stop()
""",
}
_FRAME = """
import sys, time
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
import hashnms
hashnms.set_num_threads(1)
pa.set_cpu_count(1)
source, output, memory = sys.argv[1], sys.argv[2], int(sys.argv[3])

def start():
    global began
    began = time.process_time()

def stop():
    took = time.process_time() - began
    peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(took, int(peak) / 1024)
"""


def run(job: str, source: Path, output: Path, memory: int) -> tuple[float, float]:
    """CPU seconds, and the peak of memory in MiB."""
    command = [sys.executable, "-c", _FRAME + JOBS[job], str(source), str(output), str(memory)]
    seconds, peak = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(seconds), float(peak)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boxes", type=int, default=10_000_000)
    parser.add_argument("--memory", type=int, default=256, help="MiB that scenes.suppress may use")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="folder for the files; by default a temporary one")
    options = parser.parse_args()
    with TemporaryDirectory(dir=options.folder) as folder:
        source, output = Path(folder) / "scene.parquet", Path(folder) / "kept.parquet"
        scene = make_scene("parking_lot", options.boxes)
        columns = {name: scene.boxes[:, k] for k, name in enumerate(("x1", "y1", "x2", "y2"))}
        pq.write_table(pa.table({**columns, "score": scene.scores}), source)
        kept: dict[str, pa.Table] = {}
        best = dict.fromkeys(JOBS, (np.inf, np.inf))
        for _ in range(options.rounds):
            for job in JOBS:
                best[job] = tuple(map(min, best[job], run(job, source, output, options.memory * 2**20)))
                kept[job] = pq.read_table(output)
        if not all(table.equals(kept["`scenes.suppress`"]) for table in kept.values()):
            raise SystemExit("answers differ: no times are printed")
    first = best[next(iter(JOBS))][0]
    body = (
        [job, f"{seconds / options.boxes * 1e9:.0f} ns", f"{seconds / first:.1f}x", f"{peak:.0f} MiB"]
        for job, (seconds, peak) in best.items()
    )
    print("\n".join(markdown(["", "CPU time a box", "", "peak of memory"], body, left=1)))


if __name__ == "__main__":
    main()
