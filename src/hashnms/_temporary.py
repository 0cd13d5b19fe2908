"""Output that appears whole or not at all: it is written in a temporary folder next to its path, then moved there.

A temporary folder has a file that its process locks. If the process is killed, the folder stays, but the lock is gone:
by that, the next process that writes the same output knows what it may remove.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain, count
from pathlib import Path

from hashnms._locks import FileLock

_PREFIX = ".hashnms-"
_PLACES = 8  #: folders of one output in which leftovers are looked for: one or two for each process
_LONGEST = 30  #: characters of the output's name in that of the folder: names may have 255 bytes
#: What is in a temporary folder: the lock, what is being written, and what it replaces.
_LOCK, _NEW, _OLD = "lock", "new", "old"
#: The disk is full, a file or the user has reached a limit.
_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}
moved: deque[Path] = deque(maxlen=10)  #: what was moved to its place last


@contextmanager
def temporary_folder(parent: Path | None, name: str) -> Iterator[Path]:
    """A temporary folder, in `parent` or the system's folder for such, for the output of this name.

    It is removed when the block ends. Those that killed processes have left for the same output are removed first.
    """
    where = Path(tempfile.gettempdir()) if parent is None else parent
    places = (where / f"{_PREFIX}{name[:_LONGEST]}.{number}" for number in count())
    made: list[tuple[Path, FileLock]] = []
    try:
        new = _make([next(places) for _ in range(_PLACES)], places, made) / _NEW
        new.mkdir()
        yield new
    finally:
        for work, lock in made:
            try:
                _remove(work, lock)
            except BaseException:  # Ctrl-C meanwhile: finish first
                _remove(work, lock)
                raise


def _make(first: list[Path], more: Iterator[Path], made: list[tuple[Path, FileLock]]) -> Path:
    """Clear the first places of leftovers. Make and lock a folder at the first free place, and add both to `made`."""
    for place in first:
        _clear(place)
    mode = 0o700 if os.name == "posix" else 0o777  # Windows would give the same rights to files that are moved away
    for place in chain(first, more):
        is_ours = False
        with suppress(FileExistsError):
            try:
                place.mkdir(mode)
                is_ours = True
                with suppress(FileNotFoundError, BlockingIOError):  # another process took it for a leftover
                    made.append((place, FileLock(place / _LOCK)))
                    return place
            finally:  # Ctrl-C or a full disk before it was locked
                if not made:
                    with suppress(OSError):
                        if is_ours:
                            (place / _LOCK).unlink(missing_ok=True)
                        place.rmdir()
    raise AssertionError("there are endless places")


def _clear(place: Path) -> None:
    """Remove the folder of a killed process. Leave that of a living one."""
    if not os.path.lexists(place) or place.is_symlink():
        return
    try:
        lock = FileLock(place / _LOCK, create=False)
    except FileNotFoundError:
        with suppress(OSError):
            place.rmdir()  # killed before it was locked: nothing is in it
        return
    except OSError:  # in use, or somebody else's
        return
    if lock.is_certain:
        _remove(place, lock)
    else:
        lock.release()
    if place.exists():
        warnings.warn(f"{place} is left from a process that was killed, or in use: remove it by hand", stacklevel=2)


def _remove(work: Path, lock: FileLock) -> None:
    """Remove a temporary folder, last of all its lock."""
    with suppress(OSError):
        _restore(work)
    for path in work.iterdir() if work.is_dir() else ():
        if path.name != _LOCK:
            discard(path)
    lock.remove()
    with suppress(OSError):
        work.rmdir()


def _restore(work: Path) -> None:
    """Move back a folder that was moved away, if nothing has come in its place."""
    for old in (work / _OLD).iterdir() if (work / _OLD).is_dir() else ():
        path = work.parent / old.name
        if not os.path.lexists(path):
            old.rename(path)


def discard(path: Path) -> None:
    """Remove a file or a folder, as far as that is possible."""
    shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        path.unlink(missing_ok=True)
    if path.exists():  # Windows does not remove what is read-only
        for found in (path, *path.rglob("*")):
            if not found.is_symlink():
                with suppress(OSError):
                    found.chmod(stat.S_IRWXU)
        shutil.rmtree(path, ignore_errors=True)
        with suppress(OSError):
            path.unlink(missing_ok=True)


def move(new: Path, path: Path) -> None:
    """Move a file or folder from a temporary folder to its place. It takes over the mode of what it replaces."""
    _sync(new)
    if path.exists():
        new.chmod(path.stat().st_mode & 0o7777)
    if path.is_dir():
        old = new.parent.parent / _OLD / path.name
        old.parent.mkdir()
        path.rename(old)
    os.replace(new, path)
    moved.append(path)


def _sync(path: Path) -> None:
    """Flush to disk, so that a crash of the machine does not leave an empty file in place of the old one."""
    if path.is_file():
        with path.open("r+b") as stream:  # Windows flushes only files that may be written
            os.fsync(stream.fileno())


@contextmanager
def naming(path: Path | str) -> Iterator[None]:
    """Let errors name this output, not a temporary file, or no file at all where the disk is full."""
    try:
        yield
    except OSError as error:
        is_temporary = isinstance(error.filename, str) and f"{os.sep}{_PREFIX}" in error.filename
        if error.filename is None and error.errno is not None and error.errno in _FULL:
            raise OSError(error.errno, os.strerror(error.errno), str(path)) from error  # pyarrow says more
        if is_temporary:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
