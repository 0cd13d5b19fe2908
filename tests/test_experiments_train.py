"""Training continues after an interruption, to the same weights; detectors have the paper's settings."""

import os
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")

import typer  # noqa: E402
from rich.console import Console  # noqa: E402

from experiments.commands.common import bar  # noqa: E402
from experiments.commands.train import command  # noqa: E402
from experiments.configurations import CONFIGURATIONS, Training  # noqa: E402
from experiments.datasets import load  # noqa: E402
from experiments.detectors import make_detector  # noqa: E402
from experiments.generate import generate  # noqa: E402
from experiments.train import batch_of_step, example, learning_rate, load_weights, num_steps, rank, train  # noqa: E402
from tests.support.boxes import REPOSITORY  # noqa: E402


@pytest.fixture(scope="module")
def lots(tmp_path_factory):
    root = generate("carpk", tmp_path_factory.mktemp("lots") / "lots", images=6, size=(192, 128))
    return load("carpk", root, "train")


def fresh(name):
    torch.manual_seed(3)
    return make_detector(CONFIGURATIONS[name])


def weights(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def test_the_papers_settings_are_those_of_the_paper():
    faster, retina = CONFIGURATIONS["faster_rcnn-carpk"], CONFIGURATIONS["retinanet-sku110k"]
    assert (faster.training.epochs, faster.training.learning_rate, faster.training.batch_size) == (20, 0.02, 16)
    assert (faster.training.momentum, faster.training.weight_decay) == (0.9, 1e-4)
    suppressing = faster.suppressing
    assert (suppressing.candidates, suppressing.kept_of_level, suppressing.kept_in_all) == (9000, 2000, 4000)
    assert (suppressing.alpha, suppressing.iou_threshold, suppressing.evaluated) == (0.7, 0.7, 1000)
    assert (retina.training.epochs, retina.training.learning_rate) == (40, 0.005)
    assert (retina.suppressing.alpha, retina.suppressing.iou_threshold, retina.suppressing.kept_in_all) == (
        0.73,
        0.5,
        1000,
    )


def test_the_learning_rate_rises_and_falls_twice():
    training = Training(1, 0.1, warm_up_steps=10)
    rates = [learning_rate(training, step, 90) for step in range(90)]
    assert rates[0] == pytest.approx(0.01)
    assert rates[9] == rates[59] == pytest.approx(0.1)
    assert rates[60] == rates[79] == pytest.approx(0.01)
    assert rates[80] == rates[89] == pytest.approx(0.001)


def test_an_epoch_goes_through_all_images_in_an_order_of_its_own(lots):
    training = Training(2, 0.1, batch_size=2)
    assert num_steps(training, len(lots)) == len(lots)
    batches = [batch_of_step(lots, training, 0, step, 0, 1) for step in range(len(lots))]
    rows = [row for batch in batches for row in batch]
    assert sorted(rows) == sorted([*range(len(lots))] * 2)
    two_workers = [batch_of_step(lots, training, 0, 0, worker, 2) for worker in (0, 1)]
    assert [row for batch in two_workers for row in batch] == batches[0]


def test_a_flip_moves_the_boxes_with_the_pixels(lots):
    class Always:
        def random(self):
            return 0.0

    image, target = example(lots, 0, (), np.random.default_rng(0))
    flipped, moved = example(lots, 0, ("horizontal", "vertical"), Always())
    assert torch.equal(flipped, image.flip(1, 2))
    width, height = image.shape[2], image.shape[1]
    x1, y1, x2, y2 = target["boxes"].unbind(1)
    assert torch.equal(moved["boxes"], torch.stack([width - x2, height - y2, width - x1, height - y1], dim=1))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["faster_rcnn-carpk-tiny", "retinanet-carpk-tiny"])
def test_interrupted_training_resumes_to_the_same_weights(name, lots, tmp_path):
    configuration = CONFIGURATIONS[name]
    whole = fresh(name)
    states = list(train(whole, lots, configuration, tmp_path / "whole.pt", steps=3))
    assert [state.step for state in states] == [1, 2, 3]
    parts = tmp_path / "parts.pt"
    assert [s.step for s in train(fresh(name), lots, configuration, parts, steps=3, stop_at=1)] == [1]
    second = train(fresh(name), lots, configuration, parts, steps=3)
    assert next(second).step == 2
    second.close()  # as Ctrl-C between two steps
    resumed = fresh(name)
    assert [state.step for state in train(resumed, lots, configuration, parts, steps=3)] == [3]
    for (key, value), other in zip(weights(whole).items(), weights(resumed).values(), strict=True):
        assert torch.equal(value, other), key
    loaded = fresh(name)
    load_weights(loaded, parts)
    assert all(torch.equal(a, b) for a, b in zip(weights(loaded).values(), weights(whole).values(), strict=True))
    with pytest.raises(ValueError, match=r"must be a checkpoint of the same training, steps 5, got 3"):
        next(train(loaded, lots, configuration, parts, steps=5))
    with pytest.raises(ValueError, match=r"the same training, seed 1, got 0"):
        next(train(loaded, lots, configuration, parts, steps=3, seed=1))
    with pytest.raises(ValueError, match=r"the same training, precision bfloat16, got float32"):
        next(train(loaded, lots, configuration, parts, steps=3, precision=torch.bfloat16))


TWO_WORKERS = """
import sys
from pathlib import Path
import torch
from experiments.configurations import CONFIGURATIONS
from experiments.datasets import load
from experiments.detectors import make_detector
from experiments.train import rank, train

root, folder = sys.argv[1:]
configuration = CONFIGURATIONS["retinanet-carpk-tiny"]
torch.manual_seed(3)
model = make_detector(configuration)
states = list(train(model, load("carpk", root, "train"), configuration, Path(folder, "checkpoint.pt"), steps=2))
torch.save({"model": model.state_dict(), "losses": [state.losses for state in states]}, f"{folder}/worker{rank()}.pt")
"""


@pytest.mark.slow
def test_torchrun_trains_one_model_with_two_workers(tmp_path):
    root = generate("carpk", tmp_path / "lots", images=6, size=(192, 128))
    script = tmp_path / "script.py"
    script.write_text(TWO_WORKERS)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", str(script)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(REPOSITORY)}
    result = subprocess.run(
        [*command, str(root), str(tmp_path)], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert result.returncode == 0, result.stderr
    first, second = (torch.load(tmp_path / f"worker{rank}.pt", weights_only=True) for rank in (0, 1))
    assert first["losses"] != second["losses"]  # they have seen different images
    for name, value in first["model"].items():
        assert torch.equal(value, second["model"][name]), name
    saved = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert (saved["step"], saved["workers"]) == (2, 2)
    assert all(torch.equal(saved["model"][name], value) for name, value in first["model"].items())


def test_only_one_worker_of_torchrun_speaks(monkeypatch, capsys, tmp_path):
    """The others are silent. A limit of minutes, which each would reach by itself, is refused."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(typer.BadParameter, match="must be left out with several workers"):
        command("retinanet-carpk-tiny", tmp_path, tmp_path / "x.pt", minutes=1.0)
    monkeypatch.setenv("RANK", "1")
    with bar(Console(quiet=rank() > 0), "training") as update:
        update(1, 1)
    assert capsys.readouterr() == ("", "")
