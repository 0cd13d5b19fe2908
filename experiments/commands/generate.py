"""`python -m experiments generate`: draw a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from experiments.datasets import SOURCES, load
from experiments.generate import FORMATS, LEAST_SIZE, MOST_SIZE, generate

_SIDE = typer.Option(min=LEAST_SIZE, max=MOST_SIZE, help="The size of an image, in pixels.")


def command(
    format: Annotated[str, typer.Option(help=f"The dataset whose format is used: {', '.join(FORMATS)}.")],
    output: Annotated[Path, typer.Option(help="The folder to make.")],
    images: Annotated[int, typer.Option(min=2, help="The number of images; a third of them are for testing.")] = 60,
    seed: Annotated[int, typer.Option(min=0, help="The same seed draws the same images.")] = 0,
    width: Annotated[int, _SIDE] = 320,
    height: Annotated[int, _SIDE] = 240,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the folder, if this command made it.")
    ] = False,
) -> None:
    """Draw a small crowded dataset, with exact boxes, in the format of a known one.

    Parking lots, shelves or crowds, like the original data of the format. Nothing is downloaded.

    Example: python -m experiments generate --format carpk --output lots
    """
    console = Console()
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("drawing", total=images)
        root = generate(
            format,
            output,
            images=images,
            seed=seed,
            size=(width, height),
            overwrite=overwrite,
            drawn=lambda: progress.advance(task),
        )
    for split in (SOURCES[format].train, SOURCES[format].test):
        console.print(str(load(format, root, split, require_counts=True)), highlight=False)
    console.print(f"in {root}", highlight=False, soft_wrap=True)
