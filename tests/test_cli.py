"""The command line prints what its help says, and refuses what it cannot do."""

import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import hashnms
import hashnms.cli
from hashnms.cli import common, demo

runner = CliRunner()


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch):
    monkeypatch.setattr(common.console, "_width", 200)


def run(*arguments):
    return runner.invoke(hashnms.cli.app, list(arguments))


def rows_of(output):
    """The cells of the demo's table."""
    return [re.split(r"  +", line.strip()) for line in output.splitlines() if " ms " in line]


def test_demo_starts_with_what_people_have_and_exact_nms_keeps_the_same():
    result = run("demo", "--preset", "crowd", "--boxes", "500", "--seed", "3")
    assert result.exit_code == 0
    assert "crowd: 27 objects, 500 raw boxes, IoU 0.5" in result.output
    rows = rows_of(result.output)
    methods = ["nms:0.5", "hnms:0.73/1", "hnms:0.73/4", "hnms:0.73/1+nms:0.5", "softnms:gaussian/0.5"]
    assert [row[0] for row in rows][1:] == methods
    assert rows[0][0] in ("NMS, torchvision", "NMS, a NumPy loop")
    assert rows[0][3:] == ["1.0x", "100.0%", "100.0%"]
    assert rows[1][1] == rows[0][1]
    assert rows[1][4:] == ["100.0%", "100.0%"]


def test_demo_without_torchvision_compares_with_numpy(monkeypatch):
    monkeypatch.setattr("hashnms.cli.demo.find_spec", lambda _: None)
    rows = rows_of(run("demo", "--boxes", "2000", "--iou", "0.7").output)
    assert rows[0][0] == "NMS, a NumPy loop"
    assert rows[1][0] == "nms:0.7"
    assert rows[1][4:] == ["100.0%", "100.0%"]


@pytest.mark.usefixtures("restored_threads")
def test_demo_times_one_thread_each_and_restores_the_threads(monkeypatch):
    torch = pytest.importorskip("torch")
    hashnms.set_num_threads(3)
    before, during, timed = torch.get_num_threads(), [], demo._timed

    def noted(call):
        during.append((hashnms.get_num_threads(), torch.get_num_threads()))
        return timed(call)

    monkeypatch.setattr(demo, "_timed", noted)
    assert run("demo", "--boxes", "300").exit_code == 0
    assert set(during) == {(1, 1)}
    assert (hashnms.get_num_threads(), torch.get_num_threads()) == (3, before)


def test_demo_fits_a_terminal_of_80_columns(monkeypatch):
    monkeypatch.setattr(common.console, "_width", 80)
    output = run("demo", "--boxes", "45000").output
    assert max(map(len, output.splitlines())) <= 80
    assert "…" not in output
    assert "softnms:gaussian/0.5" in output


def test_demo_writes_a_page(tmp_path):
    result = run("demo", "--boxes", "300", "--report", str(tmp_path / "demo.html"))
    assert f"in a browser: {tmp_path / 'demo.html'}" in result.output
    assert "300 raw boxes" in (tmp_path / "demo.html").read_text(encoding="utf-8")


def test_bound_prints_the_table_and_its_inverse():
    result = run("bound")
    assert result.exit_code == 0
    assert "0.45206" in result.output
    assert "0.72907" in result.output
    assert "0.50154" in run("bound", "--alpha", "0.73").output
    assert "0.72907" in run("bound", "--iou", "0.5").output


def test_version_is_the_packages():
    assert run("--version").output == f"hashnms {hashnms.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("demo", "--preset", "zoo"), "--preset must be one of parking_lot, shelf, crowd, aerial, got 'zoo'"),
        (("demo", "--alpha", "1"), "--alpha must be in (0, 1), got 1.0"),
        (("demo", "--boxes", "0"), "--boxes"),
        (("bound", "--alpha", "2"), "--alpha must be in (0, 1), got 2.0"),
        (("bound", "--iou", "0"), "--iou must be in (0, 1), got 0.0"),
    ],
)
def test_bad_options_exit_with_2_and_say_why(arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())  # usage errors are printed in a box, wrapped


def test_the_module_runs_as_a_program():
    result = subprocess.run([sys.executable, "-m", "hashnms", "--version"], capture_output=True, text=True, check=True)
    assert result.stdout == f"hashnms {hashnms.__version__}\n"
