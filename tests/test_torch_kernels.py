"""The Triton kernels: run by Triton's interpreter against the core, and compiled for GPUs that are not here."""

import json
import os
import subprocess
import sys
from itertools import cycle, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hashnms
from hashnms.hashing import hash_family
from hashnms.synthetic import PRESETS, lattice, make_scene
from tests.support.boxes import BOX_KINDS, boxes_and_scores, boxes_around_every_edge

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from hashnms.torch import kernels  # noqa: E402
from tests.support.tensors import tensor_of  # noqa: E402

ALPHAS = [0.3, 0.7, 0.9, 0.99]


def assert_as_core(boxes, scores, labels=None, box_format="xyxy", alpha=0.7, num_hashes=1):
    tensors = tensor_of(boxes), tensor_of(scores), tensor_of(labels)
    rows, fits = kernels.hnms(*tensors, hash_family(alpha, num_hashes), box_format)
    given_settings = {"alpha": alpha, "num_hashes": num_hashes, "labels": labels, "box_format": box_format}
    assert fits
    assert np.array_equal(rows.numpy(), hashnms.hnms(boxes, scores, **given_settings))


@pytest.mark.parametrize(("kind", "alpha"), list(zip(BOX_KINDS, cycle(ALPHAS), strict=False)))
def test_kernels_keep_what_the_core_keeps(kind, alpha):
    rng = np.random.default_rng(70)
    boxes, scores, ties = BOX_KINDS[kind](rng, 600), rng.standard_normal(600), rng.integers(-4, 4, 600) / 4
    labels = rng.integers(-(2**62), 2**62, 3)[rng.integers(0, 3, 600)]
    assert_as_core(boxes.astype(np.float32), scores.astype(np.float32), alpha=alpha)
    assert_as_core(boxes, ties, labels, alpha=alpha, num_hashes=2)


@settings(max_examples=50)
@given(boxes_and_scores(), st.sampled_from(ALPHAS), st.integers(1, 3), st.sampled_from(["xyxy", "xywh", "cxcywh"]))
def test_kernels_keep_what_the_core_keeps_of_any_boxes(data, alpha, num_hashes, box_format):
    boxes, scores = data
    if len(boxes) == 0:
        return  # nothing is launched
    if box_format != "xyxy":
        boxes = np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], axis=1)
    assert_as_core(boxes, scores, None, box_format, alpha, num_hashes)


@pytest.mark.parametrize("alpha", [0.3, 0.7, 0.9, pytest.param(0.99, marks=pytest.mark.slow)])
def test_sizes_around_every_edge_fall_into_the_cells_of_the_core(alpha):
    boxes = boxes_around_every_edge(alpha)
    assert_as_core(boxes, np.zeros(len(boxes)), None, "cxcywh", alpha)
    assert_as_core(np.ascontiguousarray(boxes[:, [0, 1, 3, 2]]), np.zeros(len(boxes)), None, "cxcywh", alpha)


@pytest.mark.parametrize("preset", PRESETS)
def test_kernels_keep_what_the_core_keeps_of_scenes(preset):
    scene = make_scene(preset, 2000)
    assert_as_core(scene.boxes, scene.scores, scene.labels, num_hashes=2)


def test_scores_of_all_signs_and_sizes_win_in_their_order():
    scores = np.array([-np.inf, -3e38, -1.0, -1e-45, -0.0, 0.0, 1e-45, 1e-38, 1.0, 3e38, np.inf], np.float32)[1:-1]
    for dtype in (np.float32, np.float64):
        claims = kernels.claims_of(torch.from_numpy(scores.astype(dtype)))
        expected = np.argsort(-scores, kind="stable")
        assert np.array_equal(claims.sort(descending=True).indices.numpy(), expected)
        assert len(claims.unique()) == len(scores)


def test_who_comes_first_does_not_matter():
    """The owners of slots change with the order of the boxes, the winners do not."""
    scene = make_scene("parking_lot", 1000)
    boxes, scores = torch.from_numpy(scene.boxes), torch.from_numpy(scene.scores)
    claims = kernels.claims_of(scores)
    won, _ = kernels._winners(boxes, None, claims, hashnms.IoUHash(0.7), "xyxy")
    for seed in range(3):
        order = torch.from_numpy(np.random.default_rng(seed).permutation(1000))
        shuffled, _ = kernels._winners(boxes[order], None, claims[order], hashnms.IoUHash(0.7), "xyxy")
        assert torch.equal(shuffled, won[order])


def test_a_full_table_still_tells_all_cells_apart(monkeypatch):
    monkeypatch.setattr("triton.next_power_of_2", lambda doubled: doubled // 2)
    boxes = lattice(512, 8, 9).astype(np.float32)  # as many cells as slots
    assert_as_core(boxes, np.random.default_rng(71).random(512))
    assert_as_core(np.repeat(boxes[:256], 2, axis=0), np.random.default_rng(71).random(512))


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # the interpreter's NumPy
@pytest.mark.parametrize(
    "box",
    [
        [0, 0, np.nan, 1],
        [np.inf, 0, np.inf, 1],
        [0, 0, np.inf, 1],
        [2, 0, 1, 1],
        [0, 0, 1e60, 1],
        [0, 0, 1, 1e-60],
        [1e9, 0, 1e9 + 1e-2, 1],
    ],
)
def test_numbers_that_do_not_fit_are_told(box):
    boxes = np.array([[0, 0, 1, 1]] * 300 + [box], np.float64)
    _, fits = kernels.hnms(tensor_of(boxes), torch.ones(301), None, hash_family(0.7, 1), "xyxy")
    assert not fits


@pytest.fixture(scope="module")
def compiled():
    """What tests/support/compile_kernels.py prints, which compiles them in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    script = Path(__file__).parent / "support" / "compile_kernels.py"
    run = subprocess.run([sys.executable, script], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(run.stdout)


@pytest.mark.slow
def test_the_hash_kernel_compiles_without_fusion(compiled):
    for capability, box_format, box_type in product((80, 90), ("xyxy", "xywh", "cxcywh"), ("fp32", "fp64")):
        kernel = compiled[f"hash sm_{capability} {box_format} {box_type}"]
        assert kernel["cubin_bytes"] > 1000
        # Only operations that say how they round cannot be fused.
        assert "mul.rn.f64" in kernel["ptx"]
        for operation in ("mul.f64", "add.f64", "sub.f64"):
            assert operation not in kernel["ptx"]


@pytest.mark.slow
def test_the_kernels_compile_for_amd(compiled):
    for name, architecture in product(("hash", "claim"), ("gfx90a", "gfx942")):
        assert compiled[f"{name} {architecture}"]["hsaco_bytes"] > 1000


@pytest.mark.slow
def test_the_claim_kernel_compiles_to_atomics(compiled):
    for capability, labels in product((80, 90), ("labels", "no labels")):
        kernel = compiled[f"claim sm_{capability} {labels}"]
        assert kernel["cubin_bytes"] > 1000
        assert ".cas.b32" in kernel["ptx"]
        assert ".max.s64" in kernel["ptx"]
