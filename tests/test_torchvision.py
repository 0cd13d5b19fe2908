"""Exact NMS against torchvision's own CPU op, which it is to equal in every index."""

import numpy as np
import pytest
from conftest import BOX_KINDS, real_images
from test_nms import THRESHOLDS

from hashnms import batched_nms, nms
from hashnms.synthetic import PRESETS, WORST_CASES, make_scene

torch = pytest.importorskip("torch")
torchvision = pytest.importorskip("torchvision")


def assert_same(boxes, scores, iou_threshold):
    expected = torchvision.ops.nms(torch.from_numpy(boxes), torch.from_numpy(scores), iou_threshold)
    assert np.array_equal(nms(boxes, scores, iou_threshold), expected.numpy())


@pytest.mark.parametrize("iou_threshold", THRESHOLDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", BOX_KINDS)
def test_nms_equals_torchvision_with_and_without_ties(kind, dtype, iou_threshold):
    rng = np.random.default_rng(40)
    boxes = BOX_KINDS[kind](rng, 2000).astype(dtype)
    assert_same(boxes, rng.random(2000).astype(dtype), iou_threshold)
    assert_same(boxes, (rng.integers(0, 8, 2000) / 8).astype(dtype), iou_threshold)


@pytest.mark.parametrize("iou_threshold", THRESHOLDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", WORST_CASES)
def test_nms_equals_torchvision_in_its_worst_cases(shape, dtype, iou_threshold):
    boxes = WORST_CASES[shape](3000).astype(dtype)
    assert_same(boxes, np.random.default_rng(41).random(3000).astype(dtype), iou_threshold)


@pytest.mark.parametrize("iou_threshold", [0.1, 0.5, 0.7])
@pytest.mark.parametrize("preset", PRESETS)
def test_nms_equals_torchvision_on_scenes(preset, iou_threshold):
    scene = make_scene(preset, 9000)
    assert_same(scene.boxes, scene.scores, iou_threshold)


def test_batched_nms_equals_torchvision_label_by_label():
    """The op moves the labels apart by offsets when boxes are few, which can round; label by label it does not."""
    scene = make_scene("aerial", 9000)
    tensors = [torch.from_numpy(array) for array in (scene.boxes, scene.scores, scene.labels)]
    expected = torchvision.ops.boxes._batched_nms_vanilla(*tensors, 0.6)
    assert np.array_equal(batched_nms(scene.boxes, scene.scores, scene.labels, 0.6), expected.numpy())


@pytest.mark.parametrize("file", real_images())
def test_nms_equals_torchvision_on_real_detections(file):
    image = np.load(file)
    for dtype in (np.float32, np.float64):
        boxes, scores = image["boxes"].astype(dtype), image["scores"].astype(dtype)
        for iou_threshold in (0.3, 0.5, 0.7):
            assert_same(boxes, scores, iou_threshold)
