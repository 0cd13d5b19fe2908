"""The commands that read files do what the functions that they call do, and print what their help says."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("msgspec")
pytest.importorskip("pyarrow")

from hashnms import Suppression
from hashnms.cli import app, common, reports
from hashnms.files import suppress
from hashnms.files.loading import load
from hashnms.files.rows import Reading
from hashnms.synthetic import make_scene

runner = CliRunner()


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch):
    monkeypatch.setattr(common.console, "_width", 200)


def run(*arguments, **how):
    return runner.invoke(app, list(map(str, arguments)), **how)


@pytest.fixture
def folder(tmp_path):
    """Detections of three images and their ground truth, as COCO has them, and one picture."""
    rows, truth = (
        [],
        {"images": [], "annotations": [], "categories": [{"id": 7, "name": "car <b>"}, {"id": 9, "name": "bus"}]},
    )
    for number in range(3):
        scene = make_scene("parking_lot", 400, seed=number)
        truth["images"].append({"id": 10 + number, "file_name": f"photo{number}.png"})
        for box in scene.gt_boxes.astype(float):
            sizes = [*box[:2], *(box[2:] - box[:2])]
            truth["annotations"].append(
                {
                    "id": len(truth["annotations"]),
                    "image_id": 10 + number,
                    "category_id": 7,
                    "bbox": sizes,
                    "iscrowd": 0,
                }
            )
        for box, score in zip(scene.boxes.astype(float), scene.scores.astype(float), strict=True):
            rows.append(
                {"image_id": 10 + number, "category_id": 7, "bbox": [*box[:2], *(box[2:] - box[:2])], "score": score}
            )
    (tmp_path / "in.json").write_text(json.dumps(rows))
    (tmp_path / "truth.json").write_text(json.dumps(truth))
    return tmp_path


def test_suppress_writes_what_the_function_does_and_one_line(folder):
    result = run("suppress", folder / "in.json", "-o", folder / "out.json", "-s", "hnms:0.73/1+nms:0.5")
    summary = suppress(folder / "in.json", folder / "other.json", "hnms:0.73/1+nms:0.5")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert result.stderr.startswith(f"1,200 boxes in, {summary.boxes_out} out, ")
    assert len(result.stderr.splitlines()) == 1
    assert (folder / "out.json").read_bytes() == (folder / "other.json").read_bytes()


def test_a_scene_is_one_image_whatever_the_rows_say(folder):
    work = folder / "work"
    command = ("suppress", folder / "in.json", "-o", folder / "out.json", "-s", "nms:0.5")
    result = run(*command, "--scene", "--folder", work, "--memory", "100k")
    suppress(folder / "in.json", folder / "other.json", "nms:0.5", columns={"image": None})
    assert result.exit_code == 0
    assert result.stderr.startswith("1,200 boxes in, ")
    assert (folder / "out.json").read_bytes() == (folder / "other.json").read_bytes()
    assert not work.exists()
    for wrong in (["--folder", work], ["--scene", "--skip-bad"]):
        result = run(*command, *wrong)
        assert result.exit_code == 2
        assert "--scene" in result.stderr


RAY = ["--engine", "ray"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        *[
            ([*RAY, *option], f"{option[0]} must not be given with --engine ray, which takes only --columns, --box-fo")
            for option in (
                ["--folder", "work"],
                ["--show", "5"],
                ["--show", "12"],  # the default
                ["--images", "."],
                ["--report", "a.html"],
                ["--memory", "1G"],
                ["--skip-bad"],
                ["--header", "a,b"],
                ["--to", "parquet"],
            )
        ],
        ([*RAY, "--scene", "--folder", "work"], "--folder must not be given with --engine ray"),
        ([*RAY, "-f", "csv"], "--format must be parquet with --engine ray, got csv"),
        (["--engine", "spark"], "--engine must be ray, got spark"),
        (["--address", "auto"], "--address must be given with --engine, got no --engine"),
        ([*RAY, "--scene", "--columns", "image=image_id"], "--columns must have no image with --scene, because all ro"),
        (["--scene", "--columns", "image=image_id"], "--columns must have no image with --scene, because all rows are"),
        (["--scene", "--report", "a.html"], "--report must not be given with --scene, which need not fit into memory"),
        (["--folder", "work"], "--folder must be given with --scene, got no --scene"),
        (["--images", "."], "--images must be given with --report, got no --report"),
        (["--show", "5"], "--show must be given with --report, got no --report"),
    ],
)
def test_options_that_do_not_work_together_are_refused_before_anything_is_written(
    arguments, message, folder, monkeypatch
):
    """None is ignored."""
    monkeypatch.chdir(folder)
    before = sorted(path.name for path in folder.iterdir())
    result = run("suppress", "in.json", "-o", "out", *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.parametrize(("given", "output"), [("-", "out"), ("in.parquet", "-")])
def test_a_cluster_reads_and_writes_no_streams(given, output, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("suppress", given, "-o", output, *RAY, input="")
    assert result.exit_code == 2
    assert "must be paths that all machines see with --engine ray, got -" in result.stderr
    assert not list(tmp_path.iterdir())


def test_what_is_said_about_a_page_of_a_scene_works(folder):
    """The same answer as --scene, and its page."""
    command = ("suppress", folder / "in.json", "-s", "nms:0.5")
    assert run(*command, "-o", folder / "scene.json", "--scene").exit_code == 0
    page = ("--columns", "image=", "--report", folder / "a.html")
    assert run(*command, "-o", folder / "page.json", *page).exit_code == 0
    assert (folder / "page.json").read_bytes() == (folder / "scene.json").read_bytes()
    assert "1,200 boxes of 1 image" in (folder / "a.html").read_text(encoding="utf-8")


def test_columns_and_classes_of_the_command_line(tmp_path):
    (tmp_path / "in.csv").write_text("a,b,c,d,e,f,g\n1,0,0,9,9,x,0.5\n1,0,0,9,9,y,0.4\n")
    names = "image=a,boxes=b/c/d/e,class=f,score=g"
    assert run("suppress", tmp_path / "in.csv", "-o", tmp_path / "out.csv", "--columns", names).stderr.startswith(
        "2 boxes in, 2 out"
    )
    agnostic = run("suppress", tmp_path / "in.csv", "-o", tmp_path / "out.csv", "--columns", names, "--class-agnostic")
    assert agnostic.stderr.startswith("2 boxes in, 1 out")
    header = run(
        "suppress",
        tmp_path / "in.csv",
        "-o",
        tmp_path / "out.csv",
        "--header",
        "image,x1,y1,x2,y2,class,score",
        "--skip-bad",
    )
    assert header.stderr.startswith("3 boxes in, 2 out, 1 bad row dropped")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-s", "nms:2"], "iou_threshold must be in [0, 1], got 2.0"),
        (["-s", "magic"], "magic"),
        (["--memory", "much"], "--memory must be a size such as 500M or 2G, got 'much'"),
        (["--memory", "9" * 400], f"--memory must be a size such as 500M or 2G, got '{'9' * 40}...'"),
        (["--memory", "9" * 400 + "G"], f"--memory must be a size such as 500M or 2G, got '{'9' * 40}...'"),
        (["--memory", "0.5"], "--memory must be a size such as 500M or 2G, got '0.5'"),
        (["--memory", "-1"], "--memory must be a size such as 500M or 2G, got '-1'"),
        (["--memory", "٣M"], "--memory must be a size such as 500M or 2G, got '٣M'"),
        (["--columns", "color=red"], "--columns must look like image=frame,score=conf"),
        (["--box-format", "yxyx"], "--box-format must be one of xyxy, xywh, cxcywh, got 'yxyx'"),
        (["--format", "xml"], "--format must be one of coco"),
        (["--report", "none/r.html"], f"--report must be in a folder that exists, got {Path('none/r.html')}"),
        (["--images", "none"], "--images must be a folder, got none"),
    ],
)
def test_bad_options_are_one_line_and_exit_code_2(arguments, message, folder):
    result = run("suppress", folder / "in.json", "-o", folder / "out.json", *arguments)
    assert result.exit_code == 2
    lines = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    assert message in lines[0]


def test_terminal_codes_of_a_file_are_not_printed(tmp_path):
    (tmp_path / "in.json").write_text(json.dumps([{"\x1b[31mimage\n": 1}]))
    result = run("suppress", tmp_path / "in.json", "-o", tmp_path / "out.json")
    assert "\x1b" not in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_compare_gives_a_row_a_method_in_every_output(folder):
    common_arguments = [
        "compare",
        folder / "in.json",
        "-s",
        "nms:0.5",
        "-s",
        "hnms:0.7/1+nms:0.5",
        "--truth",
        folder / "truth.json",
        "--rounds",
        1,
    ]
    sweep = ["--sweep", "alpha=0.6:0.8:0.1", "--sweep", "k=1,2"]
    found = json.loads(run(*common_arguments, *sweep, "-o", "json").stdout)
    methods = ["nms:0.5", *(f"hnms:{alpha}/{count}+nms:0.5" for alpha in (0.6, 0.7, 0.8) for count in (1, 2))]
    assert [row["method"] for row in found] == methods
    rows = json.loads((folder / "in.json").read_text())
    boxes, images = np.array([row["bbox"] for row in rows]), [row["image_id"] for row in rows]
    for row in found:
        kept = Suppression.parse(row["method"])(boxes, [one["score"] for one in rows], images=images, box_format="xywh")
        assert row["kept"] == len(kept.keep)
    assert 0.5 < found[0]["map_50"] <= 1
    parsed = list(csv.DictReader(io.StringIO(run(*common_arguments, "-o", "csv").stdout)))
    assert [row["method"] for row in parsed] == ["nms:0.5", "hnms:0.7/1+nms:0.5"]
    assert "| `nms:0.5` |" in run(*common_arguments, "-o", "markdown").stdout
    text = run(*common_arguments).stdout
    assert "1,200 boxes of 3 images" in text
    assert "mAP" in text
    assert (
        run(*common_arguments, "-o", "xml").stderr
        == "error: --output must be one of text, json, csv, markdown, got 'xml'\n"
    )


def test_a_sweep_keeps_the_first_method_as_the_one_to_compare_with(folder):
    command = ["compare", folder / "in.json", "--rounds", 1, "-o", "json", "-s"]
    for methods, expected in (
        (["nms:0.5", "--sweep", "iou=0.3:0.7:0.2"], ["nms:0.5", "nms:0.3", "nms:0.7"]),
        (["nms:0.5", "--sweep", "iou=0.4"], ["nms:0.5", "nms:0.4"]),
        (["nms:0.5", "-s", "hnms", "--sweep", "alpha=0.6,0.7"], ["nms:0.5", "hnms:0.6/1", "hnms:0.7/1"]),
    ):
        rows = json.loads(run(*command, *methods).stdout)
        assert [row["method"] for row in rows] == expected
        assert rows[0]["recall_of_first"] == rows[0]["speed_up"] == 1


def test_classes_and_images_that_the_truth_does_not_have(folder):
    """The same numbers where ids are moved or their order is known; a warning where some are missing."""
    truth = json.loads((folder / "truth.json").read_text())
    expected = run("evaluate", folder / "in.json", "--truth", folder / "truth.json", "--json").stdout
    rows = json.loads((folder / "in.json").read_text())
    others = [{**rows[0], "category_id": 3}, {**rows[0], "image_id": 77}]
    for label, option in ((5, ["--class-offset", 2]), (0, ["--class-order"])):
        (folder / "moved.json").write_text(json.dumps([{**row, "category_id": label} for row in rows]))
        result = run("evaluate", folder / "moved.json", "--truth", folder / "truth.json", "--json", *option)
        assert (result.stdout, result.stderr) == (expected, "")
    (folder / "more.json").write_text(json.dumps([*rows, *others]))
    result = run("evaluate", folder / "more.json", "--truth", folder / "truth.json", "--json", "--truth-images-only")
    assert result.stdout == expected
    assert result.stderr.splitlines() == [
        f"warning: {folder / 'truth.json'} has no category for class 3 of the detections (1 of 2 classes, 1 box): "
        "these boxes do not count",
        "measured: 1,201 boxes of 3 images, which the truth has, of 1,202 boxes of 4 images",
    ]
    truth["images"] = truth["images"][:2]
    truth["annotations"] = [one for one in truth["annotations"] if one["image_id"] != 12]
    (folder / "part.json").write_text(json.dumps(truth))
    command = ["compare", folder / "in.json", "-s", "nms:0.5", "--rounds", 1, "--truth", folder / "part.json"]
    result = run(*command, "--truth-images-only", "--report", folder / "a.html")
    assert result.exit_code == 0
    assert "800 boxes of 2 images" in result.stdout
    assert "800 boxes of 2 images" in (folder / "a.html").read_text()


def test_pictures_that_are_not_there_are_said(folder):
    """The truth names them; without it they are named after the ids."""
    image = pytest.importorskip("PIL.Image")
    photos = folder / "photos"
    photos.mkdir()
    for number in range(2):
        image.new("RGB", (64, 48)).save(photos / f"photo{number}.png")
    command = ["compare", folder / "in.json", "-s", "nms:0.5", "--rounds", 1, "--report", folder / "a.html"]
    command += ["--images", photos]
    result = run(*command)
    assert result.stderr == f"warning: {photos} has no picture of 3 of 3 images on the page, such as '10'\n"
    result = run(*command, "--truth", folder / "truth.json")
    assert result.stderr == f"warning: {photos} has no picture of 1 of 3 images on the page, such as '12'\n"
    assert (folder / "a.html").read_text().count("data:image/png") == 2
    (photos / "12.png").write_bytes(b"II*")
    result = run(*command, "--truth", folder / "truth.json")
    assert result.stderr == (
        f"warning: 1 of 3 pictures are not JPEG, PNG or WebP and are not shown, such as {photos / '12.png'}\n"
    )


def test_boxes_relative_to_their_image_are_drawn_and_measured_in_its_pixels(tmp_path):
    """YOLO's: the picture says its size on the page and in the plot."""
    image = pytest.importorskip("PIL.Image")
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "a.txt").write_text("0 0.5 0.5 0.5 0.5 0.9\n")
    image.new("RGB", (64, 48)).save(tmp_path / "a.png")
    loaded = load([tmp_path / "labels"], Reading())
    shown = reports._picture(loaded, 0, ["nms:0.5", "nmm:0.5"], ["0"], tmp_path / "a.png")
    assert (shown.width, shown.height) == (64, 48)
    assert shown.boxes.tolist() == [[16, 12, 48, 36]] == shown.outcomes["nmm:0.5"].boxes.tolist()
    assert reports._picture(loaded, 0, ["nms:0.5"], ["0"], None).boxes.tolist() == [[0.25, 0.25, 0.75, 0.75]]


def test_truth_must_fit_the_detections(folder):
    truth = json.loads((folder / "truth.json").read_text())
    truth["images"] = truth["images"][:2]
    truth["annotations"] = [one for one in truth["annotations"] if one["image_id"] != 12]
    (folder / "truth.json").write_text(json.dumps(truth))
    result = run("evaluate", folder / "in.json", "--truth", folder / "truth.json")
    assert result.exit_code == 2
    assert result.stderr == (
        f"error: {folder / 'truth.json'} must have every image of the detections, got none for 12 (1 of 3 images); "
        "--truth-images-only leaves them out\n"
    )
    assert "must be a COCO dataset" in run("evaluate", folder / "in.json", "--truth", folder / "in.json").stderr


def test_images_are_found_by_the_names_of_their_files(folder):
    rows = json.loads((folder / "in.json").read_text())
    numbers = run("evaluate", folder / "in.json", "--truth", folder / "truth.json", "--json").stdout
    for name in ("photo{}", "photo{}.png"):
        named = [{**row, "image_id": name.format(row["image_id"] - 10), "category_id": "car <b>"} for row in rows]
        (folder / "named.json").write_text(json.dumps(named))
        assert run("evaluate", folder / "named.json", "--truth", folder / "truth.json", "--json").stdout == numbers


def test_evaluate_prints_the_twelve_lines_and_the_classes(folder):
    result = run("evaluate", folder / "in.json", "--truth", folder / "truth.json", "--max-dets", "1,10,1000")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].startswith(" Average Precision  (AP) @[ IoU=0.50:0.95 | area=   all | maxDets=1000 ] = 0.")
    assert sum(line.startswith(" Average") for line in lines) == 12
    assert any("car <b>" in line for line in lines)
    values = json.loads(run("evaluate", folder / "in.json", "--truth", folder / "truth.json", "--json").stdout)
    assert values["APl"] is None or 0 <= values["APl"] <= 1
    assert values["classes"][0]["class"] == "car <b>"
    assert (
        "--max-dets must be three numbers, each greater than the one before, got 1\n"
        in run("evaluate", folder / "in.json", "--truth", folder / "truth.json", "--max-dets", "1").stderr
    )


def test_plot_draws_an_image_before_and_after(folder):
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("matplotlib")
    (folder / "photos").mkdir()
    image.new("RGB", (64, 48)).save(folder / "photos" / "11.png")
    result = run("plot", folder / "in.json", "--image", "11", "--images", folder / "photos", "-o", folder / "11.png")
    assert result.exit_code == 0
    with image.open(folder / "11.png") as drawn:
        assert drawn.width > 300
    assert (
        "--image must be one of the images, 10, 11, 12, got '5'"
        in run("plot", folder / "in.json", "--image", "5", "-o", folder / "a.png").stderr
    )
    assert (
        "--images must be a folder with a picture that is named after 10, got "
        in run(
            "plot", folder / "in.json", "--image", "10", "--images", folder / "photos", "-o", folder / "a.png"
        ).stderr
    )
    assert "must end in one of .png" in run("plot", folder / "in.json", "-o", folder / "a.xyz").stderr


def test_bound_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    assert run("bound", "--alpha", "0.8", "--plot", tmp_path / "bound.svg").exit_code == 0
    assert "0.62" in (tmp_path / "bound.svg").read_text()


def test_reports_show_the_images_with_most_boxes_and_their_pictures(folder):
    image = pytest.importorskip("PIL.Image")
    (folder / "photos").mkdir()
    image.new("RGB", (640, 480)).save(folder / "photos" / "000000000011.jpg")
    result = run(
        "compare",
        folder / "in.json",
        "-s",
        "nms:0.5",
        "-s",
        "softnms:gaussian/0.5",
        "--report",
        folder / "r.html",
        "--images",
        folder / "photos",
        "--show",
        2,
        "--rounds",
        1,
    )
    assert result.exit_code == 0
    page = (folder / "r.html").read_text()
    assert "data:image/jpeg" in page
    assert "1,200 boxes of 3 images" in page
    assert run("suppress", folder / "in.json", "-o", folder / "out.json", "--report", folder / "s.html").exit_code == 0
    assert (folder / "s.html").exists()


def test_help_has_examples():
    for name in ("suppress", "compare", "evaluate", "plot"):
        assert f"hashnms {name} " in run(name, "--help").stdout


def test_without_the_packages_of_files_it_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "msgspec", None)
    result = run("suppress", folder / "in.json", "-o", folder / "out.json")
    assert result.exit_code == 2
    assert result.stderr == 'error: reading files needs msgspec: in a clone of hashnms, run pip install ".[files]"\n'


def test_standard_input_of_every_command_that_reads(folder):
    text = (folder / "in.json").read_bytes()
    compared = run("compare", "-", "-f", "coco", "-s", "nms:0.5", "-o", "json", input=text)
    assert json.loads(compared.stdout)[0]["boxes_in"] == 1200
    assert run("plot", "-", "-f", "coco", "-o", folder / "a.png", input=text).exit_code == 0
    wrong = run("compare", "-", "-f", "coco", "-s", "nms:0.5", input=b"[7]")
    assert wrong.stderr.startswith("error: standard input, row 1: rows must be objects")


def test_compare_and_evaluate_say_how_many_rows_are_bad(folder):
    rows = json.loads((folder / "in.json").read_text())
    (folder / "in.json").write_text(json.dumps([*rows, {**rows[0], "score": "x"}]))
    for command in (("compare", "-s", "nms:0.5"), ("evaluate", "--truth", folder / "truth.json")):
        result = run(command[0], folder / "in.json", *command[1:], "--skip-bad")
        assert result.exit_code == 0
        assert result.stderr == "1 bad row dropped\n"


def test_a_report_that_cannot_be_is_said_before_anything_is_written(folder):
    before = (folder / "in.json").read_bytes()
    same = run("suppress", folder / "in.json", "-o", folder / "in.json", "--report", folder / "a.html")
    assert (same.exit_code, (folder / "in.json").read_bytes()) == (2, before)
    assert "--report needs input that can be read again, got one that is the output, - or a pipe" in same.stderr
    twice = run("compare", folder / "in.json", "-s", "nms:0.5", "-s", "nms:0.50", "--report", folder / "a.html")
    assert (twice.exit_code, twice.stdout) == (2, "")
    assert "--report needs different methods, got one twice" in twice.stderr


@pytest.mark.parametrize(
    "content",
    [
        b"\x89PNG\r\n\x1a\n",
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(8),
        b"\xff\xd8\0\0",
        b"\xff\xd8\xff\xc0\0\x0b\x08" + bytes(9),
        b"RIFF\0\0\0\0WEBPVP8X",
        b"<svg onload=alert(1)>",
        b"",
    ],
)
def test_a_broken_picture_leaves_a_report_without_it(content, folder):
    (folder / "10.png").write_bytes(content)
    result = run(
        "suppress", folder / "in.json", "-o", folder / "o.json", "--report", folder / "a.html", "--images", folder
    )
    assert result.exit_code == 0
    assert (folder / "a.html").exists()


@pytest.mark.parametrize("image", ["\u00b2", "a" * 400, "../../etc/passwd", "/etc/passwd", "a\0b", "1" * 5000])
def test_a_report_of_images_with_odd_names(image, tmp_path):
    row = {"image_id": image, "category_id": "\u00b2", "bbox": [0, 0, 9, 9], "score": 0.5}
    (tmp_path / "in.json").write_text(json.dumps([row]))
    (tmp_path / "truth.json").write_text(json.dumps({"images": [{"id": image}], "annotations": []}))
    result = run(
        "suppress",
        tmp_path / "in.json",
        "-o",
        tmp_path / "o.json",
        "--report",
        tmp_path / "a.html",
        "--images",
        tmp_path,
    )
    assert (result.exit_code, (tmp_path / "a.html").exists()) == (0, True)
    assert run("evaluate", tmp_path / "in.json", "--truth", tmp_path / "truth.json").exit_code == 0


def test_truth_with_flags_names_used_twice_and_bad_boxes(tmp_path):
    row = {"image_id": 1, "category_id": 2, "bbox": [0, 0, 9, 9], "score": 0.5}
    (tmp_path / "in.json").write_text(json.dumps([row]))
    truth = {
        "images": [{"id": 1}],
        "annotations": [{**row, "iscrowd": False}],
        "categories": [{"id": 2, "name": "a"}, {"id": 3, "name": "a"}],
    }
    (tmp_path / "truth.json").write_text(json.dumps(truth))
    result = run("evaluate", tmp_path / "in.json", "--truth", tmp_path / "truth.json", "--json")
    assert json.loads(result.stdout)["classes"] == [{"class": "a", "AP": 1.0, "AP50": 1.0}]
    (tmp_path / "truth.json").write_text(json.dumps({**truth, "annotations": [{**row, "bbox": [0, 0, -9, 9]}]}))
    result = run("evaluate", tmp_path / "in.json", "--truth", tmp_path / "truth.json")
    assert "truth.json, annotations: boxes must have width >= 0" in result.stderr


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--columns", "boxes="), "--columns must name the columns of boxes and score, got 'boxes='"),
        (("-s", "nms:2"), "iou_threshold must be in [0, 1], got 2.0 in nms:2"),
    ],
)
def test_an_option_that_is_wrong_in_itself(option, message, folder):
    result = run("suppress", folder / "in.json", "-o", folder / "out.json", *option)
    assert (result.exit_code, result.stderr) == (2, f"error: {message}\n")
    spaced = " image = image_id , score= score"
    assert run("suppress", folder / "in.json", "-o", folder / "out.json", "--columns", spaced).exit_code == 0
