"""The best checkpoint, over a resume too."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch

from relformer.training.callbacks.best_checkpoint import BestCheckpoint
from relformer.training.sealing import read_step


class Trainer:
    """What the callback sees of a Trainer: figures, and a place to save."""

    class state:  # noqa: N801
        fn = "fit"

    class strategy:  # noqa: N801
        @staticmethod
        def broadcast(value: Any) -> Any:
            return value

    def __init__(self, keeper: BestCheckpoint, full: Collection[int] = ()) -> None:
        self.keeper, self.callback_metrics, self.full = keeper, {}, full
        self.global_step = 0

    def save_checkpoint(self, path: Path, weights_only: bool) -> None:
        state = {self.keeper.state_key: self.keeper.state_dict()}
        if self.global_step not in self.full:
            torch.save({"global_step": self.global_step, "callbacks": state}, path)


def validated(keeper: BestCheckpoint, values: list[float], first: int = 0, full: Collection[int] = ()) -> int:
    """The step of the file after so many validations, where the disk is full at some."""
    trainer: Any = Trainer(keeper, full)
    keeper.on_fit_start(trainer, pl.LightningModule())
    for step, value in enumerate(values, first):
        trainer.global_step, trainer.callback_metrics = step, {keeper.monitor: torch.tensor(value)}
        keeper.on_validation_end(trainer, pl.LightningModule())
    return read_step(keeper.path)


@pytest.mark.parametrize(("monitor", "best"), [("val/iid/loss", 1), ("val/longer/exact_match", 2)])
def test_a_loss_is_best_when_low_and_a_share_when_high(tmp_path: Path, monitor: str, best: int) -> None:
    assert validated(BestCheckpoint(str(tmp_path / "best.ckpt"), monitor), [0.3, 0.1, 0.4, 0.2]) == best


def test_a_resumed_run_keeps_the_best_of_before(tmp_path: Path) -> None:
    """The last checkpoint may know nothing of the validation after it; the file does."""
    path = str(tmp_path / "best.ckpt")
    assert validated(BestCheckpoint(path), [5.9, 4.2]) == 1
    assert validated(BestCheckpoint(path), [5.3, 4.9], first=2) == 1
    assert validated(BestCheckpoint(path), [4.1], first=4) == 4


def test_the_best_is_what_was_written(tmp_path: Path) -> None:
    """`on_full=go_on`: a checkpoint may not be written, and then a later one may be the best."""
    keeper = BestCheckpoint(str(tmp_path / "best.ckpt"))
    assert validated(keeper, [0.9, 0.2, 0.5], full=(1,)) == 2 and keeper.score == 0.5


def test_a_damaged_best_that_can_not_be_replaced_ends_nothing(tmp_path: Path) -> None:
    path = tmp_path / "best.ckpt"
    path.write_bytes(b"cut")
    keeper = BestCheckpoint(str(path))
    assert validated(keeper, [0.9, 0.5], full=(0,)) == 1 and keeper.score == 0.5


def test_a_loss_that_is_no_number_does_not_stay_the_best(tmp_path: Path) -> None:
    keeper = BestCheckpoint(str(tmp_path / "best.ckpt"))
    assert validated(keeper, [float("nan")]) == 0
    assert validated(keeper, [3.0, float("nan"), 2.0, 2.5], first=1) == 3
    assert keeper.score == 2.0
