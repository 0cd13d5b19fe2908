"""Scattered boxes on Ray Data on this machine, compared with `hashnms.files`. Prints ratios from one run.

    python -m benchmarks.cluster [--boxes 10000000] [--cpus 2] [--folder DIR] [--scene]

CPU time is that of all processes and threads, including Ray's own. It is sampled twenty times a second; for a process
that has ended, the last sample counts. Memory is the peak of the processes' private memory plus the object store.
Results are compared by the number of rows and their sums.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.files import detections, write_parquet
from benchmarks.tables import rows as markdown
from hashnms.synthetic import make_scene

RAY = """
import sys, ray
from hashnms.cluster import suppress_files
ray.init(num_cpus={cpus}, object_store_memory={store}, include_dashboard=False, log_to_driver=False,
         logging_level="ERROR", _temp_dir={work!r})
suppress_files(sys.argv[1], sys.argv[2], "nms:0.5", columns={columns})
"""
FILES = """
import sys
from hashnms.files import suppress
suppress(sys.argv[1], sys.argv[2], "nms:0.5", columns={columns})
"""


def measured(text: str, *arguments: str) -> tuple[float, float, int]:
    """Wall seconds, CPU seconds and bytes of a process and all its children."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", text, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    spent: dict[int, float] = {}
    most = 0
    while process.poll() is None:
        family = _family(process.pid)
        spent |= {pid: seconds for pid, (seconds, _) in family.items()}
        most = max(most, sum(memory for _, memory in family.values()) + shutil.disk_usage("/dev/shm").used)
        time.sleep(0.05)
    if process.returncode:
        raise RuntimeError(process.stderr.read())  # type: ignore[union-attr]
    return time.perf_counter() - start, sum(spent.values()), most


def _family(pid: int) -> dict[int, tuple[float, int]]:
    """CPU seconds and private bytes of a process and all its descendants."""
    found: dict[int, tuple[int, float, int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            _, resident, shared, *_ = map(int, (folder / "statm").read_text().split())
        except (OSError, ValueError):  # it has just ended
            continue
        seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        found[int(folder.name)] = int(fields[1]), seconds, (resident - shared) * os.sysconf("SC_PAGE_SIZE")
    family, new = {pid}, {pid}
    while new:
        new = {one for one, (parent, *_) in found.items() if parent in new} - family
        family |= new
    return {one: found[one][1:] for one in family if one in found}


def write_scattered(count: int, path: Path) -> None:
    """Write crowds of a thousand boxes in random order: parts of ten million rows, each with rows of all its images."""
    if count <= 10**7:
        write_parquet(detections(count, scattered=True), path)
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    base = detections(10**7, scattered=True)
    rng = np.random.default_rng(1)
    with pq.ParquetWriter(path, pa.table(base).schema) as writer:
        for _ in range(count // 10**7):
            order = rng.permutation(10**7)
            part = {name: values[order] for name, values in base.items()}
            part["score"] = part["score"] + rng.random(10**7, np.float32) * np.float32(1e-3)
            part["image_id"] = part["image_id"] * (count // 10**7) + rng.integers(0, count // 10**7, 10**7)
            writer.write_table(pa.table(part), row_group_size=2**20)


def write_scene(count: int, path: Path) -> None:
    """Write one aerial scene in random order."""
    scene = make_scene("aerial", count)
    order = np.random.default_rng(2).permutation(count)
    corners = dict(zip(("x1", "y1", "x2", "y2"), scene.boxes[order].T, strict=True))
    write_parquet({**corners, "category_id": scene.labels[order], "score": scene.scores[order]}, path)


def sums(path: Path) -> tuple[int, float]:
    """The number of rows that were written, and their sum."""
    import pyarrow.parquet as pq

    table = pq.read_table(path, columns=["x1", "score"])
    score, place = (table.column(name).to_numpy().astype(float) for name in ("score", "x1"))
    return len(table), round(float((score * place).sum()), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boxes", type=int, default=10**7)
    parser.add_argument("--cpus", type=int, default=2)
    parser.add_argument("--store", type=float, default=2.0, help="gigabytes of Ray's object store")
    parser.add_argument("--folder", type=Path, default=None, help="folder for temporary files")
    parser.add_argument("--scene", action="store_true", help="one scene instead of images of a thousand boxes")
    options = parser.parse_args()
    columns = {"image": None} if options.scene else {}
    with TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        source = folder / "in.parquet"
        (write_scene if options.scene else write_scattered)(options.boxes, source)
        settings = {"cpus": options.cpus, "store": int(options.store * 1e9), "work": str(folder), "columns": columns}
        jobs = {"`hashnms.files`, one process": (FILES, "files.parquet"), "Ray Data": (RAY, "ray")}
        found, answers = {}, {}
        for job, (text, output) in jobs.items():
            found[job] = measured(text.format(**settings), str(source), str(folder / output))
            answers[job] = sums(folder / output)
        assert len(set(answers.values())) == 1, answers
    count = options.boxes / 1e6
    body = (
        [job, f"{wall:.0f}", f"{cpu:.0f}", f"{count / wall:.2f}", f"{count / cpu:.2f}", f"{most / 1e9:.1f}"]
        for job, (wall, cpu, most) in found.items()
    )
    print(f"\n{options.boxes:,} boxes of {'one scene' if options.scene else 'images of 1,000'}, in any order\n")
    print("\n".join(markdown(["", "s", "CPU s", "million a second", "million a CPU second", "GB"], body, left=1)))


if __name__ == "__main__":
    main()
