"""What docs/explanation/nms.md says about the conventions of other packages: corners, ties, limits of a label."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hashnms import Suppression, nms, reference
from hashnms.boxes import order_corners
from hashnms.synthetic import make_scene
from tests.support.boxes import boxes_and_scores


@given(boxes_and_scores(), st.integers(1, 3), st.booleans())
def test_of_reversed_rows_ties_go_to_the_later_row(data, num_scores, labelled):
    boxes, scores = data
    tied = np.arange(len(scores)) % num_scores
    labels = np.arange(len(boxes)) % 2 if labelled else None
    last = len(boxes) - 1
    keep = last - nms(boxes[::-1], tied[::-1], 0.5, labels=None if labels is None else labels[::-1])
    ranks = np.empty(len(boxes))  # without ties, the later row of two first
    ranks[np.lexsort((np.arange(len(boxes)), tied))] = np.arange(len(boxes))
    assert np.array_equal(keep, reference.nms(boxes, ranks, 0.5, labels=labels)[0])


@given(boxes_and_scores(), st.integers(0, 4), st.integers(1, 3))
def test_top_after_nms_is_a_limit_of_each_label_of_an_image(data, most, num_labels):
    boxes, scores = data
    labels, images = np.arange(len(boxes)) % num_labels, np.arange(len(boxes)) // 5
    keep = Suppression.parse(f"nms:0.5+top:{most}")(boxes, scores, labels, images).keep
    expected = [np.zeros(0, np.int64)]
    for pair in set(zip(labels, images, strict=True)):
        rows = np.flatnonzero((labels == pair[0]) & (images == pair[1]))
        expected.append(rows[reference.nms(boxes[rows], scores[rows], 0.5)[0][:most]])
    rows = np.concatenate(expected)
    assert np.array_equal(keep, rows[np.lexsort((rows, -scores[rows].astype(float)))])


@pytest.mark.parametrize("most", [1, 7, 1000])
@pytest.mark.parametrize("score_threshold", [0.0, 0.25])
def test_onnxruntime_selects_the_same(most, score_threshold):
    """Flipped corners, y before x, ties, scores at the threshold and a limit for each class."""
    batch, classes, count = 2, 3, 400
    scenes = [make_scene("crowd", count, seed=seed) for seed in range(batch)]
    boxes = np.stack([scene.boxes for scene in scenes]).astype(np.float32)[..., [1, 0, 3, 2]]
    boxes[:, ::2] = boxes[:, ::2][..., [2, 1, 0, 3]]
    boxes[:, ::3] = boxes[:, ::3][..., [0, 3, 2, 1]]
    scores = (np.random.default_rng(48).integers(0, 200, (batch, classes, count)) / 200).astype(np.float32)
    images, labels, rows = np.indices(scores.shape).reshape(3, -1)
    chain = Suppression.parse(f"score:{score_threshold}+nms:0.5+top:{most}")
    keep = chain(order_corners(boxes[images, rows]), scores.ravel(), labels, images).keep
    selected = np.stack(np.unravel_index(keep, scores.shape), axis=1)
    in_their_order = selected[np.lexsort((selected[:, 1], selected[:, 0]))]
    assert np.array_equal(in_their_order, _selected_by_onnxruntime(boxes, scores, most, 0.5, score_threshold))


def _selected_by_onnxruntime(boxes, scores, most, iou_threshold, score_threshold):
    onnx, onnxruntime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    names = ["boxes", "scores", "most", "iou_threshold", "score_threshold"]
    values = [boxes, scores, np.array([most]), np.float32([iou_threshold]), np.float32([score_threshold])]
    given = [
        onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in zip(names, values, strict=True)
    ]
    wanted = onnx.helper.make_tensor_value_info("selected", onnx.TensorProto.INT64, [None, 3])
    node = onnx.helper.make_node("NonMaxSuppression", names, ["selected"])
    graph = onnx.helper.make_graph([node], "nms", given, [wanted])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 11)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip(names, values, strict=True)))[0]
