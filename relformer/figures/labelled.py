"""Heatmaps with everything a reader needs: heads and layers named, axes, tokens, units, the colour scale."""

from __future__ import annotations

from collections.abc import Container

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from relformer.encodings import Role
from relformer.figures.chart import LETTER, Shape, Stroke, Text, short
from relformer.figures.chart_png import FINE, painted
from relformer.figures.heatmap import Maps, coloured

SIDE = 132
"""Pixels of a map; a longer one has a pixel a position."""
LEFT, TOP, GAP, TITLE, FOOT, SCALE = 54, 34, 14, 18, 46, 76
BAR = 14
CELL, MOST_TOKENS, MOST_LETTERS = 14, 40, 12
"""Of attention: pixels of a weight, the longest sequence whose tokens are written, and how much of a token is."""


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


def attention_heatmap(weights: Maps, queries: list[str], keys: list[str], title: str) -> NDArray[np.uint8]:
    """Attention weights (layers, H, Q, K) of one sentence, a panel a head, with their tokens: (h, w, 3).

    White is no attention, red all of it, grey hidden by the mask. Of sequences of more than `MOST_TOKENS` the ends are
    numbered instead; of a long token its first letters are written.
    """
    layers, heads, rows, columns = weights.shape
    named = max(rows, columns) <= MOST_TOKENS
    cell = CELL if named else max(1, SIDE // max(rows, columns))
    down, across = (spelt(each) if named else numbered(each) for each in (queries, keys))
    left, foot = (16 + LETTER * max(map(len, each)) for each in (down, across))
    wide, high = columns * cell, rows * cell
    width, height = left + heads * (wide + GAP) + SCALE, TOP + layers * (high + TITLE + GAP) + foot
    image = Image.new("RGB", (round(width) * FINE, round(height) * FINE), "white")
    found: list[Shape] = [Text((10, 18), title, size=13)]
    for layer, head in np.ndindex(layers, heads):
        x, y = round(left) + head * (wide + GAP), TOP + layer * (high + TITLE + GAP) + TITLE
        paste(image, coloured(weights[layer, head], 1.0), (x, y), (wide, high))
        found.append(Text((x, y - 5), f"layer {layer + 1}, head {head + 1}"))
        if head == 0:
            found += [Text((x - 4, y + cell * (n + 0.5) + 4), token, "end", 10) for n, token in enumerate(down)]
        if layer == layers - 1:
            found += [
                Text((x + cell * (n + 0.5) + 4, y + high + 4), token, "end", 10, turned=True)
                for n, token in enumerate(across)
            ]
    found += scale(image, (round(width) - SCALE + 6, TOP + TITLE), max(high, BAR), 1.0, 0.0, "weight")
    return np.asarray(painted(image, found))


def sides(slots: Container[str], source: list[str], target: list[str]) -> dict[Role, tuple[list[str], list[str]]]:
    """The tokens of each slot's queries and keys; a decoder without an encoder reads the source as well."""
    if "encoder" not in slots:
        return {"decoder": (source + target, source + target)}
    return {"encoder": (source, source), "decoder": (target, target), "cross": (target, source)}


def spelt(tokens: list[str]) -> list[str]:
    return [token if len(token) <= MOST_LETTERS else f"{token[: MOST_LETTERS - 2]}.." for token in tokens]


def numbered(tokens: list[str]) -> list[str]:
    """The first and the last position."""
    return ["0", *[""] * (len(tokens) - 2), str(len(tokens) - 1)]


def scale(
    image: Image.Image, at: tuple[int, int], high: int, limit: float, least: float | None = None, unit: str = "nats"
) -> list[Shape]:
    """The colour bar, from +limit down to -limit or what is `least`."""
    x, y = at
    least = -limit if least is None else least
    paste(image, coloured(np.linspace(limit, least, 256)[:, None], limit), at, (BAR, high))
    found: list[Shape] = [Text((x, y - 5), unit, size=10)]
    for value in (limit, (limit + least) / 2, least):
        level = y + high * (limit - value) / (limit - least)
        found += [
            Stroke([(x + BAR, level), (x + BAR + 4, level)], "axis"),
            Text((x + BAR + 7, level + 4), short(value), size=10),
        ]
    return found


def paste(image: Image.Image, pixels: NDArray[np.uint8], at: tuple[int, int], size: tuple[int, int]) -> None:
    wide = (size[0] * FINE, size[1] * FINE)
    image.paste(Image.fromarray(pixels).resize(wide, Image.Resampling.NEAREST), (at[0] * FINE, at[1] * FINE))
