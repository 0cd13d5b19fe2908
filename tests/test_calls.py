"""A call with any arguments: one try of the core, one slow path, and errors that say what is needed."""

import importlib
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import hashnms
from hashnms import Suppression, _calls, _core, batched_nms, hnms, iou_hash, nms, soft_nms, steps
from hashnms.steps import STEPS

BOXES = np.array([[0, 0, 10, 10], [1, 0, 11, 10], [20, 0, 30, 10]], np.float32)
SCORES = np.array([0.5, 0.75, 0.25], np.float32)
CHAIN = Suppression.parse("top:9+hnms:0.5/2+nms:0.5+softnms:linear/0.5+limit:3")

#: Every function of boxes, scores and labels.
FUNCTIONS: dict[str, Any] = {
    "hnms": lambda boxes, scores, labels: hnms(boxes, scores, alpha=0.5, labels=labels),
    "nms": lambda boxes, scores, labels: nms(boxes, scores, labels=labels),
    "nms_suppressor": lambda boxes, scores, labels: nms(boxes, scores, labels=labels, return_suppressor=True),
    "soft_nms": lambda boxes, scores, labels: soft_nms(boxes, scores, labels=labels),
    "suppression": CHAIN,
}


def as_lists(result):
    return [part.tolist() for part in result] if isinstance(result, tuple) else result.tolist()


class Counted:
    """The core, and how often it was called."""

    def __init__(self, monkeypatch):
        self.calls = []
        for name in ("hnms", "nms", "nms_suppressor", "batched_nms", "soft_nms", "iou_hash"):
            function = getattr(_core, name)
            counted = self._counted(name, function)
            monkeypatch.setattr(_core, name, counted)
            call = getattr(_calls, name.upper())
            monkeypatch.setitem(vars(call), "core", counted)

    def _counted(self, name, function):
        def call(*arguments):
            self.calls.append(name)
            return function(*arguments)

        return call


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (hnms, "hnms"),
        (nms, "nms"),
        (lambda boxes, scores: nms(boxes, scores, return_suppressor=True), "nms_suppressor"),
        (lambda boxes, scores: batched_nms(boxes, scores, np.zeros(3, np.int64), 0.5), "batched_nms"),
        (lambda boxes, scores: soft_nms(boxes, scores, method="hard"), "soft_nms"),
        (lambda boxes, scores: iou_hash(boxes, alpha=0.7), "iou_hash"),  # noqa: ARG005
    ],
)
def test_the_core_is_called_once_or_twice_if_it_refuses(call, name, monkeypatch):
    core = Counted(monkeypatch)
    call(BOXES, SCORES)
    assert core.calls == [name]
    call(BOXES.tolist(), SCORES.tolist())  # a list is converted without asking
    assert core.calls == [name] * 2
    call(BOXES.astype(np.int16), SCORES)
    assert core.calls == [name] * 4


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "longdouble", "uint8", "int64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_labels_are_whole_numbers_of_any_type(name, dtype):
    """A class column of a YOLO is one of floats."""
    dtype = pytest.importorskip("ml_dtypes").bfloat16 if dtype == "bfloat16" else dtype
    expected = as_lists(FUNCTIONS[name](BOXES, SCORES, np.array([0, 1, 1])))
    assert as_lists(FUNCTIONS[name](BOXES, SCORES, np.array([0, 1, 1], dtype))) == expected
    assert as_lists(FUNCTIONS[name](BOXES, SCORES, [0.0, 1.0, 1.0])) == expected
    empty = np.empty((0, 4)), np.empty(0)
    assert as_lists(FUNCTIONS[name](*empty, [])) == as_lists(FUNCTIONS[name](*empty, None))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        ([0.0, 1.5, 2.5], ValueError, "labels must be whole numbers, got 1.5 in row 1 (2 such rows)"),
        ([0.0, 1.0, np.nan], ValueError, "labels must be whole numbers, got nan in row 2 (1 such row)"),
        ([-np.inf, 1.0, 1.0], ValueError, "labels must be whole numbers, got -inf in row 0 (1 such row)"),
        ([0.0, 1.0, 2.0**63], ValueError, "labels must fit int64, got 9.223372036854776e+18"),
        ([[0.0], [0.5], [1.0]], ValueError, "labels must have shape (3,), one for each box, got (3, 1)"),
        (
            ["cat", "dog", "cat"],
            TypeError,
            "labels must be integers, got <U3: np.unique(labels, return_inverse=True)[1] numbers them",
        ),
        (
            np.array(["cat", "dog", "cat"], object),
            TypeError,
            "labels must be integers, got an array of objects, the first one a str: np.unique(labels, "
            "return_inverse=True)[1] numbers them",
        ),
    ],
)
def test_other_labels_are_refused(name, labels, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        FUNCTIONS[name](BOXES, SCORES, labels)


def test_strings_can_be_numbered_as_the_error_says():
    labels = np.unique(["cat", "dog", "cat"], return_inverse=True)[1]
    assert nms(BOXES, SCORES, labels=labels).tolist() == [1, 0, 2]


@pytest.mark.parametrize("idxs", [[0.5, 0.5, 1.0], [True, True, False], [2, 2, 3], np.float16([0.5, 0.5, np.nan])])
def test_batched_nms_takes_groups_of_any_type(idxs):
    assert batched_nms(BOXES, SCORES, idxs, 0.5).tolist() == [1, 2]
    assert batched_nms(BOXES, SCORES, np.array(idxs), 0.5).tolist() == [1, 2]
    assert batched_nms(BOXES.tolist(), SCORES.tolist(), idxs, 0.5).tolist() == [1, 2]


@pytest.mark.slow
def test_batched_nms_takes_what_that_of_torchvision_takes():
    torch = pytest.importorskip("torch")
    ops = pytest.importorskip("torchvision").ops
    boxes, scores = torch.from_numpy(BOXES[[0, 0, 1]]), torch.from_numpy(SCORES)
    nan = torch.nan
    for idxs in ([0, 0, 1], [True, False, True], [0.5, 0.5, -0.0], [nan, nan, nan], [nan, 1.0, 1.0], [0.0, -0.0, 0.0]):
        for dtype in (None, torch.float64, torch.bfloat16) if isinstance(idxs[0], float) else (None,):
            groups = torch.tensor(idxs, dtype=dtype)
            for threshold in (0.5, torch.tensor(0.5)):
                expected = ops.batched_nms(boxes, scores, groups, threshold)
                assert torch.equal(batched_nms(boxes, scores, groups, threshold), expected)
            compiled = torch.compile(batched_nms, fullgraph=True, backend="eager")
            assert torch.equal(compiled(boxes, scores, groups, 0.5), expected)
    empty = torch.empty(0, 4)
    assert torch.equal(batched_nms(empty, None, None, 0.5), ops.batched_nms(empty, None, None, 0.5))
    assert batched_nms(np.empty((0, 4)), None, None, 0.5).tolist() == []


@pytest.mark.parametrize(
    ("idxs", "error", "message"),
    [
        ([0, 1], ValueError, "idxs must have shape (3,), one for each box, got (2,)"),
        (None, TypeError, "idxs must be integers, bools or floats of at most 64 bits, got NoneType"),
        (["a", "b", "c"], TypeError, "idxs must be integers, bools or floats of at most 64 bits, got <U1"),
        (np.array([0, 1, 2**63], np.uint64), ValueError, "idxs must fit int64, got 9223372036854775808"),
        (
            np.zeros(3, np.longdouble),
            TypeError,
            f"idxs must be integers, bools or floats of at most 64 bits, got {np.dtype(np.longdouble)}",
        ),
    ],
)
def test_errors_of_batched_nms_name_idxs(idxs, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        batched_nms(BOXES, SCORES, idxs, 0.5)
    with pytest.raises(ValueError, match=r"^boxes must be finite, got .* in row 1"):
        batched_nms([[0, 0, 1, 1], [0, 0, np.nan, 1]], [1, 2], [0, 0], 0.5)


@pytest.mark.parametrize("scalar", [np.array, np.float32, "tensor"])
def test_settings_may_be_arrays_and_tensors_without_axes(scalar):
    scalar = pytest.importorskip("torch").tensor if scalar == "tensor" else scalar
    assert nms(BOXES, SCORES, scalar(0.5)).tolist() == [1, 2]
    assert nms(BOXES, SCORES, 0.5, score_threshold=scalar(0.25)).tolist() == [1]
    assert hnms(BOXES, SCORES, alpha=scalar(0.5)).tolist() == hnms(BOXES, SCORES, alpha=0.5).tolist()
    assert soft_nms(BOXES, SCORES, sigma=scalar(0.5))[0].tolist() == [1, 2, 0]
    assert iou_hash(BOXES, alpha=scalar(0.5), w0=scalar(2)).tolist() == iou_hash(BOXES, alpha=0.5, w0=2).tolist()
    assert str(Suppression([hashnms.Nms(scalar(0.5))])) == "nms:0.5"
    with pytest.raises(ValueError, match=r"^iou_threshold must be in \[0, 1\], got 1.5$"):
        nms(BOXES, SCORES, scalar(1.5))


def test_counts_may_be_arrays_and_tensors_without_axes():
    for one in (np.array(1), np.int8(1), pytest.importorskip("torch").tensor(1)):
        assert nms(BOXES, SCORES, max_output=one).tolist() == [1]
    for wrong in (np.array(1.0), np.array([1]), np.bool_(True)):
        with pytest.raises(TypeError, match=r"^max_output must be an integer, got "):
            nms(BOXES, SCORES, max_output=wrong)


@pytest.mark.parametrize("threshold", [0.5, 0, 1, "0.5", [0.5]])
def test_hnms_says_what_it_has_in_place_of_an_iou_threshold(threshold):
    message = f"hnms has no iou_threshold, got {threshold!r}: it takes alpha; "
    if threshold == 0.5:
        message += "alpha_for_bound(0.5) = 0.7291 is the alpha that guarantees IoU 0.5"
    for boxes in (BOXES, BOXES.tolist()):
        with pytest.raises(TypeError, match=f"^{re.escape(message)}"):
            hnms(boxes, SCORES, threshold)
        with pytest.raises(TypeError, match=f"^{re.escape(message)}"):
            hnms(boxes, SCORES, iou_threshold=threshold)


@pytest.mark.parametrize("call", [hnms, nms, soft_nms, Suppression.parse("nms:0.5")])
def test_boxes_that_would_be_valid_as_xywh_are_asked_about(call):
    with pytest.raises(ValueError, match=r"in row 0 \(1 such row\); did you mean box_format='xywh' or "):
        call([[50, 50, 10, 10], [0, 0, 5, 5]], [1, 2])
    with pytest.raises(ValueError, match=r"in row 0 \(1 such row\); did you mean hashnms.boxes.order_corners\(boxes\)"):
        call([[50, 50, 10, 10], [-9, -9, -5, -5]], [1, 2])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_list_of_images_is_not_one_image(name):
    need = "must be one array or tensor, got a list of 2: call once for each image, or join them"
    with pytest.raises(TypeError, match=f"^boxes {need}"):
        FUNCTIONS[name]([BOXES, BOXES[:2]], [SCORES, SCORES[:2]], None)
    with pytest.raises(TypeError, match=f"^boxes {need}"):
        FUNCTIONS[name]((BOXES, BOXES), (SCORES, SCORES), None)
    with pytest.raises(TypeError, match=f"^scores {need}"):
        FUNCTIONS[name](BOXES, [SCORES, SCORES], None)
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match=f"^boxes {need}"):
        FUNCTIONS[name]([torch.zeros(3, 4), torch.zeros(2, 4)], [torch.zeros(3), torch.zeros(2)], None)
    rows = FUNCTIONS[name](list(torch.from_numpy(BOXES)), list(torch.from_numpy(SCORES)), None)
    assert as_lists(rows) == as_lists(FUNCTIONS[name](BOXES, SCORES, None))  # one tensor for each box is fine


def test_objects_are_called_so():
    with pytest.raises(TypeError, match=r"integer\), got an array of objects, the first one a float$"):
        nms(BOXES.astype(object), SCORES)
    with pytest.raises(TypeError, match=r"integer\), got an array of objects, the first one a NoneType$"):
        nms([[None] * 4], [1.0])


def test_symbolic_trace_is_told_what_else_there_is():
    fx = pytest.importorskip("torch").fx
    model = lambda boxes, scores, labels: (nms(boxes, scores, labels=labels), labels)  # noqa: E731
    with pytest.raises(TypeError, match=r"got a torch.fx.Proxy: use torch.export or torch.compile, or keep symbolic_"):
        fx.symbolic_trace(model)
    with pytest.raises(TypeError, match=r"^scores must be an array or a tensor, got a torch.fx.Proxy"):
        fx.symbolic_trace(lambda scores: nms(BOXES, scores))


def test_a_suppression_or_its_notation_is_taken():
    assert Suppression.of("nms:0.5") == Suppression.of(Suppression.parse("nms:0.5")) == Suppression([hashnms.Nms(0.5)])
    with pytest.raises(TypeError, match=r"^a suppression must be a Suppression or its notation, such as .*, got 5$"):
        Suppression.of(5)
    with pytest.raises(ValueError, match=r"^a step must be one of"):
        Suppression.of("mns:0.5")
    torch = pytest.importorskip("torch")
    importlib.import_module("hashnms.torch")
    tensors = torch.from_numpy(BOXES), torch.from_numpy(SCORES)
    assert torch.ops.hashnms.suppress(*tensors, None, None, "nms:0.5", "xyxy")[0].tolist() == [1, 2]


@pytest.mark.parametrize("chain", ["top:2+hnms:0.7/1", "score:0.3+top:2+hnms:0.7/1+nms:0.5", "limit:2+hnms:0.995/2"])
def test_an_error_of_any_later_step_names_the_row_of_the_input(chain):
    boxes = np.tile([0.0, 0.0, 10.0, 10.0], (6, 1))
    boxes[[0, 4, 5]] = [0, 1e3, 1e3, np.nextafter(1e3, 2e3)]  # so flat and so far that HNMS has no cell for them
    with pytest.raises(ValueError, match=re.escape("in row 4 (1 such row)")):
        Suppression.parse(chain)(boxes, [0.1, 0.2, 0.3, 0.4, 0.9, 0.1])


def test_every_limit_is_that_of_the_core():
    """Just within, the core takes it; just beyond, the error says the same number."""
    assert len(hashnms.hash_family(0.7, _core.MOST_HASHES)) == _core.MOST_HASHES
    for call, message in [
        (lambda: hnms(BOXES, SCORES, num_hashes=_core.MOST_HASHES + 1), "num_hashes must be at most 1000, got 1001"),
        (lambda: soft_nms(BOXES, SCORES, sigma=0.9e-30), "sigma must be in [1e-30, 1e30], got 9e-31"),
        (lambda: soft_nms(BOXES, SCORES, sigma=1.1e30), "sigma must be in [1e-30, 1e30], got 1.1e+30"),
        (lambda: iou_hash(BOXES, alpha=0.7, bx=2.0**53), "bx must be below 2**53 in size, got 9007199254740992.0"),
    ]:
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            call()
    assert _core.soft_nms(BOXES, SCORES, None, None, "linear", _core.LEAST_SIGMA, 0.5, 0.0, None, "xyxy") is not None
    assert _core.soft_nms(BOXES, SCORES, None, None, "linear", _core.GREATEST_SIGMA, 0.5, 0.0, None, "xyxy") is not None


def test_iou_hash_keeps_the_tables_of_the_latest_calls():
    """More functions than are kept, and back to the first: the same codes."""
    functions = [hashnms.IoUHash(0.5 + k / 50, w0=1.0 + k, h0=2.0 + k) for k in range(20)]
    codes = [function(BOXES).tolist() for function in functions]
    assert [function(BOXES).tolist() for function in functions] == codes
    assert codes == [
        [list(code) for code in hashnms.reference.iou_hash(BOXES, **vars(function))] for function in functions
    ]


def test_a_new_method_is_one_class_and_one_entry(monkeypatch):
    """It calls the candidates, whether they are arrays or tensors on a device."""

    @dataclass(frozen=True)
    class Twice(steps.Step):
        """Any step that is not in the table."""

        k: int = 1

        def apply(self, candidates, most):  # noqa: ARG002
            return candidates.top(in_all=self.k)

    monkeypatch.setitem(STEPS, "twice", Twice)
    monkeypatch.setitem(steps._NAMES, Twice, "twice")
    suppression = Suppression.parse("twice:2+limit:1")
    assert str(suppression) == "twice:2+limit:1"
    assert as_lists(suppression(BOXES, SCORES)) == [[1], [0.75]]
