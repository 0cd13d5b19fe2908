"""Fixtures and settings of all tests. Data, checks and models that they share are in `tests.support`."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

import hashnms

# Triton decides on its first import whether its kernels are interpreted or compiled. No GPU is asked for here.
os.environ["TRITON_INTERPRET"] = "1"
if "PYTEST_XDIST_WORKER" in os.environ:  # the workers share the cores: torch, not imported yet, takes one
    os.environ["OMP_NUM_THREADS"] = "1"
# Ray and ultralytics write to the home of the user, which not every user has.
if not os.access(os.path.expanduser("~"), os.W_OK):
    HOME = tempfile.TemporaryDirectory(prefix="hashnms-home-")
    os.environ["HOME"] = HOME.name

# Neither a continuous integration nor a user's shell decides whether what commands print has colours.
for name in ("FORCE_COLOR", "GITHUB_ACTIONS", "NO_COLOR", "PY_COLORS", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
    os.environ.pop(name, None)

pytest.register_assert_rewrite("tests.support")

settings.register_profile("default", deadline=None, print_blob=True)
settings.load_profile("default")


PRINTING = np.get_printoptions()


@pytest.fixture(autouse=True)
def usual_printing() -> Iterator[None]:
    """Arrays are printed as usual, whatever a package that was imported has set: ultralytics does."""
    with np.printoptions(**PRINTING):
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--without-torch", action="store_true", help="skip the modules that import torch")


def pytest_configure(config: pytest.Config) -> None:
    """Some sanitizers fail on torch's libraries: then no test imports torch."""
    if config.getoption("without_torch"):
        sys.modules["torch"] = None
    heed_signals()


def heed_signals() -> None:
    """Commands that tests start heed Ctrl-C and hang-ups, even if this process was told to ignore them.

    A shell without job control makes what it starts in the background ignore Ctrl-C, `nohup` makes it ignore hang-ups,
    and children inherit that. A handler is not inherited, so one that does nothing is enough.
    """
    for name in ("SIGINT", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says why tests were skipped, one line per reason."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ") for report in terminalreporter.stats.get("skipped", ())
    )
    if reasons:
        terminalreporter.section("skipped tests")
    for reason, count in reasons.most_common():
        terminalreporter.line(f"{count:5}  {' '.join(reason.split())}")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Marks what can be seen: tests of modules that import torch, and tests that set the number of threads."""
    torch = sys.modules.get("torch")
    if torch is not None and getattr(getattr(item, "module", None), "torch", None) is torch:
        item.add_marker("torch")
    if "restored_threads" in getattr(item, "fixturenames", ()):
        item.add_marker("threads")


@pytest.fixture
def restored_threads() -> Iterator[None]:
    """Restore the number of threads after each test."""
    before = hashnms.get_num_threads()
    yield
    hashnms.set_num_threads(before)


@pytest.fixture(scope="session")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Name of a format -> the folder of a dataset in it, of two training images and a test image."""
    from experiments.generate import FORMATS, generate  # noqa: PLC0415  Pillow only where it is wanted
    from tests.support.datasets import SMALL  # noqa: PLC0415

    folder = tmp_path_factory.mktemp("drawn")
    return {name: generate(name, folder / name, images=3, size=SMALL) for name in FORMATS}


@pytest.fixture
def copied(drawn: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    """A function that copies such a dataset, for a test to break."""
    return lambda name: Path(shutil.copytree(drawn[name], tmp_path / name))
