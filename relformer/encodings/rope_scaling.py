"""Frequencies of RoPE for sequences longer than those it was trained on.

Each scaling is a pure function (r, base, options, length) -> (inverse frequencies (r/2,) in float64, magnitude); cos
and sin are multiplied by the magnitude, so the product q'·k' by its square. w_c = base^(-2c / r), f = factor,
L0 = original_length, L = max(length, L0).

linear       w_c / f                                              Chen et al. 2023, arXiv:2306.15595
ntk          base := base f^(r / (r - 2))                         bloc97, 2023
dynamic_ntk  base := base (f L / L0 - (f - 1))^(r / (r - 2))      bloc97 and emozilla, 2023
yarn         w_c (1 - t_c) + w_c / f t_c                          Peng et al. 2023, arXiv:2309.00071
llama3       w_c s_c + w_c / f (1 - s_c)                          Llama 3.1, 2024
longrope     w_c / e_c, e the short list for length <= L0         Ding et al. 2024, arXiv:2402.13753

`dynamic_ntk` and `longrope` follow from the planned length: padding and the limit of a generation count, and a
generation keeps one base (or one list) to its end. Implementations that let it grow with the cache mix keys of
several bases.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Literal

import torch
from torch import Tensor

from relformer.errors import OptionError


@dataclass(frozen=True)
class RopeScaling:
    """The options of all scalings; those that `type` does not have must keep their defaults.

    A null `factor` is the published one where there is one: 2 for dynamic_ntk, 8 for llama3. `attention_factor`
    replaces the magnitude of yarn and longrope outright. yarn's magnitude is m(mscale) / m(mscale_all_dim) with
    m(x) = 0.1 x ln f + 1; `truncate` rounds the ends of its ramp outward to whole channels.
    """

    type: Literal["none", "linear", "ntk", "dynamic_ntk", "yarn", "llama3", "longrope"] = "none"
    factor: float | None = None
    original_length: int | None = None
    attention_factor: float | None = None
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    mscale: float = 1.0
    mscale_all_dim: float = 0.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    short_factors: list[float] | None = None
    long_factors: list[float] | None = None


UNSCALED = RopeScaling()
LENGTH_DEPENDENT = ("dynamic_ntk", "longrope")
PUBLISHED_FACTOR = {"dynamic_ntk": 2.0, "llama3": 8.0}
RAMP = ("attention_factor", "beta_fast", "beta_slow", "truncate", "mscale", "mscale_all_dim")
OPTIONS: dict[str, tuple[str, ...]] = {
    "none": (),
    "linear": ("factor",),
    "ntk": ("factor",),
    "dynamic_ntk": ("factor", "original_length"),
    "yarn": ("factor", "original_length", *RAMP),
    "llama3": ("factor", "original_length", "low_freq_factor", "high_freq_factor"),
    "longrope": ("factor", "original_length", "attention_factor", "short_factors", "long_factors"),
}
Scaled = tuple[Tensor, float]


def checked(scaling: RopeScaling, rotary_dim: int) -> RopeScaling:
    """The options with the published factor where none is given.

    Raises:
        OptionError: `scaling.<option>` that is missing, out of range, or not of the chosen type.
    """
    kind, known = scaling.type, OPTIONS[scaling.type]
    for name in (f.name for f in fields(scaling) if f.name != "type" and f.name not in known):
        if (value := getattr(scaling, name)) != getattr(UNSCALED, name):
            owners = " or ".join(other for other in OPTIONS if name in OPTIONS[other])
            refuse(name, value, f"is not an option of scaling.type={kind}; leave it out or set scaling.type={owners}")
    if kind == "none":
        return scaling
    factor = PUBLISHED_FACTOR.get(kind) if scaling.factor is None else scaling.factor
    if factor is None or factor < 1:
        refuse("factor", factor, "must be set to at least 1: how many times the trained length is to be reached")
    length = scaling.original_length
    if "original_length" in known and (length is None or length < 2):
        refuse("original_length", length, "must be set to the trained length in positions, at least 2")
    if scaling.attention_factor is not None and scaling.attention_factor <= 0:
        refuse("attention_factor", scaling.attention_factor, "must be positive; null takes the published one")
    if kind in ("ntk", "dynamic_ntk") and rotary_dim == 2:
        refuse("type", kind, "can't slow the single frequency of 2 turning channels; set scaling.type=linear")
    if not 0 < scaling.beta_slow < scaling.beta_fast:
        rule = f"must exceed scaling.beta_slow={scaling.beta_slow}, which must be positive; the paper uses 32 and 1"
        refuse("beta_fast", scaling.beta_fast, rule)
    for name in ("mscale", "mscale_all_dim"):
        if getattr(scaling, name) < 0:
            refuse(name, getattr(scaling, name), "must not be negative")
    if not 0 < scaling.low_freq_factor < scaling.high_freq_factor:
        rule = f"must exceed scaling.low_freq_factor={scaling.low_freq_factor}, which must be positive"
        refuse("high_freq_factor", scaling.high_freq_factor, f"{rule}; Llama 3 uses 4 and 1")
    for name in ("short_factors", "long_factors") if kind == "longrope" else ():
        values, pairs = getattr(scaling, name), rotary_dim // 2
        if values is None or len(values) != pairs or min(values) <= 0:
            refuse(name, values, f"must be a list of {pairs} positive numbers, one for each pair of turning channels")
    return replace(scaling, factor=factor)


def refuse(option: str, value: object, rule: str) -> None:
    raise OptionError(f"scaling.{option}", value, rule)


def scaled(rotary_dim: int, base: float, scaling: RopeScaling, length: int) -> Scaled:
    """Inverse frequencies and magnitude of checked options, for sequences planned for `length` positions."""
    return SCALINGS[scaling.type](rotary_dim, base, scaling, length)


def frequencies(rotary_dim: int, base: float) -> Tensor:
    return base ** (-torch.arange(0, rotary_dim, 2, dtype=torch.float64) / rotary_dim)


def none(rotary_dim: int, base: float, scaling: RopeScaling, length: int) -> Scaled:
    return frequencies(rotary_dim, base), 1.0


def linear(rotary_dim: int, base: float, scaling: RopeScaling, length: int) -> Scaled:
    return frequencies(rotary_dim, base) / given(scaling.factor), 1.0


def ntk(rotary_dim: int, base: float, scaling: RopeScaling, length: int) -> Scaled:
    return stretched(rotary_dim, base, given(scaling.factor)), 1.0


def dynamic_ntk(rotary_dim: int, base: float, scaling: RopeScaling, length: int) -> Scaled:
    factor, original = given(scaling.factor), given(scaling.original_length)
    return stretched(rotary_dim, base, factor * max(length, original) / original - (factor - 1)), 1.0


def stretched(rotary_dim: int, base: float, by: float) -> Tensor:
    """The lowest frequency divided by `by`, the highest kept, the others between."""
    return frequencies(rotary_dim, base * by ** (rotary_dim / (rotary_dim - 2)))


def yarn(rotary_dim: int, base: float, scaling: RopeScaling, length: int) -> Scaled:
    """t_c rises from 0 at the channel that turns beta_fast times within L0 to 1 at the one that turns beta_slow times.

    A ramp of no width gets one of 0.001 channels, as in the authors' code.
    """
    factor, original = given(scaling.factor), given(scaling.original_length)

    def channel(turns: float) -> float:
        return rotary_dim * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = channel(scaling.beta_fast), channel(scaling.beta_slow)
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = (min(max(end, 0), rotary_dim - 1) for end in (low, high))
    ramp = (torch.arange(rotary_dim // 2, dtype=torch.float64) - low) / (high - low or 1e-3)
    inverse = torch.lerp(frequencies(rotary_dim, base), frequencies(rotary_dim, base) / factor, ramp.clamp(0, 1))
    if scaling.attention_factor is not None:
        return inverse, scaling.attention_factor
    whole, shared = (0.1 * m * math.log(factor) + 1 for m in (scaling.mscale, scaling.mscale_all_dim))
    return inverse, whole / shared


def llama3(rotary_dim: int, base: float, scaling: RopeScaling, length: int) -> Scaled:
    """s_c is 1 for waves shorter than L0 / high_freq_factor, 0 for those longer than L0 / low_freq_factor."""
    inverse, low, high = frequencies(rotary_dim, base), scaling.low_freq_factor, scaling.high_freq_factor
    turns = given(scaling.original_length) * inverse / (2 * math.pi)
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return torch.lerp(inverse / given(scaling.factor), inverse, kept), 1.0


def longrope(rotary_dim: int, base: float, scaling: RopeScaling, length: int) -> Scaled:
    """Searched divisors, one a pair of channels; the magnitude sqrt(1 + ln f / ln L0) is the same for both lists."""
    factor, original = given(scaling.factor), given(scaling.original_length)
    divisors = scaling.short_factors if length <= original else scaling.long_factors
    inverse = frequencies(rotary_dim, base) / torch.tensor(divisors, dtype=torch.float64)
    if scaling.attention_factor is not None:
        return inverse, scaling.attention_factor
    return inverse, math.sqrt(1 + math.log(factor) / math.log(original))


def given(value: float | None) -> float:
    """An option that `checked` has seen to."""
    assert value is not None
    return value


SCALINGS: dict[str, Callable[[int, float, RopeScaling, int], Scaled]] = {
    "none": none,
    "linear": linear,
    "ntk": ntk,
    "dynamic_ntk": dynamic_ntk,
    "yarn": yarn,
    "llama3": llama3,
    "longrope": longrope,
}
