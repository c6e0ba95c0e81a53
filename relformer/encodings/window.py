"""Windowed attention: keys further away than `width` are hidden (Beltagy et al. 2020, arXiv:2004.05150).

    visible(i, j)        |i - j| <= width        encoder and cross-attention: on both sides
                         i - j <= width          decoder: behind

A modifier: within the window it says nothing of the order, so it is usually one part of `compose`. In layer n of a
stack a token reaches n * width positions far. In cross-attention a target longer than source + width has queries with
no key at all, which get zeros.
"""

from torch import Tensor

from relformer.encodings.base import PositionalEncoding, Role
from relformer.errors import OptionError
from relformer.registry import register


@register(
    "window",
    family="modifier",
    changes="which keys are seen, by distance",
    learned="no",
    beyond="exact",
    paper="2004.05150",
)
class Window(PositionalEncoding):
    def __init__(self, role: Role, *, width: int = 8) -> None:
        super().__init__()
        if width < 0:
            raise OptionError("width", width, "must not be negative; 0 leaves each token itself alone")
        self.causal = role == "decoder"
        self.reach = width

    def visible(self, distance: Tensor) -> Tensor:
        return (distance if self.causal else distance.abs()) <= self.reach
