"""What the commands share: options, one-line errors, and a progress bar."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from hashnms._extras import missing
from hashnms._numbers import whole
from hashnms._temporary import moved
from hashnms.cli.signals import Ended, ending_in_order
from hashnms.cli.wording import in_options

if TYPE_CHECKING:
    from hashnms.files.rows import Reading

_Number = TypeVar("_Number", int, float)

console = Console()
on_stderr = Console(stderr=True)


def path(text: object) -> Path:
    """A path given as an option. An empty one, from a shell's variable that is not set, would be the current folder."""
    if not str(text):
        raise typer.BadParameter("must be a path, got an empty one")
    return Path(str(text))


def within(
    read: Callable[[str], _Number], least: float | None = None, most: float | None = None
) -> Callable[[object], _Number]:
    """A parser of numbers given as an option: `real` or `whole`, within limits, both included."""
    kind = "a whole number" if read is whole else "a number"
    limits = "".join(f" {word} {limit:,}" for word, limit in (("from", least), ("to", most)) if limit is not None)

    def parse(text: object) -> _Number:
        with suppress(ValueError):
            value = read(str(text))
            if (least is None or value >= least) and (most is None or value <= most):
                return value
        raise typer.BadParameter(f"must be {kind}{limits}, got {str(text)!r}")

    return parse


InputsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="INPUTS", help="Files, folders or patterns of one format; - is standard input.", show_default=False
    ),
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        "-f",
        metavar="NAME",
        help="Input format: coco, jsonl, csv, tsv, mot, yolo, visdrone, parquet, feather, npz. Default: by suffix.",
    ),
]
ColumnsOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="Columns with unusual names, joined by commas: image=NAME, label=NAME, score=NAME, boxes=NAME, or "
        "boxes=A/B/C/D for four columns. image= means that all rows are of one image.",
    ),
]
HeaderOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="The names of the columns of a CSV file without a header, such as image,x1,y1,x2,y2,class,score.",
    ),
]
BoxFormatOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="xyxy, xywh or cxcywh. Default: the usual meaning of the names of the box columns."
    ),
]
AgnosticOption = Annotated[
    bool, typer.Option("--class-agnostic", help="Let boxes of different classes suppress each other.")
]
SkipBadOption = Annotated[
    bool, typer.Option("--skip-bad", help="Drop bad rows and print how many, instead of stopping at the first.")
]
ReportOption = Annotated[
    Path | None,
    typer.Option(
        parser=path, metavar="FILE", help="Also write an HTML page with tables, plots, and boxes before and after."
    ),
]
ImagesOption = Annotated[
    Path | None,
    typer.Option(
        parser=path,
        metavar="FOLDER",
        help="The folder of the images, which are named after their ids, for the report.",
    ),
]
ShowOption = Annotated[
    int, typer.Option(parser=within(whole, 0), metavar="N", help="How many images the report shows.")
]


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Print each error as one line on stderr. Exit with code 2 for errors in data or usage, with 1 for others.

    If a signal ends the command, temporary files are removed, and the exit code is 128 and its number.
    """
    moved.clear()
    try:
        with ending_in_order():
            yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the pipe is closed: print no more
        raise typer.Exit(1) from None
    except (ValueError, TypeError, ImportError, NotImplementedError) as error:  # pyarrow raises the last
        _fail(str(error), 2)
    except OSError as error:
        where = "" if error.filename is None else f": {error.filename}"
        _fail(f"{error.strerror or error}{where}", 2 if isinstance(error, FileNotFoundError | IsADirectoryError) else 1)
    except MemoryError:
        _fail("not enough memory: the boxes of each image must fit into it", 1)
    except KeyboardInterrupt:
        _fail(f"interrupted; {_written()}", 1)
    except Ended as end:
        with suppress(OSError):  # the terminal may be gone
            _say("error", f"ended by {signal.Signals(end.number).name}; {_written()}")
        raise typer.Exit(128 + end.number) from None


def _written() -> str:
    """What a command that did not finish has written."""
    return ", ".join(f"{path} was written" for path in moved) or "nothing was written"


def _fail(message: str, code: int) -> None:
    message = re.sub(r"\n +(\S.*)\n *\^+\Z", r" in \1", message)  # drop the line of ^ below a notation
    _say("error", message)
    raise typer.Exit(code) from None


def warn(message: str) -> None:
    """Print a warning as one line on stderr."""
    _say("warning", message)


def _say(kind: str, message: str) -> None:
    line = re.sub(r"[\x00-\x1f\x7f-\x9f]+", " ", message)  # text from files: no line breaks, no terminal codes
    print(f"{kind}: {in_options(line)}", file=sys.stderr)


@contextmanager
def progress_bar(text: str) -> Iterator[Callable[[float, str], None]]:
    """A progress bar on a terminal, nothing elsewhere. Yields a function to call with the share that is done."""
    if not on_stderr.is_terminal:  # a disabled bar of an older rich prints an empty line
        yield lambda *_: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=on_stderr, transient=True) as progress:
        task = progress.add_task(text, total=1.0)

        def update(done: float, description: str = text) -> None:
            progress.update(task, completed=done, description=description)

        yield update


def columns_of(text: str | None, class_agnostic: bool) -> dict[str, Any]:
    """The roles of columns from `image=frame,score=conf`."""
    roles: dict[str, Any] = {}
    for part in filter(None, (text or "").split(",")):
        role, equals, name = part.partition("=")
        role = {"class": "label", "box": "boxes", "bbox": "boxes"}.get(role.strip(), role.strip())
        if not equals or role not in ("image", "label", "boxes", "score"):
            raise ValueError(
                f"--columns must look like image=frame,score=conf (image, label, boxes, score), got {part!r}"
            )
        names = [name.strip() for name in name.split("/")] if role == "boxes" else [name.strip()]
        if role in ("boxes", "score") and not all(names):
            raise ValueError(f"--columns must name the columns of boxes and score, got {part!r}")
        roles[role] = tuple(names) if len(names) > 1 else (names[0] or None)
    if class_agnostic:
        roles["label"] = None
    return roles


def reading_of(
    columns: str | None, header: str | None, box_format: Any, *, class_agnostic: bool = False, skip_bad: bool = False
) -> Reading:
    """The `Reading` of files, from the options of a command."""
    from hashnms.files.rows import Reading  # noqa: PLC0415

    names = None if header is None else tuple(name.strip() for name in header.split(","))
    return Reading(columns_of(columns, class_agnostic), box_format, names, "drop" if skip_bad else "raise")


_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_MOST_MEMORY = 2**60


def bytes_of(text: str | None) -> int | None:
    """A size such as 500M or 2G."""
    if text is None:
        return None
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)i?b?", text.strip().lower())
    size = 0.0 if found is None else float(found[1]) * _UNITS[found[2]]
    if not 1 <= size <= _MOST_MEMORY:
        shown = text if len(text) <= 40 else f"{text[:40]}..."
        raise ValueError(f"--memory must be a size such as 500M or 2G, got {shown!r}")
    return int(size)


def say_dropped(bad: int) -> None:
    """Print how many rows `--skip-bad` dropped."""
    if bad:
        print(f"{bad:,} bad {'rows' if bad > 1 else 'row'} dropped", file=sys.stderr)


def needs_files() -> None:
    """Raise an error that says what to install if the packages that read files are missing."""
    try:
        import msgspec  # noqa: F401, PLC0415
        import pyarrow  # noqa: F401, PLC0415
    except ImportError as error:
        raise missing("reading files", error.name, "files") from None
