"""The working folder of a scene: files in it are complete, and it records which call they belong to."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hashnms.files.rows import FileError

_MANIFEST = "scene.json"
_OVER = {"over": True}  #: replaces the manifest when nothing in the folder is needed any more


class Folder:
    """A folder whose files and subfolders get their names only when they are complete."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @contextmanager
    def new(self, name: str) -> Iterator[Path]:
        """A temporary path; what is written there gets this name when the block ends."""
        work = self.path / f"{name}.new"
        _remove(work)
        yield work
        os.replace(work, self.path / name)

    def write_json(self, name: str, value: Any) -> None:
        with self.new(name) as path:
            path.write_text(json.dumps(value, indent=1))

    def read_json(self, name: str) -> Any:
        """The value of a JSON file; None if there is no such file."""
        path = self.path / name
        return json.loads(path.read_text()) if path.exists() else None


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def working_folder(given: Path | None, output: Path, work: dict[str, Any]) -> Iterator[Folder]:
    """The given folder, whose work is continued if it is from the same call, or a new one next to the output.

    Both are removed when the work is done, and when the input is invalid. If the process ends in any other way, the
    given folder stays.
    """
    if given is None:
        path = Path(tempfile.mkdtemp(prefix=".hashnms-scene-", dir=Path(os.path.realpath(output)).parent))
        try:
            yield Folder(path)
        finally:
            shutil.rmtree(path, ignore_errors=True)
        return
    given.mkdir(exist_ok=True)
    with _locked(given):
        folder = Folder(given)
        _claim(folder, work)
        try:
            yield folder
        except (ValueError, TypeError):  # bad input: nothing to continue
            _discard(folder)
            raise
        _discard(folder)


def _clear(folder: Folder) -> None:
    """Remove everything except the manifest, which says so: the next call completes an interrupted removal."""
    folder.write_json(_MANIFEST, _OVER)
    for path in folder.path.iterdir():
        if path.name != _MANIFEST:
            _remove(path)


def _discard(folder: Folder) -> None:
    _clear(folder)
    shutil.rmtree(folder.path, ignore_errors=True)


def _claim(folder: Folder, work: dict[str, Any]) -> None:
    """Check that the folder is empty or belongs to this call."""
    there = folder.read_json(_MANIFEST)
    if there is None:
        other = next((path.name for path in folder.path.iterdir() if not path.name.endswith(".new")), None)
        if other is not None:
            raise FileError(f"folder must be empty or from an earlier call, got {folder.path} with {other}")
    elif there == _OVER:
        _clear(folder)
    else:
        _check_same(folder, there, json.loads(json.dumps(work)))
    folder.write_json(_MANIFEST, work)


def _check_same(folder: Folder, there: dict[str, Any], work: dict[str, Any]) -> None:
    for name, value in work.items():
        if there.get(name) != value:
            raise FileError(
                f"folder must be empty or from the same call, got {folder.path} "
                f"with another {name}: {there.get(name)}, not {value}"
            )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Make sure that no other process works in the folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FileError(f"folder must not be in use, got {path}, which another process uses") from None
        yield
    finally:
        os.close(handle)
