"""The best checkpoint, over a resume too."""

from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch

from relformer.training.callbacks.best_checkpoint import BestCheckpoint


class Trainer:
    """What the callback sees of a Trainer: figures, and a place to save."""

    class state:  # noqa: N801
        fn = "fit"

    def __init__(self, keeper: BestCheckpoint) -> None:
        self.keeper, self.callback_metrics = keeper, {}
        self.step = 0

    def save_checkpoint(self, path: Path, weights_only: bool) -> None:
        torch.save({"step": self.step, "callbacks": {self.keeper.state_key: self.keeper.state_dict()}}, path)


def validated(keeper: BestCheckpoint, values: list[float], first: int = 0) -> int:
    """The step of the file after so many validations."""
    trainer: Any = Trainer(keeper)
    keeper.on_fit_start(trainer, pl.LightningModule())
    for step, value in enumerate(values, first):
        trainer.step, trainer.callback_metrics = step, {keeper.monitor: torch.tensor(value)}
        keeper.on_validation_end(trainer, pl.LightningModule())
    return int(torch.load(keeper.path, weights_only=True)["step"])


@pytest.mark.parametrize(("monitor", "best"), [("val/iid/loss", 1), ("val/longer/exact_match", 2)])
def test_a_loss_is_best_when_low_and_a_share_when_high(tmp_path: Path, monitor: str, best: int) -> None:
    assert validated(BestCheckpoint(str(tmp_path / "best.ckpt"), monitor), [0.3, 0.1, 0.4, 0.2]) == best


def test_a_resumed_run_keeps_the_best_of_before(tmp_path: Path) -> None:
    """The last checkpoint may know nothing of the validation after it; the file does."""
    path = str(tmp_path / "best.ckpt")
    assert validated(BestCheckpoint(path), [5.9, 4.2]) == 1
    assert validated(BestCheckpoint(path), [5.3, 4.9], first=2) == 1
    assert validated(BestCheckpoint(path), [4.1], first=4) == 4


def test_a_loss_that_is_no_number_does_not_stay_the_best(tmp_path: Path) -> None:
    keeper = BestCheckpoint(str(tmp_path / "best.ckpt"))
    assert validated(keeper, [float("nan")]) == 0
    assert validated(keeper, [3.0, float("nan"), 2.0, 2.5], first=1) == 3
    assert keeper.score == 2.0
