"""The objects of the scenes, each an RGBA picture, drawn large and then shrunk, so that edges are smooth."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow
from PIL import ImageDraw

Sprite: TypeAlias = NDArray[np.uint8]  # (h, w, 4) RGBA
Colour: TypeAlias = tuple[int, int, int]

_SCALE = 4  # drawn this many times larger

#: The colours of cars.
_CAR_COLOURS: list[Colour] = [
    *((235, 235, 235), (190, 192, 196), (120, 124, 130), (40, 42, 48), (170, 30, 34)),
    *((34, 60, 140), (30, 90, 70), (200, 180, 140), (90, 30, 50), (225, 160, 40)),
]
_SKIN: list[Colour] = [(241, 205, 178), (214, 160, 122), (150, 100, 70), (92, 60, 44)]
_HAIR: list[Colour] = [(30, 24, 20), (80, 54, 34), (150, 110, 60), (190, 190, 190), (60, 60, 66)]


class _Sheet:
    """A transparent sheet on which coordinates are shares of its width and height."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = max(2, round(width)), max(2, round(height))
        self.picture = Pillow.new("RGBA", (self.width * _SCALE, self.height * _SCALE))
        self.draw = ImageDraw.Draw(self.picture)

    def _points(self, *shares: float) -> list[float]:
        sides = (self.picture.width - 1, self.picture.height - 1)
        return [share * sides[number % 2] for number, share in enumerate(shares)]

    def rounded(self, x1: float, y1: float, x2: float, y2: float, colour: Colour, corner: float = 0.3) -> None:
        points = self._points(x1, y1, x2, y2)
        radius = corner * min(points[2] - points[0], points[3] - points[1])
        self.draw.rounded_rectangle(points, radius, fill=(*colour, 255))

    def ellipse(self, x1: float, y1: float, x2: float, y2: float, colour: Colour) -> None:
        self.draw.ellipse(self._points(x1, y1, x2, y2), fill=(*colour, 255))

    def polygon(self, *shares: float, colour: Colour) -> None:
        self.draw.polygon(self._points(*shares), fill=(*colour, 255))

    def sprite(self, rng: np.random.Generator, angle: float = 0.0, *, round_body: bool = False) -> Sprite:
        """Turn, shrink, shade and roughen the sheet."""
        picture = self.picture
        if angle:
            picture = picture.rotate(-angle, Pillow.Resampling.BILINEAR, expand=True)
        size = (max(1, round(picture.width / _SCALE)), max(1, round(picture.height / _SCALE)))
        pixels = np.array(picture.convert("RGBa").resize(size, Pillow.Resampling.BOX).convert("RGBA"))
        shade = 1 + 0.05 * rng.standard_normal((*pixels.shape[:2], 1))
        if round_body:  # darker towards the sides
            shade *= 1.08 - 0.35 * np.linspace(-1, 1, pixels.shape[1])[None, :, None] ** 2
        pixels[..., :3] = np.clip(pixels[..., :3] * shade, 0, 255)
        return pixels


def _any_colour(rng: np.random.Generator) -> Colour:
    """A random colour, saturated or pale, light or dark."""
    grey, spread = rng.uniform(40, 210), rng.uniform(10, 90)
    return _shifted((0, 0, 0), grey + rng.uniform(-spread, spread, 3))


def _one_of(rng: np.random.Generator, colours: list[Colour]) -> Colour:
    return _shifted(colours[rng.integers(len(colours))], rng.uniform(-14, 14, 3))


def _shifted(colour: Colour, by: Any) -> Colour:
    red, green, blue = np.clip(np.asarray(colour) + by, 0, 255).astype(int).tolist()
    return red, green, blue


def car(rng: np.random.Generator, length: float, angle: float, *, van: bool = False) -> Sprite:
    """A car seen from above, its front towards `angle` in degrees, clockwise from the right."""
    sheet = _Sheet(length, length * (0.47 if van else 0.45))
    paint = _one_of(rng, _CAR_COLOURS[:3] if van else _CAR_COLOURS)
    glass, roof = _shifted((30, 36, 44), rng.uniform(0, 25)), _shifted(paint, rng.uniform(6, 26))
    front, rear = (0.86, 0.04) if van else (0.72, 0.16)  # where the windows begin
    sheet.rounded(0, 0.03, 1, 0.97, _shifted(paint, -25), 0.42)
    sheet.rounded(0.02, 0.07, 0.98, 0.93, paint, 0.4)
    sheet.rounded(rear, 0.11, front, 0.89, glass, 0.25)
    sheet.rounded(rear + 0.08, 0.17, front - 0.15, 0.83, roof, 0.25)
    for y in (0.12, 0.72):
        sheet.ellipse(0.93, y, 0.99, y + 0.16, (250, 246, 215))
        sheet.ellipse(0.01, y, 0.05, y + 0.16, (190, 30, 30))
    return sheet.sprite(rng, angle)


def bottle(rng: np.random.Generator, width: float, height: float) -> Sprite:
    """A bottle, a can or a carton, with a label."""
    form = rng.integers(3)
    body, label, cap = _any_colour(rng), _any_colour(rng), _any_colour(rng)
    sheet = _Sheet(width, height if form != 1 else 0.8 * height)
    if form == 0:
        sheet.rounded(0.36, 0, 0.64, 0.1, cap, 0.2)
        sheet.polygon(0.38, 0.08, 0.62, 0.08, 0.66, 0.24, 0.96, 0.38, 0.04, 0.38, 0.34, 0.24, colour=body)
        sheet.rounded(0.02, 0.33, 0.98, 1, body, 0.15)
        top, bottom = 0.48, 0.82
    elif form == 1:
        sheet.rounded(0.02, 0, 0.98, 1, _shifted((170, 172, 176), 0), 0.15)
        sheet.rounded(0.02, 0.07, 0.98, 0.94, body, 0.06)
        top, bottom = 0.25, 0.75
    else:
        sheet.polygon(0.12, 0.08, 0.88, 0.08, 1, 0.24, 0, 0.24, colour=_shifted(body, -30))
        sheet.rounded(0.1, 0, 0.9, 0.1, cap, 0.1)
        sheet.rounded(0, 0.22, 1, 1, body, 0.02)
        top, bottom = 0.36, 0.7
    sheet.rounded(0.04, top, 0.96, bottom, label, 0.08)
    middle = (top + bottom) / 2
    sheet.ellipse(0.28, middle - 0.1, 0.72, middle + 0.1, _shifted(label, rng.choice([-70, 70])))
    sheet.rounded(0.2, bottom - 0.06, 0.8, bottom - 0.03, _shifted(label, -90), 0)
    return sheet.sprite(rng, round_body=form != 2)


def person(rng: np.random.Generator, height: float) -> Sprite:
    """A person from the front: head, trunk with arms, legs."""
    sheet = _Sheet(height * rng.uniform(0.32, 0.42), height)
    skin, hair, shirt, trousers = _one_of(rng, _SKIN), _one_of(rng, _HAIR), _any_colour(rng), _any_colour(rng)
    sleeve, spread = _shifted(shirt, -22), rng.uniform(0, 0.08)
    sheet.rounded(0.26 - spread, 0.5, 0.49 - spread / 2, 0.97, trousers, 0.3)
    sheet.rounded(0.51 + spread / 2, 0.5, 0.74 + spread, 0.97, _shifted(trousers, -12), 0.3)
    for left in (0.22 - spread, 0.54 + spread):
        sheet.rounded(left, 0.95, left + 0.24, 1, (36, 30, 28), 0.4)
    for left in (0.02, 0.8):
        sheet.rounded(left, 0.2, left + 0.18, 0.52, sleeve, 0.5)
        sheet.ellipse(left + 0.02, 0.49, left + 0.16, 0.56, skin)
    sheet.rounded(0.14, 0.165, 0.86, 0.56, shirt, 0.25)
    if rng.random() < 0.4:  # a stripe
        sheet.rounded(0.2, 0.3, 0.8, 0.36, _any_colour(rng), 0)
    sheet.rounded(0.42, 0.12, 0.58, 0.19, _shifted(skin, -20), 0)
    sheet.ellipse(0.28, 0, 0.72, 0.15, hair)
    sheet.ellipse(0.32, 0.035, 0.68, 0.155, skin)
    return sheet.sprite(rng)
