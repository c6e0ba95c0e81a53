"""A batch to decode: sources, limits and constraints, checked before the model runs."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from relformer.decoding.constraints import Constraints
from relformer.decoding.options import DecodingOptions
from relformer.encodings import LengthError
from relformer.errors import UserError
from relformer.model import Seq2Seq, positions_needed


@dataclass(frozen=True)
class Problem:
    """Sources (B, S) with the most tokens that each target may have, and what else binds it."""

    source: Tensor
    options: DecodingOptions
    maximum: list[int]
    constraints: Constraints
    bos: int
    eos: int
    positions: Tensor | None

    @property
    def planned(self) -> int:
        return max(self.maximum)


def longest_target(model: Seq2Seq, source: int) -> int | None:
    """The most tokens that a target can have behind `source` tokens where an encoding has a table; None where none
    has."""
    begins = model.lengths(source, 0)["decoder"][0]
    limits = [slot.first.max_positions() for role, slot in model.slots.items() if role != "encoder"]
    return min((limit - begins for limit in limits if limit is not None), default=None)


def posed(
    model: Seq2Seq,
    source: Tensor,
    options: DecodingOptions,
    bos: int,
    eos: int,
    prefix: Tensor | None = None,
    positions: Tensor | None = None,
    fitting: bool = False,
) -> Problem:
    """The problem, if it can be decoded.

    Raises:
        UserError: limits that contradict each other or the prefix.
        LengthError: targets or sources longer than the positions that an encoding has.
    """
    lengths = source.ne(model.pad).sum(-1).tolist()
    limits = [options.limits(length) for length in lengths]
    minimum, maximum = [least for least, _ in limits], [most for _, most in limits]
    most = longest_target(model, source.shape[1]) if fitting else None
    if most is not None:
        minimum, maximum = ([min(length, max(most, 1)) for length in each] for each in (minimum, maximum))
    rows = [[]] * len(source) if prefix is None else prefix.tolist()
    prefixes = [[token for token in row if token != model.pad] for row in rows]
    for limit, forced in zip(maximum, prefixes, strict=True):
        if len(forced) > limit or eos in forced:
            rule = f"exceeds the {limit} that decoding.max_length_base and decoding.max_length_factor allow"
            raise UserError(
                f"a forced prefix of {len(forced)} tokens {'contains EOS' if eos in forced else rule}; shorten it"
            )
    try:
        span = source.shape[1] if positions is None else int(positions.max()) + 1
        positions_needed(model, span, max(maximum))
    except LengthError as error:
        if most is not None:
            raise
        raise LengthError(
            f"{error}\n  targets may have {options.max_length_base} + {options.max_length_factor:g} * source length "
            "tokens: decoding.max_length_base, decoding.max_length_factor"
        ) from None
    return Problem(
        source, options, maximum, Constraints(minimum, prefixes, options.no_repeat_ngram, eos), bos, eos, positions
    )
