"""A checkpoint of the hub as a run of ours: configuration, weights, tokenizers.

Every tensor has its place, or the import stops. Rows of the embeddings stand in our order of ids; where two of our
control ids are one token there, both have its row, and `output_bias` bars the extra one from the output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from relformer.config import compose, prepare, update
from relformer.data.text.imported import Controls, ImportedTokenizer
from relformer.data.vocabulary import Coder, stored_pair
from relformer.encodings.sinusoid import sinusoid
from relformer.errors import UserError
from relformer.hf.coders import coders_of
from relformer.hf.families import decoding_overrides, overrides_of, trained_length
from relformer.hf.library import SCHEME, load_model
from relformer.hf.names import bart_names, t5_names
from relformer.model import ModelOptions
from relformer.training.resume import run_parts

BARRED = -200.0
"""Added to a logit: e^-200 is 0 in float32, and label smoothing over thousands of tokens feels next to nothing."""
OFFSET = 2
"""BART's position t is row t + 2 of its table."""
Imported = tuple[dict[str, Any], dict[str, Tensor], tuple[Coder, Coder]]


@dataclass(frozen=True)
class Sides:
    """The vocabularies of source and target."""

    source: Controls
    target: Controls


def from_hf(path: str) -> Imported:
    """The configuration that builds the model (with the `vocabulary`), the state of its `Seq2Seq`, and its tokenizers.

    Args:
        path: a folder or a name on the hub, with or without `hf:` before it.

    Raises:
        UserError: transformers is missing, or something of the model has no place in relformer.
    """
    prepare()
    path = path.removeprefix(SCHEME)
    model = load_model(path)
    sides = controls_of(model)
    coders = coders_of(path, sides.source, sides.target)
    first = coders[0]
    bos = isinstance(first, ImportedTokenizer) and first.prefix == [sides.source.start] and is_t5(model)
    if bos and isinstance(first, ImportedTokenizer):  # it puts before a text what begins a target: our BOS
        coder = ImportedTokenizer(first.text, first.controls)
        coders = coder, coder
    overrides = [*overrides_of(model), *decoding_overrides(model.generation_config)]
    bias = output_bias(model, sides.target)
    overrides.append(f"model.output_bias={str(bias is not None).lower()}")
    overrides.append(f"data.bos={str(bos).lower()}")
    choices = [override for override in overrides if "." not in override.partition("=")[0]]
    composed = compose(["data=text_files", *choices])
    update(composed, [override for override in overrides if override not in choices])
    config = {**run_parts(composed), "vocabulary": stored_pair(*coders), "fingerprint": ""}
    config |= {"max_steps": 0, "trained_length": trained_length(model.config), "length_side": "target"}
    return config, state_of(model, ModelOptions(**config["model"]), sides, bias), coders


def is_t5(model: Any) -> bool:
    return model.config.model_type in ("t5", "mt5")


def controls_of(model: Any) -> Sides:
    config, generation = model.config, model.generation_config
    start = getattr(config, "decoder_start_token_id", None)
    start = generation.decoder_start_token_id if start is None else start
    if start is None and is_t5(model):
        start = config.pad_token_id
    eos = config.eos_token_id[0] if isinstance(config.eos_token_id, list) else config.eos_token_id
    for name, value in (
        ("pad_token_id", config.pad_token_id),
        ("eos_token_id", eos),
        ("decoder_start_token_id", start),
    ):
        if value is None:
            raise UserError(f"the model's configuration has no {name}; add it to its config.json")
    sizes = (len(stack.get_input_embeddings().weight) for stack in (model.get_encoder(), model.get_decoder()))
    source, target = (Controls(size, config.pad_token_id, start, eos) for size in sizes)
    return Sides(source, source if source == target else target)


def output_bias(model: Any, target: Controls) -> Tensor | None:
    """Their fixed bias of the logits, with what bars the extra control id, and padding where they bar it too; None
    where all of it is zero."""
    theirs = getattr(model, "final_logits_bias", None)
    bias = torch.zeros(target.size) if theirs is None else theirs[0].detach().clone()
    if [target.pad] in (model.generation_config.bad_words_ids or []):
        bias[target.pad] += BARRED
    bias = bias[target.rows]
    if target.extra is not None:
        bias[target.extra] += BARRED
    return bias if bias.any() else None


def state_of(model: Any, options: ModelOptions, sides: Sides, bias: Tensor | None) -> dict[str, Tensor]:
    """Every tensor under our name.

    Raises:
        UserError: one that relformer has no place for.
    """
    theirs: Mapping[str, Tensor] = model.state_dict()
    names = t5_names(options) if is_t5(model) else bart_names(options)
    state = {ours: theirs[name].clone() for ours, name in names.items()}
    source, target = (stack.get_input_embeddings().weight for stack in (model.get_encoder(), model.get_decoder()))
    output = model.get_output_embeddings().weight
    state["source_embedding.weight"] = source.detach()[sides.source.rows]
    state["target_embedding.weight"] = target.detach()[sides.target.rows]
    if options.tie in ("none", "inputs"):
        state["output.weight"] = output.detach()[sides.target.rows]
    if bias is not None:
        state["output_bias"] = bias
    used = {*names.values(), "final_logits_bias"}
    tied = {weight.data_ptr() for weight in (source, target, output)}
    for name, tensor in theirs.items():
        if name.endswith(".embed_positions.weight"):
            stack = name.split(".")[1]
            state |= positions_of(stack, tensor, model.config)
        elif name not in used and tensor.data_ptr() not in tied:
            raise UserError(f"relformer has no place for the model's tensor {name}; it is not of a plain model")
    return state


def positions_of(stack: str, table: Tensor, config: Any) -> dict[str, Tensor]:
    """BART's table without the rows that it never reads; Marian's must be the sinusoid, which needs none.

    Raises:
        UserError: it is another.
    """
    if config.model_type == "bart":
        return {f"{stack}.slot.encodings.0.position_weight": table[OFFSET:].clone()}
    if not torch.allclose(table, sinusoid(torch.arange(len(table)), table.shape[1], "concat"), atol=1e-3):
        raise UserError(f"the model's positions ({stack}) are not Marian's sinusoid, and relformer would make that")
    return {}
