"""docs/explanation/benchmarks.md, its plots and the README's headline, from the results of `python -m benchmarks`.

python -m benchmarks.page RESULTS
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import plots, tables
from benchmarks.peers import OUR_NMS, OUR_NMS_OF_TENSORS
from benchmarks.record import COMMITTED, load, write

REPOSITORY = Path(__file__).parent.parent
IMAGES = "../images"  # beside the page's folder
#: What stands between such lines of the README, of each block of `headline`, is written here.
HEADLINE_BEGIN, HEADLINE_END = "<!-- benchmarks.page: {} -->", "<!-- end -->"
HEADLINE_SIZE = 45_000
HEADLINE_SIZES = [100, 1_000, 10_000, 45_000, 100_000, 1_000_000]
#: Peers that take tensors are compared with our call on tensors, those that take arrays with our call on arrays.
TENSOR_PEERS = ["torchvision", "ultralytics TorchNMS"]
ARRAY_PEERS = ["powerboxes nms", "lsnms", "OpenCV", "onnxruntime"]

INTRODUCTION = """\
# Side by side with every peer

Written by `python -m benchmarks.page` from what `python -m benchmarks` measured. Times are ratios within one run: how
many times as long a peer takes as hashnms for the same boxes, best of interleaved rounds, one thread each
(`benchmarks/results.json` has medians, too). Inputs are in the form that a peer wants before the clock starts. Every
answer was looked at before its time counted: ours against a plain loop up to 45,000 boxes and against NMS of all boxes
at once beyond, where ours goes tile by tile; HNMS against the reference up to 10,000 boxes and a plain hash map
beyond; the peers' against ours. `*` marks one that keeps other boxes; below its table is what differs. *> 1 min*: a
call would take longer than that, by how its time has grown so far.

The plain loops and later algorithms are compiled for any machine of the kind, as most peers are; hashnms chooses wider
vectors where the machine has them. *ultralytics TorchNMS* is the NMS that ultralytics takes where torchvision is not
imported; where it is, it calls that.

The machine: {machine}. {versions}.

To repeat: `make bench`. With real detections: `pip install ".[bench]"`, then
`python -m benchmarks --real DIR --output FILE` and `python -m benchmarks.page FILE`. `make bench-quick` measures a part
of it in two minutes and says which ratios fell.

![Seconds over boxes]({images}/benchmarks-nms.svg)

![Seconds over boxes, Soft-NMS]({images}/benchmarks-soft-nms.svg)
"""

#: What a reader should know of a family.
NOTES = {
    "nms-0.5": """\
Parking-lot scenes of `hashnms.synthetic`, float32. `hnms:0.7/1` is HNMS with alpha 0.7 and one hash: no NMS, but the
filter that stands before it or in its place; below is how far it agrees with NMS. What hashnms does for a box does not
grow with their number, but boxes and tables leave one cache after the other, and up to 45,000 boxes it is one image
that gets more crowded: so exponents are above 1.
""",
    "soft-nms": """\
The same scenes, boxes from a score of 0.001 on. OpenCV takes boxes of integers only and gets rounded ones. From a
million boxes on nobody else is done within a minute, and our answer is not held against any.
""",
    "hnms": """\
The same scenes. The paper's own code is in no registry and is not measured here; instead there are a hash map with a
logarithm and a power for each box, compiled (`benchmarks/plain_loops.cpp`), and NumPy with `unique`.
""",
    "presets": """\
All scenes of `hashnms.synthetic`: a parking lot, a shelf, a crowd, an aerial view.
""",
    "classes": """\
Aerial scenes with as many classes, which never meet. Peers that take no label for each box are left out.
""",
    "batches": """\
Images of crowds in one call: the image is the label.
""",
    "worst": """\
What is hard for a grid, a tree or a loop (`hashnms.synthetic.WORST_CASES`), at a low, a usual and a high IoU.
""",
    "later": """\
From their papers, in their simplest form, compiled (`benchmarks/later_algorithms.cpp`), at IoU 0.5. BOE-NMS and
Cluster-NMS are exact; Fast NMS, eQSI-NMS and MaxpoolNMS keep other boxes.
""",
    "real": """\
One image of each set, before any suppression.
""",
}

#: Why a peer is ahead of something of ours with ten boxes.
REASONS = {
    "hashnms nms": "with ten boxes a call takes about a microsecond, most of it Python's and NumPy's",
    "hashnms hnms:0.7/4": "four hashes are four passes, each with a cost of its own, most of it with few boxes",
}

QUALITY = """\
## What is left on real detections

Raw boxes of real detectors on crowded images with ground truth. Of each class the 9,000 best boxes go in (P1), of all
1,000 come out; NMS at IoU 0.5, Soft-NMS with sigma 0.5; mAP@0.5 in percent, COCO style, by `hashnms.evaluate` on
faster-coco-eval. *HNMS* stands in place of NMS, *HNMS + NMS* before it. The shape is that of the paper's tables and
figures; the detectors and the images are others.
"""

AGREEMENT = """\
Time against that of NMS; of the later algorithms it includes a loop over the classes in Python. *recall* and
*precision* compare the first 1,000 boxes with the first 1,000 of NMS, so what is left too often pushes others out;
*matched*: a box that overlaps one counts.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="?", default=COMMITTED, help="what python -m benchmarks wrote")
    parser.add_argument("--output", type=Path, default=REPOSITORY / "docs/explanation/benchmarks.md", help="the page")
    parser.add_argument("--readme", type=Path, help="a README whose headline is to be written")
    arguments = parser.parse_args()
    record = load(arguments.results)
    write(arguments.output, "\n".join(page(record)).rstrip() + "\n")
    draw(record, arguments.output.parent / IMAGES)
    if arguments.readme:
        write_headline(record, arguments.readme)


def page(record: dict[str, Any]) -> Iterator[str]:
    versions = ", ".join(f"{package} {version}" for package, version in record["versions"].items())
    yield INTRODUCTION.format(machine=record["machine"], versions=versions, images=IMAGES)
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


def behind(record: dict[str, Any]) -> Iterator[str]:
    """Where a peer is faster than what we have beside it."""
    yield "## Where a peer is ahead\n"
    found = []
    for family in record["families"].values():
        results = tables.Family(family["results"])
        for work in results.works:
            for peer in results.peers:
                of_ours = {
                    name: results.seconds(work, name)
                    for name in results.of_hashnms
                    if name != OUR_NMS_OF_TENSORS.name or peer in TENSOR_PEERS
                }
                theirs = results.seconds(work, peer)
                if theirs is None or results.answer(work, peer).startswith("recall"):
                    continue
                where = f"{family['title']}, {work[0]}, {work[1]:,} boxes"
                found += [
                    f"- {where}: {peer} takes {theirs / ours:.2f}x the time of {name}{reason(name, work[1])}."
                    for name, ours in of_ours.items()
                    if ours is not None and theirs < ours
                ]
    yield from found or ["Nowhere in this run."]
    yield ""


def reason(name: str, boxes: int) -> str:
    return f": {REASONS[name]}" if boxes <= 10 and name in REASONS else ""


def of_set(name: str, groups: dict[str, Any]) -> Iterator[str]:
    yield f"### {name}: alpha and K\n"
    yield from tables.hashes_tables(groups["over_hashes"])
    yield f"### {name}: the number of boxes let in\n"
    yield "mAP@0.5 and, in brackets, the time, that of NMS with the most boxes being 1.\n"
    yield from tables.most_in_table(groups["over_most_in"])
    yield f"![mAP over time]({IMAGES}/benchmarks-{name}.svg)\n"
    yield f"### {name}: beside later algorithms\n"
    yield AGREEMENT
    yield from tables.later_table(groups["later"])


def draw(record: dict[str, Any], folder: Path) -> None:
    for name, family in {"nms": "nms-0.5", "soft-nms": "soft-nms"}.items():
        if family in record["families"]:
            measured = record["families"][family]
            plots.growth(measured["results"], measured["title"], folder / f"benchmarks-{name}.svg")
    for name, groups in record.get("quality", {}).items():
        plots.precision(groups["over_most_in"], f"{name}, P1 at each point", folder / f"benchmarks-{name}.svg")


def headline(record: dict[str, Any]) -> dict[str, list[str]]:
    """What the README says of exact NMS, block by block."""
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


if __name__ == "__main__":
    main()
