"""A corner beyond the greatest number of its type is an infinite coordinate: x + w in xywh, x ± w / 2 in cxcywh."""

import re

import numpy as np
import pytest

import hashnms
from hashnms import Suppression
from hashnms.boxes import to_xyxy
from hashnms.synthetic import lattice

pytestmark = pytest.mark.core


def chained(text):
    return lambda boxes, scores, form: Suppression.parse(text)(boxes, scores, box_format=form)


#: Name -> a call with boxes, scores and a format, of every function that reads boxes in any format.
CALLS = {
    "nms": lambda boxes, scores, form: hashnms.nms(boxes, scores, box_format=form),
    "nms with suppressor": lambda boxes, scores, form: hashnms.nms(
        boxes, scores, box_format=form, return_suppressor=True
    ),
    "hnms": lambda boxes, scores, form: hashnms.hnms(boxes, scores, box_format=form),
    "soft_nms": lambda boxes, scores, form: hashnms.soft_nms(boxes, scores, box_format=form),
    "iou_hash": lambda boxes, scores, form: hashnms.iou_hash(boxes, alpha=0.7, box_format=form),  # noqa: ARG005
    "nmm": lambda boxes, scores, form: hashnms.nmm(boxes, scores, box_format=form),
    "nmm transitive": lambda boxes, scores, form: hashnms.nmm(boxes, scores, transitive=True, box_format=form),
    "vote": lambda boxes, scores, form: hashnms.vote(boxes, scores, box_format=form),
    "merge": lambda boxes, scores, form: hashnms.merge(boxes, scores, np.full(len(boxes), -1), box_format=form),
    "weighted_boxes_fusion": lambda boxes, scores, form: hashnms.weighted_boxes_fusion(boxes, scores, box_format=form),
    **{f"the step {text}": chained(text) for text in ("top:1", "score:0", "limit:0", "wbf:0.5", "hnms:0.5/2")},
}
ON_ARRAYS = {
    "partial_nms": lambda boxes, scores, form: hashnms.partial_nms(boxes, scores, box_format=form),
    "regions": lambda boxes, scores, form: hashnms.regions(boxes, box_format=form),  # noqa: ARG005
    "to_xyxy": lambda boxes, scores, form: to_xyxy(boxes, form),  # noqa: ARG005
}

#: Type, format -> boxes with a corner that overflows, and with corners that just do not.
FAR, NEAR = {}, {}
for dtype in (np.float32, np.float64):
    most = np.finfo(dtype).max
    rows = {
        "xywh": ([[most, 0, most / 2, 1], [0, most * 0.6, 1, most * 0.6]], [[most / 2, 0, most / 2, 1]]),
        "cxcywh": ([[most * 0.9, 0, most * 0.3, 1], [0, -most * 0.9, 1, most * 0.3]], [[0, most / 2, 1, most]]),
    }
    for form, (far, near) in rows.items():
        FAR[dtype, form], NEAR[dtype, form] = (np.array(values, dtype) for values in (far, near))


@pytest.mark.parametrize("name", [*CALLS, *ON_ARRAYS])
@pytest.mark.parametrize(("dtype", "form"), FAR)
def test_an_infinite_corner_is_refused(name, dtype, form):
    call = {**CALLS, **ON_ARRAYS}[name]
    for bad in FAR[dtype, form]:
        for count in (1, 9, 700):
            boxes = lattice(count, 4, 9).astype(dtype)
            boxes[count // 2 :: 300] = bad
            need = f"boxes must have corners that are finite in {np.dtype(dtype)}, got {bad.tolist()}"
            bad_rows = len(boxes[count // 2 :: 300])
            rows = f" in row {count // 2} ({bad_rows} such row{'s' if bad_rows > 1 else ''})"
            with pytest.raises(ValueError, match=f"^{re.escape(need + rows)}$"):
                call(boxes, np.full(count, 0.5, dtype), form)


@pytest.mark.parametrize("name", [*CALLS, *ON_ARRAYS])
@pytest.mark.parametrize(("dtype", "form"), NEAR)
def test_the_largest_corners_are_taken(name, dtype, form):
    if dtype is np.float64 and name in ("hnms", "iou_hash", "the step hnms:0.5/2"):
        return  # such boxes have no code
    if dtype is np.float64 and name in ("the step wbf:0.5", "weighted_boxes_fusion"):
        return  # nor a sum of scores and coordinates
    boxes = NEAR[dtype, form]
    {**CALLS, **ON_ARRAYS}[name](boxes, np.full(len(boxes), 0.5, dtype), form)
    assert np.isfinite(to_xyxy(boxes, form)).all()


def test_a_sum_of_different_boxes_is_no_corner():
    largest = np.finfo(np.float32).max
    boxes = np.array([[largest, 0, 0, 1], [0, 0, largest, 1]] * 5, np.float32)
    assert len(hashnms.nms(boxes, np.ones(10), box_format="xywh")) == 10


@pytest.mark.torch
@pytest.mark.parametrize("name", CALLS)
def test_tensors_are_refused_likewise(name):
    torch = pytest.importorskip("torch")
    for form in ("xywh", "cxcywh"):
        boxes = torch.from_numpy(FAR[np.float32, form])
        with pytest.raises(ValueError, match=r"^boxes must have corners that are finite in float32, got \[.*in row 0"):
            CALLS[name](boxes, torch.ones(2), form)


@pytest.mark.parametrize("form", ["xywh", "cxcywh"])
def test_tables_and_files_name_the_column_and_the_row(form, tmp_path):
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("msgspec")
    from pyarrow import parquet  # noqa: PLC0415

    boxes = np.concatenate([lattice(3, 4, 9).astype(np.float32), FAR[np.float32, form]])
    table = pa.table({"image_id": [0] * 5, "bbox": boxes.tolist(), "score": [0.5] * 5})
    table = table.set_column(1, "bbox", table["bbox"].cast(pa.list_(pa.float32())))
    message = "column bbox must be a box with corners that are finite in float32, got "
    with pytest.raises(ValueError, match=f"{message}.* in row 3 .2 such rows"):
        hashnms.tables.suppress(table, "nms:0.5", box_format=form)
    with pytest.warns(UserWarning, match="dropped 2 bad rows of 5"):
        left = hashnms.tables.suppress(table, "nms:0.5", box_format=form, on_bad="drop")
    assert left.num_rows == 3
    parquet.write_table(table, tmp_path / "in.parquet")
    files, given = (tmp_path / "in.parquet", tmp_path / "out.parquet", "nms:0.5"), {"box_format": form}
    with pytest.raises(ValueError, match=f"in.parquet, row 4: {message}"):
        hashnms.files.suppress(*files, **given)
    assert not (tmp_path / "out.parquet").exists()
    with pytest.raises(ValueError, match="corners that are finite in float32"):
        hashnms.scenes.suppress(*files, **given)
    hashnms.files.suppress(*files, **given, on_bad="drop")
    assert parquet.read_table(tmp_path / "out.parquet").num_rows == 3


def test_a_merged_box_whose_size_overflows_is_an_error():
    boxes = np.array([[0, 0, 3.3e38, 1], [2e38, 0, 2.5e38, 1]], np.float32)
    need = "merged boxes must have sizes that are finite in float32, got a box from [-1.6"
    with pytest.raises(ValueError, match=f"^{re.escape(need)}"):
        hashnms.nmm(boxes, [0.9, 0.8], 0.1, metric="ios", box_format="cxcywh")
    merged = hashnms.nmm(to_xyxy(boxes, "cxcywh"), [0.9, 0.8], 0.1, metric="ios").boxes
    assert np.isfinite(merged).all()
    assert len(merged) == 1
