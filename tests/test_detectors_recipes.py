"""The recipes of docs/howto/adapters.md for packages without an adapter, with the packages that are installed."""

import importlib
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")

from hashnms import nms  # noqa: E402
from hashnms.detectors import accelerate, acceleration, routed  # noqa: E402
from hashnms.synthetic import make_scene  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # of the packages


def imported(name):
    package = name.partition(".")[0]
    pytest.importorskip(package, reason=f"{package} is not installed: make recipes")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module(name)


def windows(count):
    """Predictions as DeepForest has them, some of the scores equal."""
    scene = make_scene("aerial", count)
    table = imported("pandas").DataFrame(scene.boxes, columns=["xmin", "ymin", "xmax", "ymax"])
    return table.assign(label=scene.labels, score=scene.scores.round(2), window_xmin=0, window_ymin=0)


@pytest.mark.parametrize("function", ["mosiac", "across_class_nms"])
def test_routed_answers_what_deepforest_does_across_windows_and_classes(function):
    suppress = getattr(imported("deepforest.predict"), function)
    expected = suppress(windows(3000), 0.15)
    with routed() as calls:
        found = suppress(windows(3000), 0.15)
    assert found.equals(expected)
    assert (calls.answered, calls.passed) == (1, 0)


def test_deepforests_detector_is_one_of_torchvision(monkeypatch):
    detection = imported("torchvision").models.detection
    make = detection.retinanet_resnet50_fpn
    monkeypatch.setattr(
        detection, "retinanet_resnet50_fpn", lambda weights: make(weights=weights, weights_backbone=None)
    )
    model = imported("deepforest.models.retinanet").RetinaNetHub(score_thresh=0.0, nms_thresh=0.3, min_size=200).eval()
    image = torch.rand(3, 200, 200, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        (expected,) = model([image])
        with routed() as calls:
            (found,) = model([image])
        accelerate(model)
        (accelerated,) = model([image])
    assert calls.answered == 1
    assert list(acceleration(model)) == ["postprocess_detections"]
    for name, values in expected.items():
        assert torch.equal(values, found[name])
        assert torch.equal(values, accelerated[name])


@pytest.mark.parametrize("iou_threshold", [0.1, 0.5, 0.7])
def test_nms_is_monais_for_boxes_in_two_dimensions(iou_threshold):
    box_utils = imported("monai.data.box_utils")
    scene = make_scene("crowd", 1000)
    boxes, scores, labels = map(torch.from_numpy, (scene.boxes, scene.scores.round(2), scene.labels))
    alone, grouped = box_utils.non_max_suppression, box_utils.batched_nms
    assert torch.equal(nms(boxes, scores, iou_threshold), alone(boxes, scores, iou_threshold))
    assert torch.equal(nms(boxes, scores, iou_threshold, max_output=50), alone(boxes, scores, iou_threshold, 50))
    assert torch.equal(nms(boxes, scores, iou_threshold, labels=labels), grouped(boxes, scores, labels, iou_threshold))
    assert np.array_equal(nms(scene.boxes, scene.scores, 0.5), alone(scene.boxes, scene.scores, 0.5))


@pytest.mark.parametrize("iou_threshold", [0.3, 0.5, 0.7])
def test_inclusive_nms_is_that_of_kerashub(iou_threshold, monkeypatch):
    """Where scores tie, the later row comes first there. A box of zeros is none there."""
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    layer = imported("keras_hub.src.layers.modeling.non_max_supression")
    scene = make_scene("crowd", 2000)
    boxes, scores = np.maximum(scene.boxes, 0.01), scene.scores.round(2)
    boxes[:2] = [[10_000, 0, 10_002, 2], [10_000, 0, 10_002, 4]]  # IoU 0.5
    given = [imported("keras").ops.convert_to_tensor(values[None]) for values in (boxes, scores)]
    rows, counts = layer.non_max_suppression(*given, len(boxes), iou_threshold, 0.055)
    expected = rows[0, : int(counts[0])].cpu().numpy()
    found = nms(boxes[::-1], scores[::-1], iou_threshold, inclusive=True, score_threshold=0.055)
    assert np.array_equal(len(boxes) - 1 - found, expected)
