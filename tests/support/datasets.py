"""Small drawn datasets, and the real ones where they are to be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.boxes import REAL

SHARED = REAL.parent

#: As small as scenes can be and still be crowded.
SMALL = (128, 96)


def real_folder(name: str) -> Path:
    """A folder of the real data; skips the test where it is absent."""
    folder = SHARED / name
    if not folder.is_dir():
        pytest.skip(f"the real data is not beside this repository (../shared/real/{name})")
    return folder
