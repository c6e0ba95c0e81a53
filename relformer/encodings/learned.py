"""Learned absolute positions (Gehring et al. 2017, arXiv:1705.03122; BERT, Devlin et al. 2018, arXiv:1810.04805).

    x'_t = emb_t + P[t]                 P in R^{max_length x E}

The table ends: a longer sequence is an error, never a clipped or wrapped row. `extend` computes more rows from the
table: up to `extend_to` in every pass, and up to a larger `max_length` once, where `init_from` takes a trained table.
`interpolate` resamples it linearly, `hierarchical` is Su's decomposition (kexue.fm/7947): from n rows p_a, u_a =
(p_a - 0.4 p_0) / 0.6, the row of a n + b is 0.4 u_a + 0.6 u_b, which leaves the first n as they are. `init_std: null`
takes the standard deviation of the token embeddings as they enter the stack, which is BERT's ratio; N(0, .02) beside
tokens scaled to standard deviation 1 would be drowned. ConvS2S also adds the encoder's input, position and all, to what
cross-attention's values read: `also_in_cross_value`.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from relformer.encodings.base import PositionalEncoding, Role
from relformer.encodings.injected import AbsoluteRows, Inject
from relformer.encodings.parameters import normal, parameter
from relformer.encodings.positions_limit import refuse_beyond
from relformer.encodings.precision import precise
from relformer.encodings.resizing import overlaid
from relformer.encodings.span import Positions, as_tensor
from relformer.errors import OptionError
from relformer.registry import register

ALPHA = 0.4


@register("learned", family="absolute", changes="input", learned="yes", beyond="error", paper="1810.04805")
class Learned(AbsoluteRows):
    def __init__(
        self,
        width: int,
        embedding_std: float,
        role: Role,
        *,
        max_length: int = 512,
        init_std: float | None = None,
        inject: Inject = "input",
        extend: Literal["error", "interpolate", "hierarchical"] = "error",
        extend_to: int | None = None,
        also_in_cross_value: bool = False,
    ) -> None:
        super().__init__()
        if max_length < 1:
            raise OptionError(
                "max_length", max_length, "must be at least 1: it is the number of positions in the table"
            )
        if init_std is not None and init_std < 0:
            raise OptionError("init_std", init_std, "must not be negative; null takes the token embeddings' own")
        most = max_length**2 if extend == "hierarchical" else None
        if extend == "error" and extend_to is not None:
            raise OptionError("extend_to", extend_to, "needs extend=interpolate or extend=hierarchical")
        if extend_to is not None and (extend_to < max_length or (most and extend_to > most)):
            limit = f" and at most {most}, the square of it" if most else ""
            raise OptionError("extend_to", extend_to, f"must be at least max_length={max_length}{limit}")
        self.inject = inject
        self.also_in_cross_value = also_in_cross_value and role == "encoder"
        self.extend, self.length = extend, extend_to or max_length
        self.limit_option = "max_length" if extend == "error" else "extend_to"
        self.position_weight = parameter(normal(embedding_std if init_std is None else init_std), max_length, width)

    def max_positions(self) -> int:
        return self.length

    def resized(self, name: str, old: PositionalEncoding) -> Tensor | None:
        """A longer table as `extend` makes it of the trained one; with extend=error the rows it lacks stay as drawn."""
        assert isinstance(old, Learned)
        new, trained = self.position_weight, precise(old.position_weight.detach())
        if self.extend == "error" or len(new) < len(trained) or new.shape[1] != trained.shape[1]:
            return overlaid(new, trained)
        if self.extend == "hierarchical" and len(new) > len(trained) ** 2:
            rule = f"reaches {len(trained) ** 2} positions from the {len(trained)} trained ones, the square of them"
            raise OptionError("max_length", len(new), f"is too much for extend=hierarchical, which {rule}", self.path)
        return extended(trained, self.extend, len(new))

    def rows(self, positions: Positions, device: torch.device) -> Tensor:
        """The row of each position.

        Raises:
            LengthError: a position beyond the table; found on the host, before the lookup.
        """
        refuse_beyond(positions, self.length, self.path, self.limit_option)
        table = extended(precise(self.position_weight), self.extend, self.length)
        if isinstance(positions, range):
            return table[None, positions.start : positions.stop]
        return table[as_tensor(positions, device)]


def extended(table: Tensor, how: str, length: int) -> Tensor:
    """A table of `length` rows out of one of n: (n, E) -> (length, E)."""
    if how == "interpolate":
        return F.interpolate(table.T[None], size=length, mode="linear", align_corners=True)[0].T
    if how == "hierarchical":
        basis = (table - ALPHA * table[:1]) / (1 - ALPHA)
        row = torch.arange(length, device=table.device)
        return ALPHA * basis[row // len(table)] + (1 - ALPHA) * basis[row % len(table)]
    return table
