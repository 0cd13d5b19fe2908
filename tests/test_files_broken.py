"""Files with a broken part: the error names the row, the other rows survive if bad rows are dropped."""

import collections
import json
import random
import zipfile

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("msgspec")
import pyarrow.parquet as pq  # noqa: E402
from pyarrow import feather  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from hashnms.cli import app  # noqa: E402
from hashnms.files import FileError, suppress  # noqa: E402
from hashnms.files.loading import load  # noqa: E402
from hashnms.files.rows import Reading  # noqa: E402
from tests.support.files import ROW, fails  # noqa: E402

GOOD = json.dumps(ROW).encode()

#: A row that is broken, and the end of the message of JSON Lines.
BROKEN = [
    (GOOD.replace(b"1", b'"\xff"', 1), "must be UTF-8, got {"),
    (GOOD.replace(b"{", b'{"note": "\xff", '), "must be UTF-8, got {"),
    (GOOD.replace(b"{", b'{"\xff": 1, '), "must be UTF-8, got {"),
    (b'{"score": "x", "note": "\xff"}', "must be UTF-8, got {"),
    (b"\xff\xfe", "must be UTF-8, got "),
    (b'{"image_id": 1, "score": "x", "category_id": }', "(invalid character near byte 46 of the line)"),
    (b'{"image_id": 1,', 'must be a JSON object, got {"image_id": 1, (cut off)'),
    (b"nonsense", "must be a JSON object, got nonsense (invalid character near byte 5 of the line)"),
    (GOOD + b"}", "(trailing characters near byte 7"),
    (GOOD.replace(b"{", b'{"note": "a\tb", '), "(invalid character near byte 12 of the line)"),
    (b"[" * 5000, "must be a JSON object, got [["),
    (b"\x00", "(invalid character near byte 1 of the line)"),
    (GOOD.replace(b"0.5", b"NaN"), "of the line)"),
    (GOOD.replace(b"0.5", b"1e999"), "score must be a finite number, got 1e999"),
]


@pytest.mark.parametrize("block", [40, 2**23])
@pytest.mark.parametrize(("row", "message"), BROKEN)
@pytest.mark.parametrize("place", range(3))
def test_a_broken_row_of_json(place, row, message, block, tmp_path, monkeypatch):
    monkeypatch.setattr("hashnms.files.json_rows._BLOCK", block)
    rows = [GOOD, GOOD.replace(b"1", b"2", 1)]
    rows.insert(place, row)
    (tmp_path / "in.jsonl").write_bytes(b"\n".join(rows))
    fails(tmp_path / "in.jsonl", f"in.jsonl, line {place + 1}: ")
    with pytest.raises(FileError) as error:
        suppress(tmp_path / "in.jsonl", tmp_path / "out.jsonl", "nms:0.5")
    assert message in str(error.value)
    (tmp_path / "in.json").write_bytes(b"[" + b",\n".join(rows) + b"]")
    with pytest.raises(FileError, match=rf"in\.json, row {place + 1}: "):
        suppress(tmp_path / "in.json", tmp_path / "out.json", "nms:0.5")
    for kind in ("json", "jsonl"):
        for target in (kind, "csv"):
            out = tmp_path / f"out.{target}"
            summary = suppress(tmp_path / f"in.{kind}", out, "nms:0.5", on_bad="drop")
            assert (summary.boxes_in, summary.boxes_out, summary.bad) == (3, 2, 1)


def test_the_byte_of_a_broken_list_is_counted_in_the_file(tmp_path):
    text = b" [" + GOOD + b',\n{"image_id": }]'
    (tmp_path / "in.json").write_bytes(text)
    byte = text.index(b"}]") + 1
    fails(
        tmp_path / "in.json", f"row 2: must be JSON, got invalid text (invalid character near byte {byte} of the file)"
    )
    (tmp_path / "in.json").write_bytes(text[:-5])
    fails(tmp_path / "in.json", "row 2: must be JSON, got invalid text (cut off)")


def test_a_line_of_json_lines_is_one_object(tmp_path):
    (tmp_path / "in.jsonl").write_bytes(GOOD + b"\n\n" + GOOD + GOOD + b"\n")
    fails(tmp_path / "in.jsonl", f"line 3: must be a JSON object, got {GOOD.decode()[:57]}... (trailing characters")
    (tmp_path / "in.jsonl").write_bytes(GOOD.replace(b", ", b",\n"))
    fails(tmp_path / "in.jsonl", "line 1: ")


def test_rows_that_hold_objects_survive_a_broken_one(tmp_path):
    nested = json.dumps({**ROW, "parts": [{"a": 1}, {"b": [{}, {}]}], "text": '},{"'}).encode()
    (tmp_path / "in.json").write_bytes(
        b"[" + b",".join([nested, b'{"image_id": 1', nested.replace(b"1", b"2", 1)]) + b"]"
    )
    summary = suppress(tmp_path / "in.json", tmp_path / "out.json", "nms:0.5", on_bad="drop")
    assert (summary.boxes_out, summary.bad) == (2, 1)
    assert [row["parts"] for row in json.loads((tmp_path / "out.json").read_text())] == [
        [{"a": 1}, {"b": [{}, {}]}]
    ] * 2


def test_one_quote_too_many_takes_no_other_lines(tmp_path):
    lines = ['1,0,0,9,9,0.5,"two\nlines"', '2,0,0,9,9,0.5,"open', *(f"{row},0,0,9,9,0.5,a" for row in range(3, 9))]
    (tmp_path / "in.csv").write_text("image,x1,y1,x2,y2,score,text\n" + "\n".join(lines))
    with pytest.raises(FileError, match=r"line 4: must have a quote at the end of each quoted field, got 2,0"):
        suppress(tmp_path / "in.csv", tmp_path / "out.csv", "nms:0.5")
    for target in ("csv", "json"):
        summary = suppress(tmp_path / "in.csv", tmp_path / f"out.{target}", "nms:0.5", on_bad="drop")
        assert (summary.boxes_out, summary.bad) == (7, 1)


def test_bytes_of_csv_that_are_not_utf_8(tmp_path):
    """They are copied where nothing depends on them."""
    text = b"image,x1,y1,x2,y2,score,text\n1,0,0,9,9,0.5,\xfc\n\xfc,0,0,9,9,0.5,b\n"
    (tmp_path / "in.csv").write_bytes(text)
    fails(tmp_path / "in.csv", r"line 3: column image must be UTF-8, got b'\xfc'")
    suppress(tmp_path / "in.csv", tmp_path / "out.csv", "nms:0.5", on_bad="drop")
    assert (tmp_path / "out.csv").read_bytes() == text[: text.rindex(b"\xfc")]
    (tmp_path / "in.csv").write_bytes(text[: text.rindex(b"\xfc")])
    with pytest.raises(FileError, match="line 2: must be UTF-8 to be written in another format, got b'1,0,0,9,9"):
        suppress(tmp_path / "in.csv", tmp_path / "out.json", "nms:0.5")


@pytest.mark.parametrize("name", ["yolo", "visdrone"])
def test_a_line_of_a_folder_that_is_not_utf_8(name, tmp_path):
    line = b"0 0.5 0.5 0.1 0.1 0.9\n" if name == "yolo" else b"1,2,3,4,0.9,5,-1,-1\n"
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_bytes(b"\xef\xbb\xbf" + line + line.replace(b".", b"\xff") + line)
    with pytest.raises(FileError, match=r"a\.txt line 2: must be UTF-8, got b'"):
        suppress(tmp_path / "in", tmp_path / "out", "limit:9", format=name)
    suppress(tmp_path / "in", tmp_path / "out", "limit:9", format=name, on_bad="drop")
    assert (tmp_path / "out" / "a.txt").read_bytes() == line * 2


@pytest.mark.parametrize("method", [1, 12, 14, 93, 97, 99])
def test_a_compression_of_npz_that_zipfile_does_not_know(method, tmp_path):
    np.savez(tmp_path / "in.npz", boxes=np.array([[0, 0, 9, 9.0]]), scores=np.ones(1))
    data = bytearray((tmp_path / "in.npz").read_bytes())
    for mark, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        place = -1
        while (place := data.find(mark, place + 1)) >= 0:
            data[place + offset : place + offset + 2] = method.to_bytes(2, "little")
    (tmp_path / "in.npz").write_bytes(data)
    fails(tmp_path / "in.npz", "in.npz: must hold arrays of numbers, got")


def test_an_encrypted_npz_file(tmp_path):
    np.savez(tmp_path / "in.npz", boxes=np.array([[0, 0, 9, 9.0]]), scores=np.ones(1))
    data = bytearray((tmp_path / "in.npz").read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = -1
        while (place := data.find(mark, place + 1)) >= 0:
            data[place + offset] |= 1
    (tmp_path / "in.npz").write_bytes(data)
    fails(tmp_path / "in.npz", "in.npz: must hold arrays of numbers, got File 'boxes.npy' is encrypted")
    with zipfile.ZipFile(tmp_path / "in.npz", "w") as file:
        file.writestr("boxes.npy", b"nothing")
    fails(tmp_path / "in.npz", "in.npz: score must be one of the arrays boxes, got none")


def table(**columns):
    usual = {"image": [1, 1, 2], "bbox": [[0, 0, 9, 9]] * 3, "score": [0.5, 0.4, 0.3]}
    return pa.table({**usual, **columns})


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"bbox": [[0, 0, 9, 9], [0, 0, 2**53 + 1, 9], [0, 0, 9, 9]]}, "column bbox must be integers of at most 2^53"),
        ({"bbox": [[0, 0, 9, 9], [-(2**62), 0, 9, 9], [0, 0, 9, 9]]}, "column bbox must be integers of at most 2^53"),
        ({"score": [1, 2**60, 2]}, "column score must be integers of at most 2^53"),
        ({"score": pa.array([1, 2**64 - 1, 2], pa.uint64())}, "got 18446744073709551615"),
    ],
)
@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_integers_that_float64_cannot_hold(columns, message, suffix, tmp_path):
    write = pq.write_table if suffix == "parquet" else feather.write_feather
    write(table(**columns), tmp_path / f"in.{suffix}")
    fails(tmp_path / f"in.{suffix}", "row 2: column ")
    fails(tmp_path / f"in.{suffix}", message)
    fails(tmp_path / f"in.{suffix}", message, memory=1)
    with pytest.raises(FileError, match="row 2: column"):
        load([tmp_path / f"in.{suffix}"], Reading())
    for memory in (1, None):
        out = tmp_path / f"out.{suffix}"
        summary = suppress(tmp_path / f"in.{suffix}", out, "nms:0.5", on_bad="drop", memory=memory)
        assert (summary.boxes_out, summary.bad) == (2, 1)
    from hashnms import scenes  # noqa: PLC0415

    with pytest.raises(FileError, match="row 2: column"):
        scenes.suppress(tmp_path / f"in.{suffix}", tmp_path / "out", "nms:0.5")


def test_npz_with_integers_that_float64_cannot_hold(tmp_path):
    boxes = np.array([[0, 0, 9, 9], [0, 0, 2**53 + 1, 9]])
    np.savez(tmp_path / "in.npz", boxes=boxes, scores=np.ones(2))
    fails(tmp_path / "in.npz", "row 2: column boxes must be integers of at most 2^53")
    assert suppress(tmp_path / "in.npz", tmp_path / "out.npz", "nms:0.5", on_bad="drop").bad == 1


TYPES = {
    "string_view": lambda: pa.array(["a", "a", "b"], pa.string_view()),
    "binary_view": lambda: pa.array([b"a", b"a", b"b"], pa.binary_view()),
    "dictionary": lambda: pa.DictionaryArray.from_arrays([0, 0, 1], pa.array(["a", "b"], pa.string_view())),
    "half": lambda: pa.array(np.array([1, 1, 2], np.float16)),
    "uuid": lambda: pa.array([b"a" * 16, b"a" * 16, b"b" * 16], pa.uuid()),
    "runs": lambda: pa.RunEndEncodedArray.from_arrays([2, 3], ["a", "b"]),
}


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("memory", [1, None])
def test_images_and_classes_of_any_type_of_arrow(name, memory, tmp_path):
    if name == "uuid" and not hasattr(pa, "uuid"):
        pytest.skip("this pyarrow has no type for UUIDs")
    ids = TYPES[name]()
    given = table(image=ids, label=ids, other=ids, bbox=[[0, 0, 9, 9]] * 3)
    feather.write_feather(given, tmp_path / "in.feather")
    for target in ("feather", "npz") if name == "string_view" else ("feather",):
        assert suppress(tmp_path / "in.feather", tmp_path / f"out.{target}", "nms:0.5", memory=memory).boxes_out == 2
    kept = feather.read_table(tmp_path / "out.feather")
    assert kept.schema == feather.read_table(tmp_path / "in.feather").schema
    assert kept["image"].to_pylist() == [given["image"].to_pylist()[row] for row in (0, 2)]
    assert len(load([tmp_path / "in.feather"], Reading()).images) == 2
    if name == "string_view":
        pq.write_table(given, tmp_path / "in.parquet")
        for target in ("parquet", "csv", "json"):
            assert suppress(tmp_path / "in.parquet", tmp_path / f"out.{target}", "nms:0.5").boxes_out == 2


def test_an_image_that_is_a_list(tmp_path):
    pq.write_table(table(image=[[1], [1], [2]]), tmp_path / "in.parquet")
    for memory in (1, None):
        message = "in.parquet: column image must hold values such as integers or strings, got list<"
        fails(tmp_path / "in.parquet", message, memory=memory)


def test_tables_with_columns_of_which_arrow_takes_no_rows():
    from hashnms import tables  # noqa: PLC0415

    lists = pa.array([["a"], ["b"], ["c"]], pa.list_(pa.string_view()))
    given = table(image=TYPES["string_view"](), more=lists, again=TYPES["runs"]())
    for order in ("input", "score"):
        kept = tables.suppress(given, "nms:0.5", order=order)
        assert kept["more"].to_pylist() == [["a"], ["c"]]
        assert kept.schema.field("again") == given.schema.field("again")
    assert tables.suppress(given, "score:2").num_rows == 0


def test_broken_offsets_of_feather_are_an_error_and_no_crash(tmp_path):
    """Arrow does not check them by itself, and reads whatever lies there."""
    notes = [f"note {number:05}" for number in range(3)]
    feather.write_feather(table(note=notes), tmp_path / "in.feather", compression="uncompressed")
    data = (tmp_path / "in.feather").read_bytes()
    offsets = np.array([0, 10, 20, 30], np.int32).tobytes()
    broken = np.array([0, 10, 2**31 - 1, 30], np.int32).tobytes()
    assert data.count(offsets) == 1
    (tmp_path / "in.feather").write_bytes(data.replace(offsets, broken))
    fails(tmp_path / "in.feather", "in.feather: must be a Feather file, got")
    with pytest.raises(FileError, match="must be a Feather file"):
        load([tmp_path / "in.feather"], Reading(columns={"label": "note"}))


TEXTS = [b"NaN", b"1e999", b"null", b"9" * 5000, b'"', b"{", b"}", b"[", b"]", b",", b"\n", b"\r\n", b"\x00", b"\xff"]
TEXTS += [b"\xef\xbb\xbf", b"\\", b'{"a":' * 300, b"\t", "\uff11".encode(), b"1_0", b"\\ud800", b"-1e308", b";"]


def mutated(data, chance):
    """Text or bytes with one to five changes: a bit, a part missing, foreign text, a part twice, other line ends."""
    data = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2, 5])):
        place, kind = chance.randrange(len(data)), chance.randrange(7)
        end = place + chance.randrange(1, 60)
        if kind == 0:
            data[place] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del data[place:end]
        elif kind == 2:
            del data[max(place, 80) :]
        elif kind == 3:
            data[place:place] = chance.choice(TEXTS)
        elif kind == 4:
            data[place : place + chance.randrange(1, 12)] = chance.choice(TEXTS)
        elif kind == 5:
            data[place:place] = data[place:end]
        else:
            data = data.replace(b"\n", chance.choice([b"\r\n", b"\n\n"]))
    return bytes(data)


def rows_of(text, kind):
    strip = b" \r\t[]," if kind == "json" else b"\r"
    return [line.strip(strip) for line in text.split(b"\n")]


FORMATS = ["json", "jsonl", "csv", "tsv", "mot", "yolo", "visdrone", "parquet", "feather", "npz"]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("seed", range(8))
def test_mutated_files(kind, seed, tmp_path, monkeypatch):
    """No traceback, one line of errors, the old output unchanged; good rows survive where bad ones are dropped."""
    chance = random.Random(f"{kind} {seed}")
    monkeypatch.chdir(tmp_path)
    source, out, damaged = written_in(kind, chance, tmp_path)
    before = damaged.read_bytes()
    after = mutated(before, chance)
    if kind in ("csv", "tsv") and seed % 3:  # otherwise half of the errors are about the header
        after = before[: before.index(b"\n") + 1] + mutated(before[before.index(b"\n") + 1 :], chance)
    damaged.write_bytes(after)
    truth = {
        "images": [{"id": image} for image in range(1, 6)],
        "annotations": [],
        "categories": [{"id": 1}, {"id": 2}],
    }
    (tmp_path / "truth.json").write_text(json.dumps(truth))
    there = {path.name for path in tmp_path.iterdir()} | {out.name}
    form = ["-f", kind] if kind in ("mot", "yolo", "visdrone") else []
    for command in (
        ["suppress", source, "-o", out, "-s", "nms:0.5"],
        ["suppress", source, "-o", out, "-s", "softnms:gaussian/0.5", "--memory", "1"],
        ["suppress", source, "-o", "other.json", "--skip-bad"],
        ["compare", source, "-s", "nms:0.5", "--rounds", "1", "-o", "json"],
        ["evaluate", source, "--truth", "truth.json"],
        ["suppress", source, "-o", out, "-s", "limit:1000000", "--skip-bad"],
    ):
        old = out / "old.txt" if out.suffix == "" else out
        if command[:4:3] == ["suppress", out]:
            (old.parent).mkdir(exist_ok=True)
            for path in old.parent.iterdir() if out.suffix == "" else ():
                path.unlink()
            (old.with_name(damaged.name) if out.suffix == "" else old).write_bytes(b"old")
        result = CliRunner().invoke(app, list(map(str, command)) + form)
        assert isinstance(result.exception, SystemExit | None), (command, result.exception)
        errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
        assert len(errors) == (result.exit_code != 0), (command, result.stderr)
        assert {path.name for path in tmp_path.iterdir()} <= there | {"other.json"}
        if errors and command[0] != "evaluate":
            assert source.name in errors[0]
            assert "codec" not in errors[0]
            assert "kernel" not in errors[0]
            written = old.with_name(damaged.name) if out.suffix == "" else old
            assert not written.exists() or written.read_bytes() == b"old" or "-s" not in command
    if result.exit_code == 0 and kind not in ("parquet", "feather", "npz"):
        target = out / damaged.name if out.suffix == "" else out
        same = collections.Counter(rows_of(before, kind)) & collections.Counter(rows_of(after, kind))
        kept = set(rows_of(target.read_bytes(), kind))
        assert set(same) - kept <= {b""} | ({rows_of(before, kind)[0]} if kind in ("csv", "tsv") else set())


def written_in(kind, chance, folder):
    """Write a file of forty rows: its path, the path of the output, and the file to damage."""
    numbers = [[round(chance.random() * 100, 2), round(chance.random() * 100, 2), 9.5, 9.25] for _ in range(40)]
    rows = [
        {"image_id": row // 8 + 1, "category_id": row % 2 + 1, "bbox": box, "score": round(chance.random(), 3)}
        for row, box in enumerate(numbers)
    ]
    path = folder / f"in.{'txt' if kind == 'mot' else kind}"
    out = path.with_name(f"out{path.suffix}")
    if kind in ("json", "jsonl"):
        text = (",\n" if kind == "json" else "\n").join(json.dumps({**row, "note": "\u00e9"}) for row in rows)
        path.write_text(f"[{text}]" if kind == "json" else f"{text}\n", encoding="utf-8")
    elif kind in ("csv", "tsv", "mot"):
        mark = "\t" if kind == "tsv" else ","
        more = [-1, -1, -1] if kind == "mot" else ['"q, \u00e9"']
        lines = [[row["image_id"], row["category_id"], *row["bbox"], row["score"], *more] for row in rows]
        header: list[list[str]] = (
            [] if kind == "mot" else [["image_id", "category_id", "x", "y", "w", "h", "score", "note"]]
        )
        path.write_text("".join(mark.join(map(str, line)) + "\n" for line in [*header, *lines]), encoding="utf-8")
    elif kind in ("yolo", "visdrone"):
        path, out = folder / "in", folder / "out"
        path.mkdir()
        for image in range(1, 6):
            mine = [row for row in rows if row["image_id"] == image]
            texts = [
                f"{row['category_id']} {row['bbox'][0] / 200:.4f} {row['bbox'][1] / 200:.4f} 0.05 0.05 {row['score']}"
                if kind == "yolo"
                else ",".join(map(str, [*row["bbox"], row["score"], row["category_id"], -1, -1]))
                for row in mine
            ]
            (path / f"{image}.txt").write_text("\n".join(texts) + "\n")
        return path, out, path / f"{chance.randrange(1, 6)}.txt"
    elif kind == "npz":
        columns = {name: np.array([row[name] for row in rows]) for name in ("image_id", "category_id", "score", "bbox")}
        names = {"images": "image_id", "labels": "category_id", "scores": "score", "boxes": "bbox"}
        save = chance.choice([np.savez, np.savez_compressed])
        save(path, **{name: columns[column] for name, column in names.items()})
    else:
        given = pa.Table.from_pylist([{**row, "note": "\u00e9"} for row in rows])
        if kind == "parquet":
            pq.write_table(given, path, row_group_size=16, compression=chance.choice(["none", "zstd", "snappy"]))
        else:
            feather.write_feather(given, path, compression=chance.choice(["uncompressed", "lz4", "zstd"]))
    return path, out, path
