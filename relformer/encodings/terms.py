"""The four terms of a logit whose queries and keys each have a content and a position, switched one by one.

c2c content to content · c2p content to position · p2c position to content · p2p position to position
What each of them is in a method stands in that method's file; leaving one out makes the taxonomy a sweep.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from relformer.errors import OptionError

ALL = ["c2c", "c2p", "p2c", "p2p"]


def chosen(terms: Sequence[str], known: Sequence[str]) -> frozenset[str]:
    """The terms that take part.

    Raises:
        OptionError: none, one that the method has not, or one twice.
    """
    if not terms or len(set(terms)) < len(terms) or not set(terms) <= set(known):
        raise OptionError("terms", terms, f"must list one or more of {', '.join(known)}, each once")
    return frozenset(terms)


def query_side(q: Tensor, content: bool, vector: Tensor | None) -> Tensor:
    """What keys or positions meet: the queries (B, H, Q, D), a vector a head (H, D) in their place, or the sum.

    Left-out queries are multiplied by 0, not dropped: parallel training demands a gradient for every weight.
    """
    side = q if content else q * 0
    return side if vector is None else side + vector[:, None].to(q.dtype)
