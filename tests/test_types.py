"""What type checkers tell a user: tensors in, tensors out; arrays and lists in, arrays out; wrong calls are errors."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import hashnms

RIGHT = """
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

from hashnms import IoUHash, Suppressed, Suppression, batched_nms, hnms, iou_hash, nms, soft_nms

Rows = NDArray[np.int64]
array, score_array = np.zeros((3, 4), np.float32), np.zeros(3)
lists, score_list = [[0.0, 0.0, 1.0, 1.0]], [1]
chain = Suppression.parse("nms:0.5")

assert_type(hnms(array, score_array), Rows)
assert_type(hnms(lists, score_list, alpha=0.5, num_hashes=2, labels=[1], box_format="xywh"), Rows)
assert_type(nms(array, score_array, 0.5), Rows)
assert_type(nms(lists, score_list, 0.5, return_suppressor=False), Rows)
assert_type(nms(array, score_array, 0.5, max_output=3, return_suppressor=True), tuple[Rows, Rows])
assert_type(batched_nms(array, score_array, [0, 0, 1], 0.5), Rows)
assert_type(soft_nms(lists, score_list, method="linear"), tuple[Rows, NDArray[Any]])
assert_type(iou_hash(array, alpha=0.7), Rows)
assert_type(IoUHash(0.7)(lists), Rows)
assert_type(chain(array, score_array), Suppressed[NDArray[Any]])
assert_type(chain(lists, score_list, [0]).keep, NDArray[Any])
assert_type(Suppression.of("nms:0.5"), Suppression)
"""

RIGHT_WITH_TORCH = """
import torch
from torch import Tensor, nn

tensor, scores, labels = torch.zeros(3, 4), torch.zeros(3), torch.zeros(3, dtype=torch.int64)

assert_type(hnms(tensor, scores), Tensor)
assert_type(hnms(nn.Parameter(tensor), scores, labels=labels), Tensor)
assert_type(hnms(tensor, score_list, labels=[1, 2, 3]), Tensor)
assert_type(hnms(array, scores), Rows)
assert_type(nms(tensor, scores, 0.5), Tensor)
assert_type(nms(tensor, scores, 0.5, return_suppressor=True), tuple[Tensor, Tensor])
assert_type(batched_nms(tensor, scores, labels, 0.5), Tensor)
assert_type(soft_nms(tensor, scores), tuple[Tensor, Tensor])
assert_type(iou_hash(tensor, alpha=0.7), Tensor)
assert_type(IoUHash(0.7)(nn.Parameter(tensor)), Tensor)
assert_type(chain(tensor, scores, labels), Suppressed[Tensor])
keep, decayed = chain(tensor, scores)
assert_type(keep, Tensor)
assert_type(decayed, Tensor)


def head(boxes: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
    kept = nms(boxes, logits.sigmoid(), 0.5)
    return boxes[kept], logits[kept]
"""

#: Each line is an error.
WRONG = """
hnms(array)
hnms(array, score_array, 0.5)
hnms(array, score_array, iou_threshold=0.5)
hnms(array, score_array, box_format="yxyx")
nms(array, score_array, "0.5")
nms(array, score_array, alpha=0.7)
soft_nms(array, score_array, method="soft")
batched_nms(array, score_array, [0, 0, 1])
iou_hash(array)
nms(array, score_array).cuda()
chain(array, score_array).labels
Suppression.of(5)
"""

WRONG_WITH_TORCH = """
hnms(tensor, scores, 0.5)
nms(tensor, scores).tobytes()
chain(tensor, scores).keep.tobytes()
"""

CHECKERS = {
    "mypy": [sys.executable, "-m", "mypy", "--strict"],
    "pyright": [sys.executable, "-m", "pyright", "--pythonpath", sys.executable],
}


def errors_of(checker, scripts, folder):
    """For each script the lines in which the checker finds an error, and all it says. It reads torch but once."""
    pytest.importorskip(checker)
    files = [folder / f"user{number}.py" for number in range(len(scripts))]
    for file, script in zip(files, scripts, strict=True):
        file.write_text(script)
    place = str(Path(hashnms.__file__).parent.parent)
    command = [*CHECKERS[checker], *map(str, files)]
    paths = {} if "site-packages" in place else {"MYPYPATH": place, "PYTHONPATH": place}
    environment = {**os.environ, **paths}
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    found = re.findall(r"user(\d)\.py:(\d+)(?::\d+)?(?: -|:) error", run.stdout)
    lines = [
        {script.split("\n")[int(line) - 1] for number, line in found if int(number) == index}
        for index, script in enumerate(scripts)
    ]
    return lines, run.stdout + run.stderr


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_a_checker_tells_what_comes_out_and_which_calls_are_wrong(checker, tmp_path):
    """In a script without torch, and in one with it, where it is installed."""
    rights, wrongs = [RIGHT], [WRONG]
    if find_spec("torch"):
        rights, wrongs = [*rights, RIGHT + RIGHT_WITH_TORCH], [*wrongs, WRONG + WRONG_WITH_TORCH]
    lines, output = errors_of(checker, list(map(str.__add__, rights, wrongs)), tmp_path)
    assert lines == [set(wrong.split("\n")) - {""} for wrong in wrongs], output
