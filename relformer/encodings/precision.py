"""The precision of formulas: float32 at least, whatever the precision of the model.

Positions, angles, slopes times distances and logarithms of distances lose their meaning in bfloat16: 4096 consecutive
integers have 769 distinct values there. With torch's default dtype set to float64, formulas run in float64; so the
tests compare them with loops to 1e-10.
"""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def precision() -> torch.dtype:
    return torch.promote_types(torch.get_default_dtype(), torch.float32)


def precise(x: Tensor) -> Tensor:
    """A tensor in the precision of formulas."""
    return x.to(precision())


def unlowered(device: torch.device) -> AbstractContextManager[object]:
    """Without autocast, within this. Where there is none this is no context: torch.export fails on an empty one."""
    lowered = torch.is_autocast_enabled(device.type)
    return torch.autocast(device.type, enabled=False) if lowered else nullcontext()
