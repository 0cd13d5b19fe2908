"""What a command writes replaces no other file, and is refused before anything is written."""

import json
import os

import pytest
from typer.testing import CliRunner

pytest.importorskip("msgspec")
pytest.importorskip("pyarrow")

from hashnms.cli import app
from tests.support.files import ROW, yolo_folder

pytestmark = pytest.mark.skipif(os.name == "nt", reason="makes links and pipes, as POSIX systems have them")

TRUTH = {"images": [{"id": 1}], "annotations": [], "categories": [{"id": 2}]}


def run(command):
    return CliRunner().invoke(app, command.split())


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.json").write_text(json.dumps([ROW]))
    (tmp_path / "truth.json").write_text(json.dumps(TRUTH))
    (tmp_path / "d").mkdir()
    (tmp_path / "w").mkdir()
    (tmp_path / "link.json").symlink_to("in.json")
    (tmp_path / "to_out.html").symlink_to("out.json")
    (tmp_path / "to_d").symlink_to("d")
    (tmp_path / "loop.html").symlink_to("loop.html")
    os.link("in.json", "hard.json")
    yolo_folder(tmp_path / "labels")
    yolo_folder(tmp_path / "kept")
    return tmp_path


def contents(folder):
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("suppress in.json -o out.json --report out.json", "another file than the output, got out.json"),
        ("suppress in.json -o out.json --report ./d/../out.json", "another file than the output"),
        ("suppress in.json -o out.json --report OUT.json", "another file than the output"),
        ("suppress in.json -o out.json --report to_out.html", "another file than the output"),
        ("suppress in.json -o to_out.html --report out.json", "another file than the output"),
        ("suppress in.json -o d/out.json --report to_d/out.json", "another file than the output"),
        ("suppress in.json -o out.json --report in.json", "another file than the input files, got in.json"),
        ("suppress in.json -o out.json --report link.json", "another file than the input files"),
        ("suppress in.json -o out.json --report hard.json", "another file than the input files"),
        ("suppress *.json -o out.json --report hard.json", "another file than the input files"),
        ("suppress in.json -o in.json --report a.html", "needs input that can be read again"),
        ("suppress i*.json -o in.json --report a.html", "needs input that can be read again"),
        ("suppress in.json -o hard.json --report a.html", "needs input that can be read again"),
        ("suppress labels -o kept --report kept/a.txt", "another file than the output"),
        ("suppress labels -o kept --report kept/new.html", "another file than the output"),
        ("suppress labels -o kept --report labels/a.txt", "another file than the input files"),
        ("suppress in.json -o out.json --scene --folder w --report w/a.html", "another file than the output"),
        ("suppress in.json -o out.json --report d", "must be a file, got the folder d"),
        ("suppress in.json -o out.json --report -", "must be a file, got - for standard output"),
        (
            "suppress in.json -o out.json --report loop.html",
            "must be a file, got loop.html, a link that leads to itself",
        ),
        ("suppress in.json -o loop.html", "loop.html, a link that leads to itself"),
        ("suppress in.json -o out.json --report none/a.html", "must be in a folder that exists, got none/a.html"),
        ("suppress in.json -o w/out.json --scene --folder w", "--output must not be in the working folder"),
        ("compare in.json -s nms --report link.json", "another file than the input files"),
        ("compare in.json -s nms --truth truth.json --report truth.json", "another file than --truth"),
        ("compare in.json -s nms --report d", "must be a file, got the folder d"),
        ("demo --boxes 300 --report d", "must be a file, got the folder d"),
        ("demo --boxes 300 --save d --report d/truth.json", "another file than those of --save"),
        ("bound --plot none/a.png", "--plot must be in a folder that exists"),
        ("bound --plot a.txt", "--plot must end in one of .png"),
        ("plot in.json -o none/a.png", "--output must be in a folder that exists"),
        ("plot in.json -o to_in.png", "--output must be another file than the input files"),
    ],
)
def test_refused_before_anything_is_written(command, message, folder):
    (folder / "to_in.png").symlink_to("in.json")
    before = contents(folder)
    result = run(command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.splitlines()) == 1
    assert message in result.stderr
    assert contents(folder) == before


def test_a_folder_that_cannot_be_written_to(folder, monkeypatch):
    """As root, every folder can be written to: the error is made here."""

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied", "secret temporary name")

    monkeypatch.setattr("hashnms.cli.places.temporary_folder", refuse)
    before = contents(folder)
    for command, option in (
        ("suppress in.json -o out.json --report a.html", "--report"),
        ("compare in.json -s nms --report a.html", "--report"),
        ("bound --plot a.html.png", "--plot"),
        ("plot in.json -o a.html.png", "--output"),
    ):
        need = "must be in a folder that can be written to, got a.html"
        assert run(command).stderr.startswith(f"error: {option} {need}")
    assert contents(folder) == before


def test_a_picture_is_not_replaced_by_its_drawing(folder):
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("matplotlib")
    image.new("RGB", (9, 9)).save(folder / "d" / "1.png")
    (folder / "one.png").symlink_to("d/1.png")
    before = contents(folder)
    for command in ("plot in.json --images d -o d/1.png", "plot in.json --images d -o one.png"):
        assert "--output must be another file than the picture of the image" in run(command).stderr
    report = run("compare in.json -s nms --images d --report d/1.png")
    assert "--report must be another file than the pictures of --images" in report.stderr
    assert contents(folder) == before
    assert run("plot in.json --images d -o d/2.png").exit_code == 0


def test_what_may_be_written(folder):
    for command in (
        "suppress in.json -o out.json --report d/out.html",
        "suppress in.json -o out.json --report d/out.html",
        "suppress labels -o kept --report labels/new.html",
        "suppress in.json -o in.json",
        "compare in.json -s nms --rounds 1 --report truth.html --images .",
        "suppress in.json -o out.json --report /dev/null",
    ):
        assert run(command).exit_code == 0, command
    assert (folder / "d" / "out.html").read_text().startswith("<!")


@pytest.mark.parametrize(
    "command",
    [
        "suppress in.json -o",
        "suppress in.json -o o.json --report",
        "suppress in.json -o o.json --images",
        "suppress in.json -o o.json --scene --folder",
        "compare in.json -s nms --truth",
        "evaluate in.json --truth",
        "plot in.json -o",
        "demo --save",
        "bound --plot",
    ],
)
def test_an_empty_path_is_not_the_current_folder(command, folder):
    before = contents(folder)
    result = CliRunner().invoke(app, [*command.split(), ""])
    assert result.exit_code == 2
    assert "must be a path, got an empty one" in " ".join(result.stderr.replace("\u2502", " ").split())
    assert contents(folder) == before


def test_an_empty_input_is_not_the_current_folder():
    result = CliRunner().invoke(app, ["suppress", "", "-o", "out.json"])
    assert result.stderr == "error: inputs must be paths of files, got an empty one\n"


@pytest.mark.parametrize(
    ("given", "got"),
    [
        ("loop.html", "a link that leads to neither"),
        ("loop.*", "a link that leads to neither"),
        ("broken.json", "a link that leads to neither"),
        ("links", "a link that leads to neither"),
        ("links/*.json", "a link that leads to neither"),
        ("pipe*.json", "a pipe or a device"),
    ],
)
@pytest.mark.parametrize("command", ["suppress {} -o out.json", "compare {} -s nms", "plot {} -o a.png"])
def test_inputs_that_are_no_files(given, got, command, folder):
    pytest.importorskip("matplotlib")
    (folder / "broken.json").symlink_to("nowhere")
    (folder / "links").mkdir()
    (folder / "links" / "a.json").symlink_to("a.json")
    os.mkfifo("pipe.json")
    result = run(command.format(given))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith(f": must be a file or a folder, got {got}\n")
