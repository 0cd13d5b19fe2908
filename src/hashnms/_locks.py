"""Locks on files. The system drops a lock when its process ends, however it ends."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

_fcntl: Any = None
_msvcrt: Any = None
try:
    import fcntl as _fcntl
except ImportError:
    with suppress(ImportError):
        import msvcrt as _msvcrt  # Windows


class FileLock:
    """A file that this process has locked."""

    def __init__(self, path: Path, *, create: bool = True) -> None:
        """Lock a file.

        Raises:
            BlockingIOError: if it is locked already, or was removed meanwhile.
            FileNotFoundError: if there is no such file or folder.
        """
        self.path = path
        self._file = path.open("ab" if create else "r+b")
        try:
            self.is_certain = _lock(self._file.fileno())  #: False: the system has no locks for this file
            if not _same(self._file.fileno(), path):
                raise BlockingIOError
        except BaseException:
            self._file.close()
            raise

    def release(self) -> None:
        """Release the lock, and leave the file."""
        self._file.close()

    def remove(self) -> None:
        """Remove the file and release the lock, in this order: nobody gets a lock on a file that is gone."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError:  # Windows does not remove an open file
            self._file.close()
            with suppress(OSError):
                self.path.unlink(missing_ok=True)
        self._file.close()


def _lock(file: int) -> bool:
    """Lock an open file. Returns False if the system cannot."""
    if _fcntl is not None:
        try:
            _fcntl.flock(file, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:  # some network file systems
            return False
        return True
    if _msvcrt is not None:
        try:
            os.lseek(file, 0, os.SEEK_SET)
            _msvcrt.locking(file, _msvcrt.LK_NBLCK, 1)
        except OSError:
            raise BlockingIOError from None
        return True
    return False


def _same(file: int, path: Path) -> bool:
    """Whether a path still is this open file."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False
