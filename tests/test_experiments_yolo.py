"""Raw boxes of YOLO models: from a picture to the files that benchmarks and experiments read."""

import numpy as np
import PIL.Image
import pytest
from typer.testing import CliRunner

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from experiments import raw as raw_file  # noqa: E402
from experiments.__main__ import app  # noqa: E402
from experiments.datasets import DatasetError, load, mot, visdrone  # noqa: E402
from experiments.datasets.common import make_image  # noqa: E402
from experiments.yolo import REAL_SETS, Yolo, raw_of, truth_of  # noqa: E402
from tests.support.boxes import REAL  # noqa: E402
from tests.support.datasets import real_folder  # noqa: E402

SIZE = 64
PLACES = 8 * 8 + 4 * 4 + 2 * 2
#: Row -> cx, cy, w, h, the score of any object, the scores of three classes: of the first, second and last level.
ROWS = {
    0: [32, 32, 16, 8, 0.5, 0.1, 0.8, 0.2],
    3 * 64: [10, 32, 40, 4, 1.0, 0.9, 0.1, 0.1],
    3 * PLACES - 1: [60, 40, 8, 8, 0.002, 0.1, 0.2, 0.9],
    5: [32, 32, 8, 8, 0.01, 0.05, 0.05, 0.05],  # 0.0005: below the least score
}


def model_of(output, file):
    """A model that always says the same, whatever the picture."""
    given = onnx.helper.make_tensor_value_info("images", onnx.TensorProto.FLOAT, [1, 3, SIZE, SIZE])
    put_out = onnx.helper.make_tensor_value_info("output0", onnx.TensorProto.FLOAT, list(output.shape))
    nodes = [
        onnx.helper.make_node("ReduceMean", ["images"], ["mean"], keepdims=0),
        onnx.helper.make_node("Mul", ["mean", "zero"], ["nothing"]),
        onnx.helper.make_node("Add", ["rows", "nothing"], ["output0"]),
    ]
    constants = [onnx.numpy_helper.from_array(output, "rows"), onnx.numpy_helper.from_array(np.float32(0), "zero")]
    graph = onnx.helper.make_graph(nodes, "same", [given], [put_out], constants)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), file)
    return file


@pytest.fixture
def weights(tmp_path):
    output = np.zeros((1, 3 * PLACES, 8), np.float32)
    for row, values in ROWS.items():
        output[0, row] = values
    return model_of(output, tmp_path / "yolo.onnx")


@pytest.fixture
def image(tmp_path):
    """128 x 64 pixels: half as large in the network's square, with 16 grey rows above."""
    file = tmp_path / "picture.png"
    PIL.Image.fromarray(np.zeros((64, 128, 3), np.uint8)).save(file)
    boxes = np.array([[0, 0, 10, 10], [5, 5, 9, 9], [1, 1, 4, 4]], np.float32)
    return make_image("picture", file, None, boxes, [4, 7, 0], [False, False, True])


def test_boxes_are_in_pixels_of_the_image_with_their_best_class_and_level(weights, image):
    raw = raw_of(Yolo(weights, SIZE), image, visdrone.CLASSES)
    assert raw.boxes.tolist() == [[48, 24, 80, 40], [0, 28, 60, 36], [112, 40, 128, 56]]
    assert raw.labels.tolist() == [1, 0, 2]
    assert raw.level.tolist() == [0, 1, 2]
    np.testing.assert_allclose(raw.scores, [0.4, 0.9, 0.0018], rtol=1e-6)


def test_a_model_without_anchors_gives_the_same(image, tmp_path):
    output = np.zeros((1, 7, PLACES), np.float32)
    output[0, :, 64] = [32, 32, 16, 8, 0.05, 0.4, 0.1]
    raw = raw_of(Yolo(model_of(output, tmp_path / "u.onnx"), SIZE), image, visdrone.CLASSES)
    assert (raw.boxes.tolist(), raw.labels.tolist(), raw.level.tolist()) == ([[48, 24, 80, 40]], [1], [1])
    np.testing.assert_allclose(raw.scores, [0.4])


def test_what_is_there_has_labels_of_coco(image):
    truth = truth_of(image, visdrone.CLASSES)
    assert truth.labels.tolist() == [2, -1, -1]  # a car, a tricycle, a region
    assert truth.ignore.tolist() == [False, False, True]


def test_truth_is_that_of_the_real_set():
    folder = real_folder("formats") / "visdrone" / "annotations"
    files = [file for file in sorted(folder.glob("*.txt")) if (REAL / "visdrone_yolov5s" / f"{file.stem}.npz").exists()]
    assert files
    for file in files:
        truth = truth_of(visdrone._read_image(file, file), visdrone.CLASSES)
        with np.load(REAL / "visdrone_yolov5s" / f"{file.stem}.npz") as wanted:
            assert {*map(tuple, np.column_stack([truth.boxes, truth.labels, truth.ignore]))} == {
                *map(tuple, np.column_stack([wanted["gt_boxes"], wanted["gt_labels"], wanted["gt_ignore"]]))
            }


def test_the_sets_are_those_of_the_docs():
    for name, real in REAL_SETS.items():
        files = real_folder("raw").joinpath(name).glob("*.npz")
        assert sorted(file.stem.removesuffix("_1280") for file in files) == sorted(real.images)


def draw_mot(root):
    folder = root / "train" / "MOT17-02-FRCNN"
    (folder / "img1").mkdir(parents=True)
    (folder / "gt").mkdir()
    for frame in range(1, 3):
        PIL.Image.fromarray(np.zeros((64, 128, 3), np.uint8)).save(folder / "img1" / f"{frame:06}.jpg")
    lines = ["1,1,10,20,30,40,1,1,1", "1,2,0,0,5,5,0,1,1", "1,3,0,0,5,5,1,7,1", "2,1,11,20,30,40,1,1,0.5"]
    (folder / "gt" / "gt.txt").write_text("\n".join(lines))


def test_mot_has_pedestrians_that_count(tmp_path):
    draw_mot(tmp_path)
    (tmp_path / "train" / "MOT17-02-SDP").mkdir()  # the same sequence again
    classes, images = mot.read(tmp_path, "train")
    assert classes == ("person",)
    assert {image.id: image.boxes.tolist() for image in images} == {
        "MOT17-02_000001": [[10, 20, 40, 60]],
        "MOT17-02_000002": [[11, 20, 41, 60]],
    }


@pytest.mark.filterwarnings("ignore:MOT17 train must have:UserWarning")
def test_the_command_writes_what_experiments_read(tmp_path, weights):
    draw_mot(tmp_path)
    arguments = ["--data", str(tmp_path), "--weights", str(weights), "--output", str(tmp_path / "raw"), "--size", "64"]
    result = CliRunner().invoke(app, ["yolo", "mot17_yolov5n", *arguments, "--images", "2"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "6 raw boxes of 2 images" in result.output
    folder = raw_file.RawFolder(tmp_path / "raw" / "mot17_yolov5n")
    assert len(folder) == 2
    assert folder[0].truth.labels.tolist() == [0]
    with pytest.raises(DatasetError, match="must have the image MOT17-02_000003, got 2 others"):
        CliRunner().invoke(app, ["yolo", "mot17_yolov5n", *arguments], catch_exceptions=False)


@pytest.mark.parametrize("size", [32, 128])
def test_a_model_of_another_size_is_refused(weights, size):
    with pytest.raises(DatasetError, match=rf"for {size} x {size} pixels, got one for \[64, 64\]"):
        Yolo(weights, size)


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(DatasetError, match="weights must be an ONNX file"):
        Yolo(tmp_path / "none.onnx", SIZE)
    (tmp_path / "broken.onnx").write_bytes(b"broken")
    with pytest.raises(DatasetError, match="weights must be an ONNX model"):
        Yolo(tmp_path / "broken.onnx", SIZE)
    other = model_of(np.zeros((1, 5, 5), np.float32), tmp_path / "other.onnx")
    with pytest.raises(DatasetError, match=r"YOLOv5 or later, got a model whose output is \(5, 5\)"):
        Yolo(other, SIZE).rows(np.zeros((3, SIZE, SIZE), np.float32))


def test_mot_says_where_it_is_wrong(tmp_path):
    draw_mot(tmp_path)
    file = tmp_path / "train" / "MOT17-02-FRCNN" / "gt" / "gt.txt"
    file.write_text("1,1,10,20,30,40,1,1,1\n1,1,10,20,-5,40,1,1,1\n")
    with pytest.raises(DatasetError, match=r"gt.txt, line 2: a box needs x2 > x1"):
        load("mot17", tmp_path, "train")
