"""The options of decoding: what is searched for, how long it may be, and how hypotheses are compared."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from relformer.errors import OptionError, UserError


@dataclass(frozen=True)
class DecodingOptions:
    """Greedy search as it stands; beam search with `beams`, sampling with `sample`.

    Lengths count generated tokens, EOS among them, and follow the source: base + factor * source length, rounded down,
    where the source's BOS and EOS count if it has them. `top_k`, `top_p`, `no_repeat_ngram`: null or 0 turns them off.
    """

    beams: int = 1
    n_best: int = 1
    length_normalization: Literal["none", "average", "wu"] = "average"
    alpha: float = 0.6
    early_stop: bool = True
    min_length_base: int = 0
    min_length_factor: float = 0.0
    max_length_base: int = 10
    max_length_factor: float = 2.0
    no_repeat_ngram: int = 0
    sample: bool = False
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("beams", "n_best"):
            if getattr(self, name) < 1:
                self.refuse(name, "must be at least 1")
        for name in (
            "min_length_base",
            "min_length_factor",
            "max_length_base",
            "max_length_factor",
            "no_repeat_ngram",
            "alpha",
        ):
            if not 0 <= getattr(self, name) < math.inf:
                self.refuse(name, "must be 0 or more")
        if self.length_normalization not in ("none", "average", "wu"):
            self.refuse("length_normalization", "is not one of none, average, wu")
        if self.sample and self.beams > 1:
            self.refuse("beams", "can't be searched while sampling; set decoding.beams=1, or decoding.sample=false")
        if not self.sample and self.n_best > self.beams:
            self.refuse("n_best", f"exceeds decoding.beams={self.beams}; search at least as many beams")
        if not 0 < self.temperature < math.inf:
            self.refuse("temperature", "must be positive; for the most probable tokens set decoding.sample=false")
        if self.top_k is not None and self.top_k < 1:
            self.refuse("top_k", "must be at least 1; null means the whole vocabulary")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            self.refuse("top_p", "must lie in (0, 1]; null means the whole distribution")
        for name, off in (("temperature", 1.0), ("top_k", None), ("top_p", None)):
            if not self.sample and getattr(self, name) != off:
                self.refuse(name, "acts on sampling alone; set decoding.sample=true")

    def limits(self, length: int) -> tuple[int, int]:
        """The least and the most tokens of an output for a source of `length` tokens.

        Raises:
            UserError: they allow none.
        """
        least = int(self.min_length_base + self.min_length_factor * length)
        most = int(self.max_length_base + self.max_length_factor * length)
        if most < 1:
            raise UserError(
                f"decoding.max_length_base={self.max_length_base} and decoding.max_length_factor="
                f"{self.max_length_factor:g} allow no token for a source of {length}; raise one of them"
            )
        if least > most:
            raise UserError(
                f"a source of {length} tokens must give at least {least} tokens (decoding.min_length_base, "
                f"decoding.min_length_factor) and at most {most} (decoding.max_length_base, "
                "decoding.max_length_factor); raise the maximum or lower the minimum"
            )
        return least, most

    def refuse(self, option: str, rule: str) -> None:
        raise OptionError(option, getattr(self, option), rule, "decoding")

    def normalised(self, score: float, length: int) -> float:
        """What hypotheses of different lengths are compared by: their log-probability over a penalty of the length.

        average   |Y|                         wu   ((5 + |Y|) / 6)^alpha (Wu et al. 2016, arXiv:1609.08144)
        """
        if self.length_normalization == "none" or not length:
            return score
        return score / (length if self.length_normalization == "average" else ((5 + length) / 6) ** self.alpha)
