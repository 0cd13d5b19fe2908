"""The benchmarks' own code: what they compare with is right, and what they say is what was measured."""

import shutil
import sys
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from hashnms import hnms, nms, reference, soft_nms
from hashnms.boxes import pairwise_iou
from hashnms.synthetic import make_scene
from tests.support.boxes import crowd

if shutil.which("c++") is None:
    pytest.skip("the loops to compare with need a C++ compiler", allow_module_level=True)

from benchmarks.compare import Result, Series, difference, fitted_exponent, interleaved
from benchmarks.families import FAMILIES
from benchmarks.headline import HEADLINE_BEGIN, HEADLINE_END, write_headline
from benchmarks.later_algorithms import LATER, matrix_nms
from benchmarks.memory import peak_bytes
from benchmarks.page import REPOSITORY, draw, of_set, page
from benchmarks.peers import ALPHA, HNMS, OUR_HNMS, OUR_NMS, OUR_NMS_OF_TENSORS, Peer, Workload
from benchmarks.plain import plain_nms, plain_soft_nms
from benchmarks.quality import quality, sets_with_truth
from benchmarks.quick import LEAST_SHARE, ratios
from benchmarks.quick import main as quick_check
from benchmarks.record import COMMITTED, load, save
from benchmarks.tables import Family
from benchmarks.threads import makespan, tile_seconds

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


@pytest.mark.parametrize("peer", HNMS, ids=lambda peer: peer.name)
def test_the_plain_ways_to_hnms_are_hnms(peer):
    work = workload()
    assert np.array_equal(peer.call(work)(), reference.hnms(work.boxes, work.scores, alpha=ALPHA))


@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured through /proc")
@pytest.mark.memory
def test_peak_memory_is_at_least_that_of_the_result():
    taken: dict[str, Any] = {peer.name: peak_bytes("hnms", peer, 200_000) for peer in [OUR_HNMS, *HNMS]}
    scene = make_scene("parking_lot", 200_000)
    kept = len(hnms(scene.boxes, scene.scores, alpha=ALPHA))
    assert all(8 * kept <= bytes_taken < 1000 * 200_000 for bytes_taken in taken.values())
    assert taken[OUR_HNMS.name] < taken["NumPy"]


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
    calls = {name: lambda name=name: called.append(name) for name in "ab"}
    monkeypatch.setattr("benchmarks.compare.ROUND", 0.0)  # no call is short
    times = interleaved(calls, rounds=3)
    assert [len(taken) for taken in times.values()] == [3, 3]
    assert "".join(called) == "ab" + 3 * "ab"  # to warm up, and three rounds
    called.clear()
    monkeypatch.setattr("benchmarks.compare.ENOUGH", 2.0)
    times = interleaved(calls, rounds=3, first_seconds={"a": 2.5})  # it has had enough
    assert times["a"] == [2.5]
    assert "".join(called) == 4 * "b"


def test_a_peer_that_needs_too_much_memory_is_left_out(monkeypatch):
    monkeypatch.setattr("benchmarks.compare.MOST_BYTES", 1000)
    peers = [Peer("large", "hashnms", plain_nms, bytes_per_pair=1)]
    assert [Series(OURS, peers, lambda *_: True).run(workload(n), rounds=1)[1].answer for n in (30, 40)] == [
        "same",
        "over 4 GB",
    ]


def results_of(best_of, sizes=(10_000, 100_000)):
    return [
        {"workload": "w", "boxes": size, "peer": peer, "best": best(size), "median": best(size), "answer": answer}
        for size in sizes
        for peer, best, answer in best_of
    ]


RESULTS = results_of(
    [
        ("ours", lambda size: size * 1e-8, "same"),
        ("theirs", lambda size: size**2 * 1e-11, "3 boxes missing, 0 more, of 9"),
        ("faster", lambda size: size * 0.9e-8, "same boxes, not by score"),
        ("rough", lambda size: size * 1e-9, "recall 90.0%, precision 80.0%"),
        ("hashnms too", lambda size: 3e-4 * (size / 1e4) ** 1.2, "recall 95.0%, precision 70.0%"),
        ("slow", lambda _: None, "over a minute"),
        ("broken", lambda _: None, "fails: ValueError"),
    ]
)


def test_the_page_shows_ratios_what_differs_and_how_time_grows():
    record = {
        "machine": "a machine",
        "versions": {"theirs": "1.0"},
        "families": {"f": {"title": "A title", "results": RESULTS}},
        "memory": {"boxes": 1000, "bytes": {"nms": {"ours": 64_000, "theirs": "unknown"}}},
    }
    text = "\n".join(page(record))
    assert "The machine: a machine. theirs 1.0." in text
    assert "| 10,000 | 10 | 10x * | 0.90x | 0.10x | 3.0x | > 1 min | fails |" in text
    assert "- theirs: 3 boxes missing, 0 more, of 9.\n- faster: same boxes, not by score.\n" in text
    assert "from 10,000 boxes on: ours 1.00, theirs 2.00, faster 1.00, rough 1.00, hashnms too 1.20." in text
    assert "hashnms too 1.20. Our aim, at most 1.1, is missed by hashnms too.\n" in text
    assert "| w | 10,000 | 90.0%, 80.0% | 95.0%, 70.0% |" in text
    behind = [
        "10,000 boxes: faster takes 0.90x the time of ours.",
        "100,000 boxes: faster takes 0.90x the time of ours.",
    ]
    assert [line for line in text.splitlines() if " takes " in line and line.startswith("- ")] == [
        f"- A title, w, {line}" for line in behind
    ]
    assert "| nms | ours | 64 |" in text
    assert "| nms | theirs | unknown |" in text
    assert fitted_exponent([(10, 1.0), (100, 10.0)]) == pytest.approx(1.0)


def test_the_page_begins_with_our_time_and_the_ratios_of_the_peers():
    results = results_of(
        [
            ("hashnms nms", lambda size: size * 1e-7, "same"),
            ("hashnms hnms", lambda size: size * 1e-8, "recall 90.0%, precision 80.0%"),
            ("quick", lambda size: 2e-7 if size == 10 else size * 3e-7, "same"),
            ("other", lambda size: size * 5e-7, "3 boxes missing, 0 more, of 9"),
        ],
        sizes=(10, 45_000),
    )
    record = {"machine": "", "versions": {}, "families": {"nms-0.5": {"title": "A title", "results": results}}}
    beginning, _, _ = "\n".join(page(record)).partition("## How it was measured")
    assert "- **A title**, 45,000 boxes: hashnms nms takes 4.5 ms. Peers: quick 3.0x, other 5.0x *.\n" in beginning
    assert "in 1 case, none with more than 10 boxes.\n" in beginning


def test_the_page_shows_average_precision(tmp_path):
    numbers: dict[str, Any] = {"map": 0.3, "recall_50": 0.8, "boxes": 5}
    kinds = ["recall_of_nms", "precision_of_nms", "matched_recall_of_nms", "matched_precision_of_nms"]
    agreed = dict.fromkeys(kinds, 0.9)
    measured = [
        {
            "method": method,
            "alpha": alpha,
            "num_hashes": count,
            "most_in": most_in,
            "seconds": seconds,
            "map_50": precision,
        }
        | numbers
        | agreed
        for method, alpha, count, precision, seconds in [
            ("NMS", None, None, 0.5, 2.0),
            ("Soft-NMS", None, None, 0.51, 4.0),
            ("HNMS", 0.7, 1, 0.4, 1.0),
        ]
        for most_in in (100, 9000)
    ]
    groups = {"over_hashes": measured, "over_most_in": measured, "later": measured}
    text = "\n".join(of_set("a_set", groups))
    assert "HNMS (NMS: 50.0, Soft-NMS: 51.0):\n\n|  | alpha 0.7 |\n|---|---:|\n| K = 1 | 40.0 |" in text
    assert "| 9,000 | 50.0 (1.00) | 51.0 (2.00) | 40.0 (0.50) |" in text
    assert "| HNMS 0.7/1 | 40.0 | 30.0 | 80.0 | 0.50x | 90.0 | 90.0 | 90.0 | 90.0 |" in text
    draw({"families": {"nms-0.5": {"title": "A title", "results": RESULTS}}, "quality": {"a_set": groups}}, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["benchmarks-a_set.svg", "benchmarks-nms.svg"]
    assert "A title" in (tmp_path / "benchmarks-nms.svg").read_text()


def test_the_headline_is_written_between_its_lines(tmp_path):
    readme = tmp_path / "README.md"
    blocks = [f"{HEADLINE_BEGIN.format(name)}\nold\n{HEADLINE_END}\n" for name in ("sentence", "tables")]
    readme.write_text(f"before\n{'between'.join(blocks)}after\n")
    peers = [
        (OUR_NMS.name, lambda size: size * 1e-8, "same"),
        (OUR_NMS_OF_TENSORS.name, lambda size: size * 2e-8, "same"),
        ("torchvision", lambda size: size * 1e-6, "same"),
        ("lsnms", lambda size: size * 4e-8, "same"),
        ("OpenCV", lambda size: size * 0.5e-8, "3 boxes missing, 0 more, of 9"),
        ("onnxruntime", lambda _: None, "over a minute"),
    ]
    record = {"families": {name: {"results": results_of(peers)} for name in ("nms-0.5", "nms-0.7")}}
    write_headline(record, readme)
    text = readme.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "| 10,000 | 10 ms | 0.20 ms (50x faster) | 10 ms | 0.20 ms (50x faster) |" in text
    cells = ["10,000", "0.10 ms", "not measured", "0.40 ms (4.0x)", "0.050 ms (0.50x *)", "> 1 min"]
    assert f"| {' | '.join(cells)} |" in text
    assert "old" not in text
    write_headline(record, readme)
    assert readme.read_text() == text
    readme.write_text("nothing here")
    with pytest.raises(SystemExit, match="must have the lines"):
        write_headline(record, readme)
    assert readme.read_text() == "nothing here"


def test_results_are_written_a_line_each_and_read_back(tmp_path):
    record = {"machine": "m", "families": {"f": {"title": "t", "results": RESULTS}}, "quality": {}, "none": []}
    save(record, tmp_path / "results.json")
    assert load(tmp_path / "results.json") == record
    lines = (tmp_path / "results.json").read_text().splitlines()
    assert sum('"peer"' in line for line in lines) == len(RESULTS)


def test_a_ratio_that_fell_by_more_than_half_is_found():
    results = [
        Result("w", 10_000, peer, best, best, "same") for peer, best in [("ours", 1.0), ("theirs", 4.9), ("rough", 0.1)]
    ]
    theirs, rough = ratios(Family(RESULTS), "f", results)
    assert (theirs.committed, theirs.now) == (pytest.approx(10.0), 4.9)
    assert theirs.share < LEAST_SHARE < rough.share


def test_the_quick_check_fails_where_a_ratio_fell_and_where_nothing_is_compared(tmp_path, monkeypatch, capsys):
    series = Series(OUR_NMS, [Peer("plain loop", "hashnms", plain_nms)], lambda *_: True)
    monkeypatch.setattr("benchmarks.quick.on_one_thread", lambda: None)
    monkeypatch.setattr("benchmarks.quick.runs", lambda: [("f", series, [workload()])])
    for ratio, message in (
        (1e-3, None),
        (1e6, "fell by more than half: f, 300 boxes, plain loop"),
        (None, "nothing to"),
    ):
        seconds = {"hashnms nms": 1.0, "plain loop": ratio}
        committed = [asdict(Result("a crowd", 300, peer, best, best, "same")) for peer, best in seconds.items()]
        save({"families": {"f": {"results": committed}}}, tmp_path / "results.json")
        monkeypatch.setattr("sys.argv", ["quick", "--against", str(tmp_path / "results.json")])
        if message is None:
            quick_check()
            assert "none of 1 ratios fell" in capsys.readouterr().out
        else:
            with pytest.raises(SystemExit, match=message):
                quick_check()


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_no_peer_that_is_installed_fails(name):
    for results in FAMILIES[name][1](1000 if name == "batches" else 100):
        assert [result for result in results if result.answer.startswith("fails")] == []


def test_the_committed_page_is_that_of_the_committed_results(tmp_path):
    record = load(COMMITTED)
    assert "\n".join(page(record)).rstrip() + "\n" == (REPOSITORY / "docs/explanation/benchmarks.md").read_text(
        encoding="utf-8"
    )
    readme = tmp_path / "README.md"
    readme.write_text((REPOSITORY / "README.md").read_text(encoding="utf-8"), encoding="utf-8")
    write_headline(record, readme)
    assert readme.read_text(encoding="utf-8") == (REPOSITORY / "README.md").read_text(encoding="utf-8")


def test_average_precision_is_measured_of_sets_with_ground_truth(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.quality.ALPHAS", [0.7])
    monkeypatch.setattr("benchmarks.quality.HASHES", [1])
    monkeypatch.setattr("benchmarks.quality.MOST_IN", [50, 300])
    work = workload(labelled=True)
    found = {"boxes": work.boxes, "scores": work.scores, "labels": work.labels}
    best = nms(work.boxes, work.scores, 0.5, labels=work.labels)[:10]
    truth = {"gt_boxes": work.boxes[best], "gt_labels": work.labels[best], "gt_ignore": np.zeros(10, bool)}
    for name, image in {"with": found | truth, "without": found}.items():
        (tmp_path / name).mkdir()
        np.savez(tmp_path / name / "1.npz", **image)
    assert [path.name for path in sets_with_truth(tmp_path)] == ["with"]
    groups = quality(tmp_path / "with")
    exact, *others = groups["later"]
    assert exact["method"] == "NMS"
    assert exact["recall_50"] == exact["recall_of_nms"] == 1.0
    assert {one["method"] for one in others} >= {
        "HNMS",
        "HNMS + NMS",
        "Soft-NMS",
        "Fast NMS",
        "Matrix NMS",
        "Cluster-NMS",
    }
    assert next(one for one in others if one["method"] == "Cluster-NMS")["map"] == exact["map"]
    assert {one["most_in"] for one in groups["over_most_in"]} == {50, 300}
    assert len(groups["over_hashes"]) == 5


def test_threads_take_the_next_tile_when_they_are_idle():
    assert makespan([3.0, 2.0, 2.0], 1) == 7.0
    assert makespan([3.0, 2.0, 2.0], 2) == 4.0
    assert makespan([1.0, 1.0], 8) == 1.0


def test_the_simulation_of_threads_times_every_tile_of_every_round():
    first, *later = tile_seconds(make_scene("crowd", 3000), 0.5, 6)
    assert len(first) == 6
    assert later
    assert all(seconds >= 0.0 for of_round in (first, *later) for seconds in of_round)
