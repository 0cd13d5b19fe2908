"""Tables and figures: average precision by hand, speed-ups from the JSON, measurements that go on where they were."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")

from experiments import figures, measure, paper, tables  # noqa: E402
from experiments.configurations import Suppressing  # noqa: E402
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


@pytest.fixture
def crowds(tmp_path):
    """Raw boxes of two images, with a second stage that repeats them."""
    folder = tmp_path / "crowds"
    for number in range(2):
        scene = make_scene("crowd", 3000, seed=number)
        boxes, scores = scene.boxes.astype(np.float32), scene.scores.astype(np.float32)
        rows = np.arange(0, 3000, 3)
        second = SecondStage(rows, np.ones(1000, np.int64), scores[rows], boxes[rows], np.ones(3000, bool))
        truth = Truth(boxes[:40], np.ones(40, np.int64), np.zeros(40, bool))
        level = np.arange(3000) % 3
        save(Raw(boxes, scores, np.zeros(3000, np.int64), level, truth, second, 20.0, 5.0), folder / f"{number}.npz")
    return RawFolder(folder)


def measured(raw, method, tmp_path, *, of_proposals, **limits):
    save(raw, tmp_path / "raw" / "one.npz")
    suppressing = Suppressing(0.7, 0.5, kept_of_level=2000 if of_proposals else None)
    plan = measure.Plan("it", [measure.Setting(method, 9000)], suppressing, of_proposals, **limits)
    return measure.measure(RawFolder(tmp_path / "raw"), plan, tmp_path / "results")


def test_average_precision_by_hand(tmp_path):
    """NMS leaves 0.9 (right), 0.7 (wrong), 0.6 (right): precision 1 up to recall 1/2, then 2/3."""
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
    with pytest.raises(DatasetError, match="must have seen all proposals that it leaves, got 1 that it has not"):
        measured(two_objects(seen), proposals(0.7, 0.5)[1], tmp_path, of_proposals=True)


def test_without_ground_truth_there_are_times(tmp_path):
    raw = Raw(shifted(0, 1), np.float32([0.5, 0.6]), np.array([1, 1]), np.zeros(2, np.int64))
    row = measured(raw, detections(0.73, 0.5)[0], tmp_path, of_proposals=False)["rows"][0]
    assert "map_50" not in row
    assert row["kept"] == 1
    assert time_of(row, "cpu")[0] > 0


@pytest.mark.parametrize(
    "choose", [lambda: proposals(0.7, 0.7), lambda: detections(0.73, 0.5), lambda: soft_detections(0.73)]
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
def test_speed_ups_of_a_table_follow_from_its_json(name, crowds, tmp_path):
    text = make_table(name, crowds, tmp_path / "results", lambda *_: None)
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
        assert total_of(row, record, "cpu") == pytest.approx(20 + 5 + time_of(row, "cpu")[0])
        assert row["ms"]["cpu"]["differing"] == 0


def test_the_papers_figures_stand_beside_ours(crowds, tmp_path):
    (crowds.path / "about.json").write_text(
        json.dumps(
            {"configuration": "faster_rcnn-carpk-cpu", "dataset": "carpk", "title": "CARPK test", "device": "cpu"}
        )
    )
    text = make_table("rpn", RawFolder(crowds.path), tmp_path / "results", lambda *_: None)
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert [row.rstrip("| ").split(" | ")[-3:] for row in rows[3:5]] == [
        ["97.1", "30.3", "7.4x"],
        ["97.1", "49.0", "4.6x"],
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
        ours = [rows[0].cpu_ms / rows[count].cpu_ms for count in (1, 2, 3, 4)]
        assert ours == pytest.approx(speeds, abs=0.06), (table, dataset)


def test_an_interrupted_measurement_goes_on_where_it_was(crowds, tmp_path, monkeypatch):
    results = tmp_path / "results"
    seen: list[int] = []
    of_image = measure._of_image

    def interrupted(raw, plan, timed):
        if len(seen) == 1:
            raise KeyboardInterrupt
        seen.append(len(raw.boxes))
        return of_image(raw, plan, timed)

    monkeypatch.setattr(measure, "_of_image", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make_table("rpn", crowds, results, lambda *_: None)
    assert not list(results.glob("*.json"))
    seen.clear()
    make_table("rpn", crowds, results, lambda *_: None)
    assert len(seen) == 1  # only the other image
    assert sorted(file.suffix for file in results.iterdir()) == [".json", ".md"]
    seen[:] = [0]
    make_table("rpn", crowds, results, lambda *_: None)  # nothing is measured again


@pytest.mark.parametrize("name", OF_RAW)
def test_a_figure_is_drawn_and_written_down(name, crowds, tmp_path):
    if FIGURES[name].of_proposals is False:
        with pytest.raises(DatasetError, match="must be of boxes of a one-stage detector, got proposals"):
            make_figure(name, crowds, tmp_path / "results", lambda *_: None)
        return
    path = make_figure(name, crowds, tmp_path / "results", lambda *_: None)
    record = json.loads(path.with_name(f"{path.name}.json").read_text(encoding="utf-8"))
    text = path.with_name(f"{path.name}.md").read_text(encoding="utf-8")
    for row in record["rows"]:
        assert f"{100 * row['map_50']:.1f}" in text
    assert path.with_name(f"{path.name}.png").stat().st_size > 10_000
    svg = path.with_name(f"{path.name}.svg").read_bytes()
    figures.draw(name, record, path)
    assert path.with_name(f"{path.name}.svg").read_bytes() == svg


def test_the_bound_needs_no_boxes(tmp_path):
    path = make_figure("bound", None, tmp_path, lambda *_: None)
    assert "0.5015" in path.with_name("bound.svg").read_text(encoding="utf-8")


def test_alpha_and_p1_are_those_of_the_paper():
    suppressing = Suppressing(0.73, 0.5)
    over_alpha = figures.plan_of("alpha", "x", suppressing, False)
    assert {setting.method.num_hashes for setting in over_alpha.settings} == {None, 1, 2, 3, 4}
    alphas = {getattr(setting.method.suppression.steps[0], "alpha", None) for setting in over_alpha.settings}
    assert alphas == {None, 0.5, 0.55, 0.6, 0.65, 0.7, 0.73, 0.75, 0.8, 0.85, 0.9}
    over_counts = figures.plan_of("p1", "x", suppressing, False)
    assert {setting.candidates for setting in over_counts.settings} == {100, 300, 1000, 2000, 3000, 5000, 9000}
    assert tables.plan_of("soft", "x", suppressing).settings[0].method.by == "plain loop"
