"""A learned bias for every pair of absolute positions and head (no paper; the control for biases by distance).

    score(i, j) += W[h, i, j]        W in R^{H x M x M}, M = max_length

simple_bias without its one assumption, that (i, j) and (i + 1, j + 1) are alike: what it does better than this comes
from shift invariance, what both do better than an input encoding from acting on the logits. The table grows with the
square of `max_length`, ends there with an error, and in a decoder never uses its upper triangle.
"""

from typing import Literal

from torch import Tensor

from relformer.encodings.base import PositionalEncoding
from relformer.encodings.parameters import constant, parameter, uniform
from relformer.encodings.positions_limit import refuse_beyond
from relformer.encodings.precision import precise
from relformer.encodings.resizing import overlaid
from relformer.encodings.span import Span, as_tensor
from relformer.errors import OptionError
from relformer.registry import register


@register("absolute_bias", family="bias", changes="logits, by positions", learned="yes", beyond="error", paper="")
class AbsoluteBias(PositionalEncoding):
    share = "layer"

    def __init__(self, heads: int, *, max_length: int = 256, init: Literal["uniform", "zeros"] = "uniform") -> None:
        super().__init__()
        if max_length < 1:
            raise OptionError("max_length", max_length, "must be at least 1: the number of positions in the table")
        law = uniform(0.1) if init == "uniform" else constant(0.0)
        self.pair_weight = parameter(law, heads, max_length, max_length)

    def max_positions(self) -> int:
        return self.pair_weight.shape[1]

    def resized(self, name: str, old: PositionalEncoding) -> Tensor | None:
        """The pairs that both tables have."""
        assert isinstance(old, AbsoluteBias)
        return overlaid(self.pair_weight, old.pair_weight, grown=(1, 2))

    def prepare(self, span: Span) -> Tensor:
        """The bias of every pair: (B | 1, H, Q, K).

        Raises:
            LengthError: a position beyond the table.
        """
        for positions in (span.q, span.k):
            refuse_beyond(positions, self.max_positions(), self.path)
        if isinstance(span.q, range) and isinstance(span.k, range):
            return precise(self.pair_weight[None, :, span.q.start : span.q.stop, span.k.start : span.k.stop])
        i, j = as_tensor(span.q, span.device)[:, :, None], as_tensor(span.k, span.device)[:, None, :]
        return precise(self.pair_weight[:, i, j].transpose(0, 1))

    def bias(self, span: Span) -> Tensor:
        return span.prepared
