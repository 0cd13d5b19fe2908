"""`hashnms suppress`: suppress detections in files and write the kept ones."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from hashnms.cli.common import (
    AgnosticOption,
    BoxFormatOption,
    ColumnsOption,
    FormatOption,
    HeaderOption,
    ImagesOption,
    InputsArgument,
    ReportOption,
    ShowOption,
    SkipBadOption,
    bytes_of,
    needs_files,
    one_line_errors,
    progress_bar,
    reading_of,
    warn,
)
from hashnms.cli.pictures import check_report


def command(
    inputs: InputsArgument,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="The file or folder to write; - is standard output.",
            show_default=False,
        ),
    ],
    suppression: Annotated[
        str,
        typer.Option(
            "--suppression",
            "-s",
            metavar="METHOD",
            help="The method: nms:0.5, hnms:0.73/1+nms:0.5, softnms:gaussian/0.5 ...",
        ),
    ] = "nms:0.5",
    format: FormatOption = None,
    to: Annotated[
        str | None, typer.Option(metavar="NAME", help="Output format. Default: by suffix, or the input format.")
    ] = None,
    columns: ColumnsOption = None,
    header: HeaderOption = None,
    box_format: BoxFormatOption = None,
    class_agnostic: AgnosticOption = False,
    skip_bad: SkipBadOption = False,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Memory for boxes, such as 2G; the program itself takes about 150M. "
            "Default: a quarter of the machine's.",
        ),
    ] = None,
    scene: Annotated[
        bool, typer.Option("--scene", help="All rows belong to one scene, which need not fit into memory.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Working folder for --scene; a killed command continues there when run again."
        ),
    ] = None,
    report: ReportOption = None,
    images: ImagesOption = None,
    show: ShowOption = 12,
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="ray: process Parquet files on a cluster; the output is a folder of Parquet files."
        ),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Address of the Ray cluster, such as auto. Default: RAY_ADDRESS, or this machine."
        ),
    ] = None,
) -> None:
    """Suppress the boxes in files, image by image and class by class.

    Kept rows are copied unchanged, in their order; Soft-NMS changes only their scores. Files may be larger than memory.
    The output appears when it is complete; after an error, an old output is unchanged.

    For example:

    - `hashnms suppress results.json -o kept.json -s nms:0.5`
    - `hashnms suppress 'tiles/*.parquet' -o kept.parquet -s hnms:0.73/1+nms:0.5 --memory 2G`
    - `hashnms suppress city.parquet -o kept.parquet -s nms:0.5 --scene --memory 2G --folder work`
    - `hashnms suppress det.txt -f mot -o kept.txt -s softnms:gaussian/0.5`
    - `hashnms suppress labels/ -f yolo -o kept/ -s nms:0.45+limit:300`
    - `cat results.jsonl | hashnms suppress - -f jsonl -o - > kept.jsonl`
    - `hashnms suppress 'tiles/*.parquet' -o kept -s nms:0.5 --engine ray --address auto`
    """
    with one_line_errors():
        needs_files()
        from hashnms import files  # noqa: PLC0415

        check_report(report, images)
        if report is not None and any(_is_gone(path, output) for path in inputs):
            raise ValueError(
                "--report needs input files that still exist afterwards, got an input that is the output or -"
            )
        reading = reading_of(columns, header, box_format, class_agnostic=class_agnostic, skip_bad=skip_bad)
        if engine is not None or address is not None:
            others = {"--to": to, "--header": header, "--skip-bad": skip_bad, "--memory": memory, "--report": report}
            _on_engine(engine, address, format, inputs, output, suppression, reading, others)
            return
        limits: dict[str, Any] = {"memory": bytes_of(memory), **vars(reading)}
        if folder is not None and not scene:
            raise ValueError("--folder must be given with --scene, got no --scene")
        suppress: Callable[..., files.Summary] = files.suppress
        if scene:
            if limits.pop("on_bad") == "drop":
                raise ValueError("--skip-bad must not be given with --scene, which needs every row to be valid")
            from hashnms import scenes  # noqa: PLC0415

            suppress, limits["folder"] = scenes.suppress, folder
        with progress_bar("suppressing") as progress:
            summary = suppress(inputs, output, suppression, format=format, to=to, progress=progress, **limits)
        print(summary, file=sys.stderr)
        if memory is not None and summary.memory_needed > limits["memory"]:
            need = -(-summary.memory_needed // 2**20)
            warn(f"--memory {memory} was not enough, {need}M were used: for an image, or a part of a file, at a time")
        if report is not None:
            from hashnms.cli.reports import report_of_files  # noqa: PLC0415

            with progress_bar("report"):
                report_of_files(report, inputs, suppression, format, reading, images, show)
            print(f"report: {report}", file=sys.stderr)


def _on_engine(
    engine: str | None,
    address: str | None,
    format: str | None,
    inputs: list[str],
    output: Path,
    suppression: str,
    reading: Any,
    others: dict[str, Any],
) -> None:
    """Run on a cluster, which takes fewer options."""
    if engine != "ray":
        raise ValueError(f"--engine must be ray, got {engine or 'none'}")
    given = next((name for name, value in others.items() if value), None)
    if given is not None:
        raise ValueError(f"{given} must not be given with --engine ray")
    if format not in (None, "parquet"):
        raise ValueError(f"--format must be parquet with --engine ray, got {format}")
    import hashnms  # noqa: PLC0415

    how = {"columns": reading.columns, "box_format": reading.box_format, "address": address}
    print(hashnms.cluster.suppress_files(inputs, output, suppression, **how), file=sys.stderr)


def _is_gone(path: str, output: Path) -> bool:
    """Whether an input cannot be read again when the output is written."""
    return path == "-" or (output.exists() and Path(path).exists() and output.samefile(path))
