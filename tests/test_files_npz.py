"""NPZ files: arrays of any kind stay what they are, and nothing in them is run."""

import io
import json
import os
import pickle
import zipfile

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("msgspec")
import pyarrow.parquet as pq

from hashnms.files import FileError, suppress
from hashnms.files.loading import load
from hashnms.files.rows import Reading
from tests.support.files import fails

BOXES, SCORES = np.array([[0, 0, 9, 9], [0, 0, 9, 8], [20, 0, 29, 9.0]]), np.array([0.5, 0.6, 0.7])


class Harm:
    def __reduce__(self):
        return (os.system, ("touch harm",))


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def zipped(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)


def test_a_pickle_in_npz_is_never_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    objects = b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }".ljust(117) + b"\n"
    zipped(tmp_path / "in.npz", boxes=npy(np.zeros((1, 4))), scores=objects + pickle.dumps(Harm()))
    fails(tmp_path / "in.npz", "must hold arrays of numbers, got Object arrays cannot be loaded")
    (tmp_path / "raw.npz").write_bytes(pickle.dumps(Harm()))
    with pytest.raises(FileError, match="must be an NPZ file"):
        suppress(tmp_path / "raw.npz", tmp_path / "out.npz", "nms:0.5")
    assert not (tmp_path / "harm").exists()


def test_a_zip_bomb_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("hashnms.files.npz._MOST_BYTES", 10**6)
    zipped(tmp_path / "in.npz", boxes=npy(np.zeros((10**5, 4))), scores=npy(np.zeros(10**5)))
    assert (tmp_path / "in.npz").stat().st_size < 10**5
    fails(tmp_path / "in.npz", "arrays must have at most 1,000,000 bytes, got 4,000,")


def test_an_array_that_says_it_is_larger_than_it_is(tmp_path):
    head = (
        b"\x93NUMPY\x01\x00v\x00"
        + b"{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000, 4), }".ljust(117)
        + b"\n"
    )
    zipped(tmp_path / "in.npz", boxes=head + bytes(100), scores=npy(np.zeros(2)))
    fails(tmp_path / "in.npz", "must hold arrays of numbers, got")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"boxes": np.zeros((2, 5)), "scores": np.zeros(2)}, "boxes must have shape (N, 4), got (2, 5)"),
        ({"boxes": np.zeros((2, 4)), "scores": np.zeros(3)}, "scores must have shape (2,), got (3,)"),
        ({"boxes": np.zeros((2, 4))}, "score must be one of the arrays boxes, got none"),
        ({"scores": np.zeros(2)}, "boxes must be one of the arrays scores, got boxes"),
    ],
)
def test_arrays_of_wrong_shape(arrays, message, tmp_path):
    np.savez(tmp_path / "in.npz", **arrays)
    fails(tmp_path / "in.npz", message)


def test_arrays_of_any_name_and_byte_order(tmp_path):
    arrays = {"boxes": BOXES.astype(">f4"), "scores": SCORES.astype(">f8"), "file": SCORES, "allow_pickle": BOXES}
    with zipfile.ZipFile(tmp_path / "in.npz", "w") as file:
        for name, values in arrays.items():
            with file.open(f"{name}.npy", "w") as stream:
                np.lib.format.write_array(stream, values)
    suppress(tmp_path / "in.npz", tmp_path / "out.npz", "nms:0.5")
    with np.load(tmp_path / "out.npz") as kept:
        assert {name: values.tolist() for name, values in kept.items()} == {
            name: values[1:].tolist() for name, values in arrays.items()
        }
        assert kept["boxes"].dtype == ">f4"


def test_arrays_that_are_no_rows_stay_as_they_are_once(tmp_path):
    names = np.array(["cat", "dog"])
    for number in range(2):
        np.savez(tmp_path / f"{number}.npz", boxes=BOXES, scores=SCORES, images=[number] * 3, names=names, version=3)
    inputs = [tmp_path / "0.npz", tmp_path / "1.npz"]
    suppress(inputs, tmp_path / "out.npz", "nms:0.5")
    with np.load(tmp_path / "out.npz") as kept:
        assert kept["names"].tolist() == ["cat", "dog"]
        assert kept["version"] == 3
        assert kept["images"].tolist() == [0, 0, 1, 1]
    np.savez(tmp_path / "1.npz", boxes=BOXES, scores=SCORES, images=[1] * 3, names=names[::-1])
    with pytest.raises(FileError, match=r"names must .* be the same in all files, got other values than in .*0\.npz"):
        suppress(inputs, tmp_path / "out.npz", "nms:0.5")
    np.savez(tmp_path / "1.npz", boxes=BOXES, scores=SCORES, images=[1] * 3, more=SCORES)
    with pytest.raises(FileError, match="arrays must be those of the first file, boxes, scores, images, got"):
        suppress(inputs, tmp_path / "out.npz", "nms:0.5")


def test_an_npz_file_without_rows_keeps_its_arrays(tmp_path):
    np.savez(tmp_path / "in.npz", boxes=np.zeros((0, 4)), scores=np.zeros(0), names=["cat"])
    suppress(tmp_path / "in.npz", tmp_path / "out.npz", "nms:0.5")
    with np.load(tmp_path / "out.npz") as kept:
        assert sorted(kept) == ["boxes", "names", "scores"]
    suppress(tmp_path / "in.npz", tmp_path / "out.parquet", "nms:0.5")
    assert pq.read_table(tmp_path / "out.parquet").column_names == ["boxes", "scores"]


def test_what_is_no_array_in_npz(tmp_path):
    np.savez(tmp_path / "in.npz", boxes=BOXES, scores=SCORES + 0j)
    fails(tmp_path / "in.npz", "scores must be numbers or text, got complex128")
    np.savez(tmp_path / "in.npz", boxes=BOXES, scores=SCORES)
    with zipfile.ZipFile(tmp_path / "in.npz", "a") as file:
        file.writestr("readme.txt", "hello")
    fails(tmp_path / "in.npz", "must hold only arrays, got readme.txt")


@pytest.mark.parametrize("memory", [1, None])
def test_several_files_without_images_are_an_image_each(memory, tmp_path):
    """And not one image, in which all their boxes would meet."""
    for name in ("a", "b"):
        np.savez(tmp_path / f"{name}.npz", boxes=BOXES, scores=SCORES, note=np.arange(2))
    alone = suppress(tmp_path / "a.npz", tmp_path / "one.npz", "nms:0.5")
    with np.load(tmp_path / "one.npz") as kept:
        assert "images" not in kept
    inputs = [tmp_path / "a.npz", tmp_path / "b.npz"]
    assert suppress(inputs, tmp_path / "out.npz", "nms:0.5", memory=memory).boxes_out == 2 * alone.boxes_out == 4
    with np.load(tmp_path / "out.npz") as kept:
        assert kept["images"].tolist() == ["a", "a", "b", "b"]
        assert kept["note"].tolist() == [0, 1]
    suppress(inputs, tmp_path / "out.json", "nms:0.5", memory=memory)
    assert [row["image_id"] for row in json.loads((tmp_path / "out.json").read_text())] == ["a", "a", "b", "b"]
    assert load(inputs, Reading()).images == ["a", "b"]
    assert load(inputs[:1], Reading()).images == []
    one = suppress(inputs, tmp_path / "out.npz", "nms:0.5", columns={"image": None}, memory=memory)
    assert one.boxes_out == 2


def test_files_of_one_name_in_two_folders_are_two_images(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        np.savez(tmp_path / name / "0.npz", boxes=BOXES, scores=SCORES)
    inputs = [tmp_path / "a" / "0.npz", tmp_path / "b" / "0.npz"]
    assert suppress(inputs, tmp_path / "out.npz", "nms:0.5").boxes_out == 4
    assert load(inputs, Reading()).images == [str(tmp_path / "a" / "0"), str(tmp_path / "b" / "0")]


def test_files_with_and_without_images(tmp_path):
    np.savez(tmp_path / "a.npz", boxes=BOXES, scores=SCORES)
    for name, images in (("b", np.array(["x", "y", "x"])), ("c", np.array([1, 2, 1]))):
        np.savez(tmp_path / f"{name}.npz", boxes=BOXES, scores=SCORES, images=images)
    assert suppress([tmp_path / "a.npz", tmp_path / "b.npz"], tmp_path / "out.npz", "nms:0.5").boxes_out == 5
    with pytest.raises(FileError, match="column images must be integers or strings throughout"):
        suppress([tmp_path / "a.npz", tmp_path / "c.npz"], tmp_path / "out.npz", "nms:0.5")
