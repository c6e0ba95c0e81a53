"""relformer: find out what a positional encoding does.

The library's face is below. Nothing is loaded before it is used: `import relformer` takes as long as a small file.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relformer.errors import UserError
    from relformer.library.attention import attend, make_span
    from relformer.library.building import build_encoding, build_model
    from relformer.library.composing import compose
    from relformer.library.loading import load

__version__ = "0.1.0"
__all__ = ["UserError", "attend", "build_encoding", "build_model", "compose", "load", "make_span"]

_HOMES = {
    "UserError": "relformer.errors",
    "attend": "relformer.library.attention",
    "make_span": "relformer.library.attention",
    "build_encoding": "relformer.library.building",
    "build_model": "relformer.library.building",
    "compose": "relformer.library.composing",
    "load": "relformer.library.loading",
}


def __getattr__(name: str) -> Any:
    """What `__all__` names, imported when first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'relformer' has no attribute {name!r}")
    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
