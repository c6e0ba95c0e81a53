"""Every head in numbers and a word, over time: `heads.csv` and the logs."""

from __future__ import annotations

import csv
from io import StringIO
from pathlib import Path
from typing import Any

from lightning.pytorch import Trainer

from relformer.analysis.measurement import Measurement
from relformer.files import write_text
from relformer.training.callbacks.measuring import Measuring, publish
from relformer.training.module import Seq2SeqModule


class HeadFigures(Measuring):
    """`path` has a row a head and step, as `relformer.analysis.heads` defines them; layers and heads count from 1."""

    name = "head_figures"

    def __init__(self, path: str, every_n_steps: int = 500) -> None:
        super().__init__(every_n_steps)
        self.path = Path(path)

    def draw(self, trainer: Trainer, module: Seq2SeqModule) -> None:
        rows = rows_of(self.measured(trainer, module), trainer.global_step)
        earlier = [row for row in read_rows(self.path) if int(row["step"]) < trainer.global_step]  # of a resumed run
        text = StringIO()
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows([*earlier, *rows])
        write_text(self.path, text.getvalue())
        numbers: dict[str, float] = {}
        for row in rows:
            place = f"heads/{row['slot']}/layer{row['layer']}_head{row['head']}"
            numbers |= {f"{place}/{key}": float(value) for key, value in row.items() if isinstance(value, float)}
        publish(trainer, {}, numbers)


def rows_of(found: Measurement, step: int) -> list[dict[str, Any]]:
    return [
        {
            "step": step,
            "slot": role,
            "layer": layer + 1,
            "head": number + 1,
            "r2": float(found.parts[role].r2[layer, number]),
        }
        | head.numbers()
        | {"word": head.word}
        for role, layers in found.heads.items()
        for layer, heads in enumerate(layers)
        for number, head in enumerate(heads)
    ]


def read_rows(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
