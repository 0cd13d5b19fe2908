"""Rows of detections in files, and what a file that is refused must leave behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hashnms.files import FileError, suppress

ROW: dict[str, Any] = {"image_id": 1, "category_id": 2, "bbox": [0, 0, 9, 9], "score": 0.5}
COLUMNS = "image,x1,y1,x2,y2,score"


def fails(path: Path, message: str, **how: Any) -> None:
    """Check that the error says this, and that the old output is unchanged."""
    out = path.with_name(f"out{path.suffix}")
    out.write_bytes(b"old")
    with pytest.raises(FileError) as error:
        suppress(path, out, "nms:0.5", **how)
    assert message in str(error.value)
    assert out.read_bytes() == b"old"
    assert {found.name for found in path.parent.iterdir()} == {path.name, out.name}


def yolo_folder(path: Path, text: str = "0 0.5 0.5 0.1 0.1 0.9\n0 0.5 0.5 0.1 0.1 0.8\n") -> Path:
    path.mkdir()
    (path / "a.txt").write_bytes(text.encode())
    return path
