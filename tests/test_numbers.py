"""Numbers are the same text everywhere: in files, in notations, in sweeps and in options."""

import pytest
from typer.testing import CliRunner

from hashnms import Suppression
from hashnms._numbers import real, whole
from hashnms.cli import app
from hashnms.sweeps import sweep

#: Text that `float` or `int` takes, but no file format and no reader of a notation expects.
NOT_NUMBERS = ["1_0", "\uff11\uff10", "\u0663", "\u00a05", "0x1p3", "", "1e", "--1", "1 0", "nan(1)"]


@pytest.mark.parametrize("text", NOT_NUMBERS)
def test_what_is_no_number(text):
    for read in (real, whole):
        with pytest.raises(ValueError, match="must be a"):
            read(text)


def test_what_is_a_number():
    for text in ("10", "+10", " 10\t", "-0", "00012"):
        assert (whole(text), real(text)) == (int(text), float(text))
    for text in ("5.", ".5", "-.5e-3", "1E+5", "inf", "-Infinity"):
        assert real(text) == float(text)
        with pytest.raises(ValueError, match="must be a whole number"):
            whole(text)
    assert real("NaN") != real("NaN")


@pytest.mark.parametrize("text", NOT_NUMBERS[:5])
def test_notations_sweeps_and_options_refuse_them(text):
    for notation in (f"top:{text}", f"nms:{text}", f"hnms:0.7/{text}", f"softnms:gaussian/{text}"):
        with pytest.raises(ValueError, match=r"must be (an integer|a number)"):
            Suppression.parse(notation)
    with pytest.raises(ValueError, match="a sweep of k must be start:stop"):
        sweep("hnms:0.7/1", f"k={text}")
    for command in (["bound", "--alpha", text], ["demo", "--boxes", text], ["demo", "--iou", text]):
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 2
        assert "must be a" in result.stderr


@pytest.mark.parametrize("text", NOT_NUMBERS[:5])
def test_files_refuse_them(text, tmp_path):
    pytest.importorskip("pyarrow")
    pytest.importorskip("msgspec")
    from hashnms.files import FileError, suppress  # noqa: PLC0415

    (tmp_path / "in.csv").write_text(f"image,x1,y1,x2,y2,score\n1,0,0,9,9,0.5\n1,0,0,{text},9,0.5\n", encoding="utf-8")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text(f"1,2,3,4,{text},0,-1,-1\n", encoding="utf-8")
    for source, message in (("in.csv", "line 3: column x2 must be a number"), ("in", "score must be a finite number")):
        with pytest.raises(FileError, match=message):
            suppress(tmp_path / source, tmp_path / "out", "nms:0.5", format=None if "." in source else "visdrone")
