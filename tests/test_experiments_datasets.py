"""Each reader takes its dataset as it is published, and all that the format allows."""

import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

from experiments.datasets import SOURCES, Dataset, DatasetError, Image, coco, crowdhuman, load, sku110k, visdrone, voc
from experiments.datasets.common import Counts
from experiments.generate import FORMATS
from tests.support.datasets import FILES, blank_image, real_folder

# --- the published data


@pytest.mark.parametrize(
    ("name", "split", "images", "boxes"),
    [
        ("carpk", "train", 989, 42_274),
        ("carpk", "test", 459, 47_500),
        ("wheat", "train", 320, 19_024),
        ("wheat", "test", 100, 5_943),
    ],
)
def test_a_whole_published_dataset_has_the_published_counts(name, split, images, boxes):
    dataset = load(name, real_folder(name), split, require_counts=True)
    assert (len(dataset), dataset.num_boxes) == (images, boxes)
    assert str(dataset) == f"{SOURCES[name].title} {split}: {images:,} images, {boxes:,} boxes"
    assert not any(image.ignore.any() for image in dataset.images)
    height, width = dataset.pixels(0).shape[:2]
    for image in dataset.images:
        kept, labels = image.targets((width, height))
        assert len(kept) == len(labels) == len(image.boxes)


def test_the_published_carpk_has_halves_of_pixels_and_may_be_given_by_its_inner_folder():
    folder = real_folder("carpk")
    outer, inner = load("carpk", folder, "test"), load("carpk", folder / "data", "test")
    np.testing.assert_array_equal(outer.images[0].boxes, inner.images[0].boxes)
    assert (np.concatenate([image.boxes for image in outer.images]) % 1 == 0.5).any()
    assert outer.pixels(0).shape == (360, 640, 3)
    assert outer.pixels(0).dtype == np.uint8


def test_the_published_sample_of_pucpr_is_read_and_warned_about():
    with pytest.warns(UserWarning, match=r"PUCPR\+ test must have 25 images, got 1 image in"):
        dataset = load("pucpr+", real_folder("formats/pucpr+"), "test")
    assert dataset.images[0].id == "0_Rainy"
    assert dataset.images[0].boxes[0].tolist() == [310, 185, 355, 233]


def test_the_published_samples_of_crowdhuman_are_read(tmp_path):
    folder = real_folder("formats/crowdhuman")
    classes, images = crowdhuman.read(folder, "val")
    assert classes == ("person",)
    assert images[0].boxes[0].tolist() == [72, 202, 72 + 163, 202 + 398]
    assert images[0].pixels().ndim == 3

    file = shutil.copy(folder / "annotation_train.odgt", tmp_path)
    for line in Path(file).read_text().splitlines():
        blank_image(tmp_path / "Images" / f"{json.loads(line)['ID']}.jpg")
    images = crowdhuman.read(tmp_path, "train")[1]
    assert images[0].labels.tolist() == [1, 1, 1, 1, 0]  # the last is a mask
    assert images[0].ignore.tolist() == [False] * 4 + [True]
    assert not images[1].ignore.any()
    full = crowdhuman.read(tmp_path, "train", "fbox")[1]
    assert min(image.boxes.min() for image in full) < 0


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_the_published_samples_of_sku110k_are_read(tmp_path, split):
    folder = real_folder("formats/sku110k")
    shutil.copytree(folder / "annotations", tmp_path / "annotations")
    blank_image(tmp_path / "images" / f"{split}_0.jpg")
    classes, [image] = sku110k.read(tmp_path, split)
    assert classes == ("object",)
    assert (image.boxes.shape, image.size) == (
        (1, 4),
        {"train": (3024, 3024), "val": (2336, 4160)}.get(split, (2448, 3264)),
    )
    with pytest.raises(DatasetError, match=r"must be \d+ x \d+ pixels as its annotation says, got 64 x 48"):
        image.pixels()


def test_the_published_samples_of_voc_xml_are_read(tmp_path):
    folder = real_folder("formats/voc_bccd")
    for name in ("JPEGImages", "Annotations"):
        (tmp_path / name).symlink_to(folder / name)
    (tmp_path / "ImageSets" / "Main").mkdir(parents=True)
    (tmp_path / "ImageSets" / "Main" / "train.txt").write_text("BloodImage_00000\nBloodImage_00001\nBloodImage_00002\n")
    classes, images = voc.read(tmp_path, "train", ("RBC", "WBC", "Platelets"))
    assert classes[images[0].labels[0] - 1] == "WBC"
    assert images[0].boxes[0].tolist() == [259, 176, 491, 376]
    assert sum(len(image.boxes) for image in images) == 55
    assert [image.pixels().shape for image in images] == [(480, 640, 3)] * 3
    with pytest.raises(
        DatasetError, match=r"BloodImage_00000.xml, object 1: name must be one of aeroplane, .*got 'WBC'"
    ):
        load("voc", tmp_path, "train")


def test_the_published_samples_of_visdrone_are_read(tmp_path):
    (tmp_path / "VisDrone2019-DET-val").symlink_to(real_folder("formats/visdrone"))
    classes, images = visdrone.read(tmp_path, "val")
    assert [len(image.boxes) for image in images] == [len(image.labels) for image in images]
    assert sum(len(image.boxes) for image in images) == 256
    assert sum(int(image.ignore.sum()) for image in images) == 4
    assert images[0].boxes[0].tolist() == [871, 572, 925, 664]
    assert classes[images[0].labels[0] - 1] == "car"


# --- what is forgiven


@pytest.mark.parametrize("name", FORMATS)
def test_byte_order_marks_carriage_returns_and_blank_lines_change_nothing(copied, name):
    root, split = copied(name), SOURCES[name].test
    before = load(name, root, split, require_counts=True)
    for file in filter(None, FILES[name]):
        text = (root / file).read_text().replace("\n", "\n\n" if name != "coco" else "\n")
        (root / file).write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode() + b"\r\n \r\n")
    after = load(name, root, split, require_counts=True)
    for one, other in zip(before.images, after.images, strict=True):
        assert one.id == other.id
        np.testing.assert_array_equal(one.boxes, other.boxes)


@pytest.mark.parametrize("name", ["carpk", "visdrone"])
def test_a_file_without_lines_is_an_image_without_objects(copied, name):
    root = copied(name)
    (root / FILES[name][0]).write_text("")
    with pytest.warns(UserWarning, match="boxes"):
        image = load(name, root, SOURCES[name].test).images[0]
    assert (image.boxes.shape, image.labels.shape, image.ignore.shape) == ((0, 4), (0,), (0,))
    assert (image.boxes.dtype, image.labels.dtype, image.ignore.dtype) == (np.float32, np.int64, np.bool_)


def test_visdrone_takes_a_comma_at_the_end_and_ignores_regions_others_score_0_and_boxes_of_no_size(copied):
    root = copied("visdrone")
    (root / FILES["visdrone"][0]).write_text(
        "1,2,3,4,1,4,0,0,\n1,2,3,4,0,4,0,0\n1,2,3,4,1,0,0,0\n1,2,3,4,1,11,0,0\n1,2,3,0,1,10,0,0"
    )
    image = visdrone.read(root, "val")[1][0]
    assert image.labels.tolist() == [4, 4, 0, 0, 10]
    assert image.ignore.tolist() == [False, True, True, True, True]
    assert image.boxes[0].tolist() == [1, 2, 4, 6]


def test_crowdhuman_ignores_what_extra_says_and_heads_of_which_head_attr_says_so(copied):
    root = copied("crowdhuman")
    person = {"tag": "person", "vbox": [-3, 1, 9, 9], "hbox": [0, 1, 2, 2], "fbox": [0, 1, 9, 99]}
    people = [
        person | {"extra": {"ignore": 1}},
        person | {"head_attr": {"ignore": 1}},
        person | {"extra": {"ignore": 0}},
    ]
    people.append(person | {"tag": "mask"})  # of no class, whatever else it says
    file = root / "annotation_val.odgt"
    file.write_text(json.dumps({"ID": "val,00000001", "gtboxes": people}))
    assert crowdhuman.read(root, "val")[1][0].ignore.tolist() == [True, False, False, True]
    assert crowdhuman.read(root, "val", "hbox")[1][0].ignore.tolist() == [True, True, False, True]
    assert crowdhuman.read(root, "val")[1][0].boxes[0].tolist() == [-3, 1, 6, 10]


def test_coco_takes_labels_by_the_order_of_ids_and_ignores_crowds_and_boxes_of_no_size(tmp_path):
    blank_image(tmp_path / "test" / "a.png")
    record = {
        "images": [{"id": 7, "file_name": "a.png", "width": 64, "height": 48}],
        "categories": [{"id": 90, "name": "z"}, {"id": 3, "name": "c"}],
        "annotations": [
            {"image_id": 7, "category_id": 90, "bbox": [1, 2, 3, 4]},
            {"image_id": 7, "category_id": 3, "bbox": [1, 2, 3.5, 4], "iscrowd": 1},
            {"image_id": 7, "category_id": 3, "bbox": [1, 2, 0, 4], "iscrowd": 0},
        ],
    }
    (tmp_path / "test.json").write_text(json.dumps(record))
    dataset = load("own", tmp_path, "test")
    image = dataset.images[0]
    assert (str(dataset), dataset.classes) == ("Own data test: 1 image, 3 boxes", ("c", "z"))
    assert (image.labels.tolist(), image.ignore.tolist()) == ([2, 1, 1], [False, True, True])
    assert (image.id, image.size, image.boxes[1].tolist()) == ("7", (64, 48), [1, 2, 4.5, 6])
    assert image.targets((64, 48))[0].tolist() == [[1, 2, 4, 6]]


def test_targets_are_cut_at_the_border_without_the_ignored_and_those_outside():
    boxes = np.array([[-5, -5, 5, 5], [90, 10, 120, 30], [100, 0, 110, 9], [-9, 0, 0, 9], [1, 2, 3, 4]], np.float32)
    ignore = np.array([False, False, False, False, True])
    image = Image("a", Path("a.png"), None, boxes, np.arange(1, 6), ignore)
    kept, labels = image.targets((100, 50))
    assert kept.tolist() == [[0, 0, 5, 5], [90, 10, 100, 30]]
    assert labels.tolist() == [1, 2]
    assert boxes[0].tolist() == [-5, -5, 5, 5]


def test_voc_pixels_are_numbered_from_one(copied):
    root = copied("voc")
    objects = "".join(
        f"<object><name>dog</name>{difficult}<part><name>head</name></part><bndbox><xmax>1</xmax><ymin>3.5</ymin>"
        "<xmin>1</xmin><ymax>4</ymax></bndbox></object>"
        for difficult in ("", "<difficult>1</difficult>")
    )
    head = '<?xml version="1.0" encoding="latin-1"?>\n<annotation><size><width>128</width><height>96</height></size>'
    (root / FILES["voc"][0]).write_text(f"{head}{objects}</annotation>")
    image = voc.read(root, "test")[1][0]
    assert image.boxes.tolist() == [[0, 2.5, 1, 4]] * 2
    assert (image.labels.tolist(), image.ignore.tolist()) == ([12, 12], [False, True])


# --- the table and what comes of it


def test_the_table_is_complete():
    for source in SOURCES.values():
        assert {source.train, source.test} <= set(source.splits)
        assert bool(source.scenes) == bool(source.write)
    assert set(FORMATS) == set(FILES)
    assert SOURCES["crowdhuman"].splits["val"].boxes / 4_730 == pytest.approx(27.0, abs=0.01)  # the paper's slip


def test_a_dataset_says_what_it_holds():
    dataset = Dataset("CARPK", "test", ("car",), ())
    assert (len(dataset), str(dataset)) == (0, "CARPK test: 0 images, 0 boxes")
    assert str(Counts(1_000, None)) == "1,000 images"


def test_ten_thousand_lines_are_read_in_a_blink(tmp_path):
    """The whole of SKU-110K has a hundred times as many."""
    lines = [f"a_{n // 100}.jpg,{n % 7},2,{n % 7 + 3},4,object,64,48" for n in range(10_000)]
    (tmp_path / "annotations").mkdir()
    (tmp_path / "annotations" / "annotations_train.csv").write_text("\n".join(lines))
    (tmp_path / "images").mkdir()
    for n in range(100):
        (tmp_path / "images" / f"a_{n}.jpg").touch()
    images = sku110k.read(tmp_path, "train")[1]
    assert [len(image.boxes) for image in images] == [100] * 100


def test_the_visible_boxes_are_the_default_of_crowdhuman(drawn):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        visible, full, head = (
            load(name, drawn["crowdhuman"], "val") for name in ("crowdhuman", "crowdhuman-full", "crowdhuman-head")
        )
    for one, other, third in zip(visible.images, full.images, head.images, strict=True):
        area = [np.prod(image.boxes[:, 2:] - image.boxes[:, :2], axis=1) for image in (one, other, third)]
        assert (area[0] <= area[1]).all()
        assert (area[2] <= area[1]).all()


def test_coco_reads_where_it_is_told_to(drawn, tmp_path):
    (tmp_path / "labels.json").symlink_to(drawn["coco"] / "annotations/instances_val2017.json")
    (tmp_path / "pictures").symlink_to(drawn["coco"] / "val2017")
    classes, images = coco.read(tmp_path, "any", annotations="labels.json", images="pictures")
    assert classes == ("person", "car", "truck", "bottle")
    assert len(images) == 1
