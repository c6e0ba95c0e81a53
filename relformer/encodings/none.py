"""No positional encoding (Haviv et al. 2022, arXiv:2203.16634; Kazemnejad et al. 2023, arXiv:2305.19466).

A causal decoder can still count through its mask; an encoder without positions sees a bag of tokens. `scale` multiplies
q·k; null means head size ** -0.5. T5's cross-attention has no positions, and a scale of 1.
"""

from relformer.encodings.own_scale import OwnScale
from relformer.registry import register


@register("none", family="none", changes="nothing", learned="no", beyond="runs; drifts", paper="2305.19466")
class NoPositions(OwnScale):
    def __init__(self, *, scale: float | None = None) -> None:
        super().__init__()
        self.multiply(scale, "T5 itself uses 1")
