"""HNMS in plain torch operations, and all functions on tensors that are not on the CPU, against the core."""

import sys
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hashnms
from hashnms import Suppression
from hashnms.boxes import to_xyxy
from hashnms.hashing import hash_family
from hashnms.synthetic import PRESETS, WORST_CASES, make_scene
from tests.support.boxes import BOX_KINDS, boxes_and_scores, boxes_around_every_edge, real_images

torch = pytest.importorskip("torch")

from hashnms.torch import device, hnms_mask, portable  # noqa: E402
from hashnms.torch.device import DeviceCandidates  # noqa: E402
from hashnms.torch.registration import implementations  # noqa: E402
from tests.support.elsewhere import DEVICE, Elsewhere  # noqa: E402
from tests.support.tensors import FUNCTIONS, tensor_of  # noqa: E402

ALPHAS = [0.3, 0.5, 0.7, 0.73, 0.9, 0.99]


def device_boxes(boxes, scores, labels=None, box_format="xyxy"):
    return DeviceCandidates.plain(tensor_of(boxes), tensor_of(scores), tensor_of(labels), None, box_format)


def assert_as_core(boxes, scores, labels=None, box_format="xyxy", alpha=0.7, num_hashes=1):
    settings = {"alpha": alpha, "num_hashes": num_hashes, "labels": labels, "box_format": box_format}
    rows = device.hnms(device_boxes(boxes, scores, labels, box_format), hash_family(alpha, num_hashes))
    assert rows.dtype == torch.int64
    assert np.array_equal(rows.numpy(), hashnms.hnms(boxes, scores, **settings))


@pytest.mark.parametrize("kind", BOX_KINDS)
def test_plain_torch_keeps_what_the_core_keeps(kind):
    rng = np.random.default_rng(50)
    boxes, scores, ties = BOX_KINDS[kind](rng, 1000), rng.random(1000), rng.integers(-4, 4, 1000) / 4
    labels = rng.integers(-(2**62), 2**62, 4)[rng.integers(0, 4, 1000)]
    for dtype, alpha in product([np.float32, np.float64], ALPHAS):
        assert_as_core(boxes.astype(dtype), scores.astype(dtype), alpha=alpha)
        assert_as_core(boxes.astype(dtype), ties.astype(dtype), labels, alpha=alpha, num_hashes=3)


@given(boxes_and_scores(), st.sampled_from(ALPHAS), st.integers(1, 3), st.sampled_from(["xyxy", "xywh", "cxcywh"]))
def test_plain_torch_keeps_what_the_core_keeps_of_any_boxes(data, alpha, num_hashes, box_format):
    boxes, scores = data
    if box_format != "xyxy":
        boxes = np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], axis=1)
    assert_as_core(boxes, scores, None, box_format, alpha, num_hashes)


@pytest.mark.parametrize("preset", PRESETS)
def test_plain_torch_keeps_what_the_core_keeps_of_scenes(preset):
    scene = make_scene(preset, 9000)
    for num_hashes in (1, 4):
        assert_as_core(scene.boxes, scene.scores, scene.labels, num_hashes=num_hashes)


@pytest.mark.parametrize("shape", WORST_CASES)
def test_plain_torch_keeps_what_the_core_keeps_of_worst_cases(shape):
    boxes = WORST_CASES[shape](2000).astype(np.float64)
    scores = np.random.default_rng(51).random(2000)
    if shape == "sizes from 1e-3 to 1e6":  # so small and so far from the origin that the host computes it
        assert device.hnms(device_boxes(boxes, scores), hash_family(0.7, 2)) is None
        boxes /= 16
        boxes[:, 2:] += 1
    assert_as_core(boxes, scores, num_hashes=2)


@pytest.mark.parametrize("file", real_images())
def test_plain_torch_keeps_what_the_core_keeps_of_real_detections(file):
    image = np.load(file)
    assert_as_core(image["boxes"], image["scores"], num_hashes=2)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_sizes_around_every_edge_fall_into_the_cells_of_the_core(alpha):
    """The logarithm only estimates: the numbers next to an edge on both sides end up where the table says."""
    boxes = boxes_around_every_edge(alpha)
    assert len(boxes) > 3 / (1 - alpha)
    x, y = portable.hash_boxes(torch.from_numpy(boxes), hashnms.IoUHash(alpha), "cxcywh")
    first = hashnms._core.float32_cells(alpha, 1.0)[0]
    codes = hashnms.iou_hash(boxes, alpha=alpha, box_format="cxcywh")
    assert np.array_equal(x.index.numpy() + first, codes[:, 0])
    assert np.array_equal(y.index.numpy() + first, codes[:, 1])


@pytest.mark.parametrize(
    ("boxes", "reason"),
    [
        ([[0.0, 0.0, 1.0, np.nan]], "invalid"),
        ([[0.0, 0.0, np.inf, 1.0]], "invalid"),
        ([[np.inf, 0.0, np.inf, 1.0]], "invalid"),
        ([[2.0, 0.0, 1.0, 1.0]], "invalid"),
        ([[0.0, 0.0, 1e-60, 1.0]], "size"),
        ([[0.0, 0.0, 1e60, 1.0]], "size"),
        ([[1e9, 0.0, 1e9 + 1e-2, 1.0]], "offset"),
    ],
)
def test_what_the_tables_do_not_hold_is_left_to_the_host(boxes, reason):
    given_boxes = device_boxes(np.array([*boxes, [0.0, 0.0, 1.0, 1.0]]), np.ones(2))
    assert device.hnms(given_boxes, hash_family(0.7, 1)) is None
    assert given_boxes.are_valid() == (reason != "invalid")
    assert device.hnms(device_boxes(np.ones((2, 4)), np.ones(2)), hash_family(0.995, 1)) is None


def test_a_bad_score_is_left_to_the_host():
    given_boxes = device_boxes(np.ones((2, 4)), np.array([1.0, np.nan]))
    assert device.hnms(given_boxes, hash_family(0.7, 1)) is None
    assert not given_boxes.are_valid()


CHAINS = [
    "top:300",
    "limit:7",
    "score:0.5",
    "hnms:0.7/2",
    "nms:0.5",
    "top:100+hnms:0.73/1+nms:0.5+limit:30",
    "score:0.1+hnms:0.7/1+softnms:gaussian/0.5+limit:30",
    "hnms:0.999/1+top:2+limit:0",
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("chain", CHAINS)
def test_the_steps_of_a_device_are_those_of_the_host(chain, dtype):
    rng = np.random.default_rng(52)
    suppression = Suppression.parse(chain)
    for count in (0, 1, 800):
        boxes, scores = BOX_KINDS["random"](rng, count).astype(dtype), (rng.integers(0, 32, count) / 32).astype(dtype)
        for labels in (None, rng.integers(-3, 3, count)):
            keep, final_scores = suppression.run(device_boxes(boxes, scores, labels))
            expected = suppression(boxes, scores, labels)
            assert np.array_equal(keep.numpy(), expected.keep)
            assert np.array_equal(final_scores.numpy(), expected.scores)


def test_all_formats_are_hashed_as_corners_are():
    rng = np.random.default_rng(53)
    boxes = np.rint(rng.uniform(0, 50, (500, 4)))
    scores = rng.random(500)
    for box_format in ("xywh", "cxcywh"):
        rows = device.hnms(device_boxes(boxes, scores, None, box_format), hash_family(0.6, 2))
        corners = to_xyxy(boxes, box_format)
        assert np.array_equal(rows.numpy(), hashnms.hnms(corners, scores, alpha=0.6, num_hashes=2))


def to_device(array):
    return None if array is None else torch.from_numpy(array).to(DEVICE)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int16])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_give_on_another_device_what_they_give_here(name, dtype):
    rng = np.random.default_rng(54)
    boxes, scores = (10 * BOX_KINDS["random"](rng, 500)).astype(dtype), (100 * rng.random(500)).astype(dtype)
    for labels in (None, rng.integers(0, 3, 500)):
        arrays = boxes, scores, labels
        expected = FUNCTIONS[name](*arrays)
        with Elsewhere():
            results = FUNCTIONS[name](*map(to_device, arrays))
            assert all(result.device == DEVICE for result in results)
            for result, wanted in zip(results, expected, strict=True):
                assert result.cpu().numpy().dtype == wanted.dtype
                assert np.array_equal(result.cpu().numpy(), wanted)


def test_hnms_leaves_its_device_only_to_say_how_many_are_left_and_that_all_is_well():
    scene = make_scene("aerial", 2000)
    with Elsewhere() as elsewhere:
        boxes, scores, labels = map(to_device, (scene.boxes, scene.scores, scene.labels))
        hashnms.hnms(boxes, scores, labels=labels, num_hashes=4)  # the tables go there once
        elsewhere.numbers_moved = 0
        hashnms.hnms(boxes, scores, labels=labels, num_hashes=4)
        assert elsewhere.numbers_moved == 4 + 1
        hnms_mask(boxes, scores, labels=labels, num_hashes=4)
        assert elsewhere.numbers_moved == 2 * (4 + 1)


def test_only_what_hnms_leaves_goes_to_the_host():
    scene = make_scene("parking_lot", 5000)
    suppression = Suppression.parse("top:4000+hnms:0.7/2+nms:0.5")
    left = len(Suppression(suppression.steps[:2])(scene.boxes, scene.scores).keep)
    with Elsewhere() as elsewhere:
        boxes, scores = to_device(scene.boxes), to_device(scene.scores)
        suppression(boxes, scores)
        elsewhere.numbers_moved = 0
        kept, _ = suppression(boxes, scores)
        assert elsewhere.numbers_moved < 5 * left + 2 * len(kept) + 10
    assert 3 * left < len(scene.boxes)


def test_errors_on_another_device_name_the_row():
    boxes, scores = torch.ones(5, 4), torch.ones(5)
    boxes[3, 0] = torch.nan
    with Elsewhere():
        for name in FUNCTIONS:
            with pytest.raises(ValueError, match=r"boxes must be finite, got .* in row 3"):
                FUNCTIONS[name](boxes.to(DEVICE), scores.to(DEVICE), None)
        for other in (scores, scores.to("meta")):
            with pytest.raises(ValueError, match=r"scores must be on the device of boxes, lazy:0, got (cpu|meta)"):
                hashnms.hnms(boxes.to(DEVICE), other)
        with pytest.raises(ValueError, match="labels must be on the device of boxes, lazy:0, got cpu"):
            hashnms.hnms(boxes.to(DEVICE), scores.to(DEVICE), labels=torch.zeros(5, dtype=torch.int64))


def test_parameters_are_checked_on_another_device_too():
    with Elsewhere():
        boxes, scores = to_device(np.ones((5, 4), np.float32)), to_device(np.ones(5, np.float32))
        once = torch.ops.hashnms.hnms_once
        for call in (
            lambda: hashnms.hnms(boxes, scores, box_format="yxyx"),
            lambda: hnms_mask(boxes, scores, box_format="yxyx"),
            lambda: Suppression.parse("hnms:0.7")(boxes, scores, box_format="yxyx"),
            lambda: once(boxes, scores, None, None, 0.7, 1.0, 1.0, 0.0, 0.0, "yxyx"),
        ):
            with pytest.raises(ValueError, match="box_format must be one of xyxy, xywh, cxcywh, got 'yxyx'"):
                call()
        with pytest.raises(ValueError, match="w0 must be finite and above 0"):
            once(boxes, scores, None, None, 0.7, -1.0, 1.0, 0.0, 0.0, "xyxy")
        with pytest.raises(ValueError, match="alpha must be in"):
            hashnms.hnms(boxes, scores, alpha=2.0)


@pytest.mark.parametrize("box_format", ["xywh", "cxcywh"])
def test_infinite_corners_are_refused_on_another_device_too(box_format):
    boxes = np.array([[0, 0, 1, 1], [3e38, 0, 3e38, 1]], np.float32)
    scores = np.ones(2, np.float32)
    with Elsewhere():
        for call in (hashnms.hnms, hashnms.nms, Suppression.parse("top:1"), Suppression.parse("hnms:0.5/2+nms:0.5")):
            with pytest.raises(
                ValueError, match=r"boxes must have corners that are finite in float32, got .* in row 1"
            ):
                call(to_device(boxes), to_device(scores), box_format=box_format)


def test_an_error_of_a_later_step_names_the_row_of_the_input():
    boxes = np.array([[0, 0, 1, 1]] * 5 + [[1e300, 0, 1e300 * 1.0001, 1], [1e20, 0, 1e20 + 1e5, 1e-300]])
    with Elsewhere(), pytest.raises(ValueError, match="in row 6"):
        Suppression.parse("limit:2+hnms:0.7")(to_device(boxes), to_device(np.arange(7.0)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_whole_floats_are_labels_and_stay_there(dtype):
    scene = make_scene("aerial", 500)
    expected = hashnms.hnms(scene.boxes, scene.scores, labels=scene.labels)
    with Elsewhere() as elsewhere:
        boxes, scores, labels = map(to_device, (scene.boxes, scene.scores, scene.labels))
        hashnms.hnms(boxes, scores, labels=labels)
        elsewhere.numbers_moved = 0
        assert hashnms.hnms(boxes, scores, labels=labels.to(dtype)).cpu().tolist() == expected.tolist()
        assert elsewhere.numbers_moved == 1 + 1 + 1 + len(expected)
        for function in FUNCTIONS.values():
            for result, wanted in zip(
                function(boxes, scores, labels.to(dtype)), function(boxes, scores, labels), strict=True
            ):
                assert torch.equal(result.cpu(), wanted.cpu())
        for wrong in (1.5, torch.nan, torch.inf):
            bad = labels.to(dtype).index_fill(0, torch.tensor([7]).to(DEVICE), wrong)
            with pytest.raises(ValueError, match=r"labels must be whole numbers, got .* in row 7 \(1 such row\)"):
                hashnms.hnms(boxes, scores, labels=bad)


def test_idxs_elsewhere_are_those_of_torchvision():
    nan = torch.nan
    boxes, scores = np.tile(np.float32([0, 0, 9, 9]), (4, 1)), np.float32([0.1, 0.2, 0.3, 0.4])
    with Elsewhere():
        tensors = to_device(boxes), to_device(scores)
        idxs = torch.tensor([nan, nan, 0.5, 0.5]).to(DEVICE)
        assert hashnms.batched_nms(*tensors, idxs, 0.5).cpu().tolist() == [3, 1, 0]
        with pytest.raises(ValueError, match=r"idxs must be on the device of boxes, lazy:0, got cpu"):
            hashnms.batched_nms(*tensors, torch.zeros(4), 0.5)
        with pytest.raises(ValueError, match=r"idxs must have shape \(4,\), one for each box, got \(3,\)"):
            hashnms.batched_nms(*tensors, idxs[:3], 0.5)


def test_a_score_is_compared_with_the_threshold_as_a_double():
    boxes, scores = np.zeros((2, 4), np.float32), np.array([0.1, 0.2], np.float32)  # the first is above 0.1
    with Elsewhere():
        assert Suppression.parse("score:0.1")(to_device(boxes), to_device(scores)).keep.cpu().tolist() == [1, 0]


def test_half_scores_come_back_as_float32_from_any_step():
    boxes, scores = np.zeros((2, 4), np.float16), np.ones(2, np.float16)
    with Elsewhere():
        for chain in ("limit:1", "score:0.5", "nms:0.5"):
            assert Suppression.parse(chain)(to_device(boxes), to_device(scores)).scores.dtype == torch.float32


def test_lists_beside_tensors_of_another_device_are_taken():
    implementation = implementations["hnms"]  # the op itself wants tensors
    with Elsewhere():
        boxes = to_device(np.array([[0, 0, 9, 9], [0, 0, 9, 9.5], [20, 0, 29, 9]], np.float32))
        assert implementation(boxes, [0.5, 0.6, 0.7], [1, 1, 1], None, 0.5, 1, "xyxy").cpu().tolist() == [2, 1]


def test_kernels_that_give_other_boxes_are_not_used():
    device.check_kernels(portable, torch.device("cpu"))

    class Wrong:
        def hnms(self, *arguments):
            rows, fits = portable.hnms(*arguments)
            return rows.flip(0), fits

    with pytest.raises(RuntimeError, match="keep different boxes"):
        device.check_kernels(Wrong(), torch.device("cpu"))


def test_no_kernels_mean_plain_torch_and_a_warning(monkeypatch):
    monkeypatch.setitem(sys.modules, "hashnms.torch.kernels", None)
    device._triton_kernels.cache_clear()
    with pytest.warns(RuntimeWarning, match="hashnms uses plain torch operations on cpu: "):
        assert device._triton_kernels(torch.device("cpu")) is None
    device._triton_kernels.cache_clear()
