"""From nothing to tables and figures, as a user runs it: in processes of their own, one of them interrupted."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

pytest.importorskip("torch")
pytest.importorskip("torchvision")

from experiments.__main__ import app

ALL = [sys.executable, "-m", "experiments", "all", "--steps", "2", "--images", "2", "--sweep-images", "1"]


def wait_for(condition, process, seconds=120.0):
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.slow
def test_all_of_it_runs_without_data_and_goes_on_after_ctrl_c(tmp_path):
    command = [*ALL, "--results", str(tmp_path)]
    checkpoint = tmp_path / "checkpoints" / "faster_rcnn-carpk-tiny.pt"
    first = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: (tmp_path / "raw").exists() and any((tmp_path / "raw").rglob("*.npz")), first)
    first.send_signal(signal.SIGINT)
    _, errors = first.communicate(timeout=60)
    assert first.returncode == 130, errors
    assert "Traceback" not in errors
    assert not [file for file in tmp_path.rglob("*.json") if file.parent == tmp_path]
    trained = os.stat(checkpoint).st_mtime_ns
    second = subprocess.run(command, capture_output=True, text=True, check=True)
    assert os.stat(checkpoint).st_mtime_ns == trained  # not trained again
    names = {
        *(f"{name}-faster_rcnn-carpk-tiny" for name in ("rpn", "alpha", "p1")),
        *(f"{name}-retinanet-carpk-tiny" for name in ("retina", "soft", "alpha", "p1", "softnms")),
    }
    for name in names:
        record = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
        assert record["rows"]
        assert all(0 <= row["map_50"] <= 1 for row in record["rows"])
        assert (tmp_path / f"{name}.md").exists()
        assert (tmp_path / f"{name}.svg").exists() == name.startswith(("alpha", "p1", "softnms"))
    assert {file.stem for file in tmp_path.glob("*.svg")} - names == {"bound"}
    assert "HNMS in place of the RPN's NMS" in second.stdout
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table", "five", "--raw", "."], "must be one of rpn, retina, soft, voc-coco, got 'five'"),
        (["figure", "alpha"], "must be given for alpha"),
        (["figure", "bound", "--raw", "."], "must be left out for bound"),
        (["all", "--size", "huge"], "must be one of tiny, cpu, paper, got 'huge'"),
        (["raw", "--configuration", "x", "--data", ".", "--checkpoint", ".", "--output", "."], "must be one of faster"),
    ],
)
def test_a_wrong_name_is_answered_with_the_right_ones(arguments, message):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())


def test_what_is_wrong_with_the_data_is_said_in_one_line(tmp_path):
    command = [sys.executable, "-m", "experiments", "table", "rpn", "--raw", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith(f"error: {tmp_path} must hold raw detections, <image>.npz")
    assert result.stderr.count("\n") == 1
