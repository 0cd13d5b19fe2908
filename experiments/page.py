"""Put the tables and figures of `experiments/results` into docs/explanation/experiments.md.

    python -m experiments.page

The text between `<!-- NAME -->` and `<!-- until here -->` is made from NAME.json: a table, or the points of a figure
and its picture, which is drawn into docs/images.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from benchmarks.record import load, write
from experiments import figures, tables
from experiments.results import COMMITTED

PAGE = Path(__file__).parent.parent / "docs/explanation/experiments.md"
IMAGES = "../images"  # beside the page's folder
_MARKED = re.compile(r"<!-- ([\w.+-]+) -->\n.*?<!-- until here -->", re.DOTALL)


def written(page: str, results: Path = COMMITTED) -> str:
    """The page with its tables replaced by those of the results."""

    def between(found: re.Match[str]) -> str:
        return f"<!-- {found[1]} -->\n\n{_shown(found[1], results)}\n\n<!-- until here -->"

    return _MARKED.sub(between, page)


def _shown(name: str, results: Path) -> str:
    record = load(results / f"{name}.json")
    kind = record["kind"]
    if kind in tables.TABLES:
        lines = list(tables.lines(kind, record))
    else:
        lines = [f"![{figures.FIGURES[kind].title}]({IMAGES}/experiments-{name}.svg)\n", *figures.lines(kind, record)]
    return "\n".join(line for line in lines if not line.startswith("## ")).strip()


def draw(images: Path, results: Path = COMMITTED) -> None:
    """Draw the figures of the page."""
    records = {file.stem: load(file) for file in sorted(results.glob("*.json"))}
    for name, record in {**records, "bound": figures.bound_record()}.items():
        if record["kind"] in figures.FIGURES:
            figures.draw(record["kind"], record, images / f"experiments-{name}", suffixes=("svg",))


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    draw(PAGE.parent / IMAGES)
    write(PAGE, written(PAGE.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
