"""How many threads a call may use. Results never depend on it."""

from __future__ import annotations

import os
import threading

from hashnms import _core, _settings


def _available_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _tell_main_thread() -> None:
    """Tell the core which thread is the main one: long calls there check for signals, so that Ctrl-C stops them."""
    _core.set_main_thread(threading.main_thread().ident or 0)


_core.set_num_threads(_available_cores())
_tell_main_thread()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_tell_main_thread)


def get_num_threads() -> int:
    """The number of threads that a call may use: by default, one for each core this process may run on.

    >>> get_num_threads() >= 1
    True
    """
    return _core.get_num_threads()


def set_num_threads(num_threads: int) -> None:
    """Let each call use up to this many threads; small inputs use one. Results do not depend on it.

    >>> before = get_num_threads()
    >>> set_num_threads(1)
    >>> get_num_threads()
    1
    >>> set_num_threads(before)
    """
    _core.set_num_threads(_settings.count_value("num_threads", num_threads, most=1024))
