"""Records that are divided into many files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from numpy.typing import NDArray

MOST_FILES = 512
_OTHERS = 64  #: open files of the rest of the process


class Spread:
    """New files that records are appended to, in a `with` block.

    They stay open if the system allows so many, which is faster. On macOS a process may have only 256 by default.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = paths
        self._files: list[BinaryIO] = []
        many = len(paths) + _OTHERS > _most_open()
        try:
            for path in paths:
                file = path.open("wb", buffering=2**14)
                if many:
                    file.close()
                else:
                    self._files.append(file)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Spread:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def append(self, records: NDArray[Any], ends: Iterable[int]) -> None:
        """Append to each file its records. Those of the first file end at the first of `ends`, and so on."""
        for number, (start, end) in enumerate(pairwise([0, *ends])):
            if start == end:
                continue
            if self._files:
                self._files[number].write(records[start:end].data)
            else:
                with self.paths[number].open("ab", buffering=0) as file:
                    file.write(records[start:end].data)

    def close(self) -> None:
        with ExitStack() as stack:  # all, even if one cannot write its last records
            for file in self._files:
                stack.callback(file.close)


def _most_open() -> int:
    """How many files a process may have open."""
    try:
        import resource  # noqa: PLC0415
    except ImportError:  # Windows
        return 8192
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 2**20 if most == resource.RLIM_INFINITY else most
