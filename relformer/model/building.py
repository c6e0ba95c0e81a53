"""A model from a plain config: its slots, its stacks, and what lengths they can take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relformer.encodings import LengthError, Role
from relformer.encodings.parameters import draw
from relformer.errors import UserError
from relformer.model.decoder_only import DecoderOnly
from relformer.model.options import ModelOptions
from relformer.model.seq2seq import EncoderDecoder, Seq2Seq
from relformer.model.slot import Slot, build_slot
from relformer.model.stack import Decoder, Encoder, Stack


def build_model(config: Mapping[str, Any], source_vocabulary: int, target_vocabulary: int, pad: int = 0) -> Seq2Seq:
    """The model a plain config describes, every parameter drawn by (seed, name).

    Args:
        config: `seed`, `model`, `encoding`, perhaps `decoder_encoding` and `cross_encoding`, and `attention.backend`.

    Raises:
        UserError: options that no model can have, by config path.
    """
    options = ModelOptions(**config["model"])
    if options.one_vocabulary and source_vocabulary != target_vocabulary:
        raise UserError(
            f"model.tie={options.tie} needs one vocabulary, but the source has {source_vocabulary} tokens and the "
            f"target {target_vocabulary}; choose model.tie=decoder"
        )
    slots = build_slots(config, options, source_vocabulary, target_vocabulary)
    stacks = build_stacks(options, slots, config.get("attention", {}).get("backend", "auto"))
    kind = DecoderOnly if options.decoder_only else EncoderDecoder
    model = kind(options, stacks, source_vocabulary, target_vocabulary, pad)
    draw(model, config["seed"])
    return model


def build_slots(config: Mapping[str, Any], options: ModelOptions, source: int, target: int) -> dict[Role, Slot]:
    """The slots of a model. An absent `decoder_encoding` is the encoder's; an absent `cross_encoding` is none."""
    if options.decoder_only:
        refuse_second_slot(config)
        return {"decoder": build_slot(config["encoding"], "decoder", "encoding", options, target)}
    own, cross = config.get("decoder_encoding"), config.get("cross_encoding") or {"name": "none"}
    path = "decoder_encoding" if own else "encoding"
    return {
        "encoder": build_slot(config["encoding"], "encoder", "encoding", options, source),
        "decoder": build_slot(own or config["encoding"], "decoder", path, options, target),
        "cross": build_slot(cross, "cross", "cross_encoding", options, target),
    }


def refuse_moved_first(model: Seq2Seq) -> None:
    """Raises UserError where an encoding sets the token at position 0 apart, and another draws where tokens stand."""
    slots = model.slots
    for role, slot in slots.items():
        sides: tuple[Role, ...] = ("encoder", "decoder") if role == "cross" else (role,)
        drawing = [slots[side].first.path for side in sides if slots[side].first.acts("positions")]
        if drawing and slot.first.first_apart:
            raise UserError(
                f"{slot.first.path} sets the token at position 0 apart (untie_first, cls), and {drawing[0]} draws "
                "positions, so that the first token stands elsewhere; leave out one of them"
            )


def refuse_second_slot(config: Mapping[str, Any]) -> None:
    """Raises UserError where a decoder-only model is given more encodings than that of its one stack."""
    for path in ("decoder_encoding", "cross_encoding"):
        if (node := config.get(path)) and node.get("name") != "none":
            raise UserError(
                f"{path}={node.get('name')} has no place in a decoder-only model (model.encoder_layers=0): its one "
                f"stack reads source and target, and has `encoding`; leave {path} out"
            )


def build_stacks(options: ModelOptions, slots: Mapping[Role, Slot], backend: str) -> dict[Role, Stack]:
    decoder = Decoder(options, slots["decoder"], slots.get("cross"), backend)
    return (
        {"decoder": decoder}
        if options.decoder_only
        else {
            "encoder": Encoder(options, slots["encoder"], backend),
            "decoder": decoder,
        }
    )


def positions_needed(model: Seq2Seq, source_length: int, target_length: int) -> None:
    """Refuse lengths (in positions, BOS and EOS counted) beyond what the slots' encodings have, before any lookup.

    Raises:
        LengthError: naming the option to raise.
    """
    faults = []
    for role, (length, side) in model.lengths(source_length, target_length).items():
        sides = (("encoder", source_length), ("decoder", target_length)) if role == "cross" else ()
        met = max((model.slots[of].first.positions_end(n) for of, n in sides), default=length)  # type: ignore[index]
        if (short := model.slots[role].first.shortage(met)) is not None:
            drawn = f", up to {short.needed} as they are drawn" if short.needed > length else ""
            faults.append(
                f"the longest {side} has {length} positions (BOS and EOS count){drawn}, more than {short.option}="
                f"{short.limit}; set {short.option}={short.needed} or more, or use an encoding without a table"
            )
    if faults:
        raise LengthError("\nerror: ".join(faults))
