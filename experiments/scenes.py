"""Draw crowded scenes with exact boxes: a parking lot from above, a shelf, a crowd in a square.

Every object is a sprite, painted over those behind it, so its visible part is known to the pixel. Objects that would be
almost invisible are left out. Size, colour, light, texture and background vary from scene to scene.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from experiments.datasets.common import Drawing, Size
from experiments.sprites import bottle, car, person

Canvas: TypeAlias = NDArray[np.float32]  # (H, W, 3), 0 to 255
Rng: TypeAlias = np.random.Generator

#: Objects with a smaller visible share, or a visible box with a shorter side, are not drawn.
_LEAST_SHARE, _LEAST_SIDE = 0.2, 5


@dataclass(frozen=True, eq=False)
class Placed:
    """A sprite and the position of its upper left corner; later sprites in a list hide earlier ones."""

    kind: str
    sprite: NDArray[np.uint8]  # (h, w, 4) RGBA
    x: int
    y: int
    shadow: int = 0  # how far it falls, to the lower right


def draw(kind: str, rng: Rng, size: Size = (320, 240)) -> Drawing:
    """Draw a scene of one of `KINDS`; the same generator state gives the same scene."""
    canvas, placed, regions = KINDS[kind](rng, size)
    placed = _seen(placed, size)
    owners = _owners(placed, size)
    for one in placed:
        _paint(canvas, one)
    return Drawing(
        pixels=_lit(rng, canvas),
        kinds=tuple(one.kind for one in placed),
        boxes=_rows([_extent(owners == number) for number in range(len(placed))]),
        full_boxes=_rows([_full_box(one) for one in placed]),
        visible=_shares(placed, owners),
        regions=_rows(regions),
    )


def _rows(boxes: list[list[int]]) -> NDArray[np.int64]:
    return np.array(boxes, np.int64).reshape(-1, 4)


# --- occlusion


def _solid(placed: Placed) -> NDArray[np.bool_]:
    solid: NDArray[np.bool_] = placed.sprite[..., 3] >= 128
    return solid


def _inside(placed: Placed, canvas: NDArray[Any], offset: int = 0) -> tuple[Any, Any]:
    """The part of the image that a sprite covers, and the part of the sprite that is in the image."""
    height, width = canvas.shape[:2]
    x, y = placed.x + offset, placed.y + offset
    rows, columns = placed.sprite.shape[:2]
    top, bottom = max(y, 0), max(0, min(y + rows, height))
    left, right = max(x, 0), max(0, min(x + columns, width))
    image = (slice(top, max(top, bottom)), slice(left, max(left, right)))
    return image, (slice(top - y, max(top, bottom) - y), slice(left - x, max(left, right) - x))


def _owners(placed: list[Placed], size: Size) -> NDArray[np.int64]:
    """For each pixel, the visible object; -1 for none."""
    owners = np.full(size[::-1], -1)
    for number, one in enumerate(placed):
        image, sprite = _inside(one, owners)
        owners[image][_solid(one)[sprite]] = number
    return owners


def _shares(placed: list[Placed], owners: NDArray[np.int64]) -> NDArray[np.float64]:
    seen = np.bincount(owners[owners >= 0], minlength=len(placed))
    shares: NDArray[np.float64] = seen / np.array([_solid(one).sum() for one in placed])
    return shares


def _seen(placed: list[Placed], size: Size) -> list[Placed]:
    """Remove objects that are hidden or too small. That can only uncover others."""
    owners = _owners(placed, size)
    shares = _shares(placed, owners)
    kept = []
    for number, one in enumerate(placed):
        if shares[number] < _LEAST_SHARE:
            continue
        x1, y1, x2, y2 = _extent(owners == number)
        if min(x2 - x1, y2 - y1) >= _LEAST_SIDE:
            kept.append(one)
    return kept


def _extent(mask: NDArray[np.bool_]) -> list[int]:
    columns, rows = np.flatnonzero(mask.any(axis=0)), np.flatnonzero(mask.any(axis=1))
    return [int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1]


def _full_box(placed: Placed) -> list[int]:
    x1, y1, x2, y2 = _extent(_solid(placed))
    return [placed.x + x1, placed.y + y1, placed.x + x2, placed.y + y2]


# --- paint and light


def _paint(canvas: Canvas, placed: Placed) -> None:
    if placed.shadow:
        image, sprite = _inside(placed, canvas, placed.shadow)
        canvas[image] *= 1 - 0.45 * placed.sprite[sprite][..., 3:] / np.float32(255)
    image, sprite = _inside(placed, canvas)
    alpha = placed.sprite[sprite][..., 3:] / np.float32(255)
    canvas[image] += alpha * (placed.sprite[sprite][..., :3] - canvas[image])


def _lit(rng: Rng, canvas: Canvas) -> NDArray[np.uint8]:
    """Brighter on one side, tinted, with clouds and the noise of a camera."""
    height, width = canvas.shape[:2]
    y, x = np.mgrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]
    angle = rng.uniform(0, 2 * np.pi)
    light = rng.uniform(0.7, 1.15) * (1 + 0.15 * (x * np.cos(angle) + y * np.sin(angle)))
    light *= 1 + rng.uniform(0, 0.2) * _clouds(rng, (width, height), 3)
    tint = 1 + rng.uniform(-0.06, 0.06, 3)
    noise = rng.normal(0, rng.uniform(2, 6), canvas.shape)
    pixels: NDArray[np.uint8] = np.clip(canvas * light[..., None] * tint + noise, 0, 255).astype(np.uint8)
    return pixels


def _clouds(rng: Rng, size: Size, cells: int) -> NDArray[np.float32]:
    """Smooth noise from -1 to 1, with about `cells` waves across."""
    coarse = rng.uniform(-1, 1, (cells + 1, cells + 1)).astype(np.float32)
    return np.asarray(Pillow.fromarray(coarse).resize(size, Pillow.Resampling.BICUBIC))


def _ground(rng: Rng, size: Size, colour: Any, roughness: float) -> Canvas:
    """A plain colour with spots, large and small."""
    texture = np.sum([_clouds(rng, size, cells) for cells in (4, 16, 60)], axis=0)
    canvas: Canvas = (np.asarray(colour) * (1 + roughness * texture[..., None])).astype(np.float32)
    return canvas


# --- the scenes: background, objects from back to front, regions to ignore

Scene: TypeAlias = tuple[Canvas, list[Placed], list[list[int]]]


def _parking_lot(rng: Rng, size: Size) -> Scene:
    """Rows of cars, at an angle that makes the boxes of neighbours overlap; most stalls are occupied."""
    width, height = size
    canvas = _ground(rng, size, rng.uniform(80, 150) + rng.uniform(-8, 8, 3), 0.1)
    length = width / rng.uniform(9, 13)
    pitch, taken = length * rng.uniform(0.54, 0.62), rng.uniform(0.6, 0.95)
    angle = rng.uniform(14, 45) * rng.choice([-1, 1])
    along = np.array([np.cos(np.radians(angle)), np.sin(np.radians(angle))])
    across = np.array([-along[1], along[0]])
    placed = []
    reach = (width + height) / 2
    depth = -reach
    for row in range(int(3 * reach / length)):
        depth += length * (1.08 if row % 2 else rng.uniform(1.5, 2.0))  # every second row has a lane before it
        if depth > reach:
            break
        for step in np.arange(-reach, reach, pitch):
            centre = np.array([width, height]) / 2 + along * (step + rng.normal(0, 0.03 * pitch)) + across * depth
            _stall_line(canvas, centre - along * pitch / 2, across, length)
            if rng.random() < taken and (np.abs(centre / size - 0.5) < 0.6).all():
                turned = angle + 90 + 180 * rng.integers(2) + rng.normal(0, 3)
                placed.append(_car_at(rng, centre, length, turned))
    placed.sort(key=lambda one: one.y)
    return canvas, placed, []


def _stall_line(canvas: Canvas, middle: Any, direction: Any, length: float) -> None:
    steps = np.arange(-length / 2, length / 2, 0.5)[:, None]
    x, y = np.rint(middle + steps * direction).astype(int).T
    inside = (x >= 0) & (y >= 0) & (x < canvas.shape[1]) & (y < canvas.shape[0])
    canvas[y[inside], x[inside]] = 200


def _car_at(rng: Rng, centre: Any, length: float, angle: float) -> Placed:
    van = rng.random() < 0.12
    sprite = car(rng, length * rng.uniform(0.84, 0.98) * (1.12 if van else 1), angle, van=van)
    x, y = np.rint(centre - np.array(sprite.shape[1::-1]) / 2).astype(int)
    return Placed("van" if van else "car", sprite, int(x), int(y), shadow=max(1, round(length / 16)))


def _shelf(rng: Rng, size: Size) -> Scene:
    """Boards with runs of equal products, some in a second row behind."""
    width, height = size
    canvas = _ground(rng, size, rng.uniform(40, 120) + rng.uniform(-12, 12, 3), 0.06)
    boards = int(rng.integers(3, 5))
    room, edge = height / boards, max(3, height // 48)
    board, tag = rng.uniform(130, 225) + rng.uniform(-15, 15, 3), rng.uniform(170, 250, 3)
    placed = []
    for number in range(boards):
        floor = round((number + 1) * room) - edge
        canvas[floor : floor + edge] = board
        canvas[floor - round(room) + edge : floor - round(room) + 3 * edge] *= 0.6  # the shadow of the board above
        for x in range(int(rng.integers(30)), width, 40):
            canvas[floor : floor + edge, x : x + 12] = tag
        back, front = _runs(rng, width, room, floor)
        placed += back + front
    return canvas, placed, []


def _runs(rng: Rng, width: int, room: float, floor: int) -> tuple[list[Placed], list[Placed]]:
    """The products of one board: in the back, and in front."""
    back, front = [], []
    x = float(rng.uniform(-10, 0))
    while x < width:
        wide, high, look = room * rng.uniform(0.24, 0.42), room * rng.uniform(0.55, 0.8), int(rng.integers(2**31))
        step = wide * rng.uniform(0.82, 1.04)
        for _ in range(int(rng.integers(2, 7))):
            sprite = bottle(np.random.default_rng(look), wide * rng.uniform(0.96, 1.04), high * rng.uniform(0.97, 1.03))
            left, top = round(x + rng.normal(0, 0.03 * wide)), floor - sprite.shape[0]
            if rng.random() < 0.5:
                dim = (sprite * np.array([0.75, 0.75, 0.75, 1])).astype(np.uint8)
                back.append(Placed("bottle", dim, left + round(step / 2), top - round(0.14 * room)))
            if rng.random() < 0.93:
                front.append(Placed("bottle", sprite, left, top + 1))
            x += step
        x += wide * rng.uniform(0, 0.3)
    return back, front


def _crowd(rng: Rng, size: Size) -> Scene:
    """People in a square, larger when nearer; in the distance, a crowd that cannot be counted."""
    width, height = size
    horizon = round(height * rng.uniform(0.25, 0.4))
    canvas = _ground(rng, size, rng.uniform(90, 190) + rng.uniform(-20, 20, 3), 0.1)
    canvas[:horizon] = _facades(rng, (width, horizon))
    left = int(rng.integers(0, width // 2))
    region = [left, horizon - height // 24, left + width // 4, horizon + height // 24]
    far = [_person_at(rng, x, region[3], height / 13) for x in rng.uniform(left, region[2] - 6, width // 8)]
    for one in far:
        _paint(canvas, one)
    count = int(rng.integers(22, 40))
    nearness = np.sort(rng.beta(1.0, 1.3, count))
    placed = []
    for near in nearness:
        tall = height * (0.17 + 0.45 * near) * rng.uniform(0.88, 1.1)
        feet = horizon + height * (0.1 + 0.8 * near)
        placed.append(_person_at(rng, rng.uniform(-0.08, 0.97) * width, feet, tall))
    return canvas, placed, [region]


def _person_at(rng: Rng, x: float, feet: float, tall: float) -> Placed:
    sprite = person(rng, tall)
    return Placed("person", sprite, round(x), round(feet) - sprite.shape[0], shadow=max(1, round(tall / 40)))


def _facades(rng: Rng, size: Size) -> Canvas:
    """Sky, and houses with windows."""
    width, height = size
    canvas = _ground(rng, size, rng.uniform((120, 150, 190), (190, 210, 240)), 0.05)
    x = 0
    while x < width:
        wide, top = int(rng.integers(30, 80)), int(rng.integers(0, max(1, height // 2)))
        canvas[top:, x : x + wide] = rng.uniform(70, 190) + rng.uniform(-25, 25, 3)
        pane = rng.uniform(30, 90)
        for left in range(x + 4, min(x + wide, width) - 6, 12):
            for upper in range(top + 5, height - 8, 14):
                canvas[upper : upper + 7, left : left + 5] = pane
        x += wide
    return canvas


#: Kind of scene -> function that draws it.
KINDS: dict[str, Callable[[Rng, Size], Scene]] = {"parking_lot": _parking_lot, "shelf": _shelf, "crowd": _crowd}
