"""The multiplier of q·k as an option, `scale`, of an encoding that is also published with another than D^-0.5."""

from __future__ import annotations

from relformer.encodings.base import PositionalEncoding
from relformer.errors import OptionError


class OwnScale(PositionalEncoding):
    """Named before another base: `class T5(OwnScale, FirstApart)`."""

    qk_scale: float | None = None

    def multiply(self, scale: float | None, published: str) -> None:
        """Take the option; null leaves D^-0.5, and is no act of this encoding. `published` ends the message.

        Raises:
            OptionError: not positive.
        """
        if scale is not None and scale <= 0:
            raise OptionError("scale", scale, f"must be positive; null means head size ** -0.5, {published}")
        self.qk_scale = scale

    def acts(self, hook: str) -> bool:
        return super().acts(hook) and (hook != "scale" or self.qk_scale is not None)

    def scale(self, head_dim: int) -> float:
        return super().scale(head_dim) if self.qk_scale is None else self.qk_scale
