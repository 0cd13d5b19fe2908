"""`python -m experiments all`: from a dataset to every table and figure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from experiments.commands import figure, raw, table, train
from experiments.commands.common import RESULTS, ResultsOption, configuration_of
from experiments.configurations import CONFIGURATIONS
from experiments.datasets import GENERATED
from experiments.generate import generate

DATASETS = list(dict.fromkeys(configuration.dataset for configuration in CONFIGURATIONS.values()))
SIZES = {"tiny": "-tiny", "cpu": "-cpu", "paper": ""}


def command(
    size: Annotated[
        str, typer.Option(help="tiny: a few steps of a small network; cpu: for two cores; paper: the paper's settings.")
    ] = "tiny",
    dataset: Annotated[str, typer.Option(help=f"Whose configurations: {', '.join(DATASETS)}.")] = "carpk",
    data: Annotated[Path | None, typer.Option(help="Its folder; without, a small one is drawn.")] = None,
    results: ResultsOption = RESULTS,
    backbone_weights: Annotated[Path | None, typer.Option(help="Weights of the backbone to start from.")] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Of training, in place of the configuration's epochs.")
    ] = None,
    images: Annotated[int | None, typer.Option(min=1, help="Only so many test images.")] = None,
    sweep_images: Annotated[int, typer.Option(min=1, help="So many images are for the figures.")] = 100,
    device: Annotated[str, typer.Option(help="Where to train and run: cpu, cuda, ...")] = "cpu",
    precision: Annotated[str, typer.Option(help="Of training: float32, bfloat16, float16.")] = "float32",
) -> None:
    """Train both detectors, run them, and make every table and figure. Without arguments it needs no data.

    Interrupted, the same command goes on: what is done is not done again.

    Example: python -m experiments all
    """
    if size not in SIZES:
        raise typer.BadParameter(f"must be one of {', '.join(SIZES)}, got {size!r}", param_hint="--size")
    names = {detector: f"{detector}-{dataset}{SIZES[size]}" for detector in ("faster_rcnn", "retinanet")}
    settings = [configuration_of(name) for name in names.values()]
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
        for name in ("rpn",) if of_proposals else ("retina", "soft"):
            table.command(name, folder, results, timed=setting.timed_images)
        for name in ("alpha", "p1") if of_proposals else ("alpha", "p1", "softnms"):
            figure.command(name, folder, results, sweep_images, setting.timed_images)
    figure.command("bound", None, results)
