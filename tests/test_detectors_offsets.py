"""NMS with labels is torchvision's, bit for bit: its offsets, its roundings, its ties."""

import contextlib

import pytest

torch = pytest.importorskip("torch")
torchvision = pytest.importorskip("torchvision")

from torchvision.ops import batched_nms  # noqa: E402

from hashnms.detectors import accelerate, accelerated, acceleration, profile  # noqa: E402
from hashnms.detectors._offsets import torchvision_keep  # noqa: E402
from hashnms.detectors.torchvision import Replacement  # noqa: E402
from tests.support.small_detectors import (  # noqa: E402
    ONE_STAGE,
    TWO_STAGE,
    detections,
    detector,
    images,
    nms_per_label,
    same,
)

EVERY = [*TWO_STAGE, *ONE_STAGE, "MobileNet"]


def crowd(count, num_labels, *, seed=0, dtype=torch.float32, ties=False):
    """Boxes in an image of 800 pixels, their scores and labels."""
    generator = torch.Generator().manual_seed(seed)
    centers = 800 * torch.rand(count // 8 + 1, 2, generator=generator)[torch.arange(count) // 8]
    centers += 8 * torch.randn(count, 2, generator=generator)
    half_sizes = 15 + 10 * torch.rand(count, 2, generator=generator)
    boxes = torch.cat([centers - half_sizes, centers + half_sizes], 1).clamp(0, 800)
    scores = torch.rand(count, generator=generator)
    if ties:
        scores = (scores * 20).round() / 20
    return boxes.to(dtype), scores, num_labels - torch.randint(1, 4, (count,), generator=generator)


def autocast(dtype=torch.bfloat16):
    return torch.autocast("cpu", dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("count", [0, 1, 300, 999, 1000, 1001, 4000])
def test_the_rows_are_those_of_batched_nms(count, dtype):
    """Where it adds offsets, up to 1,000 boxes, and where it does not."""
    moved = 0
    for seed in range(12):
        boxes, scores, labels = crowd(count, 91 if seed % 3 else 4, seed=seed, dtype=dtype, ties=seed % 2 == 0)
        scores = scores.to(dtype) if seed % 4 == 0 or dtype == torch.float64 else scores
        iou_threshold = [0.3, 0.5, 0.7][seed % 3]
        with autocast() if dtype.itemsize == 2 else contextlib.nullcontext():
            expected = batched_nms(boxes, scores, labels, iou_threshold)
            for most in (None, -1, 0, 7, 100_000):
                keep = torchvision_keep(boxes, scores, labels, iou_threshold, most)
                assert torch.equal(keep, expected[:most])
            moved += not torch.equal(expected, nms_per_label(boxes, scores, labels, iou_threshold))
    if dtype.itemsize == 2 and 300 <= count <= 1000:
        assert moved > 0  # the offsets matter


def test_offsets_beyond_the_type_are_left_to_torchvision():
    """Float16 ends at 65,504: label 90 of an image of 800 pixels is beyond."""
    boxes, scores, labels = crowd(500, 91, dtype=torch.float16)
    with autocast():
        expected = batched_nms(boxes, scores, labels, 0.5)
        assert torch.equal(torchvision_keep(boxes, scores, labels, 0.5, None), expected)
        assert len(expected) > len(torchvision_keep(boxes, scores, labels, 0.5, None, exact_labels=True))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_without_autocast_is_computed_as_with_it(dtype):
    """Torchvision's op refuses it on the CPU."""
    boxes, scores, labels = crowd(500, 4, dtype=dtype)
    scores = scores.to(dtype)
    with pytest.raises(RuntimeError, match="not implemented for"):
        batched_nms(boxes, scores, labels, 0.5)
    with autocast():
        expected = batched_nms(boxes, scores, labels, 0.5)
    assert torch.equal(torchvision_keep(boxes, scores, labels, 0.5, None), expected)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_boxes_that_are_not_finite_are_an_error_that_names_their_row(value):
    boxes, scores, labels = crowd(100, 4)
    boxes[17, 2 if value > 0 else 0] = value
    with pytest.raises(ValueError, match=r"boxes must be finite, got .* in row 17 "):
        torchvision_keep(boxes, scores, labels, 0.5, None)


def test_boxes_left_of_the_origin_meet_other_labels_as_in_torchvision():
    """Its offset is the largest coordinate plus 1: labels whose boxes are farther apart than that overlap."""
    boxes = torch.tensor([[-100.0, -100.0, -90.0, -90.0], [-10.0, -10.0, 0.0, 0.0], [-11.0, -11.0, -1.0, -1.0]])
    scores, labels = torch.tensor([0.9, 0.8, 0.7]), torch.tensor([0, 1, 2])
    expected = batched_nms(boxes, scores, labels, 0.5)
    assert expected.tolist() == [0, 1]
    assert torch.equal(torchvision_keep(boxes, scores, labels, 0.5, None), expected)
    assert torchvision_keep(boxes, scores, labels, 0.5, None, exact_labels=True).tolist() == [0, 1, 2]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("count", [0, 300, 1000, 3000])
def test_exact_labels_are_those_of_one_call_for_each_label(count, dtype):
    for seed in range(6):
        boxes, scores, labels = crowd(count, 91, seed=seed, dtype=dtype)
        with autocast() if dtype.itemsize == 2 else contextlib.nullcontext():
            expected = nms_per_label(boxes, scores, labels, 0.5)
            keep, kept_scores = Replacement(exact_labels=True)(boxes, scores, labels, 0.5, 50)
        assert torch.equal(keep, expected[:50])
        assert torch.equal(kept_scores, scores[keep])


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", EVERY)
def test_models_detect_the_same(name, precision):
    """A batch of images of several sizes, also under autocast."""
    generator = torch.Generator().manual_seed(1)
    batch = [torch.rand(3, *size, generator=generator) for size in [(112, 140), (64, 64), (121, 243), (150, 112)]]
    model = detector(name, 3)
    with torch.no_grad(), autocast() if precision == "bfloat16" else contextlib.nullcontext():
        expected = model(batch)
        with accelerated(model):
            assert same(model(batch), expected)
    assert sum(len(result["boxes"]) for result in expected) > 20


@pytest.mark.slow
def test_exact_labels_are_an_option_that_shows():
    model = detector("MobileNet", 3)
    shown, rpn, heads = (
        "exact NMS, exact labels, by hashnms",
        "rpn.filter_proposals",
        "roi_heads.postprocess_detections",
    )
    with autocast(), accelerated(model, exact_labels=True):
        exact = detections(model)
        assert acceleration(model) == {rpn: shown, heads: shown}
        assert f"filter_proposals: {shown}" in repr(model)
        accelerate(model)
        assert not same(detections(model), exact)
        accelerate(model, final="nms:0.5", exact_labels=True)
        assert acceleration(model) == {rpn: shown, heads: "nms:0.5 by hashnms"}
    assert len(profile(model, images(), exact_labels=True, rounds=1).parts) > 4
    for function in (accelerate, profile):
        with pytest.raises(TypeError, match="exact_labels must be True or False, got 'yes'"):
            function(model, *([images()] if function is profile else []), exact_labels="yes")
    assert acceleration(model) == {rpn: "torchvision's own", heads: "torchvision's own"}
