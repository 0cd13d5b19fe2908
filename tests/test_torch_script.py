"""Every function in TorchScript: traced, scripted, saved, and loaded by a process that has just started."""

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

import hashnms.torch  # noqa: E402
from tests.support.tensors import FUNCTIONS, scene_tensors  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of torch.jit

CHAIN = "top:300+nms:0.5+limit:50"


class Model(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.name = name

    def forward(self, boxes, scores, labels):
        return FUNCTIONS[self.name](boxes, scores, labels)


def scripted(boxes: Tensor, scores: Tensor, labels: Tensor):
    return torch.ops.hashnms.suppress(boxes, scores, labels, None, "top:300+nms:0.5+limit:50", "xyxy")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_trace_holds_the_op_and_takes_any_number_of_boxes(name):
    tensors = scene_tensors(300)
    traced = torch.jit.trace(Model(name), tensors)
    for count in (1000, 1, 0):
        given = [tensor[:count] for tensor in scene_tensors(1000)]
        assert all(map(torch.equal, traced(*given), FUNCTIONS[name](*given)))


def test_a_script_calls_the_op():
    tensors = scene_tensors(500)
    results = torch.jit.script(scripted)(*tensors)
    assert all(map(torch.equal, results, hashnms.Suppression.parse(CHAIN)(*tensors)))


@pytest.mark.slow
def test_what_is_saved_runs_in_another_process(tmp_path):
    tensors = scene_tensors(300)
    torch.jit.trace(Model("nms"), tensors).save(tmp_path / "traced.pt")
    torch.jit.script(scripted).save(str(tmp_path / "scripted.pt"))
    torch.save((tensors, FUNCTIONS["nms"](*tensors), tuple(scripted(*tensors))), tmp_path / "tensors.pt")
    code = """
import torch
import hashnms.torch
tensors, *expected = torch.load("tensors.pt")
for file, wanted in zip(("traced.pt", "scripted.pt"), expected, strict=True):
    assert all(map(torch.equal, torch.jit.load(file)(*tensors), wanted)), file
"""
    loads = [sys.executable, "-c", code]
    subprocess.run(loads, cwd=tmp_path, check=True)
    without = subprocess.run(
        [*loads[:2], code.replace("import hashnms.torch", "")],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )
    assert "hashnms::nms" in without.stderr
    assert without.returncode != 0
