"""Broken or malicious files give one clear error, and nothing is lost."""

import json

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("msgspec")
import pyarrow.parquet as pq  # noqa: E402

from hashnms.files import FileError, suppress  # noqa: E402
from tests.support.files import COLUMNS, ROW, fails, yolo_folder  # noqa: E402


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "must be a JSON list of objects, got an empty file"),
        (b'{"images": []}', 'must be a JSON list of objects, got {"images": []}, a COCO dataset'),
        (json.dumps([ROW, ROW])[:-9].encode(), "row 2: must be JSON"),
        (b"[" * 10**6, "nested too deeply"),
        (b"[" + b'{"a":' * 10**6, "nested too deeply"),
        (json.dumps([ROW]).encode() + b"x", "row 1: must be JSON"),
        (json.dumps([ROW, {**ROW, "score": float("nan")}]).encode(), "row 2: must be JSON"),
        (
            json.dumps([ROW, {**ROW, "bbox": [0, 0, "9", 9]}]).encode(),
            'row 2: bbox[2] must be a number, got [0, 0, "9", 9]',
        ),
        (
            json.dumps([ROW, {**ROW, "bbox": [0, 0, 9]}]).encode(),
            "row 2: bbox must be a list of length 4, got [0, 0, 9]",
        ),
        (
            json.dumps([ROW, {**ROW, "bbox": [0, 0, -9, 9]}]).encode(),
            "row 2: column bbox must be a box with width >= 0",
        ),
        (json.dumps([ROW, {**ROW, "bbox": None}]).encode(), "row 2: bbox must be a list, got null"),
        (json.dumps([ROW, {"image_id": 1}]).encode(), 'row 2: category_id must be given, got {"image_id": 1}'),
        (json.dumps([ROW, 7]).encode(), "row 2: must be a JSON object, got 7"),
        (json.dumps([7]).encode(), "row 1: rows must be objects with keys such as image_id, got 7"),
        (b'[{"image_id": 1, "score": 0.5}]', "boxes must name a column"),
        (b'[{"bbox": [0,0,1,1], "score": 0.5}]', "image must be the name of a column"),
        (b"\xff\xfe[\x00]\x00", "must be a JSON list of objects"),
    ],
)
def test_broken_json(text, message, tmp_path):
    (tmp_path / "in.json").write_bytes(text)
    fails(tmp_path / "in.json", message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must have a first line with column names, got an empty line"),
        ("1,2,3,4,5,6\n", "boxes must name a column of lists"),
        (f"{COLUMNS}\n1,0,0,9,9,0.5\n1,0,0,9,9\n", "line 3: must have 6 columns, got 5: 1,0,0,9,9"),
        (f"{COLUMNS}\n1,0,0,9,9,0.5\n1,0,0,nine,9,0.5\n", "line 3: column x2 must be a number, got 'nine'"),
        (
            f"{COLUMNS}\n1,0,0,9,9,0.5\n1,0,0,nan,9,0.5\n",
            "line 3: column x1, y1, x2, y2 must be finite numbers, got [0.0, 0.0, nan, 9.0]",
        ),
        (f"{COLUMNS}\n1,0,0,9,9,0.5\n1,0,0,,9,0.5\n", "line 3: column x2 must be not null, got null"),
        (f"{COLUMNS}\n1,5,0,4,9,0.5\n", "line 2: column x1, y1, x2, y2 must be a box with x2 >= x1"),
        (f"{COLUMNS}\n1,0,0,9,9,0.5\n,0,0,9,9,0.5\n", "line 3: column image must be not null"),
        (f"{COLUMNS},score\n1,0,0,9,9,0.5,0.4\n", "columns must have different names"),
        (
            f'{COLUMNS}\n1,0,0,9,9,"0.5\n1,0,0,9,9,0.5\n',
            'line 2: must have a quote at the end of each quoted field, got 1,0,0,9,9,"0.5',
        ),
        (f"{COLUMNS}\n\x00\x01\x02\n", "line 2: must have 6 columns, got 1"),
    ],
)
def test_broken_csv(text, message, tmp_path):
    (tmp_path / "in.csv").write_text(text)
    fails(tmp_path / "in.csv", message)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0 0.5 0.5 0.1 0.1", "b.txt line 2: must have 6 fields, label cx cy w h score, got 5"),
        ("0 0.5 0.5 0.1 0.1 0.5 0.5 0.5 0.5", "b.txt line 2: must have 6 fields"),
        ("0 0.5 0.5 0.1 x 0.5", "b.txt line 2: h must be a finite number, got 'x'"),
        ("0 0.5 0.5 0.1 nan 0.5", "b.txt line 2: h must be a finite number, got 'nan'"),
        ("0 0.5 0.5 -0.1 0.1 0.5", "b.txt line 2: column cx, cy, w, h must be a box with width >= 0"),
    ],
)
def test_broken_yolo(line, message, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("0 0.5 0.5 0.1 0.1 0.5\n")
    (tmp_path / "in" / "b.txt").write_text(f"0 0.5 0.5 0.1 0.1 0.5\n{line}\n")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.txt").write_text("old")
    with pytest.raises(FileError) as error:
        suppress(tmp_path / "in", tmp_path / "out", "nms:0.5")
    assert message in str(error.value)
    assert (tmp_path / "out" / "a.txt").read_text() == "old"
    summary = suppress(tmp_path / "in", tmp_path / "out", "nms:0.5", on_bad="drop")
    assert (summary.boxes_in, summary.boxes_out, summary.bad) == (3, 2, 1)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"x" * 1000])
@pytest.mark.parametrize(("suffix", "kind"), [("parquet", "Parquet"), ("feather", "Feather"), ("npz", "NPZ")])
def test_what_is_no_such_file(suffix, kind, content, tmp_path):
    (tmp_path / f"in.{suffix}").write_bytes(content)
    fails(tmp_path / f"in.{suffix}", f"must be a{'n' * (kind == 'NPZ')} {kind} file, got")


def test_a_truncated_parquet_file(tmp_path):
    pq.write_table(pa.table({"image": [1], "bbox": [[0, 0, 1, 1]], "score": [0.5]}), tmp_path / "whole")
    (tmp_path / "in.parquet").write_bytes((tmp_path / "whole").read_bytes()[:-40])
    (tmp_path / "whole").unlink()
    fails(tmp_path / "in.parquet", "must be a Parquet file, got")


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("score", ["a"], "column score must hold numbers, got string"),
        ("bbox", [[0, 0, 1]], "row 1: column bbox must be not null"),
        ("bbox", ["a"], "column bbox must hold lists of four numbers, got string"),
        ("image", [[1]], "column image must hold values such as integers or strings"),
        ("image", [None], "row 1: column image must be not null"),
    ],
)
def test_wrong_columns_of_parquet(column, values, message, tmp_path):
    columns = {"image": [1], "bbox": [[0, 0, 1, 1]], "score": [0.5], column: values}
    pq.write_table(pa.table(columns), tmp_path / "in.parquet")
    fails(tmp_path / "in.parquet", message)


def test_bad_rows_are_dropped_and_counted(tmp_path):
    rows = [ROW, {**ROW, "score": None}, {**ROW, "bbox": [0, 0, -1, 1]}, {**ROW, "image_id": 2}, {"image_id": 1}]
    (tmp_path / "in.json").write_text(json.dumps(rows))
    summary = suppress(tmp_path / "in.json", tmp_path / "out.json", "nms:0.5", on_bad="drop")
    assert (summary.boxes_in, summary.boxes_out, summary.bad) == (5, 2, 3)
    assert json.loads((tmp_path / "out.json").read_text()) == [rows[0], rows[3]]
    assert "5 boxes in, 2 out, 3 bad rows dropped" in str(summary)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (["none.json"], "none.json: must be a file, a folder or a pattern that matches files, got no match"),
        (["a.json", "b.csv"], "format must be the same as that of"),
        (["c.xyz"], "suffix must be one of .json"),
        ([], "inputs must be one or more files, got none"),
    ],
)
def test_inputs_that_do_not_go(inputs, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.json", "b.csv", "c.xyz"):
        (tmp_path / name).write_text("[]")
    with pytest.raises(FileError, match=message):
        suppress(inputs, "out.json", "nms:0.5")


def test_an_output_that_cannot_be(tmp_path):
    (tmp_path / "in.json").write_text("[]")
    with pytest.raises(FileError, match="output must be in a folder that exists"):
        suppress(tmp_path / "in.json", tmp_path / "none" / "out.json", "nms:0.5")
    with pytest.raises(FileError, match="to must be one of"):
        suppress(tmp_path / "in.json", tmp_path / "out.json", "nms:0.5", to="xls")
    with pytest.raises(FileError, match="output must not be a folder of text files"):
        suppress(tmp_path / "in.json", tmp_path / "out", "nms:0.5", to="yolo")


def test_a_files_border_between_types_is_said(tmp_path):
    for name, image in (("a", 1), ("b", "one")):
        (tmp_path / f"{name}.json").write_text(json.dumps([{**ROW, "image_id": image}]))
    with pytest.raises(FileError, match="column image_id must be integers or strings throughout"):
        suppress([tmp_path / "a.json", tmp_path / "b.json"], tmp_path / "out.json", "nms:0.5")


@pytest.mark.parametrize("block", [10, 60, 2**20])
@pytest.mark.parametrize("notation", ["nms:0.5", "softnms:gaussian/0.5"])
def test_quotes_within_a_field_are_no_quotes(notation, block, tmp_path, monkeypatch):
    monkeypatch.setattr("hashnms.files.delimited._BLOCK", block)
    lines = [
        '1,0,0,9,9,0.5,5" pipe',
        "1,100,0,109,9,0.6,b",
        '1,200,0,209,9,0.7,"two\nlines, and ""quotes"""',
        '1,300,0,309,9,"0.8",6" pipe',
    ]
    (tmp_path / "in.csv").write_text(f"{COLUMNS},name\n" + "\n".join(lines))
    assert suppress(tmp_path / "in.csv", tmp_path / "out.csv", notation).boxes_out == 4
    kept = (tmp_path / "out.csv").read_text()
    assert (
        kept
        == f"{COLUMNS},name\n" + "\n".join(lines).replace('"0.8"', '"0.8"' if notation == "nms:0.5" else "0.8") + "\n"
    )


def test_the_number_of_a_line_counts_what_is_empty_or_between_quotes(tmp_path):
    text = f'{COLUMNS},t\r\n\r\n1,0,0,9,9,0.5,"a\nb"\r\n\r\n1,0,0,9,x,0.5,\r\n'
    (tmp_path / "in.csv").write_bytes(text.encode())
    with pytest.raises(FileError, match="line 6: column y2 must be a number, got 'x'"):
        suppress(tmp_path / "in.csv", tmp_path / "out.csv", "nms:0.5")


@pytest.mark.parametrize("text", ["{}\r1,0,0,9,9,0.5\r", '{},"a\nb"\n1,0,0,9,9,0.5,x\n'])
def test_a_header_that_is_not_a_line(text, tmp_path):
    (tmp_path / "in.csv").write_bytes(text.format(COLUMNS).encode())
    fails(tmp_path / "in.csv", "must have a first line with column names, got a line that is not CSV")


def test_a_field_longer_than_the_csv_module_takes(tmp_path):
    (tmp_path / "in.csv").write_text(f"{COLUMNS},t\n1,0,0,9,9,x,{'z' * 200_000}\n")
    fails(tmp_path / "in.csv", "line 2: must be CSV, got 1,0,0,9,9,x,zzz")


@pytest.mark.parametrize("suffix", ["csv", "tsv", "json", "jsonl", "parquet", "feather", "npz"])
def test_a_csv_file_without_rows_can_be_written_as_any_other_and_read_again(suffix, tmp_path):
    (tmp_path / "in.csv").write_text(f"{COLUMNS}\n")
    assert suppress(tmp_path / "in.csv", tmp_path / f"out.{suffix}", "nms:0.5").boxes_in == 0
    assert suppress(tmp_path / f"out.{suffix}", tmp_path / "again.csv", "nms:0.5").boxes_in == 0


def written(path, rows):
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return path


BAD = ["nonsense", 7, {**ROW, "score": "x"}, {**ROW, "bbox": [0, 0, 9]}, '{"image_id": 1', {"other": 1}]


@pytest.mark.parametrize("target", ["jsonl", "json", "csv", "parquet", "npz"])
@pytest.mark.parametrize("block", [40, 2**20])
@pytest.mark.parametrize("place", range(3))
def test_bad_rows_are_dropped_wherever_they_are_and_whatever_is_written(place, block, target, tmp_path, monkeypatch):
    monkeypatch.setattr("hashnms.files.json_rows._BLOCK", block)
    good = [ROW, {**ROW, "image_id": 2, "score": 1}]
    rows = [*good[:place], *BAD, *good[place:]]
    summary = suppress(written(tmp_path / "in.jsonl", rows), tmp_path / f"out.{target}", "nms:0.5", on_bad="drop")
    assert (summary.boxes_in, summary.boxes_out, summary.bad) == (8, 2, 6)
    again = suppress(tmp_path / f"out.{target}", tmp_path / "again.jsonl", "nms:0.5")
    assert again.boxes_out == 2
    with pytest.raises(FileError, match=f"line {place + 1}: "):
        suppress(tmp_path / "in.jsonl", tmp_path / "out.jsonl", "nms:0.5")


@pytest.mark.parametrize("target", ["csv", "json", "parquet"])
def test_bad_lines_of_csv_are_dropped_whatever_is_written(target, tmp_path):
    lines = [COLUMNS, "1,0,0,9,9,0.5", "1,0,0,9", "1,0,0,x,9,0.5", "2,0,0,9,9,0.5"]
    (tmp_path / "in.csv").write_text("\n".join(lines))
    summary = suppress(tmp_path / "in.csv", tmp_path / f"out.{target}", "nms:0.5", on_bad="drop")
    assert (summary.boxes_in, summary.boxes_out, summary.bad) == (4, 2, 2)


def test_keys_that_only_some_rows_have(tmp_path):
    rows = [ROW, {**ROW, "category_id": 3, "more": 5}]
    (tmp_path / "in.json").write_text(json.dumps(rows))
    suppress(tmp_path / "in.json", tmp_path / "out.parquet", "nms:0.5")
    assert pq.read_table(tmp_path / "out.parquet").column("more").to_pylist() == [None, 5]
    late = [ROW] * 2000 + [{**ROW, "category_id": 3, "late": 5}]
    (tmp_path / "in.json").write_text(json.dumps(late))
    for suffix in ("csv", "parquet"):
        with pytest.raises(FileError, match=r"all rows must have the keys of the first rows .*, got late"):
            suppress(tmp_path / "in.json", tmp_path / f"out.{suffix}", "nms:0.5")
    rows = [{key: value for key, value in ROW.items() if key != "category_id"}, ROW]
    (tmp_path / "in.json").write_text(json.dumps(rows))  # not as if none had a class
    with pytest.raises(FileError, match="row 1: category_id must be given"):
        suppress(tmp_path / "in.json", tmp_path / "out.json", "nms:0.5")


def test_a_file_of_bad_rows_before_a_good_one(tmp_path):
    inputs = [written(tmp_path / "a.jsonl", [{**ROW, "bbox": [0]}]), written(tmp_path / "b.jsonl", [ROW])]
    for memory in (1, None):
        summary = suppress(inputs, tmp_path / "out.jsonl", "nms:0.5", on_bad="drop", memory=memory)
        assert (summary.boxes_out, summary.bad) == (1, 1)


def test_a_list_that_is_only_begun(tmp_path):
    (tmp_path / "in.json").write_text("[")
    fails(tmp_path / "in.json", "row 1: must be JSON")


@pytest.mark.parametrize("name", ["sc[0]", "a.b", "p`q", "sc\u00f6re"])
def test_a_column_of_an_odd_name(name, tmp_path):
    rows = [{**ROW, name: 0.5}, {**ROW, name: "x"}]
    (tmp_path / "in.json").write_text(json.dumps(rows))
    fails(tmp_path / "in.json", f'row 2: {name} must be a number, got "x"', columns={"score": name})


@pytest.mark.parametrize("memory", [1, None])
def test_ids_of_two_types_are_said_whatever_the_memory(memory, tmp_path, monkeypatch):
    monkeypatch.setattr("hashnms.files.json_rows._BLOCK", 300)
    rows = [{**ROW, "image_id": row % 8 if row < 32 else f"a{row % 8}"} for row in range(64)]
    with pytest.raises(FileError, match="column image_id must be integers or strings throughout"):
        suppress(written(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl", "nms:0.5", memory=memory)


@pytest.mark.parametrize("kind", [pa.uint64(), pa.int8(), pa.string(), pa.float64()])
def test_scattered_ids_of_any_type(kind, tmp_path, monkeypatch):
    monkeypatch.setattr("hashnms.files.arrow._ROWS_AT_A_TIME", 4)
    ids = pa.array(np.arange(64) % 16)
    columns = {"image_id": ids.cast(kind), "label": ids.cast(kind), "bbox": [[0, 0, 9, 9]] * 64, "score": [0.5] * 64}
    pq.write_table(pa.table(columns), tmp_path / "in.parquet")
    assert suppress(tmp_path / "in.parquet", tmp_path / "out.parquet", "nms:0.5", memory=1).boxes_out == 16


def test_files_with_other_columns(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps([ROW]))
    (tmp_path / "b.json").write_text(json.dumps([{"image": 1, "class": 1, "bbox": [0, 0, 9, 9], "score": 0.5}]))
    with pytest.raises(FileError, match=r"b\.json: columns must be those of the first file, image_id, category_id"):
        suppress([tmp_path / "a.json", tmp_path / "b.json"], tmp_path / "out.json", "nms:0.5")


@pytest.mark.parametrize("notation", ["nms:0.5", "softnms:gaussian/0.5"])
@pytest.mark.parametrize(
    ("name", "line"), [("yolo", " 0  0.5 0.5\t0.1 0.1 0.9 7 \r\n"), ("visdrone", "1, 2,3,4, 0.9,5,-1,-1,\r\n")]
)
def test_lines_of_folders_stay_byte_for_byte(name, line, notation, tmp_path):
    folder = yolo_folder(tmp_path / "in", line)
    suppress(folder, tmp_path / "out", notation, format=name)
    kept = (tmp_path / "out" / "a.txt").read_bytes().decode()
    assert kept == (line if notation == "nms:0.5" else line.replace(", 0.9", ",0.9"))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"columns": {"label": "kind"}}, "columns of such a folder are fixed and must not be given, got label=kind"),
        ({"columns": {"score": "p"}}, "columns of such a folder are fixed and must not be given, got score=p"),
        ({"box_format": "xyxy"}, "box_format of such a folder must be cxcywh, got 'xyxy'"),
    ],
)
def test_the_fields_of_folders_are_known(how, message, tmp_path):
    with pytest.raises(FileError, match=message):
        suppress(yolo_folder(tmp_path / "in"), tmp_path / "out", "nms:0.5", **how)


def test_a_folder_without_files_of_the_format(tmp_path):
    (tmp_path / "in").mkdir()
    with pytest.raises(FileError, match=r"must be a folder with coco files, with a suffix of \.json, got none"):
        suppress(tmp_path / "in", tmp_path / "out.json", "nms:0.5", format="coco")
    (tmp_path / "in" / "UPPER.JSON").write_text(json.dumps([ROW]))
    assert suppress(tmp_path / "in", tmp_path / "out.json", "nms:0.5", format="coco").boxes_out == 1


def test_quotes_that_are_left_open_do_not_swallow_the_rest(tmp_path):
    lines = [f"{COLUMNS},name", "1,0,0,9,9,0.5,a", '1,50,0,59,9,0.5,"open', *["1,0,0,9,9,0.5,a"] * 9]
    (tmp_path / "in.csv").write_text("\n".join(lines))
    fails(tmp_path / "in.csv", "line 3: must have a quote at the end of each quoted field, got 1,50,0,59,9,0.5,")


def test_lines_are_counted_as_they_stand(tmp_path):
    written(tmp_path / "in.jsonl", [ROW, "", " ", {"image_id": 1}])
    fails(tmp_path / "in.jsonl", "in.jsonl, line 4: category_id must be given")
    with pytest.raises(FileError, match=r"a\.txt line 4: must have 6 fields"):
        suppress(yolo_folder(tmp_path / "in", "0 0.5 0.5 0.1 0.1 0.9\n\n \n0 x\n"), tmp_path / "out", "nms:0.5")


def test_a_key_may_have_one_role(tmp_path):
    (tmp_path / "in.json").write_text(json.dumps([ROW]))
    message = "image, label, boxes and score must be different keys, got category_id twice"
    fails(tmp_path / "in.json", message, columns={"score": "category_id"})


def test_a_folder_is_written_as_one_file_if_the_output_says_so(tmp_path):
    suppress(yolo_folder(tmp_path / "in"), tmp_path / "out.parquet", "nms:0.5")
    assert pq.read_table(tmp_path / "out.parquet").column("image").to_pylist() == ["a"]


def test_dictionaries_of_two_files_in_feather(tmp_path):
    for name in "ab":
        ids = pa.array([name, name]).dictionary_encode()
        table = pa.table({"image": ids, "bbox": [[0, 0, 9, 9]] * 2, "score": [0.5, 0.6]})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    suppress([tmp_path / "a.parquet", tmp_path / "b.parquet"], tmp_path / "out.feather", "nms:0.5")
    with pa.ipc.open_file(tmp_path / "out.feather") as file:
        assert file.read_all().column("image").to_pylist() == ["a", "b"]
