"""Files of every format give the same result as the arrays in them, and kept rows are unchanged."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
pytest.importorskip("msgspec")
import pyarrow.parquet as pq  # noqa: E402
from pyarrow import feather  # noqa: E402

from hashnms import Suppression  # noqa: E402
from hashnms.files import FORMATS, FileError, suppress  # noqa: E402
from hashnms.synthetic import make_scene  # noqa: E402


def detections(num_images=6, boxes_per_image=60):
    """Boxes xyxy, scores, labels and images of several small crowds."""
    scenes = [make_scene("crowd", boxes_per_image, seed=seed) for seed in range(num_images)]
    boxes = np.concatenate([scene.boxes for scene in scenes]).astype(np.float64).round(2)
    scores = np.concatenate([scene.scores for scene in scenes]).astype(np.float64).round(4)
    labels = np.random.default_rng(0).integers(1, 4, len(boxes))
    return boxes, scores, labels, np.repeat(np.arange(num_images), boxes_per_image)


def sizes(boxes):
    return np.hstack([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]])


BOXES, SCORES, LABELS, IMAGES = detections()
XYWH = sizes(BOXES)


def kept(notation, boxes=BOXES, labels=LABELS, box_format="xyxy"):
    """Rows in input order, and their scores."""
    result = Suppression.parse(notation)(boxes, SCORES, labels, IMAGES, box_format=box_format)
    order = np.argsort(result.keep)
    return result.keep[order], result.scores[order]


OTHER = '"segmentation":{"counts": "a\\u00e9,{","size":[1, 2.50]} }'


def coco_rows():
    """Rows with keys that are not ours, and odd spelling."""
    values = zip(IMAGES, LABELS, XYWH.tolist(), SCORES, strict=True)
    return [
        f'{{"image_id": {image}, "category_id":{label},"bbox":{box}, "score":{score}, {OTHER}'
        for image, label, box, score in values
    ]


def write_coco(path):
    path.write_text("[" + ", \n".join(coco_rows()) + "]", encoding="utf-8")


def test_coco_results_stay_byte_for_byte(tmp_path):
    write_coco(tmp_path / "in.json")
    summary = suppress(tmp_path / "in.json", tmp_path / "out.json", "nms:0.5")
    rows, _ = kept("nms:0.5", XYWH, box_format="xywh")
    assert (summary.boxes_in, summary.boxes_out, summary.bad) == (len(BOXES), len(rows), 0)
    text = (tmp_path / "out.json").read_text(encoding="utf-8")
    assert text == "[" + ",\n".join(coco_rows()[row] for row in rows) + "]\n"
    assert len(json.loads(text)) == len(rows)


def test_soft_nms_rewrites_the_score_of_a_row_and_nothing_else(tmp_path):
    write_coco(tmp_path / "in.json")
    suppress(tmp_path / "in.json", tmp_path / "out.json", "softnms:gaussian/0.5")
    rows, scores = kept("softnms:gaussian/0.5", XYWH, box_format="xywh")
    expected = [
        coco_rows()[row].replace(f'"score":{SCORES[row]}', f'"score":{score!r}')
        for row, score in zip(rows, scores.tolist(), strict=True)
    ]
    assert (tmp_path / "out.json").read_text(encoding="utf-8") == "[" + ",\n".join(expected) + "]\n"


def merged(notation, boxes=BOXES, box_format="xyxy"):
    """Rows in input order, their boxes and scores, and whether the box is another."""
    result = Suppression.parse(notation)(boxes, SCORES, LABELS, IMAGES, box_format=box_format)
    order = np.argsort(result.keep)
    rows, new = result.keep[order], result.boxes[order]
    return rows, new, result.scores[order], (new != boxes[rows]).any(axis=1)


@pytest.mark.parametrize("notation", ["nmm:0.5", "vote:0.5+limit:9", "wbf:0.55"])
def test_merging_rewrites_the_box_of_a_row_and_nothing_else(notation, tmp_path):
    write_coco(tmp_path / "in.json")
    suppress(tmp_path / "in.json", tmp_path / "out.json", notation)
    expected = []
    rows, boxes, scores, is_new = merged(notation, XYWH, "xywh")
    assert 0 < is_new.sum() < len(rows)
    for row, box, score, other in zip(rows, boxes.tolist(), scores.tolist(), is_new, strict=True):
        text = coco_rows()[row]
        if other:
            text = text.replace(f'"bbox":{XYWH[row].tolist()}', f'"bbox":{box}')
        if notation.startswith("wbf"):
            text = text.replace(f'"score":{SCORES[row]}', f'"score":{score!r}')
        expected.append(text)
    assert (tmp_path / "out.json").read_text(encoding="utf-8") == "[" + ",\n".join(expected) + "]\n"


def test_merging_rewrites_four_values_of_a_json_row(tmp_path):
    rows = ['{"y2": 4,"image": "a", "x1":0, "note":"x1","y1":0.0, "x2" : 4, "score":0.5}']
    rows.append(rows[0].replace("0.5", "0.25").replace("4,", "5,"))
    (tmp_path / "in.jsonl").write_text("\n".join(rows))
    suppress(tmp_path / "in.jsonl", tmp_path / "out.jsonl", "nmm:0.5")
    expected = '{"y2": 5.0,"image": "a", "x1":0.0, "note":"x1","y1":0.0, "x2" : 5.0, "score":0.5}\n'
    assert (tmp_path / "out.jsonl").read_text() == expected


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_merging_rewrites_four_fields_of_a_line(end, tmp_path):
    def line(row, box):
        return f'{LABELS[row]},"a, ""b""",{box[0]},{box[1]},{box[2]},{SCORES[row]},{IMAGES[row]},{box[3]}'

    header = "class,note,x1,y1,x2,score,image,y2"
    text = end.join([header, *(line(row, box) for row, box in enumerate(BOXES.tolist()))]) + end
    (tmp_path / "in.csv").write_bytes(text.encode())
    suppress(tmp_path / "in.csv", tmp_path / "out.csv", "nmm:0.5")
    rows, boxes, _, _ = merged("nmm:0.5")
    expected = end.join([header, *(line(row, box) for row, box in zip(rows, boxes.tolist(), strict=True))]) + end
    assert (tmp_path / "out.csv").read_bytes().decode() == expected


def test_merging_rewrites_four_fields_of_a_file_an_image(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text(
        "3 0.5  0.5 0.5 0.5 0.75\n3 0.5 0.75 0.5 0.5 0.5\n3 0.1 0.10 0.1 0.1 0.25 7\n"
    )
    suppress(tmp_path / "in", tmp_path / "out", "nmm:0.3", format="yolo")
    expected = "3 0.5  0.625 0.5 0.75 0.75\n3 0.1 0.10 0.1 0.1 0.25 7\n"
    assert (tmp_path / "out" / "a.txt").read_text() == expected


def test_merging_of_arrays_and_integers(tmp_path):
    boxes = np.rint(BOXES).astype(np.int32)
    np.savez(tmp_path / "in.npz", boxes=boxes, scores=SCORES, labels=LABELS, images=IMAGES)
    suppress(tmp_path / "in.npz", tmp_path / "out.npz", "vote:0.4")
    result = Suppression.parse("vote:0.4")(boxes, SCORES, LABELS, IMAGES)
    with np.load(tmp_path / "out.npz") as arrays:
        assert arrays["boxes"].dtype == np.int32
        np.testing.assert_array_equal(arrays["boxes"], np.rint(result.boxes[np.argsort(result.keep)]))


@pytest.mark.parametrize("block", [200, 1000, 10**6])
def test_json_is_the_same_whatever_the_size_of_its_blocks(block, tmp_path, monkeypatch):
    write_coco(tmp_path / "in.json")
    suppress(tmp_path / "in.json", tmp_path / "whole.json", "nms:0.5")
    monkeypatch.setattr("hashnms.files.json_rows._BLOCK", block)
    suppress(tmp_path / "in.json", tmp_path / "out.json", "nms:0.5")
    assert (tmp_path / "out.json").read_bytes() == (tmp_path / "whole.json").read_bytes()


def test_rows_with_objects_inside_are_cut_between_rows(tmp_path, monkeypatch):
    monkeypatch.setattr("hashnms.files.json_rows._BLOCK", 64)
    rows = [
        {"image_id": "a", "bbox": [30 * n, 0, 9, 9], "score": 0.5, "parts": [{"n": k} for k in range(40)]}
        for n in range(9)
    ]
    (tmp_path / "in.json").write_text(json.dumps(rows))
    suppress(tmp_path / "in.json", tmp_path / "out.json", "nms:0.5")
    assert json.loads((tmp_path / "out.json").read_text()) == rows


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("suffix", ["csv", "tsv"])
@pytest.mark.parametrize("notation", ["nms:0.5", "softnms:gaussian/0.5"])
def test_lines_of_csv_stay_byte_for_byte(suffix, end, notation, tmp_path):
    delimiter = "," if suffix == "csv" else "\t"
    names = ["file_name", "x_min", "y_min", "x_max", "y_max", "class_id", "confidence", "note"]

    def line(row, score):
        cells = [f"{IMAGES[row]}.jpg", *BOXES[row].tolist(), LABELS[row], score, f'"a {delimiter} ""b""\n{row}"']
        return delimiter.join(map(str, cells))

    text = end.join([delimiter.join(names), *(line(row, SCORES[row]) for row in range(len(BOXES)))]) + end
    (tmp_path / f"in.{suffix}").write_bytes(text.encode())
    suppress(tmp_path / f"in.{suffix}", tmp_path / f"out.{suffix}", notation)
    rows, scores = kept(notation)
    values = SCORES[rows] if notation == "nms:0.5" else scores.tolist()
    expected = (
        end.join([delimiter.join(names), *(line(row, value) for row, value in zip(rows, values, strict=True))]) + end
    )
    assert (tmp_path / f"out.{suffix}").read_bytes().decode() == expected


def test_csv_without_a_header_takes_the_names_that_are_given(tmp_path):
    lines = [
        f"{i},{a},{b},{c},{d},{label},640,480,{score}"
        for i, (a, b, c, d), label, score in zip(IMAGES, BOXES, LABELS, SCORES, strict=True)
    ]
    (tmp_path / "in.csv").write_text("\n".join(lines))
    header = ["image", "x1", "y1", "x2", "y2", "class", "width", "height", "score"]
    suppress(tmp_path / "in.csv", tmp_path / "out.csv", "nms:0.5", header=header)
    assert (tmp_path / "out.csv").read_text() == "".join(f"{lines[row]}\n" for row in kept("nms:0.5")[0])


def test_mot_detections_have_no_class(tmp_path):
    lines = [
        f"{i},-1,{a},{b},{w},{h},{score},-1,-1,-1" for i, (a, b, w, h), score in zip(IMAGES, XYWH, SCORES, strict=True)
    ]
    (tmp_path / "det.txt").write_text("\n".join(lines) + "\n")
    suppress(tmp_path / "det.txt", tmp_path / "out.txt", "nms:0.5", format="mot")
    rows, _ = kept("nms:0.5", XYWH, labels=None, box_format="xywh")
    assert (tmp_path / "out.txt").read_text() == "".join(f"{lines[row]}\n" for row in rows)


@pytest.mark.parametrize("notation", ["nms:0.5", "softnms:gaussian/0.5"])
@pytest.mark.parametrize("name", ["yolo", "visdrone"])
def test_folders_have_a_file_an_image(name, notation, tmp_path):
    centred = np.hstack([XYWH[:, :2] + XYWH[:, 2:] / 2, XYWH[:, 2:]]) if name == "yolo" else XYWH

    def line(row, score):
        values = " ".join(map(str, centred[row].tolist()))
        return (
            f"{LABELS[row]} {values} {score}"
            if name == "yolo"
            else f"{values},{score},{LABELS[row]},0,0".replace(" ", ",")
        )

    (tmp_path / "in").mkdir()
    for image in range(8):  # two have no boxes
        lines = [line(row, SCORES[row]) for row in np.flatnonzero(image == IMAGES)]
        (tmp_path / "in" / f"{image}.txt").write_text("".join(f"{text}\n" for text in lines))
    suppress(tmp_path / "in", tmp_path / "out", notation, format=name)
    rows, scores = kept(notation, centred, box_format="cxcywh" if name == "yolo" else "xywh")
    values = SCORES[rows] if notation == "nms:0.5" else scores.tolist()
    for image in range(8):
        expected = "".join(
            f"{line(row, value)}\n" for row, value in zip(rows, values, strict=True) if IMAGES[row] == image
        )
        assert (tmp_path / "out" / f"{image}.txt").read_text() == expected


def arrow_table():
    columns = dict(zip(("x1", "y1", "x2", "y2"), BOXES.astype(np.float32).T, strict=True))
    other = pa.array([{"a": str(row)} for row in range(len(BOXES))])
    return pa.table({"image": [f"i{i}" for i in IMAGES], "label": LABELS, **columns, "score": SCORES, "other": other})


@pytest.mark.parametrize("notation", ["nms:0.5", "softnms:gaussian/0.5", "top:20+hnms:0.73/1+nms:0.5+limit:7"])
@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_arrow_files_keep_their_schema_and_all_columns(suffix, notation, tmp_path):
    table, path, out = arrow_table(), tmp_path / f"in.{suffix}", tmp_path / f"out.{suffix}"
    if suffix == "parquet":
        pq.write_table(table, path, row_group_size=7, compression="gzip")
    else:
        feather.write_feather(table, path, compression="uncompressed", chunksize=7)
    suppress(path, out, notation)
    rows, scores = kept(notation, BOXES.astype(np.float32))
    expected = table.take(rows)
    expected = expected.set_column(expected.schema.get_field_index("score"), "score", pa.array(scores, pa.float64()))
    found = pq.read_table(out) if suffix == "parquet" else feather.read_table(out)
    assert found.equals(expected)
    if suffix == "parquet":
        assert pq.ParquetFile(out).metadata.row_group(0).column(0).compression == "GZIP"


def test_arrays_of_npz_are_cut_to_the_rows_that_stay(tmp_path):
    arrays = {"boxes": BOXES.astype(np.float32), "scores": SCORES, "labels": LABELS, "images": IMAGES}
    np.savez(tmp_path / "in.npz", **arrays, embedding=np.arange(len(BOXES) * 3).reshape(-1, 3), image_size=[640, 480])
    suppress(tmp_path / "in.npz", tmp_path / "out.npz", "nms:0.5")
    rows, _ = kept("nms:0.5", BOXES.astype(np.float32))
    found = np.load(tmp_path / "out.npz")
    assert found["embedding"][:, 0].tolist() == (3 * rows).tolist()
    assert found["image_size"].tolist() == [640, 480]
    for name, values in arrays.items():
        assert found[name].dtype == values.dtype
        assert np.array_equal(found[name], values[rows])


def write_as(name, path):
    """The detections in a format."""
    if name in ("coco", "jsonl"):
        write_coco(path) if name == "coco" else path.write_text("\n".join(coco_rows()) + "\n")
    elif name in ("parquet", "feather"):
        table = arrow_table().drop_columns("other")
        pq.write_table(table, path) if name == "parquet" else feather.write_feather(table, path)
    elif name == "npz":
        np.savez(path, boxes=BOXES, scores=SCORES, labels=LABELS, images=IMAGES)
    else:
        stream = io.StringIO()
        writer = csv.writer(stream, delimiter="," if name == "csv" else "\t")
        writer.writerow(["image", "label", "x1", "y1", "x2", "y2", "score"])
        for row in range(len(BOXES)):
            writer.writerow([IMAGES[row], LABELS[row], *BOXES[row], SCORES[row]])
        path.write_text(stream.getvalue())


SINGLE = [name for name, form in FORMATS.items() if form.suffixes]


@pytest.mark.parametrize("target", SINGLE)
@pytest.mark.parametrize("name", SINGLE)
def test_any_format_of_one_file_can_be_written_as_any_other(name, target, tmp_path):
    source, out = (tmp_path / f"{part}{FORMATS[kind].suffixes[0]}" for part, kind in (("in", name), ("out", target)))
    write_as(name, source)
    if name in ("coco", "jsonl") and target in ("csv", "tsv"):
        with pytest.raises(FileError, match="columns must be numbers or text to be written as CSV"):
            suppress(source, out, "nms:0.5")
        source.write_text(source.read_text(encoding="utf-8").replace(f", {OTHER}", "}"), encoding="utf-8")
    summary = suppress(source, out, "nms:0.5")
    again = suppress(out, tmp_path / f"again{out.suffix}", "nms:0.5")
    assert summary.boxes_out == again.boxes_in == again.boxes_out
    if target == "coco":
        found = json.loads(out.read_text())
        rows = kept("nms:0.5")[0]
        assert np.allclose([row["bbox"] for row in found], XYWH[rows], atol=1e-3)
        assert {"image_id", "category_id", "bbox", "score"} <= set(found[0])


def test_an_image_may_be_cut_by_a_files_border(tmp_path):
    table = arrow_table()
    for number, start in enumerate(range(0, len(table), 47)):
        pq.write_table(table.slice(start, 47), tmp_path / f"{number:02}.parquet")
    expected = table.take(kept("nms:0.5", BOXES.astype(np.float32))[0])
    (tmp_path / "out").mkdir()
    for given_paths in (str(tmp_path / "*.parquet"), tmp_path):
        suppress(given_paths, tmp_path / "out" / "a.parquet", "nms:0.5")
        assert pq.read_table(tmp_path / "out" / "a.parquet").equals(expected)


@pytest.mark.parametrize("memory", [1, 20_000, 60_000])
@pytest.mark.parametrize("scattered", [False, True])
@pytest.mark.parametrize(
    "notation", ["nms:0.5", "softnms:gaussian/0.5", "top:20+nms:0.5+limit:7", "nmm:0.4", "wbf:0.5+limit:7"]
)
@pytest.mark.parametrize("name", ["parquet", "coco", "csv"])
def test_memory_does_not_change_the_result(name, notation, scattered, memory, tmp_path, monkeypatch):
    monkeypatch.setattr("hashnms.files.json_rows._BLOCK", 700)
    monkeypatch.setattr("hashnms.files.delimited._BLOCK", 700)
    monkeypatch.setattr("hashnms.files.arrow._ROWS_AT_A_TIME", 11)
    order = np.random.default_rng(1).permutation(len(BOXES)) if scattered else np.arange(len(BOXES))
    for module_global, values in (
        ("BOXES", BOXES),
        ("SCORES", SCORES),
        ("LABELS", LABELS),
        ("IMAGES", IMAGES),
        ("XYWH", XYWH),
    ):
        monkeypatch.setitem(globals(), module_global, values[order])
    source, whole, out = (tmp_path / f"{part}{FORMATS[name].suffixes[0]}" for part in ("in", "whole", "out"))
    write_as(name, source)
    first = suppress(source, whole, notation)
    second = suppress(source, out, notation, memory=memory)
    boxes = BOXES.astype(np.float32) if name == "parquet" else XYWH if name == "coco" else BOXES
    rows, _ = kept(notation, boxes, LABELS, "xywh" if name == "coco" else "xyxy")
    assert first.boxes_in == second.boxes_in == len(order)
    assert first.boxes_out == second.boxes_out == len(rows)
    if name == "parquet":
        assert pq.read_table(out).equals(pq.read_table(whole))
    else:
        assert out.read_bytes() == whole.read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {source.name, whole.name, out.name}


EMPTY = {
    "coco": b"[]",
    "jsonl": b"",
    "csv": b"image,x1,y1,x2,y2,score\n",
    "tsv": b"image\tx1\ty1\tx2\ty2\tscore",
}


@pytest.mark.parametrize("name", list(EMPTY))
def test_a_file_without_rows_gives_one_without_rows(name, tmp_path):
    source, out = (tmp_path / f"{part}{FORMATS[name].suffixes[0]}" for part in ("in", "out"))
    source.write_bytes(EMPTY[name])
    summary = suppress(source, out, "nms:0.5")
    assert (summary.boxes_in, summary.boxes_out) == (0, 0)
    assert out.read_bytes().strip() == EMPTY[name].strip()


def test_an_empty_parquet_file_keeps_its_schema(tmp_path):
    pq.write_table(arrow_table().slice(0, 0), tmp_path / "in.parquet")
    suppress(tmp_path / "in.parquet", tmp_path / "out.parquet", "nms:0.5")
    assert pq.read_schema(tmp_path / "out.parquet").equals(arrow_table().schema)


ids = st.one_of(st.integers(-(2**63), 2**63 - 1), st.text(st.characters(exclude_categories=["Cs"]), max_size=5))


@given(st.lists(st.tuples(ids, ids, st.integers(0, 30), st.sampled_from([0.2, 0.5, 0.7])), max_size=12), st.data())
def test_ids_of_any_kind_in_json(tmp_path_factory, rows, data):
    kind = data.draw(st.sampled_from([int, str]))
    objects = [
        {"image_id": kind_of(kind, i), "category_id": kind_of(kind, c), "bbox": [x, 0, 10, 10], "score": s}
        for i, c, x, s in rows
    ]
    folder = tmp_path_factory.mktemp("ids")
    for path, text in (
        (folder / "in.json", json.dumps(objects)),
        (folder / "in.jsonl", "\n".join(map(json.dumps, objects))),
    ):
        path.write_text(text)
        suppress(path, folder / f"out{path.suffix}", "nms:0.4")
    codes = [
        np.unique([str(row[key]) for row in objects], return_inverse=True)[1] for key in ("category_id", "image_id")
    ]
    boxes = np.array([row["bbox"] for row in objects], np.float64).reshape(-1, 4)
    keep = Suppression.parse("nms:0.4")(boxes, [row["score"] for row in objects], *codes, box_format="xywh").keep
    assert json.loads((folder / "out.json").read_text()) == [objects[row] for row in np.sort(keep)]
    assert [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()] == [
        objects[row] for row in np.sort(keep)
    ]


def kind_of(kind, value):
    return (value if isinstance(value, int) else len(value)) if kind is int else str(value)


def test_ultralytics_rows_with_names_of_images(tmp_path):
    rows = [{"image_id": "street", "file_name": "street.jpg", "category_id": 1, "bbox": [0, 0, 9, 9], "score": 0.9}]
    (tmp_path / "in.json").write_text(json.dumps([*rows, {**rows[0], "score": 0.8}]))
    suppress(tmp_path / "in.json", tmp_path / "out.json", "nms:0.5")
    assert json.loads((tmp_path / "out.json").read_text()) == rows


def test_the_input_may_be_the_output(tmp_path):
    write_coco(tmp_path / "in.json")
    suppress(tmp_path / "in.json", tmp_path / "other.json", "nms:0.5")
    suppress(tmp_path / "in.json", tmp_path / "in.json", "nms:0.5")
    assert (tmp_path / "in.json").read_bytes() == (tmp_path / "other.json").read_bytes()


def test_labels_may_be_left_out(tmp_path):
    write_coco(tmp_path / "in.json")
    suppress(tmp_path / "in.json", tmp_path / "out.json", "nms:0.5", columns={"label": None})
    assert len(json.loads((tmp_path / "out.json").read_text())) == len(kept("nms:0.5", XYWH, None, "xywh")[0])


REAL = Path(__file__).parent.parent.parent / "shared" / "real" / "raw"


@pytest.mark.skipif(not REAL.is_dir(), reason="the real detections are not beside this repository (../shared/real/raw)")
def test_real_detections_of_npz_files(tmp_path):
    for path in sorted(REAL.glob("mot17*/*.npz"))[:2]:
        suppress(path, tmp_path / "out.npz", "nms:0.5")
        arrays = np.load(path)
        keep = Suppression.parse("nms:0.5")(arrays["boxes"], arrays["scores"], arrays["labels"]).keep
        assert np.array_equal(np.load(tmp_path / "out.npz")["boxes"], arrays["boxes"][np.sort(keep)])
