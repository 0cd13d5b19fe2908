"""A command that a signal ends leaves nothing behind, and what a killed one left is removed by the next."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("msgspec")
import pyarrow.parquet as pq  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows ends processes without asking"),
]

COMMANDS = {
    "a file": ["-s", "softnms:gaussian/0.5"],
    "images brought together on disk": ["--memory", "300k"],
    "a scene": ["--scene", "--memory", "3M", "--columns", "label="],
    "a scene with a folder": ["--scene", "--memory", "3M", "--columns", "label=", "--folder", "work"],
    "a report": ["--report", "out.html"],
}


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A file that takes a second or more. The rows of an image are scattered."""
    rng, count = np.random.default_rng(0), 300_000
    corners = rng.random((count, 2), np.float32) * 4000
    boxes = dict(zip(("x1", "y1", "x2", "y2"), np.hstack([corners, corners + 20]).T, strict=True))
    images = rng.integers(0, 30, count)
    path = tmp_path_factory.mktemp("large") / "in.parquet"
    pq.write_table(pa.table({"image": images, **boxes, "score": rng.random(count, np.float32)}), path)
    return path


def started(large, folder, options):
    command = [sys.executable, "-m", "hashnms", "suppress", str(large), "-o", "out.parquet", *options]
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)


def temporary(folder):
    return [path.name for path in folder.iterdir() if path.name.startswith(".hashnms-")]


def at_work(process, folder):
    """Wait until it has made and locked a temporary folder."""
    deadline = time.monotonic() + 30
    while (
        not any((folder / name / "new").exists() for name in temporary(folder))
        and process.poll() is None
        and time.monotonic() < deadline
    ):
        time.sleep(0.005)
    return process.poll() is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
@pytest.mark.parametrize("command", COMMANDS)
def test_ended_at_any_moment_it_cleans_up_and_says_so(command, number, large, tmp_path):
    (tmp_path / "out.parquet").write_text("old")
    chance = random.Random(command)
    for _ in range(3):
        process = started(large, tmp_path, COMMANDS[command])
        assert at_work(process, tmp_path)
        time.sleep(chance.uniform(0, 0.7))
        process.send_signal(number)
        _, errors = process.communicate()
        assert temporary(tmp_path) == []
        if process.returncode in (0, -number):  # the command was done, or Python was already on its way out after it
            assert " boxes in, " in errors
            assert (tmp_path / "out.parquet").read_bytes() != b"old"
            (tmp_path / "out.parquet").write_text("old")
            continue
        assert process.returncode == 128 + number
        *_, last = errors.splitlines()
        assert last.startswith(f"error: ended by {number.name}; ")
        if last.endswith("; nothing was written"):
            assert (tmp_path / "out.parquet").read_text() == "old"
        (tmp_path / "out.parquet").write_text("old")
    left = {path.name for path in tmp_path.iterdir()} - {"out.parquet", "out.html"}
    assert left <= ({"work"} if "folder" in command else set())


@pytest.mark.parametrize("command", COMMANDS)
def test_what_a_killed_command_left_is_removed_by_the_next(command, large, tmp_path):
    process = started(large, tmp_path, COMMANDS[command])
    assert at_work(process, tmp_path)
    process.kill()
    process.communicate()
    assert temporary(tmp_path)
    again = started(large, tmp_path, COMMANDS[command])
    errors = again.communicate()[1]
    assert again.returncode == 0, errors
    assert temporary(tmp_path) == []
    assert not (tmp_path / "work").exists()


def test_the_folder_of_a_command_that_still_runs_stays(large, tmp_path):
    first = started(large, tmp_path, COMMANDS["a file"])
    assert at_work(first, tmp_path)
    first.send_signal(signal.SIGSTOP)
    theirs = temporary(tmp_path)
    second = started(large, tmp_path, COMMANDS["a file"])
    second.communicate()
    assert second.returncode == 0
    assert temporary(tmp_path) == theirs
    whole = (tmp_path / "out.parquet").read_bytes()
    first.send_signal(signal.SIGCONT)
    first.communicate()
    assert first.returncode == 0
    assert (tmp_path / "out.parquet").read_bytes() == whole
    assert temporary(tmp_path) == []


def test_a_hang_up_that_the_process_was_told_to_ignore_stays_ignored(large, tmp_path):
    """`nohup hashnms ...` goes on."""
    command = [sys.executable, "-m", "hashnms", "suppress", str(large), "-o", str(tmp_path / "out.parquet")]
    process = subprocess.Popen(["nohup", *command], stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    assert at_work(process, tmp_path)
    process.send_signal(signal.SIGHUP)
    assert process.wait() == 0


def test_a_second_signal_does_not_stop_the_cleaning_up(large, tmp_path):
    process = started(large, tmp_path, COMMANDS["a scene"])
    assert at_work(process, tmp_path)
    for _ in range(5):
        process.send_signal(signal.SIGTERM)
        time.sleep(0.002)
    process.communicate()
    assert temporary(tmp_path) == []


def test_functions_leave_the_handlers_of_a_program_alone(large, tmp_path):
    text = (
        "import signal, sys; from hashnms import files; files.suppress(sys.argv[1], sys.argv[2], 'nms:0.5'); "
        "assert {signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)} == {signal.SIG_DFL}"
    )
    subprocess.run([sys.executable, "-c", text, str(large), str(tmp_path / "out.parquet")], check=True)


def test_demo_and_plot_clean_up(tmp_path):
    rows = [{"image_id": 1, "category_id": 1, "bbox": [i % 100, i // 100, 5, 5], "score": 0.5} for i in range(20_000)]
    (tmp_path / "in.json").write_text(json.dumps(rows))
    for command in (["demo", "--save", "made", "--boxes", "300000"], ["plot", "in.json", "-o", "out.png"]):
        process = subprocess.Popen(
            [sys.executable, "-m", "hashnms", *command], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        time.sleep(4)
        os.kill(process.pid, signal.SIGTERM)
        process.communicate()
        assert process.returncode in (0, 128 + signal.SIGTERM, -signal.SIGTERM)  # the last: it had not begun
        assert not list(tmp_path.rglob(".hashnms-*"))
