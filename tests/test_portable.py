"""Files, scenes and commands where the modules and functions of POSIX are missing, as on Windows."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("msgspec")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sees open files in Linux's /proc")

BEFORE = """
import sys
from tests.support.windows import imitate
imitate()
sys.modules |= {"torch": None, "torchvision": None}  # they ask for what Linux has
import json, os
from pathlib import Path
import numpy as np
import pyarrow as pa, pyarrow.dataset, pyarrow.feather, pyarrow.parquet as pq
from hashnms.cli import app
from hashnms.synthetic import make_scene

def run(*arguments, code=0):
    try:
        app(list(map(str, arguments)))
    except SystemExit as end:
        assert end.code == code, (arguments, end.code)

scene = make_scene("aerial", 4000, seed=1)
x1, y1, x2, y2 = scene.boxes.T
columns = {"x1": x1, "y1": y1, "x2": x2, "y2": y2, "score": scene.scores}
table = pa.table({"image": np.arange(4000) % 40, **columns})
whole = pa.table(columns)
folder = Path(sys.argv[1])
pq.write_table(table, folder / "in.parquet", row_group_size=500)
"""


def imitated(script: str, folder: Path) -> str:
    """Run a script in a process that imitates Windows. Nothing may be left of temporary files."""
    command = [sys.executable, "-X", "warn_default_encoding", "-c", BEFORE + script, str(folder)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert result.returncode == 0, result.stderr
    assert not [path.name for path in folder.rglob("*") if "hashnms-" in path.name]
    return result.stdout


@pytest.mark.slow
def test_every_format_is_written_and_replaced_in_place(tmp_path):
    """With little memory too, where rows of an image are brought together on disk."""
    imitated(
        """
for memory in ("1G", "20k"):
    for suffix in ("parquet", "feather", "jsonl", "json", "csv", "tsv", "npz"):
        out = folder / f"out.{suffix}"
        run("suppress", folder / "in.parquet", "-o", out, "-s", "softnms:gaussian/0.5+limit:60", "--memory", memory)
        before = out.read_bytes()
        run("suppress", out, "-o", out, "-s", "score:0.2+nms:0.5", "--memory", memory)
        assert 0 < len(out.read_bytes()) < len(before), suffix
labels = folder / "labels"
labels.mkdir()
for number in range(3):
    (labels / f"{number}.txt").write_bytes(b"0 0.5 0.5 0.1 0.1 0.9\\n0 0.5 0.5 0.1 0.1 0.8\\n")
run("suppress", labels, "-f", "yolo", "-o", folder / "kept")
run("suppress", labels, "-f", "yolo", "-o", folder / "kept")
(folder / "kept" / "0.txt").chmod(0o444)
run("suppress", labels, "-f", "yolo", "-o", labels)
run("suppress", labels, "-f", "yolo", "-o", folder / "kept")
assert (labels / "1.txt").read_bytes() == (folder / "kept" / "1.txt").read_bytes() == b"0 0.5 0.5 0.1 0.1 0.9\\n"
""",
        tmp_path,
    )


@pytest.mark.slow
def test_a_scene_with_and_without_a_folder_is_replaced_in_place(tmp_path):
    imitated(
        """
from hashnms import scenes
from hashnms.files import FileError

for suffix, write in (("parquet", pq.write_table), ("feather", pa.feather.write_feather)):
    for more in ([], ["--folder", folder / "work"]):
        source = folder / f"scene.{suffix}"
        write(whole, source)
        run("suppress", source, "-o", source, "-s", "hnms:0.8/2+nms:0.5", "--scene", "--memory", "50k", *more)
        assert pa.dataset.dataset(source, format=suffix).count_rows() < 4000
        assert not (folder / "work").exists()

pq.write_table(whole, folder / "scene.parquet")
arguments = (folder / "scene.parquet", folder / "out.parquet", "nms:0.5")

def again(*_):
    try:
        scenes.suppress(*arguments, folder=folder / "work")
    except FileError as error:
        assert "which another process uses" in str(error)
        raise KeyboardInterrupt

for times in range(2):
    try:
        scenes.suppress(*arguments, memory=100_000, folder=folder / "work", progress=again)
    except KeyboardInterrupt:
        assert (folder / "work").is_dir()
scenes.suppress(*arguments, memory=100_000, folder=folder / "work")
assert not (folder / "work").exists()

for error in (KeyboardInterrupt, ValueError):
    def stop(share, text, left=[5]):
        left[0] -= 1
        if left[0] < 0:
            raise error
    try:
        scenes.suppress(*arguments, memory=100_000, progress=stop)
    except error:
        pass
""",
        tmp_path,
    )
    assert {path.name for path in tmp_path.iterdir()} == {"in.parquet", "out.parquet", "scene.parquet", "scene.feather"}


@pytest.mark.slow
def test_the_other_commands(tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("PIL")
    imitated(
        """
os.chdir(folder)
run("demo", "--boxes", 500, "--save", "made", "--report", "demo.html")
run("demo", "--boxes", 500, "--save", "made", "--report", "demo.html")
run("compare", "made/results.json", "-s", "nms:0.5", "--truth", "made/truth.json", "--rounds", 1, "--report", "c.html")
run("evaluate", "made/results.json", "--truth", "made/truth.json")
run("plot", "made/results.json", "-o", "plot.png")
run("suppress", "made/*.json", "-o", "out.json", code=2)
run("suppress", "made/results.json", "-o", "out.json", "--report", "s.html")
run("bound", "--alpha", "0.7")
""",
        tmp_path,
    )
