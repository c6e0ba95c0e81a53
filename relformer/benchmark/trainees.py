"""Models ready for a training step on one batch: ours with each encoding and, where installed, other people's.

A step is forward, loss, backward, clipping and fused AdamW, without dropout or label smoothing, in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from relformer.benchmark import peers
from relformer.benchmark.losses import training_loss
from relformer.benchmark.options import filled
from relformer.benchmark.peers import BOS, PAD, VOCABULARY, TorchTransformer
from relformer.data.batching import Batch

Made = tuple[nn.Module, Callable[[Batch], Tensor]]
"""A model, and its mean loss over the target tokens of a batch."""


@dataclass(frozen=True)
class Trainee:
    """A system to train; `partner` is the encoding with which ours does the same."""

    name: str
    make: Callable[[], Made]
    partner: str = ""

    def step(self, device: torch.device) -> tuple[Callable[[Batch], None], int]:
        """A new model's training step, and the number of its parameters."""
        model, loss = self.make()
        model.train().to(device)
        parameters = list(model.parameters())
        optimizer = torch.optim.AdamW(parameters, lr=1e-4, fused=True)

        def step(batch: Batch) -> None:
            optimizer.zero_grad()
            loss(batch).backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()

        return step, sum(p.numel() for p in parameters)

    def whole(self, batch: Batch, device: torch.device) -> None:
        """Model, optimizer and two steps: all that training holds at a time."""
        step, _ = self.step(device)
        step(batch)
        step(batch)


def random_batch(sentences: int, length: int, padding: float, device: torch.device) -> Batch:
    """Source and target of equal lengths, from the longest down; every system is given the same."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.tensor(filled(sentences, length, padding))
    keep = torch.arange(length) < tokens[:, None]
    source, labels = (
        torch.randint(3, VOCABULARY, (sentences, length), generator=generator).masked_fill(~keep, PAD) for _ in range(2)
    )
    target = F.pad(labels, (1, -1), value=BOS).masked_fill(~keep, PAD)
    index = torch.arange(sentences)
    return Batch(index.to(device), source.to(device), target.to(device), labels.to(device), float(tokens.sum()))


def ours(name: str, options: dict[str, object]) -> Trainee:
    def make() -> Made:
        model = peers.ours(name, options)
        return model, partial(training_loss, model)

    return Trainee(f"{name} (decoder)" if peers.decoder_only(name) else name, make)


def others(length: int) -> list[Trainee]:
    """torch.nn.Transformer, and the peers that are installed."""
    found = [Trainee("torch.nn.Transformer, learned", partial(torch_transformer, length), "learned")]
    if peers.installed("transformers"):
        found += [Trainee(f"HF T5, {way}", partial(hf_t5, way), "t5") for way in ("sdpa", "eager")]
    if peers.installed("x_transformers"):
        kinds = {
            "relative bias": ({"rel_pos_bias": True}, "t5"),
            "ALiBi": ({"alibi_pos_bias": True, "attn_flash": True}, "alibi"),
            "rotary": ({"rotary_pos_emb": True, "attn_flash": True}, "rope"),
        }
        found += [
            Trainee(f"x-transformers, {kind}", partial(x_transformers, length, positions), partner)
            for kind, (positions, partner) in kinds.items()
        ]
    return found


def torch_transformer(length: int) -> Made:
    model = TorchTransformer(length)

    def loss(batch: Batch) -> Tensor:
        return F.cross_entropy(
            model(batch.source, batch.target).flatten(0, 1), batch.labels.flatten(), ignore_index=PAD
        )

    return model, loss


def hf_t5(attention: str) -> Made:
    model = peers.hf_t5(attention)

    def loss(batch: Batch) -> Tensor:
        labels = batch.labels.masked_fill(batch.labels.eq(PAD), -100)
        made: Tensor = model(
            input_ids=batch.source,
            attention_mask=batch.source.ne(PAD),
            decoder_input_ids=batch.target,
            labels=labels,
            use_cache=False,
        ).loss
        return made

    return model, loss


def x_transformers(length: int, positions: dict[str, bool]) -> Made:
    """It shifts the target itself, and so predicts one token less of each sentence."""
    model = peers.x_transformers(length, length, positions)

    def loss(batch: Batch) -> Tensor:
        target = batch.target.masked_fill(batch.labels.eq(PAD), -100)
        made: Tensor = model(batch.source, target, mask=batch.source.ne(PAD))
        return made

    return model, loss
