"""The examples of Markdown pages: Python blocks, Python sessions and commands, in the order a reader meets them.

A page's examples share their names and their folder. Code that a reader need not see is in a comment of the page:

- `<!-- also run:` and lines of Python up to `-->` are run like a block;
- `<!-- not run: why -->` before a block leaves it out.
"""

from __future__ import annotations

import ast
import doctest
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_EXAMPLE = re.compile(
    r"^(?:<!-- not run: (?P<why>[^\n]+) -->\n+)?```(?P<kind>python|pycon|console)\n(?P<code>.*?)^```$"
    r"|^<!-- also run:\n(?P<hidden>.*?)^-->$",
    re.DOTALL | re.MULTILINE,
)
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Example:
    """One block of a page."""

    kind: str  #: python, pycon or console
    code: str
    line: int
    not_run: str | None  #: why, if it is not run

    def imported(self) -> set[str]:
        """The packages that it imports."""
        if self.kind == "console" or self.not_run:
            return set()
        code = self.code if self.kind == "python" else _typed(self.code)
        nodes = list(ast.walk(ast.parse(code)))
        names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
        names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
        return {name.partition(".")[0] for name in names}

    def run(self, page: Path, names: dict[str, Any]) -> None:
        """As a reader would, in the current folder."""
        if self.kind == "python":
            padding = "\n" * self.line  # so that a traceback has the line of the page
            exec(compile(padding + self.code, page, "exec"), names)
        elif self.kind == "pycon":
            test = doctest.DocTestParser().get_doctest(self.code, names, page.name, str(page), self.line)
            failed = doctest.DocTestRunner(optionflags=_FLAGS).run(test, clear_globs=False).failed
            names.update(test.globs)  # the parser has copied them
            assert not failed
        else:
            for command, expected in _commands(self.code):
                _run(command, expected)


def examples_of(page: Path) -> list[Example]:
    """Those of a page, in its order."""
    text = page.read_text(encoding="utf-8")
    return [
        Example(
            kind=found["kind"] or "python",
            code=found["code"] or found["hidden"],
            line=text.count("\n", 0, found.start("code" if found["kind"] else "hidden")),
            not_run=found["why"],
        )
        for found in _EXAMPLE.finditer(text)
    ]


def _typed(session: str) -> str:
    return "".join(example.source for example in doctest.DocTestParser().get_examples(session))


def _commands(code: str) -> Iterator[tuple[str, str]]:
    """Each command and the output below it, which is empty where it is not shown."""
    for part in re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def _run(command: str, expected: str) -> None:
    name, *arguments = shlex.split(command, comments=True)
    assert name == "hashnms", f"examples run hashnms and nothing else, got {command!r}"
    result = subprocess.run(
        [sys.executable, "-m", "hashnms", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    output = _without_rates(result.stdout + result.stderr)
    assert result.returncode == 0, output
    expected = re.sub(r"[\d.,]+(?= s\b)", "...", _without_rates(expected))  # times differ
    if expected.strip():
        assert doctest.OutputChecker().check_output(expected, output, _FLAGS), output


def _without_rates(text: str) -> str:
    """Only a command that takes over a second says its rate, so a slow machine says it more often."""
    return re.sub(r", [\d.,]+ boxes/s\b", "", text)
