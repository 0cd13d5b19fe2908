"""The command line prints what it promises and refuses what it cannot do."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

import hashnms.cli
from hashnms.cli import common

runner = CliRunner()


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch):
    monkeypatch.setattr(common.console, "_width", 200)


def run(*arguments):
    return runner.invoke(hashnms.cli.app, list(arguments))


def test_demo_prints_a_row_for_each_method_and_for_each_with_a_pre_filter():
    result = run("demo", "--preset", "crowd", "--boxes", "500", "--seed", "3", "--alpha", "0.73")
    assert result.exit_code == 0
    assert "crowd: 27 objects, 500 raw boxes" in result.output
    rows = [line.split() for line in result.output.splitlines() if "%" in line]  # "0.12 ms" are two
    assert [row[0] for row in rows] == [
        "nms:0.502",
        *(f"hnms:0.73/{num_hashes}" for num_hashes in range(1, 5)),
        "+nms:0.502",  # below a line with hnms:0.73/1
        "softnms:gaussian/0.5",
        "+softnms:gaussian/0.5",
    ]
    assert [row[1] for row in rows][:5] == ["500"] * 5
    assert rows[5][1] == rows[7][1] == rows[1][2]  # what HNMS keeps goes on
    assert rows[0][5:] == rows[6][5:] == ["1.0x", "100.0%", "100.0%"]


def test_demo_fits_a_terminal_of_80_columns(monkeypatch):
    monkeypatch.setattr(common.console, "_width", 80)
    output = run("demo", "--boxes", "45000").output
    assert max(map(len, output.splitlines())) <= 80
    assert "…" not in output
    assert "+softnms:gaussian/0.5" in output


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
