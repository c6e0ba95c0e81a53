"""Activation checkpointing: the gradients of a step, dropout and drawn positions included, to the bit."""

from typing import Any

import pytest
import torch
from torch import nn

from relformer.config import plain
from relformer.model import build_model
from tests.config.composed import composed

DENSE = ("model.attention_dropout=0.2",)
"""Has layers read a table by pairs, which they share."""


@pytest.mark.parametrize("options", [(), DENSE, ("model.share_layers=true",)])
@pytest.mark.parametrize("encoding", ["t5", "rope", "shaw", "randomized"])
def test_layers_made_twice_have_the_same_gradients(encoding: str, options: tuple[str, ...]) -> None:
    config = composed(f"encoding={encoding}", "model.dropout=0.3", *options)
    parts = plain(config, "seed", "model", "encoding", "cross_encoding")
    source, target = torch.randint(3, 9, (2, 3, 7))
    source[0, 5:] = 0
    calls: list[int] = []

    def gradients(checkpointed: bool) -> list[torch.Tensor]:
        model = build_model(parts, 9, 9)
        if checkpointed:
            model.checkpoint_training()
        calls.clear()
        for layer in {*model.encoder.layers, *model.decoder.layers}:
            layer.register_forward_pre_hook(count)
        torch.manual_seed(1)
        model(source, target).square().mean().backward()
        assert len(calls) == 4 * (1 + checkpointed)
        return [p.grad for p in model.parameters() if p.grad is not None]

    def count(module: nn.Module, *_: Any) -> None:
        calls.append(1)

    for mine, theirs in zip(gradients(True), gradients(False), strict=True):
        if options == DENSE and encoding == "t5":  # each layer adds up its share of the table's gradient by itself
            torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-8)
        else:
            assert torch.equal(mine, theirs)
