"""Calls of torchvision's NMS that are led to hashnms."""

from concurrent.futures import ThreadPoolExecutor

import pytest

import hashnms
from hashnms.synthetic import make_scene

torch = pytest.importorskip("torch")
torchvision = pytest.importorskip("torchvision")

from torchvision.ops import batched_nms, nms  # noqa: E402  references of one's own are routed as well

from hashnms.detectors import routed, routing  # noqa: E402


@pytest.fixture
def calls(monkeypatch):
    """The numbers of boxes that came to hashnms."""
    counted = []

    def counting(boxes, *args, **kwargs):
        counted.append(len(boxes))
        return hashnms.nms(boxes, *args, **kwargs)

    monkeypatch.setattr(routing, "nms", counting)
    return counted


def scene(count, dtype=torch.float32):
    made = make_scene("parking_lot", count, seed=3)
    scores = (torch.from_numpy(made.scores) * 50).round() / 50  # they tie
    return torch.from_numpy(made.boxes).to(dtype), scores.to(dtype), torch.arange(count) % 5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("count", [0, 1, 500, 5000])
def test_the_results_are_those_of_torchvision_index_by_index(count, dtype, calls):
    boxes, scores, labels = scene(max(count, 1), dtype)
    boxes, scores, labels = boxes[:count], scores[:count], labels[:count]
    for iou_threshold in (0.0, 0.3, 0.5, 0.75, 1.0):
        one, many = nms(boxes, scores, iou_threshold), batched_nms(boxes, scores, labels, iou_threshold)
        calls.clear()
        with routed():
            assert torch.equal(nms(boxes, scores, iou_threshold), one)
            assert torch.equal(torchvision.ops.batched_nms(boxes, scores, labels, iou_threshold), many)
            assert torch.equal(torch.ops.torchvision.nms(dets=boxes, scores=scores, iou_threshold=iou_threshold), one)
        assert len(calls) >= (3 if count else 2)


def test_only_within_the_block_and_only_in_this_thread(calls):
    boxes, scores, _ = scene(100)

    def elsewhere():
        nms(boxes, scores, 0.5)
        return len(calls)

    with ThreadPoolExecutor(1) as pool, routed():
        assert pool.submit(elsewhere).result() == 0
        nms(boxes, scores, 0.5)
        assert calls == [100]
    nms(boxes, scores, 0.5)
    assert calls == [100]


@pytest.mark.parametrize("iou_threshold", [-0.5, 0.5, 1.5, torch.tensor(0.5)])
def test_what_hashnms_refuses_is_answered_by_torchvision(iou_threshold, calls):
    boxes, scores, _ = scene(100)
    masked = scores.masked_fill(scores < 0.3, -torch.inf)
    nan_box = boxes.index_fill(0, torch.tensor([3]), torch.nan)
    for some_boxes, some_scores in ((boxes, masked), (nan_box, scores), (boxes[:, [2, 3, 0, 1]], scores)):
        expected = nms(some_boxes, some_scores, iou_threshold)
        with routed():
            assert torch.equal(nms(some_boxes, some_scores, iou_threshold), expected)
    assert len(calls) == 3
    with routed(), pytest.raises(RuntimeError, match="boxes should be a 2d tensor"):
        nms(boxes[0], scores, 0.5)


def test_other_functions_are_themselves(calls):
    boxes, _, _ = scene(100)
    expected = torchvision.ops.box_iou(boxes, boxes), boxes.sort(dim=0, descending=True)
    with routed():
        assert torch.equal(torchvision.ops.box_iou(boxes, boxes), expected[0])
        assert torch.equal(boxes.sort(dim=0, descending=True).indices, expected[1].indices)
    assert calls == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.create_unbacked_symint:FutureWarning")  # within torchvision
def test_code_compiled_before_is_routed_too(calls):
    boxes, scores, _ = scene(300)
    expected = nms(boxes * 2, scores, 0.5)
    compiled = torch.compile(lambda boxes, scores: nms(boxes * 2, scores, 0.5), backend="eager")
    assert torch.equal(compiled(boxes, scores), expected)
    assert calls == []
    with routed():
        assert torch.equal(compiled(boxes, scores), expected)
    assert calls == [300]
    assert torch.equal(compiled(boxes, scores), expected)
    assert calls == [300]


@pytest.mark.slow
def test_whole_detectors_can_be_routed(calls):
    from tests.support.small_detectors import detections, detector, same  # noqa: PLC0415

    model = detector("RetinaNet")
    stock = detections(model)
    assert calls == []
    with routed():
        assert same(detections(model), stock)
    assert calls
