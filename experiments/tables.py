"""The paper's tables: what each measures, and ours next to the paper's as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.tables import rows as markdown
from benchmarks.tables import shown
from experiments import paper
from experiments.configurations import SuppressionSettings
from experiments.datasets import DatasetError
from experiments.measure import Plan, Setting
from experiments.methods import Method, detections, proposals, soft_detections
from experiments.raw import RawFolder

Record = dict[str, Any]
Row = dict[str, Any]

#: For raw boxes without a configuration: the paper's settings.
_OF_PROPOSALS = SuppressionSettings(0.7, 0.7, kept_of_level=2000, kept_in_all=4000)
_OF_DETECTIONS = SuppressionSettings(0.73, 0.5)


@dataclass(frozen=True)
class Table:
    """One of the paper's tables: the methods that it compares, and its printed rows."""

    title: str
    of_proposals: bool
    methods: Callable[[SuppressionSettings], list[Method]]
    printed: dict[str, dict[int, paper.Printed]]
    candidates: tuple[int, ...] = ()  # P1; by default the configuration's


TABLES: dict[str, Table] = {
    "rpn": Table(
        "HNMS in place of the RPN's NMS (the paper's Table 1)",
        True,
        lambda suppressing: proposals(suppressing.alpha, suppressing.iou_threshold),
        paper.RPN,
    ),
    "retina": Table(
        "HNMS before the NMS of a one-stage detector (the paper's Tables 2 and 4)",
        False,
        lambda suppressing: detections(suppressing.alpha, suppressing.iou_threshold),
        paper.RETINA,
    ),
    "soft": Table(
        "HNMS before the Soft-NMS of a one-stage detector (the paper's Table 5)",
        False,
        lambda suppressing: soft_detections(suppressing.alpha, suppressing.evaluated),
        paper.SOFT,
    ),
    "voc-coco": Table(
        "Few objects an image: what the RPN's NMS costs (the paper's appendix)",
        True,
        lambda suppressing: proposals(suppressing.alpha, suppressing.iou_threshold)[:3],
        {},
        (1000, 9000),
    ),
}


def settings_of(folder: RawFolder, of_proposals: bool) -> SuppressionSettings:
    """The settings of the boxes' configuration, or the paper's. Boxes of the other kind are refused."""
    if folder.of_proposals not in (None, of_proposals):
        kinds = {True: "proposals of an RPN", False: "boxes of a one-stage detector"}
        raise DatasetError(f"{folder.path} must hold {kinds[of_proposals]}, got {kinds[not of_proposals]}")
    if folder.configuration is not None:
        return folder.configuration.suppressing
    return _OF_PROPOSALS if of_proposals else _OF_DETECTIONS


def plan_of(name: str, of: str, suppressing: SuppressionSettings, **limits: Any) -> Plan:
    """The plan of a table for the raw boxes of this name."""
    table = TABLES[name]
    counts = table.candidates or (suppressing.candidates,)
    settings = [Setting(method, count) for count in counts for method in table.methods(suppressing)]
    return Plan(f"{name}-{of}", settings, suppressing, table.of_proposals, **limits)


def lines(name: str, record: Record) -> Iterator[str]:
    """A table as Markdown, one for each device that was measured."""
    table = TABLES[name]
    about = record["about"]
    yield f"## {table.title}\n"
    yield f"{described(record)}\n"
    printed = table.printed.get(about.get("dataset", ""), {})
    for device in record["rows"][0]["ms"]:
        yield from markdown(*_cells(record, device, printed), left=2)
        yield from _notes(record, device)
    if name == "voc-coco" and about.get("dataset") in paper.VOC_COCO:
        yield _printed_of_few_objects(about["dataset"])


def _printed_of_few_objects(dataset: str) -> str:
    printed, measure = paper.VOC_COCO[dataset], "mAP@[.5:.95]" if dataset == "coco" else "mAP@0.5"
    took = printed.times["cpu"]
    share = f"{took.suppression:g} ms on the CPU, {took.suppression / took.total:.1%} of {took.total:,.0f} ms"
    return f"The paper: {measure} {printed.map_50} for P1 = 1,000 to 9,000; at P1 = 1,000 the NMS takes {share}.\n"


def boxes_of(record: Record) -> str:
    """The name of the boxes, and the number of images."""
    about = record["about"]
    of = f"{about['title']}, {about['configuration']}" if about else record["raw"]
    return f"{of}: {record['images']:,} images"


def described(record: Record) -> str:
    """The name of the boxes, the number of images, and the machine."""
    timed = f", times of the first {record['timed_images']:,}" if record["timed_images"] else ""
    return f"{boxes_of(record)}{timed}. {record['machine']}, one thread."


def time_of(row: Row, device: str) -> list[float]:
    """Mean and deviation of a suppression's milliseconds, all stages together; empty if it was not timed."""
    stages = {name: value for name, value in row["ms"].get(device, {}).items() if name != "differing"}
    found: list[float] = stages.get("all") or next(iter(stages.values()), [])
    return found


def speed_up(row: Row, rows: list[Row], device: str) -> float | None:
    """How many times as fast as the first method with the same number of candidates."""
    first = next(one for one in rows if one["candidates"] == row["candidates"])
    return time_of(first, device)[0] / time_of(row, device)[0] if time_of(row, device) else None


def total_of(row: Row, record: Record, device: str) -> float | None:
    """Milliseconds of the whole detector for an image, if it was timed on this device."""
    if record["network_ms"] is None or record["about"].get("device", "cpu") != device or not time_of(row, device):
        return None
    return float(record["network_ms"] + time_of(row, device)[0] + (record["second_ms"] or 0.0))


#: Quality -> the head of its column; only measured ones are shown.
_QUALITIES = {
    "map_50": "mAP@0.5",
    "map": "mAP@[.5:.95]",
    "proposal_recall_50": "recall@0.5 of proposals",
    "proposal_recall_70": "recall@0.7 of proposals",
}


def _cells(record: Record, device: str, printed: dict[int, paper.Printed]) -> tuple[list[str], list[list[str]]]:
    """The head of a table, and its rows."""
    columns = dict(_columns(record, device, printed))
    return list(columns), [[cell(row) for cell in columns.values()] for row in record["rows"]]


def _columns(
    record: Record, device: str, printed: dict[int, paper.Printed]
) -> Iterator[tuple[str, Callable[[Row], str]]]:
    """Head and cell of each column; columns without values are left out."""
    rows = record["rows"]
    yield "method", lambda row: row["method"]
    yield "by", lambda row: row["by"]
    if len({row["candidates"] for row in rows}) > 1:
        yield "P1", lambda row: f"{row['candidates']:,}"
    yield "K", lambda row: str(row["num_hashes"] or "")
    for quality, head in _QUALITIES.items():
        if quality in rows[0]:
            yield head, lambda row, quality=quality: f"{100 * row[quality]:.1f}"  # type: ignore[misc]
    yield "kept", lambda row: f"{row['kept']:,.0f}"
    stages = {stage for row in rows for stage in row["ms"][device]}
    for stage in sorted(stages - {"all", "differing"}) if "all" in stages else []:  # HNMS comes first
        yield f"{stage}, ms", lambda row, stage=stage: milliseconds(row["ms"][device].get(stage))  # type: ignore[misc]
    yield f"suppression, ms ({device})", lambda row: milliseconds(time_of(row, device))
    yield "speed-up", lambda row: _times(speed_up(row, rows, device))
    if any(total_of(row, record, device) for row in rows):
        yield "total, ms", lambda row: f"{total_of(row, record, device):,.0f}"
    if printed:
        yield "paper: mAP", lambda row: "" if (row_there := _printed(row, printed)) is None else f"{row_there.map_50}"
        for head, cell in _PRINTED_TIMES.items():
            yield f"paper: {head}", lambda row, cell=cell: _printed_time(row, device, printed, cell)  # type: ignore[misc]


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{shown(ratio)}x"


def _printed(row: Row, printed: dict[int, paper.Printed]) -> paper.Printed | None:
    """The paper's numbers for such a row; none for an exact method of ours, or one that stops early."""
    of_paper = row["method"] == "HNMS" or (row["by"] != "hashnms" and "best" not in row["method"])
    return printed[row["num_hashes"] or 0] if of_paper else None


#: Head of a column -> cell, from the paper's times for a row and for its baseline.
_PRINTED_TIMES: dict[str, Callable[[paper.Times, paper.Times], str]] = {
    "ms": lambda times, _: (
        f"{times.suppression:,.1f}" if times.deviation is None else f"{times.suppression:,.1f} ± {times.deviation:,.1f}"
    ),
    "speed-up": lambda times, baseline: _times(baseline.suppression / times.suppression),
    "total": lambda times, _: f"{times.total:,.0f}",
}


def _printed_time(
    row: Row, device: str, printed: dict[int, paper.Printed], cell: Callable[[paper.Times, paper.Times], str]
) -> str:
    seen = _printed(row, printed)
    return "" if seen is None or device not in seen.times else cell(seen.times[device], printed[0].times[device])


def _notes(record: Record, device: str) -> Iterator[str]:
    for row in record["rows"]:
        differing = row["ms"][device].get("differing", 0)
        if differing:
            name = f"{row['method']}{f', K = {count}' if (count := row['num_hashes']) else ''}, by {row['by']}"
            yield f"- {name}: {differing:,} boxes differ from the exact answer over the timed images.\n"


def milliseconds(value: list[float] | None) -> str:
    if not value:
        return ""
    digits = 1 if value[0] >= 10 else 2
    return f"{value[0]:,.{digits}f} ± {value[1]:,.{digits}f}"
