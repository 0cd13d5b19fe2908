"""Training. If interrupted at any time, it continues where it stopped, and ends with the same weights.

The images of a step, and which are flipped, depend only on the seed and its number. A checkpoint holds the model, the
optimizer and the number of steps done; it is moved into place when complete.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from experiments.configurations import Configuration, Training
from experiments.datasets import Dataset
from experiments.files import beside

Target = dict[str, Tensor]


@dataclass(frozen=True)
class Progress:
    """The state after a step: the number of steps done, its losses, and its time."""

    step: int
    steps: int
    losses: dict[str, float]
    seconds: float


def num_steps(training: Training, num_images: int) -> int:
    """The number of steps of all epochs."""
    return max(1, round(training.epochs * num_images / training.batch_size))


def batch_of_step(dataset: Dataset, training: Training, seed: int, step: int, worker: int, workers: int) -> list[int]:
    """This worker's share of the images of a step; every epoch has all images in its own order."""
    share = training.batch_size // workers
    first = step * training.batch_size + worker * share
    places = range(first, first + share)
    rows = []
    for place in places:
        epoch, at = divmod(place, len(dataset))
        rows.append(int(_order(seed, epoch, len(dataset))[at]))
    return rows


def _order(seed: int, epoch: int, count: int) -> Any:
    return np.random.default_rng([seed, epoch]).permutation(count)


def example(dataset: Dataset, index: int, flips: tuple[str, ...], rng: np.random.Generator) -> tuple[Tensor, Target]:
    """An image and its ground truth, with random flips."""
    pixels = dataset.pixels(index)
    height, width = pixels.shape[:2]
    boxes, labels = dataset.images[index].targets((width, height))
    for flip in flips:
        if rng.random() < 0.5:
            axis, length = (1, width) if flip == "horizontal" else (0, height)
            pixels = np.flip(pixels, axis)
            first, second = (0, 2) if flip == "horizontal" else (1, 3)
            boxes = boxes.copy()
            boxes[:, [first, second]] = length - boxes[:, [second, first]]
    image = torch.from_numpy(pixels.copy()).permute(2, 0, 1).float() / 255
    return image, {"boxes": torch.from_numpy(np.ascontiguousarray(boxes)), "labels": torch.from_numpy(labels)}


def learning_rate(training: Training, step: int, steps: int) -> float:
    """The learning rate: rises to the full rate in the first steps, and falls tenfold at each milestone."""
    warm_up = min(1.0, (step + 1) / max(training.warm_up_steps, 1))
    passed = sum(step >= milestone * steps for milestone in training.milestones)
    return training.learning_rate * warm_up * 0.1**passed


def train(
    model: nn.Module,
    dataset: Dataset,
    configuration: Configuration,
    checkpoint: Path,
    *,
    seed: int = 0,
    device: str = "cpu",
    precision: torch.dtype = torch.float32,
    steps: int | None = None,
    save_every: float = 300.0,
    stop_at: int | None = None,
) -> Generator[Progress, None, None]:
    """Train until all steps are done, from the checkpoint if there is one; yields after each step.

    Args:
        model: from `make_detector`; changed in place.
        dataset: the dataset to train on.
        configuration: the settings of the training.
        checkpoint: the file to continue from and to save to.
        seed: the seed for the order of images, flips and sampling.
        device: where to train; with several workers, "cuda" gives each its own GPU.
        precision: float32, or bfloat16 or float16 for mixed precision.
        steps: the number of steps; by default that of the configuration's epochs.
        save_every: seconds between two checkpoints. The last step is always saved.
        stop_at: end after this step, as if interrupted.
    """
    training = configuration.training
    worker, workers, device = _worker(device)
    if training.batch_size % workers:
        raise ValueError(f"workers must divide the batch size of {training.batch_size}, got {workers}")
    steps = num_steps(training, len(dataset)) if steps is None else steps
    model.to(device).train()
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(
        parameters, training.learning_rate, momentum=training.momentum, weight_decay=training.weight_decay
    )
    scaler = torch.amp.GradScaler(device, enabled=precision == torch.float16)
    identity = {
        "configuration": configuration.name,
        "steps": steps,
        "seed": seed,
        "precision": str(precision).removeprefix("torch."),
        "workers": workers,
        "dataset": str(dataset),
    }
    first = _restore(checkpoint, model, optimizer, scaler, identity)
    parallel = DistributedDataParallel(model) if workers > 1 else model
    saved = time.monotonic()
    for step in range(first, steps):
        start = time.perf_counter()
        torch.manual_seed(seed * 1_000_003 + step * workers + worker)  # because the heads sample boxes
        rng = np.random.default_rng([seed, step, worker])
        rows = batch_of_step(dataset, training, seed, step, worker, workers)
        pairs = [example(dataset, row, training.flips, rng) for row in rows]
        images = [image.to(device) for image, _ in pairs]
        targets = [{name: value.to(device) for name, value in target.items()} for _, target in pairs]
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(training, step, steps)
        with torch.autocast(torch.device(device).type, precision, enabled=precision != torch.float32):
            losses: dict[str, Tensor] = parallel(images, targets)
        total = torch.stack(list(losses.values())).sum()
        if not torch.isfinite(total):
            shown = {name: round(value.item(), 3) for name, value in losses.items()}
            raise FloatingPointError(f"the loss of step {step} must be finite, got {shown}: try a lower learning rate")
        optimizer.zero_grad()
        scaler.scale(total).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(parameters, 10.0)
        scaler.step(optimizer)
        scaler.update()
        done = step + 1
        ends = done in (steps, stop_at)
        if worker == 0 and (ends or time.monotonic() - saved > save_every):
            _save(checkpoint, model, optimizer, scaler, identity, done)
            saved = time.monotonic()
        values = {name: value.item() for name, value in losses.items()}
        try:
            yield Progress(done, steps, values, time.perf_counter() - start)
        except GeneratorExit:  # the caller wants no more steps: save this one
            if worker == 0 and not ends:
                _save(checkpoint, model, optimizer, scaler, identity, done)
            raise
        if ends:
            return


def _worker(device: str) -> tuple[int, int, str]:
    """This process among those that torchrun started, how many there are, and the device of this one."""
    workers = num_workers()
    if device == "cuda" and workers > 1:
        device = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(device)
    if workers > 1 and not torch.distributed.is_initialized():
        torch.distributed.init_process_group()
        atexit.register(torch.distributed.destroy_process_group)
    return rank(), workers, device


def rank() -> int:
    """The rank of this process among those that torchrun started; 0 prints and saves."""
    return int(os.environ.get("RANK", "0"))


def num_workers() -> int:
    """The number of processes that torchrun started."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def _save(
    file: Path, model: nn.Module, optimizer: torch.optim.Optimizer, scaler: Any, identity: dict[str, Any], done: int
) -> None:
    states = {"model": model, "optimizer": optimizer, "scaler": scaler}
    with beside(file) as temporary:
        torch.save({**identity, "step": done, **{name: one.state_dict() for name, one in states.items()}}, temporary)


def _restore(
    file: Path, model: nn.Module, optimizer: torch.optim.Optimizer, scaler: Any, identity: dict[str, Any]
) -> int:
    """Load the weights of a checkpoint and return its number of steps; 0 if there is no checkpoint."""
    if not file.exists():
        return 0
    state = torch.load(file, map_location="cpu", weights_only=True)
    for name, need in identity.items():
        if state.get(name) != need:
            raise ValueError(f"{file} must be a checkpoint of the same training, {name} {need}, got {state.get(name)}")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    scaler.load_state_dict(state["scaler"])
    return int(state["step"])


def load_weights(model: nn.Module, file: Path) -> None:
    """Load the weights of our checkpoint, or of a detector trained elsewhere, by torchvision's names."""
    state = torch.load(file, map_location="cpu", weights_only=True)
    weights = state["model"] if isinstance(state.get("model"), dict) else state
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise ValueError(f"{file} must hold the weights of this detector, got others: {error}") from None
