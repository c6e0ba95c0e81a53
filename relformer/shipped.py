"""What a configuration that came with a checkpoint may name and hold.

A user's own command line may name any object, since it runs as the user anyway. A checkpoint may come from anyone, and
Hydra's list of refused targets is no boundary (hydra-ecosystem/hydra#3258): it lets through `torch.load`,
`torch.hub.load`, `pandas.read_pickle`, `builtins.getattr` and `code.InteractiveInterpreter`. So here is a list of what
is allowed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from relformer.encodings import PositionalEncoding
from relformer.errors import UserError

TRUST = "--trust-checkpoint"
ALLOWED = (PositionalEncoding, Optimizer, LRScheduler)


def refuse_foreign(config: Mapping[str, Any], trusted: bool = False) -> None:
    """Whether everything that a stored configuration names may be used: encodings, optimizers and schedulers of modules
    that are imported already, by this package or a plugin; nothing is imported to find out.

    Where `trusted`, code may be foreign, and is said.

    Raises:
        UserError: other code; or an interpolation, which could carry this machine's environment into an output.
    """
    for path, value in leaves(config):
        if "${" in f"{path}{value}":
            raise UserError(
                f"the checkpoint's {path} is an interpolation ({value!r:.80}), which could read this machine's "
                "environment; a run's own configuration has none"
            )
        place, target, rest = path.partition("._target_")
        if not target or (not rest and allowed(value)):
            continue
        if trusted:
            print(f"{TRUST}: the checkpoint's {place} is {value}; its code is imported and run", file=sys.stderr)
            continue
        raise UserError(
            f"the checkpoint's {place} is code of its own ({value}), which loading would run; if you trust it, add "
            f"{TRUST}, or make its package a plugin"
        )


def leaves(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Everything in nested containers that is none, with its path: ``encoding.parts[1].name``."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from leaves(value, f"{path}.{key}" if path else str(key))
    elif isinstance(node, list | tuple):
        for number, value in enumerate(node):
            yield from leaves(value, f"{path}[{number}]")
    else:
        yield path, node


def allowed(target: Any) -> bool:
    """Whether an import path leads straight to a class of a kind that a run is made of, in an imported module."""
    module, _, name = str(target).rpartition(".")
    found = vars(sys.modules[module]).get(name) if module in sys.modules else None
    return isinstance(found, type) and issubclass(found, ALLOWED)
