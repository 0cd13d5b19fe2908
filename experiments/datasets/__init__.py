"""Load datasets from their original files on disk: `load("carpk", root, "train")`.

Each format has a module that reads and writes it; `SOURCES` is the table of datasets. Byte order marks, carriage
returns and blank lines are skipped. Everything else that is invalid raises a `DatasetError`, which says where it is,
what is needed and what was found.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from experiments.datasets import carpk, coco, crowdhuman, mot, sku110k, visdrone, voc
from experiments.datasets.common import (
    Contents,
    Counts,
    Dataset,
    DatasetError,
    Drawing,
    Image,
    MissingError,
    json_field,
    read_text,
)

__all__ = ["SOURCES", "Counts", "Dataset", "DatasetError", "Drawing", "Image", "Source", "load"]

#: The file in the root of a generated dataset: how it was drawn, and the size of each split.
GENERATED = "generated.json"


@dataclass(frozen=True)
class Source:
    """A dataset: where it comes from, its layout on disk, its reader and its size."""

    title: str
    url: str
    layout: str
    read: Callable[[Path, str], Contents]
    splits: Mapping[str, Counts | None]  # None: any size
    train: str  # the split that the paper trains on
    test: str  # the split that it evaluates on
    write: Callable[[Path, str, Iterable[Drawing]], Counts] | None = None  # if such data can be drawn
    scenes: tuple[str, ...] = ()  # what is drawn

    def explained(self) -> str:
        return f"{self.title} comes from {self.url} and must have the layout {self.layout}"


_DEVKIT = "data/Images/<id>.png (or .jpg), data/Annotations/<id>.txt, data/ImageSets/{train,test}.txt"
_VOC = "JPEGImages/<id>.jpg, Annotations/<id>.xml, ImageSets/Main/<split>.txt"
_COCO = "<split>.json and <split>/<file_name>"
_CROWDHUMAN = Source(
    "CrowdHuman",
    "https://www.crowdhuman.org",
    "Images/<ID>.jpg, annotation_{train,val}.odgt",
    crowdhuman.read,
    # HNMS's paper says 4,730 validation images with 27 boxes each: a slip, because 127,716 / 4,730 = 27.0.
    {"train": Counts(15_000, 438_792), "val": Counts(4_370, 127_716)},
    train="train",
    test="val",
    write=crowdhuman.write,
    scenes=("crowd",),
)


def _crowdhuman(title: str, box: crowdhuman.BoxName) -> Source:
    kind = _CROWDHUMAN
    read = partial(crowdhuman.read, box=box)
    return Source(f"{kind.title}, {title}", kind.url, kind.layout, read, kind.splits, kind.train, kind.test)


#: Name -> dataset. Numbers of images and boxes are as published, including ignored ones; None: not published.
SOURCES: dict[str, Source] = {
    "carpk": Source(
        "CARPK",
        "https://lafi.github.io/LPN",
        _DEVKIT,
        carpk.read,
        {"train": Counts(989, 42_274), "test": Counts(459, 47_500)},
        train="train",
        test="test",
        write=carpk.write,
        scenes=("parking_lot",),
    ),
    "pucpr+": Source(
        "PUCPR+",
        "https://lafi.github.io/LPN",
        _DEVKIT,
        carpk.read,
        {"train": Counts(100, None), "test": Counts(25, None)},
        train="train",
        test="test",
    ),
    "sku110k": Source(
        "SKU-110K",
        "https://github.com/eg4000/SKU110K_CVPR19",
        "images/<name>, annotations/annotations_{train,val,test}.csv",
        sku110k.read,
        {"train": Counts(8_233, 1_210_431), "val": Counts(588, 90_968), "test": Counts(2_941, 432_312)},
        train="train",
        test="test",
        write=sku110k.write,
        scenes=("shelf",),
    ),
    "crowdhuman": _CROWDHUMAN,
    "crowdhuman-full": _crowdhuman("full bodies", "fbox"),
    "crowdhuman-head": _crowdhuman("heads", "hbox"),
    "voc": Source(
        "Pascal VOC 2007",
        "http://host.robots.ox.ac.uk/pascal/VOC/voc2007",
        f"VOCdevkit/VOC2007, which is the root: {_VOC}",
        voc.read,
        {
            "train": Counts(2_501, 7_844),
            "val": Counts(2_510, 7_818),
            "trainval": Counts(5_011, 15_662),
            "test": Counts(4_952, 14_976),
        },
        train="trainval",
        test="test",
        write=voc.write,
        scenes=("parking_lot", "shelf", "crowd"),
    ),
    "voc2012": Source(
        "Pascal VOC 2012",
        "http://host.robots.ox.ac.uk/pascal/VOC/voc2012",
        f"VOCdevkit/VOC2012, which is the root: {_VOC}",
        voc.read,
        {"train": Counts(5_717, 15_774), "val": Counts(5_823, 15_787), "trainval": Counts(11_540, 31_561)},
        train="train",
        test="val",
    ),
    "coco": Source(
        "COCO 2017",
        "https://cocodataset.org",
        "annotations/instances_{train,val}2017.json, {train,val}2017/<file_name>",
        coco.read,
        {"train": Counts(118_287, 860_001), "val": Counts(5_000, 36_781)},
        train="train",
        test="val",
        write=coco.write,
        scenes=("parking_lot", "shelf", "crowd"),
    ),
    "visdrone": Source(
        "VisDrone",
        "https://github.com/VisDrone/VisDrone-Dataset",
        "VisDrone2019-DET-{train,val,test-dev}/images/<id>.jpg and .../annotations/<id>.txt",
        visdrone.read,
        {"train": Counts(6_471, None), "val": Counts(548, None), "test-dev": Counts(1_610, None)},
        train="train",
        test="val",
        write=visdrone.write,
        scenes=("parking_lot", "crowd"),
    ),
    "mot17": Source(
        "MOT17",
        "https://motchallenge.net/data/MOT17",
        "train/MOT17-<number>-<detector>/img1/<frame>.jpg and .../gt/gt.txt",
        mot.read,
        {"train": Counts(5_316, None)},  # boxes of its test data are not public
        train="train",
        test="train",
    ),
    "wheat": Source(
        "Wheat heads",
        "https://www.global-wheat.com (the 420 densest images of the training data of 2020, at 512 x 512)",
        f"COCO's {_COCO}, with the splits train and test",
        partial(coco.read, annotations="{split}.json", images="{split}"),
        {"train": Counts(320, 19_024), "test": Counts(100, 5_943)},
        train="train",
        test="test",
    ),
    "own": Source(
        "Own data",
        "yourself",
        f"COCO's {_COCO}, with the splits train and test",
        partial(coco.read, annotations="{split}.json", images="{split}"),
        {"train": None, "test": None},
        train="train",
        test="test",
    ),
}


def load(name: str, root: str | Path, split: str, *, require_counts: bool = False) -> Dataset:
    """Read one split of a dataset and check it; pixels stay on disk.

    Args:
        name: one of `SOURCES`.
        root: the folder of the dataset.
        split: one of `SOURCES[name].splits`; `.train` and `.test` are the paper's.
        require_counts: whether a number of images or boxes other than the published one (for a generated dataset, the
            drawn one) is an error or a UserWarning.

    Raises:
        DatasetError: with file and line, what is needed and what was found. If something is missing, also where the
            data comes from and its layout.
    """
    if name not in SOURCES:
        raise DatasetError(f"name must be one of {', '.join(SOURCES)}, got {name!r}")
    source, root = SOURCES[name], Path(root)
    if split not in source.splits:
        raise DatasetError(f"split of {name} must be one of {', '.join(source.splits)}, got {split!r}")
    try:
        if not root.is_dir():
            got = "a file" if root.exists() else "not there"
            raise MissingError(f"root must be a folder, got {root}, which is {got}")
        classes, images = source.read(root, split)
    except MissingError as error:
        raise DatasetError(f"{error}. {source.explained()}") from error
    drawn = root / GENERATED
    title, expected = source.title, source.splits[split]
    if drawn.exists():
        title, expected = f"Generated {title}", _drawn_counts(drawn, split)
    dataset = Dataset(title, split, classes, tuple(images))
    _check_counts(dataset, expected, root, require_counts)
    return dataset


def _drawn_counts(file: Path, split: str) -> Counts:
    try:
        record = json.loads(read_text(file))
    except json.JSONDecodeError as error:
        raise DatasetError(f"{file} must be JSON, got {error}") from error
    counts = json_field(str(file), json_field(str(file), record, "splits", dict), split, dict)
    return Counts(json_field(str(file), counts, "images", int), json_field(str(file), counts, "boxes", int))


def _check_counts(dataset: Dataset, expected: Counts | None, root: Path, require: bool) -> None:
    """Raise or warn if the numbers of images and boxes are not as expected."""
    if expected is None:
        return
    got = Counts(len(dataset), None if expected.boxes is None else dataset.num_boxes)
    if got == expected:
        return
    message = f"{dataset.name} {dataset.split} must have {expected}, got {got} in {root}"
    if require:
        raise DatasetError(message)
    warnings.warn(message, UserWarning, stacklevel=3)
