"""Encoder-decoders of one size, ready to decode a batch: ours and, where installed, other people's.

Three layers each side, width 256, 4 heads, feed-forward 1024, one vocabulary of 8,000; T5's relative bias everywhere.
Weights are random, and nothing ends a target, so that all write equally many tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

import torch
from torch import Tensor, nn

from relformer.decoding import DecodingOptions, decode
from relformer.model import build_model

LAYERS, WIDTH, HEADS, FEEDFORWARD, VOCABULARY = 3, 256, 4, 1024, 8000
PAD, BOS, NO_EOS = 0, 1, -1
PEERS = {"transformers": "HF T5", "x_transformers": "x-transformers"}
"""Packages of the extra `peers`, and what their competitor is called."""

Search = Callable[[int], Callable[[], object]]
"""From a number of beams to a run that decodes the batch with them."""


@dataclass(frozen=True)
class Competitor:
    """A model with the searches it has; `around` is held while it decodes batches, as it is around a test set."""

    name: str
    model: nn.Module
    search: Search
    beam: bool = True
    around: Callable[[], AbstractContextManager[None]] = nullcontext

    @property
    def parameters(self) -> int:
        return sum(p.numel() for p in self.model.parameters())


def competitors(source: Tensor, new_tokens: int) -> list[Competitor]:
    """Ours first, then the peers that are installed."""
    made = [ours(source, new_tokens)]
    if find_spec("transformers"):
        made.append(hf_t5(source, new_tokens))
    if find_spec("x_transformers"):
        made.append(x_transformers(source, new_tokens))
    return made


def absent() -> list[str]:
    return [package.replace("_", "-") for package in PEERS if not find_spec(package)]


def ours(source: Tensor, new_tokens: int) -> Competitor:
    sizes = {"width": WIDTH, "heads": HEADS, "feedforward": FEEDFORWARD, "tie": "all"}
    layers = {"encoder_layers": LAYERS, "decoder_layers": LAYERS}
    config = {"seed": 0, "model": sizes | layers, "encoding": {"name": "t5"}}
    model = build_model(config, VOCABULARY, VOCABULARY, PAD).eval().to(source.device)

    def search(beams: int) -> Callable[[], object]:
        options = DecodingOptions(beams=beams, max_length_base=new_tokens, max_length_factor=0.0)
        return lambda: decode(model, source, options, BOS, NO_EOS)

    return Competitor("relformer", model, search, around=model.decoding)


def hf_t5(source: Tensor, new_tokens: int) -> Competitor:
    transformers = import_module("transformers")
    config = transformers.T5Config(
        vocab_size=VOCABULARY,
        d_model=WIDTH,
        d_kv=WIDTH // HEADS,
        num_heads=HEADS,
        d_ff=FEEDFORWARD,
        num_layers=LAYERS,
        num_decoder_layers=LAYERS,
        decoder_start_token_id=PAD,
        pad_token_id=PAD,
        eos_token_id=None,
    )
    model = transformers.T5ForConditionalGeneration(config).eval().to(source.device)
    model.generation_config.eos_token_id = None

    def search(beams: int) -> Callable[[], object]:
        return lambda: model.generate(source, max_new_tokens=new_tokens, do_sample=False, num_beams=beams)

    return Competitor(PEERS["transformers"], model, search)


def x_transformers(source: Tensor, new_tokens: int) -> Competitor:
    def side(name: str, length: int) -> dict[str, object]:
        sizes = {"num_tokens": VOCABULARY, "depth": LAYERS, "heads": HEADS, "max_seq_len": length, "rel_pos_bias": True}
        return {f"{name}_{option}": value for option, value in sizes.items()}

    sides = side("enc", source.shape[1]) | side("dec", new_tokens + 1)
    model = import_module("x_transformers").XTransformer(dim=WIDTH, tie_token_emb=True, **sides)
    model.eval().to(source.device)
    start = torch.full((len(source), 1), BOS, device=source.device)

    def search(beams: int) -> Callable[[], object]:
        return lambda: model.generate(source, start, new_tokens, temperature=0.0)

    return Competitor(PEERS["x_transformers"], model, search, beam=False)
