"""The output of files: complete or not written at all, and no other file is changed, whatever happens meanwhile."""

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("msgspec")
import pyarrow.parquet as pq  # noqa: E402

from hashnms.files import FileError, suppress  # noqa: E402
from tests.support.files import ROW, yolo_folder  # noqa: E402

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals, limits, links, modes or pipes")


def large(path, rows=60_000):
    """A file that takes a while."""
    objects = [
        {**ROW, "image_id": row // 50, "bbox": [row % 50 * 7, 0, 9, 9], "score": row % 97 / 100} for row in range(rows)
    ]
    path.write_text(json.dumps(objects))


def command(*arguments):
    return [sys.executable, "-m", "hashnms", "suppress", *map(str, arguments)]


@pytest.mark.slow
def test_killed_at_any_moment_the_old_output_is_whole(tmp_path):
    large(tmp_path / "in.json")
    out = tmp_path / "out.json"
    out.write_text("old")
    subprocess.run(command(tmp_path / "in.json", "-o", tmp_path / "new.json"), check=True, capture_output=True)
    new = (tmp_path / "new.json").read_bytes()
    chance = random.Random(0)
    for _ in range(8):
        process = subprocess.Popen(command(tmp_path / "in.json", "-o", out), stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0.2, 1.2))
        process.kill()
        process.wait()
        assert out.read_bytes() in (b"old", new)


@posix
@pytest.mark.slow
def test_interrupted_it_says_so_and_leaves_nothing(tmp_path):
    large(tmp_path / "in.json", 300_000)
    (tmp_path / "out.json").write_text("old")
    process = subprocess.Popen(
        command(tmp_path / "in.json", "-o", tmp_path / "out.json", "-s", "softnms:gaussian/0.5"),
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 20
    while not list(tmp_path.glob(".hashnms-*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert (process.returncode, errors) == (1, "error: interrupted; nothing was written\n")
    assert (tmp_path / "out.json").read_text() == "old"
    assert {path.name for path in tmp_path.iterdir()} == {"in.json", "out.json"}


@posix
@pytest.mark.parametrize("memory", ["1G", "1M"])
def test_a_full_disk(memory, tmp_path):
    """A limit on the size of files simulates it."""
    large(tmp_path / "in.json")
    (tmp_path / "out.json").write_text("old")
    text = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)); from hashnms.cli import app; app()"
    )
    arguments = command(tmp_path / "in.json", "-o", tmp_path / "out.json", "--memory", memory)[3:]
    result = subprocess.run([sys.executable, "-c", text, *arguments], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr == f"error: File too large: {tmp_path / 'out.json'}\n"
    assert (tmp_path / "out.json").read_text() == "old"
    assert {path.name for path in tmp_path.iterdir()} == {"in.json", "out.json"}


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no /dev/full")
@pytest.mark.parametrize("output", ["/dev/full", "-"])
def test_a_device_that_is_full(output, tmp_path):
    large(tmp_path / "in.json", 500)
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            command(tmp_path / "in.json", "-o", output), stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    name = "standard output" if output == "-" else output
    assert (result.returncode, result.stderr) == (1, f"error: No space left on device: {name}\n")


def test_a_folder_that_must_not_be_written_is_named_and_not_a_temporary_file(tmp_path, monkeypatch):
    large(tmp_path / "in.json", 5)

    def refused(path, *_):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "mkdir", refused)
    with pytest.raises(PermissionError) as error:
        suppress(tmp_path / "in.json", tmp_path / "out.json", "nms:0.5")
    assert error.value.filename == str(tmp_path / "out.json")


@posix
@pytest.mark.slow
@pytest.mark.parametrize("scene", [[], ["--scene", "--columns", "label="]])
def test_few_files_may_be_open(scene, tmp_path):
    """By default 256 on macOS."""
    text = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200)); from hashnms.cli import app; app()"
    rng = np.random.default_rng(0)
    corners = rng.random((20_000, 2)) * 2000
    boxes = dict(zip(("x1", "y1", "x2", "y2"), np.hstack([corners, corners + 5]).T, strict=True))
    table = pa.table({"image": rng.integers(0, 500, 20_000), **boxes, "score": rng.random(20_000)})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=500)
    for start, name in (([sys.executable, "-c", text], "few"), ([sys.executable, "-m", "hashnms"], "many")):
        arguments = ["suppress", str(tmp_path / "in.parquet"), "-o", str(tmp_path / name), "--to", "parquet", *scene]
        subprocess.run([*start, *arguments, "--memory", "25k"], check=True, capture_output=True)
    assert (tmp_path / "few").read_bytes() == (tmp_path / "many").read_bytes()


@pytest.mark.slow
def test_memory_that_was_not_enough_is_said(tmp_path):
    """For an image, or for a part of a file that is read at once."""
    rng = np.random.default_rng(0)
    corners = rng.random((200_000, 2)) * 9000
    boxes = dict(zip(("x1", "y1", "x2", "y2"), np.hstack([corners, corners + 5]).T, strict=True))
    for images in (1, 10_000):
        numbers = np.sort(rng.integers(0, images, 200_000))
        pq.write_table(pa.table({"image": numbers, **boxes, "score": rng.random(200_000)}), tmp_path / "in.parquet")
        for more in ([], ["--scene", "--columns", "label="]):
            for memory in ("10M", "500M"):
                result = subprocess.run(
                    [*command(tmp_path / "in.parquet", "-o", tmp_path / "out.parquet", "--memory", memory), *more],
                    capture_output=True,
                    text=True,
                    check=True,
                )
                said = "warning: --memory 10M was not enough, " in result.stderr
                assert said == (memory == "10M"), result.stderr
        summary = suppress(tmp_path / "in.parquet", tmp_path / "out.parquet", "nms:0.5", memory=10**7)
        assert summary.memory_needed > (200_000 if images == 1 else 131_072) * 6 * 8


def test_standard_input_and_output(tmp_path):
    large(tmp_path / "in.json", 500)
    subprocess.run(command(tmp_path / "in.json", "-o", tmp_path / "out.json"), check=True, capture_output=True)
    piped = subprocess.run(
        command("-", "-f", "coco", "-o", "-"),
        input=(tmp_path / "in.json").read_bytes(),
        check=True,
        capture_output=True,
    )
    assert piped.stdout == (tmp_path / "out.json").read_bytes()
    assert piped.stderr.startswith(b"500 boxes in, ")
    closed = subprocess.run(
        command("-", "-f", "coco", "-o", "-"), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert (closed.returncode, closed.stdout) == (2, "")
    assert closed.stderr == "error: standard input: must be a JSON list of objects, got an empty file\n"


def test_nobody_reads_the_output(tmp_path):
    large(tmp_path / "in.json")
    process = subprocess.Popen(command(tmp_path / "in.json", "-o", "-"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 1
    assert errors == b""


@pytest.mark.slow
def test_one_image_with_a_million_boxes(tmp_path):
    random_numbers = np.random.default_rng(0)
    corners = random_numbers.random((10**6, 2), np.float32) * 20_000
    boxes = dict(zip(("x1", "y1", "x2", "y2"), np.hstack([corners, corners + 20]).T, strict=True))
    table = pa.table({"image": np.zeros(10**6, np.int64), **boxes, "score": random_numbers.random(10**6, np.float32)})
    pq.write_table(table, tmp_path / "in.parquet")
    summary = suppress(tmp_path / "in.parquet", tmp_path / "out.parquet", "nms:0.5", memory=10**6)
    assert summary.boxes_in == 10**6
    assert summary.boxes_out == len(pq.read_table(tmp_path / "out.parquet"))


MEASURED = """
import sys
from hashnms.files import suppress
summary = suppress(sys.argv[1], sys.argv[2], "nms:0.5", memory=int(sys.argv[3]))
# Not getrusage: its peak begins with that of the process that started this one.
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(int(peak.split()[1]) * 1024, summary.boxes_in, summary.boxes_out)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory in /proc")
@pytest.mark.memory
@pytest.mark.slow
@pytest.mark.parametrize("scattered", [False, True])
def test_ten_million_rows_in_little_memory(scattered, tmp_path):
    count = 10**7
    random_numbers = np.random.default_rng(0)
    with pq.ParquetWriter(
        tmp_path / "in.parquet",
        pa.schema({"image": pa.int64(), **{name: pa.float32() for name in ("x1", "y1", "x2", "y2", "score")}}),
    ) as writer:
        for start in range(0, count, 10**6):
            images = (
                (np.arange(start, start + 10**6) * 7919 % count) // 1000
                if scattered
                else np.arange(start, start + 10**6) // 1000
            )
            corners = random_numbers.integers(0, 40, (10**6, 2)).astype(np.float32) * 10
            boxes = dict(zip(("x1", "y1", "x2", "y2"), np.hstack([corners, corners + 9]).T, strict=True))
            writer.write_table(pa.table({"image": images, **boxes, "score": random_numbers.random(10**6, np.float32)}))
    arguments = [str(tmp_path / "in.parquet"), str(tmp_path / "out.parquet"), str(300_000_000)]
    result = subprocess.run([sys.executable, "-c", MEASURED, *arguments], capture_output=True, text=True, check=True)
    peak, boxes_in, boxes_out = map(int, result.stdout.split())
    assert boxes_in == count
    assert 0 < boxes_out < count
    assert peak < 650_000_000  # 300 MB and what Python, pyarrow and its buffers take


def test_a_folder_with_other_files_is_not_replaced(tmp_path):
    labels, out = yolo_folder(tmp_path / "labels"), tmp_path / "out"
    out.mkdir()
    (out / "photo.jpg").write_text("precious")
    with pytest.raises(FileError, match=r"contain only files that are written again, got .*out with photo.jpg"):
        suppress(labels, out, "nms:0.5")
    (labels / "photo.jpg").write_text("precious")
    with pytest.raises(FileError, match=r"got .*labels with photo\.jpg"):
        suppress(labels, labels, "nms:0.5")
    (tmp_path / "file").write_text("old")
    need = "output must be a folder, because this format has a file for each image, got "
    with pytest.raises(FileError, match=rf"{need}.*file"):
        suppress(labels, tmp_path / "file", "nms:0.5")
    with pytest.raises(FileError, match=f"{need}-"):
        suppress(labels, "-", "nms:0.5")
    assert [path.read_text() for path in (out / "photo.jpg", labels / "photo.jpg", tmp_path / "file")] == [
        "precious",
        "precious",
        "old",
    ]
    (out / "photo.jpg").unlink()
    assert suppress(labels, out, "nms:0.5").boxes_out == suppress(labels, out, "nms:0.5").boxes_out == 1


@posix
def test_a_link_stays_a_link_and_a_file_keeps_its_mode(tmp_path):
    (tmp_path / "in.json").write_text(json.dumps([ROW]))
    (tmp_path / "behind.json").write_text("old")
    (tmp_path / "behind.json").chmod(0o640)
    (tmp_path / "link.json").symlink_to("behind.json")
    suppress(tmp_path / "in.json", tmp_path / "link.json", "nms:0.5")
    assert (tmp_path / "link.json").is_symlink()
    assert json.loads((tmp_path / "behind.json").read_text()) == [ROW]
    assert (tmp_path / "behind.json").stat().st_mode & 0o777 == 0o640


@posix
def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    (tmp_path / "in.json").write_text(json.dumps([ROW]))
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        suppress(tmp_path / "in.json", pipe, "nms:0.5")
        assert json.loads(reader.communicate()[0]) == [ROW]
    assert pipe.is_fifo()


def test_a_folder_in_the_place_of_a_file_and_a_long_name(tmp_path):
    (tmp_path / "in.json").write_text(json.dumps([ROW]))
    with pytest.raises(FileError, match="output must be a file, got the folder"):
        suppress(tmp_path / "in.json", tmp_path, "nms:0.5")
    suppress(tmp_path / "in.json", tmp_path / f"{'a' * 250}.json", "nms:0.5")
