"""Bias against distance, one line a head, to twice the trained length."""

from __future__ import annotations

from pathlib import Path

from lightning.pytorch import Trainer

from relformer.figures.chart_png import chart_pixels
from relformer.figures.heatmap import save_png
from relformer.figures.profiles import profile_charts
from relformer.training.callbacks.measuring import Measuring, Picture, publish
from relformer.training.module import Seq2SeqModule


class BiasProfiles(Measuring):
    """A picture a slot, a chart a layer: the table itself where that is all, else the measured profile.

    The numbers stand in the files of BiasHeatmaps. `directory` is for `<slot>_step<n>.png`.
    """

    name = "bias_profiles"

    def __init__(self, directory: str, every_n_steps: int = 500) -> None:
        super().__init__(every_n_steps)
        self.directory = Path(directory)

    def draw(self, trainer: Trainer, module: Seq2SeqModule) -> None:
        step, found = trainer.global_step, self.measured(trainer, module)
        pictures: dict[str, Picture] = {}
        for role, part in found.parts.items():
            lines, per = (part.profile, "layer") if part.table is None else (part.table, "table")
            path = self.directory / f"{role}_step{step:06d}.png"
            save_png(chart_pixels(profile_charts(lines, part.distance, found.trained[role], role, per)), path)
            pictures[f"profile/{role}"] = path, f"step {step}: bias in nats by distance in tokens"
        publish(trainer, pictures)
