"""Signals that end a command: it cleans up first, as after Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

#: `kill` and shutdowns; a closed terminal; the same on Windows.
_NAMES = ("SIGTERM", "SIGHUP", "SIGBREAK")


class Ended(BaseException):
    """A signal ends this process."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Let such a signal raise `Ended` in this block. Those that the process was told to ignore stay ignored."""
    numbers = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
    numbers = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():  # only the main one may set handlers
        numbers = []

    def end(number: int, _frame: Any) -> None:
        for one in numbers:
            signal.signal(one, signal.SIG_IGN)  # cleaning up ends soon, and a second signal must not stop it
        raise Ended(number)

    for number in numbers:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
