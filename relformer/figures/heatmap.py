"""Heatmaps of attention biases: a fast pixel grid for logging during training and a figure for papers.

The colour scale is fixed by the caller and never follows the data, so that pictures of different steps compare.
"""

from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from relformer.errors import OptionError
from relformer.files import replacing

Maps = NDArray[np.floating]
COLOURS = "RdBu_r"
NO_VALUE = 160
GAP_VALUE = 50
GAP = 4
MAP_PIXELS = 128
ROW_HEADS = 6
MARGIN = 1.1
"""Inches of a figure's width for labels and the colour bar."""


def toeplitz_maps(table: NDArray[np.floating]) -> Maps:
    """Spread a bias by distance over all pairs of positions: (heads, 2L-1) -> (heads, L, L), query by key.

    Column r of the table holds the distance i - j = r - (L - 1) of query i and key j.
    Raises ValueError on a bad shape.
    """
    if table.ndim != 2 or table.shape[1] % 2 == 0:
        raise ValueError(f"table must have shape (heads, 2L-1), got {table.shape}")
    length = (table.shape[1] + 1) // 2
    position = np.arange(length)
    distance = position[:, None] - position[None, :]
    return table[:, distance + length - 1]


def heatmap_grid(maps: Maps, limit: float) -> NDArray[np.uint8]:
    """Colour maps (rows, heads, L, L) in nats as one image (h, w, 3): heads side by side, one row a layer.

    Blue is -limit, white 0, red +limit; what lies beyond gets the end colour (``caption`` states its share), NaN is
    grey. Pixels are repeated, not blurred, until a map is at least 128 pixels on a side.
    Raises OptionError for a scale that is not positive, ValueError for a bad shape.
    """
    _check(maps, limit)
    rows, heads, length, _ = maps.shape
    scale = max(1, -(-MAP_PIXELS // length))
    pixels = coloured(maps, limit).repeat(scale, axis=2).repeat(scale, axis=3)
    side = length * scale
    pad = ((0, 0), (0, 0), (GAP, 0), (GAP, 0), (0, 0))
    pixels = np.pad(pixels, pad, constant_values=GAP_VALUE)
    pixels = pixels.transpose(0, 2, 1, 3, 4).reshape(rows * (side + GAP), heads * (side + GAP), 3)
    return np.pad(pixels, ((0, GAP), (0, GAP), (0, 0)), constant_values=GAP_VALUE)


def coloured(maps: Maps, limit: float) -> NDArray[np.uint8]:
    """One pixel a value: (...) -> (..., 3)."""
    palette = np.append(colormaps[COLOURS](np.arange(256))[:, :3] * 255, [[NO_VALUE] * 3], axis=0).round()
    share = (np.nan_to_num(maps, nan=0.0, posinf=limit, neginf=-limit).clip(-limit, limit) + limit) / (2 * limit)
    index = np.where(np.isnan(maps), 256, (share * 255).round().astype(int))
    return palette.astype(np.uint8)[index]


def caption(maps: Maps, limit: float, step: int) -> str:
    """The line below a heatmap: optimiser step, least and greatest bias in nats and the scale.

    The step belongs here because W&B's image slider counts log calls, not optimiser steps.
    Names the share of cells beyond the scale, if there are any: nothing is clipped in silence.
    """
    values = maps[~np.isnan(maps)]
    if values.size == 0:
        return f"step {step}: no values, scale ±{limit:g} nats"
    text = f"step {step}: {values.min():.3g} to {values.max():.3g} nats, scale ±{limit:g} nats"
    beyond = float((np.abs(values) > limit).mean())
    return f"{text}, {100 * beyond:.2g} % of cells beyond the scale" if beyond else text


def draw_heatmap(maps: Maps, limit: float, title: str, width: float | None = None) -> Figure:
    """Labelled figure of maps (rows, heads, L, L) in nats: one panel a head, one row a layer, one colour bar.

    A single layer with more than 6 heads is spread over two rows of panels so that they stay readable. With `width`, in
    inches, the panels are as large as that leaves, and the lettering with them.
    The colour bar gets pointed ends when cells lie beyond the scale. Same errors as ``heatmap_grid``.
    """
    _check(maps, limit)
    rows, heads, length, _ = maps.shape
    panel_rows, columns = (2, -(-heads // 2)) if rows == 1 and heads > ROW_HEADS else (rows, heads)
    width = width or (1.7 if columns <= 4 else 1.3) * columns + MARGIN
    side = max(0.2, (width - MARGIN) / columns)
    size = 9 if side > 1 else 7
    figure = Figure(figsize=(width, (side + 0.1) * panel_rows + 0.6), layout="compressed")
    FigureCanvasAgg(figure)
    axes = figure.subplots(panel_rows, columns, squeeze=False, sharex=True, sharey=True)
    colours = colormaps[COLOURS].with_extremes(bad=(NO_VALUE / 255,) * 3)
    for axis in axes.flat:
        axis.set_visible(False)
    for number in range(rows * heads):
        row, head = divmod(number, heads)
        axis = axes[divmod(number, columns)]
        axis.set_visible(True)
        image = axis.imshow(maps[row, head], cmap=colours, vmin=-limit, vmax=limit, interpolation="nearest")
        axis.set_xticks([0, length - 1] if length > 1 else [0])
        axis.set_yticks([0, length - 1] if length > 1 else [0])
        axis.tick_params(labelsize=size - 1)
        if row == 0:
            axis.set_title(f"head {head + 1}", fontsize=size)
        if rows > 1 and head == 0:
            axis.set_ylabel(f"layer {row + 1}", fontsize=size)
    ends = "both" if np.any(np.abs(maps) > limit) else "neither"
    bar = figure.colorbar(image, ax=axes, extend=ends, shrink=0.9, aspect=14 * panel_rows, pad=0.02)
    bar.ax.tick_params(labelsize=size - 1)
    bar.set_label("nats", fontsize=size)
    figure.suptitle(title, fontsize=size + 1)
    figure.supxlabel("key position j", fontsize=size)
    figure.supylabel("query position i", fontsize=size)
    return figure


def save_png(image_or_figure: NDArray[np.uint8] | Figure, path: Path) -> None:
    """Write an image (h, w, 3) or a figure (200 dots an inch) as PNG, making the folder if it is missing.

    Goes through a temporary file beside the target, so that a killed run never leaves half a picture.
    """
    with replacing(path) as temporary:
        if isinstance(image_or_figure, Figure):
            image_or_figure.savefig(temporary, format="png", dpi=200)
        else:
            Image.fromarray(image_or_figure).save(temporary, "PNG", compress_level=1)  # training waits for it


def _check(maps: Maps, limit: float) -> None:
    if not limit > 0:
        raise OptionError("limit", limit, "must be positive: it is the end of the colour scale in nats")
    if maps.ndim != 4 or maps.shape[2] != maps.shape[3] or 0 in maps.shape:
        raise ValueError(f"maps must have shape (rows, heads, L, L), got {maps.shape}")
