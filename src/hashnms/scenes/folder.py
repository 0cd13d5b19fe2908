"""The working folder of a scene: files in it are complete, and it records which call they belong to."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hashnms._locks import FileLock
from hashnms._temporary import discard, naming, temporary_folder
from hashnms.files.rows import FileError

_MANIFEST = "scene.json"
_LOCK = ".hashnms-lock"
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
        discard(work)
        with naming(self.path):
            yield work
            os.replace(work, self.path / name)

    def write_json(self, name: str, value: Any) -> None:
        with self.new(name) as path:
            path.write_text(json.dumps(value, indent=1), "utf-8")

    def read_json(self, name: str) -> Any:
        """The value of a JSON file; None if there is no such file."""
        path = self.path / name
        return json.loads(path.read_text("utf-8")) if path.exists() else None


@contextmanager
def working_folder(given: Path | None, output: Path, work: dict[str, Any]) -> Iterator[Folder]:
    """The given folder, whose work is continued if it is from the same call, or a new one next to the output.

    Both are removed when the work is done, and when the input is invalid. If the process ends in any other way, the
    given folder stays.
    """
    if given is None:
        path = Path(os.path.realpath(output))
        with naming(output), temporary_folder(path.parent, path.name) as new:
            yield Folder(new)
        return
    folder, lock = Folder(given), _locked(given)
    try:
        _claim(folder, work)
    except FileError:
        lock.remove()
        raise
    try:
        try:
            yield folder
        except (ValueError, TypeError):  # bad input: nothing to continue
            _discard(folder, lock)
            raise
        _discard(folder, lock)
    finally:
        lock.release()


def _locked(path: Path) -> FileLock:
    """Make the folder, and make sure that no other process works in it."""
    path.mkdir(exist_ok=True)
    try:
        with naming(path):
            return FileLock(path / _LOCK)
    except (BlockingIOError, FileNotFoundError):  # or another process has just removed it
        raise FileError(f"folder must not be in use, got {path}, which another process uses") from None


def _clear(folder: Folder) -> None:
    """Remove everything except the manifest, which says so: the next call completes an interrupted removal."""
    folder.write_json(_MANIFEST, _OVER)
    for path in folder.path.iterdir():
        if path.name not in (_MANIFEST, _LOCK):
            discard(path)


def _discard(folder: Folder, lock: FileLock) -> None:
    _clear(folder)
    if {path.name for path in folder.path.iterdir()} == {_MANIFEST, _LOCK}:
        discard(folder.path / _MANIFEST)
    lock.remove()
    with suppress(OSError):
        folder.path.rmdir()


def _claim(folder: Folder, work: dict[str, Any]) -> None:
    """Check that the folder is empty or belongs to this call."""
    there = folder.read_json(_MANIFEST)
    if there is None:
        names = (path.name for path in folder.path.iterdir() if path.name != _LOCK)
        other = next((name for name in names if not name.endswith(".new")), None)
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
