"""One pass of a detector gives what its own suppression would have been given."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")

from experiments.configurations import CONFIGURATIONS  # noqa: E402
from experiments.datasets import load  # noqa: E402
from experiments.detectors import make_detector  # noqa: E402
from experiments.measure import Plan, Setting, _final, _left, left_by_any  # noqa: E402
from experiments.methods import detections, proposals  # noqa: E402
from experiments.network import raw_of  # noqa: E402
from hashnms.detectors import accelerated  # noqa: E402


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    from experiments.generate import generate  # noqa: PLC0415

    root = generate("carpk", tmp_path_factory.mktemp("lots") / "lots", images=2, size=(300, 200))
    return load("carpk", root, "test").images[0]


def detector(name, score_threshold=0.0):
    """With fresh weights, whose heads say much of everything."""
    torch.manual_seed(1)
    model = make_detector(CONFIGURATIONS[name]).eval()
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
    assert len(found[0]) == len(expected[0]) > 50
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-4)
    np.testing.assert_array_equal(found[2], expected[2])
    np.testing.assert_allclose(found[0], expected[0], atol=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2])  # NMS, HNMS with one hash
def test_proposals_and_second_stage_give_the_detections_of_the_model(number, image):
    name = "faster_rcnn-carpk-tiny"
    model, suppressing = detector(name), CONFIGURATIONS[name].suppressing
    method = proposals(0.7, 0.7)[number]
    cut = f"top:{suppressing.kept_of_level}+limit:{suppressing.kept_in_all}"
    expected = of_model(model, image, {"proposals": f"top:9000+{method.suppression}+{cut}"})
    plan = Plan("", [Setting(method, 9000)], suppressing, of_proposals=True)
    raw = raw_of(model, image)
    assert raw.second.seen.all()
    assert_same(of_raw(raw, plan), expected)
    chosen = raw_of(model, image, choose=lambda raw: left_by_any(raw, [plan]))
    assert chosen.second.seen.sum() < len(chosen.boxes)
    assert_same(of_raw(chosen, plan), expected)
    assert "filter_proposals" not in vars(model.rpn)


@pytest.mark.slow
def test_boxes_of_a_one_stage_detector_give_its_detections(image):
    name = "retinanet-carpk-tiny"
    model, suppressing = detector(name), CONFIGURATIONS[name].suppressing
    method = detections(0.73, 0.5)[2]  # HNMS before NMS
    model.topk_candidates = 2 * 9000  # there is no class 0, but to torchvision it counts
    of_both = of_model(model, image, {"final": f"{method.suppression}+limit:9000"})
    expected = [values[of_both[2] == 1] for values in of_both]
    model.topk_candidates = 9000
    raw = raw_of(model, image)
    assert set(raw.labels) == {1}
    found = of_raw(raw, Plan("", [Setting(method, 9000)], suppressing, of_proposals=False))
    assert_same(found, [values[:1000] for values in expected])
    assert raw.network_ms > 0
    assert raw.second is None


def test_the_ground_truth_is_scaled_with_the_image(image):
    raw = raw_of(detector("retinanet-carpk-tiny"), image)
    np.testing.assert_allclose(raw.truth.boxes, image.boxes * (128 / 200), rtol=0.01, atol=0.5)
    np.testing.assert_array_equal(raw.truth.labels, image.labels)
