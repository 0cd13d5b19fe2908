"""`Suppression`: its steps match the functions, and it parses the notation it writes."""

import copy
import cProfile
import json
import pickle
import re
from dataclasses import FrozenInstanceError, dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hashnms
from hashnms import (
    Hnms,
    Limit,
    Nmm,
    Nms,
    ScoreThreshold,
    SoftNms,
    Suppressed,
    Suppression,
    TopK,
    Vote,
    Wbf,
    hnms,
    nms,
    soft_nms,
)
from hashnms.boxes import to_xyxy
from hashnms.steps import STEPS, Step
from hashnms.synthetic import make_scene
from tests.support.boxes import boxes_and_scores, real_images

pytestmark = pytest.mark.core

EXAMPLES = {
    "top:9000+hnms:0.73/1+nms:0.5+limit:1000": [TopK(9000), Hnms(0.73, 1), Nms(0.5), Limit(1000)],
    "hnms:0.7/2": [Hnms(0.7, 2)],
    "softnms:gaussian/0.5+limit:1000": [SoftNms(), Limit(1000)],
    "softnms:gaussian/2/0.05": [SoftNms(sigma=2, min_score=0.05)],
    "softnms:linear/0.3": [SoftNms("linear")],
    "softnms:hard/0.5/0": [SoftNms("hard", iou_threshold=0.5, min_score=0)],
    "score:-inf+top:0+limit:0": [ScoreThreshold(-np.inf), TopK(0), Limit(0)],
    "softnms:gaussian/1e30+nms:1+nms:0": [SoftNms(sigma=1e30), Nms(1), Nms(0)],
    "nms:0.5/ios+nms:0.5/iou/inclusive": [Nms(0.5, "ios"), Nms(0.5, inclusive=True)],
    "nms:0.5/diou/inclusive+limit:5": [Nms(0.5, "diou", True), Limit(5)],
    "hnms:0.30000000000000004/1000": [Hnms(0.1 + 0.2, 1000)],
    "top:1000+nmm:0.5+limit:100": [TopK(1000), Nmm(0.5), Limit(100)],
    "nmm:0.5/ios/transitive+nmm:0.5/iou/inclusive/transitive": [
        Nmm(0.5, "ios", transitive=True),
        Nmm(0.5, inclusive=True, transitive=True),
    ],
    "vote:0.6+wbf:0.55+wbf:0.7/max": [Vote(0.6), Wbf(), Wbf(0.7, "max")],
}


@pytest.mark.parametrize("text", EXAMPLES)
def test_the_short_notation_is_read_and_written(text):
    suppression = Suppression(EXAMPLES[text])
    assert str(suppression) == text
    assert Suppression.parse(text) == suppression
    assert repr(suppression) == f"Suppression.parse({text!r})"


def test_values_may_be_left_out_and_spaces_put_in():
    assert Suppression.parse("softnms : linear / 0.5+hnms: 0.5 /2") == Suppression(
        [SoftNms("linear", iou_threshold=0.5), Hnms(0.5, 2)]
    )
    assert Suppression.parse(" hnms + nms + softnms:linear ") == Suppression([Hnms(), Nms(), SoftNms("linear")])
    assert Suppression.parse("nms:0.5/iou") == Suppression([Nms(0.5)])
    assert Suppression.parse("nms: 0.5 / ios / inclusive ") == Suppression([Nms(0.5, "ios", inclusive=True)])
    assert Suppression.parse("softnms") == Suppression([SoftNms()])
    assert Suppression.parse("softnms:gaussian/1e+3+limit:5") == Suppression([SoftNms(sigma=1000), Limit(5)])


counts = st.integers(0, 10**6)
shares = st.floats(0, 1)
scores = st.floats(0, 1e300)
sigmas = st.floats(1e-30, 1e30)
metrics = st.sampled_from(["iou", "ios", "diou"])
steps = st.one_of(
    st.builds(TopK, counts),
    st.builds(Limit, counts),
    st.builds(ScoreThreshold, st.floats(allow_nan=False)),
    st.builds(Nms, shares, metrics),
    st.builds(Nms, st.floats(0, 1, exclude_min=True), metrics, st.booleans()),
    st.builds(Nmm, st.floats(0, 1, exclude_min=True), metrics, st.booleans(), st.booleans()),
    st.builds(Vote, shares),
    st.builds(Wbf, shares, st.sampled_from(["avg", "max"])),
    st.builds(Hnms, st.floats(0, 1, exclude_min=True, exclude_max=True), st.integers(1, 1000)),
    st.builds(SoftNms, st.sampled_from(["gaussian", "linear", "hard"]), sigmas, shares, scores),
)


@given(st.lists(steps, min_size=1, max_size=5))
def test_every_value_reads_back_what_it_writes(chain):
    suppression = Suppression(chain)
    assert Suppression.parse(str(suppression)) == suppression
    assert Suppression.from_dict(suppression.to_dict()) == suppression
    assert pickle.loads(pickle.dumps(suppression)) == suppression
    assert hash(Suppression.parse(str(suppression))) == hash(suppression)


def test_a_dict_survives_json():
    suppression = Suppression(EXAMPLES["top:9000+hnms:0.73/1+nms:0.5+limit:1000"])
    data = suppression.to_dict()
    assert data == {
        "steps": [
            {"step": "top", "k": 9000},
            {"step": "hnms", "alpha": 0.73, "num_hashes": 1},
            {"step": "nms", "iou_threshold": 0.5, "metric": "iou", "inclusive": False},
            {"step": "limit", "k": 1000},
        ]
    }
    assert Suppression.from_dict(json.loads(json.dumps(data))) == suppression
    assert Suppression.from_dict({"steps": [{"step": "nms", "iou_threshold": 0.5}]}) == Suppression([Nms(0.5)])


def test_numbers_of_other_types_become_plain_ones():
    suppression = Suppression([Hnms(np.float64(0.5), np.int64(2)), TopK(np.int32(7)), SoftNms(np.str_("linear"))])
    assert json.dumps(suppression.to_dict())
    assert str(suppression) == "hnms:0.5/2+top:7+softnms:linear/0.3"
    assert repr(suppression.steps[2]).startswith("SoftNms(method='linear'")


def test_values_are_immutable_and_comparable():
    step = Nms(0.5)
    suppression = Suppression([step])
    with pytest.raises(FrozenInstanceError):
        suppression.steps = ()  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        step.iou_threshold = 0.7  # type: ignore[misc]
    assert suppression != Suppression([Nms(0.6)])
    assert suppression != Suppression([Nms(0.5), Limit(3)])
    assert len({suppression, Suppression.parse("nms:0.5"), Suppression.parse("nms:0.50")}) == 1
    assert SoftNms("linear", sigma=9.0) == SoftNms("linear")
    assert SoftNms("gaussian", iou_threshold=0.9) == SoftNms()


def by_hand(chain, boxes, scores, labels):
    """One step after the other, each written out plainly."""
    keep, left = np.arange(len(boxes)), np.asarray(scores)
    for step in chain:
        keep, order = np.sort(keep), np.argsort(keep)
        left = left[order]
        some_labels = np.zeros(len(keep), np.int64) if labels is None else labels[keep]
        by_score = np.lexsort((keep, -left.astype(np.float64)))
        if isinstance(step, Hnms):
            kept = hnms(boxes[keep], left, alpha=step.alpha, num_hashes=step.num_hashes, labels=some_labels)
        elif isinstance(step, Nms):
            rule = {"metric": step.metric, "inclusive": step.inclusive}
            kept = nms(boxes[keep], left, step.iou_threshold, labels=some_labels, **rule)
        elif isinstance(step, SoftNms):
            options = {"method": step.method, "sigma": step.sigma, "iou_threshold": step.iou_threshold}
            kept, decayed = soft_nms(boxes[keep], left, min_score=step.min_score, labels=some_labels, **options)
            left = left.copy()
            left[kept] = decayed
        elif isinstance(step, ScoreThreshold):
            kept = by_score[left[by_score] > step.score_threshold]
        elif isinstance(step, Limit):
            kept = by_score[: step.k]
        else:
            better = [np.sum(some_labels[by_score[:rank]] == some_labels[row]) for rank, row in enumerate(by_score)]
            kept = by_score[np.array(better, int) < step.k]
        keep, left = keep[kept], left[kept]
    return keep, left


TEXTS = [
    "top:3",
    "limit:5",
    "score:0.25",
    "nms:0.5",
    "top:6+hnms:0.5/1+nms:0.3+limit:4",
    "hnms:0.4/2+nms:0.5/ios/inclusive+limit:4",
    "hnms:0.4/2+softnms:gaussian/0.5+top:2",
    "softnms:linear/0.1+limit:3",
    "softnms:gaussian/0.5/0+nms:0.2+limit:3",
    "score:0+top:4+softnms:hard/0.5+limit:6",
    "limit:9+top:2+limit:3",
]


@pytest.mark.parametrize("text", TEXTS)
@given(data=boxes_and_scores(), labelled=st.booleans())
def test_a_chain_equals_its_steps_by_hand(text, data, labelled):
    boxes, scores = data
    labels = np.arange(len(boxes)) % 3 - 1 if labelled else None
    suppression = Suppression.parse(text)
    keep, final = suppression(boxes, scores, labels)
    expected_keep, expected_final = by_hand(suppression.steps, boxes, scores, labels)
    assert keep.dtype == np.int64
    assert np.array_equal(keep, expected_keep)
    assert final.tobytes() == expected_final.tobytes()


@pytest.mark.parametrize(
    "text", ["top:900+hnms:0.73/1+nms:0.5+limit:100", "hnms:0.73/1+softnms:gaussian/0.5+limit:100"]
)
@pytest.mark.parametrize("file", real_images(max_images=1))
def test_real_images_equal_the_steps_by_hand(file, text):
    with np.load(file) as image:
        boxes, scores, labels = image["boxes"][:4000], image["scores"][:4000], np.int64(image["labels"][:4000])
    keep, final = Suppression.parse(text)(boxes, scores, labels)
    expected_keep, expected_final = by_hand(Suppression.parse(text).steps, boxes, scores, labels)
    assert np.array_equal(keep, expected_keep)
    assert np.array_equal(final, expected_final)


def test_top_k_takes_of_each_label_and_limit_in_all():
    scene = make_scene("aerial", 30_000)
    labels = scene.labels - 5
    keep, scores = Suppression([TopK(700)])(scene.boxes, scene.scores, labels)
    for label in np.unique(labels):
        best = np.sort(scene.scores[labels == label])[::-1][:700]
        assert np.array_equal(scores[labels[keep] == label], best)
    assert (np.diff(scores) <= 0).all()
    limited = Suppression([TopK(700), Limit(900)])(scene.boxes, scene.scores, labels)
    assert np.array_equal(limited.keep, keep[:900])
    alone = Suppression([Limit(900)])(scene.boxes, scene.scores, labels)
    assert np.array_equal(alone.scores, np.sort(scene.scores)[::-1][:900])


def test_the_result_has_names_and_a_box_format_is_taken():
    boxes = np.array([[0, 0, 10, 10], [1, 0, 10, 10], [20, 0, 10, 10]], np.float32)
    result = Suppression.parse("hnms:0.5/1+nms:0.5")(boxes, [0.5, 0.75, 0.25], box_format="xywh")
    assert isinstance(result, Suppressed)
    assert result.keep.tolist() == [1, 2]
    assert result.scores.tolist() == [0.75, 0.25]
    assert np.array_equal(result.keep, nms(to_xyxy(boxes, "xywh"), np.array([0.5, 0.75, 0.25]), 0.5))


COPIES = {
    "pickle": lambda result: pickle.loads(pickle.dumps(result)),
    "old pickle": lambda result: pickle.loads(pickle.dumps(result, 0)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "_make": Suppressed._make,
    "_make of three": lambda result: Suppressed._make([*result, result.boxes]),
    "_replace": lambda result: result._replace(keep=result.keep),
    "_asdict": lambda result: Suppressed.of(**result._asdict()),
}


@pytest.mark.parametrize("text", ["nms:0.5", "nmm:0.5", "vote:0.5+limit:1", "wbf:0.5"])
@pytest.mark.parametrize("way", COPIES)
def test_every_copy_of_a_result_holds_all_of_it(text, way):
    result = Suppression.parse(text)([[0, 0, 4, 4], [0, 0, 4, 5], [9, 9, 10, 10]], [0.5, 1, 0.25])
    copied = COPIES[way](result)
    assert type(copied) is Suppressed
    assert copied == result
    assert repr(copied) == repr(result)
    if text == "nms:0.5":
        assert copied.boxes is None
    else:
        assert np.array_equal(copied.boxes, result.boxes)


def test_a_result_is_a_pair_and_its_boxes_can_be_replaced():
    result = Suppression.parse("nmm:0.5")([[0, 0, 4, 4], [0, 0, 4, 5]], [0.5, 1])
    keep, scores = result
    assert (len(result), result[0], result[:], result._fields) == (2, keep, (keep, scores), ("keep", "scores"))
    assert result._replace(boxes=None).boxes is None
    assert result._replace(scores=[7]).boxes is result.boxes
    assert repr(result).startswith("Suppressed(keep=array([1]), scores=array([1.]), boxes=array([[0., 0., 4., 5.]]")
    with pytest.raises(TypeError):
        result._replace(labels=[1])
    with pytest.raises(TypeError):
        hash(result)


def test_results_are_equal_if_all_they_hold_is():
    boxes, scores = [[0, 0, 4, 4], [0, 0, 4, 5], [9, 9, 10, 10]], [0.5, 1, 0.25]
    kept, grown = (Suppression.parse(text)(boxes, scores) for text in ("nms:0.5", "nmm:0.5"))
    assert np.array_equal(kept.keep, grown.keep)
    assert kept != grown
    assert grown != grown._replace(boxes=grown.boxes + 1)
    assert kept != kept._replace(scores=kept.scores * 2)
    assert kept != kept._replace(keep=kept.keep[:1], scores=kept.scores[:1])
    assert (kept == 3, kept != 3) == (False, True)


@pytest.mark.parametrize("name", STEPS)
def test_every_step_takes_no_boxes(name):
    values = {"top": ":5", "limit": ":5", "score": ":0"}
    keep, final = Suppression.parse(name + values.get(name, ""))(np.empty((0, 4)), np.empty(0))
    assert keep.shape == final.shape == (0,)


@pytest.mark.parametrize("name", STEPS)
def test_every_step_refuses_bad_numbers_when_it_is_the_first(name):
    suppression = Suppression.parse(name + {"top": ":0", "limit": ":0", "score": ":9"}.get(name, ""))
    with pytest.raises(ValueError, match=re.escape("boxes must be finite, got [0.0, 0.0, nan, 1.0] in row 1")):
        suppression([[0, 0, 1, 1], [0, 0, np.nan, 1]], [0.5, 0.5])
    with pytest.raises(ValueError, match=re.escape("scores must be finite, got nan in row 0 (1 such row)")):
        suppression([[0, 0, 1, 1]], [np.nan])
    with pytest.raises(ValueError, match=re.escape("box_format must be one of xyxy, xywh, cxcywh, got 'yxyx'")):
        suppression([[0, 0, 1, 1]], [1.0], box_format="yxyx")
    with pytest.raises(ValueError, match=re.escape("labels must have shape (1,), one for each box, got (2,)")):
        suppression([[0, 0, 1, 1]], [1.0], [1, 2])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a step must be one of top, hnms, nms, softnms, nmm, vote, wbf, limit, score, got ''\n    \n    ^"),
        (
            "nms:0.5+",
            f"a step must be one of {', '.join(STEPS)}, got ''\n    nms:0.5+\n            ^",
        ),
        (
            "top:9000+hmns:0.7",
            "a step must be one of top, hnms, nms, softnms, nmm, vote, wbf, limit, score, got 'hmns'\n"
            "    top:9000+hmns:0.7\n             ^^^^",
        ),
        ("hnms:1.7", "alpha must be in (0, 1), got 1.7\n    hnms:1.7\n         ^^^"),
        ("hnms:0.7/two", "num_hashes must be an integer, got 'two'\n    hnms:0.7/two\n             ^^^"),
        ("hnms:0.7/1/2", "hnms must be hnms:alpha/num_hashes, got 3 values\n    hnms:0.7/1/2\n               ^"),
        ("nms:", "iou_threshold must be a number, got ''\n    nms:\n        ^"),
        ("nms:0.5/giou", "metric must be one of iou, ios, diou, got 'giou'\n    nms:0.5/giou\n            ^^^^"),
        (
            "nms:0.5/ios/True",
            "inclusive must be left out or that word, got 'True'\n    nms:0.5/ios/True\n                ^^^^",
        ),
        (
            "nms:0/ios/inclusive",
            "iou_threshold must be above 0 if it is inclusive, got 0.0: every box would suppress all others\n"
            "    nms:0/ios/inclusive\n              ^^^^^^^^^",
        ),
        ("nms:0.5/ios/inclusive/1", "nms must be nms:iou_threshold/metric/inclusive, got 4 values"),
        ("nms:0.5+top", "top must be top:k, got 'top'\n    nms:0.5+top\n            ^^^"),
        ("top:-1", "k must be at least 0, got -1\n    top:-1\n        ^^"),
        ("softnms:soft", "method must be one of gaussian, linear, hard, got 'soft'"),
        ("softnms:linear/0.3/nan", "min_score must be finite and at least 0, got nan"),
    ],
)
def test_a_bad_text_is_shown_where_it_is_bad(text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Suppression.parse(text)


@dataclass(frozen=True)
class Unlisted(Nms):
    """A step that the table does not know."""


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: Suppression([]),
            ValueError,
            "steps must be a list of one or more of TopK, Hnms, Nms, SoftNms, Nmm, Vote, Wbf, ",
        ),
        (lambda: Suppression(5), TypeError, "ScoreThreshold, got 5"),
        (lambda: Suppression("nms:0.5"), TypeError, "got 'nms:0.5' (Suppression.parse reads strings)"),
        (lambda: Suppression([Nms(0.5), 0.7]), TypeError, "ScoreThreshold, got 0.7"),
        (lambda: Suppression([Step()]), TypeError, "ScoreThreshold, got Step()"),
        (lambda: Suppression([Unlisted(0.5)]), TypeError, "ScoreThreshold, got Unlisted(iou_threshold=0.5, "),
        (lambda: TopK(10**5000), ValueError, "k must be at most 9223372036854775807, got an integer of thousands of"),
        (lambda: SoftNms(sigma=10**5000), ValueError, "sigma must be in [1e-30, 1e30], got an integer of thousands of"),
        (lambda: Suppression.parse(None), TypeError, "text must be a string such as 'hnms:0.7/1+nms:0.5', got None"),
        (lambda: Hnms(alpha=0), ValueError, "alpha must be in (0, 1), got 0"),
        (lambda: Hnms(num_hashes=0), ValueError, "num_hashes must be at least 1, got 0"),
        (lambda: Nms("0.5"), TypeError, "iou_threshold must be a number, in [0, 1], got '0.5'"),
        (lambda: Nms(0.5, "IOU"), ValueError, "metric must be one of iou, ios, diou, got 'IOU'"),
        (lambda: Nms(0.5, "iou", 1), TypeError, "inclusive must be True or False, got 1"),
        (lambda: Nms(0, inclusive=True), ValueError, "iou_threshold must be above 0 if it is inclusive, got 0.0"),
        (lambda: SoftNms("gauss"), ValueError, "method must be one of gaussian, linear, hard, got 'gauss'"),
        (lambda: SoftNms(sigma=-1), ValueError, "sigma must be in [1e-30, 1e30], got -1"),
        (lambda: TopK(-1), ValueError, "k must be at least 0, got -1"),
        (lambda: Limit(1.5), TypeError, "k must be an integer, got 1.5"),
        (lambda: ScoreThreshold(None), TypeError, "score_threshold must be a number, not NaN, got None"),
        (lambda: Suppression.from_dict([]), TypeError, "data must be a dict with a list of steps, {'steps': [...]}"),
        (lambda: Suppression.from_dict({"steps": 1}), ValueError, "data must be a dict with a list of steps"),
        (
            lambda: Suppression.from_dict({"steps": [{"step": "hmns"}]}),
            ValueError,
            f"a step must be a dict whose 'step' is one of {', '.join(STEPS)}, got {{'step': 'hmns'}}",
        ),
        (
            lambda: Suppression.from_dict({"steps": [{"step": "hnms", "alhpa": 0.7}]}),
            ValueError,
            "a step hnms must be a dict with alpha, num_hashes, got {'step': 'hnms', 'alhpa': 0.7}",
        ),
        (lambda: Suppression.from_dict({"steps": [{"step": "top"}]}), ValueError, "a step top must be a dict with k"),
        (lambda: Suppression.from_dict({"steps": [["top"]]}), ValueError, "a step must be a dict whose 'step' is"),
        (lambda: Suppression.from_dict({"steps": [{"step": np.ones(2)}]}), ValueError, "a step must be a dict whose"),
        (lambda: Suppression.from_dict({"steps": [{"step": []}]}), ValueError, "a step must be a dict whose 'step' is"),
    ],
)
def test_bad_values_are_refused(make, error, message):
    with pytest.raises(error, match=re.escape(message)):
        make()


def test_an_error_in_a_later_step_names_the_row_of_the_input():
    boxes = np.tile([0.0, 0.0, 10.0, 10.0], (6, 1))
    boxes[[0, 4]] = [0, 1e3, 1e3, np.nextafter(1e3, 2e3)]  # too flat and too far from the origin for a cell of HNMS
    with pytest.raises(ValueError, match=re.escape("in row 4 (1 such row)")):
        Suppression.parse("top:2+hnms")(boxes, [0.1, 0.2, 0.3, 0.4, 0.9, 0.5])


def test_every_step_is_exported():
    assert all(getattr(hashnms, kind.__name__) is kind for kind in STEPS.values())


LONG = "+".join(["nms:0.5", "hnms:0.7/2", "softnms:linear/0.3/0.01", "limit:9"] * 1000)


def calls_of(function, *arguments):
    """How many functions a call calls."""
    profile = cProfile.Profile()
    profile.runcall(function, *arguments)
    return sum(entry.callcount for entry in profile.getstats())


def test_reading_and_writing_a_long_chain_takes_the_same_for_each_step():
    chain = Suppression.parse(LONG)
    tenth = Suppression(chain.steps[::10])
    for work in (lambda one: Suppression.parse(str(one)), lambda one: Suppression.from_dict(one.to_dict())):
        assert calls_of(work, chain) <= min(200 * len(chain.steps), 11 * calls_of(work, tenth))
    assert calls_of(str, chain) <= 5
    assert calls_of(hash, chain) <= 10 * len(chain.steps)
    assert pickle.loads(pickle.dumps(chain)) == chain == Suppression(list(chain.steps))


def test_an_error_shows_a_part_of_a_long_chain():
    before = f"{LONG}+"
    with pytest.raises(ValueError, match=r"^a step must be one of .*, got 'nsm'\n") as caught:
        Suppression.parse(f"{before}nsm:0.5+{LONG}")
    _, shown, mark = str(caught.value).split("\n")
    assert len(shown) < 200
    assert shown[mark.index("^") : mark.rindex("^") + 1] == "nsm"
    for wrong in ("x" * 10**6, "nms:" + "1" * 10**6, "limit:" + "1" * 10**6, f"{LONG}+nms:0.5/{LONG}"):
        with pytest.raises(ValueError) as caught:  # noqa: PT011
            Suppression.parse(wrong)
        assert len(str(caught.value)) < 1000
    steps = Suppression.parse(LONG).to_dict()["steps"]
    for call, value in (
        (Suppression, LONG),
        (Suppression, [*Suppression.parse(LONG).steps, LONG]),
        (Suppression.of, Suppression.parse(LONG).steps),
        (Suppression.from_dict, {"steps": steps, "more": 1}),
        (Suppression.from_dict, {"steps": [*steps, {"step": LONG}]}),
        (Suppression.from_dict, steps),
    ):
        with pytest.raises((TypeError, ValueError)) as caught:
            call(value)
        assert len(str(caught.value)) < 500
        assert "\n" not in str(caught.value)
