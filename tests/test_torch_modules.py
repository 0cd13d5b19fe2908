"""HNMS as modules, with the signatures of the paper's own code."""

import copy
import pickle

import numpy as np
import pytest

import hashnms
from hashnms import reference
from hashnms.synthetic import make_scene

torch = pytest.importorskip("torch")

from hashnms.torch import HNMS, MultiHNMS  # noqa: E402
from tests.support.tensors import one_graph  # noqa: E402


def scene_tensors(count=1500):
    scene = make_scene("crowd", count)
    corner, size = scene.boxes[:, :2], scene.boxes[:, 2:] - scene.boxes[:, :2]
    return torch.from_numpy(np.concatenate([corner + size / 2, size], axis=1)), torch.from_numpy(scene.scores)


def test_multi_hnms_is_hnms_of_centre_and_size():
    rects, conf = scene_tensors()
    for num in (1, 2, 4):
        keep = MultiHNMS(num, 0.7)(rects, conf)
        assert torch.equal(keep, hashnms.hnms(rects, conf, alpha=0.7, num_hashes=num, box_format="cxcywh"))


@pytest.mark.parametrize(
    "parameters", [{}, {"bx": 0, "by": 0}, {"w0": 2, "h0": 3.5}, {"w0": 1.3, "h0": 1.3, "bx": 0.25, "by": -0.75}]
)
@pytest.mark.parametrize(("dtype", "labelled"), [("float32", False), ("float64", True)])
def test_hnms_keeps_the_best_of_each_code(parameters, dtype, labelled):
    rects, conf = (tensor.to(getattr(torch, dtype)) for tensor in scene_tensors(600))
    rects[::50, 2] = 0  # without area
    conf = (conf * 20).round() / 20  # ties
    labels = torch.arange(len(rects)) % 3 if labelled else None
    keep = HNMS(0.6, **parameters)(rects, conf, labels)
    function = {"w0": 1.0, "h0": 1.0, "bx": 0.5, "by": 0.5, **parameters}
    codes = reference.iou_hash(rects.numpy(), alpha=0.6, **function, box_format="cxcywh")
    best: dict[tuple[object, ...], int] = {}
    for row in sorted(range(len(rects)), key=lambda row: (-conf[row].item(), row)):
        key = ("none", row) if rects[row, 2] == 0 else (*codes[row], 0 if labels is None else labels[row].item())
        best.setdefault(key, row)
    assert keep.tolist() == list(best.values())


def test_hnms_keeps_what_the_first_of_the_family_keeps():
    rects, conf = scene_tensors()
    assert torch.equal(HNMS(0.7, bx=0, by=0)(rects, conf), MultiHNMS(1, 0.7)(rects, conf))


@one_graph
def test_modules_compile():
    rects, conf = scene_tensors()
    for kind in (MultiHNMS(2, 0.7), HNMS(0.7, w0=2)):
        torch.compiler.reset()
        assert torch.equal(torch.compile(kind, fullgraph=True, backend="eager")(rects, conf), kind(rects, conf))


def test_modules_are_copied_pickled_and_shown():
    rects, conf = scene_tensors(300)
    for module in (MultiHNMS(2, 0.7), HNMS(0.7, 1.0, 2.0)):
        assert not list(module.parameters())
        assert not module.state_dict()
        for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
            assert repr(other) == repr(module)
            assert torch.equal(other(rects, conf), module(rects, conf))
    assert repr(MultiHNMS(2, 0.7)) == "MultiHNMS(num=2, alpha=0.7, box_format='cxcywh')"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MultiHNMS(0, 0.7), "num_hashes must be at least 1"),
        (lambda: MultiHNMS(1, 1.0), r"alpha must be in \(0, 1\)"),
        (lambda: HNMS(0.7, w0=0), "w0 must be finite and above 0"),
        (lambda: HNMS(0.7, box_format="no"), "box_format must be one of"),
    ],
)
def test_bad_parameters_are_refused_at_once(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_bad_boxes_get_one_clear_error():
    rects, conf = scene_tensors(10)
    rects[3, 2] = -1
    for module in (MultiHNMS(1, 0.7), HNMS(0.7)):
        with pytest.raises(ValueError, match=r"boxes must have width >= 0 and height >= 0.*in row 3"):
            module(rects, conf)
        with pytest.raises(ValueError, match="scores must be on the device of boxes, cpu, got meta"):
            module(rects.abs(), conf.to("meta"))
        with pytest.raises(ValueError, match="scores must be finite"):
            module(rects.abs(), conf.log() * torch.inf)
