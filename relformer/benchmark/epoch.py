"""`relformer benchmark epoch`: one epoch of a corpus in batches of like length, against random batches.

Both have as many examples a batch on average, so as many tokens and as many updates an epoch; random batches are padded
to their longest sentence. Some batches of each are timed in turn, and their mean stands for the others.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from relformer.benchmark.chosen import chosen, parted
from relformer.benchmark.interleaved import Spread, ratio, taking_turns
from relformer.benchmark.losses import training_loss
from relformer.benchmark.options import Common, one_thread, parsed, usable
from relformer.benchmark.output import Column, deliver, number, times
from relformer.benchmark.peers import FEEDFORWARD, HEADS, LAYERS, PAD, WIDTH, ours
from relformer.benchmark.plot import Bar, draw_bars
from relformer.benchmark.trainees import Trainee
from relformer.config import compose, plain, prepare
from relformer.data.batching import Batch, Batches
from relformer.data.corpus import DataOptions, build_corpus, common_options
from relformer.data.encoded import Corpus, EncodedSet
from relformer.data.planning import ByNumber, ByTokens, Order, Share, TrainingPlans
from relformer.errors import UserError

LIKE, RANDOM = "like lengths", "random"


@dataclass(frozen=True)
class EpochBenchmark(Common):
    """The options beside those of `data`. A round trains on `batches` batches of each kind, and none twice."""

    repeats: int = 5
    encoding: str = "t5"
    batches: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.at_least(1, "batches")


@dataclass(frozen=True)
class Row:
    """One way to make batches. `padding` and milliseconds are of the timed batches, seconds of a whole epoch."""

    batches: str
    per_epoch: float
    padding: float
    milliseconds: float
    epoch_seconds: float
    over_random: Spread


class Feed:
    """Batches of one order, each used once; counts positions and tokens of both sides."""

    def __init__(self, order: Order, examples: EncodedSet, options: DataOptions, device: torch.device) -> None:
        labels = options.frame.target_positions(examples.target_lengths)
        self.plans = iter(TrainingPlans(order, labels, Share()))
        self.made, self.device = Batches(examples, options.frame), device
        self.per_epoch = order.per_epoch()
        self.positions = self.tokens = 0

    def __iter__(self) -> Iterator[Batch]:
        for plan in self.plans:
            batch = self.made[plan]
            for side in (batch.source, batch.target):
                self.positions += side.numel()
                self.tokens += int(side.ne(PAD).sum())
            yield moved(batch, self.device)

    @property
    def padding(self) -> float:
        return 1 - self.tokens / self.positions


def moved(batch: Batch, device: torch.device) -> Batch:
    index, source, target, labels = (e.to(device) for e in (batch.index, batch.source, batch.target, batch.labels))
    given = None if batch.positions is None else batch.positions.to(device)
    return Batch(index, source, target, labels, batch.tokens, given)


def benchmark_epoch(arguments: list[str]) -> list[Row]:
    """Measure, print the table, and write the files that `out` and `plot` name.

    Raises:
        UserError: options that are unknown or make no sense, data without a token budget, or no data.
    """
    data = [each for each in arguments if each.startswith(("data=", "data."))]
    general, own = parted([each for each in arguments if each not in data])
    options = parsed(EpochBenchmark, general)
    asked = chosen(options.encoding, own)
    device = usable(options.device)
    prepare()
    config: dict[str, Any] = plain(compose(data), "data")["data"]
    common = common_options(config)
    if common.max_tokens is None:
        raise UserError(
            "epoch compares batches of a token budget with random ones, and these data have none; "
            "give data.max_tokens=2048, or name text: data=multi30k data.path=FOLDER"
        )
    corpus = build_corpus(config)
    examples = corpus.sets["train"]
    with one_thread():
        feeds = {kind: Feed(order, examples, common, device) for kind, order in orders(examples, common, options.seed)}
        longest = max(corpus.longest(common.bos, common.eos))
        seconds = timed(trainee(corpus, options, asked.of(options.encoding, longest)), feeds, options, device)
    rows = measured(seconds, feeds, options)
    deliver(rows, options, title(config, options, len(examples), common), COLUMNS, [], lambda: drawing(rows))
    return rows


def orders(examples: EncodedSet, common: DataOptions, seed: int) -> Iterator[tuple[str, Order]]:
    """Training's batches under the token budget, and random ones of as many examples on average."""
    alike = replace(common, batch_size=None).order(examples, seed, 1)
    assert isinstance(alike, ByTokens)
    yield LIKE, alike
    yield RANDOM, ByNumber(examples, max(1, round(len(examples) / alike.per_epoch())), seed, alike.mixture)


def trainee(corpus: Corpus, options: EpochBenchmark, encoding: dict[str, Any]) -> Trainee:
    sizes = len(corpus.source_vocabulary), len(corpus.target_vocabulary)

    def make() -> tuple[torch.nn.Module, Callable[[Batch], torch.Tensor]]:
        model = ours(options.encoding, encoding, *sizes)
        return model, partial(training_loss, model)

    return Trainee(options.encoding, make)


def timed(
    system: Trainee, feeds: dict[str, Feed], options: EpochBenchmark, device: torch.device
) -> dict[str, list[float]]:
    """Seconds that a round's batches of each kind take, by one model that both train."""
    step, _ = system.step(device)
    batches = {kind: iter(feed) for kind, feed in feeds.items()}

    def some(kind: str) -> None:
        for _ in range(options.batches):
            step(next(batches[kind]))

    return taking_turns({kind: partial(some, kind) for kind in feeds}, options.repeats, device)


def measured(seconds: dict[str, list[float]], feeds: dict[str, Feed], options: EpochBenchmark) -> list[Row]:
    rows = []
    for kind, feed in feeds.items():
        batch = statistics.mean(seconds[kind]) / options.batches
        longer = ratio(seconds, kind, RANDOM)
        share = feed.per_epoch / feeds[RANDOM].per_epoch
        over = Spread(*(np.array([longer.median, longer.low, longer.high]) * share).tolist())
        rows.append(Row(kind, feed.per_epoch, feed.padding, 1000 * batch, batch * feed.per_epoch, over))
    return rows


COLUMNS: list[Column] = [
    ("batches", lambda row: row.batches),
    ("|an epoch", lambda row: number(row.per_epoch)),
    ("|padding", lambda row: f"{row.padding:.1%}"),
    ("|ms a batch", lambda row: number(row.milliseconds)),
    ("|s an epoch", lambda row: number(row.epoch_seconds)),
    ("|epoch / random", lambda row: times(row.over_random)),
]


def title(config: dict[str, Any], options: EpochBenchmark, examples: int, common: DataOptions) -> str:
    called = config.get("label") or config["name"]
    model = f"{LAYERS}+{LAYERS} layers, width {WIDTH}, {HEADS} heads, feed-forward {FEEDFORWARD}, {options.encoding}"
    return (
        f"an epoch of {called}, {examples:,} pairs, at most {common.max_tokens} positions a side in a batch of like "
        f"lengths; {model}, {options.device}\n{options.clock}; {options.batches} batches of each kind a round "
        "stand for all"
    )


def drawing(rows: list[Row]) -> Figure:
    """Seconds an epoch."""
    return draw_bars(
        [("one epoch", [Bar(row.batches, Spread(*[row.epoch_seconds] * 3)) for row in rows])], "seconds an epoch"
    )
