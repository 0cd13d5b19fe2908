"""One pass of a detector gives the input of its own suppression."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")

from torchvision.models import resnet18  # noqa: E402

from experiments.configurations import CONFIGURATIONS  # noqa: E402
from experiments.datasets import load  # noqa: E402
from experiments.detectors import make_detector  # noqa: E402
from experiments.generate import generate  # noqa: E402
from experiments.measure import Plan, Setting, _final, _left, left_by_any  # noqa: E402
from experiments.methods import detections, proposals  # noqa: E402
from experiments.network import raw_of  # noqa: E402
from hashnms.detectors import accelerated  # noqa: E402


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """Its sides are scaled by different factors: 300 x 201 pixels become 191 x 128."""
    root = generate("carpk", tmp_path_factory.mktemp("lots") / "lots", images=2, size=(300, 201))
    return load("carpk", root, "test").images[0]


def detector(name, num_classes=1, score_threshold=0.0):
    """With random weights, whose heads give many boxes of every class."""
    torch.manual_seed(1)
    model = make_detector(replace(CONFIGURATIONS[name], num_classes=num_classes)).eval()
    for parameter_name, parameter in model.named_parameters():
        if "bbox" in parameter_name or "cls" in parameter_name:
            torch.nn.init.normal_(parameter, std=0.05)
    if hasattr(model, "roi_heads"):
        model.roi_heads.score_thresh = score_threshold
    return model


def of_model(model, image, suppression):
    pixels = torch.from_numpy(image.pixels().copy()).permute(2, 0, 1).float() / 255
    with torch.inference_mode(), accelerated(model, **suppression):
        found = model([pixels])[0]
    size = model.transform([pixels])[0].image_sizes[0]
    scale = np.array([size[1] / pixels.shape[2], size[0] / pixels.shape[1]] * 2)
    return found["boxes"].numpy() * scale, found["scores"].numpy(), found["labels"].numpy()


def of_raw(raw, plan):
    left, scores, _ = _left(raw, plan, plan.settings[0], raw.best(plan.settings[0].candidates))
    found = dict(_final(raw, plan, left, scores))
    return found["boxes"], found["scores"], found["labels"]


def assert_same(found, expected):
    """Label by label: the last bit of a score, and with it the order of near ties, depends on its place in a tensor."""
    assert len(found[0]) == len(expected[0]) > 50
    for label in np.unique(expected[2]):
        (boxes, scores), (wanted_boxes, wanted_scores) = (
            [values[labels == label] for values in (boxes, scores)] for boxes, scores, labels in (found, expected)
        )
        np.testing.assert_allclose(scores, wanted_scores, rtol=1e-4)
        np.testing.assert_allclose(boxes, wanted_boxes, atol=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "num_classes"), [(1, 1), (2, 3)])  # NMS, HNMS with one hash
def test_proposals_and_second_stage_give_the_detections_of_the_model(number, num_classes, image):
    name = "faster_rcnn-carpk-tiny"
    model, suppressing = detector(name, num_classes), CONFIGURATIONS[name].suppressing
    method = proposals(0.7, 0.7)[number]
    cut = f"top:{suppressing.kept_of_level}+limit:{suppressing.kept_in_all}"
    expected = of_model(model, image, {"proposals": f"top:9000+{method.suppression}+{cut}"})
    plan = Plan("", [Setting(method, 9000)], suppressing, of_proposals=True)
    raw = raw_of(model, image)
    assert raw.second.seen.all()
    assert_same(of_raw(raw, plan), expected)
    assert set(expected[2]) == set(range(1, num_classes + 1))
    chosen = raw_of(model, image, choose=lambda raw: left_by_any(raw, [plan]))
    assert chosen.second.seen.sum() < len(chosen.boxes)
    assert_same(of_raw(chosen, plan), expected)
    assert "filter_proposals" not in vars(model.rpn)


@pytest.mark.slow
def test_boxes_of_a_one_stage_detector_give_its_detections(image):
    name = "retinanet-carpk-tiny"
    model, suppressing = detector(name, num_classes=2), CONFIGURATIONS[name].suppressing
    method = detections(0.73, 0.5)[2]  # HNMS before NMS
    model.topk_candidates = 10**6  # there is no class 0, but torchvision counts it
    of_all = of_model(model, image, {"final": f"{method.suppression}+limit:1000000"})
    expected = [values[of_all[2] > 0] for values in of_all]
    raw = raw_of(model, image)
    assert set(raw.labels) == {1, 2}
    found = of_raw(raw, Plan("", [Setting(method, 10**6)], suppressing, of_proposals=False))
    assert_same(found, [values[:1000] for values in expected])
    assert raw.network_ms > 0
    assert raw.second is None


def test_the_ground_truth_is_scaled_with_the_image(image):
    raw = raw_of(detector("retinanet-carpk-tiny"), image)
    scale = np.array([191 / 300, 128 / 201] * 2)
    np.testing.assert_allclose(raw.truth.boxes, image.boxes * scale, atol=1e-3)
    np.testing.assert_array_equal(raw.truth.labels, image.labels)


def test_objects_that_are_not_in_the_image_are_left_out(image):
    outside = np.concatenate([image.boxes[:2], np.float32([[-20, 5, -10, 15], [310, 5, 330, 9]])])
    moved = replace(image, boxes=outside, labels=np.ones(4, np.int64), ignore=np.zeros(4, bool))
    assert len(raw_of(detector("retinanet-carpk-tiny"), moved).truth.boxes) == 2


def test_weights_of_a_backbone_are_loaded_from_arrays_and_files_of_torch(tmp_path):
    configuration = replace(CONFIGURATIONS["retinanet-carpk-tiny"], backbone="resnet18")
    torch.manual_seed(2)
    body = {name: value for name, value in resnet18().state_dict().items() if not name.endswith("num_batches_tracked")}
    arrays = {name: value.numpy() for name, value in body.items() if not name.startswith("fc.")}
    np.savez(tmp_path / "body.npz", **arrays)
    torch.save(body, tmp_path / "body.pth")
    for file in ("body.npz", "body.pth"):
        model = make_detector(configuration, tmp_path / file)
        torch.testing.assert_close(model.backbone.body.layer3[0].conv1.weight, body["layer3.0.conv1.weight"])
    np.savez(tmp_path / "other.npz", weight=np.zeros(3))
    with pytest.raises(ValueError, match=r"the weights of a torchvision ResNet of this size, got \d+ missing"):
        make_detector(configuration, tmp_path / "other.npz")


def test_the_original_resnet_has_its_strides_in_the_first_convolutions():
    body = make_detector(CONFIGURATIONS["retinanet-carpk-cpu"]).backbone.body
    for stage in (body.layer2, body.layer4):
        assert (stage[0].conv1.stride, stage[0].conv2.stride) == ((2, 2), (1, 1))
    body = make_detector(CONFIGURATIONS["retinanet-carpk"]).backbone.body
    assert body.layer2[0].conv1.stride == (1, 1)
