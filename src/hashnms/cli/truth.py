"""Ground truth for the commands that measure: the options that match it with detections, and warnings."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hashnms._numbers import whole
from hashnms.cli.common import warn, within

if TYPE_CHECKING:
    from hashnms.files.loading import Loaded
    from hashnms.files.truth import LoadedTruth

ClassOffsetOption = Annotated[
    int,
    typer.Option(
        parser=within(whole),
        metavar="N",
        help="Add N to the class numbers of the detections: 1 if they start at 0 and the truth at 1.",
    ),
]
ClassOrderOption = Annotated[
    bool,
    typer.Option(
        "--class-order",
        help="Class k of the detections is category k of the truth, counted from 0 in the order of the ids: YOLO's "
        "numbers of COCO's 80 classes.",
    ),
]
TruthImagesOnlyOption = Annotated[
    bool,
    typer.Option("--truth-images-only", help="Leave out detections of images that the truth does not have."),
]


def measured(path: Path, loaded: Loaded, offset: int, order: bool, images_only: bool) -> LoadedTruth:
    """Load ground truth that fits the detections; print what does not fit."""
    from hashnms.files.truth import load_truth  # noqa: PLC0415

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        known = load_truth(path, loaded, class_offset=offset, class_order=order, truth_images_only=images_only)
    for warning in caught:
        warn(str(warning.message))
    if known.loaded is not loaded:
        print(f"measured: {known.loaded}, which the truth has, of {loaded}", file=sys.stderr)
    return known
