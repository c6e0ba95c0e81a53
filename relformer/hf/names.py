"""Our names of a model's tensors beside theirs; the embeddings and the output layer are not among them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from relformer.model import ModelOptions

Names = dict[str, str]
PROJECTIONS = ("query", "key", "value", "out")
BRANCHES = {
    "encoder": ("attention", "feedforward"),
    "decoder": ("attention", "cross_attention", "feedforward"),
}
T5_ATTENTION = {"attention": "SelfAttention", "cross_attention": "EncDecAttention"}
T5_PROJECTIONS = ("q", "k", "v", "o")
BART_ATTENTION = {"attention": "self_attn", "cross_attention": "encoder_attn"}
BART_PROJECTIONS = ("q_proj", "k_proj", "v_proj", "out_proj")
NORMS = {"attention": "attention_branch", "cross_attention": "cross_branch", "feedforward": "feedforward_branch"}


def layers(options: ModelOptions) -> Iterator[tuple[str, int]]:
    for stack, depth in (("encoder", options.encoder_layers), ("decoder", options.decoder_layers)):
        yield from product((stack,), range(depth))


def t5_names(options: ModelOptions) -> Names:
    """Of T5: no biases; the position table lies in the first layer of a stack, which is where all of them read it."""
    inner = {"gate": "wi_0", "inner": "wi_1"} if options.gated else {"inner": "wi"}
    names: Names = {}
    for stack, n in layers(options):
        for place, part in enumerate(BRANCHES[stack]):
            ours, theirs = f"{stack}.layers.{n}", f"{stack}.block.{n}.layer.{place}"
            names[f"{ours}.{NORMS[part]}.norm.weight"] = f"{theirs}.layer_norm.weight"
            if part == "feedforward":
                for own, other in {**inner, "outer": "wo"}.items():
                    names[f"{ours}.{part}.{own}.weight"] = f"{theirs}.DenseReluDense.{other}.weight"
            else:
                for own, other in zip(PROJECTIONS, T5_PROJECTIONS, strict=True):
                    names[f"{ours}.{part}.{own}.weight"] = f"{theirs}.{T5_ATTENTION[part]}.{other}.weight"
    for stack in BRANCHES:
        names[f"{stack}.norm.weight"] = f"{stack}.final_layer_norm.weight"
        table = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        names[f"{stack}.slot.encodings.0.bucket_weight"] = table
    return names


def bart_names(options: ModelOptions) -> Names:
    """Of BART and Marian, which share a layout."""
    pairs: Names = {}
    for stack, n in layers(options):
        ours, theirs = f"{stack}.layers.{n}", f"model.{stack}.layers.{n}"
        for part in BRANCHES[stack]:
            if part == "feedforward":
                pairs |= {
                    f"{ours}.{part}.inner": f"{theirs}.fc1",
                    f"{ours}.{part}.outer": f"{theirs}.fc2",
                    f"{ours}.{NORMS[part]}.norm": f"{theirs}.final_layer_norm",
                }
                continue
            attention = f"{theirs}.{BART_ATTENTION[part]}"
            for own, other in zip(PROJECTIONS, BART_PROJECTIONS, strict=True):
                pairs[f"{ours}.{part}.{own}"] = f"{attention}.{other}"
            pairs[f"{ours}.{NORMS[part]}.norm"] = f"{attention}_layer_norm"
    if options.embedding_norm:
        pairs |= {f"{stack}.embedding_norm": f"model.{stack}.layernorm_embedding" for stack in BRANCHES}
    return {f"{ours}.{leaf}": f"{theirs}.{leaf}" for ours, theirs in pairs.items() for leaf in ("weight", "bias")}
