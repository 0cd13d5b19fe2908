"""`python -m experiments raw`: runs a detector once over its images and keeps what comes before the suppression."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.record import write
from experiments.commands.common import ConfigurationOption, ImagesOption, bar, configuration_of
from experiments.configurations import Configuration
from experiments.datasets import SOURCES, Dataset, load
from experiments.detectors import make_detector
from experiments.network import raw_of
from experiments.raw import ABOUT, save
from experiments.results import proposals_of_all
from experiments.train import load_weights


def command(
    configuration: ConfigurationOption,
    data: Annotated[Path, typer.Option(help="The folder of its dataset.")],
    checkpoint: Annotated[Path, typer.Option(help="The trained detector: ours, or weights in torchvision's format.")],
    output: Annotated[Path, typer.Option(help="The folder to write to; images that are there are not run again.")],
    images: ImagesOption = None,
    sweep_images: Annotated[
        int, typer.Option(min=0, help="So many images are for the figures, too, whose settings leave more proposals.")
    ] = 100,
    all_proposals: Annotated[
        bool, typer.Option("--all-proposals", help="The second stage sees all proposals: for settings of your own.")
    ] = False,
    device: Annotated[str, typer.Option(help="Where to run it: cpu, cuda, ...")] = "cpu",
) -> None:
    """Run a detector over the test images of its dataset, up to the suppression, and write what it puts out.

    Tables and figures are made of these files. Interrupted, the same command goes on.

    Example: python -m experiments raw --configuration faster_rcnn-carpk-cpu --data carpk --checkpoint carpk.pt
    --output raw
    """
    settings = configuration_of(configuration)
    console = Console()
    dataset = load(settings.dataset, data, SOURCES[settings.dataset].test)
    model = make_detector(settings)
    load_weights(model, checkpoint)
    model.to(device)
    count = len(dataset) if images is None else min(images, len(dataset))
    _describe(output, settings, dataset, device)
    with bar(console, "raw boxes") as update:
        for number, image in enumerate(dataset.images[:count]):
            update(number, count)
            plain_id = re.sub(r"[^\w.-]", "_", image.id)
            file = output / f"{number:06d}_{plain_id}.npz"  # by number, so that they keep their order
            if not file.exists():
                choose = None if all_proposals else proposals_of_all(settings.suppressing, number < sweep_images)
                save(raw_of(model, image, choose=choose, device=device), file)
        update(count, count)
    console.print(f"raw boxes of {count:,} images in {output}", highlight=False, soft_wrap=True)


def _describe(output: Path, settings: Configuration, dataset: Dataset, device: str) -> None:
    """Say in the folder what it holds; refuse one that holds something else."""
    about = {
        "configuration": settings.name,
        "dataset": settings.dataset,
        "title": f"{dataset.name} {dataset.split}",
        "device": device,
    }
    file = output / ABOUT
    output.mkdir(parents=True, exist_ok=True)
    if file.exists() and json.loads(file.read_text(encoding="utf-8")) != about:
        raise ValueError(f"output must be a new folder or one of {settings.name} on {device}, got {output} with {file}")
    write(file, json.dumps(about, indent=2) + "\n")
