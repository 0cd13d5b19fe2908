"""`hashnms suppress`: suppress detections in files and write the kept ones."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    path,
    progress_bar,
    reading_of,
    warn,
)
from hashnms.cli.pictures import check_report
from hashnms.cli.places import read_files

if TYPE_CHECKING:
    from hashnms.files.rows import Reading


_WITH_ENGINE = ("--columns", "--box-format", "--class-agnostic", "--scene", "--address")
_ALWAYS = ("--output", "--suppression", "--format", "--engine")
#: Options that need another one.
_NEEDED = {"--folder": "--scene", "--images": "--report", "--show": "--report", "--address": "--engine"}


def command(
    context: typer.Context,
    inputs: InputsArgument,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            parser=path,
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
        bool,
        typer.Option(
            "--scene",
            help="All rows belong to one scene, which need not fit into memory. Not with --skip-bad or --report.",
        ),
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(
            parser=path,
            metavar="FOLDER",
            help="Working folder for --scene; a killed command continues there when run again.",
        ),
    ] = None,
    report: ReportOption = None,
    images: ImagesOption = None,
    show: ShowOption = 12,
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="ray: process Parquet files on a cluster; the output is a folder of Parquet files. Takes only "
            "--columns, --box-format, --class-agnostic, --scene and --address besides.",
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

        _check_report(report, images, inputs, format, output, folder)
        reading = reading_of(columns, header, box_format, class_agnostic=class_agnostic, skip_bad=skip_bad)
        _check_together(_given(context), reading)
        if engine is not None:
            _on_engine(engine, address, format, inputs, output, suppression, reading, scene)
            return
        limits: dict[str, Any] = {"memory": bytes_of(memory), **vars(reading)}
        suppress: Callable[..., files.Summary] = files.suppress
        if scene:
            from hashnms import scenes  # noqa: PLC0415

            del limits["on_bad"]
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


def _given(context: typer.Context) -> list[str]:
    """The options that were given on the command line."""
    names = [name for name in context.params if context.get_parameter_source(name).name == "COMMANDLINE"]  # type: ignore[union-attr]
    return [f"--{name.replace('_', '-')}" for name in names if name != "inputs"]


def _check_together(given: list[str], reading: Reading) -> None:
    """Check that the given options work together: none is ignored."""
    if "--engine" in given:
        other = next((name for name in given if name not in (*_ALWAYS, *_WITH_ENGINE)), None)
        if other is not None:
            raise ValueError(f"{other} must not be given with --engine ray, which takes only {', '.join(_WITH_ENGINE)}")
    for name, needed in _NEEDED.items():
        if name in given and needed not in given:
            raise ValueError(f"{name} must be given with {needed}, got no {needed}")
    if "--scene" not in given:
        return
    if "--skip-bad" in given:
        raise ValueError("--skip-bad must not be given with --scene, which needs every row to be valid")
    if "--report" in given:
        raise ValueError(
            "--report must not be given with --scene, which need not fit into memory: "
            "for a scene that does, --columns image= gives the same answer and its page"
        )
    image = reading.columns.get("image")
    if image is not None:
        raise ValueError(f"--columns must have no image with --scene, because all rows are of one, got image={image}")


def _on_engine(
    engine: str,
    address: str | None,
    format: str | None,
    inputs: list[str],
    output: Path,
    suppression: str,
    reading: Reading,
    scene: bool,
) -> None:
    """Run on a cluster."""
    if engine != "ray":
        raise ValueError(f"--engine must be ray, got {engine}")
    if format not in (None, "parquet"):
        raise ValueError(f"--format must be parquet with --engine ray, got {format}")
    for name, paths in (("INPUTS", inputs), ("--output", [str(output)])):
        if "-" in paths:
            raise ValueError(f"{name} must be paths that all machines see with --engine ray, got -")
    import hashnms  # noqa: PLC0415

    columns = {**reading.columns, "image": None} if scene else reading.columns
    how: dict[str, Any] = {"columns": columns, "box_format": reading.box_format, "address": address}
    print(hashnms.cluster.suppress_files(inputs, output, suppression, **how), file=sys.stderr)


def _check_report(
    report: Path | None, images: Path | None, inputs: list[str], format: str | None, output: Path, folder: Path | None
) -> None:
    """Check that the page can be written, replaces no other file, and can read the input again."""
    if report is None:
        return check_report(None, images)
    files = read_files(inputs, format)
    written = [path for path in (output, folder) if path is not None and str(path) != "-"]
    check_report(report, images, {"the output": written, "the input files": files})
    if any(_is_gone(path, output) for path in (*inputs, *map(str, files))):
        raise ValueError("--report needs input that can be read again, got one that is the output, - or a pipe")


def _is_gone(path: str, output: Path) -> bool:
    """Whether an input cannot be read again when the output is written."""
    from hashnms.files.output import is_stream  # noqa: PLC0415

    return is_stream(Path(path)) or (output.exists() and Path(path).exists() and output.samefile(path))
