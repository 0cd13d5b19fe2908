"""Tables in, the same kind out: the rows that arrays would keep, all else untouched."""

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hashnms
from hashnms import Suppression
from hashnms.synthetic import make_scene

pa = pytest.importorskip("pyarrow")

from hashnms.tables import Columns, kept_rows, suppress  # noqa: E402


def detections(count=2000, images=4):
    """A scene as columns: COCO's names, boxes xywh, images as strings."""
    scene, rng = make_scene("crowd", count), np.random.default_rng(1)
    boxes = scene.boxes.astype(np.float64)
    boxes[:, 2:] -= boxes[:, :2]
    names = np.array([f"image {number} ä" for number in range(images)])
    return {
        "image_id": names[rng.integers(0, images, count)],
        "category_id": scene.labels,
        "bbox": boxes.tolist(),
        "score": scene.scores.astype(np.float64),
        "extra": np.arange(count),
    }


def expected_rows(columns, suppression="nms:0.5", **changes):
    data = columns | changes
    images = np.unique(data["image_id"], return_inverse=True)[1]
    labels = None if data.get("category_id") is None else np.asarray(data["category_id"])
    kept = Suppression.parse(suppression)(np.array(data["bbox"]), data["score"], labels, images, box_format="xywh")
    return kept.keep, kept.scores


def frames():
    """Name of a kind -> function that makes it of an Arrow table, and one that gives its column `extra`."""

    def of_pandas(table):
        return pytest.importorskip("pandas") and table.to_pandas()

    def of_polars(table):
        return pytest.importorskip("polars").from_arrow(table)

    def of_duckdb(table):
        return pytest.importorskip("duckdb").from_arrow(table)

    def of_daft(table):
        return pytest.importorskip("daft").from_arrow(table)

    class Stream:
        """Any object with `__arrow_c_stream__`; it can be read once."""

        def __init__(self, table):
            self.table, self.schema = table, table.schema

        def __arrow_c_stream__(self, requested_schema=None):
            table, self.table = self.table, None
            return table.__arrow_c_stream__(requested_schema)

    return {
        "Table": (lambda table: table, lambda result: result["extra"].to_pylist()),
        "RecordBatch": (
            lambda table: table.combine_chunks().to_batches()[0],
            lambda result: result["extra"].to_pylist(),
        ),
        "RecordBatchReader": (lambda table: table.to_reader(), lambda result: result.read_all()["extra"].to_pylist()),
        "pandas": (of_pandas, lambda result: result["extra"].tolist()),
        "Polars": (of_polars, lambda result: result["extra"].to_list()),
        "DuckDB": (of_duckdb, lambda result: result.fetchnumpy()["extra"].tolist()),
        "Daft": (of_daft, lambda result: result.to_pydict()["extra"]),
        "stream": (Stream, lambda result: result["extra"].to_pylist()),
    }


@pytest.mark.parametrize("kind", frames())
def test_every_kind_of_table_comes_back_as_it_came(kind):
    make, extra = frames()[kind]
    data = detections()
    given_table = make(pa.table(data))
    result = suppress(given_table, "nms:0.5")
    assert type(result) is (pa.Table if kind == "stream" else type(given_table))
    keep, _ = expected_rows(data)
    assert extra(result) == sorted(keep.tolist())
    assert extra(suppress(make(pa.table(data)), "nms:0.5", order="score")) == keep.tolist()


@pytest.mark.parametrize("kind", ["Table", "RecordBatch", "pandas", "Polars", "DuckDB"])
def test_soft_nms_writes_the_lowered_scores_and_nothing_else(kind):
    make, extra = frames()[kind]
    data = detections()
    table = pa.table(data).set_column(3, "score", pa.array(data["score"].astype(np.float32)))
    result = suppress(make(table), "softnms+limit:50", order="score")
    keep, scores = expected_rows(data, "softnms+limit:50", score=data["score"].astype(np.float32))
    assert extra(result) == keep.tolist()
    arrow = pa.table(result) if kind != "RecordBatch" else pa.Table.from_batches([result])
    assert arrow["score"].type == pa.float32()
    np.testing.assert_array_equal(arrow["score"].to_numpy(), scores)
    np.testing.assert_array_equal(np.array(arrow["bbox"].to_pylist()), np.array(data["bbox"])[keep])


@pytest.mark.parametrize("notation", ["nmm:0.5", "vote:0.5+limit:50", "wbf:0.55/max"])
@pytest.mark.parametrize("kind", frames())
def test_merging_writes_the_new_boxes_and_nothing_else(kind, notation):
    make, _ = frames()[kind]
    data = detections()
    images = np.unique(data["image_id"], return_inverse=True)[1]
    expected = Suppression.parse(notation)(
        np.array(data["bbox"]), data["score"], data["category_id"], images, box_format="xywh"
    )
    result = suppress(make(pa.table(data)), notation, order="score")
    to_arrow = {
        "RecordBatch": lambda batch: pa.Table.from_batches([batch]),
        "RecordBatchReader": lambda reader: reader.read_all(),
        "Daft": lambda frame: frame.to_arrow(),
    }
    arrow = to_arrow.get(kind, pa.table)(result)
    assert arrow["extra"].to_pylist() == expected.keep.tolist()
    np.testing.assert_array_equal(np.array(arrow["bbox"].to_pylist()), expected.boxes)
    np.testing.assert_array_equal(arrow["score"].to_numpy(), expected.scores)


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float32()), pa.large_list(pa.float64()), pa.list_(pa.float64(), 4), pa.list_(pa.int64())]
)
def test_merging_keeps_the_type_of_lists_and_rounds_to_integers(kind):
    boxes = [[0, 0, 10, 10], [1, 0, 10, 10], [40, 40, 4, 4]]
    table = pa.table({"image_id": [1, 1, 1], "bbox": pa.array(boxes, kind), "score": [0.75, 0.5, 0.25]})
    result = suppress(table, "vote:0.5")
    assert result.schema == table.schema
    x = 0 if pa.types.is_integer(kind.value_type) else 0.4
    np.testing.assert_allclose(np.array(result["bbox"].to_pylist()), [[x, 0, 10, 10], boxes[2]], rtol=1e-6)


def test_merging_keeps_the_types_of_four_columns():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x1": [0, 1], "y1": [0.0, 0], "x2": [10, 11], "y2": [10, 10], "conf": [0.5, 0.75]})
    frame = frame.astype({"x2": "int32", "y1": "float32"})
    result = suppress(frame, "nmm:0.5", image=None)
    assert result.dtypes.tolist() == frame.dtypes.tolist()
    assert result.to_dict("list") == {"x1": [0], "y1": [0.0], "x2": [11], "y2": [10], "conf": [0.75]}


def test_a_query_is_run_once_for_its_rows_may_come_in_another_order_next_time():
    duckdb = pytest.importorskip("duckdb")
    data = detections(1000)
    connection = duckdb.connect()
    connection.register("boxes", pa.table(data))
    shuffled = connection.sql("SELECT * FROM boxes ORDER BY random()")
    keep, _ = expected_rows(data)
    assert sorted(suppress(shuffled, "nms:0.5").fetchnumpy()["extra"].tolist()) == sorted(keep.tolist())


def test_an_index_of_pandas_stays():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(detections(200)).set_index(pandas.Index(np.arange(200) + 1000, name="number"))
    result = suppress(frame, "nms:0.5")
    assert result.index.tolist() == (result["extra"] + 1000).tolist()
    assert result.index.name == "number"


@pytest.mark.parametrize(
    "boxes",
    [
        pa.list_(pa.float64()),
        pa.large_list(pa.float32()),
        pa.list_(pa.float64(), 4),
        pa.list_(pa.int32()),
    ],
)
def test_lists_of_every_kind_are_read_also_from_slices_and_chunks(boxes):
    data = detections(300)
    kind = float if pa.types.is_floating(boxes.value_type) else int
    whole = pa.array(np.rint(data["bbox"]).astype(kind).tolist(), boxes)
    table = pa.table({**data, "bbox": whole})
    numbers = np.array(whole.to_pylist(), np.float32 if boxes.value_type == pa.float32() else None)
    pieces = pa.concat_tables([table.slice(0, 7), table.slice(7, 0), table.slice(7, 200), table.slice(207)])
    for one in (table, pieces):
        keep, _ = expected_rows(data, bbox=numbers)
        assert suppress(one, "nms:0.5", order="score")["extra"].to_pylist() == keep.tolist()
    part = table.slice(50, 100)
    keep, _ = expected_rows({name: values[50:150] for name, values in (data | {"bbox": numbers}).items()})
    assert suppress(part, "nms:0.5", order="score")["extra"].to_pylist() == (keep + 50).tolist()


IDS = {
    "int64": lambda ids: pa.array(ids * 10**12),
    "int8": lambda ids: pa.array(ids.astype(np.int8)),
    "uint64": lambda ids: pa.array(ids.astype(np.uint64) + 2**63),
    "string": lambda ids: pa.array([f"é{number}" for number in ids]),
    "large string": lambda ids: pa.array([f"{number}" for number in ids], pa.large_string()),
    "binary": lambda ids: pa.array([bytes([number]) for number in ids]),
    "bool": lambda ids: pa.array(ids > 1),
    "float": lambda ids: pa.array(ids / 4),
    "date": lambda ids: pa.array(ids.astype("datetime64[D]")),
    "dictionary": lambda ids: pa.array([f"{number}" for number in ids]).dictionary_encode(),
}


@pytest.mark.parametrize("kind", IDS)
def test_images_and_labels_may_be_of_any_type(kind):
    data = detections(500)
    ids = np.random.default_rng(2).integers(0, 4, 500)
    column = IDS[kind](ids)
    wanted = (ids > 1).astype(int) if kind == "bool" else ids
    chunked = pa.chunked_array([column.slice(0, 200), column.slice(200)])
    for name in ("image_id", "category_id"):
        keep, _ = expected_rows(data, **{name: wanted})
        result = suppress(pa.table({**data, name: chunked}), "nms:0.5", order="score")
        assert result["extra"].to_pylist() == keep.tolist()


@pytest.mark.parametrize(
    ("names", "box_format"),
    [
        (("x1", "y1", "x2", "y2"), "xyxy"),
        (("XMin", "YMin", "XMax", "YMax"), "xyxy"),
        (("x_min", "y_min", "x_max", "y_max"), "xyxy"),
        (("bb_left", "bb_top", "bb_width", "bb_height"), "xywh"),
        (("cx", "cy", "w", "h"), "cxcywh"),
    ],
)
def test_four_columns_are_found_by_their_names(names, box_format):
    scene = make_scene("crowd", 400)
    boxes = scene.boxes.astype(np.float64)
    if box_format != "xyxy":
        boxes[:, 2:] -= boxes[:, :2]
    if box_format == "cxcywh":
        boxes[:, :2] += boxes[:, 2:] / 2
    table = pa.table(
        {"Frame": np.zeros(400, int), "confidence": scene.scores, **dict(zip(names, boxes.T, strict=True))}
    )
    columns = Columns.find(table.column_names)
    assert columns == Columns("Frame", None, names, "confidence", box_format)
    keep = hashnms.nms(boxes, scene.scores, 0.5, box_format=box_format)
    assert kept_rows(table, Suppression.parse("nms:0.5"), columns).rows.tolist() == sorted(keep.tolist())


def test_columns_that_are_given_are_taken():
    data = detections(200)
    table = pa.table(data).rename_columns(["a", "b", "c", "d", "extra"])
    result = suppress(table, "nms:0.5", image="a", label="b", boxes="c", score="d", box_format="xywh", order="score")
    assert result["extra"].to_pylist() == expected_rows(data)[0].tolist()
    result = suppress(table, "nms:0.5", image="a", label=None, boxes="c", score="d", box_format="xywh", order="score")
    assert result["extra"].to_pylist() == expected_rows(data, category_id=None)[0].tolist()
    result = suppress(table, "nms:0.5", image=None, label="b", boxes="c", score="d", box_format="xywh", order="score")
    assert result["extra"].to_pylist() == expected_rows(data, image_id=np.zeros(200))[0].tolist()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"image": "frame"}, ValueError, "image must be the name of a column, one of image_id, .*extra, got 'frame'"),
        ({"score": 3}, TypeError, "score must be the name of a column, got 3"),
        ({"score": None}, TypeError, "score must be the name of a column, got None"),
        ({"boxes": ["bbox", "score"]}, ValueError, "boxes must be one column of lists or four columns, got 2"),
        ({"boxes": "score"}, TypeError, "column score must hold lists of four numbers, got double"),
        ({"score": "image_id"}, TypeError, "column image_id must hold numbers, got string"),
        ({"label": "bbox"}, TypeError, "column bbox must hold values such as integers or strings, got list"),
        ({"box_format": "yxyx"}, ValueError, "box_format must be one of"),
        ({"order": "image"}, ValueError, "order must be one of input, score, got 'image'"),
        ({"on_bad": "skip"}, ValueError, "on_bad must be one of raise, drop, got 'skip'"),
        ({"suppression": "nsm:0.5"}, ValueError, "a step must be one of"),
    ],
)
def test_what_is_wrong_with_a_call_is_named(arguments, error, message):
    with pytest.raises(error, match=message):
        suppress(**{"table": pa.table(detections(20)), "suppression": "nms:0.5", **arguments})


def test_missing_columns_are_named():
    data = detections(20)
    for column, message in (
        (
            "image_id",
            "image must be .* because none is named image_id, image, .*image=None if all rows belong to one image",
        ),
        ("score", "score must be the name of a column, because none is named score, confidence"),
        ("bbox", "boxes must name a column of lists or four columns, because none are named bbox"),
    ):
        with pytest.raises(ValueError, match=message):
            suppress(pa.table({name: values for name, values in data.items() if name != column}), "nms:0.5")


def test_a_column_that_there_is_twice_is_refused():
    table = pa.table(detections(20)).append_column("score", pa.array(np.zeros(20)))
    with pytest.raises(ValueError, match="columns must have different names, got 2 named 'score'"):
        suppress(table, "nms:0.5")


def test_what_is_no_table_is_refused():
    polars = pytest.importorskip("polars")
    with pytest.raises(TypeError, match=r"table must be an Arrow table, .* got builtins\.dict"):
        suppress(detections(20), "nms:0.5")
    with pytest.raises(TypeError, match=r"got polars.*LazyFrame: collect\(\) it first"):
        suppress(polars.DataFrame(detections(20)).lazy(), "nms:0.5")


#: What is wrong -> the column, what stands in row 7 of it, and what the error says.
BAD = {
    "null score": ("score", None, "score must be not null, got null"),
    "NaN score": ("score", np.nan, "score must be a finite number, got nan"),
    "null box": ("bbox", None, "bbox must be not null, got null"),
    "null in a box": ("bbox", [1.0, None, 2.0, 3.0], "bbox must be not null"),
    "short box": ("bbox", [1.0, 2.0], "bbox must be"),
    "infinite box": ("bbox", [1.0, 2.0, np.inf, 3.0], "bbox must be finite numbers, got"),
    "negative width": ("bbox", [1.0, 2.0, -1.0, 3.0], "bbox must be a box with width >= 0"),
    "null image": ("image_id", None, "image_id must be not null, got null"),
    "null label": ("category_id", None, "category_id must be not null"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_row_is_named_or_dropped(kind):
    column, value, message = BAD[kind]
    data = detections(300)
    spoilt = [value if row == 7 else good for row, good in enumerate(pa.array(data[column]).to_pylist())]
    table = pa.table({**data, column: pa.array(spoilt, from_pandas=False)})
    with pytest.raises(ValueError, match=f"column {message}.* in row 7"):
        suppress(table, "nms:0.5")
    with pytest.warns(UserWarning, match="dropped 1 bad rows of 300"):
        result = suppress(table, "nms:0.5", on_bad="drop", order="score")
    good = np.delete(np.arange(300), 7)
    keep, _ = expected_rows({name: np.asarray(values)[good] for name, values in data.items()})
    assert result["extra"].to_pylist() == good[keep].tolist()


def test_nothing_to_drop_is_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        suppress(pa.table(detections(100)), "nms:0.5", on_bad="drop")


@pytest.mark.parametrize("suppression", ["nms:0.5", "softnms", "hnms:0.7/1+limit:3"])
def test_an_empty_table_stays_empty(suppression):
    table = pa.table(detections(10)).slice(0, 0)
    for empty in (table, table.schema.empty_table(), pa.Table.from_batches([], table.schema)):
        result = suppress(empty, suppression)
        assert result.schema == table.schema
        assert len(result) == 0


@given(st.data())
def test_any_columns_ids_and_orders(data):
    count = data.draw(st.integers(0, 25))
    text = st.text(min_size=0, max_size=3)
    images = data.draw(st.lists(st.one_of(st.just("a"), text), min_size=count, max_size=count))
    labels = data.draw(st.lists(st.integers(-3, 3), min_size=count, max_size=count))
    corner = st.integers(0, 30)
    boxes = [[data.draw(corner), data.draw(corner), data.draw(corner), data.draw(corner)] for _ in range(count)]
    scores = data.draw(st.lists(st.sampled_from([0.25, 0.5, 0.75]), min_size=count, max_size=count))
    columns = {"image": images, "label": labels, "bbox": boxes, "score": scores, "row": list(range(count))}
    shuffled = data.draw(st.permutations(list(columns)))
    types = {
        "bbox": pa.list_(pa.int64()),
        "label": pa.int64(),
        "score": pa.float64(),
        "image": pa.string(),
        "row": pa.int64(),
    }
    table = pa.table({name: pa.array(columns[name], types[name]) for name in shuffled})
    codes = np.unique(images, return_inverse=True)[1] if images else np.zeros(0, int)
    keep = hashnms.nms(np.array(boxes).reshape(-1, 4), scores, 0.4, labels=labels, images=codes, box_format="xywh")
    result = suppress(table, "nms:0.4", order="score")
    assert result.column_names == shuffled
    assert result["row"].to_pylist() == keep.tolist()


@pytest.mark.parametrize("order", ["input", "score"])
@pytest.mark.parametrize("images", ["grouped", "unsorted", "scattered", "words"])
@pytest.mark.parametrize("suppression", ["nms:0.5", "softnms:gaussian/0.5", "top:9+nms:0.5+limit:5"])
def test_parts_of_a_table_do_not_change_the_result(suppression, images, order, monkeypatch):
    scenes = [make_scene("crowd", 30, seed=seed) for seed in range(20)]
    numbers = np.repeat(np.arange(20), 30)
    if images == "unsorted":
        numbers = (numbers * 7 + 3) % 20
    if images == "scattered":
        numbers = np.random.default_rng(0).permutation(numbers)
    boxes = np.concatenate([scene.boxes for scene in scenes])
    table = pa.table(
        {
            "image": [f"i{number}" for number in numbers] if images == "words" else numbers,
            "boxes": pa.FixedSizeListArray.from_arrays(boxes.ravel(), 4),
            "score": np.concatenate([scene.scores for scene in scenes]).round(1),  # ties
            "row": np.arange(600),
        }
    )
    whole = suppress(table, suppression, order=order)
    monkeypatch.setattr("hashnms._arrow._ROWS_AT_A_TIME", 70)
    assert suppress(table, suppression, order=order).equals(whole)
    broken = table.set_column(2, "score", pa.array([None if row in (99, 305) else 0.5 for row in range(600)]))
    with pytest.raises(ValueError, match="column score must be not null, got null in row 99"):
        suppress(broken, suppression)
    with pytest.warns(UserWarning, match="dropped 2 bad rows of 600"):
        assert not {99, 305} & set(suppress(broken, suppression, on_bad="drop").column("row").to_pylist())


def test_an_object_that_has_nothing_but_a_stream():
    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            return table.__arrow_c_stream__(requested_schema)

    table = pa.table({"image": [1, 1], "bbox": [[0, 0, 9, 9], [0, 0, 9, 8]], "score": [0.5, 0.6]})
    result: Any = suppress(Stream(), "nms:0.5")
    assert result.to_pydict() == table.slice(1).to_pydict()


@pytest.mark.parametrize("boxes", [["bbox"], ["x1", "y1", "x2", "y2"]])
def test_an_empty_dataframe_without_types(boxes):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(columns=["image", "label", *boxes, "score"])
    assert suppress(frame, "nms:0.5").shape == frame.shape


@pytest.mark.parametrize("kind", ["Float64", "Float32", "float32", "double[pyarrow]", object])
def test_soft_nms_of_any_type_of_pandas(kind):
    pandas = pytest.importorskip("pandas")
    boxes = {"x1": [0, 0], "y1": [0, 0], "x2": [9, 9], "y2": [9, 8]}
    frame = pandas.DataFrame({"image": [1, 1], **boxes, "score": [0.5, 0.75]}, index=[7, 7]).astype({"score": kind})
    result = suppress(frame, "softnms:gaussian/0.5")
    assert result["score"].dtype == frame["score"].dtype
    assert result["score"].tolist() == pytest.approx([0.5 * np.exp(-2 * (8 / 9) ** 2), 0.75], rel=1e-6)
    assert result.index.tolist() == [7, 7]


def test_scores_that_are_integers_cannot_be_lowered():
    table = pa.table({"image": [1, 1], "bbox": [[0, 0, 9, 9], [1, 0, 9, 9]], "score": [2, 1]})
    assert len(suppress(table, "nms:0.5")) == 1
    with pytest.raises(TypeError, match="column score must hold floats, because Soft-NMS lowers scores, got int64"):
        suppress(table, "softnms")
