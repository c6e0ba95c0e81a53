"""A slot of a stack (encoder, decoder or cross) and the encodings it owns; layers own none and are handed theirs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from relformer.encodings import PositionalEncoding, Positions, Role, Span
from relformer.encodings.none import NoPositions
from relformer.encodings.span import count
from relformer.errors import OptionError, UserError
from relformer.model.options import ModelOptions
from relformer.registry import Entry, encodings, located
from relformer.seeding import seed_generators

ROLES: dict[Role, str] = {"encoder": "an encoder", "decoder": "a decoder", "cross": "cross-attention"}


@dataclass(frozen=True)
class Placed:
    """An encoding where it acts: `span` for the whole call, `fresh` for the keys that are new in it."""

    encoding: PositionalEncoding
    span: Span
    fresh: Span

    def unread(self) -> Placed:
        """The same without what a layer has made of its table: a layer made twice makes that twice, too."""
        span = replace(self.span)
        return replace(self, span=span, fresh=span if self.fresh is self.span else replace(self.fresh))


class Slot(nn.Module):
    """The encodings of one slot: `encodings[of_layer[n]]` serves layer n."""

    def __init__(self, modules: list[PositionalEncoding], of_layer: list[int]) -> None:
        super().__init__()
        self.encodings = nn.ModuleList(modules)
        self.of_layer = of_layer

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        """What the layers share is as the first has it: compositions of before had idle copies of a table at the
        input, one a layer."""
        for number, encoding in enumerate(self):
            for name in encoding.shared if number else ():
                if (first := f"{prefix}encodings.0.{name}") in state_dict:
                    state_dict[f"{prefix}encodings.{number}.{name}"] = state_dict[first]
        super()._load_from_state_dict(state_dict, prefix, *others)

    def __iter__(self) -> Iterator[PositionalEncoding]:
        for encoding in self.encodings:
            assert isinstance(encoding, PositionalEncoding)
            yield encoding

    @property
    def first(self) -> PositionalEncoding:
        """The encoding that draws positions and acts on the stack's input."""
        return next(iter(self))

    def positions(self, length: int, batch: int, device: torch.device) -> Positions:
        """Where the tokens of a sequence batch stand.

        In training every encoding, drawing or not, takes one number from the global stream, and draws apart from it:
        runs of one seed have one dropout, whatever their encodings.
        """
        if not self.training:
            return self.first.positions(length, batch, device)
        key = torch.randint(2**62, (), device="cpu")
        if not self.first.acts("positions"):
            return self.first.positions(length, batch, device)
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            seed_generators(int(key), device)
            return self.first.positions(length, batch, device)

    def span_length(self, *positions: Positions) -> int:
        """`Span.length` for sequences that stand there: where it changes a formula, one more than the largest
        position; elsewhere how many there are, which no device has to be asked for."""
        if not any(encoding.length_dependent for encoding in self):
            return max(map(count, positions))
        return max(each.stop if isinstance(each, range) else int(each.max()) + 1 for each in positions)

    def tables(self, positions: range, device: torch.device) -> list[Tensor | None]:
        """Each instance's table for all distances within a generation: (H, 2n - 1)."""
        whole = Span.between(positions, positions, len(positions), device)
        return [encoding.tabulated(whole) for encoding in self]

    def place(
        self,
        q: Positions,
        k: Positions,
        fresh: Positions,
        length: int,
        device: torch.device,
        tables: list[Tensor | None] | None = None,
    ) -> list[Placed]:
        """One `Placed` a layer, for queries at q and keys at k of which `fresh` are new.

        Each instance prepares once; `tables` are what `tables` made.
        """
        call = Span.between(q, k, length, device)
        alone = call if fresh is k else Span.between(fresh, fresh, length, device)
        placed = []
        for encoding, table in zip(self, tables or [None] * len(self.encodings), strict=True):
            span = encoding.ready(call, table)
            apart = alone is not call and (encoding.acts("key") or encoding.acts("key_input"))
            placed.append(Placed(encoding, span, encoding.ready(alone) if apart else span))
        return [placed[index] for index in self.of_layer]


def refuse_visible_prefix(entry: Entry, path: str) -> None:
    """Encodings of causal attention alone."""
    if "encoder" in entry.cls.refuses:  # type: ignore[attr-defined]
        raise UserError(
            f"{path}={entry.name} can't serve model.prefix=visible: it is not defined where a query has keys on both "
            "sides; choose model.prefix=causal, or another encoding"
        )


def build_slot(options: Mapping[str, Any], role: Role, path: str, model: ModelOptions, vocabulary: int = 3) -> Slot:
    """The slot that a config node describes: `name`, `share`, `layers`, and the encoding's own options.

    `vocabulary` is the number of token ids on the slot's side, for encodings that have a table by word.

    Raises:
        UserError, OptionError: with the config path of the slot.
    """
    if "name" not in options:
        raise UserError(f"{path} has no name; its YAML must say which encoding it is: name: alibi")
    own = {key: value for key, value in options.items() if key not in ("name", "_target_", "share", "layers")}
    target = options.get("_target_")
    entry = located(options["name"], target) if target else encodings[options["name"]]
    depth = model.encoder_layers if role == "encoder" else model.decoder_layers
    served = served_layers(options.get("layers", "all"), depth, path)
    refuse_role(entry, role, path)
    acts_as: Role = "encoder" if model.visible_prefix else role  # a query of a source has keys on both sides
    if acts_as != role:
        refuse_visible_prefix(entry, path)
        for part in own.get("parts") or ():
            if isinstance(part, Mapping) and part.get("name") in encodings:
                refuse_visible_prefix(encodings[part["name"]], path)

    def build(layer: int) -> PositionalEncoding:
        injected = {
            "heads": model.heads,
            "head_dim": model.head_size,
            "width": model.width,
            "layers": depth,
            "layer": layer,
            "role": acts_as,
            "vocabulary": vocabulary,
            "embedding_std": model.embedding_std,
        }
        try:
            built: PositionalEncoding = entry.build(injected, own)
        except OptionError as error:
            raise error.at(path) from None
        built.locate(path)
        return built

    first = build(served[0])
    refuse_misplaced(first, options["name"], model, role, options, path)
    published = entry.cls.published_share(own)  # type: ignore[attr-defined]
    if model.share_layers and not first.own_layer:
        published = "stack"  # what is published as a layer's own belongs to the one layer
    share = options.get("share") or published
    modules = [first] if share == "stack" else [first, *(build(layer) for layer in served[1:])]
    for twin in modules[1:]:
        for name in twin.shared:
            owner, _, leaf = name.rpartition(".")
            setattr(twin.get_submodule(owner), leaf, getattr(first.get_submodule(owner), leaf))
    of_layer = [0 if share == "stack" else served.index(n) if n in served else -1 for n in range(depth)]
    if len(served) < depth:
        modules.append(NoPositions())
        of_layer = [index if n in served else len(modules) - 1 for n, index in enumerate(of_layer)]
    return Slot(modules, of_layer)


def served_layers(layers: Any, depth: int, path: str) -> list[int]:
    if layers == "all":
        return list(range(depth))
    numbers = list(layers) if isinstance(layers, (list, tuple)) else None
    if not numbers or any(type(n) is not int or not 0 <= n < depth for n in numbers):
        raise OptionError("layers", layers, f"must be all or a list of layer numbers from 0 to {depth - 1}", path)
    return sorted(set(numbers))


def refuse_role(entry: Entry, role: Role, path: str) -> None:
    """Roles for which the method has no definition."""
    reason = entry.cls.refuses.get(role)  # type: ignore[attr-defined]
    if reason:
        raise UserError(f"{path}={entry.name} can't serve {ROLES[role]}: {reason}")


def refuse_misplaced(
    encoding: PositionalEncoding, name: str, model: ModelOptions, role: Role, options: Mapping[str, Any], path: str
) -> None:
    """Options under which an encoding would silently do nothing, only in part, or something else than published."""
    share, layers = options.get("share"), options.get("layers", "all")
    if share not in (None, "stack", "layer"):
        raise OptionError("share", share, "is not one of stack, layer", path)
    if encoding.needs_attention_bias and model.attention_bias not in encoding.needs_attention_bias:
        raise UserError(
            f"{path}={name} needs model.attention_bias={' or '.join(encoding.needs_attention_bias)}, "
            f"not {model.attention_bias}: {encoding.bias_reason}"
        )
    if model.decoder_only and encoding.by_token and not model.one_vocabulary:
        raise UserError(
            f"{path}={name} has a row for each token, and a decoder-only model reads source and target in one "
            "sequence; give both sides one vocabulary by model.tie=all, or choose another encoding"
        )
    if encoding.own_layer and (share == "stack" or layers != "all"):
        raise UserError(
            f"{path}: with these options {name} acts in layers by their number, so {path}.share=stack and "
            f"{path}.layers can't be set; remove them, or the option that counts layers"
        )
    if not (encoding.acts("embed") or encoding.acts("positions")):
        return
    if role == "cross":
        raise UserError(
            f"{path}={name} acts on the input of a stack, and cross-attention has none of its own; "
            "set it as encoding or decoder_encoding, or choose one that acts on attention"
        )
    if share == "layer" or layers != "all":
        raise UserError(
            f"{path}: {name} acts on the input of the stack, so {path}.share and {path}.layers can't be set"
        )
