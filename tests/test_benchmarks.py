"""The benchmarks' own code: what they compare with is right, and what they say is what was measured."""

import shutil
from itertools import pairwise

import numpy as np
import pytest
from conftest import crowd

from hashnms import nms, reference, soft_nms
from hashnms.boxes import pairwise_iou

if shutil.which("c++") is None:
    pytest.skip("the loops to compare with need a C++ compiler", allow_module_level=True)

from benchmarks.compare import Series, difference, fitted_exponent, interleaved
from benchmarks.later_algorithms import LATER, matrix_nms
from benchmarks.page import page
from benchmarks.peers import Peer, Workload
from benchmarks.plain import plain_nms, plain_soft_nms

LATER_BY_NAME = {peer.name: peer for peer in LATER}


def workload(count=300, iou_threshold=0.5, labelled=False, seed=0):
    rng = np.random.default_rng(seed)
    scores = (rng.integers(0, 50, count) / 50 + 0.01).astype(np.float32)  # they tie
    labels = rng.integers(0, 3, count) if labelled else None
    return Workload("a crowd", crowd(rng, count).astype(np.float32), scores, labels, iou_threshold)


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("iou_threshold", [0.0, 0.3, 0.5, 0.9])
def test_the_plain_loop_is_nms(iou_threshold, labelled):
    work = workload(iou_threshold=iou_threshold, labelled=labelled)
    expected, _ = reference.nms(work.boxes, work.scores, iou_threshold, labels=work.labels)
    assert np.array_equal(plain_nms(work)(), expected)


def test_the_plain_loop_is_soft_nms():
    work = workload()
    keep, lowered = plain_soft_nms(work, 0.5, 1e-3, 100, with_scores=True)()
    expected, expected_lowered = soft_nms(work.boxes, work.scores, max_output=100)
    assert np.array_equal(keep, expected)
    assert lowered.tobytes() == expected_lowered.tobytes()


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("iou_threshold", [0.5, 0.7, 0.9])
@pytest.mark.parametrize("name", ["BOE-NMS", "Cluster-NMS"])
def test_some_later_algorithms_are_nms(name, iou_threshold, labelled):
    work = workload(iou_threshold=iou_threshold, labelled=labelled)
    expected = nms(work.boxes, work.scores, iou_threshold, labels=work.labels)
    assert np.array_equal(LATER_BY_NAME[name].call(work)(), expected)


def ranked_overlaps(work):
    """Rows by rank, and the IoU of each with the better ones."""
    order = np.argsort(-work.scores, kind="stable")
    return order, np.tril(pairwise_iou(work.boxes[order], work.boxes[order]), -1)


def test_fast_nms_removes_what_overlaps_any_better_box():
    work = workload()
    order, overlaps = ranked_overlaps(work)
    assert np.array_equal(LATER_BY_NAME["Fast NMS"].call(work)(), order[(overlaps <= 0.5).all(1)])


def test_matrix_nms_lowers_each_score_once():
    work = workload()
    order, overlaps = ranked_overlaps(work)
    greatest = overlaps.max(1)
    decay = np.exp(-2.0 * (overlaps**2 - greatest[None] ** 2))
    decay = np.where(overlaps > 0, decay, 1.0).min(1, initial=1.0)
    rows, lowered = matrix_nms(work.boxes, work.scores)
    expected = np.empty(len(order))
    expected[order] = work.scores[order] * decay
    assert lowered == pytest.approx(expected[rows], rel=1e-5)
    assert (np.diff(lowered) <= 0).all()


def test_eqsi_nms_compares_with_the_next_better_box_on_either_side():
    work = workload()
    order, _ = ranked_overlaps(work)
    rank = np.argsort(order)
    centers = (work.boxes[:, :2] + work.boxes[:, 2:]) / 2
    places = np.lexsort((centers[:, 1], centers[:, 0]))
    overlaps, kept = pairwise_iou(work.boxes, work.boxes), np.ones(len(places), bool)
    for place, row in enumerate(places):
        for others in (places[:place][::-1], places[place + 1 :]):
            better = next((other for other in others if rank[other] < rank[row]), None)
            if better is not None and overlaps[row, better] > 0.5:
                kept[row] = False
    assert np.array_equal(LATER_BY_NAME["eQSI-NMS"].call(work)(), order[kept[order]])


def test_maxpool_nms_keeps_the_best_of_all_and_of_boxes_far_apart():
    work = workload()
    keep = LATER_BY_NAME["MaxpoolNMS"].call(work)()
    assert keep[0] == np.argmax(work.scores)
    assert 0 < len(keep) < len(work.boxes)
    apart = work._replace(boxes=work.boxes + 1000 * np.arange(300, dtype=np.float32)[:, None])
    assert len(LATER_BY_NAME["MaxpoolNMS"].call(apart)()) == 300


OURS = Peer("ours", "hashnms", lambda work: lambda: nms(work.boxes, work.scores, work.iou_threshold))


def test_a_peer_is_left_out_when_it_fails_or_would_take_too_long(monkeypatch):
    def failing(_):
        raise RuntimeError

    peers = [Peer("quick", "hashnms", plain_nms), Peer("failing", "hashnms", failing)]
    series = Series(OURS, peers, verify=lambda *_: True)
    ours, quick, failed = series.run(workload(50), rounds=2)
    assert (ours.peer, ours.answer, quick.answer) == ("ours", "same", "same")
    assert 0 < quick.best <= quick.median
    assert (failed.best, failed.answer) == (None, "fails: RuntimeError")
    monkeypatch.setattr("benchmarks.compare.LONGEST", quick.best * 3)
    _, quick, _ = series.run(workload(100), rounds=2)  # as if quadratic: four times as long
    assert (quick.best, quick.answer) == (None, "over a minute")


def test_nothing_is_timed_if_our_own_answer_is_wrong():
    with pytest.raises(SystemExit, match="ours of a crowd, 300 boxes, is wrong"):
        Series(OURS, [], verify=lambda *_: False).run(workload())


def test_what_differs_is_said():
    work = workload()
    rows = nms(work.boxes, work.scores, 0.5)
    tied = next(k for k in range(len(rows) - 1) if work.scores[rows[k]] == work.scores[rows[k + 1]])
    swapped = rows.copy()
    swapped[[tied, tied + 1]] = rows[[tied + 1, tied]]
    exact, scores = Peer("", "", OURS.call), Peer("", "", OURS.call, returns_scores=True)
    assert difference(exact, work, rows, rows.astype(np.uint64)) == "same"
    assert difference(exact, work, rows, swapped) == "same boxes, ties in another order"
    assert difference(exact, work, rows, np.sort(rows)) == "same boxes, not by score"
    assert difference(exact, work, rows, rows[2:]) == f"2 boxes missing, 0 more, of {len(rows)}"
    assert difference(scores, work, rows, work.scores[rows][::-1]) == "same"
    assert difference(scores, work, rows, work.scores[rows][1:]) == f"{len(rows) - 1} boxes, not {len(rows)}"
    approximate = Peer("", "", OURS.call, approximates=True)
    assert difference(approximate, work, rows, rows[: len(rows) // 2]).endswith("precision 100.0%")


def test_rounds_are_interleaved_and_long_calls_have_fewer(monkeypatch):
    called = []
    monkeypatch.setattr("benchmarks.compare.ENOUGH", 0.0)
    assert interleaved({"a": lambda: called.append("a")}, rounds=3)["a"][0] > 0
    monkeypatch.setattr("benchmarks.compare.ENOUGH", 60.0)
    called.clear()
    times = interleaved({name: lambda name=name: called.append(name) for name in "ab"}, rounds=3)
    assert [len(taken) for taken in times.values()] == [3, 3]
    changes = sum(one != other for one, other in pairwise(called))
    assert changes == 2 * 4 - 1  # to warm up, and three rounds


def test_the_page_shows_ratios_what_differs_and_how_time_grows():
    results = [
        {"workload": "w", "boxes": size, "peer": peer, "best": best, "median": best, "answer": answer}
        for size in (10_000, 100_000)
        for peer, best, answer in [
            ("ours", size * 1e-8, "same"),
            ("theirs", size**2 * 1e-11, "3 boxes missing, 0 more, of 9"),
            ("slow", None, "over a minute"),
            ("broken", None, "fails: ValueError"),
        ]
    ]
    record = {
        "machine": "a machine",
        "versions": {"theirs": "1.0"},
        "families": {"f": {"title": "A title", "results": results}},
        "memory": {"boxes": 1000, "bytes": {"nms": {"ours": 64_000, "theirs": None}}},
    }
    text = "\n".join(page(record))
    assert "The machine: a machine. theirs 1.0." in text
    assert "| w | 10,000 | 10 | 10x differs |  | fails |" in text
    assert "- theirs, w, 100,000 boxes: 3 boxes missing, 0 more, of 9." in text
    assert "from 10,000 boxes on: ours 1.00, theirs 2.00." in text
    assert "| ours | 64 |" in text
    assert "| theirs | unknown |" in text
    assert fitted_exponent([(10, 1.0), (100, 10.0)]) == pytest.approx(1.0)
