"""Time detectors with hashnms: `python -m benchmarks.detectors --help`. Needs torchvision.

First the suppression alone, torchvision's and ours, one thread each. The boxes come from models with random weights and
crowded scores, and from a simulated trained RPN on synthetic scenes. Exact answers are checked against torchvision's
before their time counts. With --total, also whole forward passes and where their time goes, with all threads.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
import torchvision
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torchvision.models.detection import retinanet_resnet50_fpn

import hashnms
from benchmarks.timing import shortest
from hashnms import Suppression
from hashnms.detectors import profile
from hashnms.detectors.crowded import crowd_scores, crowded_faster_rcnn
from hashnms.detectors.torchvision import Replacement, dense_detections, rpn_proposals
from hashnms.synthetic import PRESETS, make_scene

PAPER_RPN = "hnms:0.7/1+top:2000+limit:4000"
RPN = [None, "nms:0.7+limit:1000000", *(f"hnms:0.7/{num_hashes}" for num_hashes in range(1, 5)), PAPER_RPN]
ONE_STAGE = [None, "hnms:0.73/1+nms:0.5", "softnms:gaussian/0.5", "hnms:0.73/1+softnms:gaussian/0.5"]


class Workload(NamedTuple):
    """The input of a suppression, and the method that replaces torchvision's NMS."""

    name: str
    boxes: Tensor
    scores: Tensor
    labels: Tensor
    iou_threshold: float
    limit: int
    suppressions: list[str | None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=800, help="the images' width and height in pixels")
    parser.add_argument("--candidates", type=int, default=9000, help="P1, the number of boxes of each level")
    parser.add_argument("--total", action="store_true", help="also measure whole forward passes")
    arguments = parser.parse_args()
    console = Console()
    with console.status("making detectors …"):
        faster_rcnn, images = crowded_faster_rcnn(size=arguments.size, candidates=arguments.candidates)
        retinanet = crowded_retinanet(images, arguments.size, arguments.candidates)
    threads = torch.get_num_threads(), hashnms.get_num_threads()
    torch.set_num_threads(1)
    hashnms.set_num_threads(1)
    workloads = [
        recorded(
            "RPN of Faster R-CNN, random weights",
            faster_rcnn,
            faster_rcnn.rpn,
            "filter_proposals",
            rpn_proposals,
            images,
            RPN,
        ),
        *(as_if_trained(preset, faster_rcnn.rpn, arguments.size, arguments.candidates) for preset in PRESETS),
        around_objects(arguments.candidates),
        recorded(
            "RetinaNet, random weights",
            retinanet,
            retinanet,
            "postprocess_detections",
            dense_detections,
            images,
            ONE_STAGE,
        ),
    ]
    console.print(
        f"{platform.machine()}, torchvision {torchvision.__version__}, P1 = {arguments.candidates:,}, one thread"
    )
    for workload in workloads:
        table = Table(title=f"{workload.name}: {len(workload.boxes):,} boxes", box=SIMPLE)
        for column in ("suppression", "boxes out", "ms", "torchvision / it"):
            table.add_column(column, justify="left" if column == "suppression" else "right")
        with console.status(f"measuring {workload.name} …"):
            for row in measure(workload):
                table.add_row(*row)
        console.print(table)
    if arguments.total:
        torch.set_num_threads(threads[0])
        hashnms.set_num_threads(threads[1])
        show_totals(console, faster_rcnn, retinanet, images)


def crowded_retinanet(images: list[Tensor], size: int, candidates: int) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        settings = {"min_size": size, "topk_candidates": candidates, "detections_per_img": 1000}
        model = retinanet_resnet50_fpn(weights=None, weights_backbone=None, num_classes=2, **settings)
    return crowd_scores(model.eval(), images)


@torch.no_grad()
def recorded(
    name: str,
    model: Any,
    module: Any,
    method: str,
    function: Callable[..., Any],
    images: list[Tensor],
    suppressions: list[str | None],
) -> Workload:
    """Record the input of a module's suppression in a forward pass."""
    given: list[Any] = []

    class Recorder(Replacement):
        def __call__(self, *args: Any) -> Any:
            given.extend(args)
            return super().__call__(*args)

    setattr(module, method, partial(function, module, Recorder()))
    model(images)
    delattr(module, method)
    return Workload(name, *given, suppressions)


def as_if_trained(preset: str, rpn: Any, size: int, candidates: int) -> Workload:
    """Simulate a trained RPN: anchors on objects are moved towards them and get higher scores."""
    objects = torch.from_numpy(make_scene(preset, 1).gt_boxes)
    objects *= size / objects.max()
    grids = [[-(-size // stride)] * 2 for stride in (4, 8, 16, 32, 64)]
    strides = [[torch.tensor(size // grid[0])] * 2 for grid in grids]
    generator = torch.Generator().manual_seed(0)
    levels = []
    rpn.anchor_generator.set_cell_anchors(torch.float32, torch.device("cpu"))
    for level, anchors in enumerate(rpn.anchor_generator.grid_anchors(grids, strides)):
        best = [torchvision.ops.box_iou(some, objects).max(1) for some in anchors.split(10_000)]
        iou, nearest = (torch.cat(parts)[:, None] for parts in zip(*best, strict=True))
        noise = 0.08 * torch.randn(anchors.shape, generator=generator) * (anchors[:, 2:] - anchors[:, :2]).repeat(1, 2)
        boxes = torch.where(iou > 0.3, objects[nearest[:, 0]] + noise * (1.3 - iou), anchors + noise / 2).clamp(0, size)
        boxes = torch.cat([boxes[:, :2], torch.maximum(boxes[:, :2], boxes[:, 2:])], 1)
        logits = torch.where(iou > 0.3, 8 * iou - 3, -5)[:, 0] + torch.randn(len(boxes), generator=generator)
        scores, rows = logits.sigmoid().topk(min(candidates, len(boxes)))
        levels.append((boxes[rows], scores, torch.full_like(rows, level)))
    data = (torch.cat(parts) for parts in zip(*levels, strict=True))
    return Workload(f"RPN as if trained, {preset} with {len(objects)} objects", *data, 0.7, 1000, RPN)


def around_objects(candidates: int) -> Workload:
    """Only boxes around the objects of a scene, by class. Few are kept, which makes torchvision's NMS fast."""
    scene = make_scene("parking_lot")
    data = [torch.from_numpy(array) for array in (scene.boxes, scene.scores, scene.labels)]
    rows = Suppression([hashnms.TopK(candidates)])(*data).keep
    return Workload("Boxes around objects only", *(tensor[rows] for tensor in data), 0.7, 1000, RPN)


def measure(workload: Workload) -> Iterator[tuple[str, ...]]:
    """Rows of the table, torchvision's own first."""
    _, boxes, scores, labels, iou_threshold, limit, suppressions = workload

    def stock() -> Tensor:
        return torchvision.ops.batched_nms(boxes, scores, labels, iou_threshold)[:limit]

    calls: dict[str, Callable[[], Tensor]] = {"torchvision": stock}
    for notation in suppressions:
        replacement = Replacement(None if notation is None else Suppression.parse(notation))
        call = partial(replacement, boxes, scores, labels, iou_threshold, limit)
        calls["exact nms (the default)" if notation is None else notation] = lambda call=call: call()[0]
    assert torch.equal(calls["exact nms (the default)"](), stock())
    times = shortest(calls, rounds=7)
    for method, seconds in times.items():
        ratio = f"{times['torchvision'] / seconds:,.0f}x" if method != "torchvision" else ""
        yield method, f"{len(calls[method]()):,}", f"{1e3 * seconds:.3g}", ratio


def show_totals(console: Console, faster_rcnn: Any, retinanet: Any, images: list[Tensor]) -> None:
    runs = [
        ("Faster R-CNN, exact NMS", faster_rcnn, {}),
        ("Faster R-CNN, HNMS", faster_rcnn, {"proposals": Suppression.parse("hnms:0.7/1")}),
        ("RetinaNet, exact NMS", retinanet, {}),
        ("RetinaNet, HNMS + NMS", retinanet, {"final": Suppression.parse("hnms:0.73/1+nms:0.5")}),
    ]
    for title, model, settings in runs:
        with console.status(f"{title} …"):
            result = profile(model, images, **settings)
        console.print(result.table(title))


if __name__ == "__main__":
    main()
