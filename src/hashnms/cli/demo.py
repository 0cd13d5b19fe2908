"""The command line: parses, calls, prints."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from hashnms import Hnms, Nms, SoftNms, Suppression, __version__, alpha_for_bound, iou_lower_bound
from hashnms.evaluate import agreement
from hashnms.pipeline import Step
from hashnms.synthetic import BOXES_PER_IMAGE, PRESETS, Scene, make_scene

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
    detector: Annotated[
        bool,
        typer.Option(
            "--detector",
            help="Show instead where the time of a detector goes, with torchvision's NMS and with hashnms. Needs "
            "torchvision, takes about a minute, and of the other options only --seed.",
        ),
    ] = False,
) -> None:
    """Make a crowded scene and suppress its raw boxes: NMS, HNMS and Soft-NMS, exactly and with HNMS in front."""
    if detector:
        _demo_detector(seed)
        return
    with _bad_values_as_usage_errors():
        guaranteed = iou_lower_bound(alpha)
        scene = make_scene(preset, boxes, seed=seed)
    exact, soft = Nms(round(guaranteed, 3)), SoftNms()
    hashed = [Hnms(alpha, num_hashes) for num_hashes in range(1, 5)]
    groups: list[list[tuple[Step, ...]]] = [
        [(exact,), *((step,) for step in hashed), (hashed[0], exact)],
        [(soft,), (hashed[0], soft)],
    ]
    table = Table(
        title=f"{preset}: {len(scene.gt_boxes):,} objects, {boxes:,} raw boxes", box=SIMPLE, collapse_padding=True
    )
    for column in ("method", "boxes\nin", "kept", "time", "speed-up", "recall", "precision"):
        table.add_column(column, justify="left" if column == "method" else "right", vertical="bottom")
    for chains in groups:
        for row in _compared([Suppression(chain) for chain in chains], scene):
            table.add_row(*row)
        table.add_section()
    console.print(table)
    console.print(
        f"nms:t is exact greedy NMS at IoU t, what torchvision keeps. hnms:a/K is HNMS\n"
        f"with alpha a and K hashes: boxes of one cell overlap by IoU {guaranteed:.3f} at least.\n"
        "softnms is exact Soft-NMS. a+b is both in a row; boxes in: what the last gets.\n"
        "Speed-up and agreement are against the first of the group. Recall: the share\n"
        "of its boxes that are kept too; precision: the share of the kept that it keeps\n"
        "too. Times are the best of several runs.",
        style="dim",
        highlight=False,
    )


def _compared(suppressions: list[Suppression], scene: Scene) -> Iterator[list[str]]:
    """A row of the demo's table for each; the first is the exact one."""
    data = (scene.boxes, scene.scores, scene.labels)
    exact_seconds, exact_keep = 0.0, None
    for suppression in suppressions:
        with console.status(f"{suppression} …"):
            seconds, (keep, _) = _timed(partial(suppression, *data))
            before = suppression.steps[:-1]
            boxes_in = len(Suppression(before)(*data).keep) if before else len(scene.boxes)
        if exact_keep is None:
            exact_seconds, exact_keep = seconds, keep
        agreed = agreement(keep, exact_keep)
        yield [
            str(suppression).replace("+", "\n+"),
            f"{boxes_in:,}",
            f"{len(keep):,}",
            f"{seconds * 1e3:.2f} ms",
            f"{exact_seconds / seconds:.1f}x",
            f"{agreed.recall:.1%}",
            f"{agreed.precision:.1%}",
        ]


def _demo_detector(seed: int) -> None:
    """A forward pass of Faster R-CNN with exact NMS and with HNMS in place of torchvision's."""
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
        console.print(result.table(f"Faster R-CNN, 800 px, 9,000 boxes a level: {name} for proposals"))
    console.print(
        "A ResNet-50 FPN with random weights, scaled so that its scores are those of a\n"
        "crowd, on one image. suppress proposals: the RPN's NMS; proposals, head: the\n"
        "rest of the RPN and of the RoI head. Shortest of two passes each, in turns;\n"
        "by suppression: the total if nothing else differed.\n"
        "In your code: hashnms.detectors.accelerate(model), and profile(model, images).",
        style="dim",
        highlight=False,
    )


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


def _timed(call: Callable[[], Any], repeats: int = 7, enough: float = 1.0) -> tuple[float, Any]:
    """The shortest of several runs, of fewer if they take longer than `enough` seconds, and the result."""
    best, total = float("inf"), 0.0
    for _ in range(repeats):
        start = time.perf_counter()
        result = call()
        seconds = time.perf_counter() - start
        best, total = min(best, seconds), total + seconds
        if total > enough:
            break
    return best, result
