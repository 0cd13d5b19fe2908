"""`hashnms bound`: the least IoU of two boxes in one cell."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from hashnms import alpha_for_bound, iou_lower_bound
from hashnms._numbers import real
from hashnms.cli.common import console, one_line_errors, path, within
from hashnms.cli.pictures import check_figure, saved
from hashnms.cli.streams import needs_standard_output


def command(
    alpha: Annotated[
        float | None, typer.Option(parser=within(real), metavar="ALPHA", help="Show the bound for this alpha only.")
    ] = None,
    iou: Annotated[
        float | None,
        typer.Option(parser=within(real), metavar="IOU", help="Show the smallest alpha that guarantees this IoU."),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(parser=path, metavar="FILE", help="Draw the bound over alpha to this file (PNG, SVG or PDF)."),
    ] = None,
) -> None:
    """Show the least IoU of two boxes in one cell for an alpha, and the smallest alpha that guarantees an IoU."""
    both = alpha is None and iou is None
    with one_line_errors():
        needs_standard_output()
        if plot is not None:
            check_figure("--plot", plot)
        if both or alpha is not None:
            table = Table("alpha", "least IoU of two boxes in one cell")
            for value in [k / 20 for k in range(6, 20)] if alpha is None else [alpha]:
                table.add_row(f"{value:.10g}", f"{iou_lower_bound(value):.5f}")
            console.print(table)
        if both or iou is not None:
            table = Table("guaranteed IoU", "smallest alpha")
            for value in (0.3, 0.5, 0.7, 0.9) if iou is None else [iou]:
                table.add_row(f"{value:.10g}", f"{alpha_for_bound(value):.10g}")
            console.print(table)
        if plot is not None:
            from hashnms import plot as plots  # noqa: PLC0415

            marked = (0.7, 0.73) if alpha is None else (alpha,)
            saved(plots.plot_bound(mark=marked), plot)
            console.print(f"{plot}", highlight=False, soft_wrap=True)
