"""Write a report as one HTML file that needs no network and no server.

All text comes from files and is not trusted: it is escaped here, and the script sets it with `textContent`. The page's
Content-Security-Policy lets only the page's own script run.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import os
import unicodedata
import zlib
from collections.abc import Iterator
from importlib.resources import files
from numbers import Integral
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from hashnms._temporary import move, naming, temporary_folder
from hashnms.report.data import Picture, Report

_SCRIPTS = ("page.js", "plots.js", "view.js", "viewer.js", "controls.js")

#: Characters that change the direction of writing: they could make a name look like another.
_DIRECTION = {0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}

_IN_SCRIPT = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&"})


def write_report(report: Report, path: str | os.PathLike[str]) -> None:
    """Write the page. It is moved into place when it is complete, so `path` always holds a whole page, old or new.

    Raises:
        OSError: if the folder cannot be written to; an old page at `path` stays.
    """
    path = Path(path)
    page = _page(report).encode()
    if path.exists() and not path.is_file() and not path.is_dir():  # a pipe, /dev/null
        with naming(path):
            path.write_bytes(page)
        return
    path = Path(os.path.realpath(path))  # a link stays a link
    with naming(path), temporary_folder(path.parent, path.name) as work:
        new = work / path.name
        new.write_bytes(page)
        move(new, path)


def _page(report: Report) -> str:
    css, js = _asset("page.css"), "\n".join(map(_asset, _SCRIPTS))
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
        f"style-src '{_hash(css)}'; script-src '{_hash(js)}'"
    )
    return Template(_asset("template.html")).substitute(  # in one pass: inserted text is not scanned again
        policy=policy,
        title=html.escape(shown(report.title)),
        subtitle=html.escape(shown(report.subtitle)),
        css=css,
        js=js,
        about=_json(_about(report)),
        data="\n".join(_blocks(report)),
    )


def shown(text: Any) -> str:
    r"""Escape each character that is invisible or could change how the text around it is displayed.

    >>> print(shown("a\u202eb\ud800\n"))
    a\u202eb\ud800\u000a
    """
    return "".join(
        f"\\u{ord(character):04x}"
        if ord(character) in _DIRECTION or unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
        else character
        for character in str(text)
    )


def _about(report: Report) -> dict[str, Any]:
    """Everything except arrays and images; methods and pictures are referred to by their index."""
    places = {method.name: place for place, method in enumerate(report.methods)}
    return {
        "methods": [
            {
                "name": shown(method.name),
                "values": {shown(name): _number(value) for name, value in method.values.items()},
                "parameters": {shown(name): _number(value) for name, value in method.parameters.items()},
            }
            for method in report.methods
        ],
        "pictures": [
            {
                "name": shown(picture.name),
                "width": float(picture.width),
                "height": float(picture.height),
                "count": len(picture.boxes),
                "labels": [shown(name) for name in picture.label_names],
                "hasImage": picture.image is not None,
                "hasRows": picture.rows is not None,
                "files": [[shown(name), int(first)] for name, first in picture.files],
                "methods": sorted(places[name] for name in picture.outcomes),
                "rescored": [places[name] for name, outcome in picture.outcomes.items() if outcome.scores is not None],
                "merged": [places[name] for name, outcome in picture.outcomes.items() if outcome.boxes is not None],
            }
            for picture in report.pictures
        ],
        "boxesPerImage": [
            {"name": shown(name), "method": places.get(name), "counts": [int(count) for count in counts]}
            for name, counts in report.boxes_per_image.items()
        ],
    }


def _blocks(report: Report) -> Iterator[str]:
    """The arrays and images, each in a script element that browsers do not run; read when the picture is chosen."""
    places = {method.name: place for place, method in enumerate(report.methods)}
    for number, picture in enumerate(report.pictures):
        for name, content in _contents(picture, places):
            yield f'<script type="application/octet-stream" id="p{number}-{name}">{content}</script>'


def _contents(picture: Picture, places: dict[str, int]) -> Iterator[tuple[str, str]]:
    yield "boxes", _packed(picture.boxes.T, "<f4")
    yield "scores", _packed(picture.scores, "<f4")
    yield "labels", _packed(picture.labels, "<i4")
    if picture.rows is not None:
        yield "rows", _packed(picture.rows, "<u4")
    for name, outcome in picture.outcomes.items():
        yield f"suppressor-{places[name]}", _packed(outcome.suppressor, "<i4")
        if outcome.scores is not None:
            yield f"scores-{places[name]}", _packed(outcome.scores, "<f4")
        if outcome.boxes is not None:  # only of kept rows
            yield f"boxes-{places[name]}", _packed(outcome.boxes[outcome.keep].T, "<f4")
    if picture.image is not None:
        yield "image", f"data:{picture.media_type};base64,{base64.b64encode(picture.image).decode()}"


def _packed(array: Any, dtype: str) -> str:
    """Four-byte numbers, compressed: all first bytes, then all second bytes, ..., deflated, in base 64."""
    numbers = np.ascontiguousarray(array, dtype).reshape(-1)
    planes = numbers.view(np.uint8).reshape(-1, 4).T.tobytes()
    return base64.b64encode(zlib.compress(planes, 6)).decode()


def _number(value: Any) -> float | int | None:
    """A number for JSON; None if it is not finite."""
    if value is None or not math.isfinite(value):
        return None
    return int(value) if isinstance(value, Integral) else float(value)


def _json(value: Any) -> str:
    r"""JSON that is safe in a script element: ASCII, with `<`, `>` and `&` escaped."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).translate(_IN_SCRIPT)


def _hash(text: str) -> str:
    """The hash by which a Content-Security-Policy allows an inline element."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _asset(name: str) -> str:
    """A file of this package, with the line ends that the browser will see and hash."""
    return files("hashnms.report").joinpath(name).read_text("utf-8").replace("\r\n", "\n")
