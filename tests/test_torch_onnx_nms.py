"""Exact NMS and suppressions in ONNX: onnxruntime gives the answer of the core, ties included."""

import re

import numpy as np
import pytest
from hypothesis import given, settings

import hashnms
from hashnms import Suppression
from hashnms.synthetic import make_scene
from tests.support.boxes import BOX_KINDS, boxes_and_scores

torch = pytest.importorskip("torch")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")
pytest.importorskip("onnxscript")

from onnx.reference import ReferenceEvaluator  # noqa: E402

from tests.support.onnx import Calling, exported, exported_by_trace, program_of, run  # noqa: E402

pytestmark = pytest.mark.slow  # the exporter is


def columns(rng, count):
    """Scores with many ties, labels and images."""
    scores = (rng.integers(-4, 40, count) / 40).astype(np.float32)
    return scores, rng.integers(-2, 4, count) * 10**12, rng.integers(0, 3, count)


def example(count=40):
    """Tensors to export with."""
    rng = np.random.default_rng(1)
    boxes = BOX_KINDS["random"](rng, count).astype(np.float32)
    return tuple(map(torch.from_numpy, (boxes, *columns(rng, count))))


def assert_same(results, expected):
    expected = expected if isinstance(expected, tuple) else (expected,)
    for result, wanted in zip(results, expected, strict=True):
        assert result.dtype == wanted.dtype
        assert np.array_equal(result, wanted)


#: By turns, so that each meets several thresholds.
SETTINGS = [
    {"iou_threshold": 0.0},
    {"iou_threshold": 0.1, "score_threshold": 0.1},
    {"iou_threshold": 1 / 3, "max_output": 40, "box_format": "xywh"},
    {"iou_threshold": 0.5, "inclusive": True, "box_format": "cxcywh"},
    {"iou_threshold": 0.7, "score_threshold": -2.0, "max_output": 0},
    {"iou_threshold": 1.0, "inclusive": True},
]


@pytest.mark.parametrize("given_settings", SETTINGS, ids=str)
def test_nms_is_that_of_the_core_on_every_kind_of_boxes(given_settings, tmp_path):
    def suppress(boxes, scores, labels, images):
        return (
            hashnms.nms(boxes, scores, **given_settings),
            hashnms.nms(boxes, scores, **given_settings, labels=labels),
            hashnms.nms(boxes, scores, **given_settings, labels=labels, images=images),
        )

    session = exported(Calling(suppress), example(), tmp_path / "nms.onnx")
    for make_boxes in BOX_KINDS.values():
        rng = np.random.default_rng(7)
        arrays = make_boxes(rng, 500).astype(np.float32), *columns(rng, 500)
        if given_settings.get("box_format", "xyxy") != "xyxy":
            arrays[0][:, 2:] -= arrays[0][:, :2]
        assert_same(run(session, *arrays), suppress(*arrays))


@pytest.fixture(scope="module")
def head(tmp_path_factory):
    """A model that has been exported once."""

    def suppress(boxes, scores):
        keep = hashnms.nms(boxes, scores, 0.45)
        return keep, boxes[keep], scores[keep]

    return exported(Calling(suppress), example()[:2], tmp_path_factory.mktemp("head") / "head.onnx")


@settings(max_examples=200, deadline=None)
@given(data=boxes_and_scores())
def test_any_boxes_any_ties(head, data):
    boxes, scores = (array.astype(np.float32) for array in data)
    keep = hashnms.nms(boxes, scores, 0.45)
    assert_same(run(head, boxes, scores), (keep, boxes[keep], scores[keep]))


@pytest.mark.parametrize("count", [5000, 2, 1, 0])
def test_any_number_of_boxes(head, count):
    scene = make_scene("crowd", 5000)
    boxes, scores = scene.boxes[:count], scene.scores[:count]
    keep = hashnms.nms(boxes, scores, 0.45)
    assert_same(run(head, boxes, scores), (keep, boxes[keep], scores[keep]))


def test_a_threshold_is_compared_as_a_double(tmp_path):
    """Below, at and above an IoU and a score, also where float32 would round the threshold to them."""
    third, tenth = float(np.float32(1 / 3)), float(np.float32(0.1))
    near = [value for at in (1 / 3, third) for value in (np.nextafter(at, 0), at, np.nextafter(at, 1))]
    near_scores = [np.nextafter(tenth, 0), tenth, np.nextafter(tenth, 1), 0.1, 1e300, -1e300]

    def suppress(boxes, scores, doubles):
        return (
            *(hashnms.nms(boxes, scores, at, inclusive=inclusive) for at in near for inclusive in (False, True)),
            *(hashnms.nms(boxes, scores, 0.9, score_threshold=at) for at in near_scores),
            *(hashnms.nms(boxes, doubles, 0.9, score_threshold=at) for at in near_scores[::3]),
        )

    boxes = np.array([[0, 0, 2, 1], [1, 0, 3, 1], [9, 9, 9, 9]], np.float32)  # an IoU of 1/3
    scores = np.array([0.1, 0.2, -0.5], np.float32)
    arrays = boxes, scores, scores.astype(np.float64)
    session = exported(Calling(suppress), tuple(map(torch.from_numpy, arrays)), tmp_path / "near.onnx")
    assert_same(run(session, *arrays), suppress(*arrays))


#: Chain -> what boxes have in addition to scores.
CHAINS = {
    "score:0.1+top:20+hnms:0.73/1+nms:0.5+limit:15": ("labels", "images"),
    "nms:0.3/iou/inclusive+top:3+score:0.4": ("labels",),
    "limit:30+hnms:0.6/2": ("images",),
    "top:30+nms:0.1": (),
}
EXPORTERS = pytest.mark.parametrize(
    "export", [exported, lambda module, tensors, _: exported_by_trace(module, tensors)], ids=["dynamo", "trace"]
)


@EXPORTERS
@pytest.mark.parametrize("notation", CHAINS)
def test_suppressions_are_those_of_the_core(notation, export, tmp_path):
    chain, groups = Suppression.parse(notation), CHAINS[notation]

    def suppress(boxes, scores, *values):
        return chain(boxes, scores, **dict(zip(groups, values, strict=True)))

    def used(boxes, scores, labels, images):
        return boxes, scores, *({"labels": labels, "images": images}[name] for name in groups)

    session = export(Calling(suppress), used(*example()), tmp_path / "chain.onnx")
    for kind in ("duplicated", "huge and tiny", "integers"):
        for count in (400, 1, 0):
            rng = np.random.default_rng(9)
            arrays = used(BOX_KINDS[kind](rng, count).astype(np.float32), *columns(rng, count))
            assert_same(run(session, *arrays), tuple(suppress(*arrays)))


@EXPORTERS
def test_images_groups_and_numbers_of_other_types(export, tmp_path):
    def suppress(boxes, scores, labels, images):
        return (
            hashnms.hnms(boxes, scores, labels=labels, images=images),
            hashnms.hnms(boxes, scores, images=images),
            hashnms.nms(boxes, scores, 0.3, images=images, max_output=5),
            hashnms.batched_nms(boxes, scores, labels, 0.3),
        )

    rng = np.random.default_rng(3)
    boxes = np.rint(BOX_KINDS["random"](rng, 300)).astype(np.int16)
    scores, labels, images = columns(rng, 300)
    arrays = boxes, scores.astype(np.float64) / 3, (labels // 10**12).astype(np.float32), images.astype(np.uint8)
    session = export(Calling(suppress), tuple(map(torch.from_numpy, arrays)), tmp_path / "types.onnx")
    assert_same(run(session, *arrays), suppress(*arrays))
    halves = boxes.astype(np.float16), scores.astype(np.float16), *arrays[2:]
    session = export(Calling(suppress), tuple(map(torch.from_numpy, halves)), tmp_path / "halves.onnx")
    assert_same(run(session, *halves), suppress(*halves))


def test_another_runtime_gives_the_same_answer():
    """ONNX's reference, in Python. It does not define the order of ties, and sorts selected boxes by label."""

    def suppress(boxes, scores, labels):
        return hashnms.nms(boxes, scores, 0.3, labels=labels), hashnms.nms(boxes, scores, 0.3)

    program = program_of(Calling(suppress), example()[:3])
    operators = [node.op_type for node in program.model.graph]
    assert operators.count("NonMaxSuppression") == 2
    assert operators.count("NonZero") == 3  # labels, and twice what is kept
    evaluator = ReferenceEvaluator(program.model_proto)
    arrays = [tensor.numpy() for tensor in example(30)[:3]]
    assert_same(evaluator.run(None, dict(zip(evaluator.input_names, arrays, strict=True))), suppress(*arrays))


WHAT_EXPORTS = "a Suppression of top, score, hnms, nms and limit"
REFUSED = {
    "soft_nms": (hashnms.soft_nms, WHAT_EXPORTS),
    "nms with return_suppressor=True": (
        lambda boxes, scores: hashnms.nms(boxes, scores, return_suppressor=True),
        WHAT_EXPORTS,
    ),
    "nms with metric='ios'": (lambda boxes, scores: hashnms.nms(boxes, scores, metric="ios"), WHAT_EXPORTS),
    "nmm and vote": (lambda boxes, scores: hashnms.nmm(boxes, scores).boxes, WHAT_EXPORTS),
    "merge": (lambda boxes, scores: hashnms.merge(boxes, scores, torch.arange(5)).boxes, WHAT_EXPORTS),
    "weighted_boxes_fusion": (lambda boxes, scores: hashnms.weighted_boxes_fusion(boxes, scores).boxes, WHAT_EXPORTS),
    "the step softnms:gaussian/0.5": (Suppression.parse("top:9+softnms"), WHAT_EXPORTS),
    "the step wbf:0.55": (lambda boxes, scores: Suppression.parse("wbf")(boxes, scores).boxes, WHAT_EXPORTS),
    "iou_hash": (lambda boxes, scores: hashnms.iou_hash(boxes, alpha=0.7), WHAT_EXPORTS),  # noqa: ARG005
    "boxes must be float32": (lambda boxes, scores: hashnms.nms(boxes.double(), scores), "got torch.float64"),
    "alpha must be at most 0.99": (lambda boxes, scores: hashnms.hnms(boxes, scores, alpha=0.999), "got 0.999"),
    "iou_threshold must be in [0, 1]": (lambda boxes, scores: hashnms.nms(boxes, scores, 1.5), "got 1.5"),
    "scores must be a tensor of shape (N,)": (lambda boxes, scores: hashnms.nms(boxes, scores[:, None]), "got 2 axes"),
    "boxes must have shape (N, 4)": (lambda boxes, scores: hashnms.nms(boxes[0], scores), "got 1 axes"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_exported_says_so_in_words_of_ours(what):
    function, and_what = REFUSED[what]
    tensors = torch.zeros(5, 4), torch.zeros(5)
    said = f"{re.escape(what)}.*{re.escape(and_what)}"
    with pytest.raises(torch.onnx.OnnxExporterError, match=said) as refused:
        program_of(Calling(function), tensors)
    assert re.search(f"^.*{said}", str(refused.value.__cause__))
    with pytest.raises((TypeError, ValueError), match=f"^.*{said}"):
        exported_by_trace(Calling(function), tensors)


def test_a_program_of_torch_export_is_refused():
    program = torch.export.export(Calling(hashnms.nms), example()[:2])
    with pytest.raises(torch.onnx.OnnxExporterError, match=r"give torch\.onnx\.export the module"):
        torch.onnx.export(program, dynamo=True, verbose=False)
