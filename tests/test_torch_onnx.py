"""Modules with HNMS inside as ONNX models of standard operators, run by onnxruntime."""

import numpy as np
import pytest

import hashnms
from hashnms.synthetic import make_scene
from tests.support.boxes import BOX_KINDS

torch = pytest.importorskip("torch")
pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript")

from torch import nn  # noqa: E402

from hashnms.torch import HNMS, MultiHNMS, hnms_mask  # noqa: E402
from tests.support.onnx import exported, run  # noqa: E402

pytestmark = pytest.mark.slow  # the exporter is


class Head(nn.Module):
    """What stands at the end of a detector."""

    def forward(self, boxes, logits, labels):
        scores = 2 * logits
        keep = hashnms.hnms(boxes, scores, alpha=0.73, num_hashes=2, labels=labels)
        return boxes[keep], scores[keep], keep, hnms_mask(boxes, scores, alpha=0.73, num_hashes=2, labels=labels)


def test_a_head_gives_the_answer_of_the_core_for_any_number_of_boxes(tmp_path):
    scene = make_scene("aerial", 2000)
    arrays = scene.boxes, np.rint(50 * scene.scores) / 50, scene.labels  # ties
    session = exported(Head(), tuple(torch.from_numpy(array[:300]) for array in arrays), tmp_path / "head.onnx")
    for count in (2000, 300, 2, 1, 0):
        boxes, logits, labels = (array[:count] for array in arrays)
        kept_boxes, kept_scores, keep, mask = run(session, boxes, logits, labels)
        scores = 2 * logits
        expected = hashnms.hnms(boxes, scores, alpha=0.73, num_hashes=2, labels=labels)
        assert np.array_equal(keep, expected)
        assert np.array_equal(kept_boxes, boxes[keep])
        assert np.array_equal(kept_scores, scores[keep])
        assert np.array_equal(mask.nonzero()[0], np.sort(keep))


@pytest.mark.parametrize(
    ("module", "dtype"),
    [(MultiHNMS(3, 0.6, box_format="xyxy"), np.float32), (HNMS(0.6, 1.0, 2.0, box_format="xyxy"), np.float64)],
)
def test_modules_give_the_answer_of_the_core_on_every_kind_of_boxes(module, dtype, tmp_path):
    example = torch.zeros(5, 4, dtype=getattr(torch, np.dtype(dtype).name)), torch.zeros(5)
    session = exported(module, example, tmp_path / "module.onnx")
    for make_boxes in BOX_KINDS.values():
        rng = np.random.default_rng(60)
        boxes = make_boxes(rng, 500).astype(dtype)
        scores = (rng.integers(-4, 4, 500) / 4).astype(np.float32)
        expected = module(torch.from_numpy(boxes), torch.from_numpy(scores)).numpy()
        assert np.array_equal(run(session, boxes, scores)[0], expected)


def test_offsets_of_any_size_are_told_apart(tmp_path):
    """ONNX cannot raise an error for a box too far from the origin for its size."""
    boxes = np.array([[1e9, 1e9, 1e-4, 1e-4], [1e9 + 2**-10, 1e9, 1e-4, 1e-4], [1e9, 1e9 + 2**-10, 1e-4, 1e-4]])
    scores = np.array([0.5, 0.6, 0.7], np.float32)
    module = MultiHNMS(1, 0.7)
    session = exported(module, (torch.from_numpy(boxes), torch.from_numpy(scores)), tmp_path / "far.onnx")
    assert run(session, boxes, scores)[0].tolist() == module(torch.from_numpy(boxes), torch.from_numpy(scores)).tolist()


def test_shifts_are_doubles(tmp_path):
    """The exporter turns Python numbers into float32, even next to doubles."""
    _, edges, inverse_deltas = hashnms._core.float32_cells(0.7, 1.0)
    pitch = 1 / inverse_deltas[np.searchsorted(edges, 10.0, side="right") - 1]
    border = (np.arange(1, 100) + 1 / 3 - 0.5) * pitch
    boxes = np.array([[x, 0.0, 10.0, 10.0] for edge in border for x in (edge - 1e-9, edge + 1e-9)])
    scores = np.ones(len(boxes), np.float32)
    module = HNMS(0.7, bx=1 / 3)
    expected = module(torch.from_numpy(boxes), torch.from_numpy(scores)).numpy()
    assert len(expected) == 100
    session = exported(module, (torch.from_numpy(boxes), torch.from_numpy(scores)), tmp_path / "shift.onnx")
    assert np.array_equal(run(session, boxes, scores)[0], expected)


def test_a_mask_has_no_shape_that_depends_on_numbers(tmp_path):
    class Model(nn.Module):
        def forward(self, boxes, scores, labels):
            return hnms_mask(boxes, scores, num_hashes=3, labels=labels)

    scene = make_scene("crowd", 700)
    arrays = scene.boxes, scene.scores, scene.labels.astype(np.int16)
    session = exported(Model(), tuple(map(torch.from_numpy, arrays)), tmp_path / "mask.onnx")
    for count in (700, 3, 0):
        mask = run(session, *(array[:count] for array in arrays))[0]
        keep = hashnms.hnms(*(array[:count] for array in arrays[:2]), num_hashes=3, labels=arrays[2][:count])
        assert np.array_equal(mask.nonzero()[0], np.sort(keep))
    operators = {node.op_type for node in onnx.load(tmp_path / "mask.onnx").graph.node}
    assert not operators & {"NonZero", "Compress", "Unique"}
