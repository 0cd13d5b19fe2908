"""A process that lacks what Windows lacks, and refuses what Windows refuses: call `imitate()` first of all."""

from __future__ import annotations

import builtins
import errno
import os
import signal
import stat
import sys
import types
import warnings
from pathlib import Path
from typing import Any

_MODULES = ("fcntl", "resource", "pwd", "grp", "spwd", "termios", "tty", "pty", "syslog", "nis", "crypt")
_NO_FUNCTIONS = (
    "fork", "forkpty", "wait", "wait3", "wait4", "waitid", "killpg", "nice", "getuid", "geteuid", "getgid", "getegid",
    "getgroups", "getpgid", "getpgrp", "getsid", "getresuid", "getpriority", "setuid", "setgid", "setsid",
    "chown", "lchown", "fchown", "fchmod", "mkfifo", "mknod", "chroot", "sysconf", "confstr", "pathconf", "fpathconf",
    "sysconf_names", "confstr_names", "pathconf_names", "statvfs", "fstatvfs", "getloadavg", "ctermid",
    "ttyname", "openpty", "pread", "preadv", "pwrite", "pwritev", "readv", "writev", "sendfile", "splice", "lockf",
    "fdatasync", "sync", "posix_fallocate", "posix_fadvise", "posix_spawn", "register_at_fork", "fchdir",
    "copy_file_range", "memfd_create", "sched_getaffinity", "sched_setaffinity", "sched_yield", "getxattr", "setxattr",
    "O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK", "O_SYNC", "O_DSYNC", "O_PATH", "O_TMPFILE", "fwalk",
)  # fmt: skip
_SIGNALS = ("SIGINT", "SIGTERM", "SIGABRT", "SIGFPE", "SIGILL", "SIGSEGV", "SIG_DFL", "SIG_IGN")


def imitate() -> None:
    """Take everything away in this process."""
    import fcntl  # noqa: PLC0415  before it is gone
    import subprocess  # noqa: F401, PLC0415  it takes any system that has msvcrt for Windows

    _lock_as_windows_does(fcntl)
    for name in _MODULES:
        sys.modules[name] = None
    for name in _NO_FUNCTIONS:
        vars(os).pop(name, None)
    for name in [*vars(signal)]:
        if name.startswith("SIG") and name not in _SIGNALS:
            delattr(signal, name)
    for name in ("supports_dir_fd", "supports_fd", "supports_follow_symlinks"):
        setattr(os, name, set())
    import shutil  # noqa: PLC0415

    vars(shutil)["_use_fd_functions"] = False
    _refuse_open_folders()
    _refuse_to_flush_what_is_only_read(fcntl)
    _refuse_to_move_what_is_open()
    warnings.filterwarnings("error", category=EncodingWarning, module="hashnms")


def _lock_as_windows_does(fcntl: types.ModuleType) -> None:
    module: Any = types.ModuleType("msvcrt")

    def locking(file: int, mode: int, _count: int) -> None:
        assert mode == module.LK_NBLCK
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PermissionError(errno.EACCES, "Permission denied") from None

    module.LK_NBLCK, module.locking = 2, locking
    sys.modules["msvcrt"] = module


def _refuse_open_folders() -> None:
    usual = os.open

    def refusing(path, *arguments, **named):
        if os.path.isdir(path):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return usual(path, *arguments, **named)

    os.open = refusing


def _refuse_to_flush_what_is_only_read(fcntl: types.ModuleType) -> None:
    usual = os.fsync

    def refusing(file):
        number = file if isinstance(file, int) else file.fileno()
        if fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, "Bad file descriptor")
        usual(number)

    os.fsync = refusing


def _refuse_to_move_what_is_open() -> None:
    """Files that are open, mapped or read-only are not moved, replaced or removed, nor are folders with open ones."""
    for name in ("unlink", "remove", "rmdir", "rename", "replace"):
        usual = getattr(os, name)

        def refusing(path, *other, usual=usual, name=name, **named):
            for one in (path, *other):
                _check(Path(one), is_removed=name in ("unlink", "remove", "replace") and (one is not path or not other))
            return usual(path, *other, **named)

        setattr(os, name, refusing)


def _check(path: Path, is_removed: bool) -> None:
    if path.is_symlink() or not path.exists():
        return
    if is_removed and path.is_file() and not path.stat().st_mode & stat.S_IWUSR:
        raise PermissionError(errno.EACCES, "Access is denied", str(path))
    real = os.path.realpath(path)
    for used in _in_use():
        if used == real or used.startswith(real + os.sep):
            raise PermissionError(
                errno.EACCES, "The process cannot access the file because it is being used", str(path)
            )


def _in_use() -> list[str]:
    """The files that this process has open or mapped."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            continue
    with builtins.open("/proc/self/maps", encoding="utf-8") as maps:
        found += [line.split(maxsplit=5)[5].rstrip("\n") for line in maps if len(line.split(maxsplit=5)) == 6]
    return found
