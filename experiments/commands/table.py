"""`python -m experiments table`: one of the paper's tables from raw boxes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown

from experiments.commands.common import RESULTS, ImagesOption, ResultsOption, TimedOption, bar
from experiments.raw import RawFolder
from experiments.results import make_table
from experiments.tables import TABLES


def command(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(TABLES)}.")],
    raw: Annotated[Path, typer.Option(help="A folder of raw boxes: from the command raw, or from any other source.")],
    results: ResultsOption = RESULTS,
    images: ImagesOption = None,
    timed: TimedOption = 100,
) -> None:
    """Measure one of the paper's tables and print it next to the paper's numbers.

    rpn: HNMS instead of an RPN's NMS. retina: HNMS before NMS. soft: HNMS before Soft-NMS. voc-coco: the cost of an
    RPN's NMS with few objects. Raw boxes without a second stage give recalls instead of mAP.

    Writes JSON and Markdown. If interrupted, run the same command again to continue. It measures times, so nothing else
    should run.

    Example: python -m experiments table rpn --raw raw/faster_rcnn-carpk
    """
    if name not in TABLES:
        raise typer.BadParameter(f"must be one of {', '.join(TABLES)}, got {name!r}", param_hint="NAME")
    console = Console()
    with bar(console, f"table {name}") as update:
        text = make_table(name, RawFolder(raw), results, update, images=images, timed_images=timed)
    if console.is_terminal:
        console.print(Markdown(text))
    else:
        print(text)
    console.print(f"in {results}", highlight=False, soft_wrap=True)
