"""A detector's NMS replaced by hashnms and restored: with the same results, completely and safely."""

import copy
import io
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import pytest

from hashnms import Suppression

torch = pytest.importorskip("torch")
torchvision = pytest.importorskip("torchvision")

from torchvision.models.detection.roi_heads import RoIHeads  # noqa: E402
from torchvision.models.detection.rpn import RegionProposalNetwork  # noqa: E402

from hashnms.detectors import accelerate, accelerated, acceleration, restore  # noqa: E402
from hashnms.detectors.torchvision import PLACES  # noqa: E402
from tests.support.small_detectors import ONE_STAGE, TWO_STAGE, detections, detector, same  # noqa: E402

pytestmark = pytest.mark.slow  # whole models run
EVERY = TWO_STAGE + ONE_STAGE
PAPER_RPN = Suppression.parse("top:300+hnms:0.7/1+top:60+limit:100")
UNREADABLE = "proposals must be a suppression such as .*: a step must be .*, got 'nsm'\n.*nsm:0.5\n *\\^\\^\\^$"
PAPER_ONE_STAGE = Suppression.parse("top:400+hnms:0.73/1+nms:0.5+limit:50")


@pytest.mark.parametrize("name", EVERY)
def test_restore_is_exact(name):
    model = detector(name)
    before = [(module, type(module), dict(vars(module))) for module in model.modules()]
    assert accelerate(model, final=PAPER_ONE_STAGE) is model
    assert any(place.method in vars(module) for module in model.modules() for place in PLACES)
    assert restore(model) is model
    for module, kind, attributes in before:
        assert type(module) is kind
        assert vars(module) == attributes
    assert restore(model) is model  # twice is once


def test_the_state_dict_and_the_ways_to_copy_a_model_are_untouched():
    model = copy.deepcopy(detector("RetinaNet"))
    keys = list(model.state_dict())
    accelerate(model, final=PAPER_ONE_STAGE)
    expected = detections(model)
    assert list(model.state_dict()) == keys
    copied = copy.deepcopy(model)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    restore(model)
    for other in (copied, loaded):  # each works on itself, not on the model it was made from
        assert same(detections(other), expected)
        assert acceleration(other) == {"postprocess_detections": f"{PAPER_ONE_STAGE} by hashnms"}
        other.detections_per_img = 2
        assert [len(result["boxes"]) for result in detections(accelerate(other))] == [2, 2]
        assert vars(other)["postprocess_detections"].module is other
        assert "exact NMS by hashnms" in repr(other)
        assert same(detections(restore(other)), [{k: v[:2] for k, v in r.items()} for r in detections(model)])


def test_a_notation_is_as_good_as_its_suppression():
    model = detector("Faster R-CNN")
    with accelerated(model, proposals=PAPER_RPN, final=PAPER_ONE_STAGE):
        expected = detections(model)
    with accelerated(model, proposals=str(PAPER_RPN), final=str(PAPER_ONE_STAGE)):
        assert same(detections(model), expected)
        assert vars(model.rpn)["filter_proposals"].replacement.suppression == Suppression(PAPER_RPN.steps[1:])


def test_a_model_shows_what_suppresses_its_boxes():
    model = detector("Faster R-CNN")
    rpn, heads = "rpn.filter_proposals", "roi_heads.postprocess_detections"
    plain = repr(model)
    assert acceleration(model) == {rpn: "torchvision's own", heads: "torchvision's own"}
    with accelerated(model, proposals=PAPER_RPN):
        assert acceleration(model) == {rpn: f"{PAPER_RPN} by hashnms", heads: "exact NMS by hashnms"}
        lines = [line.strip() for line in repr(model).splitlines() if "hashnms" in line]
        assert lines == [f"filter_proposals: {PAPER_RPN} by hashnms", "postprocess_detections: exact NMS by hashnms"]
        assert list(acceleration(torch.nn.Sequential(model))) == [f"0.{rpn}", f"0.{heads}"]
    assert repr(model) == plain
    patched = copy.deepcopy(model)
    patched.rpn.filter_proposals = lambda *_: []
    assert acceleration(patched) == {rpn: "another function", heads: "torchvision's own"}
    assert acceleration(torch.nn.Linear(2, 2)) == {}
    with pytest.raises(TypeError, match=r"model must be a torch.nn.Module, got str"):
        acceleration("model")


class _OwnRepr(RegionProposalNetwork):
    def extra_repr(self):
        return "mine"


def test_what_a_model_says_of_itself_stays():
    model = copy.deepcopy(detector("Faster R-CNN"))
    model.rpn.__class__ = _OwnRepr
    assert "(rpn): _OwnRepr(\n    mine\n    filter_proposals: exact NMS by hashnms\n" in repr(accelerate(model))
    assert "(rpn): _OwnRepr(\n    mine\n    (anchor_generator)" in repr(restore(model))


def test_blocks_can_be_nested_and_left_by_an_error():
    model = detector("RetinaNet")
    stock = detections(model)

    def limited(limit):
        return accelerated(model, final=Suppression.parse(f"nms:0.5+limit:{limit}"))

    with limited(9):
        with suppress(KeyError), limited(4) as inner:
            assert inner is model
            assert len(detections(model)[0]["boxes"]) == 4
            raise KeyError
        assert len(detections(model)[0]["boxes"]) == 9
        accelerate(model, final=Suppression.parse("nms:0.5+limit:6"))
        assert len(detections(model)[0]["boxes"]) == 6
    assert same(detections(model), stock)
    with limited(9):
        restore(model)
        assert same(detections(model), stock)
    assert same(detections(model), stock)


def test_two_models_with_different_settings_work_at_the_same_time():
    models = [detector("RetinaNet", 0), detector("RetinaNet", 1), detector("Faster R-CNN", 0)]
    settings = [
        {"final": PAPER_ONE_STAGE},
        {"final": Suppression.parse("nms:0.3+limit:7")},
        {"proposals": Suppression.parse("hnms:0.5/2"), "final": Suppression.parse("softnms")},
    ]

    def run(job):
        with accelerated(models[job], **settings[job]):
            return [detections(models[job]) for _ in range(2)]

    expected = [run(job)[0] for job in range(3)]
    with ThreadPoolExecutor(3) as pool:
        for job, results in enumerate(pool.map(run, range(3))):
            assert all(same(result, expected[job]) for result in results)


def test_nothing_of_torchvision_is_changed():
    classes = [place.kind for place in PLACES]
    before = [dict(vars(torchvision.ops)), dict(vars(torchvision.ops.boxes)), *(dict(vars(c)) for c in classes)]
    model = detector("Faster R-CNN")
    with accelerated(model, proposals=PAPER_RPN):
        detections(model)
        during = [dict(vars(torchvision.ops)), dict(vars(torchvision.ops.boxes)), *(dict(vars(c)) for c in classes)]
    assert during == before


@pytest.mark.filterwarnings("ignore:.create_unbacked_symint:FutureWarning")  # within torchvision
@pytest.mark.usefixtures("without_offsets")
@pytest.mark.parametrize("name", ["Faster R-CNN", "RetinaNet"])
def test_it_works_under_compile_also_when_switched_after_compiling(name):
    torch._dynamo.reset()
    model = detector(name)
    stock = detections(model)
    compiled = torch.compile(model, backend="eager")
    try:
        with accelerated(model):
            assert same(detections(compiled), stock)
        if name == "Faster R-CNN":
            with accelerated(compiled, final=Suppression.parse("nms:0.5+limit:5")):
                assert [len(result["boxes"]) for result in detections(compiled)] == [5, 5]
            assert same(detections(compiled), stock)
    finally:
        torch._dynamo.reset()


class _OwnRpn(RegionProposalNetwork):
    def filter_proposals(self, *args):
        return super().filter_proposals(*args)


class _OwnTopN(RegionProposalNetwork):
    def _get_top_n_idx(self, *args):
        return super()._get_top_n_idx(*args)


def test_methods_that_were_patched_into_torchvision_are_refused(monkeypatch):
    model = detector("RetinaNet")
    monkeypatch.setattr(type(model), "postprocess_detections", lambda *_: [])
    with pytest.raises(ValueError, match=r"own RetinaNet.postprocess_detections, got another in this RetinaNet"):
        accelerate(model)


def test_wrong_arguments_are_refused_and_change_nothing():
    model = detector("Faster R-CNN")
    before = dict(vars(model.rpn))
    own = copy.deepcopy(model)
    own.rpn.__class__ = _OwnRpn
    own_helper = copy.deepcopy(model)
    own_helper.rpn.__class__ = _OwnTopN
    patched = copy.deepcopy(model)
    patched.roi_heads.postprocess_detections = partial(RoIHeads.postprocess_detections, patched.roi_heads)
    without_nms = Suppression.parse("top:9+limit:3")
    cases = [
        (TypeError, "model must be a torch.nn.Module, got str", ("model",), {}),
        (TypeError, "model must be a torch.nn.Module, got the class Linear", (torch.nn.Linear,), {}),
        (ValueError, "final must have a step hnms, .* got top:9\\+limit:3", (model,), {"final": without_nms}),
        (ValueError, "one of torchvision's Faster R-CNN, .* SSD, got Linear.*routed", (torch.nn.Linear(2, 2),), {}),
        (TypeError, "final must be None, a Suppression or its notation such as .*, got 0.5", (model,), {"final": 0.5}),
        (
            ValueError,
            "final must have steps that do not change boxes, .* got nmm:0.5",
            (model,),
            {"final": "nmm:0.5"},
        ),
        (ValueError, "final must have a step hnms, .* got limit:3", (model,), {"final": "limit:3"}),
        (ValueError, UNREADABLE, (model,), {"proposals": "hnms:0.7/1+nsm:0.5"}),
        (
            ValueError,
            "no RPN, got top:300.* for RetinaNet: use final",
            (detector("RetinaNet"),),
            {"proposals": PAPER_RPN},
        ),
        (ValueError, "own RegionProposalNetwork.filter_proposals, got another in this _OwnRpn.*routed", (own,), {}),
        (ValueError, "own RegionProposalNetwork._get_top_n_idx, got another in this _OwnTopN", (own_helper,), {}),
        (ValueError, "own RoIHeads.postprocess_detections, got another in this RoIHeads", (patched,), {}),
    ]
    for kind, message, args, settings in cases:
        with pytest.raises(kind, match=message):
            accelerate(*args, **settings)
        with pytest.raises(kind, match=message), accelerated(*args, **settings):
            pass
    with pytest.raises(TypeError, match="model must be"):
        restore("model")
    assert vars(model.rpn) == before
    assert "filter_proposals" not in vars(patched.rpn)
    assert isinstance(patched.roi_heads.postprocess_detections, partial)
    assert len(detections(restore(patched))) == 2
    assert "postprocess_detections" in vars(patched.roi_heads)  # it is not ours


def test_boxes_that_are_not_numbers_are_an_error_that_names_them():
    model = copy.deepcopy(detector("RetinaNet"))
    with torch.no_grad():
        model.head.regression_head.bbox_reg.bias += torch.nan
    with pytest.raises(ValueError, match="boxes must be finite"):
        detections(accelerate(model))


def test_without_torchvision_the_error_says_what_to_install():
    code = "import sys; sys.modules['torchvision'] = None; from hashnms.detectors import accelerate"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1] == (
        'ImportError: hashnms.detectors needs torchvision: pip install "hashnms[detectors]"'
    )
