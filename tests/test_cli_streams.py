"""Standard streams that are closed, pipes as input, and locales without the symbols of the tables."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("msgspec")
pytest.importorskip("pyarrow")

from tests.support.files import ROW

pytestmark = pytest.mark.skipif(os.name == "nt", reason="closes streams with a POSIX shell")

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "PYTHONCOERCECLOCALE": "0"}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in.json").write_text(json.dumps([ROW, {**ROW, "image_id": 2}]))
    return tmp_path


def shell(text, folder, **environment):
    """Run `hashnms ...` in a shell: exit code, output and errors as bytes."""
    text = text.replace("hashnms", f"'{sys.executable}' -m hashnms")
    how = {"cwd": folder, "env": {**os.environ, **environment}, "timeout": 120}
    result = subprocess.run(["bash", "-c", text], capture_output=True, check=False, **how)
    return result.returncode, result.stdout, result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("hashnms suppress - -f coco -o out.json <&-", b"error: standard input must be open, got a closed one\n"),
        ("hashnms compare - -f coco -s nms <&-", b"error: standard input must be open, got a closed one\n"),
        ("hashnms suppress in.json -o - >&-", b"error: standard output must be open, got a closed one\n"),
        ("hashnms compare in.json -s nms >&-", b"error: standard output must be open, got a closed one\n"),
        ("hashnms bound >&-", b"error: standard output must be open, got a closed one\n"),
        ("hashnms demo >&-", b"error: standard output must be open, got a closed one\n"),
    ],
)
def test_a_closed_stream_that_is_needed_is_said(command, message, folder):
    assert shell(command, folder) == (2, b"", message)
    assert [path.name for path in folder.iterdir()] == ["in.json"]


@pytest.mark.slow
def test_a_closed_stream_that_is_not_needed_does_no_harm(folder):
    code, output, errors = shell("hashnms suppress in.json -o - 2>&-", folder)
    assert (code, len(json.loads(output)), errors) == (0, 2, b"")  # the summary is not among the rows
    assert shell("hashnms suppress in.json -o out.json <&- >&- 2>&-", folder) == (0, b"", b"")
    assert len(json.loads((folder / "out.json").read_text())) == 2
    assert shell("hashnms suppress in.json -o out.json -s bad 2>&-", folder) == (2, b"", b"")


@pytest.mark.slow
def test_pipes_are_read_like_standard_input(folder):
    code, _, errors = shell("hashnms suppress <(cat in.json) <(cat in.json) -f coco -o out.json", folder)
    assert (code, errors[:21]) == (0, b"4 boxes in, 2 out, 0.")
    os.mkfifo(folder / "pipe.json")
    assert shell("cat in.json > pipe.json & hashnms suppress pipe.json -o out.json", folder)[0] == 0
    compared = shell("hashnms compare <(cat in.json) -f coco -s nms:0.5 -o json", folder)
    assert json.loads(compared[1])[0]["boxes_in"] == 2
    broken = shell("echo [7] > pipe.json & hashnms suppress pipe.json -o out.json", folder)
    assert broken[2] == b"error: pipe.json, row 1: rows must be objects with keys such as image_id, got 7\n"
    assert b"/dev/fd/" in shell("hashnms suppress <(cat in.json) -o out.json", folder)[2]
    again = shell("hashnms suppress <(cat in.json) -f coco -o out.json --report a.html", folder)
    assert again[2] == b"error: --report needs input that can be read again, got one that is the output, - or a pipe\n"


@pytest.mark.slow
def test_a_scene_from_a_pipe(folder):
    assert shell("cat in.json | hashnms suppress - -f coco -o out.json --scene", folder)[2].startswith(b"2 boxes in")
    kept = shell("cat in.json | hashnms suppress - -f coco -o out.json --scene --folder work", folder)
    assert kept[2].startswith(b"error: --folder must not be given with standard input or a pipe")
    assert not (folder / "work").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "compare in.json -s nms:0.5 --rounds 1",
        "compare in.json -s nms:0.5 --rounds 1 -o markdown",
        "demo --boxes 300",
        "bound",
        "--help",
        "compare --help",
        "suppress in.json -o out.json -s n\u00fcms",
        "demo --boxes x",
    ],
)
def test_every_symbol_is_written_in_an_ascii_locale(command, folder):
    code, output, errors = shell(f"hashnms {command}", folder, **ASCII)
    assert code == (2 if command.endswith(("ms", "x")) else 0)
    assert (output + errors).isascii()
    assert b"Traceback" not in errors
    assert b"codec" not in errors
    if command.startswith("compare in"):
        assert b" +- " in output


@pytest.mark.slow
def test_classes_that_an_ascii_locale_cannot_write_stay_json(folder):
    pytest.importorskip("faster_coco_eval")
    truth = {"images": [{"id": 1}, {"id": 2}], "annotations": [{**ROW}], "categories": [{"id": 2, "name": "b\u00e4r"}]}
    (folder / "truth.json").write_text(json.dumps(truth))
    code, output, _ = shell("hashnms evaluate in.json --truth truth.json --json", folder, **ASCII)
    assert (code, json.loads(output)["classes"][0]["class"]) == (0, "b\u00e4r")
    assert b"b\\xe4r" in shell("hashnms evaluate in.json --truth truth.json", folder, **ASCII)[1]


@pytest.mark.slow
def test_names_of_files_in_any_encoding(folder):
    (folder / "labels").mkdir()
    for name in (b"\xfc.txt", "\u00fc.txt".encode()):
        with open(os.path.join(os.fsencode(folder), b"labels", name), "wb") as file:
            file.write(b"0 0.5 0.5 0.1 0.1 0.9\n")
    for environment in ({}, ASCII):
        assert shell("hashnms suppress labels -o kept.json", folder, **environment)[0] == 0
        names = [row["image_id"] for row in json.loads((folder / "kept.json").read_bytes())]
        assert sorted(names) == ["\\xfc", "\u00fc"]
        assert shell("hashnms suppress labels -o kept", folder, **environment)[0] == 0
        assert sorted(os.listdir(os.fsencode(folder / "kept"))) == sorted([b"\xfc.txt", "\u00fc.txt".encode()])
