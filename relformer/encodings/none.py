"""No positional encoding (Haviv et al. 2022, arXiv:2203.16634; Kazemnejad et al. 2023, arXiv:2305.19466).

A causal decoder can still count through its mask; an encoder without positions sees a bag of tokens.
"""

from relformer.encodings.base import PositionalEncoding
from relformer.registry import register


@register("none", family="none", changes="nothing", learned="no", beyond="runs; drifts", paper="2305.19466")
class NoPositions(PositionalEncoding):
    def __init__(self) -> None:
        super().__init__()
