"""`python -m experiments yolo`: makes a set of real detections with a public YOLO model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from experiments import raw as raw_file
from experiments.commands.common import ImagesOption, bar
from experiments.datasets import DatasetError, load


def command(
    name: Annotated[str, typer.Argument(help="visdrone_yolov5s, mot17_yolov5n or sku_yolov5n.")],
    data: Annotated[Path, typer.Option(help="The folder of its dataset.")],
    weights: Annotated[Path, typer.Option(help="The detector, as an ONNX file.")],
    output: Annotated[Path, typer.Option(help="Files go to OUTPUT/NAME.")],
    images: ImagesOption = None,
    size: Annotated[int, typer.Option(min=32, help="Pixels of the longer side as the network sees it.")] = 1280,
    least_score: Annotated[float, typer.Option(min=0, max=1, help="Boxes with scores above it are kept.")] = 0.001,
) -> None:
    """Run a YOLO model over the images that a set of the docs is made of, and write its boxes before any suppression.

    docs/explanation/data.md says where datasets and models come from.

    Example: python -m experiments yolo visdrone_yolov5s --data VisDrone --weights yolov5s.onnx --output raw
    """
    from experiments.yolo import REAL_SETS, Yolo, raw_of  # noqa: PLC0415  onnxruntime only where it is wanted

    if name not in REAL_SETS:
        raise typer.BadParameter(f"name must be one of {', '.join(REAL_SETS)}, got {name!r}")
    if size % 32:
        raise typer.BadParameter(f"size must be a multiple of 32, got {size}")
    real = REAL_SETS[name]
    dataset = load(real.dataset, data, real.split)
    by_id = {Path(image.id).stem: image for image in dataset.images}
    wanted = real.images[:images]
    if missing := [id for id in wanted if id not in by_id]:
        raise DatasetError(f"{data} must have the image {missing[0]}, got {len(by_id)} others")
    yolo = Yolo(weights, size)
    folder = output / name
    folder.mkdir(parents=True, exist_ok=True)
    console, count = Console(), 0
    with bar(console, "raw boxes") as update:
        for number, id in enumerate(wanted):
            update(number, len(wanted))
            raw = raw_of(yolo, by_id[id], dataset.classes, least_score=least_score)
            raw_file.save(raw, folder / f"{id}.npz")
            count += len(raw.boxes)
        update(len(wanted), len(wanted))
    console.print(f"{count:,} raw boxes of {len(wanted)} images in {folder}", highlight=False, soft_wrap=True)
