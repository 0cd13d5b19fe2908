"""What the README says about the speed of exact NMS, from the results of `python -m benchmarks`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import tables
from benchmarks.peers import OUR_NMS, OUR_NMS_OF_TENSORS
from benchmarks.record import write

#: The text between these lines of the README is written here, block by block.
HEADLINE_BEGIN, HEADLINE_END = "<!-- benchmarks.page: {} -->", "<!-- end -->"
HEADLINE_SIZE = 45_000
HEADLINE_SIZES = [100, 1_000, 10_000, 45_000, 100_000, 1_000_000]
ARRAY_PEERS = ["powerboxes nms", "lsnms", "OpenCV", "onnxruntime"]


def headline(record: dict[str, Any]) -> dict[str, list[str]]:
    """The lines of each block."""
    families = [tables.Family(record["families"][name]["results"]) for name in ("nms-0.5", "nms-0.7")]
    return {"sentence": list(headline_sentence(families[0])), "tables": list(headline_tables(families))}


def headline_sentence(family: tables.Family) -> Iterator[str]:
    theirs, ours = beside(family, HEADLINE_SIZE, OUR_NMS_OF_TENSORS.name, "torchvision")
    yield "**A drop-in replacement for `torchvision.ops.nms`: the same boxes in the same order.**"
    yield f"**{HEADLINE_SIZE:,} boxes on one CPU core: {theirs} with torchvision, {ours} with hashnms.**"


def headline_tables(families: list[tables.Family]) -> Iterator[str]:
    """Tensors against tensors, arrays against arrays."""
    yield "**Tensors**, against `torchvision.ops.nms`:\n"
    head = ["boxes", *(f"{who}, IoU {iou}" for iou in (0.5, 0.7) for who in ("torchvision", "hashnms"))]
    body = (
        [
            f"{size:,}",
            *(cell for family in families for cell in beside(family, size, OUR_NMS_OF_TENSORS.name, "torchvision")),
        ]
        for size in HEADLINE_SIZES
    )
    yield from tables.rows(head, body, left=0)
    yield "**NumPy arrays**, IoU 0.5, and how many times as long as hashnms each takes:\n"
    body = ([f"{size:,}", *array_cells(families[0], size)] for size in HEADLINE_SIZES)
    yield from tables.rows(["boxes", "hashnms", *ARRAY_PEERS], body, left=0)


def beside(family: tables.Family, size: int, ours: str, peer: str) -> tuple[str, str]:
    """The time of a peer, and ours with how many times as long the peer takes."""
    work = (family.works[0][0], size)
    theirs, seconds = family.seconds(work, peer), family.seconds(work, ours)
    ratio = f" ({tables.shown(theirs / seconds)}x faster)" if theirs and seconds else ""
    return tables.time_cell(family, work, peer), tables.time_cell(family, work, ours) + ratio


def array_cells(family: tables.Family, size: int) -> Iterator[str]:
    work = (family.works[0][0], size)
    yield tables.time_cell(family, work, OUR_NMS.name)
    for peer in ARRAY_PEERS:
        ratio = tables.ratio_cell(family, work, peer)
        timed = family.seconds(work, peer) is not None
        yield tables.time_cell(family, work, peer) + (f" ({ratio})" if timed else "")


def write_headline(record: dict[str, Any], readme: Path) -> None:
    text = readme.read_text(encoding="utf-8")
    for name, lines in headline(record).items():
        begin = HEADLINE_BEGIN.format(name)
        before, _, rest = text.partition(begin)
        _, found, after = rest.partition(HEADLINE_END)
        if not found:
            raise SystemExit(f"{readme} must have the lines {begin} and {HEADLINE_END}: nothing is written to it")
        text = f"{before}{begin}\n\n" + "\n".join(lines).rstrip() + f"\n\n{HEADLINE_END}{after}"
    write(readme, text)
