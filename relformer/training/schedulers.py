"""Learning-rate schedules as factors of the base rate, by optimizer step; all start with a linear warm-up."""

from __future__ import annotations

import math
from collections.abc import Callable

Factor = Callable[[int, int, int], float]
"""(steps after warm-up, steps from warm-up to the end, warm-up steps) -> factor."""

SCHEDULERS: dict[str, Factor] = {
    "constant": lambda step, rest, warmup: 1.0,
    "linear": lambda step, rest, warmup: max(0.0, 1 - step / rest),
    "cosine": lambda step, rest, warmup: 0.5 * (1 + math.cos(math.pi * min(step / rest, 1.0))),
    "inverse_square_root": lambda step, rest, warmup: math.sqrt(max(warmup, 1) / (max(warmup, 1) + step)),
}


def schedule(name: str, warmup_steps: int, total_steps: int) -> Callable[[int], float]:
    """The factor at each step from 0 on; the base rate is reached after `warmup_steps`."""
    rest = max(total_steps - warmup_steps, 1)

    def factor(step: int) -> float:
        if step < warmup_steps:
            return (step + 1) / (warmup_steps + 1)
        return SCHEDULERS[name](step - warmup_steps, rest, warmup_steps)

    return factor
