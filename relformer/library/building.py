"""Encodings and models by name and options, without a configuration."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, get_type_hints

import torch

import relformer.encodings  # noqa: F401  registers them
from relformer import model as models
from relformer.attention import refuse
from relformer.encodings import PositionalEncoding, Role, draw
from relformer.errors import OptionError, UserError
from relformer.model import ModelOptions, Seq2Seq
from relformer.model.slot import ROLES, refuse_role
from relformer.presets import preset
from relformer.registry import Entry, encodings, load_plugins

Options = Mapping[str, Any]


def build_encoding(
    name: str,
    *,
    heads: int,
    head_dim: int,
    role: Role = "encoder",
    model_width: int | None = None,
    layers: int = 1,
    layer: int = 0,
    vocabulary: int | None = None,
    embedding_std: float = 1.0,
    seed: int = 0,
    **options: Any,
) -> PositionalEncoding:
    """A registered encoding for use in one's own model, its parameters drawn from `seed`; see `attend`.

    Args:
        name: as in `relformer encodings`.
        role: the attention it stands in: encoder, decoder or cross.
        model_width: E, for encodings of the input; heads * head_dim unless given.
        layers, layer: the stack's depth, and which of its layers this is.
        vocabulary: how many token ids there are, for an encoding with a table by word (complex).
        embedding_std: of the token embeddings as they enter the stack, which learned positions start with.
        options: the encoding's own, as `relformer encodings show NAME` lists them.

    Raises:
        UserError: no such encoding or option, a value that breaks its rule, or a role the method is not defined in.
    """
    if name not in encodings:
        load_plugins()
    entry = encodings[name]
    if role not in ROLES:
        raise UserError(f"role={role!r} is not one of {', '.join(ROLES)}")
    for argument, value in (("heads", heads), ("head_dim", head_dim), ("layers", layers)):
        if type(value) is not int or value < 1:
            raise UserError(f"{argument}={value!r} must be an integer of at least 1")
    refuse_role(entry, role, "encoding")
    if vocabulary is None and "vocabulary" in inspect.signature(entry.constructor).parameters and name != "compose":
        raise UserError(f"{name} has a row for each word: give vocabulary=, the number of token ids")
    injected = {
        "heads": heads,
        "head_dim": head_dim,
        "width": heads * head_dim if model_width is None else model_width,
        "layers": layers,
        "layer": layer,
        "role": role,
        "vocabulary": 3 if vocabulary is None else vocabulary,
        "embedding_std": embedding_std,
    }
    with torch.random.fork_rng(devices=[]):
        built: PositionalEncoding = entry.build(injected, options)
    draw(built, seed)
    return built


def build_model(
    model: str | Options = "tiny",
    encoding: str | Options = "t5",
    *,
    vocabulary: int | tuple[int, int],
    decoder_encoding: str | Options | None = None,
    cross_encoding: str | Options = "none",
    seed: int = 0,
    backend: str = "auto",
) -> Seq2Seq:
    """A Transformer from source to target: `model(source, target)` gives logits; ids 0, 1, 2 are padding, BOS and EOS.

    Args:
        model: a preset's name (tiny, small, base, big, decoder_only), or options: `{"width": 128, "heads": 4}`.
        encoding: a name, or options with one: `{"name": "rope", "base": 500.0}`.
        vocabulary: the number of token ids, or those of source and target.
        decoder_encoding: the encoder's unless given.
        seed: of every parameter, by its name: models that differ in their encoding share all other weights.

    Raises:
        UserError: by config path, as on the command line.
    """
    options = preset("model", model) if isinstance(model, str) else dict(model)
    slots = {"encoding": encoding, "decoder_encoding": decoder_encoding, "cross_encoding": cross_encoding}
    nodes = {slot: node_of(slot, given) for slot, given in slots.items() if given is not None}
    try:
        checked = Entry("model", ModelOptions).typed(options, get_type_hints(ModelOptions))
    except OptionError as error:
        raise error.at("model") from None
    sizes = vocabulary if isinstance(vocabulary, tuple) else (vocabulary, vocabulary)
    config = {"seed": seed, "model": checked, "attention": {"backend": backend}, **nodes}
    with torch.random.fork_rng(devices=[]):
        built = models.build_model(config, *sizes)
    for slot in built.slots.values():
        for each in slot:
            refuse(backend, each)
    return built


def node_of(slot: str, given: str | Options) -> dict[str, Any]:
    """A slot's options as its YAML would have them."""
    node = {"name": given} if isinstance(given, str) else dict(given)
    if "name" not in node:
        raise UserError(f"{slot}={node} has no name; say which encoding it is: {{'name': 'rope', ...}}")
    if node["name"] not in encodings:
        load_plugins()
    return node
