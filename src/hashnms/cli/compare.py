"""`hashnms compare`: compare methods on the same detections."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hashnms._numbers import whole
from hashnms.cli.common import (
    AgnosticOption,
    BoxFormatOption,
    ColumnsOption,
    FormatOption,
    HeaderOption,
    InputsArgument,
    ReportOption,
    ShowOption,
    SkipBadOption,
    console,
    needs_files,
    one_line_errors,
    path,
    progress_bar,
    reading_of,
    say_dropped,
    within,
)
from hashnms.cli.pictures import check_report
from hashnms.cli.places import read_files
from hashnms.cli.streams import needs_standard_output
from hashnms.cli.truth import ClassOffsetOption, ClassOrderOption, TruthImagesOnlyOption, measured
from hashnms.pipeline import Suppression
from hashnms.sweeps import sweep as swept

_OUTPUTS = ("text", "json", "csv", "markdown")


def command(
    inputs: InputsArgument,
    suppressions: Annotated[
        list[str],
        typer.Option(
            "--suppression",
            "-s",
            metavar="METHOD",
            help="A method. Repeat the option: the others are compared with the first.",
            show_default=False,
        ),
    ],
    truth: Annotated[
        Path | None,
        typer.Option(parser=path, metavar="FILE", help="Ground truth, a COCO dataset (JSON): adds mAP and recall."),
    ] = None,
    class_offset: ClassOffsetOption = 0,
    class_order: ClassOrderOption = False,
    truth_images_only: TruthImagesOnlyOption = False,
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VALUES",
            help="Values of a parameter: alpha=0.5:0.9:0.05, k=1:4, top=100,1000,9000; also iou, sigma, limit, score. "
            "The first method stays the one that the others are compared with.",
        ),
    ] = None,
    max_dets: Annotated[
        int,
        typer.Option(
            parser=within(whole, 1), metavar="N", help="How many boxes of each image and class count for mAP."
        ),
    ] = 1000,
    rounds: Annotated[
        int, typer.Option(parser=within(whole, 1), metavar="N", help="How many times each method is timed.")
    ] = 5,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="NAME", help=f"How the table is printed: {', '.join(_OUTPUTS)}.")
    ] = "text",
    format: FormatOption = None,
    columns: ColumnsOption = None,
    header: HeaderOption = None,
    box_format: BoxFormatOption = None,
    class_agnostic: AgnosticOption = False,
    skip_bad: SkipBadOption = False,
    report: ReportOption = None,
    images: Annotated[
        Path | None,
        typer.Option(
            parser=path,
            metavar="FOLDER",
            help="The folder of the images, for the report: named after their ids, or as the truth names them.",
        ),
    ] = None,
    show: ShowOption = 12,
) -> None:
    """Compare methods on detections in files: boxes, time, agreement with the first, and mAP with ground truth.

    For example:

    - `hashnms compare results.json -s nms:0.5 -s hnms:0.73/1+nms:0.5 -s softnms:gaussian/0.5 --truth truth.json`
    - `hashnms compare results.json -s nms:0.5 -s hnms:0.7/1+nms:0.5 --sweep alpha=0.5:0.9:0.05 --report sweep.html`
    - `hashnms compare tiles.parquet -s nms:0.5 -s top:9000+nms:0.5 --sweep top=100,1000,9000 -o markdown`
    """
    with one_line_errors():
        needs_files()
        needs_standard_output()
        from hashnms import compare as library  # noqa: PLC0415
        from hashnms.cli import reports  # noqa: PLC0415
        from hashnms.files.loading import load  # noqa: PLC0415

        read = [] if report is None else read_files(inputs, format)
        check_report(report, images, {"the input files": read, "--truth": [] if truth is None else [truth]})
        if output not in _OUTPUTS:
            hint = f"; add > {output} to write to a file" if Path(output).suffix else ""
            raise ValueError(f"--output must be one of {', '.join(_OUTPUTS)}, got {output!r}{hint}")
        if truth is None and (class_offset or class_order or truth_images_only):
            raise ValueError("--class-offset, --class-order and --truth-images-only need --truth, got none")
        methods = _methods(suppressions, sweep)
        if report is not None and len(set(methods)) < len(methods):
            raise ValueError("--report needs different methods, got one twice")
        reading = reading_of(columns, header, box_format, class_agnostic=class_agnostic, skip_bad=skip_bad)
        with progress_bar("reading") as progress:
            loaded = load(inputs, reading, format)
            known = None if truth is None else measured(truth, loaded, class_offset, class_order, truth_images_only)
            loaded = loaded if known is None else known.loaded
            rows = library.compare(
                loaded.detections if known is None else known.detections,
                methods,
                truth=None if known is None else known.truth,
                max_detections=max_dets,
                ignore_by_label=True,
                rounds=rounds,
                progress=lambda done, total: progress(done / total, "comparing"),
            )
        say_dropped(loaded.bad)
        if output == "text":
            console.print(library.as_table(rows, str(loaded)))
        else:
            print(
                {"json": library.as_json, "csv": library.as_csv, "markdown": library.as_markdown}[output](rows).rstrip()
            )
        if report is not None:
            reports.write(report, loaded, rows, images, show, known)


def _methods(suppressions: list[str], sweep: list[str] | None) -> list[Suppression]:
    """The methods to compare. The first stays the first, with the values that were given, whatever is swept."""
    methods = list(map(Suppression.of, suppressions))
    if not sweep:
        return methods
    return list(dict.fromkeys([methods[0], *swept(methods, sweep)]))
