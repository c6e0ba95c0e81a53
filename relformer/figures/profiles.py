"""Bias against distance: a chart a layer, a line a head."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from relformer.figures.chart import Chart, Series


def profile_charts(
    profile: NDArray[np.floating], distance: NDArray[np.integer], trained: int, slot: str, per: str = "layer"
) -> list[Chart]:
    """Charts of profiles (layers, H, R) by distance (R,); a mark stands at the furthest distance that training had.

    Distances that no pair has are left out. All charts have one scale.
    """
    there = np.isfinite(profile).any((0, 1))
    x = distance[there].tolist()
    values = profile[..., there]
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    room = max(0.05 * (high - low), 0.05)
    marks = [(float(sign * trained), "trained") for sign in ((-1, 1) if min(x) < 0 else (1,))]
    across = "target position - source position" if slot == "cross" else "query position - key position"
    return [
        Chart(
            f"{slot}, {per} {number + 1}",
            f"{across} (tokens)",
            "bias (nats)",
            [Series(f"head {head + 1}", x, line.tolist()) for head, line in enumerate(heads)],
            marks,
            (low - room, high + room),
        )
        for number, heads in enumerate(values)
    ]
