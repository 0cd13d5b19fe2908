"""Arrays of other libraries that only speak DLPack are taken where they lie in the memory of the CPU."""

import re
from typing import Any

import numpy as np
import pytest

import hashnms
from hashnms import Suppression
from hashnms.synthetic import make_scene

SCENE = make_scene("aerial", 400)
IMAGES = np.arange(400) % 3
SUPPRESSOR = hashnms.nms(SCENE.boxes, SCENE.scores, return_suppressor=True)[1]
OPEN = np.arange(400) % 5 == 0


class Exported:
    """An array with nothing but DLPack; `device` says where it claims to be."""

    def __init__(self, array, device=1):
        self.array, self.device = array, device

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return (self.device, 0)


class ExportedAsOfOld(Exported):
    """Before DLPack 1 there were no options."""

    def __dlpack__(self, stream=None):  # type: ignore[override]
        return self.array.__dlpack__()


class Refusing(Exported):
    """As CuPy's arrays: there is `__array__`, but it only raises an error."""

    def __array__(self, *arguments, **options):
        raise TypeError("Implicit conversion to a NumPy array is not allowed")


#: Name -> the arguments as arrays, and a call with them.
CALLS: dict[str, Any] = {
    "nms": (
        (SCENE.boxes, SCENE.scores, SCENE.labels, IMAGES),
        lambda b, s, c, i: hashnms.nms(b, s, labels=c, images=i),
    ),
    "hnms": ((SCENE.boxes, SCENE.scores, SCENE.labels), lambda b, s, c: hashnms.hnms(b, s, labels=c)),
    "soft_nms": ((SCENE.boxes, SCENE.scores, SCENE.labels), lambda b, s, c: hashnms.soft_nms(b, s, labels=c)),
    "batched_nms": (
        (SCENE.boxes, SCENE.scores, SCENE.labels),
        lambda b, s, c: hashnms.batched_nms(b, s, c, 0.5),
    ),
    "iou_hash": ((SCENE.boxes,), lambda b: hashnms.iou_hash(b, alpha=0.7)),
    "nmm": ((SCENE.boxes, SCENE.scores), hashnms.nmm),
    "vote": ((SCENE.boxes, SCENE.scores), hashnms.vote),
    "merge": ((SCENE.boxes, SCENE.scores, SUPPRESSOR), hashnms.merge),
    "weighted_boxes_fusion": (
        (SCENE.boxes, SCENE.scores, IMAGES, np.ones(3)),
        lambda b, s, m, w: hashnms.weighted_boxes_fusion(b, s, models=m, weights=w),
    ),
    "partial_nms": ((SCENE.boxes, SCENE.scores, OPEN), lambda b, s, o: hashnms.partial_nms(b, s, open=o)),
    "regions": ((SCENE.boxes,), hashnms.regions),
    "a chain": ((SCENE.boxes, SCENE.scores, SCENE.labels), Suppression.parse("top:50+nmm:0.5")),
    "order_corners": ((SCENE.boxes[:, [2, 3, 0, 1]].copy(),), hashnms.boxes.order_corners),
    "to_xyxy": ((SCENE.boxes,), lambda b: hashnms.boxes.to_xyxy(b, "cxcywh")),
    "pairwise_iou": ((SCENE.boxes, SCENE.boxes), hashnms.boxes.pairwise_iou),
}


def as_tuple(result):
    return tuple(result) if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("kind", [Exported, ExportedAsOfOld])
@pytest.mark.parametrize("name", CALLS)
def test_every_function_takes_them_and_returns_arrays(name, kind):
    arrays, call = CALLS[name]
    expected = as_tuple(call(*arrays))
    for place in [*range(len(arrays)), slice(None)]:
        given = np.array([None, *arrays], object)[1:]
        given[place] = [kind(array) for array in arrays] if place == slice(None) else kind(arrays[place])
        for ours, wanted in zip(as_tuple(call(*given)), expected, strict=True):
            assert ours is wanted is None or (type(ours) is np.ndarray and np.array_equal(ours, wanted))


@pytest.mark.parametrize("kind", [Exported, Refusing])
@pytest.mark.parametrize(("device", "where"), [(2, "CUDA"), (8, "Metal"), (10, "ROCm"), (77, "foreign")])
def test_on_a_device_the_error_says_how_to_copy(kind, device, where):
    for argument in ("boxes", "scores", "labels", "images"):
        arrays = {"boxes": SCENE.boxes, "scores": SCENE.scores, "labels": SCENE.labels, "images": IMAGES}
        arrays[argument] = kind(arrays[argument], device)
        message = (
            f"{argument} must be in the memory of the CPU, got a tests.test_dlpack.{kind.__name__} on a {where} "
            f"device: copy it first, in CuPy with {argument}.get(), in JAX with jax.device_get({argument})"
        )
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            hashnms.nms(**arrays)


def test_pinned_memory_is_read():
    for device in (3, 11, 13):
        keep = hashnms.nms(Exported(SCENE.boxes, device), Refusing(SCENE.scores, device))
        assert np.array_equal(keep, hashnms.nms(SCENE.boxes, SCENE.scores))


def test_all_types_of_numbers_are_those_of_arrays():
    for dtype in (np.float16, np.float64, np.int32, np.uint8):
        boxes = (SCENE.boxes / 8).astype(dtype)
        assert np.array_equal(hashnms.nms(Exported(boxes), SCENE.scores), hashnms.nms(boxes, SCENE.scores))
    strided = np.asfortranarray(np.repeat(SCENE.boxes, 2, axis=1))[:, ::2]
    assert np.array_equal(hashnms.nms(Exported(strided), SCENE.scores), hashnms.nms(SCENE.boxes, SCENE.scores))
    with pytest.raises(TypeError, match=r"^boxes must be real numbers .*, got complex64$"):
        hashnms.nms(Exported(SCENE.boxes.astype(np.complex64)), SCENE.scores)
    with pytest.raises(ValueError, match=r"^boxes must have shape \(N, 4\), got \(400, 3\)$"):
        hashnms.nms(Exported(SCENE.boxes[:, :3]), SCENE.scores)


def test_what_cannot_be_exported_is_an_error_that_names_it():
    class Broken(Exported):
        def __dlpack__(self, **options):
            raise BufferError("it is locked")

    need = (
        "scores must be numbers that NumPy can read, got a tests.test_dlpack.test_what_cannot_be_exported_is_an_error"
    )
    with pytest.raises(TypeError, match=f"^{need}.*Broken: it is locked$"):
        hashnms.nms(SCENE.boxes, Broken(SCENE.scores))


@pytest.mark.torch
def test_tensors_are_taken_through_dlpack_and_beside_it():
    torch = pytest.importorskip("torch")
    boxes, scores = torch.from_numpy(SCENE.boxes), torch.from_numpy(SCENE.scores)
    expected = hashnms.nms(SCENE.boxes, SCENE.scores)
    assert np.array_equal(hashnms.nms(Exported(boxes), Exported(scores)), expected)
    keep = hashnms.nms(boxes, Exported(SCENE.scores))
    assert isinstance(keep, torch.Tensor)
    assert np.array_equal(keep.numpy(), expected)
