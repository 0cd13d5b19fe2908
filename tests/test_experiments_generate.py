"""Drawn datasets: exact boxes, the same for the same seed, in every format, whole or not at all."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from experiments import scenes
from experiments.__main__ import COMMANDS, app
from experiments.datasets import SOURCES, DatasetError, load
from experiments.generate import FORMATS, drawings, generate
from hashnms.boxes import pairwise_iou
from tests.support.boxes import REPOSITORY
from tests.support.datasets import SMALL

runner = CliRunner()


def files_of(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_drawn_is_what_is_read(tmp_path, name):
    root = generate(name, tmp_path / "new", images=5, seed=3, size=SMALL)
    source = SOURCES[name]
    for split, count in ((source.train, 3), (source.test, 2)):
        dataset = load(name, root, split, require_counts=True)
        assert len(dataset) == count
        for image, drawing in zip(dataset.images, drawings(name, split, count, 3, SMALL), strict=True):
            num_objects = len(drawing.boxes)
            np.testing.assert_array_equal(image.boxes[:num_objects], drawing.boxes)
            assert image.size in (None, SMALL)
            assert image.pixels().shape == (SMALL[1], SMALL[0], 3)
            off = np.abs(image.pixels().astype(int) - drawing.pixels)
            assert off.max() == 0 if image.path.suffix == ".png" else off.mean() < 8
            assert (image.labels[~image.ignore] >= 1).all()
            assert image.labels.max() <= len(dataset.classes)
            flags = drawing.hidden if name not in ("carpk", "sku110k") else [False] * num_objects
            assert image.ignore.tolist() == flags + [True] * (len(image.boxes) - num_objects)
            if name in ("crowdhuman", "coco", "visdrone"):  # these can say that a region is ignored
                np.testing.assert_array_equal(image.boxes[num_objects:], drawing.regions)


def test_full_bodies_are_read_as_drawn_even_outside_the_image(tmp_path):
    root = generate("crowdhuman", tmp_path / "new", images=12, size=SMALL)
    dataset = load("crowdhuman-full", root, "train")
    for image, drawing in zip(dataset.images, drawings("crowdhuman", "train", 8, 0, SMALL), strict=True):
        np.testing.assert_array_equal(image.boxes[: len(drawing.boxes)], drawing.full_boxes)
    boxes = np.concatenate([image.boxes for image in dataset.images])
    assert boxes.min() < 0
    assert boxes[:, 3].max() > SMALL[1]


@pytest.mark.parametrize("kind", scenes.KINDS)
def test_a_visible_box_is_tight_around_what_is_seen(kind):
    """Painted in a colour of its own, an object is seen in its box, up to each of its four sides, and nowhere else."""
    size = (160, 120)
    placed = scenes._seen(scenes.KINDS[kind](np.random.default_rng(5), size)[1], size)
    drawing = scenes.draw(kind, np.random.default_rng(5), size)
    assert len(placed) == len(drawing.boxes) > 5
    image = np.full((size[1], size[0]), -1)
    for number, one in enumerate(placed):  # pixel by pixel
        for y, x in np.argwhere(one.sprite[..., 3] >= 128):
            if 0 <= one.y + y < size[1] and 0 <= one.x + x < size[0]:
                image[one.y + y, one.x + x] = number
    for number, (x1, y1, x2, y2) in enumerate(drawing.boxes):
        y, x = np.nonzero(image == number)
        assert (x.min(), y.min(), x.max() + 1, y.max() + 1) == (x1, y1, x2, y2)
        solid = (placed[number].sprite[..., 3] >= 128).sum()
        assert drawing.visible[number] == pytest.approx(len(x) / solid)
        assert drawing.visible[number] >= 0.2


@pytest.mark.parametrize("kind", scenes.KINDS)
def test_scenes_are_crowded_and_varied(kind):
    drawn = [scenes.draw(kind, np.random.default_rng(seed)) for seed in range(3)]
    for drawing in drawn:
        assert len(drawing.boxes) >= 10
        overlap = pairwise_iou(drawing.boxes.astype(float), drawing.boxes.astype(float))
        assert (overlap > 0).sum() > len(drawing.boxes)  # more than each with itself
        sides = drawing.boxes[:, 2:] - drawing.boxes[:, :2]
        assert sides.min() >= 5
        assert (sides.max(axis=0) / sides.min(axis=0) > 1.5).all()
        assert (drawing.boxes >= 0).all()
        assert (drawing.boxes[:, 2:] <= (320, 240)).all()
        assert drawing.pixels.std() > 15
    assert len({drawing.pixels.mean() for drawing in drawn}) == 3


@pytest.mark.parametrize("name", ["carpk", "coco"])
def test_the_same_seed_draws_the_same_files_and_another_seed_others(tmp_path, name):
    first, again, other = (
        files_of(generate(name, tmp_path / folder, images=3, seed=seed, size=SMALL))
        for folder, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert first == again
    assert first.keys() == other.keys()
    assert all(first[file] != other[file] for file in first if file.endswith((".png", ".jpg")))


def test_the_first_images_are_the_same_however_many_there_are(tmp_path):
    few, many = (files_of(generate("carpk", tmp_path / str(n), images=n, size=SMALL)) for n in (2, 6))
    assert few["data/Images/train_00001.png"] == many["data/Images/train_00001.png"]
    assert few["data/Images/test_00001.png"] == many["data/Images/test_00001.png"]
    assert few["data/Images/train_00001.png"] != few["data/Images/test_00001.png"]


def test_a_folder_is_made_whole_or_not_at_all(tmp_path):
    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate("carpk", tmp_path / "new", images=4, size=SMALL, drawn=interrupted)
    assert list(tmp_path.iterdir()) == []


def test_only_a_generated_folder_is_overwritten_and_only_if_asked(tmp_path):
    root = generate("carpk", tmp_path / "new", images=2, size=SMALL)
    before = files_of(root)
    with pytest.raises(DatasetError, match=r"root must be a new folder .*, got .*new, which exists"):
        generate("carpk", root, images=2, seed=1, size=SMALL)
    assert files_of(root) == before
    generate("voc", root, images=2, seed=1, size=SMALL, overwrite=True)
    assert (root / "JPEGImages").is_dir()
    assert not (root / "data").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(DatasetError, match=r"root must be a generated dataset to be overwritten, got .*mine"):
        generate("carpk", tmp_path / "mine", images=2, size=SMALL, overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "new"]


def test_a_folder_that_somebody_made_meanwhile_is_not_overwritten(tmp_path):
    def make():
        (tmp_path / "new").mkdir(exist_ok=True)
        (tmp_path / "new" / "thesis.tex").touch()

    with pytest.raises(OSError, match="not empty"):
        generate("carpk", tmp_path / "new", images=2, size=SMALL, drawn=make)
    assert [path.name for path in tmp_path.rglob("*")] == ["new", "thesis.tex"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"format": "kitti"}, "format must be one of carpk, .*, got 'kitti'"),
        ({"format": "wheat"}, "format must be one of carpk, .*, got 'wheat'"),
        ({"images": 1}, "images must be .*2.*, got 1"),
        ({"seed": -1}, "seed must be .*, got -1"),
        ({"size": (95, 200)}, "size must be .*96.*, got 95"),
    ],
)
def test_bad_arguments_are_refused(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        generate(**{"format": "carpk", "root": tmp_path / "new", "images": 2, "size": SMALL} | arguments)
    assert list(tmp_path.iterdir()) == []


def test_the_command_draws_and_says_what(tmp_path):
    root = tmp_path / "lots"
    arguments = ["generate", "--format", "carpk", "--output", str(root), "--images", "3", "--width", "128"]
    result = runner.invoke(app, [*arguments, "--height", "96"])
    assert result.exit_code == 0
    assert f"Generated CARPK test: 1 image, {load('carpk', root, 'test').num_boxes} boxes" in result.output


def test_every_command_explains_itself():
    for name in COMMANDS:
        result = runner.invoke(app, [name, "--help"])
        assert result.exit_code == 0
        assert f"Example: python -m experiments {name}" in " ".join(result.output.split())


@pytest.mark.slow
def test_the_command_refuses_in_one_line(tmp_path):
    command = [sys.executable, "-m", "experiments", "generate", "--format", "carpk", "--output", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, check=False)
    assert result.returncode == 1
    assert result.stderr.strip().startswith("error: root must be a new folder")
    assert len(result.stderr.strip().splitlines()) == 1
