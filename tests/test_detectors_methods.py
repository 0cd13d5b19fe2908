"""Each function against the torchvision method that it replaces, on difficult outputs of heads."""

import copy

import pytest

from hashnms import Suppression

torch = pytest.importorskip("torch")
torchvision = pytest.importorskip("torchvision")

from hashnms.detectors.torchvision import PLACES, Replacement  # noqa: E402
from tests.support.small_detectors import detector  # noqa: E402

SHAPES = [(90, 120), (100, 80)]


class Drawn:
    """Numbers of a seeded generator: logits that tie, boxes of all sizes down to a hundredth of a pixel."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def logits(self, *shape):
        steps = [1, 4, 16, 2**20][self.integer(0, 4)]
        return (3 * torch.randn(*shape, generator=self.generator) * steps).round() / steps

    def deltas(self, *shape):
        return 0.3 * torch.randn(*shape, generator=self.generator)

    def boxes(self, count):
        center = 110 * torch.rand(count, 2, generator=self.generator)
        half_size = 10 ** (-2.5 + 4 * torch.rand(count, 2, generator=self.generator))
        return torch.cat([center - half_size, center + half_size], 1)

    def integer(self, least, beyond):
        return int(torch.randint(least, beyond, (), generator=self.generator))

    def one_of(self, values):
        """One of the values, to be a threshold that some score equals."""
        return float(values.detach().flatten()[self.integer(0, values.numel())])


def rpn_case(draw):
    rpn = copy.copy(detector("Faster R-CNN").rpn)
    counts = [draw.integer(1, 1500), draw.integer(1, 400), draw.integer(1, 20)]
    boxes = torch.stack([draw.boxes(sum(counts)) for _ in SHAPES])
    objectness = draw.logits(2 * sum(counts), 1).requires_grad_()
    rpn.score_thresh = draw.one_of(objectness.sigmoid())
    rpn._pre_nms_top_n = {"testing": draw.integer(1, 900)}
    rpn._post_nms_top_n = {"testing": draw.integer(0, 300)}
    rpn.min_size = draw.one_of(boxes[..., 2] - boxes[..., 0])
    return rpn, (boxes, objectness, SHAPES, counts)


def roi_case(draw):
    heads = copy.copy(detector("Faster R-CNN").roi_heads)
    counts, classes = [draw.integer(0, 500), draw.integer(0, 500)], draw.integer(2, 6)
    logits = draw.logits(sum(counts), classes)
    heads.score_thresh = draw.one_of(logits.softmax(-1)) if sum(counts) else 0.5
    heads.detections_per_img = draw.integer(0, 300)
    return heads, (logits, draw.deltas(sum(counts), 4 * classes), [draw.boxes(count) for count in counts], SHAPES)


def dense_case(name, draw):
    model = copy.copy(detector(name))
    counts, classes = [draw.integer(1, 800), draw.integer(1, 200)], draw.integer(1, 5)
    outputs = {
        "cls_logits": [draw.logits(2, count, classes) for count in counts],
        "bbox_regression": [draw.deltas(2, count, 4) for count in counts],
        "bbox_ctrness": [draw.logits(2, count, 1) for count in counts],
    }
    if name == "FCOS":
        outputs["bbox_regression"] = [values.abs() for values in outputs["bbox_regression"]]
    model.score_thresh = draw.one_of(outputs["cls_logits"][0].sigmoid()) / 2 if draw.integer(0, 2) else 0.5
    return _limited(model, draw), (outputs, [[draw.boxes(count) for count in counts] for _ in SHAPES], SHAPES)


def ssd_case(draw):
    model = copy.copy(detector("SSD"))
    count, classes = draw.integer(1, 800), draw.integer(2, 5)
    outputs = {"cls_logits": draw.logits(2, count, classes), "bbox_regression": draw.deltas(2, count, 4)}
    model.score_thresh = draw.one_of(outputs["cls_logits"].softmax(-1))
    return _limited(model, draw), (outputs, [draw.boxes(count) for _ in SHAPES], SHAPES)


def _limited(model, draw):
    model.topk_candidates = draw.integer(0, 500)
    model.detections_per_img = [None, -3, draw.integer(0, 300)][draw.integer(0, 3)]
    return model


CASES = {
    "RegionProposalNetwork": rpn_case,
    "RoIHeads": roi_case,
    "RetinaNet": lambda draw: dense_case("RetinaNet", draw),
    "FCOS": lambda draw: dense_case("FCOS", draw),
    "SSD": ssd_case,
}


def leaves(result):
    return torch.utils._pytree.tree_leaves(result)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.kind.__name__)
def test_exact_nms_is_what_the_method_does(place):
    """Scores equal to the threshold, sizes equal to the least, ties across every limit, no boxes at all."""
    num_boxes = 0
    for seed in range(60):
        draw = Drawn(seed)
        module, arguments = CASES[place.kind.__name__](draw)
        module.nms_thresh = [0.0, 0.3, 0.5, 0.7, 1.0, 1.5][seed % 6]
        expected = leaves(getattr(place.kind, place.method)(module, *arguments))
        results = leaves(place.function(module, Replacement(), *arguments))
        assert len(results) == len(expected)
        for mine, theirs in zip(results, expected, strict=True):
            assert torch.equal(mine, theirs)
            assert mine.dtype == theirs.dtype
            assert mine.requires_grad == theirs.requires_grad
        num_boxes += len(expected[0])
    assert num_boxes > 500


def test_a_tie_across_the_limit_is_decided_as_torchvision_does():
    generator = torch.Generator().manual_seed(0)
    corner = 20.0 * torch.arange(1200)[:, None].expand(-1, 2)
    boxes, labels = torch.cat([corner, corner + 10], 1), torch.arange(1200) % 2
    for limit in range(10, 1100, 40):
        ranks = torch.arange(1200.0)
        ranks[limit] = limit - 1
        scores = 1 - ranks[torch.randperm(1200, generator=generator)] / 2048
        expected = torchvision.ops.batched_nms(boxes, scores, labels, 0.5)[:limit]
        keep, _ = Replacement()(boxes, scores, labels, 0.5, limit)
        assert torch.equal(keep, expected)
        assert (scores == scores[expected[-1]]).sum() == 2


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("notation", ["hnms:0.7/1", "nms:0.5", "softnms", "softnms:linear/0.3+limit:9"])
def test_scores_keep_their_type(notation, dtype):
    boxes = torch.tensor([[0.0, 0.0, 10.0, 10.0], [1.0, 0.0, 11.0, 10.0]]).repeat(20, 1).to(dtype)
    scores, labels = torch.linspace(0.5, 0.9, 40).to(dtype), torch.arange(40) % 13
    keep, kept_scores = Replacement(Suppression.parse(notation))(boxes, scores, labels, 0.5, 20)
    assert kept_scores.dtype == dtype
    assert len(keep) == len(kept_scores) <= (9 if "limit" in notation else 20)
    assert torch.equal(kept_scores, scores[keep]) == ("gaussian" not in str(Suppression.parse(notation)))
