"""Output that appears whole or not at all: written beside its place, and moved there when it is complete."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hashnms.files.rows import FileError

STANDARD = Path("-")  #: standard input or output


@contextmanager
def beside(path: Path, *, folder: bool = False) -> Iterator[Path]:
    """A path to write to, beside this one. When the block ends it takes its place; after an error it is removed.

    Standard output is written when the block ends. Of a folder, the old one is replaced as a whole.
    """
    parent = Path(tempfile.gettempdir()) if path == STANDARD else path.absolute().parent
    if not parent.is_dir():
        raise FileError(f"output must be in a folder that exists, got {path}")
    work = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=parent))
    try:
        new = work / path.name
        if folder:
            new.mkdir()
        yield new
        if path == STANDARD:
            with new.open("rb") as stream:
                shutil.copyfileobj(stream, sys.stdout.buffer, 2**20)
            sys.stdout.buffer.flush()
            return
        if folder and path.exists():
            path.rename(work / "old")
        _sync(new)
        os.replace(new, path)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _sync(path: Path) -> None:
    """To the disk, so that a crash of the machine does not leave an empty file in the place of the old one."""
    if path.is_file():
        with path.open("rb") as stream:
            os.fsync(stream.fileno())


@contextmanager
def spooled(suffix: str = "") -> Iterator[Path]:
    """Standard input as a file, for it is read more than once."""
    with tempfile.TemporaryDirectory(prefix="hashnms-") as work:
        path = Path(work) / f"stdin{suffix}"
        with path.open("wb") as stream:
            shutil.copyfileobj(sys.stdin.buffer, stream, 2**20)
        yield path
