"""Which of the checkpoints kept for averaging are meant."""

from pathlib import Path

import pytest
import torch

from relformer.errors import UserError
from relformer.training.trained import kept_checkpoints


def test_the_latest_and_the_best_of_those_kept(tmp_path: Path) -> None:
    losses = {10: 3.25, 20: 2.5, 30: 2.0, 40: 2.75}
    for step, loss in losses.items():
        for name in (f"recent-{step}.ckpt", f"best-{step}-{loss:.6f}.ckpt"):
            torch.save({"global_step": step}, tmp_path / name)
    assert [path.name for path in kept_checkpoints(tmp_path, "last", 2)] == ["recent-30.ckpt", "recent-40.ckpt"]
    best = [path.name for path in kept_checkpoints(tmp_path, "best_val", 2)]
    assert best == ["best-20-2.500000.ckpt", "best-30-2.000000.ckpt"]
    with pytest.raises(UserError, match="average=5 is more than the 4 checkpoints"):
        kept_checkpoints(tmp_path, "best_val", 5)
