"""The results of `compare` as a table on the screen, Markdown, CSV and JSON. Columns without values are left out."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE
from rich.table import Table

if TYPE_CHECKING:
    from hashnms.compare import Compared


def as_dicts(rows: Sequence[Compared]) -> list[dict[str, Any]]:
    """Flat dicts, all with the same keys; None where a row has no value.

    `ms` is the time of all images together. Shares are from 0 to 1.
    """
    dicts = [_flat(row) for row in rows]
    names = list(dict.fromkeys(name for row in dicts for name, value in row.items() if value is not None))
    return [{name: row.get(name) for name in names} for row in dicts]


def _flat(row: Compared) -> dict[str, Any]:
    quality = row.quality
    return {
        "method": row.method,
        "boxes_in": row.boxes_in,
        "kept": row.kept,
        "ms": row.seconds * 1e3,
        "ms_spread": row.spread * 1e3,
        "speed_up": row.speed_up,
        "recall_of_first": row.agreement.recall,
        "precision_of_first": row.agreement.precision,
        "map_50": None if quality is None else _number(quality.map_50),
        "map": None if quality is None else _number(quality.map),
        "recall_50": None if quality is None else _number(quality.recall_50),
        **row.parameters,
    }


def _number(value: float) -> float | None:
    """None for NaN, which JSON does not have."""
    return None if math.isnan(value) else value


def as_json(rows: Sequence[Compared]) -> str:
    """A list of the flat dicts."""
    return json.dumps(as_dicts(rows), indent=2) + "\n"


def as_csv(rows: Sequence[Compared]) -> str:
    """A header, then a line for each row; a field is empty where a row has no value."""
    dicts = as_dicts(rows)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dicts[0]) if dicts else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(dicts)
    return text.getvalue()


def as_markdown(rows: Sequence[Compared]) -> str:
    """A table in GitHub's Markdown."""
    names = [re.sub(r"(?<=[-/])\n", "", name).replace("\n", " ") for name in _headings(rows)]
    lines = [names, ["---", *["---:"] * (len(names) - 1)]]
    lines += [[f"`{method}`", *cells] for method, *cells in (_cells(row, len(names)) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def as_table(rows: Sequence[Compared], title: str | None = None) -> Table:
    """A table for a terminal of 100 characters, or 80 if methods are short. Each step of a method has its own line."""
    names = _headings(rows)
    gap = 1 if len(names) < 9 else 0  # in addition to the border's own: all columns only fit without it
    table = Table(title=title, box=SIMPLE, collapse_padding=True, pad_edge=False, padding=(0, gap))
    for name in names:
        first = name == "method"
        table.add_column(
            name, justify="left" if first else "right", vertical="bottom", no_wrap=not first, overflow="fold"
        )
    for row in rows:
        method, *cells = _cells(row, len(names))
        table.add_row(method.replace("+", "\n+"), *cells)
    return table


def _headings(rows: Sequence[Compared]) -> list[str]:
    names = ["method", "boxes\nin", "kept", "time", "speed-\nup", "recall/\nprecision"]
    return names + (["mAP\n@0.5", "mAP", "recall\n@0.5"] if any(row.quality is not None for row in rows) else [])


def _cells(row: Compared, count: int) -> list[str]:
    """The first `count` cells of a row, as text."""
    found = row.agreement
    quality = row.quality
    shares = [math.nan] * 3 if quality is None else [quality.map_50, quality.map, quality.recall_50]
    cells = [
        row.method,
        f"{row.boxes_in:,}",
        f"{row.kept:,}",
        _time(row.seconds, row.spread),
        f"{_digits(row.speed_up)}x",
        f"{found.recall * 100:.1f}/{found.precision:.1%}",
        *("-" if math.isnan(share) else f"{share:.1%}" for share in shares),
    ]
    return cells[:count]


def _time(seconds: float, spread: float) -> str:
    """A time with its spread, both in the same unit."""
    unit, name = (1.0, "s") if seconds >= 1 else (1e-3, "ms") if seconds >= 1e-4 else (1e-6, "µs")
    value = seconds / unit
    places = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{places}f} ± {spread / unit:.{places}f} {name}"


def _digits(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"
