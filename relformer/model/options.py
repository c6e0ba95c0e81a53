"""The options of a model: sizes, norm, dropout, tying. Position never stands here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from relformer.errors import OptionError

MOST = {
    "width": 10**6,
    "heads": 10**6,
    "head_dim": 10**6,
    "encoder_layers": 1000,
    "decoder_layers": 1000,
    "feedforward": 10**6,
}
"""Beyond what anybody trains; a slip of the keyboard is not to fill the memory."""
GATED = {"reglu": "relu", "geglu": "gelu", "geglu_tanh": "gelu_tanh", "swiglu": "silu"}
"""The gated feed-forwards, by the activation of their gate."""


@dataclass(frozen=True)
class ModelOptions:
    """An encoder-decoder Transformer, or with `encoder_layers=0` a decoder-only one: source and target are then one
    sequence, of the decoder stack without cross-attention.

    `prefix`: what a token of such a model's source sees: those before it (`causal`), or the whole source (`visible`,
    the prefix language model of Raffel et al. 2020, arXiv:1910.10683). `head_dim`: channels of a head; null is width /
    heads, which must then divide. `share_layers`: the layers of a stack are one, run as often as there are layers (the
    Universal Transformer of Dehghani et al. 2019, arXiv:1807.03819, without halting or encodings of depth, as in
    Csordás et al. 2021); its encodings are then shared by the stack too, unless their `share` says otherwise.
    `gelu_tanh` is GELU by tanh (`gelu_new`). `tie`: which of source embedding, target embedding and output layer are
    one: `inputs` the first two (T5 1.1), `decoder` the last two. `embedding_scale`: sqrt(width) on the embeddings as
    they enter (Vaswani et al.), its inverse on what the output layer reads (T5), or neither (BART). `embedding_norm`: a
    norm where they enter, behind absolute positions (BART). `output_bias`: fixed biases of the logits, 0 in a new model
    (Marian, BART). `attention_init`: the law of the projections of attention; `xavier_packed` draws queries, keys and
    values as one matrix (fairseq, PyTorch's MultiheadAttention), smaller than `xavier` does by sqrt(2): with
    `norm=post` deep or narrow stacks may need it, or attention stays even.
    """

    width: int = 64
    heads: int = 4
    head_dim: int | None = None
    encoder_layers: int = 2
    decoder_layers: int = 2
    share_layers: bool = False
    prefix: Literal["causal", "visible"] = "causal"
    feedforward: int = 128
    norm: Literal["pre", "post"] = "pre"
    norm_type: Literal["layer", "rms"] = "layer"
    activation: Literal["relu", "gelu", "gelu_tanh", "silu", "reglu", "geglu", "geglu_tanh", "swiglu"] = "relu"
    dropout: float = 0.0
    attention_dropout: float = 0.0
    feedforward_dropout: float = 0.0
    tie: Literal["none", "inputs", "decoder", "all"] = "decoder"
    embedding_scale: Literal["input", "output", "none"] = "input"
    embedding_norm: bool = False
    output_bias: bool = False
    attention_bias: Literal["none", "qk", "qkv", "all"] = "none"
    feedforward_bias: bool = True
    attention_init: Literal["xavier", "xavier_packed", "t5"] = "xavier"

    def __post_init__(self) -> None:
        for name, most in MOST.items():
            value = getattr(self, name)
            least = 0 if name == "encoder_layers" else 1
            if value is not None and not least <= value <= most:
                rule = f"must be at least {least}" if value < least else f"must be at most {most:,}"
                raise OptionError(name, value, rule, "model")
        for name in ("dropout", "attention_dropout", "feedforward_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise OptionError(name, getattr(self, name), "must lie in [0, 1): it is a probability", "model")
        if self.visible_prefix and not self.decoder_only:
            rule = (
                "is for a decoder-only model: an encoder sees the whole source; set model.encoder_layers=0, or leave it"
            )
            raise OptionError("prefix", self.prefix, rule, "model")
        if self.head_dim is None and self.width % self.heads:
            divisors = [d for d in range(1, self.width + 1) if self.width % d == 0]
            near = sorted(sorted(divisors, key=lambda d: abs(d - self.heads))[:2])
            rule = f"does not divide model.width={self.width}; choose a divisor such as {' or '.join(map(str, near))}"
            raise OptionError("heads", self.heads, rule, "model")

    @property
    def head_size(self) -> int:
        """Channels of a head."""
        return self.head_dim or self.width // self.heads

    @property
    def inner_width(self) -> int:
        """Channels of all heads together."""
        return self.heads * self.head_size

    @property
    def decoder_only(self) -> bool:
        return self.encoder_layers == 0

    @property
    def visible_prefix(self) -> bool:
        return self.prefix == "visible"

    @property
    def own_layers(self) -> tuple[int, int]:
        """Layers with weights of their own in the encoder and in the decoder."""
        most = 1 if self.share_layers else max(self.encoder_layers, self.decoder_layers)
        return min(self.encoder_layers, most), min(self.decoder_layers, most)

    @property
    def gated(self) -> bool:
        return self.activation in GATED

    @property
    def one_vocabulary(self) -> bool:
        """Whether source and target have one embedding."""
        return self.tie in ("inputs", "all")

    @property
    def embedding_std(self) -> float:
        """Of the token embeddings as they enter the stacks: 1, unless a tied output layer would then read its weights
        unscaled."""
        return self.width**-0.5 if self.embedding_scale == "none" and self.tie in ("decoder", "all") else 1.0
