"""The tests pass whatever the folder of the repository is called, in the background, and without a home."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.boxes import REPOSITORY

#: Tests that read what others print, with paths in it, that start processes, or that send signals.
TESTS = [
    "test_cli.py::test_bad_options_exit_with_2_and_say_why",
    "test_detectors_export.py::test_an_accelerated_model_is_exported_as_the_plain_one[SSD]",
    "test_detectors_routing.py::test_a_block_without_calls_warns_unless_it_ends_in_an_error",
    "test_experiments_all.py::test_a_wrong_name_is_answered_with_the_right_ones",
    "test_files_output.py::test_interrupted_it_says_so_and_leaves_nothing",
]

#: A shell without job control starts what runs in the background like this, and `nohup` does the same with HUP.
IGNORING_SIGNALS = ["sh", "-c", 'trap "" INT HUP; exec "$@"', "sh"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("sh") is None, reason="there is no sh here")
def test_a_folder_of_any_name_in_the_background_with_forced_colours(tmp_path):
    torchvision = pytest.importorskip("torchvision")
    for package in ("onnxruntime", "onnxscript", "pyarrow", "msgspec"):
        pytest.importorskip(package)
    copy = tmp_path / "a b" / "grün" / "hashnms"
    for name in ("benchmarks", "experiments", "src", "tests"):
        shutil.copytree(REPOSITORY / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "pyproject.toml", copy)
    (copy / ".venv").mkdir()  # a traced graph has the paths of the code of torchvision
    (copy / ".venv" / "torchvision").symlink_to(Path(torchvision.__file__).parent)
    options = ["-q", "-p", "no:cacheprovider", "--basetemp", str(copy / "hashnms tmp")]
    environment = {"PYTHONPATH": str(copy / ".venv"), "GITHUB_ACTIONS": "true", "FORCE_COLOR": "1", "COLUMNS": "40"}
    run = subprocess.run(
        [*IGNORING_SIGNALS, sys.executable, "-m", "pytest", *options, *(f"tests/{test}" for test in TESTS)],
        cwd=copy, env={**os.environ, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("home", [{"HOME": "/nonexistent"}, {}])
def test_who_has_no_home_gets_one(home):
    environment = {name: value for name, value in os.environ.items() if name != "HOME"} | home
    code = "import os, tests.conftest; home = os.path.expanduser('~'); print(home, os.access(home, os.W_OK))"
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.endswith(" True\n")
    assert "nonexistent" not in run.stdout
