"""T5's bucketed relative bias (Raffel et al. 2020, arXiv:1910.10683).

    score(i, j) += W[bucket(j - i), h]        n = i - j
    encoder, cross   nb = num_buckets / 2, base = nb where j > i else 0, n = |n|
    decoder          nb = num_buckets,     base = 0,                     n = max(n, 0)
    exact = nb // 2, or `exact_buckets`
    n < exact        base + n
    else             base + min(nb - 1, exact + floor(ln(n / exact) / ln(max_distance / exact) * (nb - exact)))

The last bucket begins before `max_distance` and holds everything beyond. `log_buckets: article` is another formula in
circulation, with nb - exact - 1 for nb - exact, whose last bucket begins at `max_distance`. T5 itself multiplies q·k by
1 instead of D^-0.5, with projections drawn to match and a table of N(0, E^-0.5): `experiment=t5_original`. Row nb of
the table (distance 0 counted as future) is never read in an encoder. `untie_first` gives the first token biases of its
own.
"""

import math
from typing import Literal

import torch
from torch import Tensor

from relformer.encodings.base import PositionalEncoding, Role
from relformer.encodings.first_token import FirstApart
from relformer.encodings.own_scale import OwnScale
from relformer.encodings.parameters import normal, parameter
from relformer.encodings.precision import precise
from relformer.encodings.resizing import nearest_first, reread
from relformer.errors import OptionError
from relformer.registry import register


@register("t5", family="bias", changes="logits, by distance", learned="yes", beyond="clips", paper="1910.10683")
class T5(OwnScale, FirstApart):
    bucket_of: Tensor

    def __init__(
        self,
        heads: int,
        width: int,
        role: Role,
        *,
        num_buckets: int = 32,
        max_distance: int = 128,
        exact_buckets: int | None = None,
        log_buckets: Literal["original", "article"] = "original",
        scale: float | None = None,
        init_std: float | None = 0.02,
        untie_first: bool = False,
    ) -> None:
        super().__init__()
        self.bidirectional = role != "decoder"
        least = 4 if self.bidirectional else 2
        if num_buckets < least or num_buckets % 2:
            raise OptionError("num_buckets", num_buckets, f"must be even and at least {least}; T5 uses 32")
        self.per_direction = num_buckets // 2 if self.bidirectional else num_buckets
        if exact_buckets is not None and not 1 <= exact_buckets < self.per_direction:
            raise OptionError(
                "exact_buckets",
                exact_buckets,
                f"must lie between 1 and {self.per_direction - 1}, below the {self.per_direction} buckets of a "
                "direction; null means half of them, as in T5",
            )
        exact = self.per_direction // 2 if exact_buckets is None else exact_buckets
        if max_distance <= exact:
            raise OptionError(
                "max_distance",
                max_distance,
                f"must exceed the {exact} distances with a bucket of their own; T5 uses 128",
            )
        self.multiply(scale, "T5 itself uses 1")
        if init_std is not None and init_std < 0:
            raise OptionError("init_std", init_std, "must not be negative; null means E ** -0.5, as T5 itself has it")
        self.bucket_weight = parameter(normal(width**-0.5 if init_std is None else init_std), num_buckets, heads)
        growth = self.per_direction - exact - (log_buckets == "article")
        self.constant("bucket_of", buckets(self.per_direction, max_distance, exact, growth))
        if untie_first:
            self.untie(heads, role)

    def bucket(self, distance: Tensor) -> Tensor:
        """The row of the table for each distance i - j."""
        steps = distance.abs() if self.bidirectional else distance.clamp(min=0)
        row = self.bucket_of[steps.clamp(max=len(self.bucket_of) - 1)]
        return row + self.per_direction * (distance < 0) if self.bidirectional else row

    def resized(self, name: str, old: PositionalEncoding) -> Tensor | None:
        """Each bucket as the old table has its nearest distance."""
        assert isinstance(old, T5)
        if name != "bucket_weight":
            return None
        distance = nearest_first(max(len(each.bucket_of) for each in (self, old)))
        return reread(self.bucket_weight, old.bucket_weight, self.bucket(distance), old.bucket(distance))

    def table(self, distance: Tensor) -> Tensor:
        return precise(self.bucket_weight[self.bucket(distance)]).T


def buckets(per_direction: int, max_distance: int, exact: int, growth: int) -> Tensor:
    """The bucket of n = 0..max_distance in one direction: (max_distance + 1,) int64.

    Beyond `exact` the buckets grow by `growth` up to `max_distance`. The logarithm is taken in float32 and in the
    reference's order of operations: products at the bucket's edges are exact integers there.
    """
    n = torch.arange(max_distance + 1)
    logarithmic = torch.log(n.clamp(min=exact).float() / exact) / math.log(max_distance / exact)
    coarse = exact + (logarithmic * growth).long()
    found = torch.where(n < exact, n, coarse.clamp(max=per_direction - 1))
    found[-1] = per_direction - 1  # whatever rounding makes of the logarithm there
    return found
