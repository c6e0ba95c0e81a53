"""A chart as pixels, by Pillow: ten milliseconds a picture."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from relformer.figures.chart import Band, Chart, Dot, Point, Shape, Stroke, Text, colour_of, dash_of, shapes

FINE = 2
"""Drawn so many times larger and made smaller, which smooths lines."""
INK = "#222222"
WIDTHS = {"-": 1.8, "--": 0.9, "-.": 3.0, ":": 1.2}
"""Pillow draws no dashes; lines that share a colour differ in width."""


def chart_pixels(charts: Sequence[Chart]) -> NDArray[np.uint8]:
    """Charts side by side on white: (h, w, 3)."""
    panels = [panel(chart) for chart in charts]
    sheet = Image.new("RGB", (sum(p.width for p in panels), max(p.height for p in panels)), "white")
    left = 0
    for each in panels:
        sheet.paste(each, (left, 0))
        left += each.width
    return np.asarray(sheet)


def panel(chart: Chart) -> Image.Image:
    found, height = shapes(chart)
    return painted(Image.new("RGB", (chart.width * FINE, height * FINE), "white"), found)


def painted(image: Image.Image, found: Sequence[Shape]) -> Image.Image:
    """The shapes on an image that is `FINE` times as large as what comes back."""
    draw = ImageDraw.Draw(image, "RGBA")
    for shape in found:
        match shape:
            case Band(points, role):
                draw.polygon(fine(points), fill=colour_of(role) + "26")
            case Stroke(points, role):
                width = WIDTHS[dash_of(role)] if isinstance(role, int) else 1
                draw.line(fine(points), fill=colour_of(role), width=round(width * FINE), joint="curve")
            case Dot(at, role):
                dot(draw, at, colour_of(role))
            case Text():
                write(image, draw, shape)
    return image.reduce(FINE)


def fine(points: Sequence[Point]) -> list[Point]:
    return [(x * FINE, y * FINE) for x, y in points]


def dot(draw: ImageDraw.ImageDraw, at: Point, colour: str) -> None:
    (x, y), r = (at[0] * FINE, at[1] * FINE), 2.5 * FINE
    draw.ellipse((x - r, y - r, x + r, y + r), fill=colour)


def write(image: Image.Image, draw: ImageDraw.ImageDraw, text: Text) -> None:
    side = {"start": "l", "middle": "m", "end": "r"}[text.anchor]
    x, y = text.at[0] * FINE, text.at[1] * FINE
    if not text.turned:
        draw.text((x, y), text.text, fill=INK, font=font(text.size * FINE), anchor=f"{side}s")
        return
    wide, high = round(font(text.size * FINE).getlength(text.text)), text.size * FINE + 8
    strip = Image.new("RGB", (wide, high), "white")
    ImageDraw.Draw(strip).text((0, high - 6), text.text, fill=INK, font=font(text.size * FINE), anchor="ls")
    above = {"start": wide, "middle": wide / 2, "end": 0}[text.anchor]
    image.paste(strip.rotate(90, expand=True), (round(x) - high + 6, round(y - above)))


@lru_cache
def font(size: int) -> ImageFont.FreeTypeFont:
    found = ImageFont.load_default(size)
    assert isinstance(found, ImageFont.FreeTypeFont)
    return found
