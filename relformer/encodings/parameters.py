"""Parameters that know the law they are drawn from, and drawing them by name.

Each parameter comes from a generator keyed by (seed, parameter name), so two models that differ in one part share every
weight that both have: runs with the same seed are paired, whatever the encoding.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable

import torch
from torch import Tensor, nn

from relformer.seeding import seed_generators

Law = Callable[[Tensor, torch.Generator | None], object]


def normal(std: float) -> Law:
    return lambda tensor, generator: nn.init.normal_(tensor, std=std, generator=generator)


def uniform(bound: float) -> Law:
    return lambda tensor, generator: nn.init.uniform_(tensor, -bound, bound, generator=generator)


def xavier_uniform() -> Law:
    return lambda tensor, generator: nn.init.xavier_uniform_(tensor, generator=generator)


def constant(value: float) -> Law:
    return lambda tensor, generator: nn.init.constant_(tensor, value)


def parameter(law: Law, *shape: int) -> nn.Parameter:
    """A float32 parameter drawn from its law now, and again by `draw` when the whole model has its names."""
    made = nn.Parameter(torch.empty(shape))
    return with_law(made, law)


def with_law(existing: Tensor, law: Law) -> nn.Parameter:
    """Give a parameter its law and draw it."""
    existing.law = law  # type: ignore[attr-defined]
    assert isinstance(existing, nn.Parameter)
    law(existing.data, None)
    return existing


@torch.no_grad()
def draw(model: nn.Module, seed: int) -> None:
    """Draw every parameter of the model from a generator keyed by (seed, its name). In place, on the CPU.

    Parameters of foreign modules, which have no law, are drawn by their owner's ``reset_parameters``.

    Raises:
        TypeError: a parameter with neither.
    """
    for name, tensor in model.named_parameters():
        law = getattr(tensor, "law", None)
        if law is not None:
            law(tensor.data, torch.Generator().manual_seed(seed_of(seed, name)))
            continue
        path, _, leaf = name.rpartition(".")
        owner = copy.deepcopy(model.get_submodule(path))
        if not hasattr(owner, "reset_parameters"):
            raise TypeError(
                f"parameter {name!r} has no law to draw it from; make it with relformer.encodings.parameter()"
            )
        with torch.random.fork_rng(devices=[]):
            seed_generators(seed_of(seed, name))
            owner.reset_parameters()  # type: ignore[operator]
        tensor.copy_(getattr(owner, leaf))


def seed_of(*key: object) -> int:
    """A 63-bit seed from any printable key; the same on every machine."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, key)).encode()).digest()[:8], "big") >> 1
