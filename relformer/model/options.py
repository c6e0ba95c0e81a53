"""The options of a model: sizes, norm, dropout, tying. Position never stands here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from relformer.errors import OptionError

MOST = {"width": 10**6, "heads": 10**6, "encoder_layers": 1000, "decoder_layers": 1000, "feedforward": 10**6}
"""Beyond what anybody trains; a slip of the keyboard is not to fill the memory."""


@dataclass(frozen=True)
class ModelOptions:
    """An encoder-decoder Transformer. `heads` must divide `width`; each head has width / heads channels."""

    width: int = 64
    heads: int = 4
    encoder_layers: int = 2
    decoder_layers: int = 2
    feedforward: int = 128
    norm: Literal["pre", "post"] = "pre"
    norm_type: Literal["layer", "rms"] = "layer"
    activation: Literal["relu", "gelu", "reglu", "geglu", "swiglu"] = "relu"
    dropout: float = 0.0
    attention_dropout: float = 0.0
    feedforward_dropout: float = 0.0
    tie: Literal["none", "decoder", "all"] = "decoder"
    attention_bias: Literal["none", "qk", "qkv", "all"] = "none"
    attention_init: Literal["xavier", "t5"] = "xavier"

    def __post_init__(self) -> None:
        for name, most in MOST.items():
            if not 1 <= getattr(self, name) <= most:
                rule = "must be at least 1" if getattr(self, name) < 1 else f"must be at most {most:,}"
                raise OptionError(name, getattr(self, name), rule, "model")
        for name in ("dropout", "attention_dropout", "feedforward_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise OptionError(name, getattr(self, name), "must lie in [0, 1): it is a probability", "model")
        if self.width % self.heads:
            divisors = [d for d in range(1, self.width + 1) if self.width % d == 0]
            near = sorted(sorted(divisors, key=lambda d: abs(d - self.heads))[:2])
            rule = f"does not divide model.width={self.width}; choose a divisor such as {' or '.join(map(str, near))}"
            raise OptionError("heads", self.heads, rule, "model")

    @property
    def head_dim(self) -> int:
        return self.width // self.heads
