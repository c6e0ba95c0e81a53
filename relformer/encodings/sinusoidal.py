"""Sinusoidal absolute positions (Vaswani et al. 2017, arXiv:1706.03762), added to the scaled token embeddings.

    x'_t = sqrt(E) emb_t + p_t          p as in relformer.encodings.sinusoid

Nothing is learned and any position can be computed; quality falls beyond the trained length all the same.
"""

from torch import Tensor

from relformer.encodings.base import PositionalEncoding
from relformer.encodings.sinusoid import Layout, sinusoid
from relformer.encodings.span import Positions, as_tensor
from relformer.errors import OptionError, UserError
from relformer.registry import register


@register("sinusoidal", family="absolute", changes="input", learned="no", beyond="extends", paper="1706.03762")
class Sinusoidal(PositionalEncoding):
    def __init__(self, width: int, *, layout: Layout = "interleaved", base: float = 10000.0) -> None:
        super().__init__()
        if width % 2:
            raise UserError(f"a sinusoid needs an even width, but model.width={width}; choose an even model.width")
        if base <= 1:
            raise OptionError("base", base, "must be greater than 1; the paper uses 10000")
        self.layout: Layout = layout
        self.base = base

    def embed(self, x: Tensor, tokens: Tensor, positions: Positions) -> Tensor:
        return x + sinusoid(as_tensor(positions, x.device), x.shape[-1], self.layout, self.base).to(x.dtype)
