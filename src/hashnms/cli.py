"""The command line: parses, calls, prints."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from hashnms import __version__, alpha_for_bound, hnms, iou_lower_bound, nms
from hashnms.evaluate import agreement
from hashnms.synthetic import BOXES_PER_IMAGE, PRESETS, make_scene

app = typer.Typer(
    help="Fast non-maximum suppression for crowded scenes, by hashing boxes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
console = Console()


def _show_version(wanted: bool) -> None:
    if wanted:
        console.print(f"hashnms {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def main(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    preset: Annotated[str, typer.Option(help=f"The kind of scene: {', '.join(PRESETS)}.")] = "parking_lot",
    boxes: Annotated[
        int, typer.Option(min=1, max=10**7, help="How many raw boxes the detector puts out.")
    ] = BOXES_PER_IMAGE,
    alpha: Annotated[float, typer.Option(help="Cell size of HNMS, in (0, 1); greater means smaller cells.")] = 0.7,
    seed: Annotated[int, typer.Option(min=0, help="The same seed makes the same scene.")] = 0,
) -> None:
    """Make a crowded scene and suppress its raw boxes: exact NMS, HNMS with K = 1 to 4 hashes, and both in a row."""
    with _bad_values_as_usage_errors():
        bound = iou_lower_bound(alpha)
        scene = make_scene(preset, boxes, seed=seed)
    data = (scene.boxes, scene.scores, scene.labels)
    methods: dict[str, Callable[..., Any]] = {f"NMS {bound:.3f}": partial(_nms, bound)}
    for num_hashes in range(1, 5):
        methods[f"HNMS {alpha:g}/{num_hashes}"] = partial(_hnms, alpha, num_hashes)
    methods[f"HNMS {alpha:g}/1 + NMS"] = partial(_hnms_then_nms, alpha, bound)

    table = Table(title=f"{preset}: {len(scene.gt_boxes):,} objects, {boxes:,} raw boxes")
    for column in ("method", "boxes in", "kept", "time", "recall", "precision"):
        table.add_column(column, justify="left" if column == "method" else "right")
    exact = None
    for name, method in methods.items():
        seconds, keep = _timed(partial(method, *data))
        exact = keep if exact is None else exact
        agreed = agreement(keep, exact)
        shares = (f"{agreed.recall:.1%}", f"{agreed.precision:.1%}")
        table.add_row(name, f"{boxes:,}", f"{len(keep):,}", f"{seconds * 1e3:.2f} ms", *shares)
    console.print(table)
    console.print(
        "NMS t: exact greedy NMS at IoU t, what torchvision keeps. HNMS a/K: alpha a, K\n"
        f"hashes; boxes of one cell overlap by IoU {bound:.3f} at least. Agreement with NMS:\n"
        "recall, the share of NMS's boxes that are kept too; precision, the share of\n"
        "the kept boxes that NMS keeps too. Times are the best of several runs.",
        style="dim",
        highlight=False,
    )


def _nms(iou_threshold: float, boxes: Any, scores: Any, labels: Any) -> Any:
    return nms(boxes, scores, iou_threshold, labels=labels)


def _hnms(alpha: float, num_hashes: int, boxes: Any, scores: Any, labels: Any) -> Any:
    return hnms(boxes, scores, alpha=alpha, num_hashes=num_hashes, labels=labels)


def _hnms_then_nms(alpha: float, iou_threshold: float, boxes: Any, scores: Any, labels: Any) -> Any:
    keep = _hnms(alpha, 1, boxes, scores, labels)
    return keep[nms(boxes[keep], scores[keep], iou_threshold, labels=labels[keep])]


@app.command()
def bound(
    alpha: Annotated[float | None, typer.Option(help="Show the bound of this alpha only.")] = None,
    iou: Annotated[float | None, typer.Option(help="Show the smallest alpha that guarantees this IoU.")] = None,
) -> None:
    """Show which IoU the boxes of one cell have at least, for an alpha, and which alpha an IoU needs."""
    both = alpha is None and iou is None
    if both or alpha is not None:
        table = Table("alpha", "IoU that boxes of one cell have at least")
        for value in [k / 20 for k in range(6, 20)] if alpha is None else [alpha]:
            with _bad_values_as_usage_errors():
                table.add_row(f"{value:.10g}", f"{iou_lower_bound(value):.5f}")
        console.print(table)
    if both or iou is not None:
        table = Table("IoU to guarantee", "smallest alpha")
        for value in (0.3, 0.5, 0.7, 0.9) if iou is None else [iou]:
            with _bad_values_as_usage_errors():
                table.add_row(f"{value:.10g}", f"{alpha_for_bound(value):.10g}")
        console.print(table)


@contextmanager
def _bad_values_as_usage_errors() -> Iterator[None]:
    """The library's own message, as an error of the command line."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _timed(call: Callable[[], Any], repeats: int = 7) -> tuple[float, Any]:
    """The shortest of several runs, and the result."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        result = call()
        best = min(best, time.perf_counter() - start)
    return best, result
