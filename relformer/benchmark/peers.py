"""Encoder-decoders of one size: ours with any encoding and, where installed, other people's.

Three layers each side, width 256, 4 heads, feed-forward 1024, one vocabulary of 8,000 for input and output; no dropout.
Weights are random. x-transformers can't tie its output layer, and so has 2 million parameters more.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from relformer.model import Seq2Seq, build_model
from relformer.registry import encodings

LAYERS, WIDTH, HEADS, FEEDFORWARD, VOCABULARY = 3, 256, 4, 1024, 8000
PAD, BOS, NO_EOS = 0, 1, -1
PEERS = {"transformers": "HF T5", "x_transformers": "x-transformers"}
"""Packages of the extra `peers`, and what their competitor is called."""


def installed(package: str) -> bool:
    return find_spec(package) is not None


def absent() -> str:
    """A note on the peers that are not installed, or nothing."""
    missing = [package for package in PEERS if not installed(package)]
    packages = ", ".join(package.replace("_", "-") for package in missing)
    names = ", ".join(PEERS[package] for package in missing)
    return f"left out: {names}; pip install 'relformer[peers]' brings {packages}" if missing else ""


def ours(
    name: str, options: Mapping[str, Any] | None = None, source: int = VOCABULARY, target: int = VOCABULARY
) -> Seq2Seq:
    """Ours with an encoding in the encoder (where it has a definition there) and the decoder."""
    node, entry = {"name": name, **(options or {})}, encodings[name]
    needs = entry.cls.needs_attention_bias  # type: ignore[attr-defined]
    sizes = {
        "width": WIDTH,
        "heads": HEADS,
        "feedforward": FEEDFORWARD,
        "tie": "all" if source == target else "decoder",
    }
    layers = {"encoder_layers": LAYERS, "decoder_layers": LAYERS}
    config = {
        "seed": 0,
        "model": sizes | layers | ({"attention_bias": needs[0]} if needs else {}),
        "encoding": {"name": "none"} if decoder_only(name) else node,
        "decoder_encoding": node,
    }
    return build_model(config, source, target, PAD)


def decoder_only(name: str) -> bool:
    return "encoder" in encodings[name].cls.refuses  # type: ignore[attr-defined]


def hf_t5(attention: str = "sdpa") -> Any:
    """Hugging Face's T5, with its relative bias, by SDPA or written out (eager)."""
    transformers = import_module("transformers")
    config = transformers.T5Config(
        vocab_size=VOCABULARY,
        d_model=WIDTH,
        d_kv=WIDTH // HEADS,
        num_heads=HEADS,
        d_ff=FEEDFORWARD,
        num_layers=LAYERS,
        num_decoder_layers=LAYERS,
        dropout_rate=0.0,
        decoder_start_token_id=PAD,
        pad_token_id=PAD,
        eos_token_id=None,
    )
    return transformers.T5ForConditionalGeneration._from_config(config, attn_implementation=attention)


def x_transformers(source: int, target: int, positions: Mapping[str, bool], **options: Any) -> Any:
    """x-transformers' encoder-decoder for so many tokens a side, with positions such as `rel_pos_bias` alone."""
    layers = {"num_tokens": VOCABULARY, "depth": LAYERS, "heads": HEADS, "use_abs_pos_emb": False, **positions}

    def side(name: str, length: int) -> dict[str, object]:
        return {f"{name}_{option}": value for option, value in (layers | {"max_seq_len": length}).items()}

    sides = side("enc", source) | side("dec", target)
    return import_module("x_transformers").XTransformer(dim=WIDTH, tie_token_emb=True, **sides, **options)


class TorchTransformer(nn.Module):
    """torch.nn.Transformer, pre-norm, with learned absolute positions and one tied embedding."""

    def __init__(self, longest: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(longest, WIDTH)
        for table in (self.tokens, self.positions):
            nn.init.normal_(table.weight, std=WIDTH**-0.5)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "enable_nested_tensor")  # pre-norm has no nested tensors
            self.transformer = nn.Transformer(
                WIDTH, HEADS, LAYERS, LAYERS, FEEDFORWARD, dropout=0.0, batch_first=True, norm_first=True
            )

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """(B, S) and (B, T) -> logits (B, T, V)."""
        length = target.shape[1]
        future = torch.ones(length, length, dtype=torch.bool, device=target.device).triu(1)
        states = self.transformer(
            self.embed(source),
            self.embed(target),
            tgt_mask=future,
            src_key_padding_mask=source.eq(PAD),
            memory_key_padding_mask=source.eq(PAD),
            tgt_is_causal=True,
        )
        return F.linear(states, self.tokens.weight)

    def embed(self, ids: Tensor) -> Tensor:
        return (self.tokens(ids) + self.positions.weight[: ids.shape[1]]) * WIDTH**0.5
