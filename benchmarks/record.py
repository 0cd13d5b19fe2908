"""The results of `python -m benchmarks` as a file, with one line per result, so that versions can be compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

#: The results that the page and `make bench-quick` use.
COMMITTED = Path(__file__).parent / "results.json"


def save(record: dict[str, Any], path: Path) -> None:
    write(path, _written(record, 0) + "\n")


def load(path: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return record


def write(path: Path, text: str) -> None:
    """Write a file and move it into place when complete."""
    beside = path.with_name(path.name + ".new")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def _written(value: Any, depth: int) -> str:
    if isinstance(value, dict) and any(isinstance(one, dict | list) for one in value.values()):
        inner = [f"{json.dumps(key)}: {_written(one, depth + 1)}" for key, one in value.items()]
        return _lines("{", inner, "}", depth)
    if isinstance(value, list):
        return _lines("[", [_written(one, depth + 1) for one in value], "]", depth)
    return json.dumps(value)


def _lines(opening: str, inner: list[str], closing: str, depth: int) -> str:
    space = "\n" + " " * depth
    return opening + ",".join(f"{space} {line}" for line in inner) + space + closing
