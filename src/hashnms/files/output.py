"""Output that appears whole or not at all: written beside its place, and moved there when it is complete."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hashnms.files.rows import FileError

STANDARD = Path("-")  #: standard input or output


@contextmanager
def beside(path: Path, *, folder: bool = False, names: Collection[str] = ()) -> Iterator[Path]:
    """A path to write to, beside this one. When the block ends it takes its place; after an error it is removed.

    What stands there is replaced: a file by one of the same mode, behind a link if there is one; a folder as a whole,
    so it may have no other files than those that are written, which have these names. Standard output and what is
    neither file nor folder, such as a pipe or /dev/null, are written to when the block ends.
    """
    stream = path == STANDARD or (path.exists() and not path.is_file() and not path.is_dir())
    if not stream:
        path = Path(os.path.realpath(path))
    _check(path, stream, folder, names)
    work = Path(tempfile.mkdtemp(prefix=".hashnms-", dir=None if stream else path.parent))
    try:
        new = work / path.name
        if folder:
            new.mkdir()
        yield new
        if stream:
            _copy(new, path)
            return
        if path.exists():
            new.chmod(path.stat().st_mode & 0o7777)
        if folder and path.exists():
            path.rename(work / "old")
        _sync(new)
        os.replace(new, path)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _check(path: Path, stream: bool, folder: bool, names: Collection[str]) -> None:
    """Before anything takes time: that the output can be there and nothing else is lost."""
    if not stream and not path.parent.is_dir():
        raise FileError(f"output must be in a folder that exists, got {path}")
    if not folder:
        if path.is_dir():
            raise FileError(f"output must be a file, got the folder {path}")
        return
    if stream or path.is_file():
        raise FileError(f"output must be a folder, since this format has a file for each image, got {path}")
    other = next((one.name for one in sorted(path.iterdir()) if one.name not in names), None) if path.is_dir() else None
    if other is not None:
        raise FileError(
            f"output must be a new folder or one with no other files than those that are written, "
            f"got {path} with {other}"
        )


def _copy(new: Path, path: Path) -> None:
    """To standard output, or to what is neither file nor folder."""
    with new.open("rb") as stream:
        if path == STANDARD:
            shutil.copyfileobj(stream, sys.stdout.buffer, 2**20)
            sys.stdout.buffer.flush()
            return
        with path.open("wb") as target:
            shutil.copyfileobj(stream, target, 2**20)


def _sync(path: Path) -> None:
    """To the disk, so that a crash of the machine does not leave an empty file in the place of the old one."""
    if path.is_file():
        with path.open("rb") as stream:
            os.fsync(stream.fileno())


@contextmanager
def spooled(given: Sequence[str | os.PathLike[str]]) -> Iterator[list[str | os.PathLike[str]]]:
    """Inputs with a file in the place of standard input, for it is read more than once. Errors have its usual name."""
    if not any(Path(path) == STANDARD for path in given):
        yield list(given)
        return
    with tempfile.TemporaryDirectory(prefix="hashnms-") as work:
        spool = Path(work) / "stdin"
        with spool.open("wb") as stream:
            shutil.copyfileobj(sys.stdin.buffer, stream, 2**20)
        try:
            yield [spool if Path(path) == STANDARD else path for path in given]
        except FileError as error:
            raise FileError(str(error).replace(str(spool), "standard input")) from None
