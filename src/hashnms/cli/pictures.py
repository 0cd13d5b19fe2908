"""Find the image files of a dataset, and save figures."""

from __future__ import annotations

import re
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hashnms._extras import missing
from hashnms.cli.places import Others, check_place

_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff")
_KINDS = (".png", ".svg", ".pdf", ".jpg")


def saved(axes: Any, path: Path) -> None:
    """Write a figure; it is moved into place when it is complete."""
    from hashnms.files.output import beside  # noqa: PLC0415

    with beside(path) as temporary:
        axes.figure.savefig(temporary, dpi=150, bbox_inches="tight")


def check_figure(option: str, path: Path, others: Others | None = None) -> None:
    """Check, before anything takes time, that a figure can be written and replaces none of the other files."""
    if path.suffix.lower() not in _KINDS:
        raise ValueError(f"{option} must end in one of {', '.join(_KINDS)}, got {path}")
    check_place(option, path, others or {})


def check_report(report: Path | None, images: Path | None, others: Others | None = None) -> None:
    """Check, before anything takes time, that the page can be written, and that its images can be read.

    It must not replace one of the other files or a picture.
    """
    if report is not None:
        check_place("--report", report, others or {})
        is_picture = images is not None and report.suffix.lower() in _SUFFIXES
        if is_picture and report.resolve().is_relative_to(images.resolve()):  # type: ignore[union-attr]
            raise ValueError(f"--report must be another file than the pictures of --images, got {report}")
    if images is not None and not images.is_dir():
        raise ValueError(f"--images must be a folder, got {images}")
    if images is not None and find_spec("PIL") is None:
        raise missing("--images", "PIL", "plot")


def image_file(folder: Path | None, image: Any, file_name: str | None = None) -> Path | None:
    """The file of an image: named as its dataset says, or after its id, with leading zeros as in COCO."""
    if folder is None:
        return None
    names = [str(image)]
    if re.fullmatch(r"-?[0-9]+", names[0]):
        names.append(names[0].zfill(12))
    if file_name is not None:
        names = [file_name, Path(file_name).name, *names]
    for name in names:
        exact = folder / name
        found = [exact] if Path(name).suffix.lower() in _SUFFIXES else []
        found += [folder / f"{name}{suffix}" for suffix in _SUFFIXES]
        for path in found:
            with suppress(OSError, ValueError):  # a name may be too long, or have a null character
                if path.is_file() and path.resolve().is_relative_to(folder.resolve()):
                    return path
    return None
