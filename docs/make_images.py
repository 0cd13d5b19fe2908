"""Draws the pictures of docs/howto/plots.md and docs/explanation/linear.md into docs/images.

python docs/make_images.py
"""

from __future__ import annotations

import argparse
import json
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from PIL import Image

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent))  # for experiments, when it is run as a script

from drawings import search_picture, trials_picture  # noqa: E402

from experiments.scenes import draw  # noqa: E402
from hashnms.plot import plot_before_after, plot_bound, plot_boxes, plot_cells, plot_tradeoff  # noqa: E402
from hashnms.synthetic import make_scene  # noqa: E402


def boxes_picture() -> Any:
    """The raw boxes of a shelf, by class."""
    scene = make_scene("shelf", 3_000, seed=1, background=0.1)
    return plot_boxes(scene.boxes, scene.scores, scene.labels).figure


def before_after_picture() -> Any:
    """A drawn parking lot; its raw boxes are the cars', moved about, the worse the further off."""
    rng = np.random.default_rng(5)
    drawing = draw("parking_lot", rng, (480, 320))
    objects = np.repeat(drawing.boxes.astype(np.float64), 25, axis=0)
    noise = 0.06 * rng.standard_normal(objects.shape)
    boxes = objects + noise * np.tile(objects[:, 2:] - objects[:, :2], 2)
    boxes = boxes.clip(0, [480, 320, 480, 320])
    scores = 0.95 * np.exp(-20 * (noise**2).sum(axis=1))
    axes = plot_before_after(boxes, scores, "nms:0.5", image=drawing.pixels, color="yellow")
    return axes[0].figure


def cells_picture(num_hashes: int) -> Any:
    """The best box of a parking lot with few raw boxes."""
    scene = make_scene("parking_lot", 1_200)
    return plot_cells(scene.boxes, row=int(scene.scores.argmax()), num_hashes=num_hashes).figure


def bound_picture() -> Any:
    """The bound over alpha."""
    return plot_bound(alphas=np.linspace(0.2, 0.99, 80)).figure


#: Names of methods in benchmarks/results.json -> their notation.
_NOTATION = {
    "NMS": "nms:0.5",
    "HNMS": "hnms:{alpha}/{num_hashes}",
    "HNMS + NMS": "hnms:{alpha}/{num_hashes}+nms:0.5",
    "Soft-NMS": "softnms:gaussian/0.5",
    "HNMS + Soft-NMS": "hnms:{alpha}/{num_hashes}+softnms:gaussian/0.5",
}


def tradeoff_picture() -> Any:
    """What the benchmarks have of real detections of VisDrone: 9,000 boxes in, alpha 0.6; time as a ratio."""
    results = json.loads((DOCS.parent / "benchmarks" / "results.json").read_text(encoding="utf-8"))
    measured = [row for row in results["quality"]["visdrone_yolov5s"]["over_hashes"] if row["alpha"] in (None, 0.6)]
    unit = next(row["seconds"] for row in measured if row["method"] == "NMS")
    rows = [
        {
            "method": _NOTATION[row["method"]].format(**row),
            "time (1: nms:0.5)": row["seconds"] / unit,
            "map_50": row["map_50"],
        }
        for row in measured
    ]
    return plot_tradeoff(rows, x="time (1: nms:0.5)").figure


#: The name of the file -> what draws it. PNG where there are many boxes.
PICTURES = {
    "plots-boxes.png": boxes_picture,
    "plots-before-after.png": before_after_picture,
    "plots-cells.svg": lambda: cells_picture(1),
    "plots-cells-3.svg": lambda: cells_picture(3),
    "plots-bound.svg": bound_picture,
    "plots-tradeoff.svg": tradeoff_picture,
    "linear-search.svg": search_picture,
    "linear-trials.svg": trials_picture,
}


def save(figure: Any, path: Path) -> None:
    """Write a picture, small: an SVG with plain text and the same bytes each time, a PNG with few colours."""
    if path.suffix == ".svg":
        with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "hashnms"}):
            figure.savefig(path, metadata={"Date": None})
        return
    data = BytesIO()
    figure.savefig(data, format="png", dpi=80)
    Image.open(data).convert("RGB").quantize(64).save(path, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=DOCS / "images", help="where they go")
    folder = parser.parse_args().folder
    for name, picture in PICTURES.items():
        save(picture(), folder / name)


if __name__ == "__main__":
    main()
