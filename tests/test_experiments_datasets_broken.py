"""Each reader says in one line what is wrong with a broken dataset: where, what it needs and what it got."""

import shutil

import pytest

from experiments.datasets import SOURCES, DatasetError, load
from experiments.generate import FORMATS
from tests.support.datasets import FILES, blank_image, edit


def broken_line(name, line):
    """The same broken line at the head of each text format."""
    return name, lambda file: file.write_text(line + "\n" + file.read_text())


BROKEN = [
    (*broken_line("carpk", "1 2 3 4"), r"line 1: must have 5 fields \(x1 y1 x2 y2 class\), got 4"),
    (*broken_line("carpk", "\n1 2 x 4 1"), "line 2: x2 must be a number, got 'x'"),
    (*broken_line("carpk", "1 2 1_0 4 1"), "line 1: x2 must be a number, got '1_0'"),
    (*broken_line("carpk", "1 2 nan 4 1"), "line 1: a box needs finite coordinates.*, got .* = 1, 2, nan, 4"),
    (*broken_line("carpk", "1 2 inf 4 1"), "line 1: a box needs finite"),
    (*broken_line("carpk", "1 2 1e9 4 1"), "line 1: a box needs finite coordinates within 4194304"),
    (*broken_line("carpk", "5 2 3 4 1"), r"line 1: a box needs x2 > x1 and y2 > y1, got x1, y1, x2, y2 = 5, 2, 3, 4"),
    (*broken_line("carpk", "1 2 3 2 1"), "line 1: a box needs x2 > x1"),
    (*broken_line("carpk", "1 2 3 4 2"), r"line 1: class must be 1 \(car\), got 2"),
    (*broken_line("sku110k", "test_0.jpg,1,2,3,4,object,128"), r"line 1: must have 8 fields \(name,.*, got 7"),
    (*broken_line("sku110k", "test_0.jpg,1,b,3,4,object,128,96"), "line 1: y1 must be a number, got 'b'"),
    (*broken_line("sku110k", "test_0.jpg,1,2,3,4,thing,128,96"), "line 1: class must be 'object', got 'thing'"),
    (*broken_line("sku110k", "test_0.jpg,3,2,1,4,object,128,96"), "line 1: a box needs x2 > x1"),
    (*broken_line("sku110k", "test_0.jpg,1,2,3,4,object,0,96"), "line 1: width and height .* at least 1, got 0 and 96"),
    (*broken_line("sku110k", "test_0.jpg,1,2,3,4,object,99,96"), r"line 2: test_0.jpg must be \(99, 96\) pixels as in"),
    (
        *broken_line("sku110k", "gone.jpg,1,2,3,4,object,9,9"),
        "line 1: image 'gone.jpg' must be in .*SKU-110K comes from",
    ),
    ("sku110k", lambda file: file.write_text("\n"), "must have at least one box, got an empty file"),
    (*broken_line("crowdhuman", '{"ID": '), "line 1: must be a JSON object, got '{\"ID\":'"),
    (*broken_line("crowdhuman", "[1]"), "line 1: must be an object with 'ID', got list"),
    (*broken_line("crowdhuman", '{"gtboxes": []}'), r"line 1: must be an object with 'ID', got \['gtboxes'\]"),
    (*broken_line("crowdhuman", '{"ID": "x", "gtboxes": []}'), "line 1: image 'x' must be in .*CrowdHuman comes from"),
    (*broken_line("crowdhuman", '{"ID": "val,00000001", "gtboxes": []}'), "line 2: an ID must be unique, got 'val,0"),
    (
        "crowdhuman",
        lambda file: edit(file, '"person"', '"dog"'),
        r"gtboxes\[0\]: tag must be person or mask, got 'dog'",
    ),
    ("crowdhuman", lambda file: edit(file, '"vbox": [', '"vbox": [1, '), "vbox must be x, y, width, height, got"),
    (
        "crowdhuman",
        lambda file: edit(file, '"vbox": [', '"vbox": ["a", 1, 2, 3], "v": ['),
        "vbox must be a number, got 'a'",
    ),
    (
        "crowdhuman",
        lambda file: edit(file, '"vbox": [', '"vbox": [1, 2, -3, 4], "v": ['),
        r"gtboxes\[0\], vbox: a box needs",
    ),
    (
        "crowdhuman",
        lambda file: edit(file, '"vbox": [', '"vbox": [1, 2, NaN, 4], "v": ['),
        "a box needs finite coordinates",
    ),
    (
        "crowdhuman",
        lambda file: edit(file, '"vbox": [', f'"vbox": [1{400 * "0"}, 2, 3, 4], "v": ['),
        "a box needs finite",
    ),
    ("crowdhuman", lambda file: file.write_text(""), "must have at least one image, got an empty file"),
    ("voc", lambda file: file.write_text(file.read_text()[:-30]), "test_000001.xml must be XML, got"),
    ("voc", lambda file: file.write_text(""), "test_000001.xml must be XML, got"),
    ("voc", lambda file: file.write_text("<a/>"), "must be an <annotation>, got <a>"),
    (
        "voc",
        lambda file: file.write_text('<!DOCTYPE a [<!ENTITY b "b">]><annotation/>'),
        "XML without a DOCTYPE, got one",
    ),
    ("voc", lambda file: file.write_text("<annotation/>"), "must have <size><width>, got none"),
    ("voc", lambda file: edit(file, "<name>car<", "<name>dragon<"), "object 1: name must be one of .*, got 'dragon'"),
    ("voc", lambda file: edit(file, "<xmin>", "<xmin>999"), "object 1: a box needs x2 > x1"),
    ("voc", lambda file: edit(file, "<xmin>", "<xmin>z"), "object 1: xmin must be a number, got 'z"),
    ("voc", lambda file: edit(file, "<difficult>", "<difficult>3"), "object 1: difficult must be 0 or 1, got '3"),
    ("coco", lambda file: file.write_text(file.read_text()[:-9]), "instances_val2017.json must be JSON, got"),
    ("coco", lambda file: file.write_text(""), "instances_val2017.json must be JSON, got"),
    ("coco", lambda file: file.write_text("[]"), "must be an object with 'categories', got list"),
    (
        "coco",
        lambda file: file.write_text('{"categories": [], "images": [], "annotations": []}'),
        "at least one image, got none",
    ),
    (
        "coco",
        lambda file: edit(file, '"image_id": 1', '"image_id": 55'),
        r"annotations\[0\]: image_id must be .* got 55",
    ),
    ("coco", lambda file: edit(file, '"category_id": 3', '"category_id": 55'), "category_id must be .* got 55"),
    (
        "coco",
        lambda file: edit(file, '"category_id": 3', '"category_id": true'),
        "'category_id' must be of type int, got",
    ),
    ("coco", lambda file: edit(file, '"bbox": [', '"bbox": [1, 2, 3, -4], "b": ['), r"annotations\[0\]: a box needs"),
    (
        "coco",
        lambda file: edit(file, '"bbox": [', '"bbox": [1, 2, 3, null], "b": ['),
        "bbox must be a number, got None",
    ),
    ("coco", lambda file: edit(file, "000000000001.jpg", "x.jpg"), "image 'x.jpg' must be in .*COCO 2017 comes from"),
    (
        "coco",
        lambda file: edit(file, '"name": "car"}', '"name": "car"}, {"id": 1, "name": "b"}'),
        "an id must be unique, got 1",
    ),
    (
        "coco",
        lambda file: edit(file, '"images": [', '"images": [{"id": 1, "file_name": "a", "width": 1, "height": 1}, '),
        "unique",
    ),
    ("coco", lambda file: edit(file, '"width": 128', '"width": -1'), r"images\[0\]: width and height .* at least 1"),
    (*broken_line("visdrone", "1,2,3,4,1,4,0"), r"line 1: must have 8 fields \(x y .*, got 7"),
    (*broken_line("visdrone", "1,2,3,4,1,12,0,0"), "line 1: category must be one of 0 to 11, got 12"),
    (*broken_line("visdrone", "1,2,3,4,1,4.5,0,0"), "line 1: category must be one of 0 to 11, got 4.5"),
    (*broken_line("visdrone", "1,2,3,4,2,4,0,0"), "line 1: score must be 0 or 1, got 2"),
    (*broken_line("visdrone", "1,2,-3,4,1,4,0,0"), "line 1: a box needs x2 > x1"),
]


@pytest.mark.parametrize(("name", "breaks", "message"), BROKEN)
def test_a_broken_annotation_is_refused_with_place_need_and_got(copied, name, breaks, message):
    root = copied(name)
    breaks(root / FILES[name][0])
    with pytest.raises(DatasetError, match=message) as caught:
        load(name, root, SOURCES[name].test)
    assert str(root) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", FORMATS)
def test_bytes_that_are_no_text_are_refused(copied, name):
    root = copied(name)
    (root / FILES[name][0]).write_bytes(b"\xff\xfe1 2")
    with pytest.raises(DatasetError, match="must be text in UTF-8, got"):
        load(name, root, SOURCES[name].test)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("gone", ["an image", "the images", "the annotation", "all"])
def test_what_is_missing_is_named_with_where_it_comes_from_and_how_it_must_lie(copied, name, gone):
    root, split = copied(name), SOURCES[name].test
    image = load(name, root, split).images[0].path
    if gone == "an image":
        image.unlink()
    elif gone == "the images":
        shutil.rmtree(image.parent)
    elif gone == "the annotation":
        (root / FILES[name][0]).unlink()
    else:
        shutil.rmtree(root)
    with pytest.raises(DatasetError) as caught:
        load(name, root, split)
    message = str(caught.value)
    assert SOURCES[name].url in message
    assert SOURCES[name].layout in message
    assert {"an image": image.stem, "the images": image.parent.name, "all": "not there"}.get(gone, str(root)) in message


@pytest.mark.parametrize("name", ["carpk", "voc"])
def test_a_list_of_images_must_have_some_and_each_once(copied, name):
    root = copied(name)
    file = root / FILES[name][1]
    first = file.read_text().split()[0]
    file.write_text(f"{first}\n\n{first}\n")
    with pytest.raises(
        DatasetError, match=f"test.txt, line 3: an id must be listed once, got '{first}' again, as in line 1"
    ):
        load(name, root, "test")
    file.write_text("\r\n")
    with pytest.raises(DatasetError, match=r"test.txt must list at least one image, got an empty file"):
        load(name, root, "test")


def test_an_id_with_two_images_is_refused(copied):
    root = copied("carpk")
    blank_image(root / "data/Images/test_00001.jpg")
    with pytest.raises(DatasetError, match=r"one image, got test_00001.jpg and test_00001.png"):
        load("carpk", root, "test")


def test_an_image_that_is_none_is_refused_when_it_is_opened(copied):
    root = copied("carpk")
    dataset = load("carpk", root, "test")
    for content in (b"", b"text", dataset.images[0].path.read_bytes()[:500]):
        dataset.images[0].path.write_bytes(content)
        with pytest.raises(DatasetError, match=r"test_00001.png must be an image, got"):
            dataset.pixels(0)


def test_other_counts_are_a_warning_or_an_error(copied):
    root = copied("carpk")
    expected = load("carpk", root, "test")
    (root / FILES["carpk"][0]).write_text("")
    message = f"Generated CARPK test must have 1 image, {expected.num_boxes} boxes, got 1 image, 0 boxes in {root}"
    with pytest.warns(UserWarning, match="Generated CARPK") as caught:
        load("carpk", root, "test")
    assert [str(one.message) for one in caught] == [message]
    assert caught[0].filename == __file__
    with pytest.raises(DatasetError, match=message):
        load("carpk", root, "test", require_counts=True)
    (root / "generated.json").unlink()
    with pytest.warns(UserWarning, match="CARPK test must have 459 images, 47,500 boxes, got 1 image, 0 boxes"):
        load("carpk", root, "test")


@pytest.mark.parametrize("text", ["", "{}", '{"splits": {"train": {}}}', '{"splits": {"test": {"images": 1}}}'])
def test_a_broken_record_of_what_was_drawn_is_refused(copied, text):
    root = copied("carpk")
    (root / "generated.json").write_text(text)
    with pytest.raises(DatasetError, match=r"generated.json"):
        load("carpk", root, "test")


def test_names_and_splits_that_are_not_known_are_refused(tmp_path):
    with pytest.raises(DatasetError, match=r"name must be one of carpk, .*, got 'kitti'"):
        load("kitti", tmp_path, "train")
    with pytest.raises(DatasetError, match="split of crowdhuman must be one of train, val, got 'test'"):
        load("crowdhuman", tmp_path, "test")
    (tmp_path / "file").touch()
    with pytest.raises(DatasetError, match=r"root must be a folder, got .*file, which is a file. CARPK comes from"):
        load("carpk", tmp_path / "file", "test")
