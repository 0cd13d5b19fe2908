"""Bad input gets one clear error: the argument's name, what it needs, what it got."""

import math
import re
from fractions import Fraction

import numpy as np
import pytest

import hashnms
from hashnms import hnms
from tests.support.boxes import REPOSITORY

pytestmark = pytest.mark.core

BOXES = np.array([[0, 0, 10, 10], [20, 0, 30, 10], [40, 0, 50, 10]], np.float32)
SCORES = np.array([0.5, 0.6, 0.7], np.float32)


def changed(array, row, values):
    copy = array.copy()
    copy[row] = values
    return copy


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"boxes": np.zeros((10, 3))}, "boxes must have shape (N, 4), got (10, 3)"),
        ({"boxes": np.zeros((0, 9))}, "boxes must have shape (N, 4), got (0, 9)"),
        ({"boxes": 0.5}, "boxes must have shape (N, 4), got ()"),
        (
            {"boxes": np.zeros((10, 5))},
            "boxes must have shape (N, 4), got (10, 5): pass boxes[:, :4], and column 4 as scores= if these are the "
            "scores; rotated boxes are not supported",
        ),
        (
            {"boxes": np.zeros((10, 6))},
            "boxes must have shape (N, 4), got (10, 6): pass boxes[:, :4], and scores and labels as scores= and "
            "labels=",
        ),
        (
            {"boxes": np.zeros((10, 8))},
            "boxes must have shape (N, 4), got (10, 8): quadrilaterals are not supported, only upright boxes, such as "
            "those around them",
        ),
        (
            {"boxes": np.zeros((2, 10, 4))},
            "boxes must have shape (N, 4), got (2, 10, 4): pass boxes.reshape(-1, 4), and the image of each box as "
            "images= (docs/howto/many_images.md)",
        ),
        ({"boxes": np.zeros(4)}, "boxes must have shape (N, 4), got (4,): one box is boxes.reshape(1, 4)"),
        ({"boxes": np.zeros((4, 9))}, "boxes must have shape (N, 4), got (4, 9): boxes.T has that shape"),
        ({"boxes": [[1, 2, 3, 4], [1, 2]]}, "boxes must be an array, got rows of different lengths"),
        ({"scores": SCORES[:2]}, "scores must have shape (3,), one for each box, got (2,)"),
        ({"scores": SCORES[:, None]}, "scores must have shape (3,), one for each box, got (3, 1)"),
        ({"scores": 0.5}, "scores must have shape (3,), one for each box, got ()"),
        ({"labels": [1, 2]}, "labels must have shape (3,), one for each box, got (2,)"),
        ({"labels": np.array([0, 1, 2**63], np.uint64)}, "labels must fit int64, got 9223372036854775808"),
        ({"box_format": "yxyx"}, "box_format must be one of xyxy, xywh, cxcywh, got 'yxyx'"),
        ({"box_format": ["xyxy"]}, "box_format must be one of xyxy, xywh, cxcywh, got ['xyxy']"),
        ({"alpha": 0}, "alpha must be in (0, 1), got 0"),
        ({"alpha": 1.0}, "alpha must be in (0, 1), got 1.0"),
        ({"alpha": math.nan}, "alpha must be in (0, 1), got nan"),
        ({"num_hashes": 0}, "num_hashes must be at least 1, got 0"),
        ({"num_hashes": -3}, "num_hashes must be at least 1, got -3"),
        ({"num_hashes": 2**64}, "num_hashes must be at most 1000, got 18446744073709551616"),
        ({"alpha": 10**400}, f"alpha must be in (0, 1), got {10**400}"),
        (
            {"boxes": changed(BOXES, slice(1, 3), np.nan)},
            "boxes must be finite, got [nan, nan, nan, nan] in row 1 (2 such rows)",
        ),
        (
            {"boxes": changed(BOXES, 2, [0, 0, np.inf, 5])},
            "boxes must be finite, got [0.0, 0.0, inf, 5.0] in row 2 (1 such row)",
        ),
        (
            {"boxes": changed(BOXES, 0, [-np.inf, 0, 1, 5])},
            "boxes must be finite, got [-inf, 0.0, 1.0, 5.0] in row 0 (1 such row)",
        ),
        (
            {"boxes": changed(BOXES, 1, [5, 0, 4, 5])},
            "boxes must have x2 >= x1 and y2 >= y1, got [5.0, 0.0, 4.0, 5.0] in row 1 (1 such row); "
            "did you mean box_format='xywh' or hashnms.boxes.order_corners(boxes)?",
        ),
        (
            {"boxes": changed(BOXES, slice(1, 3), [[4, 6, 4, 5], [-9, -9, -8, -8]])},  # no boxes as xywh either
            "boxes must have x2 >= x1 and y2 >= y1, got [4.0, 6.0, 4.0, 5.0] in row 1 (1 such row); "
            "did you mean hashnms.boxes.order_corners(boxes)?",
        ),
        (
            {"boxes": changed(BOXES, 1, [4, 6, -1, 5]), "box_format": "xywh"},
            "boxes must have width >= 0 and height >= 0, got [4.0, 6.0, -1.0, 5.0] in row 1 (1 such row)",
        ),
        (
            {"boxes": changed(BOXES, 1, [np.nan, 6, 1, 5]), "box_format": "cxcywh"},
            "boxes must be finite, got [nan, 6.0, 1.0, 5.0] in row 1 (1 such row)",
        ),
        ({"scores": changed(SCORES, 1, np.nan)}, "scores must be finite, got nan in row 1 (1 such row)"),
        ({"scores": changed(SCORES, 2, -np.inf)}, "scores must be finite, got -inf in row 2 (1 such row)"),
    ],
)
def test_bad_values_raise_value_error(arguments, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        hnms(**{"boxes": BOXES, "scores": SCORES, **arguments})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"boxes": np.array([["a"] * 4] * 3)}, "boxes must be real numbers (float16, bfloat16, float32, float64,"),
        ({"boxes": np.zeros((3, 4), complex)}, "boxes must be real numbers (float16, bfloat16, float32, float64,"),
        ({"boxes": np.zeros((3, 4), bool)}, "boxes must be real numbers (float16, bfloat16, float32, float64,"),
        ({"boxes": np.zeros((3, 4), object)}, "boxes must be real numbers (float16, bfloat16, float32, float64,"),
        (
            {"boxes": np.zeros((3, 4), np.longdouble)},
            "boxes must be real numbers (float16, bfloat16, float32, float64,",
        ),
        ({"boxes": np.ma.masked_invalid(BOXES)}, "boxes must be a plain array, got a masked array"),
        (
            {"scores": ["a", "b", "c"]},
            "scores must be real numbers (float16, bfloat16, float32, float64, integer), got <U1",
        ),
        ({"scores": None}, "scores must be real numbers (float16, bfloat16, float32, float64, integer), got NoneType"),
        ({"labels": [0j, 1j, 2j]}, "labels must be integers, got complex128"),
        ({"labels": [True, False, True]}, "labels must be integers, got bool"),
        (
            {"labels": np.array([True, False, True])},
            "labels must be integers, got bool: pass 0 and 1 if these are two labels; to select rows with a mask, pass "
            "boxes[mask]",
        ),
        (
            {"scores": SCORES > 0.5},
            "scores must be real numbers (float16, bfloat16, float32, float64, integer), got bool: select rows before "
            "the call, as in boxes[mask] and scores[mask]",
        ),
        (
            {"boxes": np.zeros((3, 9, 9), bool)},
            "boxes must be real numbers (float16, bfloat16, float32, float64, integer), got bool: masks are not "
            "supported, only boxes, such as torchvision.ops.masks_to_boxes makes around them",
        ),
        ({"alpha": "0.7"}, "alpha must be a number, in (0, 1), got '0.7'"),
        ({"alpha": True}, "alpha must be a number, in (0, 1), got True"),
        ({"alpha": None}, "alpha must be a number, in (0, 1), got None"),
        ({"num_hashes": 1.0}, "num_hashes must be an integer, got 1.0"),
        ({"num_hashes": True}, "num_hashes must be an integer, got True"),
    ],
)
def test_bad_types_raise_type_error(arguments, message):
    with pytest.raises(TypeError, match=f"^{re.escape(message)}"):
        hnms(**{"boxes": BOXES, "scores": SCORES, **arguments})


@pytest.mark.torch
def test_corners_of_tensors_without_real_numbers_cannot_be_ordered():
    torch = pytest.importorskip("torch")
    for wrong in (torch.zeros(2, 4, dtype=torch.complex64), torch.zeros(2, 4).to_sparse(), torch.zeros(2, 4) > 0):
        with pytest.raises(TypeError, match=r"^boxes must be a dense tensor of real numbers, got torch.\w+, "):
            hashnms.boxes.order_corners(wrong)


@pytest.mark.parametrize("several", [[0.5, 0.6], (0.5,), np.array([0.5, 0.6]), {"car": 0.5}, range(2)])
@pytest.mark.parametrize("name", ["iou_threshold", "score_threshold", "max_output"])
def test_several_values_where_a_call_takes_one_lead_to_the_page_that_says_how(name, several):
    with pytest.raises(
        TypeError, match=rf"^{name} must be an? \w+, .*got .*: a call takes one number; docs/\S+\.md shows"
    ):
        hashnms.nms(BOXES, SCORES, **{name: several})
    with pytest.raises(TypeError, match=r"^iou_threshold must be .*docs/howto/by_class.md shows"):
        hashnms.Nms(several)


def test_pages_that_errors_name_exist():
    source = "".join(path.read_text(encoding="utf-8") for path in (REPOSITORY / "src").rglob("*.py"))
    named = set(re.findall(r"\bdocs/[\w/]+\.md", source))
    assert {"docs/howto/by_class.md", "docs/howto/many_images.md"} <= named
    assert [page for page in sorted(named) if not (REPOSITORY / page).is_file()] == []


@pytest.mark.parametrize("position", [0, 1, 3, 4, 7, 30, 31, 32, 33, 63, 64, 99, 100])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("box_format", ["xyxy", "xywh", "cxcywh"])
def test_a_bad_number_is_found_wherever_it_stands(position, dtype, box_format):
    """The core checks several boxes at once: none may be missed at the ends."""
    boxes = np.tile(np.array([[1, 2, 30, 40]], dtype), (101, 1))
    scores = np.ones(101, dtype)
    for column in range(4):
        for bad in (np.nan, np.inf, -np.inf):
            with pytest.raises(ValueError, match=rf"^boxes must be finite, got .* in row {position} \(1 such row\)$"):
                hnms(changed(boxes, (position, column), bad), scores, box_format=box_format)
    with pytest.raises(ValueError, match=rf"^boxes must have .* in row {position} \(1 such row\)"):
        hnms(changed(boxes, (position, 2), -3), scores, box_format=box_format)
    with pytest.raises(ValueError, match=rf"^scores must be finite, got nan in row {position} \(1 such row\)$"):
        hnms(boxes, changed(scores, position, np.nan), box_format=box_format)


@pytest.mark.parametrize(
    ("row", "box_format"),
    [
        ([1e300, 0, 1e-300, 1], "cxcywh"),  # m is infinite
        ([0, 0, 1e-310, 1], "xyxy"),  # 1/delta is
        ([-1e308, 0, 1e308, 1], "xyxy"),  # the width is
        ([0, 0, 1.6e308, 1], "cxcywh"),  # the centre of the width's cell is
    ],
)
def test_float64_boxes_whose_cells_cannot_be_counted_are_refused(row, box_format):
    """Each of these once hung or gave a wrong answer."""
    boxes = np.array([[0, 0, 1, 1], row, [5, 5, 9, 9], row])
    with pytest.raises(ValueError, match=r"^boxes must have codes that fit into 64 bits.* in row 1 \(2 such rows\)$"):
        hnms(boxes, [1, 2, 3, 4], box_format=box_format)
    with pytest.raises(ValueError, match=r"^boxes must have codes that fit into 64 bits.* in row 1 \(2 such rows\)$"):
        hashnms.iou_hash(boxes, alpha=0.7, box_format=box_format)


def test_the_slowest_cells_are_found_at_once_or_refused():
    """Alpha near 1 and sizes near the ends of float64: each of these once took seconds or forever."""
    for width, w0, alpha in ((1e300, 1.0, 1 - 1e-16), (1e300, 1e-300, 1 - 1e-16), (5e-324, 1.0, 1 - 1e-7)):
        with pytest.raises(ValueError, match=r"^boxes must have codes that fit into 64 bits"):
            hashnms.iou_hash([[0.0, 0.0, width, 1.0]], alpha=alpha, w0=w0)
    for width, alpha in ((1e300, 1 - 1e-7), (1e-300, 1 - 1e-7), (12.5, 1 - 1e-15)):
        code = hashnms.iou_hash([[0.0, 0.0, width, 1.0]], alpha=alpha)
        assert tuple(code[0].tolist()) == hashnms.reference.iou_hash([[0.0, 0.0, width, 1.0]], alpha=alpha)[0]


@pytest.mark.filterwarnings("error")
def test_no_warning_comes_before_the_error():
    with pytest.raises(ValueError, match=r"^boxes must be finite, got \[inf, 0.0, inf, 1.0\] in row 0"):
        hnms(np.array([[np.inf, 0, np.inf, 1]]), [1.0])
    with pytest.raises(ValueError, match=r"^boxes must be finite, got \[0.0, 0.0, 1.0, nan\] in row 1"):
        hnms(np.array([[-3e38, 0, 3e38, 1], [0, 0, 1, np.nan]], np.float32), [1.0, 1.0])


def test_the_largest_float32_boxes_are_valid():
    largest = np.finfo(np.float32).max
    boxes = np.array([[-largest, -largest, largest, largest], [0, 0, 1, 1]], np.float32)
    assert hnms(boxes, [1, 2]).tolist() == [1, 0]
    least = np.finfo(np.float32).smallest_subnormal
    assert hnms(np.array([[0, 0, least, least]] * 2, np.float32), [1, 2]).tolist() == [1]


def test_num_threads_is_checked():
    with pytest.raises(ValueError, match=r"^num_threads must be at least 1, got 0$"):
        hashnms.set_num_threads(0)
    with pytest.raises(ValueError, match=r"^num_threads must be at most 1024, got 18446744073709551616$"):
        hashnms.set_num_threads(2**64)
    with pytest.raises(TypeError, match=r"^num_threads must be an integer, got 2.5$"):
        hashnms.set_num_threads(2.5)


@pytest.mark.parametrize(
    "options",
    [
        {"iou_threshold": np.float64(0.5)},
        {"iou_threshold": np.float32(0.5)},
        {"iou_threshold": Fraction(1, 2)},
        {"box_format": np.str_("xyxy")},
        {"max_output": np.int64(3)},
        {"max_output": 2**70},
        {"score_threshold": -1},
        {"score_threshold": -np.inf},
    ],
)
def test_numbers_and_names_of_other_types_are_taken(options):
    assert hashnms.nms(BOXES, SCORES, **options).tolist() == [2, 1, 0]
    if "score_threshold" not in options:
        assert hashnms.soft_nms(BOXES, SCORES, **options)[0].tolist() == [2, 1, 0]


@pytest.mark.parametrize("kind", [np.int64, np.longlong, np.uint64, np.ulonglong, np.intc, np.int8])
def test_labels_of_every_type_of_integers_are_the_same(kind):
    boxes, scores = np.tile(np.float32([[0, 0, 10, 10]]), (3, 1)), np.float32([0.3, 0.2, 0.1])
    labels = np.array([0, 1, 1], kind)
    assert hashnms.nms(boxes, scores, labels=labels).tolist() == [0, 1]
    assert hashnms.hnms(boxes, scores, images=labels).tolist() == [0, 1]
