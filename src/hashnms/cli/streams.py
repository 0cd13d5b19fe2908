"""Standard streams that a program may find closed, or that cannot write every symbol, as in an ASCII locale."""

from __future__ import annotations

import codecs
import io
import os
import sys

#: What is written instead of a symbol that an encoding does not have. Others become Python's escapes, such as `\u00e9`.
_PLAIN = str.maketrans(
    {"±": "+-", "\u00d7": "x", "≥": ">=", "≤": "<=", "\u2013": "-", "µ": "u", "…": "...", "•": "*", "─": "-"}
)
_PLAIN |= dict.fromkeys(range(0x2800, 0x2900), "*")  # spinners


def prepare_streams() -> None:
    """Let every message be written whatever the locale is, and keep the numbers of closed streams from being used.

    A file that got the number of a closed stream would get what is written to that stream. Messages to a closed
    standard error are lost; who needs one of the other two says so.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  print() takes None for standard output
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="hashnms-plain")


def _plain(error: UnicodeError) -> tuple[str, int]:
    """An error handler that writes symbols in plain characters."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_PLAIN)
    return text.encode("ascii", "backslashreplace").decode("ascii"), error.end


codecs.register_error("hashnms-plain", _plain)


def needs_standard_output() -> None:
    """Raise an error, before anything takes time, if what a command prints cannot be written."""
    if sys.stdout is None:
        raise ValueError("standard output must be open, got a closed one")
