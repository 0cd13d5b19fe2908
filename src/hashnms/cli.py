"""The command line: parses, calls, prints."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from hashnms import __version__, alpha_for_bound, hnms, iou_lower_bound, reference
from hashnms.evaluate import agreement
from hashnms.synthetic import BOXES_PER_IMAGE, PRESETS, make_scene

app = typer.Typer(
    help="Fast, exact non-maximum suppression for crowded scenes, by hashing boxes.",
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
    """Make a crowded scene and suppress its raw boxes with HNMS, K = 1 to 4 hashes."""
    if preset not in PRESETS:
        raise typer.BadParameter(f"must be one of {', '.join(PRESETS)}, got {preset}", param_hint="--preset")
    if not 0.0 < alpha < 1.0:
        raise typer.BadParameter(f"must be in (0, 1), got {alpha}", param_hint="--alpha")
    scene = make_scene(preset, boxes, seed=seed)
    data = (scene.boxes, scene.scores)
    bound = iou_lower_bound(alpha)

    with console.status("Greedy NMS in NumPy, for comparison: quadratic ..."):
        greedy_seconds, greedy = _timed(partial(reference.nms, *data, bound, labels=scene.labels), repeats=1)
    table = Table(title=f"{preset}: {len(scene.gt_boxes):,} objects, {boxes:,} raw boxes")
    for column in ("method", "boxes in", "kept", "time", "speed-up", "agreement"):
        table.add_column(column, justify="left" if column == "method" else "right")

    def add_row(name: str, keep: Any, seconds: float) -> None:
        share = agreement(keep, greedy).recall
        speed_up = f"{greedy_seconds / seconds:,.0f}x"
        table.add_row(name, f"{boxes:,}", f"{len(keep):,}", f"{seconds * 1e3:.2f} ms", speed_up, f"{share:.1%}")

    add_row(f"greedy NMS {bound:.3f}", greedy, greedy_seconds)
    for num_hashes in range(1, 5):
        seconds, keep = _timed(partial(hnms, *data, alpha=alpha, num_hashes=num_hashes, labels=scene.labels))
        add_row(f"HNMS {alpha:g}/{num_hashes}", keep, seconds)
    console.print(table)
    console.print(
        f"HNMS a/K: alpha a, K hashes. Boxes of one cell overlap by IoU {bound:.3f} at least.\n"
        "Agreement: the share of greedy NMS's boxes that are kept too.\n"
        "Times: greedy NMS is plain NumPy, run once; HNMS is the best of several runs.",
        style="dim",
        highlight=False,
    )


@app.command()
def bound(
    alpha: Annotated[float | None, typer.Option(help="Show the bound of this alpha only.")] = None,
    iou: Annotated[float | None, typer.Option(help="Show the smallest alpha that guarantees this IoU.")] = None,
) -> None:
    """Show which IoU the boxes of one cell have at least, for an alpha, and which alpha an IoU needs."""
    try:
        alphas = [alpha] if alpha is not None else [] if iou is not None else [k / 20 for k in range(6, 20)]
        table = Table("alpha", "IoU bound")
        for value in alphas:
            table.add_row(f"{value:.10g}", f"{iou_lower_bound(value):.5f}")
        if iou is not None:
            table.add_row(f"{alpha_for_bound(iou):.6f}", f"{iou:.10g}")
        elif alpha is None:
            table.add_section()
            for target in (0.3, 0.5, 0.7, 0.9):
                table.add_row(f"{alpha_for_bound(target):.6f}", f"{target:.5f}")
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    console.print(table)


def _timed(call: Callable[[], Any], repeats: int = 7) -> tuple[float, Any]:
    """The shortest of several runs, and the result."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        result = call()
        best = min(best, time.perf_counter() - start)
    return best, result
