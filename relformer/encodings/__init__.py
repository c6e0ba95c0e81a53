"""Positional encodings: the interface, and one file an encoding. Importing this package registers them all.

It imports torch and nothing heavier.
"""

from importlib import import_module
from pkgutil import iter_modules

from relformer.encodings.base import LengthError, PositionalEncoding, Role
from relformer.encodings.parameters import draw, parameter
from relformer.encodings.span import Positions, Relative, Span, as_tensor, part

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = [
    "LengthError",
    "PositionalEncoding",
    "Positions",
    "Relative",
    "Role",
    "Span",
    "as_tensor",
    "draw",
    "parameter",
    "part",
]
