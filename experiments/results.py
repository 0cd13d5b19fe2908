"""The results on disk: JSON, and the Markdown and pictures made from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import record as files
from benchmarks.__main__ import machine
from experiments import figures, tables
from experiments.configurations import SuppressionSettings
from experiments.datasets import DatasetError
from experiments.measure import Plan, forget, left_by_any, measure
from experiments.raw import Integers, Raw, RawFolder

#: The results that docs/explanation/experiments.md shows.
COMMITTED = Path(__file__).parent / "results"


def make_table(name: str, folder: RawFolder, results: Path, done: Any, **limits: Any) -> str:
    """Measure a table and write it; returns its Markdown."""
    settings = tables.settings_of(folder, tables.TABLES[name].of_proposals)
    record = _measured(name, tables.plan_of(name, folder.name, settings, **limits), folder, results, done)
    text = "\n".join(tables.lines(name, record)).rstrip() + "\n"
    files.write(results / f"{record['name']}.md", text)
    return text


def make_figure(
    name: str, folder: RawFolder | None, results: Path, done: Any, *, of_proposals: bool = False, **limits: Any
) -> Path:
    """Measure a figure, if it needs raw boxes, and draw it; returns its path without the suffix.

    Whether the boxes come from an RPN is only needed if the folder does not say it.
    """
    results.mkdir(parents=True, exist_ok=True)
    if folder is None:
        record = {"name": name, **figures.bound_record()}
        files.save(record, results / f"{name}.json")
    else:
        if folder[0].truth is None:
            raise DatasetError(f"{folder.path} must have ground truth for a figure, got boxes without gt_boxes")
        of_proposals = of_proposals if folder.of_proposals is None else folder.of_proposals
        settings = tables.settings_of(folder, of_proposals)
        plan = figures.plan_of(name, folder.name, settings, of_proposals, **limits)
        record = _measured(name, plan, folder, results, done)
    path = results / str(record["name"])
    figures.draw(name, record, path)
    files.write(path.with_name(f"{path.name}.md"), "\n".join(figures.lines(name, record)).rstrip() + "\n")
    return path


def proposals_for_second_stage(suppressing: SuppressionSettings, sweeps: bool) -> Callable[[Raw], Integers]:
    """The proposals that a second stage must process: those that the tables leave, or also those of all figures."""
    plans = [tables.plan_of(name, "", suppressing) for name in ("rpn", "voc-coco")]
    if sweeps:
        plans += [figures.plan_of(name, "", suppressing, True) for name in ("alpha", "p1")]
    return lambda raw: left_by_any(raw, plans)


def _measured(kind: str, plan: Plan, folder: RawFolder, results: Path, done: Any) -> dict[str, Any]:
    """The contents of the JSON file for the same plan and boxes; if there is none, they are measured and written."""
    results.mkdir(parents=True, exist_ok=True)
    file = results / f"{plan.name}.json"
    digest = plan.digest(folder)
    if file.exists():
        written: dict[str, Any] = files.load(file)
        if written.get("digest") == digest:
            return written
    record = {"kind": kind, **measure(folder, plan, results, done), "machine": machine(), "digest": digest}
    files.save(record, file)
    forget(plan, results)
    return record
