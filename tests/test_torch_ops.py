"""Every function on tensors gives what it gives on arrays."""

import copy
import gc
import pickle
import subprocess
import sys
from itertools import product

import numpy as np
import pytest
from hypothesis import given

import hashnms
from hashnms.synthetic import make_scene
from tests.support.boxes import BOX_KINDS, boxes_and_scores

torch = pytest.importorskip("torch")

from hashnms.torch import hnms_mask  # noqa: E402
from tests.support.tensors import FUNCTIONS, assert_same_tensors, one_graph, scene_tensors, since_torch, tensor_of  # noqa: E402

pytestmark = pytest.mark.core


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_batched_nms_takes_floats_as_labels(dtype):
    scene = make_scene("shelf", 500)
    boxes, scores, labels = map(torch.from_numpy, (scene.boxes, scene.scores, scene.labels))
    expected = hashnms.batched_nms(boxes, scores, labels, 0.5)
    assert torch.equal(hashnms.batched_nms(boxes, scores, (labels - 3).to(dtype) * -1, 0.5), expected)


@pytest.mark.parametrize("kind", BOX_KINDS)
def test_a_function_of_tensors_gives_what_it_gives_on_arrays(kind):
    rng = np.random.default_rng(7)
    boxes, scores, labels = BOX_KINDS[kind](rng, 400), rng.integers(0, 64, 400) / 64, rng.integers(-2, 3, 400)
    for dtype, some_labels in product([np.float32, np.float64], [None, labels]):
        arrays = boxes.astype(dtype), scores.astype(dtype), some_labels
        for function in FUNCTIONS.values():
            assert_same_tensors(function(*map(tensor_of, arrays)), function(*arrays))


@given(boxes_and_scores())
def test_any_tensors_give_what_arrays_give(data):
    boxes, scores = data
    tensors = torch.from_numpy(boxes), torch.from_numpy(scores)
    for function in FUNCTIONS.values():
        assert_same_tensors(function(*tensors, None), function(boxes, scores, None))


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
        assert_same_tensors(results, function(boxes.float().numpy(), scores.float().numpy(), labels.numpy()))


@pytest.mark.memory
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
        assert_same_tensors(results, expected)
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


# Older versions of torch have no such type: there another one that is refused stands for it.
FLOAT4 = torch.zeros((3, 4), dtype=torch.uint8).view(getattr(torch, "float4_e2m1fn_x2", torch.float8_e5m2))


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
        (FLOAT4, torch.zeros(3), None, TypeError, "boxes must be a dense.*float[48]"),
        (torch.zeros(3, 4), FLOAT4[:, 0], None, TypeError, "scores must be a dense.*float[48]"),
        pytest.param(
            *(torch._efficientzerotensor(3, 4), torch.zeros(3), None, TypeError, "boxes must be a dense tensor"),
            marks=since_torch(2, 9, "to refuse such a tensor"),
        ),
        (torch.full((3, 4), torch.nan), torch.zeros(3), None, ValueError, "boxes must be finite, got .* in row 0"),
        (torch.zeros(3, 4), torch.tensor([0, torch.inf, 0]), None, ValueError, "scores must be finite.*row 1"),
        (torch.zeros(3, 4), torch.zeros(3, device="meta"), None, ValueError, "scores must be on .*cpu, got meta"),
        (torch.zeros(3, 4, device="meta"), torch.zeros(3), None, ValueError, "boxes must be a tensor with values"),
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
    assert_same_tensors([hashnms.nms(boxes, scores.numpy()), hashnms.nms(boxes, scores.tolist())], [expected, expected])
    assert type(hashnms.nms(boxes.numpy(), scores)) is np.ndarray


@one_graph
def test_parameters_are_checked_as_for_arrays():
    boxes, scores, _ = scene_tensors(10)
    with pytest.raises(ValueError, match="alpha must be in"):
        hashnms.hnms(boxes, scores, alpha=1.5)
    with pytest.raises(ValueError, match="box_format must be one of"):
        hnms_mask(boxes, scores, box_format="yxyx")
    with pytest.raises(ValueError, match="iou_threshold must be in"):
        torch.compile(lambda b, s: hashnms.nms(b, s, 2.0), fullgraph=True, backend="eager")(boxes, scores)


def test_gradients_flow_past_but_not_through():
    boxes, scores, _ = scene_tensors(300)
    scores.requires_grad_()
    keep, decayed = hashnms.soft_nms(boxes, scores)
    assert not decayed.requires_grad
    scores[keep].sum().backward()
    assert torch.equal(scores.grad.nonzero()[:, 0], keep.sort().values)


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
