"""How far back a prediction feels, after training: `receptive_field.json` and a picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning.pytorch import Trainer

from relformer.analysis.measurement import on
from relformer.analysis.receptive_field import receptive_field
from relformer.figures.chart import Chart, Series
from relformer.figures.chart_png import chart_pixels
from relformer.figures.heatmap import save_png
from relformer.files import write_json
from relformer.training.callbacks.measuring import Measuring, publish
from relformer.training.module import Seq2SeqModule


class ReceptiveField(Measuring):
    """Cumulative share of the gradient by distance, a line a stack, on random sentences of twice the trained length.

    `directory` is for `receptive_field.json` and `.png`.
    """

    name = "receptive_field"

    def __init__(self, directory: str) -> None:
        super().__init__(every_n_steps=1)
        self.directory = Path(directory)

    def draw_once(self, trainer: Trainer, module: object) -> None:
        """Nothing before the end."""

    def finish(self, trainer: Trainer, module: Seq2SeqModule) -> None:
        found = self.measured(trainer, module)
        field = receptive_field(module.model, on(self.measurers[module].framed, module.device))
        content: dict[str, Any] = {
            role: {"trained": found.trained[role], "share": line.tolist()} for role, line in field.items()
        }
        write_json(self.directory / "receptive_field.json", content)
        path = self.directory / "receptive_field.png"
        save_png(chart_pixels([field_chart(content)]), path)
        publish(trainer, {"profile/receptive_field": (path, f"step {trainer.global_step}: gradient within a distance")})


def field_chart(content: Mapping[str, Any]) -> Chart:
    """Of what `receptive_field.json` holds."""
    return Chart(
        "effective receptive field of the last position",
        "distance (tokens)",
        "share of the gradient within",
        [Series(role, range(len(one["share"])), one["share"]) for role, one in content.items()],
        [(float(max(one["trained"] for one in content.values())), "trained")],
        (0.0, 1.0),
    )
