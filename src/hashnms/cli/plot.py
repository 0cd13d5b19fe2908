"""`hashnms plot`: draw the boxes of an image before and after a suppression."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hashnms.cli.common import (
    AgnosticOption,
    BoxFormatOption,
    ColumnsOption,
    FormatOption,
    HeaderOption,
    InputsArgument,
    console,
    needs_files,
    one_line_errors,
    path,
    reading_of,
)


def command(
    inputs: InputsArgument,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            parser=path,
            metavar="FILE",
            help="The picture to write: PNG, SVG, PDF or JPEG.",
            show_default=False,
        ),
    ],
    suppression: Annotated[
        str,
        typer.Option("--suppression", "-s", metavar="METHOD", help="The method: nms:0.5, softnms:gaussian/0.5 ..."),
    ] = "nms:0.5",
    image: Annotated[
        str | None, typer.Option(metavar="ID", help="The id of the image. Default: the one with the most boxes.")
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(parser=path, metavar="FOLDER", help="The folder of the images, which are named after their ids."),
    ] = None,
    format: FormatOption = None,
    columns: ColumnsOption = None,
    header: HeaderOption = None,
    box_format: BoxFormatOption = None,
    class_agnostic: AgnosticOption = False,
) -> None:
    """Draw the boxes of an image before and after a suppression.

    Example: `hashnms plot results.json --image 42 --images val2017 -s nms:0.5 -o 42.png`
    """
    with one_line_errors():
        needs_files()
        import numpy as np  # noqa: PLC0415

        from hashnms import plot  # noqa: PLC0415
        from hashnms.cli.pictures import check_figure, check_report, image_file, saved  # noqa: PLC0415
        from hashnms.cli.places import read_files  # noqa: PLC0415
        from hashnms.files.loading import load  # noqa: PLC0415

        check_report(None, images)
        check_figure("--output", output, {"the input files": read_files(inputs, format)})
        loaded = load(inputs, reading_of(columns, header, box_format, class_agnostic=class_agnostic), format)
        number = _number(image, loaded)
        rows, found = loaded.rows_of(number), loaded.detections
        file = image_file(images, loaded.images[number]) if loaded.images else None
        if images is not None and file is None:
            name = repr(loaded.images[number]) if loaded.images else "the only image"
            raise ValueError(f"--images must be a folder with a picture that is named after {name}, got {images}")
        if file is not None and output.is_file() and output.samefile(file):
            raise ValueError(f"--output must be another file than the picture of the image, got {output}")
        boxes = found.boxes[rows]
        if loaded.relative and file is not None:
            from PIL import Image  # noqa: PLC0415

            with Image.open(file) as picture:
                boxes = boxes * np.tile(picture.size, 2)
        axes = plot.plot_before_after(
            boxes,
            found.scores[rows],
            suppression,
            labels=None if found.labels is None else found.labels[rows],
            image=None if file is None else str(file),
            label_names=[str(label) for label in loaded.labels] or None,
        )
        saved(axes[0], output)
        console.print(f"{output}", highlight=False, soft_wrap=True)


def _number(image: str | None, loaded: Any) -> int:
    """The number of the image with this id, or of the one with the most boxes."""
    if not len(loaded.detections):
        raise ValueError("there is nothing to draw: the input has no boxes")
    if image is None:
        counts = {number: len(loaded.rows_of(number)) for number in range(max(len(loaded.images), 1))}
        return max(counts, key=lambda number: counts[number])
    names = [str(name) for name in loaded.images]
    if image not in names:
        some = ", ".join(names[:5]) + (" ..." if len(names) > 5 else "")
        raise ValueError(f"--image must be one of the images, {some or 'which have no ids'}, got {image!r}")
    return names.index(image)
