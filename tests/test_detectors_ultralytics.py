"""Ultralytics' NMS by hashnms, compared with its own."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from unittest.mock import Mock

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")
pytest.importorskip("ultralytics")

import numpy as np  # noqa: E402
import ultralytics.utils.nms as theirs  # noqa: E402
from ultralytics import YOLO  # noqa: E402

from hashnms import nms  # noqa: E402
from hashnms.detectors import accelerate, accelerated, acceleration, restore  # noqa: E402
from hashnms.detectors import ultralytics as adapter  # noqa: E402
from hashnms.detectors.ultralytics import non_max_suppression  # noqa: E402

stock = theirs.non_max_suppression


def predictions(images=3, classes=5, boxes=800, extra=0, *, seed=0, size=640):
    """Raw predictions in clumps, many close to the thresholds: the class offset rounds some to their other side."""
    generator = torch.Generator().manual_seed(seed)
    clumps = torch.arange(boxes) // 20
    corners = (torch.rand(images, 2, boxes, generator=generator) * size)[:, :, clumps]
    corners += 6 * torch.randn(images, 2, boxes, generator=generator)
    sides = 20 + 60 * torch.rand(images, 2, boxes, generator=generator)[:, :, clumps]
    sides *= 0.9 + 0.2 * torch.rand(images, 2, boxes, generator=generator)
    scores = torch.randperm(images * classes * boxes, generator=generator).reshape(images, classes, boxes)
    more = torch.randn(images, extra, boxes, generator=generator)
    return torch.cat([corners, sides, scores / scores.numel(), more], 1)


def same(ours, expected):
    assert len(ours) == len(expected)
    for one, other in zip(ours, expected, strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)


SETTINGS = [
    {},
    {"agnostic": True},
    {"multi_label": True},
    {"multi_label": True, "agnostic": True, "max_det": 7},
    {"classes": [1, 3], "conf_thres": 0.6},
    {"classes": [4], "multi_label": True},
    {"iou_thres": 0.0},
    {"iou_thres": 1.0, "max_det": 100_000},
    {"iou_thres": 0.7, "conf_thres": 0.001, "max_det": 300, "multi_label": True},
    {"conf_thres": 1.0},
    {"max_nms": 100},
    {"max_nms": 100, "classes": [0, 2], "multi_label": True},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("shape", [(1, 1, 700, 0), (3, 5, 800, 0), (2, 80, 300, 32), (2, 5, 1, 3)])
def test_the_detections_are_those_of_ultralytics(settings, shape):
    images, classes, boxes, extra = shape
    raw = predictions(images, classes, boxes, extra)
    same(non_max_suppression(raw, nc=classes, **settings), stock(raw, nc=classes, **settings))


def test_the_indices_are_those_of_ultralytics_and_whole_numbers_where_there_are_none():
    raw = predictions(3)
    raw[1, 4:] = 0
    boxes, rows = non_max_suppression(raw, return_idxs=True, multi_label=True)
    stock_boxes, stock_rows = stock(raw, return_idxs=True, multi_label=True)
    same(boxes, stock_boxes)
    same([rows[0], rows[2]], [stock_rows[0], stock_rows[2]])
    assert rows[1].shape == (0,)
    assert rows[1].dtype == torch.int64


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_types_and_lists_are_taken_as_ultralytics_takes_them(dtype):
    raw = predictions(2, 1, 300).to(dtype)
    raw[:, 4] = torch.linspace(0.3, 0.8, 300).to(dtype).repeat(2, 1)  # few ties in half precision
    if dtype == torch.float16:
        raw = raw[:, :, ::20].contiguous()
    before = raw.clone()
    same(non_max_suppression([raw, None]), stock((raw, None)))
    assert torch.equal(raw, before)


@pytest.mark.parametrize("max_nms", [30_000, 1000, 50])
def test_scores_that_tie_come_in_the_order_of_ultralytics(max_nms):
    """Torchvision prefers the lower row. Ultralytics first sorts more than `max_nms`, and that sort is not stable."""
    raw = predictions(2, 3, 3000)
    raw[:, 4:] = (raw[:, 4:] * 4).round() / 4
    for multi_label in (False, True):
        settings = {"max_nms": max_nms, "multi_label": multi_label, "max_time_img": 1e6, "return_idxs": True}
        ours, expected = non_max_suppression(raw, **settings), stock(raw, **settings)
        same([*ours[0], *ours[1]], [*expected[0], *expected[1]])


@pytest.mark.parametrize("multi_label", [False, True])
def test_classes_are_kept_apart_by_offsets_or_exactly(multi_label):
    """The offsets of 80 classes reach 606,720 pixels, where float32 has sixteenths of a pixel."""
    differ = 0
    for seed in range(6):
        raw = predictions(2, 80, 2000, seed=seed)
        raw[:, 4:-4] *= 0.2  # few classes, as in a real scene
        settings = {"conf_thres": 0.3, "multi_label": multi_label, "max_det": 10**6, "max_time_img": 1e6}
        expected = stock(raw, **settings)
        same(non_max_suppression(raw, **settings), expected)
        exact = non_max_suppression(raw, **settings, exact_labels=True)
        by_class = [stock(raw, **settings, classes=[label], agnostic=True) for label in range(76, 80)]
        same(exact, [_by_score(torch.cat(of_image)) for of_image in zip(*by_class, strict=True)])
        differ += not all(map(torch.equal, exact, expected))
    assert differ > 0


def _by_score(rows):
    return rows[rows[:, 4].argsort(descending=True)]


def test_no_image_and_no_box_are_fine():
    assert non_max_suppression(torch.zeros(0, 84, 10)) == []
    same(non_max_suppression(torch.zeros(2, 84, 1)), [torch.zeros(0, 6)] * 2)


def test_the_best_30_000_candidates_take_part_or_all():
    """One place of 30,000 boxes, then a lone box with the lowest score."""
    raw = torch.full((1, 5, 30_001), 50.0)
    raw[0, :2, 30_000] = 500
    raw[0, 4] = torch.linspace(0.9, 0.5, 30_001)
    same(non_max_suppression(raw), stock(raw))
    same(non_max_suppression(raw, max_nms=None), stock(raw, max_nms=10**6))
    assert [len(non_max_suppression(raw, max_nms=most)[0]) for most in (30_000, None)] == [1, 2]


@pytest.mark.parametrize("max_wh", [0, 1, 300, 700, 7680])
def test_classes_meet_where_ultralytics_lets_them_meet(max_wh):
    """Images larger than the offset, and boxes left of the origin."""
    raw = predictions(3, 4, 1500)
    raw[:, :2] -= 200
    for iou_threshold in (0.0, 0.3, 0.7):
        settings = {"iou_thres": iou_threshold, "max_wh": max_wh, "max_det": 10**6, "max_time_img": 1e6}
        same(non_max_suppression(raw, **settings), stock(raw, **settings))


def test_boxes_beyond_the_class_offset_meet_other_classes_unless_labels_are_exact():
    raw = torch.tensor([[[5000.0, 5000.0 + 7680], [50.0, 50 + 7680.0], [90.0, 90], [90.0, 90], [0, 0.9], [0.8, 0]]])
    same(non_max_suppression(raw), stock(raw))
    same(non_max_suppression(raw, max_wh=10_000), stock(raw, max_wh=10_000))
    assert [len(found[0]) for found in (stock(raw), stock(raw, max_wh=10_000))] == [1, 2]
    assert len(non_max_suppression(raw, exact_labels=True)[0]) == 2


def test_thresholds_out_of_range_are_refused():
    with pytest.raises(ValueError, match=r"conf_thres must be in \[0, 1\], got 1.5"):
        non_max_suppression(predictions(), 1.5)
    with pytest.raises(ValueError, match=r"iou_thres must be in \[0, 1\], got -1"):
        non_max_suppression(predictions(), iou_thres=-1)


def test_rotated_boxes_and_end_to_end_models_are_left_to_ultralytics():
    rotated = predictions(2, 3, 200, 1)
    with pytest.warns(UserWarning, match="hashnms does not support rotated boxes: ultralytics' own") as warned:
        same(non_max_suppression(rotated, nc=3, rotated=True), stock(rotated, nc=3, rotated=True))
    assert warned[0].filename == __file__
    done = torch.rand(2, 300, 6, generator=torch.Generator().manual_seed(0))
    with pytest.warns(UserWarning, match="an end-to-end model has no NMS"):
        same(non_max_suppression(done, classes=[0], end2end=True), stock(done, classes=[0], end2end=True))


def test_boxes_that_hashnms_refuses_are_left_to_ultralytics():
    raw = predictions()
    raw[1, 2, 5], raw[1, 4, 5] = -3.0, 0.999
    with pytest.warns(UserWarning, match="boxes must have .*: ultralytics' own function is used"):
        same(non_max_suppression(raw, max_nms=500), stock(raw, max_nms=500))


IMAGES = [np.random.default_rng(seed).integers(0, 256, (160, 160, 3), np.uint8) for seed in range(2)]


def crowded(name):
    """A model with random weights, whose head puts out a crowd: other boxes and scores in each place."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = YOLO(f"{name}.yaml", verbose=False)

    def crowd(head, _inputs, output):
        raw = output
        while not isinstance(raw, torch.Tensor):
            raw = raw[0]
        if not head.end2end:
            generator = torch.Generator().manual_seed(0)
            scores = raw[:, 4 : 4 + head.nc]
            logits = torch.randn(scores.shape, generator=generator) - 5
            logits[:, -4:] += 4
            scores[:] = logits.sigmoid()
            raw[:, 2:4] *= (0.3 * torch.randn(raw[:, 2:4].shape, generator=generator) - 1).exp()

    model.model.model[-1].register_forward_hook(crowd)
    return model


@pytest.fixture(scope="module")
def yolo():
    return crowded("yolov8n")


def detections(model, **settings):
    results = model.predict(IMAGES, imgsz=160, conf=0.05, verbose=False, save=False, **settings)
    return [result.boxes.data for result in results]


@pytest.mark.slow
def test_an_accelerated_yolo_detects_the_same_and_can_be_restored(yolo, monkeypatch):
    expected = detections(yolo)
    assert all(len(boxes) > 20 for boxes in expected)
    calls = Mock(wraps=nms)
    monkeypatch.setattr(adapter, "nms", calls)
    assert acceleration(yolo) == {"postprocess": "ultralytics' own"}
    assert accelerate(yolo) is accelerate(yolo) is yolo
    assert acceleration(yolo) == {"postprocess": "exact NMS by hashnms"}
    same(detections(yolo), expected)
    assert calls.call_count == 1  # both images in one
    assert theirs.non_max_suppression is stock
    same(detections(yolo, agnostic_nms=True, classes=list(range(40))), _restored(yolo))
    restore(yolo)
    assert acceleration(yolo) == {"postprocess": "ultralytics' own"}
    same(detections(yolo), expected)
    assert calls.call_count == 2


def _restored(model):
    restore(model)
    expected = detections(model, agnostic_nms=True, classes=list(range(40)))
    accelerate(model)
    return expected


@pytest.mark.slow
def test_exact_labels_are_an_option_that_shows(yolo, monkeypatch):
    calls = Mock(wraps=nms)
    monkeypatch.setattr(adapter, "nms", calls)
    with accelerated(yolo):
        with accelerated(yolo, exact_labels=True):
            assert acceleration(yolo) == {"postprocess": "exact NMS, exact labels, by hashnms"}
            detections(yolo)
            assert calls.call_args.args[0].max() < 1000
        assert acceleration(yolo) == {"postprocess": "exact NMS by hashnms"}
        detections(yolo)
        assert calls.call_args.args[0].max() > 7680
    assert acceleration(yolo) == {"postprocess": "ultralytics' own"}


#: One for each kind of head: detect, segment, pose, with boxes of other channels, with text, end-to-end, rotated.
CONFIGURATIONS = [
    "yolov3-tiny", "yolov5n", "yolov6n", "yolov8n-world", "yolov9t", "yolov10n", "yolo11n-seg", "yolo11n-pose",
    "yolo12n", "yolo26n", "yolo26n-pose", "yolo26n-obb", "yoloe-26n-seg",
]  # fmt: skip


def values(results):
    fields = [getattr(result, name) for result in results for name in ("boxes", "masks", "keypoints", "obb")]
    return [field.data for field in fields if field is not None]


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_every_kind_of_yolo_detects_the_same(name, monkeypatch):
    """End-to-end (`nms=False`) and rotated boxes are ultralytics' own, with a warning."""
    limits = [1e6 if value == 0.05 else value for value in stock.__defaults__]  # no time limit
    monkeypatch.setattr(stock, "__defaults__", tuple(limits))
    model = crowded(name)
    settings = {"imgsz": 128, "conf": 0.1, "max_det": 2000, "verbose": False, "save": False}
    ways = [{}, {"iou": 0.3, "agnostic_nms": True}, *([{"nms": False, "conf": 0.0}] if "26" in name else [])]
    for way in ways:
        left = "obb" in name or "nms" in way
        expected = values(model.predict(IMAGES, **settings | way))
        with accelerated(model), pytest.warns(match="ultralytics' own") if left else nullcontext():
            same(values(model.predict(IMAGES, **settings | way)), expected)
        assert sum(map(len, expected)) > 20


@pytest.mark.slow
def test_a_validator_of_an_accelerated_yolo_uses_it(yolo, monkeypatch, tmp_path):
    calls = Mock(wraps=nms)
    monkeypatch.setattr(adapter, "nms", calls)
    args = {"conf": 0.3, "iou": 0.6, "save_dir": str(tmp_path)}  # not beside the installed ultralytics
    validator = yolo._smart_load("validator")(args=args, _callbacks=yolo.callbacks)
    validator.end2end = False
    raw = predictions(2, 80, 300)
    expected = validator.postprocess(raw)
    with accelerated(yolo):
        validator.run_callbacks("on_val_start")
        ours = validator.postprocess(raw)
    assert calls.call_count == 1
    for one, other in zip(ours, expected, strict=True):
        assert all(torch.equal(one[field], other[field]) for field in ("bboxes", "conf", "cls", "extra"))


@pytest.mark.slow
def test_a_block_leaves_a_yolo_as_it_was(yolo):
    for before in (False, True):
        (accelerate if before else restore)(yolo)
        with accelerated(yolo) as model:
            assert model is yolo
            assert adapter.is_accelerated(yolo)
        assert adapter.is_accelerated(yolo) == before
    restore(yolo)


def test_settings_of_other_models_and_other_models_are_refused(yolo):
    with pytest.raises(ValueError, match=r"final must be None for ultralytics' models, got 'nms:0.5'"):
        accelerate(yolo, final="nms:0.5")
    assert not adapter.is_accelerated(yolo)
    with pytest.raises(TypeError, match="model must be ultralytics' YOLO, got Linear"):
        adapter.accelerate(torch.nn.Linear(1, 1))
    with pytest.raises(ValueError, match="that calls its non_max_suppression, got YOLO for the task classify"):
        accelerate(YOLO("yolov8n-cls.yaml", verbose=False))
    with pytest.raises(TypeError, match="exact_labels must be True or False, got 1"):
        accelerate(yolo, exact_labels=1)
    with pytest.raises(TypeError, match="exact_labels must be True or False, got 1"):
        non_max_suppression(predictions(), exact_labels=1)


@pytest.mark.slow
def test_each_thread_has_its_own_function_and_ultralytics_comes_back_when_the_last_is_done(monkeypatch):
    ours = Mock()
    monkeypatch.setattr(adapter, "non_max_suppression", ours)
    monkeypatch.setattr(theirs, "non_max_suppression", original := Mock())
    call = lambda: theirs.non_max_suppression("raw")  # noqa: E731
    with ThreadPoolExecutor(1) as pool, adapter._in_place(True):
        with adapter._in_place(False):
            call()
            ours.assert_called_with("raw", exact_labels=False)
        call()
        ours.assert_called_with("raw", exact_labels=True)
        original.assert_not_called()
        pool.submit(call).result()
        original.assert_called_once_with("raw")
    assert theirs.non_max_suppression is original
