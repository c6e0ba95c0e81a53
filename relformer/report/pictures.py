"""Maps as tiny PNGs inside the page: a pixel a pair of positions, which the browser enlarges without blurring."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from relformer.figures.chart_svg import chart_svg
from relformer.figures.heatmap import caption, coloured
from relformer.figures.labelled import MOST_TOKENS, sides
from relformer.figures.profiles import profile_charts
from relformer.report.reading import Run, load

NAMES = {"encoder": "Encoder self-attention", "decoder": "Decoder self-attention", "cross": "Cross-attention"}


@dataclass(frozen=True)
class Panel:
    """A map of one head."""

    label: str
    picture: str
    """A data URI."""


@dataclass(frozen=True)
class Moment:
    """The maps of a slot at a step, row by row, their caption, and the profiles."""

    step: int
    rows: list[list[Panel]]
    caption: str
    profiles: list[str]


@dataclass(frozen=True)
class SlotMaps:
    """A slot over time."""

    slot: str
    title: str
    length: int
    trained: int
    """The furthest distance in training."""
    limit: float
    kind: str
    moments: list[Moment]


def slot_maps(run: Run) -> list[SlotMaps]:
    """Every slot that was drawn, at every step."""
    found = []
    for slot, paths in run.maps.items():
        content = {step: load(path) for step, path in paths.items()}
        last = content[max(content)]
        exact = "table" in last
        moments = [moment(slot, step, each) for step, each in content.items()]
        kind = "the encoding's table" if exact else "measured with random content"
        length, trained, limit = last["map"].shape[-1], int(last["trained"]), float(last["limit"])
        found.append(SlotMaps(slot, NAMES[slot], length, trained, limit, kind, moments))
    return found


def moment(slot: str, step: int, content: dict[str, Any]) -> Moment:
    maps, exact, limit = content["map"], "table" in content, float(content["limit"])
    rows = [
        [
            Panel(
                f"{row_name(content, layer)}, head {head + 1}{explained(content, layer, head)}",
                png(coloured(each, limit)),
            )
            for head, each in enumerate(heads)
        ]
        for layer, heads in enumerate(maps)
    ]
    lines, per = (content["table"], "table") if exact else (content["profile"], "layer")
    charts = profile_charts(lines, content["distance"], int(content["trained"]), slot, per)
    return Moment(step, rows, caption(maps, limit, step), [chart_svg(chart) for chart in charts])


def row_name(content: dict[str, Any], layer: int) -> str:
    if "table" in content and len(content["map"]) == 1 < len(content["r2"]):
        return "all layers"
    return f"layer {layer + 1}"


def explained(content: dict[str, Any], layer: int, head: int) -> str:
    """R² behind a head's name, where its row is one layer's."""
    r2 = content["r2"]
    if len(content["map"]) != len(r2) or np.isnan(r2[layer, head]):
        return ""
    return f", R² {r2[layer, head]:z.2f}"


def term_maps(run: Run) -> list[tuple[str, list[list[Panel]]]]:
    """The four terms of absolute positions in layer 1, by stack."""
    found = []
    for path in run.files("heatmaps/*_terms.npz"):
        content = load(path)
        rows = [
            [
                Panel(f"{term}, head {head + 1}", png(coloured(each, float(content["limit"]))))
                for head, each in enumerate(heads)
            ]
            for term, heads in zip(content["terms"].tolist(), content["map"], strict=True)
        ]
        found.append((NAMES[path.stem.removesuffix("_terms")], rows))
    return found


@dataclass(frozen=True)
class Sentence:
    """Attention on a sentence: by slot the panels, row by row, and the tokens along queries and keys."""

    title: str
    slots: list[tuple[str, list[str], list[str], list[list[Panel]]]]


def sentences(run: Run) -> list[Sentence]:
    found = []
    for path in run.files("attention/sentence*.npz"):
        content = load(path)
        source, target = content["source"].tolist(), content["target"].tolist()
        slots = []
        for slot, (queries, keys) in sides(content, source, target).items():
            rows = [
                [
                    Panel(f"layer {layer + 1}, head {head + 1}", png(coloured(each, 1.0)))
                    for head, each in enumerate(heads)
                ]
                for layer, heads in enumerate(content[slot])
            ]
            short = max(len(queries), len(keys)) <= MOST_TOKENS
            slots.append((NAMES[slot], queries if short else [], keys if short else [], rows))
        found.append(Sentence(f"{' '.join(source)} → {' '.join(target)}", slots))
    return found


def png(pixels: NDArray[np.uint8]) -> str:
    """As a data URI, in the fewest bytes."""
    image, buffer = Image.fromarray(pixels), BytesIO()
    image.quantize(256, dither=Image.Dither.NONE).save(buffer, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
