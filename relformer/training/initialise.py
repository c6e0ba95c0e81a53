"""Weights of a trained model in another one: what fits is copied, tables are read anew by their encoding, embeddings by
token; everything else is listed, and stays as the seed drew it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from omegaconf import DictConfig
from torch import Tensor

from relformer.config import SLOTS, plain
from relformer.data.corpus import Coders, check_corpus
from relformer.data.vocabulary import SPECIAL, Coder
from relformer.encodings import PositionalEncoding, Role
from relformer.errors import UserError
from relformer.model import Seq2Seq, build_model
from relformer.training.module import Seq2SeqModule
from relformer.training.origin import Origin, open_origin

logger = logging.getLogger("relformer")

TOKEN_ROWS = {
    "source_embedding.weight": "source",
    "target_embedding.weight": "target",
    "output.weight": "target",
    "output_bias": "target",
}
SIDES = {"encoder": "source", "decoder": "target", "cross": "target"}
SLOT_PATHS: dict[str, Role] = {"encoder.slot.": "encoder", "decoder.slot.": "decoder", "decoder.cross.": "cross"}
Kind = Literal["new", "dropped", "resized"]


@dataclass(frozen=True)
class Line:
    """One tensor that is not taken as it is."""

    kind: Kind
    name: str
    shape: str
    remark: str


@dataclass
class Transfer:
    """What a model takes from another: tensors taken as they are, and all that is otherwise."""

    origin: Origin
    taken: int = 0
    numbers: int = 0
    lines: list[Line] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    """Of each vocabulary that differs: how many tokens are new, dropped, or have moved."""
    exact: bool = True
    """Whether nothing is new, dropped or resized, and no token new or dropped."""

    def said(self) -> Iterator[str]:
        """The listing, aligned."""
        yield (
            f"weights of {self.origin.path} (step {self.origin.step}): {self.taken} tensors, {self.numbers:,} numbers, "
            "are taken as they are"
        )
        widths = [max((len(getattr(line, name)) for line in self.lines), default=0) for name in ("name", "shape")]
        for line in self.lines:
            yield f"  {line.kind:<9}{line.name:<{widths[0]}}  {line.shape:<{widths[1]}}  {line.remark}".rstrip()
        if self.lines:
            counts = {kind: sum(line.kind == kind for line in self.lines) for kind in ("new", "dropped", "resized")}
            yield "  " + ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
        yield from (f"  {each}" for each in self.tokens)


@torch.no_grad()
def transfer(model: Seq2Seq, coders: Coders, origin: Origin) -> Transfer:
    """Put an origin's weights into a model, in place, and say what did not fit."""
    done = Transfer(origin)
    rows = {
        side: token_rows(side, *pair, done)
        for side, pair in zip(("source", "target"), zip(coders, origin.coders, strict=True), strict=True)
        if model.source_embedding is not model.target_embedding or side == "source"
    }
    rows.setdefault("target", rows["source"])
    used: set[str] = set()
    turned = model.visible_prefix != origin.model.visible_prefix
    for name, tensor in distinct(model):
        old = origin.state.get(name)
        encoding, before, leaf = placed(model, name), None, name
        if encoding is not None:
            leaf = inside(name)
            before = placed(origin.model, name)
            if type(encoding) is not type(before):
                old = None
        if old is None:
            done.lines.append(Line("new", name, shape_of(tensor), "drawn by the seed"))
            continue
        used.add(name)
        side = token_side(name, leaf, encoding)
        fitted, remark = fit(tensor, old, None if side is None else rows[side], encoding, before, leaf, turned)
        if not remark:
            done.taken, done.numbers = done.taken + 1, done.numbers + tensor.numel()
        elif remark != MOVED:
            done.lines.append(Line("resized", name, f"{shape_of(old)} -> {shape_of(tensor)}", remark))
        if fitted is not None:
            tensor.copy_(fitted)
    for name, tensor in origin.state.items():
        if name not in used and not any(torch.equal(tensor, origin.state[n]) for n in used & twins(model, name)):
            done.lines.append(Line("dropped", name, shape_of(tensor), ""))
    done.exact &= not done.lines
    return done


def twins(model: Seq2Seq, name: str) -> set[str]:
    """The names under which the model's state holds the tensor of a name: several, where tensors are tied."""
    state = model.state_dict()
    return set() if name not in state else {n for n, t in state.items() if t.data_ptr() == state[name].data_ptr()}


MOVED = "rows by token"


def fit(
    tensor: Tensor,
    old: Tensor,
    rows: Tensor | None,
    encoding: PositionalEncoding | None,
    before: PositionalEncoding | None,
    leaf: str,
    turned: bool,
) -> tuple[Tensor | None, str]:
    """The new content of a tensor, None where it stays as drawn, and a remark where it is not simply the old one.

    `turned`: an encoding may read its tables otherwise, since its queries have keys on other sides than before.
    """
    if rows is not None:
        if tensor.shape[1:] != old.shape[1:]:
            return None, "other sizes: drawn by the seed"
        known = rows >= 0
        made = tensor.clone()
        made[known] = old[rows[known]].to(made.dtype)
        same = len(old) == len(tensor) and bool((rows == torch.arange(len(rows))).all())
        return made, "" if same else MOVED if len(old) == len(tensor) else f"{int(known.sum())} rows by token"
    if tensor.shape == old.shape and not turned:
        return old, ""
    if encoding is not None and before is not None:
        resized = encoding.resized(leaf, before)
        if resized is not None:
            return resized, "as its encoding extends it"
    if tensor.shape == old.shape:
        return old, ""
    return None, "other sizes: drawn by the seed"


def token_rows(side: str, new: Coder, old: Coder, done: Transfer) -> Tensor:
    """For each token id the old id of the same token, -1 where there is none; control ids are themselves."""
    first = len(SPECIAL)
    ids = {token: number for number, token in enumerate(old.tokens) if number >= first}
    found = [number if number < first else ids.get(token, -1) for number, token in enumerate(new.tokens)]
    rows = torch.tensor(found)
    fresh, kept = int((rows < 0).sum()), len(set(found) - {-1})
    moved = int(((rows != torch.arange(len(rows))) & (rows >= 0)).sum())
    counts = {"new": fresh, "dropped": len(old.tokens) - kept, "moved": moved}
    done.exact &= not fresh and not counts["dropped"]
    if any(counts.values()):
        told = ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)
        done.tokens.append(f"tokens   {side}: {told}, of {len(new.tokens):,} (before: {len(old.tokens):,})")
    return rows


def distinct(model: Seq2Seq) -> Iterator[tuple[str, Tensor]]:
    """Every tensor of the model's state once, by its first name."""
    seen: set[int] = set()
    for name, tensor in model.state_dict().items():
        if tensor.data_ptr() not in seen:
            seen.add(tensor.data_ptr())
            yield name, tensor


def placed(model: Seq2Seq, name: str) -> PositionalEncoding | None:
    """The encoding that a tensor belongs to, if it belongs to one that the model has."""
    for path, role in SLOT_PATHS.items():
        if name.startswith(path):
            number = int(name.removeprefix(path).split(".")[1])
            found = list(model.slots[role]) if role in model.slots else []
            return found[number] if number < len(found) else None
    return None


def inside(name: str) -> str:
    """A tensor's name within its encoding: `encoder.slot.encodings.0.bucket_weight` -> `bucket_weight`."""
    return name.split(".", 4)[4]


def token_side(name: str, leaf: str, encoding: PositionalEncoding | None) -> str | None:
    """The side whose tokens a tensor has rows for."""
    if encoding is None:
        return TOKEN_ROWS.get(name)
    return SIDES[next(r for p, r in SLOT_PATHS.items() if name.startswith(p))] if leaf in encoding.by_token else None


def shape_of(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "1"


def refuse_unlike(done: Transfer, strict: bool, model: Mapping[str, Any]) -> None:
    """Raises UserError, with the listing, where something did not fit and `strict` forbids that.

    Args:
        model: the options of the new model; where the trained one has others, which its weights were trained with,
            they are named. Dropout is none of these.
    """
    if strict and not done.exact:
        lines = [*done.said(), "to go on with these, add init_strict=false"]
        others = [
            f"model.{key}={word(value)}"
            for key, value in done.origin.config["model"].items()
            if "dropout" not in key and model.get(key, value) != value
        ]
        if others:
            lines.append(f"the trained model has other options; to have them here too, add {' '.join(others)}")
        raise UserError("\n".join(lines))


def word(value: Any) -> str:
    """An option's value as it stands on the command line."""
    return json.dumps(value).strip('"')


def check_initialisation(config: DictConfig) -> None:
    """Try `init_from` on a model of the configuration, before a run directory exists.

    Raises:
        UserError: there is no such model, or it does not fit.
    """
    corpus = check_corpus(plain(config, "data")["data"])
    coders = (corpus.source_vocabulary, corpus.target_vocabulary)
    parts = plain(config, "seed", "model", "attention", *SLOTS)
    model = build_model(parts, *map(len, coders))
    refuse_unlike(transfer(model, coders, open_origin(config.init_from)), config.init_strict, parts["model"])


def initialise(module: Seq2SeqModule, init_from: str, strict: bool, aloud: bool) -> None:
    """Give a run's module the weights of another model, and list what did not fit.

    Raises:
        UserError: as `check_initialisation`.
    """
    done = transfer(module.model, (module.source_vocabulary, module.target_vocabulary), open_origin(init_from))
    refuse_unlike(done, strict, module.config["model"])
    if aloud:
        logger.info("%s", "\n".join(done.said()))
