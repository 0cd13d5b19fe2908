"""What torch exports of code that is routed and of models that are accelerated: torchvision's NMS, or a suppression."""

import copy
import io

import numpy as np
import pytest

import hashnms

torch = pytest.importorskip("torch")
torchvision = pytest.importorskip("torchvision")
onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

from torch import nn  # noqa: E402

from hashnms.detectors import accelerate, routed  # noqa: E402
from hashnms.detectors.torchvision import Place, Replacement, StandIn  # noqa: E402
from tests.support.small_detectors import ONE_STAGE, detector, images  # noqa: E402
from tests.support.tensors import one_graph  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the exporters


class Suppressing(nn.Module):
    """Code that calls torchvision's NMS."""

    def forward(self, boxes, scores):
        return self.suppress(boxes, scores)

    def suppress(self, boxes, scores):
        return torchvision.ops.nms(boxes, scores, 0.5)


def with_stand_in():
    """The same module, with what `accelerate` puts in place of methods."""
    module = Suppressing()
    place = Place(Suppressing, "suppress", lambda _, __, boxes, scores: hashnms.nms(boxes, scores, 0.5))
    module.__dict__.update(StandIn(module, place, Replacement()).attributes())
    return module


class Flat(nn.Module):
    """A detector of one image, with tensors as results."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, image):
        return tuple(self.model([image])[0].values())


IMAGE = (images()[0],)


def tensors():
    scene = hashnms.synthetic.make_scene("crowd", 60)
    return torch.from_numpy(scene.boxes), torch.from_numpy(scene.scores)


def onnx_operators(module, arguments):
    """Those of the ONNX model, in order, by the exporter that traces."""
    file = io.BytesIO()
    torch.onnx.export(module.eval(), arguments, file, dynamo=False, opset_version=17)
    return list(_operators(onnx.load_from_string(file.getvalue()).graph))


def _operators(graph):
    for node in graph.node:
        yield node.op_type
        for attribute in node.attribute:
            yield from _operators(attribute.g)


def exported_ops(program):
    return {str(node.target) for node in program.graph.nodes if "nms" in str(node.target)}


def traced_ops(*given, **options):
    """Of any library. Not from the graph's text, which has the paths of the code that was traced."""
    return _kinds(torch.jit.trace(*given, **options).inlined_graph)


def _kinds(graph):
    kinds = {node.kind() for node in graph.nodes() if not node.kind().startswith(("aten::", "prim::"))}
    return kinds.union(*(_kinds(block) for node in graph.nodes() for block in node.blocks()))


def onnx_ops(*given):
    nodes = torch.onnx.export(*given, dynamo=True, verbose=False).model.graph
    return {node.op_type for node in nodes if node.op_type == "NonMaxSuppression" or node.domain}


#: Each returns how NMS is called in the graph that it makes of a module and its arguments.
EXPORTERS = {
    "torch.export": lambda *given: exported_ops(torch.export.export(*given)),
    "torch.export, strict": lambda *given: exported_ops(torch.export.export(*given, strict=True)),
    "torch.jit.trace": traced_ops,
    "torch.onnx.export": onnx_ops,
    "torch.onnx.export by trace": lambda *given: {"NonMaxSuppression"} & set(onnx_operators(*given)),
}


@pytest.mark.slow
@pytest.mark.parametrize("way", EXPORTERS)
def test_code_is_exported_with_the_op_of_torchvision(way):
    export = EXPORTERS[way]
    plain = export(Suppressing(), tensors())
    assert len(plain) == 1
    with routed() as calls:
        assert export(Suppressing(), tensors()) == plain
    assert calls.passed > 0
    assert export(with_stand_in(), tensors()) == plain


@one_graph
def test_code_that_is_compiled_and_not_exported_has_ours():
    torch._dynamo.reset()
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        torch.compile(with_stand_in(), backend=backend, fullgraph=True)(*tensors())
        with routed():
            torch.compile(Suppressing(), backend=backend, fullgraph=True)(*tensors())
    assert [exported_ops(graph) for graph in graphs] == [{"hashnms.nms.default"}] * 2
    torch._dynamo.reset()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Faster R-CNN", *ONE_STAGE])
def test_an_accelerated_model_is_exported_as_the_plain_one(name):
    """By trace: `torch.export` takes none of torchvision's detectors (torch 2.15), whatever their NMS."""
    model = copy.deepcopy(detector(name))
    plain = onnx_operators(Flat(model), IMAGE)
    assert "NonMaxSuppression" in plain
    assert onnx_operators(Flat(accelerate(model)), IMAGE) == plain
    assert traced_ops(Flat(model), IMAGE, check_trace=False) - {"torchvision::roi_align"} == {"torchvision::nms"}


def found_again(detections, others):
    """The share of detections that are among others, except for rounding in the network."""
    (boxes, *columns), (other_boxes, *other_columns) = detections, others
    near = np.abs(boxes[:, None] - other_boxes).max(axis=2) < 0.01
    for column, other in zip(columns, other_columns, strict=True):  # scores and labels
        near &= np.abs(column[:, None] - other) < 1e-4
    return near.any(axis=1).mean()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Faster R-CNN", *ONE_STAGE])
def test_a_suppression_is_exported_to_onnx_and_suits_other_images(name):
    """With more or fewer candidates than in the traced image."""
    of_proposals = {"proposals": "top:500+hnms:0.7/1+nms:0.6"} if name == "Faster R-CNN" else {}
    model = Flat(accelerate(copy.deepcopy(detector(name)), final="hnms:0.73/1+nms:0.5", **of_proposals)).eval()
    file = io.BytesIO()
    torch.onnx.export(model, IMAGE, file, dynamo=False, opset_version=17)
    session = onnxruntime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])
    traced = torch.jit.trace(model, IMAGE, check_trace=False)
    for image in (*IMAGE, IMAGE[0].flip(2), IMAGE[0] / 2):
        with torch.no_grad():
            expected = model(image)
        assert all(map(torch.equal, traced(image), expected))
        results = session.run(None, {session.get_inputs()[0].name: image.numpy()})
        assert len(results[0]) == len(expected[0]) > 0
        assert found_again([part.numpy() for part in expected], results) > 0.98


@pytest.mark.slow
def test_a_suppression_is_never_exported_as_another():
    model = accelerate(copy.deepcopy(detector("SSD")), final="softnms:gaussian/0.5")
    with pytest.raises(TypeError, match=r"the step softnms:gaussian/0\.5 cannot be exported to ONNX"):
        onnx_operators(Flat(model), IMAGE)
    assert traced_ops(Flat(model), IMAGE, check_trace=False) == {"hashnms::suppress"}
