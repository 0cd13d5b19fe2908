"""Numbers in text: files, notations, sweeps and options of the command line all take the same."""

from __future__ import annotations

import re

_WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity|nan)", re.IGNORECASE)
_BLANKS = " \t"  #: allowed around a number, as in pyarrow


def whole(text: str) -> int:
    """A whole number in ASCII digits, such as 1000, without the underscores and foreign digits that `int` takes.

    >>> whole("1000")
    1000
    >>> whole("1_000")
    Traceback (most recent call last):
    ValueError: must be a whole number, got '1_000'
    """
    plain = text.strip(_BLANKS)
    if not _WHOLE.fullmatch(plain):
        raise ValueError(f"must be a whole number, got {text!r}")
    return int(plain)


def real(text: str) -> float:
    """A decimal number in ASCII digits, such as 0.5 or 1e-3; inf and nan are read, so that a check can name them.

    >>> real(" 5e-1")
    0.5
    >>> real("0.5_0")
    Traceback (most recent call last):
    ValueError: must be a number, got '0.5_0'
    """
    plain = text.strip(_BLANKS)
    if not _NUMBER.fullmatch(plain):
        raise ValueError(f"must be a number, got {text!r}")
    return float(plain)
