"""`python -m experiments raw`: run a detector once over its images, and save its boxes before the suppression."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.record import write
from experiments import raw as raw_file
from experiments.commands.common import ConfigurationOption, ImagesOption, bar, configuration_of
from experiments.configurations import Configuration
from experiments.datasets import SOURCES, Dataset, load
from experiments.detectors import make_detector
from experiments.network import Choose, raw_of
from experiments.raw import ABOUT, Raw
from experiments.results import proposals_for_second_stage
from experiments.train import load_weights


def command(
    configuration: ConfigurationOption,
    data: Annotated[Path, typer.Option(help="The folder of its dataset.")],
    checkpoint: Annotated[Path, typer.Option(help="The trained detector: ours, or weights in torchvision's format.")],
    output: Annotated[Path, typer.Option(help="The folder to write to; images that exist there are not run again.")],
    images: ImagesOption = None,
    sweep_images: Annotated[
        int,
        typer.Option(min=0, help="For the first N images, the second stage also gets the proposals of the figures."),
    ] = 100,
    all_proposals: Annotated[
        bool, typer.Option("--all-proposals", help="The second stage gets all proposals, for your own settings.")
    ] = False,
    device: Annotated[str, typer.Option(help="Where to run it: cpu, cuda, ...")] = "cpu",
) -> None:
    """Run a detector over the test images of its dataset, up to the suppression, and write its raw boxes.

    Tables and figures are made from these files. If interrupted, run the same command again to continue.

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
    _describe(output, settings, dataset, checkpoint, device)
    raw_of(model, dataset.images[0], device=device)  # the first call is slower than the others
    with bar(console, "raw boxes") as update:
        for number, image in enumerate(dataset.images[:count]):
            update(number, count)
            plain_id = re.sub(r"[^\w.-]", "_", image.id)
            file = output / f"{number:06d}_{plain_id}.npz"  # numbered, to keep their order
            choose = None if all_proposals else proposals_for_second_stage(settings.suppressing, number < sweep_images)
            if not (file.exists() and _has_seen(raw_file.load(file), choose)):
                raw_file.save(raw_of(model, image, choose=choose, device=device), file)
        update(count, count)
    console.print(f"raw boxes of {count:,} images in {output}", highlight=False, soft_wrap=True)


def _has_seen(raw: Raw, choose: Choose | None) -> bool:
    """Whether the second stage, if there is one, has processed all proposals that are needed now."""
    if raw.second is None:
        return True
    return bool(raw.second.seen.all() if choose is None else raw.second.seen[choose(raw)].all())


def _describe(output: Path, settings: Configuration, dataset: Dataset, checkpoint: Path, device: str) -> None:
    """Record what the folder contains; refuse a folder that contains something else."""
    about = {
        "configuration": settings.name,
        "dataset": settings.dataset,
        "title": f"{dataset.name} {dataset.split}",
        "device": device,
        "weights": hashlib.sha256(checkpoint.read_bytes()).hexdigest()[:16],
    }
    file = output / ABOUT
    output.mkdir(parents=True, exist_ok=True)
    if file.exists() and (found := json.loads(file.read_text(encoding="utf-8"))) != about:
        differing = ", ".join(name for name in about if found.get(name) != about[name])
        raise ValueError(f"output must be a new folder or from the same run, got {output} with another {differing}")
    write(file, json.dumps(about, indent=2) + "\n")
