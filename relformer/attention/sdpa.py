"""torch's scaled_dot_product_attention, for encodings that act on queries, keys and additive biases alone."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from relformer.encodings import PositionalEncoding
from relformer.errors import UserError


def serves(encoding: PositionalEncoding) -> bool:
    """Whether the encoding leaves logits and values alone but for a bias."""
    return not (encoding.acts("score") or encoding.acts("value"))


def refuse_sdpa(encoding: PositionalEncoding) -> None:
    """Raises UserError where this backend can't serve the encoding."""
    if not serves(encoding):
        raise UserError(
            f"attention.backend=sdpa can't serve {encoding.path} ({type(encoding).__name__}), which changes logits by "
            "content, or values; use attention.backend=auto or dense"
        )


def sdpa(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float,
    keep: Tensor | None,
    bias: Tensor | None,
    causal: bool,
    dropout: float,
) -> Tensor:
    """(B, H, Q, D). `causal` states that the mask is the square causal one and nothing else, which has a fast path."""
    if bias is None:
        mask = None if causal else keep
    else:
        causal, mask = False, bias if keep is None else bias.masked_fill(~keep, float("-inf"))
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal, scale=scale)
    if keep is None or causal:
        return out
    empty = ~keep.any(-1, keepdim=True)
    return out.masked_fill(empty, 0.0)  # kernels differ in what they give for a row with nothing to attend
