"""Every function works in graphs in a process that has just started, however hashnms was imported."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")

CALLS = [
    "hashnms.hnms(boxes, scores, alpha=0.5, labels=labels)",
    "hashnms.nms(boxes, scores, 0.5, labels=labels)",
    "hashnms.nms(boxes, scores, 0.5, labels=labels, return_suppressor=True)",
    "hashnms.batched_nms(boxes, scores, labels, 0.5)",
    "hashnms.soft_nms(boxes, scores, labels=labels)",
    "hashnms.iou_hash(boxes, alpha=0.7)",
    "tuple(CHAIN(boxes, scores, labels))",
]

START = """
import os, sys, traceback, warnings
import torch._dynamo.testing, torch.export
assert "hashnms.torch" not in sys.modules
warnings.simplefilter("error")
boxes = torch.tensor([[0.0, 0, 10, 10], [1, 0, 11, 10], [20, 0, 30, 10]])
scores, labels = torch.tensor([0.8, 0.9, 0.5]), torch.tensor([0, 0, 1])
CHAIN = hashnms.Suppression.parse("hnms:0.5/1+nms:0.5")
"""

#: Each piece of code runs in its own process, in which torch has been imported, but not hashnms.
IN_PROCESSES = """
import os, sys, torch
for code in sys.argv[1:]:
    if os.fork() == 0:
        exec(code)
        sys.exit()
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""

#: Each call runs in its own process, as the first call there.
CALL_ALL = """
def compiled(function):
    counter = torch._dynamo.testing.CompileCounter()
    graph = torch.compile(function, fullgraph=True, backend=counter)
    results = graph(boxes, scores, labels), graph(boxes, scores, labels)
    assert counter.frame_count == 1, f"compiled {counter.frame_count} times"
    assert str(results[0]) == str(results[1]) == str(function(boxes, scores, labels))

def exported(function):
    class Model(torch.nn.Module):
        def forward(self, boxes, scores, labels):
            return function(boxes, scores, labels)
    program = torch.export.export(Model(), (boxes, scores, labels))
    assert str(program.module()(boxes, scores, labels)) == str(function(boxes, scores, labels))

failed = []
for call in sys.argv[1:]:
    for way in (compiled, exported):
        if (child := os.fork()) == 0:
            try:
                way(eval("lambda boxes, scores, labels: " + call))
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0:
            failed.append((way.__name__, call))
assert not failed, failed
"""


def run(script, *arguments):
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
@needs_fork
@pytest.mark.parametrize(
    ("imports", "calls"),
    [
        ("import hashnms, torch", CALLS),
        ("import torch, hashnms", CALLS[:2]),
        ("from hashnms import nms\nimport torch, hashnms", ["nms(boxes, scores, 0.5)"]),
    ],
    ids=["hashnms first", "torch first", "by name"],
)
def test_the_first_call_may_be_one_in_a_graph(imports, calls):
    """A compiled function is compiled only once: importing hashnms.torch during the call triggers no recompilation."""
    result = run(imports + START + CALL_ALL, *calls)
    assert result.returncode == 0, result.stderr[-3000:]


@pytest.mark.slow
@needs_fork
def test_a_saved_program_needs_an_import_to_be_loaded(tmp_path):
    """docs/howto/gpu.md says which."""
    path = str(tmp_path / "model.pt2")
    save = f"""
import hashnms
{START}
class Model(torch.nn.Module):
    def forward(self, boxes, scores):
        return hashnms.nms(boxes, scores)
torch.export.save(torch.export.export(Model(), (boxes, scores)), {path!r})
"""
    load = f"print(torch.export.load({path!r}).module()(torch.zeros(3, 4), torch.arange(3.0)))"
    result = run(IN_PROCESSES, save, f"import hashnms.torch\n{load}", load)
    assert result.stdout == "0\ntensor([2, 1, 0])\n0\n1\n", result.stderr
    assert "torch.ops.hashnms.nms" in result.stderr
