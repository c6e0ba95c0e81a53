"""No positional encoding (Haviv et al. 2022, arXiv:2203.16634; Kazemnejad et al. 2023, arXiv:2305.19466).

A causal decoder can still count through its mask; an encoder without positions sees a bag of tokens. `scale` multiplies
q·k; null means head size ** -0.5. T5's cross-attention has no positions, and a scale of 1.
"""

from relformer.encodings.base import PositionalEncoding
from relformer.errors import OptionError
from relformer.registry import register


@register("none", family="none", changes="nothing", learned="no", beyond="runs; drifts", paper="2305.19466")
class NoPositions(PositionalEncoding):
    def __init__(self, *, scale: float | None = None) -> None:
        super().__init__()
        if scale is not None and scale <= 0:
            raise OptionError("scale", scale, "must be positive; null means head size ** -0.5, T5 itself uses 1")
        self.qk_scale = scale

    def acts(self, hook: str) -> bool:
        return super().acts(hook) and (hook != "scale" or self.qk_scale is not None)

    def scale(self, head_dim: int) -> float:
        return super().scale(head_dim) if self.qk_scale is None else self.qk_scale
