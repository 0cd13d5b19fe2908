"""Synthetic scenes are seeded, valid, crowded as stated, and of any size."""

import numpy as np
import pytest

from hashnms import hnms, reference
from hashnms.boxes import pairwise_iou
from hashnms.synthetic import NUM_LEVELS, PRESETS, WORST_CASES, lattice, make_scene


@pytest.mark.parametrize("preset", PRESETS)
def test_a_scene_has_the_presets_objects_and_valid_boxes(preset):
    scene = make_scene(preset, 5000)
    assert scene.boxes.shape == (5000, 4)
    assert scene.boxes.dtype == scene.scores.dtype == scene.gt_boxes.dtype == np.float32
    assert scene.labels.dtype == scene.levels.dtype == scene.gt_labels.dtype == np.int64
    assert len(scene.gt_boxes) == len(scene.gt_labels) == PRESETS[preset].num_objects
    for boxes in (scene.boxes, scene.gt_boxes):
        assert (boxes[:, :2] <= boxes[:, 2:]).all()
        assert (boxes >= 0).all()
        assert (boxes <= np.tile(scene.image_size, 2)).all()
    assert ((scene.scores >= 0) & (scene.scores <= 1)).all()
    assert set(scene.levels) == set(range(NUM_LEVELS))
    assert set(scene.labels) == set(range(PRESETS[preset].num_classes))


def test_the_same_seed_makes_the_same_scene_and_another_seed_another():
    first, same, other = (
        make_scene("crowd", 300, seed=1),
        make_scene("crowd", 300, seed=1),
        make_scene("crowd", 300, seed=2),
    )
    assert np.array_equal(first.boxes, same.boxes)
    assert np.array_equal(first.scores, same.scores)
    assert not np.array_equal(first.boxes, other.boxes)


@pytest.mark.parametrize("num_boxes", [0, 1, 10, 100, 1_000_000])
def test_a_scene_has_any_number_of_boxes(num_boxes):
    scene = make_scene("parking_lot", num_boxes)
    assert len(scene.boxes) == len(scene.scores) == len(scene.labels) == len(scene.levels) == num_boxes


def test_more_objects_make_a_larger_image_of_the_same_density():
    small, large = make_scene("aerial", 1000), make_scene("aerial", 1000, num_objects=2000)
    areas = [np.prod(scene.image_size) for scene in (small, large)]
    assert areas[1] / areas[0] == pytest.approx(4, rel=0.01)


def test_suppression_keeps_about_what_it_keeps_of_real_detections():
    scene = make_scene("parking_lot", 9000)
    data = scene.boxes, scene.scores
    assert 0.42 < len(hnms(*data, labels=scene.labels)) / 9000 < 0.55
    assert 0.27 < len(reference.nms(*data, 0.7, labels=scene.labels)[0]) / 9000 < 0.38
    assert 0.12 < len(reference.nms(*data, 0.5, labels=scene.labels)[0]) / 9000 < 0.20


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"^preset must be one of parking_lot, shelf, crowd, aerial, got 'zoo'$"):
        make_scene("zoo")
    with pytest.raises(ValueError, match=r"^num_boxes must be at least 0, got -1$"):
        make_scene(num_boxes=-1)
    with pytest.raises(ValueError, match=r"^background must be in \[0, 1\], got 2$"):
        make_scene(background=2)
    with pytest.raises(ValueError, match=r"^num_objects must be at least 1, got 0$"):
        make_scene(num_objects=0)
    with pytest.raises(TypeError, match=r"^num_boxes must be an integer, got 1.5$"):
        make_scene(num_boxes=1.5)
    with pytest.raises(ValueError, match=r"^seed must be at least 0, got -1$"):
        make_scene(seed=-1)


@pytest.mark.parametrize("count", [0, 1, 10, 1001])
@pytest.mark.parametrize("name", WORST_CASES)
def test_worst_cases_are_as_many_valid_boxes_as_asked(name, count):
    boxes = WORST_CASES[name](count)
    assert boxes.shape == (count, 4)
    assert np.isfinite(boxes).all()
    assert (boxes[:, 2:] > boxes[:, :2]).all()


def test_neighbours_on_a_lattice_overlap_as_stated():
    iou = pairwise_iou(lattice(100, 9, 3), lattice(100, 9, 3))
    assert iou[0, 1] == (9 - 3) / (9 + 3)
    assert iou[0, 10] == 0
