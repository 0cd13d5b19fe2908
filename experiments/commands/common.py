"""What the commands share: options, and a progress bar."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from experiments.configurations import CONFIGURATIONS, Configuration

RESULTS = Path("build/experiments")

ResultsOption = Annotated[Path, typer.Option(help="The folder to write to.")]
ImagesOption = Annotated[int | None, typer.Option(min=1, help="Use only the first N images.")]
TimedOption = Annotated[int, typer.Option(min=0, help="Measure times on the first N images, as in the paper.")]
ConfigurationOption = Annotated[str, typer.Option(help=f"One of {', '.join(CONFIGURATIONS)}.")]


def configuration_of(name: str) -> Configuration:
    if name not in CONFIGURATIONS:
        raise typer.BadParameter(f"must be one of {', '.join(CONFIGURATIONS)}, got {name!r}")
    return CONFIGURATIONS[name]


@contextmanager
def bar(console: Console, text: str) -> Iterator[Callable[..., None]]:
    """A progress bar on a terminal; elsewhere a line now and then. Yields a function of done, total and a text."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    shown, in_lines = -1.0, not (console.is_terminal or console.quiet)

    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task(text, total=None)

        def update(done: int, total: int, description: str = text) -> None:
            nonlocal shown
            progress.update(task, completed=done, total=total, description=description)
            if in_lines and (done / max(total, 1) >= shown + 0.05 or done == total):
                shown = done / max(total, 1)
                print(f"{description}: {done:,} of {total:,}", file=sys.stderr, flush=True)

        yield update
