"""Tables and figures: average precision by hand, speed-ups from the JSON, interrupted measurements."""

import json
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")

from experiments import figures, measure, paper, tables  # noqa: E402
from experiments.configurations import SuppressionSettings  # noqa: E402
from experiments.datasets import DatasetError  # noqa: E402
from experiments.figures import FIGURES, OF_RAW  # noqa: E402
from experiments.methods import detections, proposals, run, soft_detections  # noqa: E402
from experiments.raw import Raw, RawFolder, SecondStage, Truth, save  # noqa: E402
from experiments.results import make_figure, make_table  # noqa: E402
from experiments.tables import TABLES, speed_up, time_of, total_of  # noqa: E402
from hashnms.synthetic import make_scene  # noqa: E402

BOX = np.float32([0, 0, 10, 10])


def shifted(*offsets):
    return np.stack([BOX + np.float32([by, 0, by, 0]) for by in offsets])


def two_objects(second=None):
    """Objects at 0 and 100; boxes on the first (twice), on the second, and on nothing."""
    boxes = shifted(0, 1, 100, 200)
    truth = Truth(shifted(0, 100), np.array([1, 1]), np.zeros(2, bool))
    scores, labels = np.float32([0.9, 0.8, 0.6, 0.7]), np.array([1, 1, 1, 1])
    if second is not None:
        labels = np.zeros(4, np.int64)
    return Raw(boxes, scores, labels, np.zeros(4, np.int64), truth, second, 20.0, None if second is None else 5.0)


def crowd(number, *, second):
    """Raw boxes of a drawn crowd. The second stage, if there is one, repeats every third of them."""
    scene = make_scene("crowd", 3000, seed=number)
    boxes, scores, labels = scene.boxes, scene.scores, np.ones(3000, np.int64)
    truth = Truth(boxes[:40], np.ones(40, np.int64), np.zeros(40, bool))
    if not second:
        return Raw(boxes, scores, labels, np.arange(3000) % 3, truth, None, 20.0)
    rows = np.arange(0, 3000, 3)
    detections = SecondStage(rows, labels[rows], scores[rows], boxes[rows], np.ones(3000, bool))
    return Raw(boxes, scores, 0 * labels, np.arange(3000) % 3, truth, detections, 20.0, 5.0)


@pytest.fixture
def two_stage(tmp_path):
    for number in range(2):
        save(crowd(number, second=True), tmp_path / "two_stage" / f"{number}.npz")
    return RawFolder(tmp_path / "two_stage")


@pytest.fixture
def one_stage(tmp_path):
    for number in range(2):
        save(crowd(number, second=False), tmp_path / "one_stage" / f"{number}.npz")
    return RawFolder(tmp_path / "one_stage")


def measured(raw, method, tmp_path, *, of_proposals, **limits):
    save(raw, tmp_path / "raw" / "one.npz")
    suppressing = SuppressionSettings(0.7, 0.5, kept_of_level=2000 if of_proposals else None)
    plan = measure.Plan("it", [measure.Setting(method, 9000)], suppressing, of_proposals, **limits)
    return measure.measure(RawFolder(tmp_path / "raw"), plan, tmp_path / "results")


def test_average_precision_by_hand(tmp_path):
    """NMS keeps 0.9 (right), 0.7 (wrong), 0.6 (right): precision 1 up to recall 1/2, then 2/3."""
    record = measured(two_objects(), detections(0.73, 0.5)[1], tmp_path, of_proposals=False)
    row = record["rows"][0]
    assert row["map_50"] == pytest.approx((51 * 1 + 50 * 2 / 3) / 101)
    assert (row["boxes_in"], row["kept"], row["recall_50"]) == (4, 3, 1)
    assert record["network_ms"] == 20.0


def test_average_precision_of_a_second_stage_by_hand(tmp_path):
    """It finds both objects from proposals 1 and 2, but NMS of the proposals has removed 1: recall 1/2."""
    rows = np.array([1, 2])
    found = SecondStage(rows, np.array([1, 1]), np.float32([0.9, 0.8]), shifted(0, 100), np.ones(4, bool))
    record = measured(two_objects(found), proposals(0.7, 0.5)[1], tmp_path, of_proposals=True)
    row = record["rows"][0]
    assert row["map_50"] == pytest.approx(51 / 101)
    assert (row["proposal_recall_50"], row["proposal_recall_70"]) == (1, 1)


def test_a_second_stage_must_have_seen_what_is_left(tmp_path):
    none = np.zeros(0)
    seen = SecondStage(none.astype(int), none.astype(int), np.float32(none), np.zeros((0, 4)), np.arange(4) != 2)
    with pytest.raises(DatasetError, match="must have processed all proposals that it leaves, got 1 that it has not"):
        measured(two_objects(seen), proposals(0.7, 0.5)[1], tmp_path, of_proposals=True)


def test_without_ground_truth_there_are_times(tmp_path):
    raw = Raw(shifted(0, 1), np.float32([0.5, 0.6]), np.array([1, 1]), np.zeros(2, np.int64))
    row = measured(raw, detections(0.73, 0.5)[0], tmp_path, of_proposals=False)["rows"][0]
    assert "map_50" not in row
    assert row["kept"] == 1
    assert time_of(row, "cpu")[0] > 0


@pytest.mark.parametrize(
    "choose", [lambda: proposals(0.7, 0.7), lambda: detections(0.73, 0.5), lambda: soft_detections(0.73, 20)]
)
def test_every_method_gives_the_answer_of_its_suppression(choose):
    scene = make_scene("crowd", 3000, seed=3)
    tensors = [torch.from_numpy(values) for values in (scene.boxes, scene.scores, scene.labels)]
    for method in choose():
        found, expected = run(method, *tensors, now=lambda: 0.0), method.suppression(*tensors)
        order, expected_order = found.keep.argsort(), expected.keep.argsort()
        assert torch.equal(found.keep[order], expected.keep[expected_order]), method
        assert torch.equal(found.scores[order], expected.scores[expected_order]), method


@pytest.mark.parametrize("name", list(TABLES))
def test_speed_ups_of_a_table_follow_from_its_json(name, one_stage, two_stage, tmp_path):
    folder = two_stage if TABLES[name].of_proposals else one_stage
    text = make_table(name, folder, tmp_path / "results", lambda *_: None)
    file = next((tmp_path / "results").glob("*.json"))
    record = json.loads(file.read_text(encoding="utf-8"))
    assert file.with_suffix(".md").read_text(encoding="utf-8") == text
    header, _, *lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == len(record["rows"])
    for cells, row in zip(lines, record["rows"], strict=True):
        shown = dict(zip(header, (cell.strip() for cell in cells), strict=True))
        first = next(one for one in record["rows"] if one["candidates"] == row["candidates"])
        stages = [value for stage, value in row["ms"]["cpu"].items() if stage not in ("all", "differing")]
        whole = sum(mean for mean, _ in stages)
        assert time_of(row, "cpu")[0] == pytest.approx(whole, abs=2e-4)
        expected = time_of(first, "cpu")[0] / time_of(row, "cpu")[0]
        assert float(shown["speed-up"].removesuffix("x").replace(",", "")) == pytest.approx(expected, rel=0.06)
        assert speed_up(row, record["rows"], "cpu") == expected
        second = 5 if TABLES[name].of_proposals else 0
        assert total_of(row, record, "cpu") == pytest.approx(20 + second + time_of(row, "cpu")[0])
        assert row["ms"]["cpu"]["differing"] == 0


def test_the_papers_figures_stand_beside_ours(two_stage, tmp_path):
    about = {"configuration": "faster_rcnn-carpk-cpu", "dataset": "carpk", "title": "CARPK test", "device": "cpu"}
    (two_stage.path / "about.json").write_text(json.dumps(about))
    text = make_table("rpn", RawFolder(two_stage.path), tmp_path / "results", lambda *_: None)
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    last = [row.rstrip("| ").split(" | ")[-4:] for row in (rows[1], *rows[3:5])]
    assert last == [
        ["96.9", "223.3 ± 36.5", "1.0x", "3,936"],
        ["97.1", "30.3 ± 5.4", "7.4x", "3,666"],
        ["97.1", "49.0 ± 6.5", "4.6x", "3,572"],
    ]
    assert "CARPK test, faster_rcnn-carpk-cpu: 2 images" in text


def test_the_papers_speed_ups_are_those_it_prints():
    printed = {
        ("RPN", "carpk"): [7.4, 4.6, 4.3, 3.2],
        ("RPN", "sku110k"): [11.6, 6.9, 6.0, 4.7],
        ("RPN", "crowdhuman"): [7.9, 5.7, 4.8, 4.2],
        ("RETINA", "carpk"): [1.2, 1.3, 1.4, 1.5],
        ("RETINA", "sku110k"): [1.3, 1.3, 1.4, 1.4],
        ("RETINA", "crowdhuman"): [1.1, 1.2, 1.2, 1.3],
        ("SOFT", "carpk"): [4.00, 5.62, 7.41, 8.57],
        ("SOFT", "sku110k"): [3.40, 5.43, 6.77, 7.94],
        ("SOFT", "crowdhuman"): [2.52, 3.85, 4.77, 5.53],
    }
    for (table, dataset), speeds in printed.items():
        rows = getattr(paper, table)[dataset]
        ours = [rows[0].times["cpu"].suppression / rows[k].times["cpu"].suppression for k in (1, 2, 3, 4)]
        assert ours == pytest.approx(speeds, abs=0.06), (table, dataset)


def counting(monkeypatch, stop_after=None):
    """Notes every image that is really measured."""
    seen: list[int] = []
    of_image = measure._of_image

    def noted(raw, plan, timed):
        if len(seen) == stop_after:
            raise KeyboardInterrupt
        seen.append(len(raw.boxes))
        return of_image(raw, plan, timed)

    monkeypatch.setattr(measure, "_of_image", noted)
    return seen


def test_an_interrupted_measurement_continues_where_it_stopped(two_stage, tmp_path, monkeypatch):
    results = tmp_path / "results"
    with monkeypatch.context() as patch:
        counting(patch, stop_after=1)
        with pytest.raises(KeyboardInterrupt):
            make_table("rpn", two_stage, results, lambda *_: None)
    assert not list(results.glob("*.json"))
    seen = counting(monkeypatch)
    make_table("rpn", two_stage, results, lambda *_: None)
    assert len(seen) == 1  # only the other image
    assert sorted(file.suffix for file in results.iterdir()) == [".json", ".md"]


def test_a_measurement_is_used_again_only_if_nothing_has_changed(two_stage, tmp_path, monkeypatch):
    results, seen = tmp_path / "results", counting(monkeypatch)
    make_table("rpn", two_stage, results, lambda *_: None)
    make_table("rpn", two_stage, results, lambda *_: None)
    assert len(seen) == 2
    make_table("rpn", two_stage, results, lambda *_: None, timed_images=1)
    assert len(seen) == 4
    save(crowd(7, second=True), two_stage.files[0])
    make_table("rpn", two_stage, results, lambda *_: None, timed_images=1)
    assert len(seen) == 6
    make_table("rpn", two_stage, results, lambda *_: None, timed_images=1, images=1)
    assert len(seen) == 7


@pytest.mark.parametrize("kind", ["one_stage", "two_stage"])
@pytest.mark.parametrize("name", OF_RAW)
def test_a_figure_is_drawn_and_written_down(name, kind, request, tmp_path):
    folder = request.getfixturevalue(kind)
    if FIGURES[name].of_proposals is False and kind == "two_stage":
        with pytest.raises(DatasetError, match="needs boxes of a one-stage detector, got proposals"):
            make_figure(name, folder, tmp_path / "results", lambda *_: None)
        return
    path = make_figure(name, folder, tmp_path / "results", lambda *_: None)
    record = json.loads(path.with_name(f"{path.name}.json").read_text(encoding="utf-8"))
    text = path.with_name(f"{path.name}.md").read_text(encoding="utf-8")
    header, _, *lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    cells = {(*line[:2], head): cell for line in lines for head, cell in zip(header[2:], line[2:], strict=True)}
    for row in record["rows"]:
        method = row["method"] + (f", K = {row['num_hashes']}" if row["num_hashes"] else "")
        for head in header[2:] if row["alpha"] is None and name == "alpha" else [f"{row[_column(name)]:,}"]:
            assert cells[method, row["by"], head].split()[0] == f"{100 * row['map_50']:.1f}"
    assert path.with_name(f"{path.name}.png").stat().st_size > 10_000
    svg = path.with_name(f"{path.name}.svg").read_bytes()
    figures.draw(name, record, path)
    assert path.with_name(f"{path.name}.svg").read_bytes() == svg


def _column(name):
    return "alpha" if name == "alpha" else "candidates"


def test_a_figure_needs_ground_truth_and_times(one_stage, tmp_path):
    with pytest.raises(DatasetError, match="needs times of at least one image"):
        make_figure("p1", one_stage, tmp_path / "results", lambda *_: None, timed_images=0)
    save(replace(crowd(0, second=False), truth=None), one_stage.files[0])
    with pytest.raises(DatasetError, match="must have ground truth for a figure"):
        make_figure("alpha", one_stage, tmp_path / "results", lambda *_: None)


def test_a_table_of_the_other_kind_of_boxes_is_refused(two_stage, tmp_path):
    with pytest.raises(DatasetError, match="must hold boxes of a one-stage detector, got proposals of an RPN"):
        make_table("retina", two_stage, tmp_path / "results", lambda *_: None)


def test_ignored_objects_need_not_be_found_and_finding_them_is_no_mistake(tmp_path):
    """The object at 100 is ignored: the box on it counts for nothing, the one at 200 is wrong, and comes last."""
    raw = two_objects()
    truth = raw.truth._replace(ignore=np.array([False, True]))
    ignored = replace(raw, truth=truth, scores=np.float32([0.9, 0.8, 0.7, 0.1]))
    row = measured(ignored, detections(0.73, 0.5)[1], tmp_path, of_proposals=False)["rows"][0]
    assert row["map_50"] == pytest.approx(1.0)
    found = SecondStage(np.array([0]), np.array([1]), np.float32([0.9]), shifted(0), np.ones(4, bool))
    of_second = replace(ignored, labels=0 * ignored.labels, second=found, boxes=shifted(0, 1, 500, 200))
    row = measured(of_second, proposals(0.7, 0.5)[1], tmp_path, of_proposals=True)["rows"][0]
    assert (row["map_50"], row["proposal_recall_50"]) == (pytest.approx(1.0), 1.0)


def test_images_without_boxes_or_objects_are_measured(tmp_path):
    some = two_objects()
    no_boxes = {name: getattr(some, name)[:0] for name in ("boxes", "scores", "labels", "level")}
    save(replace(some, **no_boxes), tmp_path / "raw" / "a.npz")
    save(replace(some, truth=Truth(*(values[:0] for values in some.truth))), tmp_path / "raw" / "b.npz")
    for choose in (detections(0.73, 0.5), soft_detections(0.73, 20)):
        for method in choose:
            row = measured(two_objects(), method, tmp_path, of_proposals=False)["rows"][0]
            assert 0 < row["recall_50"] <= 0.5  # of four objects two are in the image without boxes


def test_the_bound_needs_no_boxes(tmp_path):
    path = make_figure("bound", None, tmp_path, lambda *_: None)
    assert "| 0.5 | 0.1624 |" in path.with_name("bound.md").read_text(encoding="utf-8")
    assert "0.5015" in path.with_name("bound.svg").read_text(encoding="utf-8")


def test_alpha_and_p1_are_those_of_the_paper():
    suppressing = SuppressionSettings(0.73, 0.5)
    over_alpha = figures.plan_of("alpha", "x", suppressing, False)
    assert {setting.method.num_hashes for setting in over_alpha.settings} == {None, 1, 2, 3, 4}
    alphas = {getattr(setting.method.suppression.steps[0], "alpha", None) for setting in over_alpha.settings}
    assert alphas == {None, 0.5, 0.55, 0.6, 0.65, 0.7, 0.73, 0.75, 0.8, 0.85, 0.9}
    over_counts = figures.plan_of("p1", "x", suppressing, False)
    assert {setting.candidates for setting in over_counts.settings} == {100, 300, 1000, 2000, 3000, 5000, 9000}
    assert tables.plan_of("soft", "x", suppressing).settings[0].method.by == "plain loop"
