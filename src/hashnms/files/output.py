"""Where output goes, and what comes from standard input."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hashnms._temporary import move, naming, temporary_folder
from hashnms.files.rows import FileError

STANDARD = Path("-")  #: standard input or output


@contextmanager
def beside(path: Path, *, folder: bool = False, names: Collection[str] = ()) -> Iterator[Path]:
    """A temporary path next to this one. When the block ends it replaces this one; after an error it is removed.

    An existing file is replaced by one with the same mode; a link still points to it. A folder is replaced as a whole,
    so it may only contain files that are written, which have these names. Standard output, pipes and devices such as
    /dev/null are written to when the block ends.
    """
    stream = path == STANDARD or (path.exists() and not path.is_file() and not path.is_dir())
    name = "standard output" if path == STANDARD else str(path)
    if not stream:
        path = Path(os.path.realpath(path))
    _check(path, stream, folder, names)
    with naming(name), temporary_folder(None if stream else path.parent, path.name) as work:
        _check(path, stream, folder, names)  # the folder that a killed process had moved away is here again
        new = work / path.name
        if folder:
            new.mkdir()
        yield new
        if stream:
            _copy(new, path)
        else:
            move(new, path)


def _check(path: Path, stream: bool, folder: bool, names: Collection[str]) -> None:
    """Check, before anything takes time, that the output can be written and that no other file is lost."""
    if not stream and not path.parent.is_dir():
        raise FileError(f"output must be in a folder that exists, got {path}")
    if not folder:
        if path.is_dir():
            raise FileError(f"output must be a file, got the folder {path}")
        return
    if stream or path.is_file():
        raise FileError(f"output must be a folder, because this format has a file for each image, got {path}")
    other = next((one.name for one in sorted(path.iterdir()) if one.name not in names), None) if path.is_dir() else None
    if other is not None:
        raise FileError(
            f"output must be a new folder or contain only files that are written again, got {path} with {other}"
        )


def _copy(new: Path, path: Path) -> None:
    """Copy to standard output, a pipe or a device."""
    with new.open("rb") as stream:
        if path == STANDARD:
            try:
                shutil.copyfileobj(stream, sys.stdout.buffer, 2**20)
                sys.stdout.buffer.flush()
            except OSError as error:
                if sys.platform == "win32" and error.errno == errno.EINVAL:  # what Windows says of a closed pipe
                    raise BrokenPipeError(errno.EPIPE, "Broken pipe") from None
                raise
            return
        with path.open("wb") as target:
            shutil.copyfileobj(stream, target, 2**20)


@contextmanager
def spooled(given: Sequence[str | os.PathLike[str]]) -> Iterator[list[str | os.PathLike[str]]]:
    """Replace standard input by a file, because it is read more than once. Errors call it "standard input"."""
    if not any(Path(path) == STANDARD for path in given):
        yield list(given)
        return
    with temporary_folder(None, "stdin") as work:
        spool = work / "stdin"
        with naming(work), spool.open("wb") as stream:
            shutil.copyfileobj(sys.stdin.buffer, stream, 2**20)
        try:
            yield [spool if Path(path) == STANDARD else path for path in given]
        except FileError as error:
            raise FileError(str(error).replace(str(spool), "standard input")) from None
