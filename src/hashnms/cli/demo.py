"""`hashnms demo`: suppress a crowded scene with hashnms and with the usual NMS."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.box import SIMPLE
from rich.table import Table

import hashnms
from hashnms import Suppression, iou_lower_bound
from hashnms._numbers import real, whole
from hashnms._temporary import move, naming, temporary_folder
from hashnms.cli.common import console, one_line_errors, path, within
from hashnms.cli.pictures import check_report
from hashnms.cli.streams import needs_standard_output
from hashnms.evaluate import agreement
from hashnms.synthetic import BOXES_PER_IMAGE, PRESETS, Scene, make_scene


def command(
    preset: Annotated[
        str, typer.Option(metavar="NAME", help=f"The kind of scene: {', '.join(PRESETS)}.")
    ] = "parking_lot",
    boxes: Annotated[
        int,
        typer.Option(parser=within(whole, 1, 10**7), metavar="N", help="The number of raw boxes from the detector."),
    ] = BOXES_PER_IMAGE,
    iou: Annotated[
        float, typer.Option(parser=within(real, 0, 1), metavar="IOU", help="The IoU threshold of NMS.")
    ] = 0.5,
    alpha: Annotated[
        float,
        typer.Option(
            parser=within(real), metavar="ALPHA", help="Cell size of HNMS, in (0, 1); greater means smaller cells."
        ),
    ] = 0.73,
    seed: Annotated[
        int, typer.Option(parser=within(whole, 0), metavar="N", help="The same seed makes the same scene.")
    ] = 0,
    report: Annotated[
        Path | None, typer.Option(parser=path, metavar="FILE", help="Also write an HTML page to look at the boxes.")
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            parser=path,
            metavar="FOLDER",
            help="Also write raw boxes and ground truth as COCO files to this folder, to try the other commands.",
        ),
    ] = None,
    detector: Annotated[
        bool,
        typer.Option(
            "--detector",
            help="Instead, show where a detector spends its time, with torchvision's NMS and with hashnms. Needs "
            "torchvision and takes about a minute. Only --seed can be combined with it.",
        ),
    ] = False,
) -> None:
    """Make a crowded scene and suppress its raw boxes: the usual NMS, then hashnms's exact NMS, HNMS and Soft-NMS."""
    with one_line_errors():
        needs_standard_output()
        if detector:
            _demo_detector(seed)
            return
        saved = [] if save is None else [save / name for name in ("results.json", "truth.json")]
        check_report(report, None, {"those of --save": saved})
        if save is not None and save.exists() and not save.is_dir():
            raise ValueError(f"--save must be a folder, got the file {save}")
        guaranteed = iou_lower_bound(alpha)
        scene = make_scene(preset, boxes, seed=seed)
        title = f"{preset}: {len(scene.gt_boxes):,} objects, {boxes:,} raw boxes, IoU {iou:g}"
        table = Table(title=title, box=SIMPLE, collapse_padding=True)
        for column in ("method", "kept", "time", "speed-up", "recall", "precision"):
            table.add_column(column, justify="left" if column == "method" else "right", no_wrap=True)
        rows = list[_Row]()
        with _one_thread():
            for group in _rows(scene, iou, alpha):
                for row in group:
                    rows.append(row)
                    table.add_row(*row.cells(rows[0]))
                table.add_section()
        console.print(table)
        console.print(
            f"The first row is the usual NMS. nms:{iou:g} is exact: it keeps the same boxes.\n"
            "hnms:a/K keeps the best box of each hash cell, with alpha a and K hashes; boxes\n"
            f"of a cell have an IoU of at least {guaranteed:.3f}. a+b runs a, then b. softnms is exact\n"
            "Soft-NMS: it lowers scores. Recall: the share of the first row's boxes that the\n"
            "method keeps. Precision: the share of the method's boxes that the first row\n"
            "keeps. Times are the best of several runs, on one thread.",
            style="dim",
            highlight=False,
        )
        if save is not None:
            _save(save, scene)
            console.print(f"{save / 'results.json'} and {save / 'truth.json'}", highlight=False, soft_wrap=True)
        if report is not None:
            _write_report(report, title, scene, rows)
            console.print(f"Look at the boxes in a browser: {report}", highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class _Row:
    """The measurements of a method."""

    method: str
    seconds: float
    keep: Any

    def cells(self, first: _Row) -> list[str]:
        ratio = first.seconds / self.seconds
        times = [f"{self.seconds * 1e3:,.2f} ms", f"{ratio:,.0f}x" if ratio >= 10 else f"{ratio:.1f}x"]
        cells = [self.method, f"{len(self.keep):,}", *times]
        if "soft" in self.method:  # it only lowers scores: there is no set to compare
            return cells
        agreed = agreement(self.keep, first.keep)
        return [*cells, f"{agreed.recall:.1%}", f"{agreed.precision:.1%}"]


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let hashnms and torch use one thread each, so that the comparison is fair."""
    packages: list[Any] = [hashnms]
    if find_spec("torchvision") is not None:
        import torch  # noqa: PLC0415

        packages.append(torch)
    with ExitStack() as restored:
        for package in packages:
            restored.callback(package.set_num_threads, package.get_num_threads())
            package.set_num_threads(1)
        yield


def _rows(scene: Scene, iou: float, alpha: float) -> list[Iterator[_Row]]:
    """The rows of the table in groups: the usual NMS and ours, HNMS, Soft-NMS."""
    others, data = _baseline(scene, iou)
    exact = f"nms:{iou:g}"
    hashed = [f"hnms:{alpha:g}/1", f"hnms:{alpha:g}/4", f"hnms:{alpha:g}/1+{exact}"]
    return [
        iter([*others, *_measured([exact], data)]),
        _measured(hashed, data),
        _measured(["softnms:gaussian/0.5"], data),
    ]


def _measured(notations: list[str], data: tuple[Any, ...]) -> Iterator[_Row]:
    for notation in notations:
        with console.status(f"{notation} …"):
            seconds, result = _timed(partial(Suppression.parse(notation), *data))
        yield _Row(notation, seconds, np.asarray(result.keep))


def _baseline(scene: Scene, iou: float) -> tuple[list[_Row], tuple[Any, ...]]:
    """NMS of torchvision if installed, otherwise a NumPy loop; and the data for all methods: tensors or arrays."""
    arrays = (scene.boxes, scene.scores, scene.labels)
    if find_spec("torchvision") is None:
        with console.status("a NumPy loop …"):
            seconds, keep = _timed(partial(_numpy_nms, *arrays, iou))
        return [_Row("NMS, a NumPy loop", seconds, keep)], arrays
    with console.status("torchvision's NMS …"):
        import torch  # noqa: PLC0415
        from torchvision.ops import batched_nms  # noqa: PLC0415

        tensors = tuple(torch.from_numpy(values) for values in arrays)
        seconds, keep = _timed(partial(batched_nms, *tensors, iou))
    return [_Row("NMS, torchvision", seconds, np.asarray(keep))], tensors


def _numpy_nms(boxes: Any, scores: Any, labels: Any, iou_threshold: float) -> Any:
    """Greedy NMS as it is often written: compare one box with all remaining boxes, class by class."""
    keep = []
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        order = rows[np.argsort(-scores[rows], kind="stable")]
        while len(order):
            best, order = order[0], order[1:]
            keep.append(best)
            size = np.minimum(boxes[best, 2:], boxes[order, 2:]) - np.maximum(boxes[best, :2], boxes[order, :2])
            overlap = np.maximum(size, 0).prod(axis=1)
            order = order[overlap <= iou_threshold * (areas[best] + areas[order] - overlap)]
    return np.array(keep, np.int64)


def _save(folder: Path, scene: Scene) -> None:
    """Save the scene in COCO's formats: results and a dataset of one image."""
    folder.mkdir(parents=True, exist_ok=True)
    found, objects = ([*_coco(scene.boxes, scene.labels)], [*_coco(scene.gt_boxes, scene.gt_labels)])
    results = [{**row, "score": round(float(score), 6)} for row, score in zip(found, scene.scores, strict=True)]
    annotations = [{"id": number, **row, "iscrowd": 0} for number, row in enumerate(objects, 1)]
    categories = [{"id": label, "name": f"class {label}"} for label in sorted({row["category_id"] for row in found})]
    truth = {"images": [{"id": 1}], "annotations": annotations, "categories": categories}
    for name, content in (("results.json", results), ("truth.json", truth)):
        path = Path(os.path.realpath(folder / name))
        with naming(path), temporary_folder(path.parent, name) as work:
            new = work / name
            new.write_text(json.dumps(content, separators=(",", ":")), "utf-8")
            move(new, path)


def _coco(boxes: Any, labels: Any) -> Iterator[dict[str, Any]]:
    for (x1, y1, x2, y2), label in zip(boxes.astype(float).round(2).tolist(), labels.tolist(), strict=True):
        yield {"image_id": 1, "category_id": label, "bbox": [x1, y1, round(x2 - x1, 2), round(y2 - y1, 2)]}


def _write_report(path: Path, title: str, scene: Scene, rows: list[_Row]) -> None:
    from hashnms.report import Method, Picture, Report, outcome_of, parameters_of, write_report  # noqa: PLC0415

    ours = rows[1:]
    methods = [
        Method(
            row.method,
            {"kept": len(row.keep), "ms": 1e3 * row.seconds, "speed_up": rows[0].seconds / row.seconds},
            parameters_of(row.method),
        )
        for row in ours
    ]
    outcomes = {row.method: outcome_of(row.method, scene.boxes, scene.scores, scene.labels) for row in ours}
    width, height = np.ceil(scene.boxes[:, 2:].max(axis=0, initial=1.0)).tolist()
    names = [f"class {label}" for label in range(int(scene.labels.max(initial=0)) + 1)]
    picture = Picture("scene", width, height, scene.boxes, scene.scores, scene.labels, names, outcomes)
    subtitle = f"Speed-up against {rows[0].method}: {1e3 * rows[0].seconds:,.1f} ms."
    write_report(Report(f"hashnms {hashnms.__version__}: {title}", subtitle, methods, [picture]), path)


def _demo_detector(seed: int) -> None:
    """Profile forward passes of Faster R-CNN with torchvision's NMS, with exact NMS and with HNMS."""
    try:
        from hashnms.detectors import profile  # noqa: PLC0415
        from hashnms.detectors.crowded import crowded_faster_rcnn  # noqa: PLC0415
    except ImportError as error:
        raise typer.BadParameter(str(error), param_hint="--detector") from None
    with console.status("making a detector …"):
        model, images = crowded_faster_rcnn(seed=seed)
    for name, proposals in (("exact NMS", None), ("hnms:0.7/1", Suppression.parse("hnms:0.7/1"))):
        with console.status(f"forward passes with torchvision's NMS and with {name} …"):
            result = profile(model, images, proposals=proposals, rounds=2)
        console.print(result.table(f"Faster R-CNN, 800 px, 9,000 boxes per level: {name} for proposals"))
    console.print(
        "A ResNet-50 FPN with random weights, scaled so that its scores look like those of\n"
        "a crowd, on one image. suppress proposals: the RPN's NMS; proposals, head: the\n"
        "rest of the RPN and of the RoI head. Each time is the shorter of two passes, run\n"
        "alternately. by suppression: the total if only the suppressions differed.\n"
        "In your code: hashnms.detectors.accelerate(model), and profile(model, images).",
        style="dim",
        highlight=False,
    )


def _timed(call: Callable[[], Any], repeats: int = 7, enough: float = 1.0) -> tuple[float, Any]:
    """The shortest time of several runs and the result; fewer runs if they take longer than `enough` seconds."""
    best, total = float("inf"), 0.0
    for _ in range(repeats):
        start = time.perf_counter()
        result = call()
        seconds = time.perf_counter() - start
        best, total = min(best, seconds), total + seconds
        if total > enough:
            break
    return best, result
