"""A report is one safe, whole page, and says of each removed box what removed it."""

import base64
import hashlib
import json
import os
import re
import time
import zlib
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hashnms
from hashnms import Hnms, Nms, Suppression, reference
from hashnms.report import Method, Outcome, Picture, Report, outcome_of, parameters_of, write_report
from hashnms.report.page import shown
from hashnms.synthetic import make_scene
from tests.support.boxes import boxes_and_scores

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
HOSTILE = "</script><script>window.pwned=1</script><img src=x onerror='window.pwned=1'>\"'&\u2028\u202e\x00\ud800"


class Elements(HTMLParser):
    """The elements of a page: tag, attributes, and the text up to its end or the next element."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.is_open = False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append([tag, dict(attrs), ""])
        self.is_open = True

    def handle_endtag(self, tag):  # noqa: ARG002
        self.is_open = False

    def handle_data(self, data):
        if self.is_open:
            self.found[-1][2] += data

    def all(self, tag):
        return [(attributes, text) for name, attributes, text in self.found if name == tag]

    def block(self, name):
        (text,) = [text for attributes, text in self.all("script") if attributes.get("id") == name]
        return text

    def numbers(self, name, dtype):
        planes = np.frombuffer(zlib.decompress(base64.b64decode(self.block(name))), np.uint8)
        return planes.reshape(4, -1).T.copy().view(dtype)[:, 0]


def picture(boxes, scores, methods=(), labels=None, **rest):
    outcomes = {name: outcome_of(name, boxes, scores, labels) for name in methods}
    return Picture("a", 100, 100, boxes, scores, labels, outcomes=outcomes, **rest)


def small_report(**changes):
    scene = make_scene("crowd", 300)
    names = ["nms:0.5", "softnms:gaussian/0.5"]
    methods = [Method(name, {"kept": 5, "ms": 1.5, "map": None}, parameters_of(name)) for name in names]
    pictures = [picture(scene.boxes, scene.scores, names, scene.labels, label_names=["man", "dog"], image=PNG)]
    return replace(Report("Title", "Subtitle", methods, pictures, {"raw": [300, 200], "nms:0.5": [9, 8]}), **changes)


def written(report, folder):
    write_report(report, folder / "report.html")
    return Elements((folder / "report.html").read_text("utf-8"))


def plain_iou(a, b):
    (ax1, ay1, ax2, ay2), (bx1, by1, bx2, by2) = a, b
    width, height = min(ax2, bx2) - max(ax1, bx1), min(ay2, by2) - max(ay1, by1)
    if width <= 0 or height <= 0:
        return 0.0
    return width * height / ((ax2 - ax1) * (ay2 - ay1) + (bx2 - bx1) * (by2 - by1) - width * height)


def plain_most_overlapping(i, keep, boxes, scores, labels):
    """The kept box of its label with no lower score that overlaps box i most, ties to the score, then the row."""
    candidates = [k for k in np.flatnonzero(keep) if labels[k] == labels[i] and scores[k] >= scores[i]]
    found = [(-plain_iou(boxes[i], boxes[k]), -scores[k], k) for k in candidates]
    found = [entry for entry in found if entry[0] < 0]
    return min(found)[2] if found else -1


# ---------------------------------------------------------------- outcome_of


@given(boxes_and_scores(), st.integers(1, 3), st.sampled_from([0.0, 0.3, 0.5]))
def test_the_suppressor_of_nms_is_that_of_the_reference(data, num_labels, iou_threshold):
    boxes, scores = data
    labels = np.arange(len(boxes)) % num_labels
    outcome = outcome_of(f"nms:{iou_threshold}", boxes, scores, labels)
    keep, suppressor = reference.nms(boxes, scores, iou_threshold, labels=labels)
    assert np.flatnonzero(outcome.keep).tolist() == sorted(keep)
    assert outcome.suppressor.tolist() == suppressor.tolist()
    assert outcome.scores is None


@given(boxes_and_scores(), st.integers(1, 3), st.sampled_from([0.3, 0.7]))
def test_the_suppressor_of_hnms_is_the_best_of_the_cell(data, num_labels, alpha):
    boxes, scores = data
    labels = np.arange(len(boxes)) % num_labels
    outcome = outcome_of(f"hnms:{alpha}/1", boxes, scores, labels)
    codes = reference.iou_hash(boxes, alpha=alpha)
    for i, code in enumerate(codes):
        cell = [k for k in range(len(boxes)) if codes[k] == code and labels[k] == labels[i]] if code else [i]
        assert outcome.suppressor[i] == max(cell, key=lambda k: (scores[k], -k))


SOFT = ["softnms:gaussian/0.5/0.2", "softnms:linear/0.3/0.3"]
CHAINS = [
    "hnms:0.7/3",
    "hnms:0.5/2+nms:0.3",
    "nms:0.7+nms:0.2",
    "hnms:0.3/1+limit:3",
    "top:5+nms:0.3",
    "nms:0.3+limit:3",
]


@settings(max_examples=200)
@given(boxes_and_scores(), st.integers(1, 3), st.sampled_from([*SOFT, *CHAINS]))
def test_what_is_kept_is_what_the_suppression_keeps(data, num_labels, notation):
    boxes, scores = data
    labels = np.arange(len(boxes)) % num_labels
    expected = Suppression.parse(notation)(boxes, scores, labels)
    outcome = outcome_of(notation, boxes, scores, labels)
    assert np.flatnonzero(outcome.keep).tolist() == sorted(expected.keep)
    assert (outcome.scores is not None) == (notation in SOFT)
    if outcome.scores is not None:
        assert outcome.scores[expected.keep].tolist() == expected.scores.tolist()


def plain_removers(notation, boxes, scores, labels):
    """Of each box the one that removed it in a chain of hard steps: itself if it is kept, None if a limit did."""
    remover: dict[int, int | None] = {}
    left = list(range(len(boxes)))
    for step in Suppression.parse(notation).steps:
        if isinstance(step, Nms):
            _, by = reference.nms(boxes[left], scores[left], step.iou_threshold, labels=labels[left])
            remover |= {i: left[k] for i, k in zip(left, by, strict=True)}
        elif isinstance(step, Hnms):
            for parameters in reference.hash_family(step.alpha, step.num_hashes):
                cells: dict[object, list[int]] = {}
                for i, code in zip(left, reference.iou_hash(boxes[left], **parameters), strict=True):
                    cells.setdefault((code, labels[i]) if code else i, []).append(i)
                for cell in cells.values():
                    remover |= dict.fromkeys(cell, max(cell, key=lambda k: (scores[k], -k)))
                left = [i for i in left if remover[i] == i]
        else:
            kept = [left[k] for k in Suppression([step])(boxes[left], scores[left], labels[left]).keep]
            remover |= {i: i if i in kept else None for i in left}
        left = [i for i in left if remover[i] == i]
    return remover


@settings(max_examples=300)
@given(boxes_and_scores(), st.integers(1, 3), st.sampled_from([*SOFT, *CHAINS]))
def test_the_suppressor_is_the_kept_box_that_removed_a_box_else_the_one_that_overlaps_it_most(
    data, num_labels, notation
):
    boxes, scores = data
    labels = np.arange(len(boxes)) % num_labels
    outcome = outcome_of(notation, boxes, scores, labels)
    rows = boxes.astype(np.float64).tolist()
    removers = {} if notation in SOFT else plain_removers(notation, boxes, scores, labels)
    for i in np.flatnonzero(~outcome.keep):
        by = removers.get(i, "unknown")
        if by is None or (by != "unknown" and removers[by] is None):
            expected = -1
        elif by != "unknown" and outcome.keep[by]:
            expected = by
        else:
            expected = plain_most_overlapping(i, outcome.keep, rows, scores, labels)
        assert outcome.suppressor[i] == expected


def test_what_was_merged_into_a_box_counts_as_removed_by_it():
    scene = make_scene("crowd", 400, seed=5)
    for notation in ("nmm:0.4", "vote:0.4", "wbf:0.4", "top:300+vote:0.6+nms:0.3+limit:40"):
        data = scene.boxes, scene.scores, scene.labels
        outcome, kept = outcome_of(notation, *data), Suppression.parse(notation)(*data)
        assert np.flatnonzero(outcome.keep).tolist() == sorted(kept.keep.tolist())
        if notation == "wbf:0.4":
            clusters = hashnms.weighted_boxes_fusion(data[0], data[1], labels=data[2], iou_threshold=0.4).clusters
            assert outcome.suppressor.tolist() == kept.keep[clusters].tolist()
            np.testing.assert_array_equal(outcome.scores[kept.keep], kept.scores)
        elif "+" not in notation:
            by = hashnms.nms(data[0], data[1], 0.4, labels=data[2], return_suppressor=True)[1]
            assert outcome.suppressor.tolist() == by.tolist()


@pytest.mark.parametrize("notation", ["nmm:0.4", "vote:0.4", "wbf:0.4", "vote:0.6+nms:0.3+limit:40", "hnms+nmm:0.5"])
def test_the_page_holds_the_boxes_that_come_out_where_they_are_merged(notation, tmp_path):
    scene = make_scene("crowd", 300, seed=6)
    data = scene.boxes, scene.scores, scene.labels
    kept = Suppression.parse(notation)(*data)
    expected = scene.boxes.copy()
    expected[kept.keep] = kept.boxes
    outcome = outcome_of(notation, *data)
    assert np.array_equal(outcome.boxes, expected)
    assert outcome_of("softnms:gaussian/0.5", *data).boxes is None
    shot = Picture("a", 100, 100, *data, outcomes={"nms:0.5": outcome_of("nms:0.5", *data), notation: outcome})
    page = written(Report("t", methods=[Method("nms:0.5"), Method(notation)], pictures=[shot]), tmp_path)
    merged = page.numbers("p0-boxes-1", np.float32).reshape(4, -1).T
    assert np.array_equal(merged, kept.boxes[kept.keep.argsort()])
    assert json.loads(page.block("about"))["pictures"][0]["merged"] == [1]


@pytest.mark.parametrize("notation", ["softnms:gaussian/0.5", "softnms:linear/0.3"])
def test_blocks_of_many_boxes_find_the_same_as_a_plain_search(notation):
    scene = make_scene("crowd", 1500, seed=4)
    outcome = outcome_of(notation + "/0.1", scene.boxes, scene.scores, scene.labels)
    rows = [row.tolist() for row in scene.boxes.astype(np.float64)]
    removed = np.flatnonzero(~outcome.keep)
    assert len(removed) > 300
    for i in removed[::7]:
        assert outcome.suppressor[i] == plain_most_overlapping(i, outcome.keep, rows, scene.scores, scene.labels)


def test_a_box_that_fell_to_a_limit_was_removed_by_no_box():
    boxes = [[0, 0, 10, 10], [30, 0, 40, 10], [31, 0, 41, 10], [0, 0, 10, 9]]
    scores = [0.9, 0.8, 0.7, 0.6]
    assert outcome_of("nms:0.5+limit:1", boxes, scores).suppressor.tolist() == [0, -1, -1, 0]
    assert outcome_of("score:0.65+nms:0.5", boxes, scores).suppressor.tolist() == [0, 1, 1, -1]
    assert outcome_of("top:3+hnms:0.3/1", boxes, scores).suppressor.tolist() == [0, 1, 1, -1]


@pytest.mark.parametrize("step", ["nms:0.5/ios", "nms:0.5/ios/inclusive", "nmm:0.5/ios", "nms:0.3/diou", "vote:0.5"])
def test_outcomes_know_the_metric_of_a_step(step):
    boxes = np.array([[0, 0, 10, 10], [1, 1, 4, 4], [5, 0, 15, 10], [40, 0, 50, 10]], np.float32)
    scores = np.array([0.9, 0.8, 0.7, 0.6], np.float32)
    _, threshold, *others = re.split("[:/]", step)
    options = {"metric": others[0] if others else "iou", "inclusive": "inclusive" in others}
    expected = hashnms.nms(boxes, scores, float(threshold), **options, return_suppressor=True)[1]
    assert outcome_of(step, boxes, scores).suppressor.tolist() == expected.tolist()


def test_outcomes_of_no_boxes_are_empty():
    for notation in (*SOFT, *CHAINS):
        outcome = outcome_of(notation, np.zeros((0, 4)), [])
        assert outcome.keep.shape == outcome.suppressor.shape == (0,)


def test_parameters_are_the_numbers_of_the_steps():
    assert parameters_of("softnms:linear/0.4+limit:9") == {
        "sigma": 0.5,
        "iou_threshold": 0.4,
        "min_score": 0.001,
        "k": 9,
    }


# ---------------------------------------------------------------- the page


def test_the_page_holds_the_arrays_as_they_are(tmp_path):
    report = small_report()
    page = written(report, tmp_path)
    (shot,) = report.pictures
    assert np.array_equal(page.numbers("p0-boxes", np.float32).reshape(4, -1).T, shot.boxes)
    assert np.array_equal(page.numbers("p0-scores", np.float32), shot.scores)
    assert np.array_equal(page.numbers("p0-labels", np.int32), shot.labels)
    for place, method in enumerate(report.methods):
        outcome = shot.outcomes[method.name]
        assert np.array_equal(page.numbers(f"p0-suppressor-{place}", np.int32), outcome.suppressor)
    assert np.array_equal(page.numbers("p0-scores-1", np.float32), outcome.scores)
    assert page.block("p0-image") == f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    about = json.loads(page.block("about"))
    assert about["methods"][0]["values"] == {"kept": 5, "ms": 1.5, "map": None}
    assert about["pictures"][0]["rescored"] == [1]
    assert about["boxesPerImage"][1] == {"name": "nms:0.5", "method": 0, "counts": [9, 8]}


def test_the_policy_allows_the_pages_own_script_and_style_only(tmp_path):
    page = written(small_report(), tmp_path)
    (policy,) = [text["content"] for text, _ in page.all("meta") if "http-equiv" in text]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert "http" not in policy
    scripts = [text for attributes, text in page.all("script") if attributes["type"] == "module"]
    for directive, texts in (("script-src", scripts), ("style-src", [text for _, text in page.all("style")])):
        (text,) = texts
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert re.findall(rf"{directive} '([^']*)'", policy) == [f"sha256-{digest}"]


def test_the_page_asks_for_nothing_from_elsewhere(tmp_path):
    page = written(small_report(), tmp_path)
    for tag, attributes, _ in page.found:
        assert not any(name.startswith("on") or name == "style" for name in attributes), tag
        assert all(attributes.get(name, "data:").startswith("data:") for name in ("src", "href", "srcset", "action"))


def hostile_report():
    boxes, scores, name = np.array([[0, 0, 9, 9], [0, 0, 9, 8]]), np.array([0.5, 0.9]), f"nms:{HOSTILE}"
    shot = picture(boxes, scores, labels=[0, 1], label_names=[HOSTILE, HOSTILE])
    shot = replace(shot, name=HOSTILE, outcomes={name: outcome_of("nms:0.5", boxes, scores)})
    methods = [Method(name, {HOSTILE: 1.5, "__proto__": 2, "constructor": 3, "ms": np.inf}, {HOSTILE: 1.0})]
    return Report(HOSTILE, HOSTILE, methods, [shot], {HOSTILE: [1, 2], "raw": [2, 4]})


def test_text_from_files_stays_text(tmp_path):
    honest, hostile = written(small_report(pictures=[]), tmp_path), written(hostile_report(), tmp_path)
    page = (tmp_path / "report.html").read_bytes()
    assert b"window.pwned=1</script>" not in page
    assert b"<img" not in page
    assert b"\x00" not in page
    assert "\u202e".encode() not in page
    without_blocks = [
        tag for tag, attributes, _ in hostile.found if attributes.get("type") != "application/octet-stream"
    ]
    assert without_blocks == [tag for tag, _, _ in honest.found]
    about = json.loads(hostile.block("about"))
    assert about["methods"][0]["name"] == shown(f"nms:{HOSTILE}")
    assert about["methods"][0]["values"]["ms"] is None


def test_placeholders_in_text_are_not_filled_in(tmp_path):
    page = written(small_report(title="$js ${css} $$"), tmp_path)
    assert [text for _, text in page.all("title")] == ["$js ${css} $$"]


@given(st.text(st.characters(codec=None), max_size=30))
def test_shown_text_can_be_written_and_leaves_plain_text_alone(text):
    assert len(shown(text).encode()) >= len(text)
    assert shown("plain — größer 漢字 🚗") == "plain — größer 漢字 🚗"


def test_an_empty_report_can_be_written(tmp_path):
    assert json.loads(written(Report("Nothing"), tmp_path).block("about"))["methods"] == []
    empty = picture(np.zeros((0, 4)), [], ["nms:0.5"])
    assert written(Report("No boxes", "", [Method("nms:0.5")], [empty]), tmp_path).numbers("p0-boxes", "<f4").size == 0


@pytest.mark.slow
def test_twelve_pictures_of_45000_boxes_are_written_in_seconds(tmp_path):
    scene = make_scene("parking_lot", 45_000)
    names = ["nms:0.5", "hnms:0.7/1", "hnms:0.73/1+nms:0.5"]
    start = time.perf_counter()
    shot = picture(scene.boxes, scene.scores, names, scene.labels)
    assert time.perf_counter() - start < 10
    start = time.perf_counter()
    write_report(Report("Large", "", [Method(name) for name in names], [shot] * 12), tmp_path / "large.html")
    assert time.perf_counter() - start < 15
    assert (tmp_path / "large.html").stat().st_size < 12 * 1_700_000  # raw, in base 64, they were 2,160,000 each


# ---------------------------------------------------------------- files


def test_the_old_page_survives_a_failing_write(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_report(small_report(), path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["report.html"]


def test_a_page_takes_the_place_of_the_old_one_and_leaves_nothing_beside_it(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    write_report(small_report(), str(path))
    assert path.read_text().startswith("<!doctype html>")
    assert os.listdir(tmp_path) == ["report.html"]


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="missing"):
        write_report(small_report(), tmp_path / "missing" / "report.html")


# ---------------------------------------------------------------- errors

BOXES, SCORES = np.array([[0.0, 0.0, 9.0, 9.0], [0.0, 0.0, 9.0, 8.0]]), np.array([0.5, 0.9])


@pytest.mark.parametrize(
    ("image", "media_type", "message"),
    [
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", None, "got bytes that start with b'<svg'"),
        (b"<svg/>", "image/png", "image must be a JPEG, PNG or WebP, got bytes that start with b'<svg'"),
        (b"RIFF\0\0\0\0WAVE", None, "got bytes that start with b'RIFF'"),
        (b"", None, "got bytes that start with b''"),
        (PNG, "image/svg+xml", "media_type must be that of the image, 'image/png', got 'image/svg+xml'"),
    ],
)
def test_only_images_are_taken_for_images(image, media_type, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        picture(BOXES, SCORES, image=image, media_type=media_type)


@pytest.mark.parametrize(
    ("start", "media_type"),
    [(PNG, "image/png"), (b"\xff\xd8\xff\xe0", "image/jpeg"), (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp")],
)
def test_the_media_type_is_told_by_the_bytes(start, media_type):
    assert picture(BOXES, SCORES, image=start).media_type == media_type


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Picture("a", 0, 9, BOXES, SCORES), "width must be a positive number, got 0"),
        (lambda: Picture("a", 9, np.nan, BOXES, SCORES), "height must be a positive number, got nan"),
        (lambda: Picture("a", 9, 9, BOXES[:, :3], SCORES), "boxes must have shape (N, 4), got (2, 3)"),
        (lambda: Picture("a", 9, 9, BOXES * 1e300, SCORES), "boxes must be finite"),
        (lambda: Picture("a", 9, 9, BOXES, SCORES, [2**40, 0]), "labels must fit into 32 bits"),
        (
            lambda: Picture("a", 9, 9, BOXES, SCORES, outcomes={"m": Outcome(np.ones(1, bool), np.zeros(1, int))}),
            "outcome of 'm' must have 2 boxes, got 1",
        ),
        (lambda: Outcome(np.ones(2), np.arange(2)), "keep must be bools of shape (N,), got float64 of shape (2,)"),
        (
            lambda: Outcome(np.ones(2, bool), np.arange(2), boxes=np.zeros((3, 4))),
            "boxes must have shape (2, 4), got (3, 4)",
        ),
        (lambda: Outcome(np.ones(2, bool), np.arange(3)), "suppressor must be integers of shape (2,)"),
        (lambda: Outcome(np.array([True, False]), np.array([0, 1])), "got 1 in row 1 (1 in all)"),
        (lambda: Outcome(np.array([True, False]), np.array([0, 2])), "got 2 in row 1"),
        (lambda: Outcome(np.array([False, False]), np.array([1, -1])), "got 1 in row 0"),
        (lambda: Report("a", methods=[Method("m"), Method("m")]), "distinct names, got 'm' 2 times"),
        (
            lambda: Report("a", pictures=[picture(BOXES, SCORES, ["nms:0.5"])]),
            "outcomes of picture 'a' must be of known methods, got 'nms:0.5'",
        ),
    ],
)
def test_what_does_not_fit_is_refused_and_named(make, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make()
