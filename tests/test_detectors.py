"""torchvision's detectors with hashnms in place of their NMS."""

import copy

import numpy as np
import pytest

import hashnms
from hashnms import Suppression

torch = pytest.importorskip("torch")
torchvision = pytest.importorskip("torchvision")

from torchvision.ops import clip_boxes_to_image  # noqa: E402

from hashnms.detectors import accelerate, accelerated, restore  # noqa: E402
from hashnms.detectors.torchvision import PLACES, Replacement, rpn_proposals  # noqa: E402
from tests.support.small_detectors import ONE_STAGE, TWO_STAGE, detections, detector, images, same, targets  # noqa: E402

pytestmark = pytest.mark.slow  # whole models run
EVERY = TWO_STAGE + ONE_STAGE
PAPER_RPN = Suppression.parse("top:300+hnms:0.7/1+top:60+limit:100")
PAPER_ONE_STAGE = Suppression.parse("top:400+hnms:0.73/1+nms:0.5+limit:50")


def raw_arguments(model, method="postprocess_detections"):
    """What the method is given in a forward pass."""
    module = next(module for module in model.modules() if hasattr(type(module), method))
    taken = []

    def take(*args):
        taken.append(args)
        return getattr(type(module), method)(module, *args)

    setattr(module, method, take)
    try:
        detections(model)
    finally:
        delattr(module, method)
    return taken[0]


@pytest.mark.parametrize("name", EVERY)
def test_without_arguments_the_detections_are_those_of_torchvision(name):
    model = detector(name)
    stock = detections(model)
    with accelerated(model):
        assert same(detections(model), stock)
    assert all(len(result["boxes"]) > 0 for result in stock)


@pytest.mark.parametrize("name", TWO_STAGE)
def test_without_arguments_losses_and_proposals_in_training_are_those_of_torchvision(name):
    model = copy.deepcopy(detector(name)).train()

    def losses():
        torch.manual_seed(0)  # samples are drawn
        return model(images(), targets(name))

    stock = losses()
    with accelerated(model):
        assert same([losses()], [stock])


@pytest.mark.parametrize("steps", [1, 0.25, 1e-6])
@pytest.mark.parametrize("limit", [5, 200, 2000])
def test_where_scores_tie_proposals_come_in_the_order_of_torchvision(steps, limit):
    """Its last sort is not stable, so it also decides which of the tied boxes are within the limit."""
    rpn = detector("Faster R-CNN").rpn
    generator = torch.Generator().manual_seed(1)
    corners = torch.rand(2, 3000, 2, generator=generator) * 100
    boxes = torch.cat([corners, corners + 5 + torch.rand(2, 3000, 2, generator=generator) * 20], -1)
    objectness = (torch.randn(2, 3000, generator=generator) / steps).round() * steps
    arguments = (boxes, objectness, [(120, 130), (130, 120)], [1999, 801, 200])
    counts = copy.copy(rpn._pre_nms_top_n), copy.copy(rpn._post_nms_top_n)
    rpn._pre_nms_top_n["testing"], rpn._post_nms_top_n["testing"] = 1500, limit
    try:
        stock = rpn.filter_proposals(*arguments)
        ours = rpn_proposals(rpn, Replacement(), *arguments)
    finally:
        rpn._pre_nms_top_n, rpn._post_nms_top_n = counts
    for mine, theirs in zip(ours, stock, strict=True):
        assert all(map(torch.equal, mine, theirs))
        assert all(len(of_image) <= limit for of_image in mine)


def proposals_by_hand(arguments, alpha, num_hashes, p1, p2, p3, min_size=1e-3):
    """P1, HNMS, P2 level by level in NumPy, then P3."""
    boxes_of_images, objectness, shapes, counts = arguments
    levels = objectness.reshape(len(shapes), -1).split(counts, 1)
    best = [logits.topk(min(p1, logits.shape[1]), dim=1) for logits in levels]
    scores_of_levels = torch.cat([logits for logits, _ in best], 1).sigmoid().split([len(r[0]) for _, r in best], 1)
    results = []
    for image, shape in enumerate(shapes):
        kept = []
        for level, (_, rows) in enumerate(best):
            boxes = boxes_of_images[image].split(counts)[level][rows[image]]
            boxes, scores = clip_boxes_to_image(boxes, shape).numpy(), scores_of_levels[level][image].numpy()
            large = ((boxes[:, 2:] - boxes[:, :2]) >= min_size).all(1)
            boxes, scores = boxes[large], scores[large]
            keep = hashnms.hnms(boxes, scores, alpha=alpha, num_hashes=num_hashes)[:p2]
            kept.append((boxes[keep], scores[keep]))
        boxes, scores = (np.concatenate(parts) for parts in zip(*kept, strict=True))
        order = np.argsort(-scores, kind="stable")[:p3]
        results.append((boxes[order], scores[order]))
    return results


@pytest.mark.parametrize("num_hashes", [1, 3])
@pytest.mark.parametrize(("p1", "p2", "p3"), [(300, 60, 100), (9000, 40, 4000), (50, 2000, 4000)])
def test_the_proposals_of_hnms_are_those_of_the_core_by_hand(num_hashes, p1, p2, p3):
    model = detector("Faster R-CNN")
    arguments = raw_arguments(model, "filter_proposals")
    suppression = Suppression.parse(f"top:{p1}+hnms:0.7/{num_hashes}+top:{p2}+limit:{p3}")
    by_hand = proposals_by_hand(arguments, 0.7, num_hashes, p1, p2, p3)
    with accelerated(model, proposals=suppression):
        boxes, scores = model.rpn.filter_proposals(*arguments)
    for image, (expected_boxes, expected_scores) in enumerate(by_hand):
        np.testing.assert_array_equal(boxes[image].numpy(), expected_boxes)
        np.testing.assert_array_equal(scores[image].numpy(), expected_scores)
        assert 0 < len(expected_boxes) <= p3


def test_what_a_suppression_does_not_say_stays_as_the_model_has_it():
    model = detector("Faster R-CNN")
    arguments = raw_arguments(model, "filter_proposals")
    by_hand = proposals_by_hand(arguments, 0.7, 1, 900, 2**60, 200)  # the model's own numbers
    with accelerated(model, proposals=Suppression.parse("hnms:0.7/1")):
        boxes, _ = model.rpn.filter_proposals(*arguments)
    for image, (expected, _) in enumerate(by_hand):
        np.testing.assert_array_equal(boxes[image].numpy(), expected)
        assert len(expected) == 200
    with accelerated(model, final=Suppression.parse("nms:0.9")):
        assert [len(result["boxes"]) for result in detections(model)] == [10, 10]
    with accelerated(model, final=Suppression.parse("nms:0.9+limit:30")):
        assert [len(result["boxes"]) for result in detections(model)] == [30, 30]


def test_limits_of_the_model_that_are_changed_later_hold():
    model = copy.deepcopy(detector("RetinaNet"))
    accelerate(model)
    model.detections_per_img = 3
    model.nms_thresh = 0.1
    ours = detections(model)
    assert same(ours, detections(restore(model)))
    assert [len(result["boxes"]) for result in ours] == [3, 3]


def candidates_by_hand(name, model, arguments, most):
    """Of each image: boxes, scores and labels of the best of each level, or in SSD of each class."""
    outputs, anchors, shapes = arguments
    for image, shape in enumerate(shapes):
        chosen = []
        if name == "SSD":
            scores = outputs["cls_logits"][image].softmax(-1)
            decoded = model.box_coder.decode_single(outputs["bbox_regression"][image], anchors[image])
            groups = [(scores[:, label], decoded, torch.full((len(scores),), label)) for label in range(1, 4)]
        else:
            groups = []
            for level, anchors_of_level in enumerate(anchors[image]):
                scores = outputs["cls_logits"][level][image].sigmoid()
                decode = model.box_coder.decode_single if name == "RetinaNet" else model.box_coder.decode
                if name == "FCOS":
                    scores = (scores * outputs["bbox_ctrness"][level][image].sigmoid()).sqrt()
                decoded = decode(outputs["bbox_regression"][level][image], anchors_of_level)
                labels = torch.arange(4).repeat(len(scores))
                groups.append((scores.flatten(), decoded.repeat_interleave(4, 0), labels))
        for scores, decoded, labels in groups:
            above = (scores > model.score_thresh).nonzero()[:, 0]
            rows = above[scores[above].topk(min(most, len(above))).indices]
            chosen.append((clip_boxes_to_image(decoded[rows], shape), scores[rows], labels[rows]))
        yield [torch.cat(parts).numpy() for parts in zip(*chosen, strict=True)]


@pytest.mark.parametrize("last", ["nms:0.5", "softnms:gaussian/0.5", "softnms:linear/0.3"])
@pytest.mark.parametrize("name", ONE_STAGE)
def test_one_stage_detections_are_those_of_the_core_by_hand(name, last):
    """HNMS of the best 400 of each level, then NMS or Soft-NMS, all by class; at most 200 come out."""
    model = detector(name)
    arguments = raw_arguments(model)
    with accelerated(model, final=Suppression.parse(f"top:400+hnms:0.73/2+{last}+limit:200")):
        results = model.postprocess_detections(*arguments)
    for result, (boxes, scores, labels) in zip(results, candidates_by_hand(name, model, arguments, 400), strict=True):
        first = np.sort(hashnms.hnms(boxes, scores, alpha=0.73, num_hashes=2, labels=labels))
        keep, final = Suppression.parse(last)(boxes[first], scores[first], labels[first])
        rows = first[keep[:200]]
        np.testing.assert_array_equal(result["boxes"].numpy(), boxes[rows])
        np.testing.assert_array_equal(result["scores"].numpy(), final[:200])
        np.testing.assert_array_equal(result["labels"].numpy(), labels[rows])
        assert 50 < len(rows) <= 200
        assert name != "RetinaNet" or "gaussian" not in last or (result["scores"].numpy() < scores[rows]).any()


def test_nms_at_one_is_no_suppression():
    model = detector("RetinaNet")
    arguments = raw_arguments(model)
    with accelerated(model, final=Suppression.parse("top:30+nms:1")):
        results = model.postprocess_detections(*arguments)
    for result, (_, scores, _) in zip(results, candidates_by_hand("RetinaNet", model, arguments, 30), strict=True):
        np.testing.assert_array_equal(result["scores"].numpy(), np.sort(scores)[::-1])


def test_a_top_in_the_roi_head_is_of_each_class():
    model = detector("Faster R-CNN")
    with accelerated(model, final=Suppression.parse("top:4+nms:1+limit:100")):
        for result in detections(model):
            assert result["labels"].bincount().tolist() == [0, 4, 4, 4]


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("settings", [{}, {"final": PAPER_ONE_STAGE}])
def test_a_training_step_has_finite_gradients(name, settings):
    model = copy.deepcopy(detector(name)).train()
    if name in TWO_STAGE:
        settings = {**settings, "proposals": PAPER_RPN}
    loss = sum(accelerate(model, **settings)(images(), targets(name)).values())
    loss.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    assert gradients
    assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("name", EVERY)
def test_images_without_detections_are_no_error(name):
    model = copy.deepcopy(detector(name))
    for module in model.modules():
        if hasattr(module, "score_thresh"):
            module.score_thresh = 2.0  # of the RPN, too
    stock = detections(model)
    assert same(detections(accelerate(model)), stock)
    assert same(detections(accelerate(model, final=PAPER_ONE_STAGE)), stock)
    assert all(len(result["boxes"]) == 0 for result in stock)


def test_a_model_in_another_keeps_its_gradients_through_the_boxes_that_are_kept():
    """In eval mode with autograd, as in torchvision: what is kept is indexed, not copied."""
    model = detector("Faster R-CNN")
    with accelerated(torch.nn.Sequential(model), proposals=PAPER_RPN, final=Suppression.parse("hnms:0.7/1")):
        result = model(images())[0]
    assert result["boxes"].requires_grad
    assert result["scores"].requires_grad


def test_models_on_another_device_stay_there():
    """The RPN's part on a device that is not there: HNMS runs on it, exact NMS on what is copied."""
    from tests.support.elsewhere import DEVICE, Elsewhere, ElsewhereTensor  # noqa: PLC0415

    model = detector("Faster R-CNN")
    boxes, objectness, shapes, counts = raw_arguments(model, "filter_proposals")
    for suppression in (None, PAPER_RPN):
        replacement = PLACES[0].replacement(suppression, None)
        expected = rpn_proposals(model.rpn, replacement, boxes, objectness, shapes, counts)
        with Elsewhere():
            there = (ElsewhereTensor(boxes), ElsewhereTensor(objectness))
            results = rpn_proposals(model.rpn, replacement, *there, shapes, counts)
        for mine, theirs in zip(results, expected, strict=True):
            assert all(tensor.device == DEVICE for tensor in mine)
            assert all(map(torch.equal, (tensor.inner for tensor in mine), theirs))
