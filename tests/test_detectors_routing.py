"""Calls of torchvision's NMS that are routed to hashnms."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from fractions import Fraction

import numpy as np
import pytest

from hashnms.synthetic import make_scene

torch = pytest.importorskip("torch")
torchvision = pytest.importorskip("torchvision")

from torch import Tensor  # noqa: E402
from torchvision import tv_tensors  # noqa: E402
from torchvision.ops import batched_nms, nms  # noqa: E402  references of one's own are routed as well

from hashnms.detectors import Calls, routed  # noqa: E402


def scene(count, dtype=torch.float32):
    made = make_scene("parking_lot", count, seed=3)
    scores = (torch.from_numpy(made.scores) * 50).round() / 50  # they tie
    return torch.from_numpy(made.boxes).to(dtype), scores.to(dtype), torch.arange(count) % 5


def outcome(function, *args):
    """What a call returns, with its class, or the error it ends in."""
    try:
        result = function(*args)
    except Exception as error:
        return type(error), str(error)
    return type(result), result.dtype, result.requires_grad, result.as_subclass(torch.Tensor).tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("count", [0, 1, 500, 5000])
def test_the_results_are_those_of_torchvision_index_by_index(count, dtype):
    boxes, scores, labels = scene(max(count, 1), dtype)
    boxes, scores, labels = boxes[:count], scores[:count], labels[:count]
    for iou_threshold in (0.0, 0.3, 0.5, 0.75, 1.0):
        one, many = nms(boxes, scores, iou_threshold), batched_nms(boxes, scores, labels, iou_threshold)
        with routed() as calls:
            assert torch.equal(nms(boxes, scores, iou_threshold), one)
            assert torch.equal(torchvision.ops.batched_nms(boxes, scores, labels, iou_threshold), many)
            assert torch.equal(torch.ops.torchvision.nms(dets=boxes, scores=scores, iou_threshold=iou_threshold), one)
        assert calls.answered >= (3 if count else 2)
        assert calls.passed == 0


def test_only_within_the_block_and_only_in_this_thread():
    boxes, scores, _ = scene(100)
    with ThreadPoolExecutor(1) as pool, routed() as calls:
        pool.submit(nms, boxes, scores, 0.5).result()
        assert calls == Calls(0, 0)
        nms(boxes, scores, 0.5)
        assert calls == Calls(1, 0)
    nms(boxes, scores, 0.5)
    assert calls == Calls(1, 0)


def test_the_calls_are_counted_and_shown():
    boxes, scores, _ = scene(100)
    with routed() as calls:
        nms(boxes, scores, 0.5)
        nms(boxes, scores.masked_fill(scores < 0.3, -torch.inf), 0.5)
        nms(boxes, scores, 0.3)
    assert str(calls) == "calls of torchvision's NMS: 2 answered by hashnms, 1 passed to torchvision"


def test_a_block_without_calls_warns_unless_it_ends_in_an_error():
    with (
        pytest.warns(UserWarning, match=r"no call of torchvision's nms or batched_nms reached this") as warned,
        routed(),
    ):
        torch.zeros(3).sort()
    assert warned[0].filename == __file__
    with pytest.raises(KeyError), routed():
        raise KeyError


def test_blocks_in_blocks_count_for_the_outer_ones():
    boxes, scores, _ = scene(100)
    with routed() as outer:
        with routed() as inner:
            nms(boxes, scores, 0.5)
            nms(boxes, scores, 2.0)
        nms(boxes, scores, 0.5)
        with suppress(KeyError), routed():
            nms(boxes, scores, 0.5)
            raise KeyError
    assert inner == Calls(1, 1)
    assert outer == Calls(3, 1)


@pytest.mark.parametrize("iou_threshold", [-0.5, 0.5, 1.5, np.float32(0.5)])
def test_what_hashnms_refuses_is_answered_by_torchvision(iou_threshold):
    boxes, scores, _ = scene(100)
    masked = scores.masked_fill(scores < 0.3, -torch.inf)
    nan_box = boxes.index_fill(0, torch.tensor([3]), torch.nan)
    for some_boxes, some_scores in ((boxes, masked), (nan_box, scores), (boxes[:, [2, 3, 0, 1]], scores)):
        expected = nms(some_boxes, some_scores, iou_threshold)
        with routed() as calls:
            assert torch.equal(nms(some_boxes, some_scores, iou_threshold), expected)
        assert calls == Calls(0, 1)


TYPES = ["float16", "bfloat16", "float32", "float64", "int32", "int64", "uint8", "bool", "complex64"]


@pytest.mark.parametrize("box_type", TYPES)
@pytest.mark.parametrize("score_type", TYPES)
@pytest.mark.parametrize("count", [0, 20])
def test_types_that_torchvision_refuses_are_refused_with_its_error(box_type, score_type, count):
    boxes, scores, _ = scene(20)
    boxes, scores = boxes[:count].to(getattr(torch, box_type)), scores[:count].to(getattr(torch, score_type))
    expected = outcome(nms, boxes, scores, 0.5)
    with routed() as calls:
        assert outcome(nms, boxes, scores, 0.5) == expected
    taken = box_type == score_type and box_type in ("float32", "float64")
    assert calls == (Calls(1, 0) if taken else Calls(0, 1))
    assert (expected[0] is RuntimeError) == (not taken)


def test_arguments_of_every_shape_and_kind_have_the_outcome_of_torchvision():
    boxes, scores, _ = scene(20)
    negative = torch.complex(boxes, -boxes).conj().imag  # a view whose sign is not in its memory
    cases = [
        (boxes[0], scores, 0.5),
        (boxes[None], scores, 0.5),
        (boxes[:, :3], scores, 0.5),
        (boxes[:0, :0], scores[:0], 0.5),
        (torch.zeros(0), scores[:0], 0.5),
        (boxes, scores[:, None], 0.5),
        (boxes[:0], scores[:0, None], 0.5),
        (boxes, scores[:9], 0.5),
        (boxes[:0], scores, 0.5),
        (boxes, scores[0], 0.5),
        (boxes, None, 0.5),
        (boxes.to_sparse(), scores, 0.5),
        (boxes.to("meta"), scores.to("meta"), 0.5),
        (boxes, scores.to("meta"), 0.5),
        (boxes, scores, "0.5"),
        (boxes, scores, None),
        (boxes, scores, 1),
        (boxes, scores, True),
        (boxes, scores, 10**400),
        (boxes, scores, float("nan")),
        (boxes, scores, Fraction(1, 2)),
        (boxes, scores, torch.tensor(0.5)),
        (boxes, scores),
        (boxes.requires_grad_(), scores.clone().requires_grad_(), 0.5),
        (boxes.T.contiguous().T, scores.repeat_interleave(2)[::2], 0.5),
        (negative, scores, 0.5),
        (torch.nn.Parameter(boxes), scores, 0.5),
    ]
    for case in cases:
        for function in (nms, torch.ops.torchvision.nms):
            expected = outcome(function, *case)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # some calls do not reach the op
                with routed():
                    assert outcome(function, *case) == expected


class _Mine(Tensor):
    pass


class _Derived(_Mine):
    pass


class _Others(Tensor):
    pass


class _Hidden(Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl


class _Refusing(Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if "nms" in str(func):
            return NotImplemented
        return super().__torch_function__(func, types, args, kwargs)


CLASSES = [torch.Tensor, _Mine, _Derived, _Others, _Hidden, _Refusing, tv_tensors.BoundingBoxes]


def of_class(tensor, kind):
    if kind is tv_tensors.BoundingBoxes:
        return kind(tensor, format="XYXY", canvas_size=(100, 100))
    return tensor.as_subclass(kind)


@pytest.mark.parametrize("box_class", CLASSES)
@pytest.mark.parametrize("score_class", CLASSES[:-1])
def test_subclasses_of_tensors_have_the_outcome_of_torchvision(box_class, score_class):
    boxes, scores, labels = scene(50)
    boxes, scores = of_class(boxes, box_class), scores.as_subclass(score_class)
    for kept in ("Tensor", "TVTensor"):
        with tv_tensors.set_return_type(kept):
            expected = outcome(nms, boxes, scores, 0.5), outcome(batched_nms, boxes, scores, labels, 0.5)
            with routed() as calls:
                assert outcome(nms, boxes, scores, 0.5) == expected[0]
                assert outcome(batched_nms, boxes, scores, labels, 0.5) == expected[1]
        assert calls.answered == sum(kind is not TypeError for kind, *_ in expected)


def test_other_functions_are_themselves():
    boxes, scores, _ = scene(100)
    expected = torchvision.ops.box_iou(boxes, boxes), boxes.sort(dim=0, descending=True)
    with routed() as calls:
        assert torch.equal(torchvision.ops.box_iou(boxes, boxes), expected[0])
        assert torch.equal(boxes.sort(dim=0, descending=True).indices, expected[1].indices)
        assert calls == Calls(0, 0)
        nms(boxes, scores, 0.5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.create_unbacked_symint:FutureWarning")  # within torchvision
def test_code_compiled_before_is_routed_and_counted_too():
    torch._dynamo.reset()
    boxes, scores, _ = scene(300)
    expected = nms(boxes * 2, scores, 0.5)
    compiled = torch.compile(lambda boxes, scores: nms(boxes * 2, scores, 0.5), backend="eager")
    assert torch.equal(compiled(boxes, scores), expected)
    for times in (1, 3, 2):
        with routed() as calls:
            for _ in range(times):
                assert torch.equal(compiled(boxes, scores), expected)
        assert calls == Calls(times, 0)
        assert torch.equal(compiled(boxes, scores), expected)


@pytest.mark.slow
def test_compiled_code_with_a_subclass_goes_to_torchvision():
    """The op itself: torch cannot compile `torchvision.ops.nms` of a subclass in any mode."""
    torch._dynamo.reset()
    boxes, scores, _ = scene(300)
    compiled = torch.compile(lambda boxes, scores: torch.ops.torchvision.nms(boxes, scores, 0.5), backend="eager")
    with routed() as calls:
        keep = compiled(boxes.as_subclass(_Mine), scores)
    assert type(keep) is _Mine
    assert keep.tolist() == nms(boxes, scores, 0.5).tolist()
    assert calls == Calls(0, 1)


@pytest.mark.slow
def test_whole_detectors_can_be_routed():
    from tests.support.small_detectors import detections, detector, same  # noqa: PLC0415

    model = detector("RetinaNet")
    stock = detections(model)
    with routed() as calls:
        assert same(detections(model), stock)
    assert calls.answered > 0


def test_ultralytics_nms_of_its_own_is_led_and_counted_by_name_in_this_thread_alone():
    own = pytest.importorskip("ultralytics.utils.nms").TorchNMS
    boxes, scores, _ = scene(2000)
    scores = torch.linspace(0, 1, 2000)[torch.randperm(2000, generator=torch.Generator().manual_seed(0))]
    before, expected = vars(own)["nms"], own.nms(boxes, scores, 0.5)
    with ThreadPoolExecutor(1) as pool, routed() as calls:
        assert torch.equal(own.nms(boxes, scores, 0.5), expected)
        assert torch.equal(own.nms(boxes=boxes, scores=scores, iou_threshold=0.5), expected)
        pool.submit(own.nms, boxes, scores, 0.5).result()
        with routed():
            own.nms(boxes, scores, 0.5)
            own.nms(boxes.half(), scores.half(), 0.5)  # refused, and answered by ultralytics
    assert calls == Calls(0, 0, {"ultralytics' TorchNMS.nms": 3})
    assert str(calls).endswith("; calls of ultralytics' TorchNMS.nms: 3 answered")
    assert vars(own)["nms"] is before


def test_ultralytics_nms_of_its_own_has_other_ties_and_thresholds_than_torchvision():
    """It sorts scores with a sort that is not stable, and compares with the threshold as float32."""
    own = pytest.importorskip("ultralytics.utils.nms").TorchNMS
    differs = 0
    for seed in range(100):
        generator = torch.Generator().manual_seed(seed)
        corners, sizes = (torch.randint(0, 20, (60, 2), generator=generator).float() for _ in range(2))
        boxes, scores = torch.cat([corners, corners + sizes], 1), torch.rand(60, generator=generator)
        if seed % 2:
            scores = (scores * 5).round() / 5
        for iou_threshold in (0.0, 0.1, 0.3, 0.45, 0.6, 1.0):
            expected = own.nms(boxes, scores, iou_threshold)
            with routed() as calls:
                assert torch.equal(own.nms(boxes, scores, iou_threshold), expected)
            assert sum(calls.others.values()) == 1
            differs += not torch.equal(expected, nms(boxes, scores, iou_threshold))
    assert differs > 0
