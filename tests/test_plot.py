"""Pictures: as many outlines as boxes, where they belong, in the colours that are said, and nothing left behind."""

import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import hashnms
from hashnms.compare import Detections, as_dicts, compare
from hashnms.synthetic import make_scene
from tests.support.boxes import REPOSITORY

mpl = pytest.importorskip("matplotlib")
from matplotlib.figure import Figure  # noqa: E402
from PIL import Image  # noqa: E402

from hashnms import plot  # noqa: E402
from hashnms.plot import plot_before_after, plot_bound, plot_boxes, plot_cells, plot_tradeoff  # noqa: E402

BOXES = np.array([[0, 0, 100, 50], [2, 0, 102, 50], [200, 10, 300, 60]], np.float32)
SCORES = np.array([0.5, 0.9, 0.2], np.float32)


def outlines(ax):
    """The drawn boxes, xyxy, in the order they are drawn."""
    paths = ax.collections[-1].get_paths()
    return np.array([[*path.vertices.min(axis=0), *path.vertices.max(axis=0)] for path in paths]).reshape(-1, 4)


def new_ax():
    return Figure().subplots()


@pytest.mark.parametrize(
    "draw",
    [
        lambda **ax: plot_boxes(BOXES, **ax),
        lambda **ax: plot_cells(BOXES, **ax),
        plot_bound,
        lambda **ax: plot_tradeoff([{"method": "nms:0.5", "ms": 1, "map_50": 0.5}], **ax),
    ],
)
def test_it_draws_on_the_ax_it_is_given_else_on_that_of_a_figure_of_its_own(draw):
    ax = new_ax()
    assert draw(ax=ax) is ax
    assert ax.has_data() or ax.collections
    assert draw().figure is not ax.figure
    with pytest.raises(TypeError, match="ax must be of type Axes, got 'figure'"):
        draw(ax="figure")


def test_nothing_is_left_in_pyplot_and_no_setting_is_changed():
    code = f"""
import sys, matplotlib
from hashnms.plot import *
before = matplotlib.rcParams.copy()
boxes = {BOXES.tolist()}
plot_boxes(boxes).figure.savefig("/dev/null", format="png")
plot_before_after(boxes, [1, 2, 3], "nms:0.5")[0].figure.savefig("/dev/null", format="svg")
plot_cells(boxes, num_hashes=2).figure.savefig("/dev/null", format="png")
plot_bound()
plot_tradeoff([{{"method": "nms:0.5", "ms": 1, "map_50": 0.5}}])
print("matplotlib.pyplot" in sys.modules, matplotlib.rcParams.copy() == before)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stdout == "False True\n", run.stderr


def test_the_part_is_one_of_the_package():
    assert hashnms.plot is plot
    assert all(">>>" in getattr(plot, name).__doc__ for name in plot.__all__)


def test_without_matplotlib_a_direct_import_says_what_to_install():
    code = "import sys; sys.modules.update(matplotlib=None); from hashnms.plot import plot_boxes"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert 'ImportError: hashnms.plot needs matplotlib: in a clone of hashnms, run pip install ".[plot]"' in run.stderr


# --- boxes


@pytest.mark.parametrize("keep", [None, [2, 0], np.array([1]), []])
def test_there_are_as_many_outlines_as_boxes_the_best_on_top(keep):
    ax = plot_boxes(BOXES, SCORES, keep=keep)
    shown = [0, 1, 2] if keep is None else list(keep)
    assert outlines(ax).tolist() == BOXES[sorted(shown, key=lambda row: SCORES[row])].tolist()


@pytest.mark.parametrize("box_format", ["xywh", "cxcywh"])
def test_boxes_of_other_formats_are_at_the_same_place(box_format):
    size = BOXES[:, 2:] - BOXES[:, :2]
    first = BOXES[:, :2] if box_format == "xywh" else (BOXES[:, :2] + BOXES[:, 2:]) / 2
    assert outlines(plot_boxes(np.hstack([first, size]), box_format=box_format)).tolist() == BOXES.tolist()


def test_a_label_has_its_colour_whichever_others_there_are():
    colors = plot_boxes(BOXES, labels=[3, -1, 13]).collections[-1].get_edgecolors()
    assert colors[:, :3].tolist() == [list(plot.COLORS[3]), list(plot.COLORS[9]), list(plot.COLORS[3])]
    assert plot_boxes(BOXES[:1], labels=[13]).collections[-1].get_edgecolors()[0, :3].tolist() == list(plot.COLORS[3])
    red = plot_boxes(BOXES, labels=[3, 4, 5], color="red").collections[-1].get_edgecolors()
    assert red.tolist() == [[1, 0, 0, 1]] * 3


@pytest.mark.parametrize(
    ("scores", "opacity"),
    [
        ([0.0, 0.5, 1.0], [0.1, 0.55, 1.0]),
        ([0.0, 0.5, 0.5], [0.1, 0.55, 0.55]),
        ([-3.0, 1.0, 5.0], [0.1, 0.55, 1.0]),
        ([7.0, 7.0, 7.0], [1.0, 1.0, 1.0]),
    ],
)
def test_opacity_goes_by_the_score(scores, opacity):
    assert plot_boxes(BOXES, scores).collections[-1].get_edgecolors()[:, 3].tolist() == pytest.approx(opacity)


def test_a_legend_names_the_labels_that_are_shown():
    ax = plot_boxes(BOXES, labels=[0, 1, 2], label_names=["car", "van", "bus"], keep=[2, 0])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["car", "bus"]
    ax = plot_boxes(BOXES, labels=[0, 1, 7], label_names={7: "bus"})
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["0", "1", "bus"]
    assert plot_boxes(BOXES, labels=[0, 1, 2]).get_legend() is None


def test_limits_are_those_of_all_boxes_y_downwards_and_one_scale():
    ax = plot_boxes(BOXES, keep=[0])
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    assert (left, right, top, bottom) == pytest.approx((-6, 306, -6, 66))
    assert ax.get_aspect() == 1
    assert (ax.get_xlim(), ax.get_ylim()) == (plot_boxes(BOXES).get_xlim(), plot_boxes(BOXES).get_ylim())


def test_an_ax_that_holds_something_keeps_its_limits():
    ax = plot_boxes(BOXES)
    before = ax.get_xlim(), ax.get_ylim()
    plot_boxes([[500, 500, 600, 600]], color="black", ax=ax)
    assert (ax.get_xlim(), ax.get_ylim()) == before
    assert len(ax.collections) == 2


@pytest.mark.parametrize(
    "kind", ["uint8", "int64", "float", "gray", "one channel", "RGBA", "PIL", "palette", "path", "str"]
)
def test_an_image_is_beneath_and_its_pixel_0_goes_from_0_to_1(kind, tmp_path):
    pixels = np.arange(40 * 60 * 3).reshape(40, 60, 3) % 256
    picture = Image.fromarray(pixels.astype(np.uint8))
    picture.save(tmp_path / "a.png")
    image = {
        "uint8": pixels.astype(np.uint8),
        "int64": pixels,
        "float": pixels / 255,
        "gray": pixels[:, :, 0],
        "one channel": pixels[:, :, :1],
        "RGBA": np.dstack([pixels, pixels[:, :, 0]]),
        "PIL": picture,
        "palette": picture.quantize(8),
        "path": tmp_path / "a.png",
        "str": str(tmp_path / "a.png"),
    }[kind]
    ax = plot_boxes([[10, 10, 90, 30]], image=image)
    assert ax.images[0].get_extent() == [0, 60, 40, 0]
    assert (ax.get_xlim(), ax.get_ylim()) == ((0, 60), (40, 0))
    shown = ax.images[0].get_array()
    assert shown.shape[:2] == (40, 60)
    if kind not in ("palette", "float"):
        assert np.array_equal(shown.reshape(40, 60, -1)[:, :, 0], pixels[:, :, 0])
    ax.figure.savefig(tmp_path / "out.png")


@pytest.mark.parametrize("image", [None, np.zeros((4, 6), np.uint8)])
def test_no_boxes_are_an_empty_picture(image):
    for ax in (plot_boxes([], [], [], image=image), *plot_before_after([], [], "nms:0.5", image=image)):
        assert len(outlines(ax)) == 0
        ax.figure.savefig("/dev/null", format="png")


def test_boxes_without_area_and_of_one_place_are_drawn():
    ax = plot_boxes([[5, 5, 5, 5], [5, 5, 5, 5]], [0.5, 0.5])
    assert ax.get_xlim() == (4.5, 5.5)
    ax.figure.savefig("/dev/null", format="png")


@pytest.mark.timing
def test_45000_boxes_are_drawn_and_saved_in_a_second(tmp_path):
    scene = make_scene("parking_lot")
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        ax = plot_boxes(scene.boxes, scene.scores, scene.labels)
        ax.figure.savefig(tmp_path / "out.png")
        seconds.append(time.perf_counter() - start)
    assert len(ax.collections[-1].get_paths()) == 45_000
    assert min(seconds) < 1


def test_many_boxes_make_no_large_svg(tmp_path):
    scene = make_scene("aerial", 6_000)
    plot_boxes(scene.boxes, scene.scores).figure.savefig(tmp_path / "out.svg")
    assert (tmp_path / "out.svg").stat().st_size < 1_000_000


def test_tensors_are_taken():
    torch = pytest.importorskip("torch")
    axes = plot_before_after(torch.from_numpy(BOXES), torch.from_numpy(SCORES), "nms:0.5", labels=torch.zeros(3))
    assert [len(outlines(ax)) for ax in axes] == [3, 2]
    assert len(outlines(plot_boxes(torch.from_numpy(BOXES), keep=torch.tensor([1])))) == 1
    assert plot_cells(torch.tensor([0.0, 0.0, 10.0, 20.0])).get_title().startswith("alpha 0.7: code (6, 8, 3, 3)")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"boxes": np.zeros((3, 5))}, r"boxes must have shape \(N, 4\), got \(3, 5\)"),
        ({"boxes": [[3, 0, 1, 1]]}, "boxes must have x2 >= x1"),
        ({"scores": [1, 2]}, r"scores must have shape \(3,\)"),
        ({"scores": [1, 2, np.nan]}, "scores must be finite, got nan in row 2"),
        ({"labels": ["a", "b", "c"]}, "labels must be integers, got <U1"),
        ({"keep": [0, 3]}, r"keep must be indices of the 3 boxes, got 3 in row 1"),
        ({"keep": [-1]}, "keep must be indices of the 3 boxes, got -1"),
        ({"keep": [True, False, True]}, "keep must be indices, got bools: np.flatnonzero"),
        ({"keep": [[0]]}, r"keep must have shape \(M,\), got \(1, 1\)"),
        ({"image": np.zeros((3, 40, 60))}, r"image must have shape .* got \(3, 40, 60\); image.transpose\(1, 2, 0\)"),
        ({"image": np.zeros((40, 60, 2))}, r"image must have shape \(H, W\), \(H, W, 3\) or \(H, W, 4\), got"),
        ({"image": np.zeros((0, 60))}, r"image must have shape .* got \(0, 60\)"),
        ({"image": np.full((4, 6), 255.0)}, r"integers in \[0, 255\] or floats in \[0, 1\], got float64 from 255.0"),
        ({"image": np.full((4, 6), np.nan)}, "got float64 from nan"),
        ({"image": Image.new("I;16", (6, 4), 1000)}, "got uint16 from 1000 to 1000"),
        ({"image": 5j}, "image must be an array of numbers, a PIL image or a path"),
        ({"label_names": "car"}, "label_names must be a dict of label and name, or a list of names, got 'car'"),
        ({"label_names": {0: 1}}, "or a list of names, got 0: 1"),
        ({"color": "no colour"}, "color must be a matplotlib colour, such as .* got 'no colour'"),
        ({"linewidth": -1}, "linewidth must be finite and at least 0, got -1"),
        ({"box_format": "yxyx"}, "box_format must be one of"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        plot_boxes(**{"boxes": BOXES, **arguments})


# --- before and after


def test_before_and_after_are_all_boxes_and_those_that_are_kept():
    axes = plot_before_after(BOXES, SCORES, "nms:0.5", labels=[1, 1, 2])
    assert axes.shape == (2,)
    assert [ax.get_title() for ax in axes] == ["3 raw boxes", "nms:0.5 keeps 2"]
    assert [outlines(ax).tolist() for ax in axes] == [BOXES[[2, 0, 1]].tolist(), BOXES[[2, 1]].tolist()]
    assert axes[0].get_xlim() == axes[1].get_xlim()
    colors = [ax.collections[-1].get_edgecolors() for ax in axes]
    assert colors[0][[0, 2]].tolist() == colors[1].tolist()
    by_value = plot_before_after(BOXES, SCORES, hashnms.Suppression.parse("nms:0.5+limit:1"))
    assert by_value[1].get_title() == "nms:0.5+limit:1 keeps 1"


def test_after_soft_nms_boxes_are_as_faint_as_their_lowered_scores():
    axes = plot_before_after(BOXES, SCORES, "softnms:gaussian/0.5")
    keep, final = hashnms.Suppression.parse("softnms:gaussian/0.5")(BOXES, SCORES)
    opacity = axes[1].collections[-1].get_edgecolors()[:, 3]
    assert opacity.tolist() == pytest.approx(sorted(0.1 + 0.9 * final))
    assert outlines(axes[1]).tolist() == BOXES[keep[::-1]].tolist()


def test_before_and_after_take_two_axes():
    given = Figure().subplots(2, 1)
    assert list(plot_before_after(BOXES, SCORES, "nms:0.5", axes=given)) == list(given)
    plot_before_after(BOXES, SCORES, "nms:0.5", axes=tuple(Figure().subplots(2, 1)))
    for axes, message in (
        (Figure().subplots(1, 3), "axes must be 2 values of type Axes, got 3"),
        (new_ax(), "axes must be 2 values of type Axes, got <Axes"),
        ([1, 2], "axes must be of type Axes, got 1"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            plot_before_after(BOXES, SCORES, "nms:0.5", axes=axes)
    with pytest.raises(ValueError, match="a step must be one of"):
        plot_before_after(BOXES, SCORES, "nsm:0.5")


# --- cells


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def patch_of(ax, start):
    (patch,) = [patch for patch in ax.patches if patch.get_label().startswith(start)]
    return np.array(patch.get_bbox().extents)


@pytest.mark.parametrize("alpha", [0.35, 0.5, 0.7, 0.95])
def test_the_filled_cell_and_its_areas_are_those_of_the_hash(alpha):
    """Random boxes have the code of the first where and only where their sizes and centres are within the cell."""
    rng = np.random.default_rng(3)
    first = [100.0, 200.0, 180.0, 250.0]
    boxes = np.array([first, *(first + 70 * (1 - alpha) * rng.uniform(-0.5, 0.5, (3_000, 4)))])
    codes = hashnms.iou_hash(boxes, alpha=alpha)
    inside = (codes == codes[0]).all(axis=1)
    same_size = (codes[:, :2] == codes[0, :2]).all(axis=1)
    ax = plot_cells(boxes, alpha=alpha)
    assert ax.get_title().startswith(f"alpha {alpha:g}: code ({', '.join(map(str, codes[0]))})")
    x1, y1, x2, y2 = patch_of(ax, "its cell")
    center = boxes.reshape(-1, 2, 2).mean(axis=1)
    in_cell = (center >= (x1, y1)).all(axis=1) & (center < (x2, y2)).all(axis=1)
    assert 1 < inside.sum() < len(boxes)
    assert np.array_equal(in_cell & same_size, inside)
    hull, core = patch_of(ax, "no box"), patch_of(ax, "covered by")
    assert (boxes[inside, :2] >= hull[:2]).all()
    assert (boxes[inside, 2:] <= hull[2:]).all()
    assert (boxes[inside, :2] <= core[:2]).all()
    assert (boxes[inside, 2:] >= core[2:]).all()
    assert f"{inside.sum() - 1:,} box" in legend_of(ax)[1]


def test_boxes_are_counted_by_how_they_relate_to_the_cell():
    box = np.array([100.0, 100.0, 200.0, 200.0])
    boxes = np.array([box + 500, box, box + 1, box + 20, box + np.array([30, 30, -30, -30])])
    ax = plot_cells(boxes, row=1)
    codes = hashnms.iou_hash(boxes, alpha=0.7)
    assert (codes[2] == codes[1]).all()
    assert legend_of(ax) == [
        "the box",
        "1 box in the cell, IoU >= 0.96",
        "1 box of the same size class, in another cell",
        "1 box of another size class",
        "its cell: contains the centre",
        "covered by all boxes of the cell",
        "no box of the cell goes beyond",
    ]
    assert ax.get_title().endswith("two boxes of a cell have IoU >= 0.452")


def test_several_hashes_have_a_cell_each_and_a_box_that_of_the_first_that_it_shares():
    rng = np.random.default_rng(0)
    boxes = np.array([100.0, 100.0, 200.0, 200.0]) + rng.normal(0, 8, (60, 4))
    ax = plot_cells(boxes, num_hashes=3)
    codes = [function(boxes) for function in hashnms.hash_family(0.7, 3)]
    shared = np.array([(code == code[0]).all(axis=1) for code in codes])
    first = np.where(shared.any(axis=0), shared.argmax(axis=0), -1)[1:]
    for k in range(3):
        count = int((first == k).sum())
        assert next(name for name in legend_of(ax) if f" in its cell of hash {k + 1}" in name).startswith(
            f"{count} box"
        )
        x1, y1, x2, y2 = patch_of(ax, f"its cell of hash {k + 1}")
        center = boxes[0].reshape(2, 2).mean(axis=0)
        assert (center >= (x1, y1)).all()
        assert (center <= (x2, y2)).all()


@pytest.mark.parametrize("alpha", [0.01, 0.2, 0.999])
def test_cells_of_any_size_are_drawn(alpha):
    ax = plot_cells([0, 0, 10, 20], alpha=alpha, num_hashes=1)
    ax.figure.savefig("/dev/null", format="png")
    assert len(ax.collections[0].get_segments()) <= 60


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"boxes": []}, "boxes must have at least one box, got none"),
        ({"boxes": [1, 2, 3]}, r"boxes must have shape \(N, 4\), got \(3,\)"),
        ({"boxes": [0, 0, 0, 5]}, r"boxes must have area in row 0, whose cell is drawn, got \[0.0, 0.0, 0.0, 5.0\]"),
        ({"row": 3}, "row must be at most 2, got 3"),
        ({"row": -1}, "row must be at least 0, got -1"),
        ({"alpha": 1}, r"alpha must be in \(0, 1\), got 1"),
        ({"num_hashes": 11}, "num_hashes must be at most 10, got 11"),
    ],
)
def test_wrong_arguments_for_cells_are_refused(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        plot_cells(**{"boxes": BOXES, **arguments})


# --- the bound


def test_the_bound_goes_through_points_that_are_known():
    """Numbers of the design: checked against millions of random boxes."""
    known = {
        0.2: 0.0,
        0.3: 1.43e-4,
        0.5: 0.16239,
        0.6: 0.29758,
        0.7: 0.45206,
        0.8: 0.62203,
        0.9: 0.80525,
        0.95: 0.90128,
    }
    curve = plot_bound(alphas=known).lines[0]
    assert curve.get_xdata().tolist() == list(known)
    assert list(curve.get_ydata()) == pytest.approx(list(known.values()), abs=1e-5)


def test_marked_alphas_have_a_point_and_their_value_in_the_legend():
    ax = plot_bound()
    assert legend_of(ax)[1:] == ["alpha 0.7: 0.4521", "alpha 0.73: 0.5015"]
    assert [float(line.get_xdata()[0]) for line in ax.lines[1:]] == [0.7, 0.73]
    assert len(plot_bound(mark=()).lines) == 1
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("alpha", "IoU")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alphas": [0.5, 1.0]}, r"alphas must be numbers in \(0, 1\), got 1.0"),
        ({"alphas": 0.5}, r"alphas must be a list of numbers in \(0, 1\), got 0.5"),
        ({"mark": ["0.5"]}, r"mark must be a number, .* got '0.5'"),
    ],
)
def test_wrong_alphas_are_refused(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        plot_bound(**arguments)


# --- cost and quality


def rows_of(*methods):
    return [{"method": name, "ms": 1.0 + number, "map_50": 0.1 * number} for number, name in enumerate(methods)]


def test_methods_with_the_same_steps_are_joined_in_the_order_of_their_numbers():
    methods = ["hnms:0.7/4", "nms:0.5", "hnms:0.7/1", "hnms:0.7/1+nms:0.5", "hnms:0.7/2", "nms:0.3"]
    ax = plot_tradeoff(rows_of(*methods))
    assert [line.get_xdata().tolist() for line in ax.lines] == [[3.0, 5.0, 1.0], [6.0, 2.0], [4.0]]
    assert ax.get_xscale() == "log"
    assert sorted(text.get_text() for text in ax.texts) == sorted(methods)


def test_times_of_compare_are_of_all_images_and_not_said_to_be_of_one():
    found = Detections(BOXES, SCORES, images=[0, 1, 1])
    ax = plot_tradeoff(as_dicts(compare(found, ["nms:0.5", "nms:0.7"], rounds=1)), y="recall_of_first")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time in ms", "recall of the first method's boxes")


def test_soft_nms_of_another_kind_is_another_family_and_so_is_what_is_no_notation():
    ax = plot_tradeoff(
        rows_of("softnms:linear/0.3", "softnms:gaussian/0.5", "softnms:gaussian/0.7", "OpenCV", "OpenCV")
    )
    assert [len(line.get_xdata()) for line in ax.lines] == [1, 2, 2]


def test_names_stand_beside_their_points_and_hide_neither_points_nor_each_other():
    methods = [f"hnms:0.7/{k}+nms:0.5" for k in range(1, 7)]
    rows = [{"method": name, "ms": 1 + 0.02 * k, "map_50": 0.5 + 1e-3 * k} for k, name in enumerate(methods)]
    rows.append({"method": "softnms:gaussian/0.5", "ms": 3.0, "map_50": 0.6})
    ax = plot_tradeoff(rows)
    ax.figure.draw_without_rendering()
    boxes = np.array([mpl.text.Text.get_window_extent(text).extents for text in ax.texts])
    assert (hashnms.boxes.pairwise_iou(boxes, boxes) - np.eye(len(boxes))).max() < 0.01
    for text, (x, y) in zip(
        ax.texts, ax.transData.transform([(row["ms"], row["map_50"]) for row in rows]), strict=True
    ):
        assert np.hypot(*(np.array(text.get_position()))) < 70
        assert not any(x1 < x < x2 and y1 < y < y2 for x1, y1, x2, y2 in boxes)


def test_other_columns_and_no_rows_can_be_drawn():
    ax = plot_tradeoff([{"method": "nms", "seconds": 2, "recall": 1}], x="seconds", y="recall")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("seconds", "recall")
    assert plot_tradeoff([]).texts[:] == []
    plot_tradeoff([]).figure.savefig("/dev/null", format="png")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [{"method": "nms", "ms": 1}],
            "rows must be dicts with 'method', 'ms' and 'map_50', got 'method', 'ms' in row 0",
        ),
        ([{"method": "nms", "ms": 0, "map_50": 1}], "'ms' of row 0 must be finite and above 0, got 0"),
        ([{"method": "nms", "ms": 1, "map_50": np.nan}], "'map_50' of row 0 must be finite, got nan"),
        ([{"method": "nms", "ms": 1, "map_50": None}], "'map_50' of row 0 must be a number, finite, got None"),
        ([{"method": 5, "ms": 1, "map_50": 1}], "'method' of rows must be a string, got 5 in row 0"),
        ({"method": "nms", "ms": 1, "map_50": 1}, "rows must be dicts with"),
        (["nms"], "rows must be dicts with 'method', 'ms' and 'map_50', got 'nms' in row 0"),
    ],
)
def test_wrong_rows_are_refused(rows, message):
    with pytest.raises((ValueError, TypeError), match=message):
        plot_tradeoff(rows)


# --- docs/make_images.py


@pytest.mark.slow
def test_the_pictures_of_the_pages_are_those_the_script_draws_and_small(tmp_path):
    subprocess.run([sys.executable, "docs/make_images.py", "--folder", str(tmp_path)], check=True, cwd=REPOSITORY)
    pages = [Path(REPOSITORY, "docs", name).read_text("utf-8") for name in ("howto/plots.md", "explanation/linear.md")]
    made = {path.name for path in tmp_path.iterdir()}
    assert made == {name for page in pages for name in re.findall(r"^!\[.*images/(.*)\)$", page, re.MULTILINE)}
    for name in made:
        assert Path(REPOSITORY, "docs/images", name).stat().st_size < 150_000
