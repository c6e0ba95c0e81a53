"""CoPE: contextual position encoding (Golovneva et al. 2024, arXiv:2405.18719).

    l_ij = D^-0.5 q_i · k_j        g_ij = sigmoid(l_ij)        p_ij = min(sum_{t=j..i} g_it, p_max - 1)
    score(i, j) = l_ij + q_i · e(p_ij)        e(p) between rows floor(p) and ceil(p) of a table of p_max rows, linearly

A position is a count: of how many keys, from j up to the query, the query lets count. So it can count words or
sentences instead of tokens, and reads of the true positions only which keys come after j and not after i. The query's
own gate counts as well: with all gates open p_ij = i - j + 1. The table is one a layer, shared by the heads, starts at
zero (which is plain attention), and its term is not scaled.

Gates are made of logits that are scaled and masked: hidden keys, padding among them, count nothing.
"""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from relformer.encodings.base import PositionalEncoding, Role
from relformer.encodings.parameters import constant, parameter
from relformer.encodings.precision import precise, unlowered
from relformer.encodings.resizing import reread
from relformer.encodings.span import Span
from relformer.errors import OptionError
from relformer.registry import register


@register(
    "cope",
    family="contextual",
    changes="logits, by content counted over keys",
    learned="yes",
    beyond="clips",
    paper="2405.18719",
)
class CoPE(PositionalEncoding):
    share = "layer"
    refuses: ClassVar[Mapping[Role, str]] = {
        "encoder": "it counts from a key up to the query, and an encoder's query has keys on both sides; "
        "use encoding=t5 decoder_encoding=cope",
        "cross": "it counts the keys between a key and its query, and here they are of two sequences; "
        "use decoder_encoding=cope cross_encoding=none",
    }

    def __init__(self, head_dim: int, *, p_max: int = 64) -> None:
        super().__init__()
        if p_max < 2:
            raise OptionError("p_max", p_max, "must be at least 2: one row of the table is no position")
        self.count_rows = parameter(constant(0.0), p_max, head_dim)

    def resized(self, name: str, old: PositionalEncoding) -> Tensor | None:
        """Every count as it was: those beyond the old table get its last row."""
        assert isinstance(old, CoPE)
        new, trained = self.count_rows, old.count_rows
        count = torch.arange(max(len(new), len(trained)))
        return reread(new, trained, *(count.clamp(max=len(table) - 1) for table in (new, trained)))

    def score(
        self, scores: Tensor, q: Tensor, k: Tensor, features: Tensor | None, span: Span, keep: Tensor | None
    ) -> Tensor:
        counted = (span.relative.pairs >= 0)[:, None]
        counted = counted if keep is None else counted & keep
        with unlowered(scores.device):
            gates = precise(scores).sigmoid() * counted
            count = gates.flip(-1).cumsum(-1).flip(-1).clamp(max=len(self.count_rows) - 1)  # (B, H, Q, K)
            below = count.detach().floor()
            rows = precise(q) @ precise(self.count_rows).mT  # (B, H, Q, p_max)
            low, high = (rows.gather(-1, at.long()) for at in (below, count.detach().ceil()))
            term = low + (count - below) * (high - low)
        return scores + term.to(scores.dtype)
