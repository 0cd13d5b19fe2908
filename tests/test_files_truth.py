"""Ground truth is matched with detections by image and class; what does not match is said, never counted as wrong."""

import json
import warnings

import numpy as np
import pytest

pytest.importorskip("msgspec")
pytest.importorskip("pyarrow")

from hashnms.files import FileError
from hashnms.files.loading import load
from hashnms.files.rows import Reading
from hashnms.files.truth import load_truth

BOX = [0, 0, 9, 9]


@pytest.fixture
def match(tmp_path):
    """A function that writes detections (image, class) and truth (image, class), loads both and matches them."""

    def matched(found, objects, categories=(), images=None, **how):
        rows = [{"image_id": image, "category_id": label, "bbox": BOX, "score": 0.5} for image, label in found]
        (tmp_path / "found.json").write_text(json.dumps(rows))
        dataset = {
            "images": [{"id": image} for image in sorted({image for image, _ in objects})]
            if images is None
            else images,
            "annotations": [{"image_id": image, "category_id": label, "bbox": BOX} for image, label in objects],
            "categories": [{"id": label, "name": name} for label, name in categories],
        }
        (tmp_path / "truth.json").write_text(json.dumps(dataset))
        return load_truth(tmp_path / "truth.json", load([tmp_path / "found.json"], Reading()), **how)

    return matched


def classes_of(known):
    return [known.labels[label] for label in known.detections.labels]


def of_one_image(labels):
    return [(1, label) for label in labels]


def test_all_that_matches_is_silent(match):
    known = match(of_one_image([3, 5]), of_one_image([3, 5]), [(3, "car"), (5, "bus")])
    assert classes_of(known) == known.class_names == ["car", "bus"]
    assert known.truth.labels.tolist() == known.detections.labels.tolist()


@pytest.mark.parametrize(
    ("labels", "ids", "hint"),
    [
        ([0, 1, 2], [11, 12, 13], "; class_offset=11 would match all classes"),
        ([5, 6], [1, 2, 3], "; class_offset=-4 would match all classes"),
        ([0, 2], [10, 20, 30], "; class_order=True would match all classes"),
        ([100, 200], [1, 2, 3], ""),
        (["car"], [1, 2], ""),
        (["7"], [1], "; class_offset=-6 would match all classes"),
    ],
)
def test_no_class_that_matches_is_an_error_that_says_what_would(labels, ids, hint, match):
    with pytest.raises(FileError) as error:
        match(of_one_image(labels), of_one_image(ids), [(ids[0], "a <b>")])
    assert str(error.value).endswith(
        f"truth.json has no category for any class of the detections: they are {', '.join(map(str, labels))}, its own "
        f"{', '.join([f'{ids[0]} (a <b>)', *map(str, ids[1:])])}{hint}"
    )


def test_some_classes_that_do_not_match_are_a_warning_that_says_what_would(match):
    """YOLO's numbers from 0, the dataset's from 1: all but the first match, each with another class."""
    with pytest.warns(UserWarning, match="truth.json has no category for class 0 ") as caught:
        known = match(of_one_image([0, 0, 1, 2]), of_one_image([1, 2, 3]))
    assert str(caught[0].message).endswith(
        "truth.json has no category for class 0 of the detections (1 of 3 classes, 2 boxes): these boxes do not count; "
        "class_offset=1 would match all classes"
    )
    assert classes_of(known) == ["0", "0", "1", "2"]


def test_many_classes_are_counted_not_listed(match):
    with pytest.warns(UserWarning, match=r"for class 2, 3, 4, 5, 6 and 13 more of .* \(18 of 19 classes, 18 boxes\)"):
        match(of_one_image(range(1, 20)), of_one_image([1]))


@pytest.mark.parametrize("as_text", [False, True])
def test_an_offset_is_added_to_numbers_and_not_to_names(as_text, match):
    labels = ["0", "2", "bus"] if as_text else [0, 2, 1]
    known = match(of_one_image(labels), of_one_image([1, 2, 3]), [(1, "car"), (2, "bus"), (3, "2")], class_offset=1)
    assert classes_of(known) == ["car", "2", "bus"]


def test_the_order_of_the_ids_counts_from_0(match):
    """As YOLO's 80 classes of COCO: 11 is followed by 13."""
    known = match(of_one_image([0, 2]), of_one_image([13, 11, 90]), [(90, "c"), (11, "a"), (13, "b")], class_order=True)
    assert classes_of(known) == ["a", "c"]
    with pytest.raises(ValueError, match="class_offset must be 0 with class_order, got 2"):
        match(of_one_image([0]), of_one_image([1]), class_order=True, class_offset=2)


def test_images_that_the_truth_does_not_have_are_an_error_or_left_out(match):
    found, objects = [(1, 7), (2, 7), (3, 7), (1, 7)], [(1, 7), (3, 7)]
    with pytest.raises(FileError, match=r"got none for 2 \(1 of 3 images\); truth_images_only=True leaves them out"):
        match(found, objects)
    known = match(found, objects, truth_images_only=True)
    assert known.loaded.images == [1, 3]
    assert known.detections.images.tolist() == [0, 1, 0]
    assert known.loaded.detections.images.tolist() == [0, 1, 0]
    assert known.loaded.row_of.tolist() == [1, 3, 4]
    assert str(known.loaded) == "3 boxes of 2 images"
    assert match(objects, objects, truth_images_only=True).loaded.images == [1, 3]


@pytest.mark.parametrize("only", [False, True])
def test_no_image_that_matches_is_an_error(only, match):
    with pytest.raises(FileError, match="has none of the images of the detections: they are 1, its own 4, 5"):
        match([(1, 7)], [(4, 7), (5, 7)], truth_images_only=only)


def test_images_without_detections_and_truth_without_objects_are_said(match):
    with pytest.warns(UserWarning, match=r"there are no detections in 2 of the 3 images that have objects in .*truth"):
        match([(1, 7)], [(1, 7), (2, 7), (3, 7)])
    with pytest.warns(UserWarning, match="truth.json has no objects: there is no average precision"):
        match([(1, 7)], [], images=[{"id": 1}])


def test_images_are_matched_by_every_name_that_only_one_has(match):
    images = [{"id": 1, "file_name": "a/x.jpg"}, {"id": 2, "file_name": "b/x.jpg"}, {"id": 3, "file_name": "c/12.png"}]
    objects = [(1, 7), (2, 7), (3, 7)]
    for names in (["a/x.jpg", "b/x.jpg", "c/12.png"], ["a/x", "b/x", "12"], ["1", "2", "12.png"], [1, 2, 12]):
        known = match([(name, 7) for name in names], objects, images=images)
        assert known.detections.images.tolist() == [0, 1, 2]
        assert known.file_names == ["a/x.jpg", "b/x.jpg", "c/12.png"]
    with pytest.raises(FileError, match=r"got none for x\.jpg"), warnings.catch_warnings():
        match([("x.jpg", 7), ("12", 7)], objects, images=images)


def test_no_detections_are_no_error(match):
    with pytest.warns(UserWarning, match="no detections in 1 of the 1 images"):
        known = match([], of_one_image([3]))
    assert len(known.detections) == 0
    assert np.array_equal(known.truth.labels, [0])


def test_boxes_relative_to_their_image_become_pixels(tmp_path):
    folder = tmp_path / "labels"
    folder.mkdir()
    (folder / "a.txt").write_text("0 0.5 0.25 0.5 0.5 0.9\n")
    (folder / "b.txt").write_text("0 0.5 0.5 1 1 0.8\n")
    loaded = load([folder], Reading())
    assert loaded.relative
    sizes = {"a.jpg": {"width": 640, "height": 480}, "b.jpg": {"width": 100, "height": 50}}
    truth = {
        "images": [{"id": number, "file_name": name, **size} for number, (name, size) in enumerate(sizes.items())],
        "annotations": [{"image_id": number, "category_id": 0, "bbox": BOX} for number in range(2)],
    }
    (tmp_path / "truth.json").write_text(json.dumps(truth))
    known = load_truth(tmp_path / "truth.json", loaded)
    assert known.detections.boxes.tolist() == [[160, 0, 480, 240], [0, 0, 100, 50]]
    assert known.loaded.detections.boxes.tolist() == known.detections.boxes.tolist()
    assert not known.loaded.relative
    del truth["images"][1]["height"]
    (tmp_path / "truth.json").write_text(json.dumps(truth))
    with pytest.raises(FileError, match=r"images must have width and height, because .* relative .*, got none for 1"):
        load_truth(tmp_path / "truth.json", loaded)


def test_boxes_of_other_files_that_look_relative_are_said(tmp_path):
    row = {"image_id": 1, "category_id": 7, "bbox": [0.25, 0.25, 0.5, 0.5], "score": 0.5}
    (tmp_path / "found.json").write_text(json.dumps([row]))
    objects = [{"image_id": 1, "category_id": 7, "bbox": [0, 0, 90, 90]}]
    (tmp_path / "truth.json").write_text(json.dumps({"images": [{"id": 1}], "annotations": objects}))
    with pytest.warns(UserWarning, match="as if they were relative to their image; the truth has pixels"):
        load_truth(tmp_path / "truth.json", load([tmp_path / "found.json"], Reading()))
