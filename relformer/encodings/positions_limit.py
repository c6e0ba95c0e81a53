"""The end of a table of absolute positions: a position beyond it is an error, never a clipped or wrapped row."""

from __future__ import annotations

from relformer.encodings.base import LengthError
from relformer.encodings.span import Positions


def refuse_beyond(positions: Positions, limit: int, path: str, option: str = "max_length") -> None:
    """Compares on the host, before any lookup; `option` is what sets the limit.

    Raises:
        LengthError: a position that a table of `limit` positions does not have.
    """
    needed = positions.stop if isinstance(positions, range) else int(positions.max()) + 1
    if needed > limit:
        raise LengthError(
            f"a sequence of {needed} positions exceeds {path}.{option}={limit} (BOS and EOS count); "
            f"set {path}.{option}={needed} or more, or use an encoding without a table"
        )
