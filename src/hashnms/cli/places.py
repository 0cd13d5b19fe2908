"""Where a command writes: checked before anything takes time, so that no file is lost and no work is in vain."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from hashnms._temporary import temporary_folder

Others = Mapping[str, Iterable[Path]]


def check_place(option: str, path: Path, others: Others) -> None:
    """Check that a file can be written and is none of the others.

    Args:
        option: what the user calls the file, such as "--report".
        path: the file.
        others: what the user calls other files, and their paths. No file in one of them that is a folder may be given.
    """
    if str(path) == "-":
        raise ValueError(f"{option} must be a file, got - for standard output")
    if path.is_dir():
        raise ValueError(f"{option} must be a file, got the folder {path}")
    real = Path(os.path.realpath(path))
    if real.is_symlink():  # although its links were followed
        raise ValueError(f"{option} must be a file, got {path}, a link that leads to itself")
    folder = real.parent
    if not folder.is_dir():
        raise ValueError(f"{option} must be in a folder that exists, got {path}")
    for name, paths in others.items():
        if any(_holds(other, path) for other in paths):
            raise ValueError(f"{option} must be another file than {name}, got {path}")
    if path.exists() and not path.is_file():
        return  # a pipe or a device
    try:
        with temporary_folder(folder, real.name):
            pass
    except OSError as error:
        raise ValueError(f"{option} must be in a folder that can be written to, got {path}: {error.strerror}") from None


def _holds(other: Path, path: Path) -> bool:
    """Whether two paths lead to the same file, or the second into the first, a folder."""
    if other.is_file() and path.is_file():
        return other.samefile(path)
    names, beginning = _parts(path), _parts(other)
    return names[: len(beginning)] == beginning


def _parts(path: Path) -> Sequence[str]:
    """The parts of a path that leads nowhere yet, the same for all names that some file system takes as the same."""
    return Path(unicodedata.normalize("NFC", os.path.realpath(path)).casefold()).parts


def read_files(inputs: Iterable[str], format: str | None) -> list[Path]:
    """The files that a command will read. Standard input and pipes are left out."""
    from hashnms.files.formats import expanded  # noqa: PLC0415
    from hashnms.files.output import is_stream  # noqa: PLC0415

    given = [path for path in inputs if not is_stream(Path(path))]
    found = expanded(given, format)[0] if given else []
    return [file for path in found for file in (path.glob("*.txt") if path.is_dir() else [path])]
