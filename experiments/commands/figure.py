"""`python -m experiments figure`: one of the paper's figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from experiments.commands.common import RESULTS, ResultsOption, bar
from experiments.figures import FIGURES, OF_RAW
from experiments.raw import RawFolder
from experiments.results import make_figure


def command(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(FIGURES)}.")],
    raw: Annotated[Path | None, typer.Option(help=f"A folder of raw boxes, for {', '.join(OF_RAW)}.")] = None,
    results: ResultsOption = RESULTS,
    images: Annotated[int, typer.Option(min=1, help="Use only the first N images.")] = 100,
    timed: Annotated[int, typer.Option(min=1, help="Measure times on the first N images.")] = 100,
    proposals: Annotated[
        bool, typer.Option("--proposals", help="The boxes come from an RPN, if the folder does not say it.")
    ] = False,
) -> None:
    """Measure and draw one of the paper's figures.

    bound: the least IoU in a cell. alpha: accuracy over alpha and K. p1: accuracy over time, for different numbers of
    boxes. softnms: the same with Soft-NMS.

    Writes PNG and SVG, JSON and Markdown. If interrupted, run the same command again to continue.

    Example: python -m experiments figure alpha --raw raw/faster_rcnn-carpk --images 100
    """
    if name not in FIGURES:
        raise typer.BadParameter(f"must be one of {', '.join(FIGURES)}, got {name!r}", param_hint="NAME")
    if (raw is None) == (name in OF_RAW):
        raise typer.BadParameter(f"must be {'given' if raw is None else 'left out'} for {name}", param_hint="--raw")
    console = Console()
    with bar(console, f"figure {name}") as update:
        folder = None if raw is None else RawFolder(raw)
        path = make_figure(name, folder, results, update, of_proposals=proposals, images=images, timed_images=timed)
    console.print(f"{path}.png and .svg", highlight=False, soft_wrap=True)
