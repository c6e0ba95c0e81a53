"""The four terms of a first layer's logits under absolute positions: content and position of query and of key.

    x_t = c_t + p_t
    q_i·k_j = (W_q c_i)·(W_k c_j) + (W_q c_i)·(W_k p_j) + (W_q p_i)·(W_k c_j) + (W_q p_i)·(W_k p_j)

p is what the encoding changed of the token embedding, c the rest with all that is constant (biases of norm and
projections). A norm before the attention divides both by what it divides the sum by, so that the four add up to the
logits exactly. As in `position_map`, keys are of another sentence, terms are means over sentences and rows have mean 0.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from relformer.analysis.position_map import Array, centred
from relformer.analysis.probe import Probe
from relformer.analysis.watch import still
from relformer.encodings import PositionalEncoding, Role, Span
from relformer.encodings.terms import ALL
from relformer.model import Seq2Seq
from relformer.model.attention import Attention
from relformer.model.layers import Residual

TERMS = tuple(ALL)
"""c2c, c2p, p2c, p2p: of the query first."""


@torch.no_grad()
def absolute_terms(model: Seq2Seq, probe: Probe) -> dict[Role, Array]:
    """(4, H, L, L) in nats of each stack with absolute positions; NaN where a decoder does not see."""
    found: dict[Role, Array] = {}
    with still(model):
        for role, (x, tokens) in model.embedded(probe.source, probe.target).items():
            stack, encoding = model.stacks[role], model.slots[role].first
            if not is_absolute(encoding):
                continue
            terms = layer_terms(stack.layers[0], encoding, x, tokens, stack.embedding_norm)
            seen = torch.ones(terms.shape[-2:], dtype=torch.bool, device=terms.device)
            if role == "decoder":
                seen = seen.tril()
                if model.visible_prefix:
                    seen[:, : probe.source.shape[1]] = True
            maps = centred(terms, seen).mean(1).masked_fill(~seen, torch.nan)
            found[role] = maps.float().cpu().numpy()
    return found


def is_absolute(encoding: PositionalEncoding) -> bool:
    """Whether it acts on what queries and keys read, and leaves them alone afterwards."""
    enters = any(encoding.acts(hook) for hook in ("embed", "query_input", "key_input"))
    return enters and not (encoding.acts("query") or encoding.acts("key"))


def layer_terms(
    layer: nn.Module, encoding: PositionalEncoding, x: Tensor, tokens: Tensor, entering: nn.Module
) -> Tensor:
    """The four terms from embedded tokens (B, L, E), which pass a norm on `entering` or none: (4, B, H, L, L)."""
    attention, branch = layer.attention, layer.attention_branch
    assert isinstance(attention, Attention) and isinstance(branch, Residual)
    batch, length = tokens.shape
    positions = encoding.positions(length, batch, x.device)
    embedded = encoding.embed(x, tokens, positions)
    content, position = x, embedded - x
    for norm in (entering, branch.norm if branch.before else nn.Identity()):
        if not isinstance(norm, nn.Identity):
            content, position = split(norm, content, position)
    span = encoding.ready(Span.between(positions, positions, length, x.device))

    def parts(projection: nn.Module, read: Callable[[Tensor, Span], Tensor]) -> tuple[Tensor, Tensor]:
        whole = read(content + position, span)
        c = attention.split(projection(content))
        return c, attention.split(projection(whole)) - c

    q, k = parts(attention.query, encoding.query_input), parts(attention.key, encoding.key_input)
    scale = encoding.scale(q[0].shape[-1])
    return torch.stack([scale * one @ other.roll(1, 0).mT for one in q for other in k])


def split(norm: nn.Module, content: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
    """norm(content + position) as two summands, divided by what the norm of the sum is divided by; its bias goes with
    content."""
    assert isinstance(norm, nn.LayerNorm | nn.RMSNorm) and norm.eps is not None
    whole, total = norm(content + position), content + position
    if isinstance(norm, nn.LayerNorm):
        total, position = (x - x.mean(-1, keepdim=True) for x in (total, position))
    position = position * (total.square().mean(-1, keepdim=True) + norm.eps).rsqrt() * norm.weight
    return whole - position, position
