"""The command line prints what it promises and refuses what it cannot do."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

import hashnms.cli

runner = CliRunner()


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch):
    monkeypatch.setattr(hashnms.cli.console, "_width", 200)


def run(*arguments):
    return runner.invoke(hashnms.cli.app, list(arguments))


def test_demo_prints_a_row_for_nms_for_one_to_four_hashes_and_for_both():
    result = run("demo", "--preset", "crowd", "--boxes", "500", "--seed", "3", "--alpha", "0.73")
    assert result.exit_code == 0
    assert "crowd: 27 objects, 500 raw boxes" in result.output
    for method in ("NMS 0.502", "HNMS 0.73/1 ", "HNMS 0.73/2", "HNMS 0.73/3", "HNMS 0.73/4", "HNMS 0.73/1 + NMS"):
        assert method in result.output


def test_bound_prints_the_table_and_its_inverse():
    result = run("bound")
    assert result.exit_code == 0
    assert "0.45206" in result.output
    assert "0.72907" in result.output
    assert "0.50154" in run("bound", "--alpha", "0.73").output
    assert "0.72907" in run("bound", "--iou", "0.5").output


def test_version_is_the_packages():
    assert run("--version").output == "hashnms 0.1.0\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("demo", "--preset", "zoo"), "preset must be one of parking_lot, shelf, crowd, aerial, got 'zoo'"),
        (("demo", "--alpha", "1"), "alpha must be in (0, 1), got 1.0"),
        (("demo", "--boxes", "0"), "--boxes"),
        (("bound", "--alpha", "2"), "alpha must be in (0, 1), got 2.0"),
        (("bound", "--iou", "0"), "bound must be in (0, 1), got 0.0"),
    ],
)
def test_bad_options_exit_with_2_and_say_why(arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())  # the error stands in a box, wrapped


def test_the_module_runs_as_a_program():
    result = subprocess.run([sys.executable, "-m", "hashnms", "--version"], capture_output=True, text=True, check=True)
    assert result.stdout == "hashnms 0.1.0\n"
