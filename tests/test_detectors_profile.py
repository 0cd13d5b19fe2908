"""Where the time of a forward pass goes."""

import copy

import pytest
from typer.testing import CliRunner

from hashnms import Suppression
from hashnms.cli import app

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")

from hashnms.detectors import accelerate, accelerated, crowded, profile  # noqa: E402
from hashnms.detectors.profiling import _Stopwatch  # noqa: E402
from tests.support.small_detectors import ONE_STAGE, TWO_STAGE, detections, detector, images, same  # noqa: E402

pytestmark = pytest.mark.slow  # whole models run
PARTS = {
    "two-stage": ["transform", "backbone", "proposals", "suppress proposals", "head", "suppress detections", "rest"],
    "one-stage": ["transform", "backbone", "head", "candidates", "suppress detections", "rest"],
}


@pytest.mark.parametrize("name", TWO_STAGE + ONE_STAGE)
def test_the_parts_are_those_of_the_model_and_add_up(name):
    result = profile(detector(name), images(), rounds=1)
    assert [part.name for part in result.parts] == PARTS["two-stage" if name in TWO_STAGE else "one-stage"]
    for part in result.parts:
        assert part.torchvision.seconds > 0
        assert part.hashnms.seconds > 0
        assert part.torchvision.boxes_in == part.hashnms.boxes_in  # exact NMS is what is swapped in
        assert part.torchvision.boxes_out == part.hashnms.boxes_out
        assert (part.torchvision.boxes_in is not None) == part.name.startswith("suppress")
    assert result.hashnms_seconds == pytest.approx(sum(part.hashnms.seconds for part in result.parts))
    others = [part for part in result.parts if part.hashnms.boxes_in is None]
    same_others = sum(part.torchvision.seconds for part in others)
    suppressions = sum(part.hashnms.seconds for part in result.parts if part not in others)
    assert result.suppression_speed_up == pytest.approx(result.torchvision_seconds / (same_others + suppressions))
    lines = str(result).splitlines()
    assert all(any(line.strip().startswith(part.name) for line in lines) for part in result.parts)
    assert max(map(len, lines)) < 80


def test_boxes_are_counted_where_they_go_in_and_come_out():
    model = detector("Faster R-CNN")
    settings = {"proposals": "top:100+hnms:0.7/1+limit:40", "final": Suppression.parse("nms:0.5+limit:7")}
    result = profile(model, images(), rounds=1, **settings)
    parts = {part.name: part for part in result.parts}
    proposals = parts["suppress proposals"]
    assert proposals.torchvision.boxes_out == 2 * 200
    assert proposals.hashnms.boxes_out == 2 * 40
    assert proposals.hashnms.boxes_in < proposals.torchvision.boxes_in <= 2 * 5 * 900
    assert parts["suppress detections"].hashnms.boxes_out == 2 * 7
    assert parts["suppress detections"].torchvision.boxes_out == sum(len(r["boxes"]) for r in detections(model))
    assert "400 / 80" in str(result)


def test_the_model_is_left_as_it_was():
    model = detector("Faster R-CNN")
    before = [(module, dict(vars(module))) for module in model.modules()]
    hooks = [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()]
    profile(model, images(), rounds=1)
    assert all(vars(module) == attributes for module, attributes in before)
    with accelerated(model, final=Suppression.parse("nms:0.5+limit:3")):
        ours = detections(model)
        profile(torch.nn.Sequential(model), images(), rounds=1)
        assert same(detections(model), ours)
    with pytest.raises(RuntimeError):
        profile(model, [torch.zeros(3, 100, 100), torch.zeros(4, 100, 100)], rounds=1)
    assert all(vars(module) == attributes for module, attributes in before)
    assert [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()] == hooks


def test_a_watch_counts_each_moment_once(monkeypatch):
    now = iter([0.0, 1.0, 3.0, 7.0, 15.0, 31.0])
    monkeypatch.setattr("time.perf_counter", lambda: next(now))
    watch = _Stopwatch(torch.device("cpu"))
    with watch.part("outer"):
        with watch.part("inner"):
            pass
        with watch.part("inner"):
            pass
    assert dict(watch.seconds) == {"outer": 1 + 4 + 16, "inner": 2 + 8}


def test_wrong_arguments_are_refused():
    model = detector("RetinaNet")
    cases = [
        (ValueError, "model must be in eval mode, got one in training", (copy.deepcopy(model).train(), images()), {}),
        (TypeError, "images must be a list of .* tensors, got Tensor", (model, images()[0]), {}),
        (ValueError, "images must have at least one image, got none", (model, []), {}),
        (ValueError, "rounds must be", (model, images()), {"rounds": 0}),
        (TypeError, "final must be None, a Suppression or its notation", (model, images()), {"final": 0.5}),
        (ValueError, "final must be a suppression .*: a step must be", (model, images()), {"final": "nsm:0.5"}),
        (ValueError, "got Linear", (torch.nn.Linear(2, 2).eval(), images()), {}),
    ]
    for kind, message, args, settings in cases:
        with pytest.raises(kind, match=message):
            profile(*args, **settings)


def test_the_demo_shows_exact_nms_and_hnms(monkeypatch):
    monkeypatch.setattr(crowded, "crowded_faster_rcnn", lambda seed: (detector("Faster R-CNN", seed), images()))
    result = CliRunner().invoke(app, ["demo", "--detector"])
    assert result.exit_code == 0
    assert "exact NMS for proposals" in result.output
    assert "hnms:0.7/1 for proposals" in result.output
    assert result.output.count("suppress proposals ") == 2


def test_crowded_scores_spread_and_the_same_seed_makes_the_same_model():
    state = torch.random.get_rng_state()
    model, given = crowded.crowded_faster_rcnn(size=96, candidates=50, seed=1)
    again, _ = crowded.crowded_faster_rcnn(size=96, candidates=50, seed=1)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(map(torch.equal, model.state_dict().values(), again.state_dict().values()))
    with torch.no_grad():
        logits, deltas = model.rpn.head([model.backbone(model.transform(given)[0].tensors)["0"]])
    assert 1 < logits[0].std() < 4
    assert 0.1 < deltas[0].std() < 0.4
    assert accelerate(model) is model
