"""Help and errors of the command line: options instead of Python's words, and nothing cut off at 80 columns."""

import json
import re

import pytest
from typer.testing import CliRunner

from hashnms.cli import app
from hashnms.cli.wording import in_options

COMMANDS = ["suppress", "compare", "evaluate", "plot", "bound", "demo"]
ROW = {"image_id": 1, "category_id": 2, "bbox": [0, 0, 9, 9], "score": 0.5}
TRUTH = {"images": [{"id": 1}], "annotations": [{"image_id": 1, "category_id": 3, "bbox": [0, 0, 9, 9]}]}


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_80_columns_and_names_no_types_of_python(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = run(*filter(None, [command]), "--help").output
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert not re.search(r"<\w+|\b(bool|str|list|path|int range|INTEGER|TEXT)\b[\]>. ]*$", text, re.MULTILINE)


def test_help_writes_columns_and_header_as_they_are_typed(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    words = run("suppress", "--help").output.replace("│", " ").split()
    assert {"image=NAME,", "boxes=A/B/C/D", "image,x1,y1,x2,y2,class,score."} <= set(words)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = {"a": [ROW], "empty": [], "truth": TRUTH, "two": {**TRUTH, "categories": [{"id": 2}]}, "list": [1]}
    files |= {f"no_{name}": [{key: value for key, value in ROW.items() if key != name}] for name in ROW}
    for name, content in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    (tmp_path / "det.txt").write_text("1,2")
    (tmp_path / "no_header.csv").write_text("1,0,9\n1,0,9\n")
    (tmp_path / "no_image.csv").write_text("x1,y1,x2,y2,score\n0,0,9,9,0.5\n")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            "suppress no_image_id.json -o o.json",
            "no_image_id.json: no column is named image_id, image, image_name, img_id or similar, only category_id, "
            "bbox, score: name the column of the image with --columns image=NAME, or --columns image= if all rows "
            "belong to one image",
        ),
        (
            "suppress no_score.json -o o.json",
            "no_score.json: no column is named score, confidence, conf, scores or similar, only image_id, category_id, "
            "bbox: name the column of the score with --columns score=NAME",
        ),
        (
            "suppress no_bbox.json -o o.json",
            "no_bbox.json: no columns are named bbox, x1 y1 x2 y2, xmin ymin xmax ymax or similar, only image_id, "
            "category_id, score: name them with --columns boxes=NAME or boxes=A/B/C/D",
        ),
        (
            "suppress no_header.csv -o o.csv",
            "no_header.csv: no columns are named bbox, x1 y1 x2 y2, xmin ymin xmax ymax or similar, only 1, 0, 9: name "
            "them with --columns boxes=NAME or boxes=A/B/C/D; if its first line is not a header, name the columns with "
            "--header",
        ),
        (
            "suppress no_image.csv -o o.csv",
            "no_image.csv: no column is named image_id, image, image_name, img_id or similar, only x1, y1, x2, y2, "
            "score: name the column of the image with --columns image=NAME, or --columns image= if all rows belong to "
            "one image; if its first line is not a header, name the columns with --header",
        ),
        (
            "suppress a.json -o o.json --scene --columns image=frame",
            "--columns must have no image with --scene, because all rows are of one, got image=frame",
        ),
        (
            "suppress a.json -o o.json --scene -s wbf",
            "it changes boxes and scores that other tiles need; leave out --scene if its boxes fit into memory",
        ),
        (
            "suppress a.json -o o.json --columns image=frame",
            "a.json: --columns image= must be one of image_id, category_id, bbox, score, got 'frame'",
        ),
        (
            "suppress a.json -o o.json --columns boxes=a/b/c",
            "a.json: --columns boxes= must be one column, or A/B/C/D, got 3: a, b, c",
        ),
        (
            "suppress det.txt -o o.txt",
            "det.txt: suffix must be one of .json, .jsonl, .ndjson, .csv, .tsv, .parquet, .pq, .feather, .arrow, .npz, "
            "got '.txt'; for other names, give the format with -f",
        ),
        (
            "suppress a.json -o o.json --to xml",
            "--to must be one of coco, jsonl, csv, tsv, mot, yolo, visdrone, parquet",
        ),
        ("suppress a.json -o none/o.json", "--output must be in a folder that exists, got "),
        (
            "suppress a.json -o o.json --class-agnostic true",
            "true: options such as --class-agnostic take no value; it must be a file, a folder or a pattern",
        ),
        ("compare a.json -s nms:0.5 -o table.csv", "'table.csv'; add > table.csv to write to a file"),
        (
            "compare a.json -s nms --sweep beta=1",
            "--sweep must be name=values with a name of alpha, k, iou, sigma, top, limit, score, got 'beta=1'",
        ),
        (
            "compare a.json -s nms --sweep alpha=0.5",
            "--sweep alpha= needs a method that has it, one with hnms, got nms",
        ),
        (
            "compare a.json -s nms --class-offset 1",
            "--class-offset, --class-order and --truth-images-only need --truth, got none",
        ),
        (
            "compare a.json -s nms --truth truth.json",
            "truth.json has no category for any class of the detections: they are 2, its own 3; "
            "--class-offset 1 would match all classes",
        ),
        (
            "compare a.json -s nms --truth two.json --class-agnostic",
            "two.json: must have one class, because --class-agnostic is given or no column has classes, got 2",
        ),
        (
            "evaluate a.json --truth truth.json --class-order --class-offset 1",
            "--class-offset must not be given with --class-order",
        ),
        (
            "evaluate a.json --truth list.json",
            "list.json: must be a COCO dataset, an object with images and annotations: Expected `object`, got `array`",
        ),
        (
            "evaluate a.json --truth truth.json --class-offset 1 --max-dets 10,1,100",
            "--max-dets must be three numbers, each greater than the one before, got 10, 1, 100",
        ),
        ("plot empty.json -o o.png", "there is nothing to draw: the input has no boxes"),
        ("plot a.json -o o.png --image 7", "--image must be one of the images, 1, got '7'"),
        ("bound --alpha 2", "--alpha must be in (0, 1), got 2.0"),
        ("demo --alpha 2", "--alpha must be in (0, 1), got 2.0"),
    ],
)
def test_errors_name_options(command, message):
    if command.startswith(("evaluate", "plot")):
        pytest.importorskip({"evaluate": "faster_coco_eval", "plot": "matplotlib"}[command.split()[0]])
    pytest.importorskip("msgspec")
    pytest.importorskip("pyarrow")
    result = run(*command.split())
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.splitlines()) == 1


def test_errors_about_data_and_notations_stay_as_they_are():
    for message in (
        "alpha must be in (0, 1), got 2.0 in hnms:2",
        "iou_threshold must be in [0, 1], got 2.0 in nms:2",
        "a.csv, line 3: column x2 must be a number, got 'nine'",
        "a.json, row 1: column score must be one of them, got 3",
        "--image must be one of the images, 1, 2, got '7'",
    ):
        assert in_options(message) == message


@pytest.mark.usefixtures("folder")
def test_start_up_is_not_counted_in_a_rate():
    pytest.importorskip("msgspec")
    pytest.importorskip("pyarrow")
    from hashnms.files import Summary  # noqa: PLC0415

    assert run("suppress", "a.json", "-o", "o.json").stderr.startswith("1 box in, 1 out, ")
    assert str(Summary(100, 10, 0, 0.5)) == "100 boxes in, 10 out, 0.50 s"
    assert str(Summary(3_000_000, 10, 2, 1.5)) == (
        "3,000,000 boxes in, 10 out, 2 bad rows dropped, 1.50 s, 2,000,000 boxes/s"
    )
