"""Every op as torch wants it: checked, compiled, exported, transformed, and the same answer each time."""

import numpy as np
import pytest

import hashnms

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch._subclasses import FakeTensorMode  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from hashnms.torch import hnms_mask, ops  # noqa: E402
from tests.support.tensors import FUNCTIONS, OPS, assert_same_tensors, one_graph, scene_tensors, since_torch  # noqa: E402


@pytest.mark.slow
@pytest.mark.parametrize("name", OPS)
def test_an_op_is_registered_as_torch_wants_it(name):
    op = getattr(torch.ops.hashnms, name)
    torch.library.opcheck(op, (*scene_tensors(200, np.float64), None, *OPS[name]))


@pytest.mark.parametrize("name", OPS)
def test_an_op_says_beforehand_what_types_and_shapes_come_out(name):
    """The fake kernel against the real one, for any number of boxes, with labels and without."""
    op = getattr(torch.ops.hashnms, name)
    for count, dtype, labelled in ((200, np.float32, False), (1, np.float64, True), (0, np.float32, True)):
        boxes, scores, labels = (tensor[:count] for tensor in scene_tensors(200, dtype))
        images = None if labelled else labels
        arguments = (boxes, scores, labels if labelled else None, images, *OPS[name])
        torch.library.opcheck(op, arguments, test_utils="test_faketensor")


def test_the_ops_with_other_arguments_are_registered_as_torch_wants_them():
    torch.library.opcheck(torch.ops.hashnms.iou_hash, (scene_tensors(50)[0], 0.7, 1.0, 1.0, 0.0, 0.0, "xyxy"))
    torch.library.opcheck(torch.ops.hashnms.batched_nms, (*scene_tensors(50), 0.5))


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_compiled_code_gives_the_same_for_any_number_of_boxes(name):
    torch.compiler.reset()
    compiled = torch.compile(FUNCTIONS[name], fullgraph=True, dynamic=True, backend="aot_eager")
    for count in (1000, 700, 1, 0):
        tensors = [tensor[:count] for tensor in scene_tensors()]
        assert_same_tensors(compiled(*tensors), FUNCTIONS[name](*(tensor.numpy() for tensor in tensors)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # within torch
def test_inductor_compiles_a_whole_head():
    """Scores from logits before, a gather of boxes after: one graph."""

    def head(boxes, logits):
        scores = logits.sigmoid()
        keep = hashnms.nms(boxes * 2, scores, 0.5)
        return boxes[keep] + 1, scores[keep]

    torch.compiler.reset()
    boxes, scores, _ = scene_tensors()
    logits = torch.logit(scores)
    expected = head(boxes, logits)
    for result, wanted in zip(torch.compile(head, fullgraph=True)(boxes, logits), expected, strict=True):
        assert torch.allclose(result, wanted)


EXPORTED = [
    pytest.param(name, marks=since_torch(2, 8, "export of a chain that merges")) if name == "fused_chain" else name
    for name in FUNCTIONS
]


@pytest.mark.parametrize("name", EXPORTED)
def test_exported_programs_give_the_same_for_any_number_of_boxes(name):
    class Model(nn.Module):
        def forward(self, boxes, scores, labels):
            return FUNCTIONS[name](boxes, scores, labels)

    count = torch.export.Dim("count", min=0)
    shapes = {"boxes": {0: count}, "scores": {0: count}, "labels": {0: count}}
    program = torch.export.export(Model(), scene_tensors(100), dynamic_shapes=shapes)
    for number in (1000, 1, 0):
        tensors = [tensor[:number] for tensor in scene_tensors()]
        assert_same_tensors(program.module()(*tensors), FUNCTIONS[name](*(tensor.numpy() for tensor in tensors)))


@pytest.mark.parametrize("name", ["hnms", "nms", "soft_nms", "suppression"])
def test_transforms_and_tracers_see_the_op(name):
    boxes, scores, labels = scene_tensors(300)
    expected = FUNCTIONS[name](boxes, scores, labels)[0]

    def summed(some_scores):
        return some_scores[FUNCTIONS[name](boxes, some_scores, labels)[0]].sum()

    kept = torch.zeros(300).index_fill_(0, expected, 1)
    assert torch.equal(torch.func.grad(summed)(scores), kept)
    graph = make_fx(lambda some_scores: FUNCTIONS[name](boxes, some_scores, labels)[0])(scores)
    assert "torch.ops.hashnms." in graph.code
    assert torch.equal(graph(scores.flip(0)), FUNCTIONS[name](boxes, scores.flip(0), labels)[0])
    functional = torch.func.functionalize(lambda some_scores: FUNCTIONS[name](boxes, some_scores, labels)[0])
    assert torch.equal(functional(scores), expected)


def test_fake_scores_beside_real_boxes_are_not_read():
    boxes, scores, _ = scene_tensors(300)
    fake = FakeTensorMode(allow_non_fake_inputs=True).from_tensor(scores)
    assert hnms_mask(boxes, fake).shape == (300,)


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
def test_masks_are_mapped_over_images():
    boxes, scores, _ = scene_tensors(300)
    batch = torch.stack([scores, scores.flip(0)])
    masks = torch.vmap(lambda some_scores: hnms_mask(boxes, some_scores))(batch)
    assert torch.equal(masks, torch.stack([hnms_mask(boxes, some_scores) for some_scores in batch]))


@one_graph
def test_large_integer_scores_are_float64_in_graphs():
    torch.compiler.reset()
    boxes, scores = scene_tensors(300)[0], torch.arange(300) * 10**7
    compiled = torch.compile(hashnms.soft_nms, fullgraph=True, backend="aot_eager")
    keep, decayed = compiled(boxes, scores)
    assert torch.equal(keep, hashnms.soft_nms(boxes, scores)[0])
    assert decayed.dtype == torch.float64


def test_saved_programs_run_again(tmp_path):
    class Model(nn.Module):
        def forward(self, boxes, scores):
            return hashnms.nms(boxes, scores)

    boxes, scores, _ = scene_tensors(100)
    torch.export.save(torch.export.export(Model(), (boxes, scores)), tmp_path / "model.pt2")
    program = torch.export.load(tmp_path / "model.pt2")
    assert torch.equal(program.module()(boxes, scores), hashnms.nms(boxes, scores))


def test_every_op_has_its_place_in_this_file():
    registered = {name for name in dir(torch.ops.hashnms) if not name.startswith("_") and name != "name"}
    assert (
        registered == {*OPS, "batched_nms", "iou_hash", "merge"} == {name for name in vars(ops) if name in registered}
    )
