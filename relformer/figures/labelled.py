"""Heatmaps with everything a reader needs: heads and layers named, axes, units, the colour scale."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from relformer.figures.chart import Shape, Stroke, Text, short
from relformer.figures.chart_png import FINE, painted
from relformer.figures.heatmap import Maps, coloured

SIDE = 132
"""Pixels of a map; a longer one has a pixel a position."""
LEFT, TOP, GAP, TITLE, FOOT, SCALE = 54, 34, 14, 18, 46, 76
BAR = 14


def labelled_heatmap(maps: Maps, limit: float, title: str, rows: list[str] | None = None) -> NDArray[np.uint8]:
    """Maps (layers, H, L, L) in nats on the scale of `heatmap_grid`, a panel a head: (h, w, 3).

    `rows` names the rows, "layer 1" and so on unless told; heads count from 1.
    """
    layers, heads, length, _ = maps.shape
    side = SIDE // length * length if length <= SIDE else length
    rows = rows or [f"layer {number + 1}" for number in range(layers)]
    width = LEFT + heads * (side + GAP) + SCALE
    height = TOP + layers * (side + TITLE + GAP) + FOOT
    image = Image.new("RGB", (width * FINE, height * FINE), "white")
    found: list[Shape] = [Text((LEFT, 18), title, size=13)]
    for layer, name in enumerate(rows):
        for head in range(heads):
            x, y = LEFT + head * (side + GAP), TOP + layer * (side + TITLE + GAP) + TITLE
            paste(image, coloured(maps[layer, head], limit), (x, y), (side, side))
            found += [Text((x, y - 5), f"{name}, head {head + 1}"), *ends(x, y, side, length, head == 0)]
            if layer == layers - 1:
                found += [
                    Text((x, y + side + 14), "0", size=10),
                    Text((x + side, y + side + 14), str(length - 1), "end", 10),
                ]
    middle = LEFT + heads * (side + GAP) / 2
    found.append(Text((middle, height - 10), "key position j", "middle"))
    found.append(Text((14, TOP + (height - TOP - FOOT) / 2), "query position i", "middle", turned=True))
    found += scale(image, (width - SCALE + 6, TOP + TITLE), side, limit)
    return np.asarray(painted(image, found))


def ends(x: float, y: float, side: int, length: int, first: bool) -> list[Shape]:
    """The first and the last position beside the left map of a row."""
    if not first:
        return []
    return [Text((x - 5, y + 9), "0", "end", 10), Text((x - 5, y + side), str(length - 1), "end", 10)]


def scale(image: Image.Image, at: tuple[int, int], high: int, limit: float) -> list[Shape]:
    """The colour bar, from +limit down to -limit."""
    x, y = at
    paste(image, coloured(np.linspace(limit, -limit, 256)[:, None], limit), at, (BAR, high))
    found: list[Shape] = [Text((x, y - 5), "nats", size=10)]
    for value in (limit, 0.0, -limit):
        level = y + high * (limit - value) / (2 * limit)
        found += [
            Stroke([(x + BAR, level), (x + BAR + 4, level)], "axis"),
            Text((x + BAR + 7, level + 4), short(value), size=10),
        ]
    return found


def paste(image: Image.Image, pixels: NDArray[np.uint8], at: tuple[int, int], size: tuple[int, int]) -> None:
    wide = (size[0] * FINE, size[1] * FINE)
    image.paste(Image.fromarray(pixels).resize(wide, Image.Resampling.NEAREST), (at[0] * FINE, at[1] * FINE))
