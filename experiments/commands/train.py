"""`python -m experiments train`: train a detector, or continue training it."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console

from experiments.commands.common import ConfigurationOption, bar, configuration_of
from experiments.datasets import SOURCES, load
from experiments.detectors import make_detector
from experiments.train import num_workers, rank, train

_PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def command(
    configuration: ConfigurationOption,
    data: Annotated[Path, typer.Option(help="The folder of its dataset.")],
    checkpoint: Annotated[Path, typer.Option(help="The file to save to, and to continue from if it exists.")],
    backbone_weights: Annotated[
        Path | None, typer.Option(help="Weights of the backbone to start from: NPZ, or a torch file.")
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="The number of steps, instead of the epochs.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Stop after N minutes; the same command continues.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The seed for the order of images, flips and sampling.")] = 0,
    device: Annotated[str, typer.Option(help="Where to train: cpu, cuda, ...")] = "cpu",
    precision: Annotated[str, typer.Option(help=f"{', '.join(_PRECISIONS)}.")] = "float32",
) -> None:
    """Train one of the paper's detectors. After Ctrl-C, the same command continues from the last checkpoint.

    Example: python -m experiments train --configuration faster_rcnn-carpk-cpu --data carpk --checkpoint carpk.pt
    """
    if precision not in _PRECISIONS:
        raise typer.BadParameter(f"must be one of {', '.join(_PRECISIONS)}, got {precision!r}")
    if minutes is not None and num_workers() > 1:
        raise typer.BadParameter(f"must be left out with several workers, got {minutes}", param_hint="--minutes")
    settings = configuration_of(configuration)
    console = Console(quiet=rank() > 0)
    dataset = load(settings.dataset, data, SOURCES[settings.dataset].train)
    console.print(str(dataset), highlight=False)
    torch.manual_seed(seed)
    model = make_detector(settings, backbone_weights)
    start, seconds, loss, done = time.monotonic(), 0.0, 0.0, 0
    training = train(
        model,
        dataset,
        settings,
        checkpoint,
        seed=seed,
        device=device,
        precision=_PRECISIONS[precision],
        steps=steps,
    )
    with bar(console, "training") as update, closing(training):
        for state in training:
            now = sum(state.losses.values())
            loss = now if done == 0 else 0.98 * loss + 0.02 * now
            seconds, done = seconds + state.seconds, done + 1
            description = f"loss {loss:.3f}, {seconds / done:.2f} s per step"
            update(state.step, state.steps, description)
            if minutes is not None and time.monotonic() - start > 60 * minutes:
                break
    console.print(f"{done:,} steps, mean loss {loss:.3f}, in {checkpoint}", highlight=False, soft_wrap=True)
