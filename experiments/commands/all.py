"""`python -m experiments all`: from a dataset to every table and figure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from experiments.commands import figure, raw, table, train
from experiments.commands.common import RESULTS, ResultsOption
from experiments.configurations import CONFIGURATIONS
from experiments.datasets import GENERATED
from experiments.generate import generate

SIZES = {"tiny": "-tiny", "cpu": "-cpu", "paper": ""}
DETECTORS = ("faster_rcnn", "retinanet")


def command(
    size: Annotated[
        str, typer.Option(help="tiny: a few steps of a small network; cpu: for two cores; paper: the paper's settings.")
    ] = "tiny",
    dataset: Annotated[
        str, typer.Option(help="The dataset of the configurations: carpk has every size, others some.")
    ] = "carpk",
    data: Annotated[Path | None, typer.Option(help="The folder of the dataset. Default: a small one is drawn.")] = None,
    results: ResultsOption = RESULTS,
    backbone_weights: Annotated[Path | None, typer.Option(help="Weights of the backbone to start from.")] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Steps of training, instead of the configuration's epochs.")
    ] = None,
    images: Annotated[int | None, typer.Option(min=1, help="Use only this many test images.")] = None,
    sweep_images: Annotated[int, typer.Option(min=1, help="The number of images for the figures.")] = 100,
    device: Annotated[str, typer.Option(help="Where to train and run: cpu, cuda, ...")] = "cpu",
    precision: Annotated[str, typer.Option(help="The precision of training: float32, bfloat16, float16.")] = "float32",
) -> None:
    """Train both detectors, run them, and make every table and figure. Without arguments, no data is needed.

    If interrupted, run the same command again to continue; finished work is not repeated.

    Example: python -m experiments all
    """
    if size not in SIZES:
        raise typer.BadParameter(f"must be one of {', '.join(SIZES)}, got {size!r}", param_hint="--size")
    names = [f"{detector}-{dataset}{SIZES[size]}" for detector in DETECTORS]
    settings = [CONFIGURATIONS[name] for name in names if name in CONFIGURATIONS]
    if not settings:
        known = ", ".join(CONFIGURATIONS)
        raise typer.BadParameter(f"must have a configuration, one of {known}, got {dataset!r} in size {size}")
    console = Console()
    if data is None:
        data = results / "data" / dataset
        if not (data / GENERATED).exists():
            generate(dataset, data, images=24, size=(288, 192))
    for setting in settings:
        console.rule(setting.name)
        checkpoint, folder = results / "checkpoints" / f"{setting.name}.pt", results / "raw" / setting.name
        train.command(setting.name, data, checkpoint, backbone_weights, steps=steps, device=device, precision=precision)
        raw.command(setting.name, data, checkpoint, folder, images, sweep_images, device=device)
        of_proposals = setting.detector == "faster_rcnn"
        few_objects = ("voc-coco",) if dataset in ("voc", "coco") else ()
        for name in ("rpn", *few_objects) if of_proposals else ("retina", "soft"):
            table.command(name, folder, results, images, setting.timed_images)
        for name in ("alpha", "p1") if of_proposals else ("alpha", "p1", "softnms"):
            figure.command(name, folder, results, sweep_images, setting.timed_images)
    figure.command("bound", None, results)
