"""Time `hashnms suppress` on files, compared with other ways to do the same. Prints ratios from one run.

    python -m benchmarks.files [--rows 1000000] [--parquet-rows 10000000] [--folder DIR]

Each job runs in its own process, several times, alternating with the others. The least CPU time, over all threads, and
the peak memory count.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.tables import rows as markdown
from hashnms.synthetic import make_scene

BOXES_OF_AN_IMAGE = 1000

#: Name -> Python text that reads sys.argv[1] and writes sys.argv[2].
COCO_JOBS = {
    "orjson: load and dump, no suppression": """
import orjson
rows = orjson.loads(open(sys.argv[1], "rb").read())
open(sys.argv[2], "wb").write(orjson.dumps(rows))
""",
    "hashnms suppress": """
from hashnms.files import suppress
suppress(sys.argv[1], sys.argv[2], "nms:0.5")
""",
    "json and torchvision's batched_nms, image by image": """
import json, torch
from collections import defaultdict
from torchvision.ops import batched_nms
torch.set_num_threads(1)
by_image = defaultdict(list)
for row in json.load(open(sys.argv[1])):
    by_image[row["image_id"]].append(row)
kept = []
for rows in by_image.values():
    boxes = torch.tensor([row["bbox"] for row in rows])
    boxes[:, 2:] += boxes[:, :2]
    scores = torch.tensor([row["score"] for row in rows])
    labels = torch.tensor([row["category_id"] for row in rows])
    kept += [rows[place] for place in sorted(batched_nms(boxes, scores, labels, 0.5).tolist())]
json.dump(kept, open(sys.argv[2], "w"))
""",
    "json and supervision's with_nms, image by image": """
import json, numpy, supervision
from collections import defaultdict
by_image = defaultdict(list)
for row in json.load(open(sys.argv[1])):
    by_image[row["image_id"]].append(row)
kept = []
for rows in by_image.values():
    boxes = numpy.array([row["bbox"] for row in rows])
    boxes[:, 2:] += boxes[:, :2]
    found = supervision.Detections(boxes, confidence=numpy.array([row["score"] for row in rows]),
        class_id=numpy.array([row["category_id"] for row in rows]), data={"row": numpy.arange(len(rows))})
    kept += [rows[place] for place in found.with_nms(0.5).data["row"]]
json.dump(kept, open(sys.argv[2], "w"))
""",
}
PARQUET_JOBS = {
    "hashnms suppress": COCO_JOBS["hashnms suppress"],
    "hashnms suppress --memory 2G": """
from hashnms.files import suppress
suppress(sys.argv[1], sys.argv[2], "nms:0.5", memory=2 * 2**30)
""",
    "pyarrow: read and write, no suppression": """
import pyarrow.parquet as pq
with pq.ParquetFile(sys.argv[1]) as file, pq.ParquetWriter(sys.argv[2], file.schema_arrow) as writer:
    for batch in file.iter_batches(2**17):
        writer.write_batch(batch)
""",
    "one table in memory, hashnms.tables": """
import pyarrow.parquet as pq
from hashnms.tables import suppress
pq.write_table(suppress(pq.read_table(sys.argv[1]), "nms:0.5"), sys.argv[2])
""",
}
#: A table in memory: seconds of `tables.suppress` and of the suppression inside, bytes of the table, and the peak.
TABLE_JOB = """
import sys, time
import pyarrow.parquet as pq
import hashnms
from hashnms import Suppression, tables

table = pq.read_table(sys.argv[1])
inside = 0.0
call = Suppression.__call__
def timed(*arguments, **settings):
    global inside
    start = time.perf_counter()
    result = call(*arguments, **settings)
    inside += time.perf_counter() - start
    return result
Suppression.__call__ = timed
def status(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name)) * 1024
before = status("VmRSS")
start = time.perf_counter()
tables.suppress(table, "nms:0.5")
whole = time.perf_counter() - start
print(whole, inside, table.nbytes, status("VmHWM") - before + table.nbytes)
"""
MEASURED = """
import sys, time
{job}
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(time.process_time(), int(peak.split()[1]) * 1024)
"""


def measured(jobs: dict[str, str], source: Path, rounds: int) -> dict[str, tuple[float, int]]:
    """The least CPU seconds and the peak bytes of each job; jobs that fail are left out."""
    best: dict[str, tuple[float, int]] = {}
    for _ in range(rounds):
        for name, job in jobs.items():
            with TemporaryDirectory(dir=source.parent) as folder:
                arguments = [str(source), str(Path(folder) / f"out{source.suffix}")]
                text = MEASURED.format(job=job)
                result = subprocess.run(
                    [sys.executable, "-c", text, *arguments], capture_output=True, text=True, check=False
                )
            if result.returncode:
                print(f"{name}: {result.stderr.strip().splitlines()[-1]}", file=sys.stderr)
                continue
            seconds, peak = result.stdout.split()
            least = min(best.get(name, (1e9, 0))[0], float(seconds))
            best[name] = least, int(peak)
    return best


def detections(rows: int, scattered: bool) -> dict[str, Any]:
    """Crowds of a thousand boxes, image after image or in random order."""
    random_numbers = np.random.default_rng(0)
    scenes = [make_scene("crowd", BOXES_OF_AN_IMAGE, seed=seed) for seed in range(20)]
    images = rows // BOXES_OF_AN_IMAGE
    boxes = np.concatenate([scenes[image % 20].boxes for image in range(images)])
    scores = np.concatenate([scenes[image % 20].scores for image in range(images)])
    labels = np.concatenate([scenes[image % 20].labels for image in range(images)])
    scores = scores + random_numbers.random(len(scores), np.float32) * 1e-3
    numbers = np.repeat(np.arange(images), BOXES_OF_AN_IMAGE)
    order = random_numbers.permutation(len(numbers)) if scattered else np.arange(len(numbers))
    corners = dict(zip(("x1", "y1", "x2", "y2"), boxes[order].T, strict=True))
    return {"image_id": numbers[order], "category_id": labels[order], **corners, "score": scores[order]}


def write_coco(columns: dict[str, Any], path: Path) -> None:
    corners = np.stack([columns[name] for name in ("x1", "y1", "x2", "y2")], axis=1).astype(float)
    sizes = np.hstack([corners[:, :2], corners[:, 2:] - corners[:, :2]]).round(3)
    scores = columns["score"].astype(float).round(6)
    values = zip(
        columns["image_id"].tolist(), columns["category_id"].tolist(), sizes.tolist(), scores.tolist(), strict=True
    )
    rows = ({"image_id": i, "category_id": c, "bbox": b, "score": s} for i, c, b, s in values)
    path.write_text("[" + ",".join(map(json.dumps, rows)) + "]")


def write_parquet(columns: dict[str, Any], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), path, row_group_size=2**20)


def table(title: str, jobs: dict[str, str], source: Path, count: int, rounds: int) -> None:
    """Print the jobs compared with `hashnms suppress`, as Markdown."""
    found = measured(jobs, source, rounds)
    ours, size = found["hashnms suppress"][0], source.stat().st_size
    print(f"\n{title}: {count:,} boxes, {size / 1e6:,.0f} MB\n")
    body = (
        [
            name,
            f"{seconds:.2f}",
            f"{seconds / ours:.2f}x",
            f"{count / seconds / 1e6:.2f}",
            f"{peak / 2**20:,.0f}",
            f"{peak / size:.1f}x",
        ]
        for name, (seconds, peak) in found.items()
    )
    head = ["job", "CPU s", "of suppress", "million boxes a CPU second", "peak MB", "of the file"]
    print("\n".join(markdown(head, body, left=1)))


def table_in_memory(source: Path, count: int, rounds: int) -> None:
    """Print the cost of `tables.suppress` in addition to the suppression itself."""
    runs = []
    for _ in range(rounds):
        result = subprocess.run(
            [sys.executable, "-c", TABLE_JOB, str(source)], capture_output=True, text=True, check=True
        )
        runs.append([float(number) for number in result.stdout.split()])
    whole, inside, size, peak = min(runs)
    print(f"\nhashnms.tables.suppress of an Arrow table: {count:,} rows, {size / 1e6:,.0f} MB\n")
    print(f"{whole:.2f} s, of which the suppression itself {inside:.2f} s: {inside / whole:.0%}.")
    print(f"The table and what is added to it: {peak / 1e6:,.0f} MB at most, {peak / size:.1f} times the table.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10**6)
    parser.add_argument("--parquet-rows", type=int, default=10**7)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=None, help="folder for temporary files")
    options = parser.parse_args()
    with TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        write_coco(detections(options.rows, scattered=False), folder / "in.json")
        table("COCO results (JSON)", COCO_JOBS, folder / "in.json", options.rows, options.rounds)
        for scattered in (False, True):
            write_parquet(detections(options.parquet_rows, scattered), folder / "in.parquet")
            title = f"Parquet, {'rows in any order' if scattered else 'image after image'}"
            table(title, PARQUET_JOBS, folder / "in.parquet", options.parquet_rows, options.rounds)
            table_in_memory(folder / "in.parquet", options.parquet_rows, options.rounds)


if __name__ == "__main__":
    main()
