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


def is_stream(path: Path) -> bool:
    """Whether a path is standard input or output, a pipe or a device: it can be read only once, and not be replaced."""
    return path == STANDARD or (path.exists() and not path.is_file() and not path.is_dir())


@contextmanager
def beside(path: Path, *, folder: bool = False, names: Collection[str] = ()) -> Iterator[Path]:
    """A temporary path next to this one. When the block ends it replaces this one; after an error it is removed.

    An existing file is replaced by one with the same mode; a link still points to it. A folder is replaced as a whole,
    so it may only contain files that are written, which have these names. Standard output, pipes and devices such as
    /dev/null are written to when the block ends.
    """
    stream = is_stream(path)
    if path == STANDARD and sys.stdout is None:
        raise FileError("standard output must be open, got a closed one")
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
    if not stream and path.is_symlink():  # although its links were followed
        raise FileError(f"output must be a file or a folder, got {path}, a link that leads to itself")
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
    """Replace standard input, pipes and devices by files, because input is read more than once.

    Errors name what was given, and "standard input".
    """
    streams = list(dict.fromkeys(str(path) for path in given if is_stream(Path(path))))
    if not streams:
        yield list(given)
        return
    with temporary_folder(None, "input") as work:
        spools = {name: work / str(number) / Path(name).name for number, name in enumerate(streams)}
        for name, spool in spools.items():
            spool.parent.mkdir()
            with naming(work):
                _spool(name, spool)
        try:
            yield [spools.get(str(path), path) for path in given]
        except FileError as error:
            message = str(error)
            for name, spool in spools.items():
                message = message.replace(str(spool), stream_name(name))
            raise FileError(message) from None


def _spool(name: str, spool: Path) -> None:
    """Copy standard input, a pipe or a device to a file."""
    with spool.open("wb") as target:
        if Path(name) != STANDARD:
            with open(name, "rb") as stream:
                shutil.copyfileobj(stream, target, 2**20)
            return
        if sys.stdin is None:
            raise FileError("standard input must be open, got a closed one")
        shutil.copyfileobj(sys.stdin.buffer, target, 2**20)


def stream_name(given: str | os.PathLike[str]) -> str:
    """What messages call an input."""
    return "standard input" if Path(given) == STANDARD else str(given)
