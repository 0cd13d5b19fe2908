"""Exact NMS against torchvision's own CPU op, which it is to equal in every index."""

import numpy as np
import pytest

from hashnms import batched_nms, nms
from hashnms.synthetic import PRESETS, make_scene
from tests.support.boxes import BOX_KINDS, THRESHOLDS, real_images

torch = pytest.importorskip("torch")
torchvision = pytest.importorskip("torchvision")


def assert_same(boxes, scores, iou_threshold):
    expected = torchvision.ops.nms(torch.from_numpy(boxes), torch.from_numpy(scores), iou_threshold)
    assert np.array_equal(nms(boxes, scores, iou_threshold), expected.numpy())


@pytest.mark.parametrize("kind", BOX_KINDS)
def test_nms_equals_torchvision_with_and_without_ties(kind):
    """So the reference, which other tests compare with at every threshold, is torchvision's op, too."""
    rng = np.random.default_rng(40)
    boxes, scores, tied = BOX_KINDS[kind](rng, 2000), rng.random(2000), rng.integers(0, 8, 2000) / 8
    for iou_threshold in THRESHOLDS:
        assert_same(boxes.astype(np.float32), scores.astype(np.float32), iou_threshold)
        assert_same(boxes, tied, iou_threshold)


@pytest.mark.parametrize("preset", PRESETS)
def test_nms_equals_torchvision_on_scenes(preset):
    scene = make_scene(preset, 9000)
    for iou_threshold in (0.1, 0.5, 0.7):
        assert_same(scene.boxes, scene.scores, iou_threshold)


def test_batched_nms_equals_torchvision_label_by_label():
    """The op moves the labels apart by offsets when boxes are few, which can round; label by label it does not."""
    scene = make_scene("aerial", 9000)
    tensors = [torch.from_numpy(array) for array in (scene.boxes, scene.scores, scene.labels)]
    expected = torchvision.ops.boxes._batched_nms_vanilla(*tensors, 0.6)
    assert np.array_equal(batched_nms(scene.boxes, scene.scores, scene.labels, 0.6), expected.numpy())


@pytest.mark.slow
@pytest.mark.parametrize("file", real_images(max_images=1))
def test_nms_equals_torchvision_on_real_detections(file):
    """All of an image once; its first boxes in both types and at more thresholds."""
    with np.load(file) as image:
        boxes, scores = image["boxes"], image["scores"]
    assert_same(boxes, scores, 0.5)
    for dtype in (np.float32, np.float64):
        for iou_threshold in (0.3, 0.7):
            assert_same(boxes[:9000].astype(dtype), scores[:9000].astype(dtype), iou_threshold)
