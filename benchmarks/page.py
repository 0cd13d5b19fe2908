"""Make docs/explanation/benchmarks.md, its plots and the README's headline from the results of `python -m benchmarks`.

python -m benchmarks.page RESULTS
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import plots, tables
from benchmarks.headline import write_headline
from benchmarks.peers import OUR_NMS_OF_TENSORS
from benchmarks.record import COMMITTED, load, write

REPOSITORY = Path(__file__).parent.parent
IMAGES = "../images"  # beside the page's folder
#: Peers that take tensors are compared with our call on tensors, the others with our call on arrays.
TENSOR_PEERS = ["torchvision", "ultralytics TorchNMS"]

INTRODUCTION = """\
# Benchmarks: hashnms and its peers

How fast hashnms is compared with other packages on the same boxes, on one thread. A ratio says how many times as long a
peer takes as hashnms, in the same run.
"""

#: Families of the summary.
SUMMARISED = ["nms-0.5", "nms-0.7", "soft-nms", "hnms"]
SUMMARY_BOXES = 45_000

METHOD = """\
![Seconds over boxes]({images}/benchmarks-nms.svg)

![Seconds over boxes, Soft-NMS]({images}/benchmarks-soft-nms.svg)

## How it was measured

- **Times** are the best of interleaved rounds, one thread each. `benchmarks/results.json` also has medians. Inputs are
  converted to the form that a peer needs before the clock starts.
- **Answers** are checked before a time counts. Our NMS is compared with a plain loop up to 45,000 boxes. With more
  boxes, where it may go tile by tile, it is compared with NMS of all boxes at once. Our HNMS is compared with the
  reference up to 10,000 boxes, and with a plain hash map beyond. The answers of peers are compared with ours.
- **`*`** marks a peer that keeps other boxes. The list below the table says what differs: *3 boxes missing, 1 more, of
  9* means that it lacks 3 of the 9 right boxes and keeps 1 wrong one.
- ***> 1 min*** means that a call would take longer than a minute, estimated from how its time grew so far.
  ***> 4 GB*** means that it would need more memory than that.
- **The exponent** below a table says how time grows: 1 is linear, 2 is quadratic.
- **Compilers.** The plain loops and the later algorithms are compiled for any machine of this kind, like most peers.
  hashnms chooses wider vectors if the machine has them.
- ***ultralytics TorchNMS*** is the NMS that ultralytics uses if torchvision is not imported. Otherwise it calls
  torchvision.

The machine: {machine}. {versions}.

To repeat this, run `make bench`. With real detections ([how to make them](data.md)): `pip install ".[bench]"`, then
`python -m benchmarks --real DIR --output FILE` and `python -m benchmarks.page FILE`. `make bench-quick` measures a part
of it in two minutes and says which ratios fell. `python -m benchmarks.page` writes this page.
"""

#: What a reader should know about a family.
NOTES = {
    "nms-0.5": """\
Parking-lot scenes of `hashnms.synthetic`, float32. `hnms:0.7/1` is HNMS with alpha 0.7 and one hash. It is not NMS, but
a filter before NMS or a replacement for it. The last table of this section says how far it agrees with NMS.

The work of hashnms per box does not grow with the number of boxes. The exponents are still above 1, for two reasons:
boxes and tables leave one cache after the other, and up to 45,000 boxes it is one image that gets more crowded.
""",
    "nms-0.7": """\
The same scenes at a higher threshold: more boxes are kept, so loops take longer.
""",
    "soft-nms": """\
The same scenes, boxes with a score of at least 0.001. OpenCV takes only integer boxes, so it gets rounded ones. From a
million boxes on, no peer finishes within a minute, so our answer is not checked there.
""",
    "hnms": """\
The same scenes. The paper's own code is in no package registry, so it is not measured. Instead there are a compiled
hash map that takes a logarithm and a power for each box (`benchmarks/plain_loops.cpp`), and NumPy with `unique`.
""",
    "presets": """\
All scenes of `hashnms.synthetic`: a parking lot, a shelf, a crowd, an aerial view.
""",
    "classes": """\
Aerial scenes with this many classes. Boxes of different classes never meet. Peers that take no label per box are left
out.
""",
    "batches": """\
Images of crowds in one call. The image is the label.
""",
    "worst": """\
Scenes that are hard for a grid, a tree or a loop (`hashnms.synthetic.WORST_CASES`), at a low, a usual and a high IoU.
""",
    "later": """\
Algorithms from later papers, in their simplest form, compiled (`benchmarks/later_algorithms.cpp`), at IoU 0.5. BOE-NMS
and Cluster-NMS are exact. Fast NMS, eQSI-NMS and MaxpoolNMS keep other boxes.
""",
    "real": """\
One image of each set, before any suppression.
""",
}

QUALITY = """\
## What is left on real detections

How much accuracy each method keeps. The input is raw boxes of real detectors on crowded images with ground truth. The
9,000 best boxes of each class go in (P1), and 1,000 boxes in total come out. NMS is at IoU 0.5, Soft-NMS has sigma 0.5.
The tables show mAP@0.5 in percent, COCO style, by `hashnms.evaluate` with faster-coco-eval. *HNMS* replaces NMS,
*HNMS + NMS* is HNMS in front of NMS. Tables and figures have the form of the paper's, with other detectors and images.
"""

AGREEMENT = """\
*time* is relative to NMS. For the later algorithms it includes a Python loop over the classes. *recall* and
*precision* compare the first 1,000 boxes with the first 1,000 of NMS. A method that keeps duplicates has less room for
other boxes among its first 1,000. *matched* also counts a box that overlaps a box of the other
method.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="?", default=COMMITTED, help="the output of python -m benchmarks")
    parser.add_argument("--output", type=Path, default=REPOSITORY / "docs/explanation/benchmarks.md", help="the page")
    parser.add_argument("--readme", type=Path, help="a README whose headline is written")
    arguments = parser.parse_args()
    record = load(arguments.results)
    write(arguments.output, "\n".join(page(record)).rstrip() + "\n")
    draw(record, arguments.output.parent / IMAGES)
    if arguments.readme:
        write_headline(record, arguments.readme)


def page(record: dict[str, Any]) -> Iterator[str]:
    versions = ", ".join(f"{package} {version}" for package, version in record["versions"].items())
    yield INTRODUCTION
    yield from summary(record)
    yield METHOD.format(machine=record["machine"], versions=versions, images=IMAGES)
    yield from behind(record)
    for name, family in record["families"].items():
        yield f"## {family['title']}\n"
        yield NOTES.get(name, "")
        yield from tables.ratio_table(family["results"])
        yield from tables.kept_table(family["results"])
    if "memory" in record:
        yield "## Peak memory\n"
        yield from tables.memory_table(record["memory"])
    if record.get("quality"):
        yield QUALITY
        for name, groups in record["quality"].items():
            yield from of_set(name, groups)


def summary(record: dict[str, Any]) -> Iterator[str]:
    """The main families with one number of boxes: our time, and how many times as long the peers take."""
    for name in SUMMARISED:
        if name not in record["families"]:
            continue
        title, family = record["families"][name]["title"], tables.Family(record["families"][name]["results"])
        for work in (work for work in family.works if work[1] == SUMMARY_BOXES):
            ratios = [f"{peer} {tables.ratio_cell(family, work, peer)}" for peer in family.peers]
            ours = f"{family.ours} takes {1e3 * (family.seconds(work, family.ours) or 0.0):.1f} ms"
            yield f"- **{title}**, {work[1]:,} boxes: {ours}. Peers: {', '.join(ratios)}."
    cases = list(ahead(record))
    if cases:
        number, largest = f"{len(cases)} case{'s'[: len(cases) - 1]}", max(case.boxes for case in cases)
        yield f"- [A peer is ahead](#where-a-peer-is-ahead) in {number}, none with more than {largest:,} boxes."
    yield ""


class Ahead(NamedTuple):
    """A peer that is faster than our function of the same kind."""

    where: str
    boxes: int
    peer: str
    ours: str
    ratio: float  # of its time to ours


def ahead(record: dict[str, Any]) -> Iterator[Ahead]:
    """All of them, except for peers that approximate."""
    for family in record["families"].values():
        results = tables.Family(family["results"])
        for work in results.works:
            for peer in results.peers:
                name = OUR_NMS_OF_TENSORS.name if peer in TENSOR_PEERS else results.ours
                theirs, ours = results.seconds(work, peer), results.seconds(work, name)
                if theirs and ours and theirs < ours and not results.answer(work, peer).startswith("recall"):
                    yield Ahead(f"{family['title']}, {work[0]}", work[1], peer, name, theirs / ours)


def behind(record: dict[str, Any]) -> Iterator[str]:
    yield "## Where a peer is ahead\n"
    cases = list(ahead(record))
    for case in cases:
        yield f"- {case.where}, {case.boxes:,} boxes: {case.peer} takes {case.ratio:.2f}x the time of {case.ours}."
    if not cases:
        yield "Nowhere in this run."
    yield ""
    if any(case.boxes <= 10 for case in cases):
        yield "With ten boxes a call takes a few microseconds, most of them in Python, NumPy or torch.\n"


def of_set(name: str, groups: dict[str, Any]) -> Iterator[str]:
    yield f"### {name}: alpha and K\n"
    yield from tables.hashes_tables(groups["over_hashes"])
    yield f"### {name}: the number of boxes that go in\n"
    yield "mAP@0.5 and, in brackets, the time. The time of NMS with the most boxes is 1.\n"
    yield from tables.most_in_table(groups["over_most_in"])
    yield f"![mAP over time]({IMAGES}/benchmarks-{name}.svg)\n"
    yield f"### {name}: compared with later algorithms\n"
    yield AGREEMENT
    yield from tables.later_table(groups["later"])


def draw(record: dict[str, Any], folder: Path) -> None:
    for name, family in {"nms": "nms-0.5", "soft-nms": "soft-nms"}.items():
        if family in record["families"]:
            measured = record["families"][family]
            plots.growth(measured["results"], measured["title"], folder / f"benchmarks-{name}.svg")
    for name, groups in record.get("quality", {}).items():
        plots.precision(groups["over_most_in"], f"{name}, P1 at each point", folder / f"benchmarks-{name}.svg")


if __name__ == "__main__":
    main()
