"""The position part of attention as heatmaps, for every encoding: at the start, every n steps and at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from lightning.pytorch import Trainer
from numpy.typing import NDArray

from relformer.analysis.absolute_terms import TERMS, absolute_terms
from relformer.analysis.measurement import on
from relformer.analysis.position_map import PositionPart
from relformer.errors import OptionError
from relformer.figures.heatmap import Maps, caption, heatmap_grid, save_png, toeplitz_maps
from relformer.figures.labelled import labelled_heatmap
from relformer.files import replacing
from relformer.training.callbacks.measuring import Measuring, Picture, publish
from relformer.training.module import Seq2SeqModule

LEAST_LIMIT = 4.0
NAMES = {"encoder": "encoder stack", "decoder": "decoder stack", "cross": "cross-attention"}


class BiasHeatmaps(Measuring):
    """One image a slot: a row a layer, a column a head, query positions down, key positions across.

    Where tables are all that the slot's encodings add, the tables themselves, a row for each layer that has its own;
    else what `relformer.analysis.position_map` measures.

    Args:
        directory: for `<slot>_step<n>.png`, the numbers as `.npz`, and a labelled `<slot>.png` at the end.
        every_n_steps: optimizer steps between images.
        length: positions on each side of a map.
        limit: end of the colour scale in nats, fixed for the run; None takes the largest value at the start, at least
            4.
    """

    name = "bias_heatmaps"

    def __init__(self, directory: str, every_n_steps: int = 500, length: int = 32, limit: float | None = None) -> None:
        super().__init__(every_n_steps)
        self.directory, self.length, self.limit = Path(directory), length, limit
        if length < 1:
            raise OptionError("length", length, "must be at least 1", "callbacks.bias_heatmaps")

    def state_dict(self) -> dict[str, Any]:
        return {"limit": self.limit}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.limit = state_dict["limit"]

    def draw(self, trainer: Trainer, module: Seq2SeqModule) -> None:
        step, found = trainer.global_step, self.measured(trainer, module)
        maps = {role: self.maps(part) for role, part in found.parts.items()}
        if self.limit is None:
            self.limit = max(LEAST_LIMIT, *(float(np.nanmax(np.abs(each))) for each in maps.values()))
        pictures: dict[str, Picture] = {}
        for role, part in found.parts.items():
            path = self.directory / f"{role}_step{step:06d}.png"
            save_png(heatmap_grid(maps[role], self.limit), path)
            kind = "measured" if part.table is None else "tables"
            pictures[f"bias/{role}"] = path, f"{caption(maps[role], self.limit, step)}, {kind}"
            numbers = {"map": maps[role], "r2": part.r2, "profile": part.profile, "distance": part.distance}
            if part.table is not None:
                numbers["table"] = part.table
            write_numbers(path.with_suffix(".npz"), trained=found.trained[role], limit=self.limit, **numbers)
        publish(trainer, pictures)

    def finish(self, trainer: Trainer, module: Seq2SeqModule) -> None:
        """Labelled figures of the last maps, and the four terms of absolute positions."""
        limit = self.limit or LEAST_LIMIT
        for role, part in self.measured(trainer, module).parts.items():
            maps, kind = self.maps(part), "measured" if part.table is None else "tables"
            title = f"bias of the {NAMES[role]} ({kind}), step {trainer.global_step}"
            save_png(labelled_heatmap(maps, limit, title), self.directory / f"{role}.png")
        probe = on(self.measurers[module].probe, module.device)
        pictures: dict[str, Picture] = {}
        for role, terms in absolute_terms(module.model, probe).items():
            maps, path = terms[..., : self.length, : self.length], self.directory / f"{role}_terms.png"
            rows = [f"{term}, layer 1" for term in TERMS]
            save_png(labelled_heatmap(maps, limit, f"absolute positions, {NAMES[role]}", rows), path)
            write_numbers(path.with_suffix(".npz"), map=maps, terms=np.array(TERMS), limit=limit)
            text = f"{caption(maps, limit, trainer.global_step)}, rows {', '.join(TERMS)} of layer 1"
            pictures[f"bias/{role}_terms"] = path, text
        if pictures:
            publish(trainer, pictures)

    def maps(self, part: PositionPart) -> Maps:
        """(layers, H, length, length) in nats, or of fewer positions where the sentences measured have fewer."""
        queries, keys = part.maps.shape[-2:]
        length = min(self.length, queries, keys)
        if part.table is None:
            return part.maps[..., :length, :length]
        tables = part.table[..., keys - length : keys + length - 1]
        maps = np.stack([toeplitz_maps(table) for table in tables])
        maps[..., np.isnan(part.maps[0, 0, :length, :length])] = np.nan
        return maps


def write_numbers(path: Path, **arrays: NDArray[Any] | float) -> None:
    with replacing(path) as temporary:
        np.savez_compressed(temporary, **arrays)  # type: ignore[arg-type]
