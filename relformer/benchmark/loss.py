"""`relformer benchmark loss`: the training loss from states on, with its gradients, against torch on all logits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn import functional as F

from relformer.benchmark.interleaved import Measured, Spread, taking_turns
from relformer.benchmark.losses import head_loss
from relformer.benchmark.memory import peak
from relformer.benchmark.options import Common, filled, one_thread, parsed, refuse_padding, usable
from relformer.benchmark.output import Column, deliver, number, times
from relformer.benchmark.peers import PAD
from relformer.benchmark.plot import Bar, draw_bars
from relformer.errors import OptionError

TORCH = "torch cross_entropy"
SENTENCES = 16


@dataclass(frozen=True)
class LossBenchmark(Common):
    """The options: so many target positions, of which the share `padding` is padding, and the output layer's sizes."""

    tokens: int = 2048
    vocabulary: int = 8000
    width: int = 256
    padding: float = 0.05
    label_smoothing: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tokens < SENTENCES or self.tokens % SENTENCES:
            raise OptionError("tokens", self.tokens, f"must be a multiple of {SENTENCES}, the sentences of the batch")
        self.at_least(2, "vocabulary", "width")
        refuse_padding(self.padding, SENTENCES)
        if not 0 <= self.label_smoothing < 1:
            raise OptionError("label_smoothing", self.label_smoothing, "must lie in [0, 1)")


@dataclass(frozen=True)
class Row:
    """One way to the loss and the gradients of states and output layer; MB beyond the inputs."""

    system: str
    milliseconds: float | None
    over_torch: Spread | None
    megabytes: float
    megabytes_over_torch: float | None


def benchmark_loss(arguments: list[str]) -> list[Row]:
    """Measure, print the table, and write the files that `out` and `plot` name.

    Raises:
        UserError: options that are unknown or make no sense.
    """
    options = parsed(LossBenchmark, arguments)
    device = usable(options.device)
    ways = {TORCH: torch_loss, "relformer": head_loss}
    with one_thread():
        runs = {name: both_ways(way, options, device) for name, way in ways.items()}
        measured = Measured(
            taking_turns(runs, options.repeats, device), {name: peak(run, device) for name, run in runs.items()}
        )
    rows = [
        Row(
            name,
            measured.milliseconds(name),
            measured.slower(name, TORCH),
            measured.peaks[name],
            measured.larger(name, TORCH),
        )
        for name in runs
    ]
    deliver(rows, options, title(options), COLUMNS, [], lambda: drawing(rows))
    return rows


def torch_loss(states: Tensor, weight: Tensor, labels: Tensor, label_smoothing: float) -> Tensor:
    """All logits at once."""
    logits = F.linear(states, weight).flatten(0, 1)
    return F.cross_entropy(logits, labels.flatten(), ignore_index=PAD, reduction="sum", label_smoothing=label_smoothing)


def both_ways(
    way: Callable[[Tensor, Tensor, Tensor, float], Tensor], options: LossBenchmark, device: torch.device
) -> Callable[[], object]:
    """Loss and gradients of one way."""
    length, generator = options.tokens // SENTENCES, torch.Generator().manual_seed(0)
    tokens = torch.tensor(filled(SENTENCES, length, options.padding))
    labels = torch.randint(1, options.vocabulary, (SENTENCES, length), generator=generator)
    labels = labels.masked_fill(torch.arange(length) >= tokens[:, None], PAD).to(device)
    states = torch.randn(SENTENCES, length, options.width, generator=generator).to(device).requires_grad_()
    weight = torch.randn(options.vocabulary, options.width, generator=generator) * options.width**-0.5
    weight = weight.to(device).requires_grad_()
    return lambda: torch.autograd.grad(way(states, weight, labels, options.label_smoothing), (states, weight))


COLUMNS: list[Column] = [
    ("system", lambda row: row.system),
    ("|ms", lambda row: number(row.milliseconds)),
    ("|/ torch", lambda row: times(row.over_torch)),
    ("|peak MB", lambda row: number(row.megabytes)),
    ("|MB / torch", lambda row: number(row.megabytes_over_torch, 2)),
]


def title(options: LossBenchmark) -> str:
    sizes = f"{options.tokens} positions ({options.padding:.0%} padding), width {options.width}"
    sizes = f"{sizes}, {options.vocabulary} words, smoothing {options.label_smoothing:g}, float32, {options.device}"
    return f"loss and gradients of states and output layer: {sizes}: {options.clock}"


def drawing(rows: list[Row]) -> Figure:
    """Peak memory."""
    return draw_bars([("loss head", [Bar(r.system, Spread(*[r.megabytes] * 3)) for r in rows])], "peak memory (MB)")
