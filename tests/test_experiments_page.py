"""docs/explanation/experiments.md shows what was measured."""

import json
import re

import pytest

pytest.importorskip("torch")
pytest.importorskip("torchvision")

from experiments.page import IMAGES, PAGE, draw, written
from experiments.results import COMMITTED

RECORDS = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted(COMMITTED.glob("*.json"))}


def test_the_page_is_made_of_the_committed_results():
    text = PAGE.read_text(encoding="utf-8")
    assert written(text) == text, "run python -m experiments.page"
    shown = set(re.findall(r"<!-- ([\w.+-]+) -->", text))
    assert shown == set(RECORDS)


def test_its_pictures_are_drawn_from_them(tmp_path):
    draw(tmp_path)
    for drawn in tmp_path.iterdir():
        committed = PAGE.parent / IMAGES / drawn.name
        assert committed.exists(), "run python -m experiments.page"
        assert f"{IMAGES}/{drawn.name}" in PAGE.read_text(encoding="utf-8")


def test_another_result_makes_another_page(tmp_path):
    record = RECORDS["rpn-faster_rcnn-carpk-cpu"]
    record = record | {"rows": [row | {"map_50": 0.123} for row in record["rows"]]}
    for name, other in {**RECORDS, record["name"]: record}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(other), encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    assert "| 12.3 |" in written(text, tmp_path)
    assert "| 12.3 |" not in text


@pytest.mark.parametrize("name", RECORDS)
def test_results_are_of_our_detectors_and_name_the_machine(name):
    record = RECORDS[name]
    assert record["name"] == name
    assert "virtual machine" in record["machine"] or "x86_64" in record["machine"]
    assert record["rows"]
