"""Exact match and loss by length at every validation: in distribution and beyond, while training."""

from __future__ import annotations

from pathlib import Path

import lightning.pytorch as pl
from lightning.pytorch import LightningModule, Trainer

from relformer.evaluation.summary import bucketed, length_label
from relformer.figures.chart import Chart, Series
from relformer.figures.chart_png import chart_pixels
from relformer.figures.heatmap import save_png
from relformer.training.callbacks.measuring import publish, timed
from relformer.training.disk import spared
from relformer.training.module import Seq2SeqModule


class LengthCurve(pl.Callback):
    """`length/exact_match`, a chart of the validation sets by length, with Wilson bands, and `length/loss` beside it.

    `directory` is for `validation_step<n>.png`; the numbers are in the CSV log, `val/longer/by_length/13`.
    """

    def __init__(self, directory: str) -> None:
        self.directory = Path(directory)

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        assert isinstance(module, Seq2SeqModule)
        if not trainer.is_global_zero or trainer.state.fn != "fit" or trainer.sanity_checking:
            return
        with timed(module), spared("callbacks.length_curve"):
            self.draw(trainer, module)

    def draw(self, trainer: Trainer, module: Seq2SeqModule) -> None:
        side = module.config["length_side"]
        buckets = {name: bucketed(rows, side) for name, rows in module.rows.items() if name.startswith("val_")}
        marks = [(float(module.config["trained_length"]), "longest trained")]
        axis = f"{side} length (tokens without BOS and EOS)"

        def series(figure: str, bounds: bool) -> list[Series]:
            return [
                Series(
                    name,
                    [(b["min_length"] + b["max_length"]) / 2 for b in found],
                    [b[figure] for b in found],
                    [b[f"{figure}_low"] for b in found] if bounds else None,
                    [b[f"{figure}_high"] for b in found] if bounds else None,
                    dots=True,
                )
                for name, found in buckets.items()
            ]

        charts = [
            Chart("exact match by length", axis, "exact match", series("exact_match", True), marks, (0.0, 1.0)),
            Chart("loss by length", axis, "loss (nats a token)", series("loss", False), marks),
        ]
        path = self.directory / f"validation_step{trainer.global_step:06d}.png"
        save_png(chart_pixels(charts), path)
        losses = {
            f"length/{name.removeprefix('val_')}/loss/{length_label(b)}": float(b["loss"])
            for name, found in buckets.items()
            for b in found
        }
        publish(trainer, {"length/curves": (path, f"step {trainer.global_step}")}, losses)
