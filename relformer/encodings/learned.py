"""Learned absolute positions (Gehring et al. 2017, arXiv:1705.03122; BERT, Devlin et al. 2018, arXiv:1810.04805).

    x'_t = emb_t + P[t]                 P in R^{max_length x E}

The table ends: a longer sequence is an error, never a clipped or wrapped row. `init_std: null` takes the standard
deviation of the token embeddings as they enter the stack, which is BERT's ratio; N(0, .02) beside tokens scaled to
standard deviation 1 would be drowned.
"""

from torch import Tensor

from relformer.encodings.base import LengthError, PositionalEncoding
from relformer.encodings.parameters import normal, parameter
from relformer.encodings.span import Positions, as_tensor
from relformer.errors import OptionError
from relformer.registry import register


@register("learned", family="absolute", changes="input", learned="yes", beyond="error", paper="1810.04805")
class Learned(PositionalEncoding):
    def __init__(
        self, width: int, embedding_std: float, *, max_length: int = 512, init_std: float | None = None
    ) -> None:
        super().__init__()
        if max_length < 1:
            raise OptionError(
                "max_length", max_length, "must be at least 1: it is the number of positions in the table"
            )
        if init_std is not None and init_std < 0:
            raise OptionError("init_std", init_std, "must not be negative; null takes the token embeddings' own")
        self.position_weight = parameter(normal(embedding_std if init_std is None else init_std), max_length, width)

    def max_positions(self) -> int:
        return self.position_weight.shape[0]

    def embed(self, x: Tensor, tokens: Tensor, positions: Positions) -> Tensor:
        """Adds the row of each position.

        Raises:
            LengthError: a position beyond the table; found on the host, before the lookup.
        """
        needed = positions.stop if isinstance(positions, range) else int(positions.max()) + 1
        if needed > self.max_positions():
            raise LengthError(
                f"a sequence of {needed} positions exceeds {self.path}.max_length={self.max_positions()} "
                f"(BOS and EOS count); set {self.path}.max_length={needed} or more, or use an encoding without a table"
            )
        if isinstance(positions, range):
            return x + self.position_weight[positions.start : positions.stop].to(x.dtype)
        return x + self.position_weight[as_tensor(positions, x.device)].to(x.dtype)
