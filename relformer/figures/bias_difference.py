"""What training made of a bias, or how the biases of two runs differ, as maps in nats."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from relformer.errors import OptionError, UserError
from relformer.figures.heatmap import draw_heatmap
from relformer.registry import did_you_mean

Maps = NDArray[np.floating]
NAME = re.compile(r"(?P<stack>\w+)_step(?P<step>\d+)\.npz")
LEAST = 1e-6
"""End of the colour scale where nothing differs."""


def stored_maps(run: Path) -> dict[str, dict[int, Maps]]:
    """The bias maps (layers, heads, L, L) that a run kept, by stack and step: the one place that knows their files.

    Raises:
        UserError: the run kept none.
    """
    found: dict[str, dict[int, Maps]] = {}
    for path in sorted((run / "heatmaps").glob("*.npz")):
        if name := NAME.fullmatch(path.name):
            with np.load(path) as content:
                found.setdefault(name["stack"], {})[int(name["step"])] = content["map"]
    if not found:
        within = sorted({str(path.parent.parent) for path in run.glob("*/**/heatmaps/*.npz")})
        hint = f"runs that have some: {', '.join(within[:5])}" if within else "name a run that drew them"
        raise UserError(f"{run} has no bias maps (heatmaps/*.npz); {hint}")
    return found


def bias_figure(runs: Sequence[Path], stack: str | None, width: float) -> Figure:
    """Of one run the learned minus the initial bias; of two the last of the first minus the last of the second.

    Raises:
        UserError: not one run or two, no maps, a stack that is not there, or maps of other shapes.
    """
    if not 1 <= len(runs) <= 2:
        raise UserError(f"a bias figure is of one run (learned minus initial) or of two, not of {len(runs)}")
    kept = [stored_maps(run) for run in runs]
    common = [name for name in kept[0] if all(name in each for each in kept)]
    chosen = stack or next(iter(sorted(common, key=("encoder", "decoder", "cross").index)), None)
    if chosen not in common:
        near = did_you_mean(str(stack), common)
        raise OptionError("stack", chosen, f"has no maps in {' and '.join(map(str, runs))}{near}; there is {common}")
    steps = [each[chosen] for each in kept]
    if len(runs) == 1:
        first, last = min(steps[0]), max(steps[0])
        if first == last:
            raise UserError(f"{runs[0]} kept one map of its {chosen}, of step {last}; a difference needs two")
        pair, title = (steps[0][last], steps[0][first]), f"{chosen} bias, step {last} minus step {first}"
    else:
        pair = (steps[0][max(steps[0])], steps[1][max(steps[1])])
        title = f"{chosen} bias, {runs[0].parent.name} minus {runs[1].parent.name}"
    shapes = [each.shape for each in pair]
    if shapes[0] != shapes[1]:
        rule = f"(layers, heads, L, L): {shapes[0]} and {shapes[1]}"
        raise UserError(f"the maps of {' and '.join(map(str, runs))} have other shapes {rule}; they have no difference")
    difference = pair[0] - pair[1]
    return draw_heatmap(difference, max(LEAST, float(np.nanmax(np.abs(difference)))), title, width)
