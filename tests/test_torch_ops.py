"""Every function on tensors gives what it gives on arrays: at once, through its op, compiled and exported."""

import copy
import gc
import pickle
import subprocess
import sys

import numpy as np
import pytest
from conftest import BOX_KINDS, boxes_and_scores
from hypothesis import given

import hashnms
from hashnms import Suppression
from hashnms.synthetic import make_scene

torch = pytest.importorskip("torch")

from torch._subclasses import FakeTensorMode  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from hashnms.torch import hnms_mask, ops  # noqa: E402

CHAIN = Suppression.parse("score:0.1+top:300+hnms:0.73/2+nms:0.5+limit:50")

#: Name -> function of (boxes, scores, labels), arrays or tensors, that returns a tuple of such.
FUNCTIONS = {
    "hnms": lambda boxes, scores, labels: (hashnms.hnms(boxes, scores, alpha=0.6, num_hashes=2, labels=labels),),
    "nms": lambda boxes, scores, labels: (hashnms.nms(boxes, scores, 0.4, labels=labels, max_output=200),),
    "nms_suppressor": lambda boxes, scores, labels: hashnms.nms(
        boxes, scores, 0.4, labels=labels, score_threshold=0.05, return_suppressor=True
    ),
    "batched_nms": lambda boxes, scores, labels: (
        hashnms.batched_nms(boxes, scores, (scores > 0.5) * 1 if labels is None else labels, 0.4),
    ),
    "soft_nms": lambda boxes, scores, labels: hashnms.soft_nms(boxes, scores, labels=labels, max_output=200),
    "soft_nms_hard": lambda boxes, scores, labels: hashnms.soft_nms(boxes, scores, method="hard", labels=labels),
    "suppression": lambda boxes, scores, labels: tuple(CHAIN(boxes, scores, labels)),
    "iou_hash": lambda boxes, scores, labels: (hashnms.iou_hash(boxes, alpha=0.7, w0=1.5),),  # noqa: ARG005
}

#: Op name -> the arguments after boxes, scores and labels.
OPS = {
    "hnms": (0.7, 2, "xyxy"),
    "hnms_mask": (0.7, 2, "xyxy"),
    "hnms_once": (0.7, 1.5, 2.0, 0.25, 0.75, "xyxy"),
    "nms": (0.5, 0.1, 100, "xyxy"),
    "nms_suppressor": (0.5, None, None, "xyxy"),
    "soft_nms": ("gaussian", 0.5, 0.3, 1e-3, None, "xyxy"),
    "suppress": ("top:300+hnms:0.73/2+nms:0.5", "xyxy"),
}


def scene_tensors(count=1000, dtype=np.float32):
    scene = make_scene("aerial", count)
    arrays = scene.boxes.astype(dtype), scene.scores.astype(dtype), scene.labels
    return tuple(torch.from_numpy(array) for array in arrays)


def as_arrays(result):
    return [part.numpy() for part in result]


def assert_same(results, expected):
    for result, wanted in zip(results, expected, strict=True):
        assert type(result) is torch.Tensor
        assert result.numpy().dtype == wanted.dtype
        assert np.array_equal(result.numpy(), wanted)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_batched_nms_takes_floats_as_labels(dtype):
    scene = make_scene("shelf", 500)
    boxes, scores, labels = map(torch.from_numpy, (scene.boxes, scene.scores, scene.labels))
    expected = hashnms.batched_nms(boxes, scores, labels, 0.5)
    assert torch.equal(hashnms.batched_nms(boxes, scores, (labels - 3).to(dtype) * -1, 0.5), expected)


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", BOX_KINDS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_tensors_gives_what_it_gives_on_arrays(name, kind, dtype, labelled):
    rng = np.random.default_rng(7)
    boxes, scores = BOX_KINDS[kind](rng, 400).astype(dtype), (rng.integers(0, 64, 400) / 64).astype(dtype)
    labels = rng.integers(-2, 3, 400) if labelled else None
    tensors = [None if array is None else torch.from_numpy(array) for array in (boxes, scores, labels)]
    assert_same(FUNCTIONS[name](*tensors), FUNCTIONS[name](boxes, scores, labels))


@given(boxes_and_scores())
def test_any_tensors_give_what_arrays_give(data):
    boxes, scores = data
    tensors = torch.from_numpy(boxes), torch.from_numpy(scores)
    for function in FUNCTIONS.values():
        assert_same(function(*tensors, None), function(boxes, scores, None))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_boxes_give_empty_tensors(name):
    for result in FUNCTIONS[name](torch.zeros(0, 4), torch.zeros(0), torch.zeros(0, dtype=torch.int64)):
        assert type(result) is torch.Tensor
        assert len(result) == 0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int16", "int32", "uint8"])
def test_other_types_are_computed_as_float32(dtype):
    boxes, scores, labels = scene_tensors(300)
    boxes, scores = boxes.clamp(0, 255).to(getattr(torch, dtype)), (100 * scores).to(getattr(torch, dtype))
    for function in FUNCTIONS.values():
        results = function(boxes, scores, labels.to(torch.int32))
        assert_same(results, function(boxes.float().numpy(), scores.float().numpy(), labels.numpy()))


def test_the_memory_of_plain_tensors_is_read_in_place():
    """A hundred megabytes of boxes leave no second copy behind, not even for a while."""
    script = """
import resource, sys, torch, hashnms
boxes = torch.zeros(2**23, 4); scores = torch.zeros(2**23)
boxes[:, 2:] = 1
hashnms.nms(boxes[:100], scores[:100])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
hashnms.nms(boxes, scores, 0.5, max_output=1)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / len(boxes))
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert float(run.stdout) < 36  # the claims that are sorted; a copy of the boxes alone would add 16


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tensors_that_are_not_plain_are_taken(name):
    boxes, scores, labels = scene_tensors(500)
    expected = FUNCTIONS[name](boxes.numpy(), scores.numpy(), labels.numpy())
    strided = torch.stack([boxes, boxes], dim=2)[:, :, 0], torch.stack([scores, scores], dim=1)[:, 0]
    negative = torch._neg_view(-boxes), torch._neg_view(-scores)
    negative_scores = boxes, torch._neg_view(-scores)
    negative_beside_an_array = boxes.numpy(), torch._neg_view(-scores)
    unaligned = torch.frombuffer(bytearray(b"x" + boxes.numpy().tobytes()), dtype=torch.float32, offset=1)
    trained = torch.nn.Parameter(boxes.clone()), scores.clone().requires_grad_()
    kinds = (strided, negative, negative_scores, (unaligned.view(-1, 4), scores), trained)
    for some_boxes, some_scores in kinds:
        results = FUNCTIONS[name](some_boxes, some_scores, labels)
        assert_same(results, expected)
        assert not any(result.requires_grad for result in results)
    if name != "batched_nms":
        for result, wanted in zip(FUNCTIONS[name](*negative_beside_an_array, labels), expected, strict=True):
            assert np.array_equal(result, wanted)


def test_boxes_of_torchvision_are_taken():
    tv_tensors = pytest.importorskip("torchvision.tv_tensors")
    boxes, scores, _ = scene_tensors(500)
    marked = tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=(999, 999))
    assert np.array_equal(hashnms.nms(marked, scores).numpy(), hashnms.nms(boxes.numpy(), scores.numpy()))


def test_results_are_new_memory_that_outlives_all():
    boxes, scores, labels = scene_tensors()
    keep, decayed = hashnms.soft_nms(boxes, scores, labels=labels)
    wanted = keep.clone(), decayed.clone()
    for tensor in (boxes, scores, labels):
        tensor.zero_()
    del boxes, scores, labels, tensor
    gc.collect()
    assert torch.equal(keep, wanted[0])
    assert torch.equal(decayed, wanted[1])
    for copy_of in (copy.deepcopy(keep), pickle.loads(pickle.dumps(keep)), torch.from_numpy(keep.numpy().copy())):
        keep += 1
        assert torch.equal(copy_of, wanted[0])
        keep -= 1


FLOAT4 = torch.zeros((3, 4), dtype=torch.uint8).view(torch.float4_e2m1fn_x2)


@pytest.mark.parametrize(
    ("boxes", "scores", "labels", "error", "message"),
    [
        (torch.zeros(3, 5), torch.zeros(3), None, ValueError, r"boxes must have shape \(N, 4\), got \(3, 5\)"),
        (torch.zeros(3, 4), torch.zeros(2), None, ValueError, r"scores must have shape \(3,\)"),
        (torch.zeros(3, 4), torch.zeros(3), torch.ones(3) / 2, ValueError, "labels must be whole.*got 0.5 in row 0"),
        (torch.zeros(3, 4).bool(), torch.zeros(3), None, TypeError, "boxes must be real numbers.*got bool"),
        (torch.zeros(3, 4).cfloat(), torch.zeros(3), None, TypeError, "boxes must be real numbers.*got complex64"),
        (torch.zeros(3, 4).to_sparse(), torch.zeros(3), None, TypeError, "boxes must be a dense tensor.*sparse_coo"),
        (torch.zeros(3, 4), torch.zeros(3).to(torch.float8_e5m2), None, TypeError, "scores must be a dense.*float8"),
        (FLOAT4, torch.zeros(3), None, TypeError, "boxes must be a dense.*float4"),
        (torch.zeros(3, 4), FLOAT4[:, 0], None, TypeError, "scores must be a dense.*float4"),
        (torch._efficientzerotensor(3, 4), torch.zeros(3), None, TypeError, "boxes must be a dense tensor"),
        (torch.full((3, 4), torch.nan), torch.zeros(3), None, ValueError, "boxes must be finite, got .* in row 0"),
        (torch.zeros(3, 4), torch.tensor([0, torch.inf, 0]), None, ValueError, "scores must be finite.*row 1"),
        (torch.zeros(3, 4), torch.zeros(3, device="meta"), None, ValueError, "scores must be on .*cpu, got meta"),
        (torch.zeros(3, 4, device="meta"), torch.zeros(3), None, ValueError, "boxes must be a tensor with numbers"),
        (np.zeros((3, 4)), torch.zeros(3, device="meta"), None, ValueError, "scores must be on .*cpu, got meta"),
    ],
)
def test_bad_tensors_get_one_clear_error(boxes, scores, labels, error, message):
    for name in ("hnms", "nms", "soft_nms", "suppression"):
        with pytest.raises(error, match=message):
            FUNCTIONS[name](boxes, scores, labels)


def test_arrays_and_tensors_may_be_mixed_and_boxes_decide():
    boxes, scores, _ = scene_tensors()
    expected = hashnms.nms(boxes.numpy(), scores.numpy())
    assert_same([hashnms.nms(boxes, scores.numpy()), hashnms.nms(boxes, scores.tolist())], [expected, expected])
    assert type(hashnms.nms(boxes.numpy(), scores)) is np.ndarray


def test_parameters_are_checked_as_for_arrays():
    boxes, scores, _ = scene_tensors(10)
    with pytest.raises(ValueError, match="alpha must be in"):
        hashnms.hnms(boxes, scores, alpha=1.5)
    with pytest.raises(ValueError, match="box_format must be one of"):
        hnms_mask(boxes, scores, box_format="yxyx")
    with pytest.raises(ValueError, match="iou_threshold must be in"):
        torch.compile(lambda b, s: hashnms.nms(b, s, 2.0), fullgraph=True, backend="eager")(boxes, scores)


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("count", [0, 1, 200])
@pytest.mark.parametrize("name", OPS)
def test_an_op_is_registered_as_torch_wants_it(name, count, dtype, labelled):
    boxes, scores, labels = (tensor[:count] for tensor in scene_tensors(200, dtype))
    arguments = (boxes, scores, labels if labelled else None, *OPS[name])
    torch.library.opcheck(getattr(torch.ops.hashnms, name), arguments)


def test_the_ops_with_other_arguments_are_registered_as_torch_wants_them():
    torch.library.opcheck(torch.ops.hashnms.iou_hash, (scene_tensors(50)[0], 0.7, 1.0, 1.0, 0.0, 0.0, "xyxy"))
    torch.library.opcheck(torch.ops.hashnms.batched_nms, (*scene_tensors(50), 0.5))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_compiled_code_gives_the_same_for_any_number_of_boxes(name, backend):
    torch.compiler.reset()
    compiled = torch.compile(FUNCTIONS[name], fullgraph=True, dynamic=True, backend=backend)
    for count in (1000, 700, 1, 0):
        tensors = [tensor[:count] for tensor in scene_tensors()]
        assert_same(compiled(*tensors), FUNCTIONS[name](*(tensor.numpy() for tensor in tensors)))


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


@pytest.mark.parametrize("name", FUNCTIONS)
def test_exported_programs_give_the_same_for_any_number_of_boxes(name):
    class Model(torch.nn.Module):
        def forward(self, boxes, scores, labels):
            return FUNCTIONS[name](boxes, scores, labels)

    count = torch.export.Dim("count", min=0)
    shapes = {"boxes": {0: count}, "scores": {0: count}, "labels": {0: count}}
    program = torch.export.export(Model(), scene_tensors(100), dynamic_shapes=shapes)
    for number in (1000, 1, 0):
        tensors = [tensor[:number] for tensor in scene_tensors()]
        assert_same(program.module()(*tensors), FUNCTIONS[name](*(tensor.numpy() for tensor in tensors)))


def test_gradients_flow_past_but_not_through():
    boxes, scores, _ = scene_tensors(300)
    scores.requires_grad_()
    keep, decayed = hashnms.soft_nms(boxes, scores)
    assert not decayed.requires_grad
    scores[keep].sum().backward()
    assert torch.equal(scores.grad.nonzero()[:, 0], keep.sort().values)


@pytest.mark.parametrize("name", ["hnms", "nms", "soft_nms", "suppression"])
def test_transforms_and_tracers_see_the_op(name):
    boxes, scores, labels = scene_tensors(300)
    expected = FUNCTIONS[name](boxes, scores, labels)[0]

    def summed(some_scores):
        return some_scores[FUNCTIONS[name](boxes, some_scores, labels)[0]].sum()

    kept = torch.zeros(300).index_fill_(0, expected, 1)
    assert torch.equal(torch.func.grad(summed)(scores), kept)
    graph = make_fx(lambda some_scores: FUNCTIONS[name](boxes, some_scores, labels)[0])(scores)
    assert "hashnms" in graph.code
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


def test_large_integer_scores_are_float64_in_graphs():
    boxes, scores = scene_tensors(300)[0], torch.arange(300) * 10**7
    compiled = torch.compile(hashnms.soft_nms, fullgraph=True, backend="aot_eager")
    keep, decayed = compiled(boxes, scores)
    assert torch.equal(keep, hashnms.soft_nms(boxes, scores)[0])
    assert decayed.dtype == torch.float64


def test_saved_programs_run_again(tmp_path):
    class Model(torch.nn.Module):
        def forward(self, boxes, scores):
            return hashnms.nms(boxes, scores)

    boxes, scores, _ = scene_tensors(100)
    torch.export.save(torch.export.export(Model(), (boxes, scores)), tmp_path / "model.pt2")
    program = torch.export.load(tmp_path / "model.pt2")
    assert torch.equal(program.module()(boxes, scores), hashnms.nms(boxes, scores))


def test_functions_of_tensors_alone_say_so():
    with pytest.raises(TypeError, match="boxes must be a tensor, got ndarray"):
        hnms_mask(np.zeros((1, 4)), np.zeros(1))


def test_importing_hashnms_does_not_import_torch():
    script = "import sys, hashnms; hashnms.nms([[0, 0, 1, 1]], [1]); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_mask_marks_what_hnms_keeps():
    boxes, scores, labels = scene_tensors()
    for some_boxes in (boxes, boxes.half(), boxes.T.contiguous().T, boxes[:0]):
        count = len(some_boxes)
        mask = hnms_mask(some_boxes, scores[:count], labels=labels[:count], num_hashes=2)
        keep = hashnms.hnms(some_boxes, scores[:count], labels=labels[:count], num_hashes=2)
        assert mask.dtype == torch.bool
        assert mask.shape == (count,)
        assert torch.equal(mask.nonzero()[:, 0], keep.sort().values)


def test_every_op_has_its_place_in_this_file():
    registered = {name for name in dir(torch.ops.hashnms) if not name.startswith("_") and name != "name"}
    assert registered == {*OPS, "batched_nms", "iou_hash"} == {name for name in vars(ops) if name in registered}
