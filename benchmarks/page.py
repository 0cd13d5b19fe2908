"""A page of tables, written from the results of `python -m benchmarks`: `python -m benchmarks.page RESULTS`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.compare import fitted_exponent

DOCS = Path(__file__).parent.parent / "docs"
#: From so many boxes on the growth of time is fitted.
GROWTH_FROM = 10_000

INTRODUCTION = """\
# Side by side with every peer

Written by `python -m benchmarks.page` from one run of `python -m benchmarks`. Times are ratios within that run: how
many times as long a peer takes as hashnms for the same boxes, best of interleaved rounds, one thread each. An answer
was looked at before its time counted; *differs* is explained below each table. An empty cell is a peer that would need
over a minute.

The machine: {machine}. {versions}.

To repeat: `pip install ".[bench]"`, then `make bench`.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="what python -m benchmarks wrote")
    parser.add_argument("--output", type=Path, default=DOCS / "benchmarks.md")
    arguments = parser.parse_args()
    record = json.loads(arguments.results.read_text(encoding="utf-8"))
    beside = arguments.output.with_name(arguments.output.name + ".new")
    beside.write_text("\n".join(page(record)) + "\n", encoding="utf-8")
    beside.replace(arguments.output)


def page(record: dict[str, Any]) -> Iterator[str]:
    versions = ", ".join(f"{package} {version}" for package, version in record["versions"].items())
    yield INTRODUCTION.format(machine=record["machine"], versions=versions)
    for family in record["families"].values():
        yield f"## {family['title']}\n"
        yield from table(family["results"])
    if "memory" in record:
        yield "## Peak memory\n"
        yield from memory_table(record["memory"])


def table(results: list[dict[str, Any]]) -> Iterator[str]:
    """A row for each workload, a column for each peer; then what differs, and how times grow."""
    peers = list(dict.fromkeys(result["peer"] for result in results))
    works = list(dict.fromkeys((result["workload"], result["boxes"]) for result in results))
    found = {(result["workload"], result["boxes"], result["peer"]): result for result in results}
    ours, *others = peers
    yield f"| workload | boxes | {ours}, ns a box | " + " | ".join(others) + " |"
    yield "|---|---:|---:|" + "---:|" * len(others)
    notes = []
    for work in works:
        best = found[(*work, ours)]["best"]
        cells = []
        for peer in others:
            result = found.get((*work, peer))
            if result is None or result["best"] is None:
                cells.append("" if result is None or result["answer"] == "over a minute" else "fails")
                continue
            mark = "" if result["answer"].startswith(("same", "recall")) else " differs"
            cells.append(f"{result['best'] / best:.3g}x{mark}")
        yield f"| {work[0]} | {work[1]:,} | {1e9 * best / work[1]:,.0f} | " + " | ".join(cells) + " |"
        for peer in others:
            answer = found.get((*work, peer), {}).get("answer", "same")
            if answer not in ("same", "over a minute") and not answer.startswith("recall"):
                notes.append(f"- {peer}, {work[0]}, {work[1]:,} boxes: {answer}.")
    yield ""
    yield from notes
    yield from growth(peers, works, found)


def growth(peers: list[str], works: list[Any], found: dict[Any, Any]) -> Iterator[str]:
    """The exponents, where a workload comes in several sizes."""
    exponents = []
    for peer in peers:
        points = [
            (size, found[work, size, peer]["best"])
            for work, size in works
            if size >= GROWTH_FROM and found.get((work, size, peer), {}).get("best")
        ]
        if len({size for size, _ in points}) > 1:
            exponents.append(f"{peer} {fitted_exponent(points):.2f}")
    if exponents and len({work for work, _ in works}) == 1:
        yield f"Exponent of the time, fitted from {GROWTH_FROM:,} boxes on: {', '.join(exponents)}.\n"


def memory_table(memory: dict[str, Any]) -> Iterator[str]:
    yield f"Bytes a box beside the input, {memory['boxes']:,} boxes:\n"
    for kind, peers in memory["bytes"].items():
        yield f"| {kind} | bytes a box |\n|---|---:|"
        for peer, taken in peers.items():
            share = "unknown" if taken is None else f"{taken / memory['boxes']:,.0f}"
            yield f"| {peer} | {share} |"
        yield ""


if __name__ == "__main__":
    main()
