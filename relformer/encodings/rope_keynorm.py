"""RoPE with keys of length 1 (Su 2023, kexue.fm/9859).

    score(i, j) = (R(i) q_i) · (R(j) k_j) / |k_j|

Only keys are normalised, over all D channels, and nothing is divided by sqrt(D): a key's length is near sqrt(D) anyway,
and takes its place. So no key can gain by being long, which is meant to help beyond the trained length. QK-norm, which
normalises queries too and learns a gain, is another method.
"""

from torch import Tensor
from torch.nn import functional as F

from relformer.encodings.precision import precise
from relformer.encodings.rope import RoPE
from relformer.encodings.span import Span
from relformer.registry import register


@register("rope_keynorm", family="rotary", changes="queries and keys", learned="no", beyond="degrades", paper="")
class RoPEKeyNorm(RoPE):
    def scale(self, head_dim: int) -> float:
        return 1.0

    def key(self, k: Tensor, span: Span) -> Tensor:
        return super().key(F.normalize(precise(k), dim=-1, eps=1e-6), span).to(k.dtype)
