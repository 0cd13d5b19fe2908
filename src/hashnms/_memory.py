"""How much memory the machine has."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache

_UNKNOWN = 2**33  #: what to assume of a system that does not say


@cache
def machine_memory() -> int:
    """The memory of the machine in bytes."""
    if sys.platform == "win32":
        return _of_windows()
    try:
        return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return _UNKNOWN


class _Status(ctypes.Structure):
    """MEMORYSTATUSEX of the Windows API."""

    _fields_ = (
        ("length", ctypes.c_uint32),
        ("load", ctypes.c_uint32),
        ("physical", ctypes.c_uint64),
        ("others", ctypes.c_uint64 * 6),
    )


def _of_windows() -> int:
    status = _Status(length=ctypes.sizeof(_Status))
    found = ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status))  # type: ignore[attr-defined,unused-ignore]
    return int(status.physical) if found else _UNKNOWN
