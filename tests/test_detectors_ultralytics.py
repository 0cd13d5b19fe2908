"""Ultralytics' NMS by hashnms, compared with its own."""

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
    """Raw predictions without ties, on eighths of a pixel: adding the class offset of ultralytics rounds nothing."""
    generator = torch.Generator().manual_seed(seed)
    corners = torch.randint(0, size * 4, (images, 2, boxes), generator=generator) / 4
    sides = torch.randint(40, 800, (images, 2, boxes), generator=generator) / 4
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


def test_scores_that_tie_go_to_the_lower_row_as_in_torchvision():
    raw = predictions(1, 1)
    raw[:, 4] = (raw[:, 4] * 4).round() / 4
    same(non_max_suppression(raw), stock(raw))


def test_no_image_and_no_box_are_fine():
    assert non_max_suppression(torch.zeros(0, 84, 10)) == []
    same(non_max_suppression(torch.zeros(2, 84, 1)), [torch.zeros(0, 6)] * 2)


def test_all_candidates_take_part_unless_a_number_is_given():
    raw = predictions(1, 1, 31_000)
    best = raw[0, 4].topk(30_000).indices
    raw[0, :4, best] = raw[0, :4, :1]  # all in one place: whoever looks at no more keeps one
    uncut = stock(raw, 0.0, max_nms=10**6, max_det=10**6)
    same(non_max_suppression(raw, 0.0, max_det=10**6), uncut)
    cut = stock(raw, 0.0, max_det=10**6)
    assert len(cut[0]) == 1 < len(uncut[0])
    same(non_max_suppression(raw, 0.0, max_nms=30_000, max_det=10**6), cut)


def test_boxes_beyond_the_class_offset_do_not_meet_other_classes():
    raw = torch.tensor([[[5000.0, 5000.0 + 7680], [50.0, 50 + 7680.0], [90.0, 90], [90.0, 90], [0, 0.9], [0.8, 0]]])
    assert len(stock(raw)[0]) == 1
    assert len(non_max_suppression(raw)[0]) == 2


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


@pytest.fixture(scope="module")
def yolo():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = YOLO("yolov8n.yaml", verbose=False)
    logits = [branch[-1] for branch in model.model.model[-1].cv3]
    spreads = []
    handles = [layer.register_forward_hook(lambda *args: spreads.append(args[2].std())) for layer in logits]
    with torch.no_grad():
        model.model.eval()(torch.from_numpy(IMAGES[0]).permute(2, 0, 1)[None] / 255)
        for layer, spread, handle in zip(logits, spreads, handles, strict=True):
            handle.remove()
            layer.weight *= 2 / spread  # scores of fresh layers are all nearly the same
            layer.bias.fill_(-4)
    return model


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


@pytest.mark.slow
def test_another_threads_function_comes_back_when_the_last_is_done():
    with adapter._in_place():
        with adapter._in_place():
            assert theirs.non_max_suppression is non_max_suppression
        assert theirs.non_max_suppression is non_max_suppression
    assert theirs.non_max_suppression is stock
