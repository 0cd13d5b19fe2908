"""Small synthetic datasets, and the real ones if they are available."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image as Pillow

from tests.support.boxes import REAL

SHARED = REAL.parent

#: As small as scenes can be and still be crowded.
SMALL = (128, 96)


def real_folder(name: str) -> Path:
    """A folder of the real data; skips the test where it is absent."""
    folder = SHARED / name
    if not folder.is_dir():
        pytest.skip(f"the real data is not beside this repository (../shared/real/{name})")
    return folder


#: Format -> the annotation file of the test split (of its first image), and the list of its images if there is one.
FILES: dict[str, tuple[str, str | None]] = {
    "carpk": ("data/Annotations/test_00001.txt", "data/ImageSets/test.txt"),
    "sku110k": ("annotations/annotations_test.csv", None),
    "crowdhuman": ("annotation_val.odgt", None),
    "voc": ("Annotations/test_000001.xml", "ImageSets/Main/test.txt"),
    "coco": ("annotations/instances_val2017.json", None),
    "visdrone": ("VisDrone2019-DET-val/annotations/0000001_00000_d_0000001.txt", None),
}


def edit(file: Path, old: str, new: str) -> None:
    """Replace the first place where a file says `old`."""
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def blank_image(path: Path) -> None:
    """A black image of 64 x 48 pixels."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Pillow.new("RGB", (64, 48)).save(path)
