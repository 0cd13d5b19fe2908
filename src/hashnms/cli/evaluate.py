"""`hashnms evaluate`: COCO's usual numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table

from hashnms._numbers import whole
from hashnms.cli.common import (
    BoxFormatOption,
    ColumnsOption,
    FormatOption,
    HeaderOption,
    InputsArgument,
    SkipBadOption,
    console,
    needs_files,
    one_line_errors,
    path,
    reading_of,
    say_dropped,
)
from hashnms.cli.streams import needs_standard_output
from hashnms.cli.truth import ClassOffsetOption, ClassOrderOption, TruthImagesOnlyOption, measured


def command(
    inputs: InputsArgument,
    truth: Annotated[
        Path, typer.Option(parser=path, metavar="FILE", help="Ground truth: a COCO dataset (JSON).", show_default=False)
    ],
    class_offset: ClassOffsetOption = 0,
    class_order: ClassOrderOption = False,
    truth_images_only: TruthImagesOnlyOption = False,
    max_dets: Annotated[
        str,
        typer.Option(metavar="NUMBERS", help="How many boxes of each image and class count: three increasing numbers."),
    ] = "1,10,100",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    format: FormatOption = None,
    columns: ColumnsOption = None,
    header: HeaderOption = None,
    box_format: BoxFormatOption = None,
    skip_bad: SkipBadOption = False,
) -> None:
    """Evaluate detections against ground truth: COCO's twelve lines, and the average precision of each class.

    Example: `hashnms evaluate kept.json --truth instances_val.json --max-dets 10,100,1000`
    """
    with one_line_errors():
        needs_files()
        needs_standard_output()
        from hashnms.evaluate import coco_summary  # noqa: PLC0415
        from hashnms.files.loading import load  # noqa: PLC0415

        try:
            counts = tuple(whole(count) for count in max_dets.split(","))
        except ValueError:
            raise ValueError(f"--max-dets must be three numbers such as 1,10,100, got {max_dets!r}") from None
        loaded = load(inputs, reading_of(columns, header, box_format, skip_bad=skip_bad), format)
        say_dropped(loaded.bad)
        known = measured(truth, loaded, class_offset, class_order, truth_images_only)
        summary = coco_summary(known.detections, known.truth, max_detections=counts)
        if as_json:
            console.print_json(data=_plain(summary, known.labels), ensure_ascii=console.options.ascii_only)
            return
        for line in summary.lines():
            print(line)
        table = Table("class", "AP", "AP50", box=SIMPLE)
        for label, value in summary.ap.items():
            table.add_row(escape(known.labels[label]), f"{100 * value:.1f}", f"{100 * summary.ap_50[label]:.1f}")
        console.print(table)


def _plain(summary: Any, names: list[str]) -> dict[str, Any]:
    """Plain values for JSON, without NaN."""
    numbers = {name: None if value != value else value for name, value in summary.values.items()}  # noqa: PLR0124
    classes = [
        {"class": names[label], "AP": value, "AP50": summary.ap_50[label]} for label, value in summary.ap.items()
    ]
    return {**numbers, "classes": classes}
