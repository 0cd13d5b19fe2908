"""What is installed: docstrings that run, a stub that is up to date, a light import."""

import doctest
import importlib
import inspect
import pkgutil
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import metadata
from pathlib import Path

import numpy as np
import pytest

import hashnms
from tests.support.boxes import REPOSITORY

MODULES = [name for _, name, _ in pkgutil.walk_packages(hashnms.__path__, "hashnms.") if not name.endswith("__main__")]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_the_docstrings_are_true(name):
    if name.startswith("hashnms.torch"):
        pytest.importorskip("triton" if name.endswith("kernels") else "torch")
    if name.endswith((".sahi", ".supervision", ".ultralytics")):
        pytest.importorskip(name.rpartition(".")[2])
    if name.startswith("hashnms.cluster"):
        pytest.importorskip("ray")
    module = importlib.import_module(name)
    with np.printoptions(precision=8, linewidth=75, formatter=None):  # ultralytics sets others when it is imported
        results = doctest.testmod(module)
    assert results.failed == 0


def test_every_public_function_has_an_example():
    for name in hashnms.__all__:
        value = getattr(hashnms, name)
        assert not inspect.isfunction(value) or ">>>" in (value.__doc__ or ""), name


def test_the_committed_stub_is_the_one_the_build_makes():
    built = Path(hashnms.__file__).with_name("_core.pyi").read_text()
    committed = (REPOSITORY / "src/hashnms/_core.pyi").read_text()
    assert built == committed, "run `make stub` and commit src/hashnms/_core.pyi"


def test_importing_the_package_imports_neither_the_cli_nor_heavy_libraries():
    code = "import sys, hashnms; print([m for m in ('typer', 'rich', 'torch', 'matplotlib') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


def test_the_core_refuses_arrays_of_different_lengths():
    boxes, scores = np.zeros((5, 4), np.float32), np.zeros(1, np.float32)
    assert hashnms._core.hnms(boxes, scores, None, None, 0.7, 1, "xyxy") is None


def test_a_package_without_its_core_says_what_to_do(tmp_path):
    shutil.copytree(REPOSITORY / "src/hashnms", tmp_path / "hashnms")
    command = [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import hashnms"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "ImportError: hashnms's compiled core is missing: was the package built?" in result.stderr


def test_the_package_says_it_is_typed():
    assert Path(hashnms.__file__).with_name("py.typed").is_file()


def shown_alone() -> str:
    """The README as PyPI shows it."""
    return str(metadata("hashnms").json["description"])


def test_the_readme_that_is_shown_alone_has_only_links_that_work_there():
    readme = shown_alone()
    links = re.findall(r'\]\(([^)\s]+)|(?:src|srcset|href)="([^"]+)"', readme)
    targets = [markdown or html for markdown, html in links]
    assert targets
    assert [target for target in targets if not target.startswith(("https://", "http://", "#"))] == []


def test_the_repository_has_one_address():
    urls = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["urls"]
    assert f"{urls['Homepage']}/blob/v{hashnms.__version__}/" in shown_alone()
    assert f'repository-code: "{urls["Homepage"]}"' in (REPOSITORY / "CITATION.cff").read_text()


def test_the_citation_and_the_changelog_are_of_this_version():
    assert f'version: "{hashnms.__version__}"' in (REPOSITORY / "CITATION.cff").read_text()
    assert f"\n## {hashnms.__version__}" in (REPOSITORY / "CHANGELOG.md").read_text()
