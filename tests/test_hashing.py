"""IoUHash: codes against the paper in decimal arithmetic, and the guaranteed IoU bound."""

import decimal
import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hashnms import IoUHash, _core, alpha_for_bound, hash_family, iou_hash, iou_lower_bound, reference
from hashnms.boxes import pairwise_iou
from tests.support.boxes import BOX_KINDS, boxes_and_scores

pytestmark = pytest.mark.core

EXPECTED_FAMILY = hash_family(0.61, 3)
INT64_MIN = np.iinfo(np.int64).min

# Edges of cells are powers of 2 for 0.25; (1 - alpha) / (1 + alpha) is 1/4 for 0.6; 0.64 and 0.81 have short roots.
ALPHAS = [0.05, 0.25, 0.3, 0.5, 0.6, 0.64, 0.7, 0.73, 0.81, 0.95, 0.99, 0.995, 0.99999]


def reference_codes(boxes, **parameters):
    return [
        code if code is not None else (INT64_MIN if w == 0 else None, INT64_MIN if h == 0 else None)
        for code, (w, h, _, _) in zip(reference.iou_hash(boxes, **parameters), reference.whxy(boxes), strict=True)
    ]


def assert_same_codes(boxes, **parameters):
    """Codes are the reference's; a box without area has the least int64 where it has no size."""
    codes = iou_hash(boxes, **parameters)
    assert codes.dtype == np.int64
    assert codes.shape == (len(boxes), 4)
    for code, expected in zip(codes.tolist(), reference_codes(boxes, **parameters), strict=True):
        if len(expected) == 4:
            assert tuple(code) == expected
        else:
            assert all(want is None or got == want for got, want in zip(code[:2], expected, strict=True))


@pytest.mark.parametrize("kind", BOX_KINDS)
def test_codes_equal_the_reference(kind):
    boxes = BOX_KINDS[kind](np.random.default_rng(1), 40)
    for alpha in ALPHAS:
        assert_same_codes(boxes.astype(np.float32), alpha=alpha)
        assert_same_codes(boxes, alpha=alpha, w0=1.7, h0=0.3, bx=0.4, by=-2.5)


@given(boxes_and_scores(), st.sampled_from(ALPHAS), st.sampled_from([0.0, 0.25, 1 / 3, 0.5]))
def test_codes_equal_the_reference_on_any_boxes(data, alpha, shift):
    assert_same_codes(data[0], alpha=alpha, w0=alpha**-shift, h0=alpha**-shift, bx=shift, by=shift)


@pytest.mark.parametrize("alpha", [0.1, 0.25, 0.5, 0.7, 0.9, 0.97])
def test_a_width_on_the_edge_of_a_cell_belongs_to_it_and_the_next_below_does_not(alpha):
    first, edges, inverse_deltas = _core.float32_cells(alpha, 1.0)
    assert len(edges) == len(inverse_deltas)
    assert edges[0] <= 2.0**-149
    assert edges[-1] >= 2.0**129
    assert (np.diff(edges) > 0).all()
    for step in range(1, len(edges) - 1, max(1, len(edges) // 60)):
        index, edge = first + step, float(edges[step])
        at, below = (iou_hash([[0.0, 0.0, w, w]], alpha=alpha)[0].tolist() for w in (edge, math.nextafter(edge, 0)))
        assert at[:2] == [index, index]
        assert below[:2] == [index - 1, index - 1]
        assert at == list(reference.iou_hash([[0.0, 0.0, edge, edge]], alpha=alpha)[0])


def test_the_offset_is_rounded_half_up_on_both_sides_of_zero():
    """Eqn. 15 has half-open cells: alpha = 0.6 makes delta = 1/4 for a box of size 1."""
    centers = np.array([-0.375, -0.125, 0.125, 0.375])
    boxes = np.stack([centers - 0.5, centers - 0.5, centers + 0.5, centers + 0.5], axis=1)
    assert iou_hash(boxes, alpha=0.6)[:, 2].tolist() == [-1, 0, 1, 2]


def test_float32_and_float64_of_the_same_value_have_the_same_code():
    boxes = BOX_KINDS["random"](np.random.default_rng(2), 2000).astype(np.float32)
    assert np.array_equal(iou_hash(boxes, alpha=0.7), iou_hash(boxes.astype(np.float64), alpha=0.7))


def test_the_pair_that_collides_in_the_paper_has_two_codes():
    """One-pixel boxes at (1900, 10) and (135.3, 10.15): c = i + 1e4 j + 1e8 m + 1e12 n is the same for both."""
    codes = iou_hash([[1900, 10, 1, 1], [135.3, 10.15, 1, 1]], alpha=0.7, box_format="cxcywh")
    paper_key = codes @ np.array([1, 10**4, 10**8, 10**12])
    assert paper_key[0] == paper_key[1]
    assert codes[0].tolist() != codes[1].tolist()


def test_box_formats_give_the_same_codes():
    boxes = BOX_KINDS["integers"](np.random.default_rng(3), 200)
    x1, y1, x2, y2 = boxes.T
    xywh = np.stack([x1, y1, x2 - x1, y2 - y1], axis=1)
    cxcywh = np.stack([(x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1], axis=1)
    expected = iou_hash(boxes, alpha=0.7)
    assert np.array_equal(iou_hash(xywh, alpha=0.7, box_format="xywh"), expected)
    assert np.array_equal(iou_hash(cxcywh, alpha=0.7, box_format="cxcywh"), expected)


def test_a_box_without_width_or_height_has_no_cell():
    codes = iou_hash([[3.0, 4.0, 3.0, 9.0], [3.0, 4.0, 8.0, 4.0], [3.0, 4.0, 3.0, 4.0]], alpha=0.7)
    assert codes[:, 0].tolist() == [INT64_MIN, codes[1, 0], INT64_MIN]
    assert codes[:, 1].tolist() == [codes[0, 1], INT64_MIN, INT64_MIN]
    assert codes[[0, 2], 2].tolist() == [0, 0]
    assert codes[[1, 2], 3].tolist() == [0, 0]


def test_offsets_beyond_32_bits_are_right_and_beyond_64_bits_refused():
    far = np.array([[1e6, 1e6, 1e-6, 1e-6]], np.float32)
    assert abs(iou_hash(far, alpha=0.7, box_format="cxcywh")[0, 2]) > 2**40
    assert_same = reference.iou_hash(far, alpha=0.7, box_format="cxcywh")[0]
    assert tuple(iou_hash(far, alpha=0.7, box_format="cxcywh")[0].tolist()) == assert_same
    with pytest.raises(
        ValueError, match=r"^boxes must have codes that fit into 64 bits.* got .*1e-20, 1\.0\] in row 1 \(1 such"
    ):
        iou_hash([[0.0, 0.0, 1.0, 1.0], [1e6, 0.0, 1e-20, 1.0]], alpha=0.7, box_format="cxcywh")


def test_the_family_is_shifted_by_k_over_K():
    for alpha, num_hashes in itertools.product([0.3, 0.7, 0.95], [1, 2, 3, 4, 7]):
        family = hash_family(alpha, num_hashes)
        assert [vars(function) for function in family] == reference.hash_family(alpha, num_hashes)
    boxes = BOX_KINDS["random"](np.random.default_rng(4), 50)
    function = hash_family(0.7, 3)[2]
    assert isinstance(function, IoUHash)
    assert np.array_equal(function(boxes), iou_hash(boxes, **vars(function)))


@pytest.mark.parametrize(
    ("alpha", "bound"),
    [(0.5, 0.16239), (0.6, 0.29758), (0.7, 0.45206), (0.73, 0.50154), (0.8, 0.62203), (0.9, 0.80525), (0.95, 0.90128)],
)
def test_the_bound_has_the_known_values(alpha, bound):
    assert iou_lower_bound(alpha) == pytest.approx(bound, abs=5e-6)


def test_the_bound_at_0_3_is_just_above_0_and_below_the_condition_it_is_0():
    assert iou_lower_bound(0.3) == pytest.approx(1.43e-4, abs=5e-7)
    assert iou_lower_bound(0.29) == 0.0
    assert iou_lower_bound(0.01) == 0.0


@given(st.floats(0.001, 0.999))
@example(0.3)
def test_the_bound_equals_the_reference(alpha):
    assert iou_lower_bound(alpha) == pytest.approx(reference.iou_lower_bound(alpha), rel=1e-12)


def test_the_bound_does_not_fall_as_alpha_grows():
    bounds = [iou_lower_bound(alpha) for alpha in np.linspace(0.001, 0.999, 999)]
    assert (np.diff(bounds) >= 0).all()
    assert bounds[-1] > 0.99


@pytest.mark.parametrize("bound", [1e-6, 0.1, 0.3, 0.5, 0.7, 0.95, 0.999])
def test_alpha_for_bound_is_the_smallest_alpha_that_reaches_it(bound):
    alpha = alpha_for_bound(bound)
    assert iou_lower_bound(alpha) >= bound
    assert iou_lower_bound(math.nextafter(alpha, 0)) < bound
    assert alpha_for_bound(iou_lower_bound(0.73)) == pytest.approx(0.73, abs=1e-12)


@pytest.mark.parametrize("alpha", [0.3, 0.5, 0.7, 0.73, 0.9, 0.97])
def test_a_million_pairs_in_one_cell_overlap_at_least_by_the_bound(alpha):
    rng = np.random.default_rng(5)
    count = 200_000 if alpha != 0.7 else 1_000_000
    size_cell = rng.integers(-5, 30, (count, 1, 2))
    offset_cell = rng.integers(-1000, 1000, (count, 1, 2))
    # Half of the positions in the cell are near its corners, where the bound is attained.
    inside = np.where(rng.random((count, 2, 4)) < 0.5, rng.random((count, 2, 4)), rng.integers(0, 2, (count, 2, 4)))
    inside = np.clip(inside, 1e-9, 1 - 1e-9) - 0.5
    size = alpha ** -(size_cell + inside[..., :2])
    center = (offset_cell + inside[..., 2:]) * alpha ** -size_cell.astype(float) * (1 - alpha) / (1 + alpha)
    boxes = np.concatenate([center - size / 2, center + size / 2], axis=2)
    first, second = boxes[:, 0], boxes[:, 1]
    same_cell = (iou_hash(first, alpha=alpha) == iou_hash(second, alpha=alpha)).all(axis=1)
    assert same_cell.mean() > 0.99
    low, high = np.maximum(first[:, :2], second[:, :2]), np.minimum(first[:, 2:], second[:, 2:])
    intersection = np.maximum(high - low, 0).prod(axis=1)
    areas = [(box[:, 2:] - box[:, :2]).prod(axis=1) for box in (first, second)]
    iou = intersection / (areas[0] + areas[1] - intersection)
    least = iou[same_cell].min()
    assert least >= iou_lower_bound(alpha) - 1e-6
    assert least <= iou_lower_bound(alpha) + 0.02


@given(boxes_and_scores(max_boxes=40), st.sampled_from([0.3, 0.5, 0.7, 0.9]))
def test_boxes_with_one_code_overlap_at_least_by_the_bound(data, alpha):
    boxes = data[0].astype(np.float64)
    boxes = boxes[(boxes[:, 2:] > boxes[:, :2]).all(axis=1)]
    codes = iou_hash(boxes, alpha=alpha)
    same = (codes[:, None] == codes[None, :]).all(axis=2)
    assert (pairwise_iou(boxes, boxes)[same] >= iou_lower_bound(alpha) - 1e-6).all()


def test_a_decimal_context_of_the_user_does_not_matter():
    with decimal.localcontext(decimal.Context(prec=3, traps=[decimal.FloatOperation, decimal.Inexact])):
        assert hash_family(0.61, 3) == EXPECTED_FAMILY


def test_hashing_errors_name_the_argument_its_need_and_what_came():
    boxes = np.zeros((1, 4))
    for alpha in (0.0, 1.0, -0.5, math.nan):
        with pytest.raises(ValueError, match=rf"^alpha must be in \(0, 1\), got {alpha}$"):
            iou_hash(boxes, alpha=alpha)
        with pytest.raises(ValueError, match=r"^alpha must be in \(0, 1\)"):
            iou_lower_bound(alpha)
    with pytest.raises(TypeError, match=r"^alpha must be a number, in \(0, 1\), got '0.7'$"):
        iou_hash(boxes, alpha="0.7")
    with pytest.raises(ValueError, match=r"^w0 must be finite and above 0, got 0.0$"):
        iou_hash(boxes, alpha=0.7, w0=0.0)
    with pytest.raises(ValueError, match=r"^h0 must be finite and above 0, got inf$"):
        iou_hash(boxes, alpha=0.7, h0=math.inf)
    with pytest.raises(ValueError, match=r"^bx must be below 2\*\*53 in size, got nan$"):
        iou_hash(boxes, alpha=0.7, bx=math.nan)
    with pytest.raises(ValueError, match=r"^by must be below 2\*\*53 in size, got -inf$"):
        iou_hash(boxes, alpha=0.7, by=-math.inf)
    with pytest.raises(ValueError, match=r"^num_hashes must be at least 1, got 0$"):
        hash_family(0.7, 0)
    for bound in (0.0, 1.0):
        with pytest.raises(ValueError, match=rf"^bound must be in \(0, 1\), got {bound}$"):
            alpha_for_bound(bound)
    with pytest.raises(ValueError, match=r"^boxes must be finite, got \[nan, 0.0, 1.0, 1.0\] in row 0 \(1 such row\)$"):
        iou_hash([[math.nan, 0, 1, 1]], alpha=0.7)
