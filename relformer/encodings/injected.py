"""Absolute positions that are a row for each token: added to the input of a stack, or to what W_q and W_k read.

inject: input   x'_t = x_t + p_t, once, at the input of the stack
inject: qk      W_q and W_k of every layer read x_t + p_t, W_v reads x_t (Shortformer, Press et al. 2021,
                arXiv:2012.15832)
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

import torch
from torch import Tensor

from relformer.encodings.base import PositionalEncoding
from relformer.encodings.span import Positions, Span

Inject = Literal["input", "qk"]
HOOKS = {"input": ("embed",), "qk": ("query_input", "key_input")}


class AbsoluteRows(PositionalEncoding):
    """Base of the encodings with a row a position. A subclass gives `rows`, and may fuse them otherwise than by
    adding."""

    inject: Inject = "input"

    @abstractmethod
    def rows(self, positions: Positions, device: torch.device) -> Tensor:
        """The row of each position: (B | 1, T, E) float32."""

    def fuse(self, x: Tensor, rows: Tensor) -> Tensor:
        """Tokens and rows together: (B, T, E)."""
        return x + rows.to(x.dtype)

    def acts(self, hook: str) -> bool:
        return super().acts(hook) and (hook in HOOKS[self.inject] or hook not in sum(HOOKS.values(), ()))

    def embed(self, x: Tensor, tokens: Tensor, positions: Positions) -> Tensor:
        return self.fuse(x, self.rows(positions, x.device)) if self.inject == "input" else x

    def query_input(self, x: Tensor, span: Span) -> Tensor:
        return self.fuse(x, self.rows(span.q, x.device)) if self.inject == "qk" else x

    def key_input(self, x: Tensor, span: Span) -> Tensor:
        return self.fuse(x, self.rows(span.k, x.device)) if self.inject == "qk" else x
