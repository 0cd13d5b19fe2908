"""The suppression of other packages without and with hashnms: milliseconds and ratios from one run, as Markdown.

    python -m benchmarks.adapters [--boxes 10000 100000] [--preset crowd]

One thread each, CPU time. Every answer is compared with the package's own before its time counts. Calls that take
longer than two seconds are timed once. Calls whose matrix of all pairs would exceed --memory are left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import hashnms
from benchmarks.tables import rows as markdown
from benchmarks.timing import shortest
from hashnms.synthetic import Scene, make_scene

#: Bytes that supervision's `with_nms` needs for each pair of boxes.
PAIR_BYTES = 55


class Case(NamedTuple):
    """A call of a package, the same call with hashnms, and a check that both give the same result."""

    name: str
    stock: Callable[[], Any]
    ours: Callable[[], Any]
    same: Callable[[Any, Any], bool]
    bytes_per_pair: int = 0


def ultralytics_cases(scene: Scene) -> Iterator[Case]:
    import torch
    from ultralytics.utils.nms import non_max_suppression as stock

    from hashnms.detectors.ultralytics import non_max_suppression as ours

    torch.set_num_threads(1)
    boxes, scores = torch.from_numpy(scene.boxes), torch.from_numpy(scene.scores)
    sizes = boxes[:, 2:] - boxes[:, :2]
    raw = torch.cat([boxes[:, :2] + sizes / 2, sizes, scores[:, None]], 1).T[None].contiguous()
    for most in (300, len(boxes)):
        settings = {"conf_thres": 0.0, "iou_thres": 0.7, "max_det": most, "max_nms": len(boxes), "max_time_img": 1e6}
        yield Case(
            f"ultralytics `non_max_suppression`, {'`max_det=300`' if most == 300 else 'all that is kept'}",
            lambda settings=settings: stock(raw, **settings),
            lambda settings=settings: ours(raw, **settings),
            lambda one, other: torch.equal(one[0], other[0]),
        )


#: SAHI's method and overlap -> the names of its functions and of its class.
SAHI_METHODS = {
    ("NMS", "IOU"): ("nms", "NMSPostprocess"),
    ("NMS", "IOS"): ("nms", "NMSPostprocess"),
    ("GREEDYNMM", "IOS"): ("greedy_nmm", "GreedyNMMPostprocess"),
    ("NMM", "IOS"): ("nmm", "NMMPostprocess"),
}


def sahi_cases(scene: Scene) -> Iterator[Case]:
    """SAHI's functions on arrays."""
    from hashnms.detectors import sahi as adapter

    predictions = np.column_stack([scene.boxes, scene.scores, np.zeros(len(scene.scores))]).astype(np.float32)
    for backend in ("numpy", "numba") if importlib.util.find_spec("numba") else ("numpy",):
        functions = importlib.import_module(f"sahi.postprocess._{backend}_backend")
        for (method, metric), (function, _) in SAHI_METHODS.items():
            stock, ours = getattr(functions, f"{function}_{backend}"), getattr(adapter, f"{function}_hashnms")
            stock(predictions[:10], metric, 0.5)  # compiles it
            if backend == "numba" and method == "NMM":
                continue  # it is numpy's from 2,000 boxes on
            yield Case(
                f"SAHI's function for {method}, {metric} 0.5, {backend}",
                lambda stock=stock, metric=metric: stock(predictions, metric, 0.5),
                lambda ours=ours, metric=metric: ours(predictions, metric, 0.5),
                lambda one, other: one == other,
            )


def sahi_objects(scene: Scene) -> Iterator[Case]:
    """The classes that `get_sliced_prediction` calls with a list of objects."""
    from sahi.postprocess import backends, combine
    from sahi.prediction import ObjectPrediction

    from hashnms.detectors import sahi as adapter

    boxes = np.maximum(scene.boxes, 0).tolist()
    objects = [
        ObjectPrediction(bbox=box, score=score, category_id=0, category_name="object")
        for box, score in zip(boxes, scene.scores.tolist(), strict=True)
    ]

    def values(found: Any) -> list[Any]:
        return [(one.bbox.to_xyxy(), one.score.value) for one in found]

    backends.set_postprocess_backend("numpy")
    for (method, metric), (_, name) in SAHI_METHODS.items():
        settings = {"match_metric": metric, "match_threshold": 0.5, "class_agnostic": False}
        stock, ours = getattr(combine, name)(**settings), getattr(adapter, name)(**settings)
        yield Case(
            f"SAHI's `postprocess_type`: {method}, {metric} 0.5, numpy",
            lambda stock=stock: stock(list(objects)),
            lambda ours=ours: ours(list(objects)),
            lambda one, other: values(one) == values(other),
        )


def supervision_cases(scene: Scene) -> Iterator[Case]:
    from supervision import Detections

    from hashnms.detectors.supervision import with_nmm, with_nms

    found = Detections(scene.boxes, confidence=scene.scores, class_id=np.zeros(len(scene.scores), int))
    equal: Callable[[Any, Any], bool] = lambda one, other: bool(one == other)  # noqa: E731
    yield Case("supervision `with_nms`, IoU 0.5", found.with_nms, lambda: with_nms(found), equal, PAIR_BYTES)
    yield Case("supervision `with_nmm`, IoU 0.5", found.with_nmm, lambda: with_nmm(found), equal)


def deepforest_cases(scene: Scene) -> Iterator[Case]:
    import pandas
    from deepforest.predict import across_class_nms

    from hashnms.detectors import routed

    found = pandas.DataFrame(scene.boxes, columns=["xmin", "ymin", "xmax", "ymax"])
    found = found.assign(label=scene.labels, score=scene.scores)

    def ours() -> Any:
        with routed():
            return across_class_nms(found, 0.5)

    yield Case(
        "DeepForest `across_class_nms`, IoU 0.5, in `routed()`",
        lambda: across_class_nms(found, 0.5),
        ours,
        lambda one, other: bool(one.equals(other)),
    )


def monai_cases(scene: Scene) -> Iterator[Case]:
    import torch
    from monai.data.box_utils import non_max_suppression

    torch.set_num_threads(1)
    boxes, scores = torch.from_numpy(scene.boxes), torch.from_numpy(scene.scores)
    yield Case(
        "MONAI `non_max_suppression` of 2-D boxes, IoU 0.5",
        lambda: non_max_suppression(boxes, scores, 0.5),
        lambda: hashnms.nms(boxes, scores, 0.5),
        torch.equal,
    )


#: Package -> its cases.
CASES: dict[str, list[Callable[[Scene], Iterator[Case]]]] = {
    "ultralytics": [ultralytics_cases],
    "sahi": [sahi_cases, sahi_objects],
    "supervision": [supervision_cases],
    "deepforest": [deepforest_cases],
    "monai": [monai_cases],
}


def measured(case: Case, boxes: int, memory: float, rounds: int) -> str:
    """Measure a case: the cell of the table."""
    if case.bytes_per_pair * boxes**2 > memory * 1e9:
        ours = shortest({"ours": case.ours}, rounds, time.process_time)["ours"] * 1e3
        return f"over {memory:.0f} GB → {ours:,.1f}"
    stock, ours = case.stock(), case.ours()
    if not case.same(ours, stock):
        return "**another answer**"
    times = shortest({"stock": case.stock, "ours": case.ours}, rounds, time.process_time)
    before, after = times["stock"] * 1e3, times["ours"] * 1e3
    ratio = before / after
    return f"{before:,.0f} → {after:,.{1 if after < 100 else 0}f} ({ratio:,.{1 if ratio < 2 else 0}f}x)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boxes", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--preset", default="crowd")
    parser.add_argument("--memory", type=float, default=8, help="gigabytes that a matrix of all pairs may take")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    arguments = parser.parse_args()
    hashnms.set_num_threads(1)
    cells: dict[str, list[str]] = {}
    for count in arguments.boxes:
        scene = make_scene(arguments.preset, count)
        for package in arguments.only:
            if importlib.util.find_spec(package):
                for make in CASES[package]:
                    for case in make(scene):
                        cells.setdefault(case.name, []).append(
                            measured(case, count, arguments.memory, arguments.rounds)
                        )
    header = ["ms, the package → with hashnms", *(f"{count:,} boxes" for count in arguments.boxes)]
    print("\n".join(markdown(header, [[name, *values] for name, values in cells.items()])))


if __name__ == "__main__":
    main()
