"""Attention on chosen validation sentences, with their tokens, after training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from lightning.pytorch import Trainer
from torch import Tensor

from relformer.analysis.watch import still, watch
from relformer.attention.call import Call
from relformer.data.batching import Batches, Plan
from relformer.encodings import Role
from relformer.figures.heatmap import save_png
from relformer.figures.labelled import attention_heatmap, sides
from relformer.model import Seq2Seq
from relformer.training.callbacks.bias_heatmaps import write_numbers
from relformer.training.callbacks.measuring import Measuring, Picture, publish
from relformer.training.module import Seq2SeqModule


class AttentionMaps(Measuring):
    """One image a sentence and slot, a row a layer, a column a head, with the tokens.

    Args:
        directory: for `<slot>_sentence<n>.png`, and `sentence<n>.npz` with the weights and the tokens.
        sentences: their numbers in the first validation set; None takes the longest and one of middle length.
    """

    name = "attention_maps"

    def __init__(self, directory: str, sentences: list[int] | None = None) -> None:
        super().__init__(every_n_steps=1)
        self.directory, self.sentences = Path(directory), sentences

    def draw_once(self, trainer: Trainer, module: object) -> None:
        """Nothing before the end."""

    def finish(self, trainer: Trainer, module: Seq2SeqModule) -> None:
        data = trainer.datamodule  # type: ignore[attr-defined]
        examples = data.corpus.sets[data.corpus.evaluation_sets("val")[0]]
        by_length = (examples.source_lengths + examples.target_lengths).argsort(kind="stable").tolist()
        chosen = sorted({by_length[-1], by_length[len(by_length) // 2]}) if self.sentences is None else self.sentences
        pictures: dict[str, Picture] = {}
        for number in chosen:
            batch = Batches(examples, data.options.frame)[Plan((number,))]
            source, target = batch.source.to(module.device), batch.target.to(module.device)
            positions = None if batch.positions is None else batch.positions.to(module.device)
            weights = attention_weights(module.model, source, target, positions)
            tokens = {
                "source": [module.source_vocabulary.tokens[n] for n in batch.source[0].tolist()],
                "target": [module.target_vocabulary.tokens[n] for n in batch.target[0].tolist()],
            }
            names = {side: np.array(each) for side, each in tokens.items()}
            write_numbers(self.directory / f"sentence{number}.npz", **names, **weights)
            for role, each in weights.items():
                path = self.directory / f"{role}_sentence{number}.png"
                queries, keys = sides(weights, **tokens)[role]
                title = f"{role} attention, sentence {number}, step {trainer.global_step}"
                save_png(attention_heatmap(each, queries, keys, title), path)
                text = f"step {trainer.global_step}: {' '.join(tokens['source'])} → {' '.join(tokens['target'])}"
                pictures[f"attention/{role}_sentence{number}"] = path, text
        if pictures:
            publish(trainer, pictures)


@torch.no_grad()
def attention_weights(
    model: Seq2Seq, source: Tensor, target: Tensor, positions: Tensor | None = None
) -> dict[Role, np.ndarray]:
    """Of one sentence (1, S), (1, T): the weights of each slot, (layers, H, Q, K), NaN where the mask hides."""
    found: dict[Role, list[Tensor]] = {role: [] for role in model.slots}

    def see(role: Role, layer: int, call: Call) -> None:
        weights = call.weights()
        hidden = torch.zeros_like(weights, dtype=torch.bool) if call.keep is None else ~call.keep.expand_as(weights)
        found[role].append(weights.masked_fill(hidden, torch.nan)[0])

    with still(model), watch(model, see):
        model(source, target, positions)
    return {role: torch.stack(layers).float().cpu().numpy() for role, layers in found.items()}
