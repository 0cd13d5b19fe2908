"""Draw a small crowded dataset in the format of a known one, so that every experiment runs without a download."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np

from experiments import scenes
from experiments.datasets import GENERATED, SOURCES, DatasetError
from experiments.datasets.common import Drawing, Size, write_text
from hashnms import _settings

#: What can be drawn: names of `datasets.SOURCES`.
FORMATS = [name for name, source in SOURCES.items() if source.write]

#: Two thirds of the images are for training.
_TEST_SHARE = 1 / 3
LEAST_SIZE, MOST_SIZE = 96, 4096


def generate(
    format: str,
    root: str | Path,
    *,
    images: int = 60,
    seed: int = 0,
    size: Size = (320, 240),
    overwrite: bool = False,
    drawn: Callable[[], None] = lambda: None,
) -> Path:
    """Draw images and write them, with exact visible boxes, as `datasets.load(format, root, ...)` reads them.

    The folder appears only when it is complete.

    Args:
        format: one of `FORMATS`. It decides what is drawn: parking lots, shelves, crowds, or all of these in turn.
        root: the folder to make.
        images: the number of images, at least 2; a third of them go into the test split, `SOURCES[format].test`.
        seed: the same seed draws the same images. The first images do not depend on how many there are.
        size: width and height of an image.
        overwrite: replace the folder if this function made it; other folders are never overwritten.
        drawn: called after each image.

    Returns:
        The folder.
    """
    if format not in FORMATS:
        raise DatasetError(f"format must be one of {', '.join(FORMATS)}, got {format!r}")
    images = _settings.count_value("images", images, least=2)
    seed = _settings.count_value("seed", seed, least=0)
    width, height = (_settings.count_value("size", side, least=LEAST_SIZE, most=MOST_SIZE) for side in size)
    root = Path(root).absolute()
    _check_free(root, overwrite)
    beside = root.with_name(f".{root.name}.{os.getpid()}")
    beside.mkdir(parents=True)
    try:
        _write(beside, format, images, seed, (width, height), drawn)
        _move(beside, root, overwrite)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return root


def drawings(format: str, split: str, count: int, seed: int, size: Size) -> Iterator[Drawing]:
    """The images of one split, drawn on demand."""
    source = SOURCES[format]
    for number in range(count):
        rng = np.random.default_rng([seed, int(split == source.test), number])
        yield scenes.draw(source.scenes[number % len(source.scenes)], rng, size)


def _write(root: Path, format: str, images: int, seed: int, size: Size, drawn: Callable[[], None]) -> None:
    source = SOURCES[format]
    assert source.write is not None
    num_test = max(1, round(images * _TEST_SHARE))
    splits = {}
    for split, count in ((source.train, images - num_test), (source.test, num_test)):
        splits[split] = source.write(root, split, _announced(drawings(format, split, count, seed, size), drawn))
    record = {"format": format, "seed": seed, "size": size, "splits": {name: asdict(it) for name, it in splits.items()}}
    write_text(root / GENERATED, json.dumps(record, indent=2) + "\n")


def _announced(some: Iterator[Drawing], drawn: Callable[[], None]) -> Iterator[Drawing]:
    for one in some:
        yield one
        drawn()


def _check_free(root: Path, overwrite: bool) -> None:
    if not (root.exists() or root.is_symlink()):
        return
    if not overwrite:
        raise DatasetError(f"root must be a new folder unless overwrite is set, got {root}, which exists")
    if root.is_symlink() or not (root / GENERATED).is_file():
        raise DatasetError(f"root must be a generated dataset to be overwritten, got {root} without {GENERATED}")


def _move(made: Path, root: Path, overwrite: bool) -> None:
    """Put the new folder in place of the old one, if there is one."""
    if not (overwrite and root.exists()):
        made.rename(root)  # the system refuses this if the folder was created in the meantime and has files
        return
    old = made.with_name(f"{made.name}.old")
    root.rename(old)
    try:
        made.rename(root)
    except OSError:
        old.rename(root)
        raise
    shutil.rmtree(old, ignore_errors=True)
