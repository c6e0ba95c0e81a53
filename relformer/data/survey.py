"""What a corpus holds, before any training: `relformer data`, and the lines a run begins with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from relformer.data.corpus import build_corpus, common_options
from relformer.data.encoded import Corpus, EncodedSet, Side
from relformer.data.planning import ByTokens, Order

BARS = 12
WIDTH = 40


def set_lines(corpus: Corpus) -> Iterator[str]:
    """How many pairs each set has, the vocabularies, and what was noted."""
    sizes = ", ".join(f"{name} {len(each):,}" for name, each in corpus.sets.items())
    source, target = len(corpus.source_vocabulary), len(corpus.target_vocabulary)
    shared = corpus.source_vocabulary is corpus.target_vocabulary
    yield f"pairs    {sizes}"
    yield f"tokens   {source:,} in one vocabulary" if shared else f"tokens   {source:,} source, {target:,} target"
    yield from (f"note     {note}" for note in (*corpus.notes, *overlap_notes(corpus)))


def overlap_notes(corpus: Corpus) -> Iterator[str]:
    """Pairs that stand in two sets, which nothing removes from files that were given."""
    for one, other in combinations(corpus.sets, 2):
        shared = len(np.intersect1d(corpus.sets[one].hashes, corpus.sets[other].hashes))
        if shared:
            stand = "pair stands" if shared == 1 else "pairs stand"
            yield f"{shared:,} {stand} in both {one} and {other}; results on them are not of unseen text"


def batch_lines(order: Order, steps: int, accumulate: int = 1) -> Iterator[str]:
    """How training goes through the corpus, and how much of its batches is padding."""
    batches = order.per_epoch()
    epochs = steps * accumulate / batches
    padding = f", {order.padding():.1%} of them padding" if isinstance(order, ByTokens) else ""
    budget = f" of at most {order.budget:,} positions a side{padding}" if isinstance(order, ByTokens) else ""
    yield f"batches  {rounded(batches)} an epoch{budget}; {steps:,} steps are {rounded(epochs)} epochs"


def rounded(count: float) -> str:
    """Three digits, and whole numbers whole."""
    return f"{count:,.0f}" if count >= 100 else f"{count:.3g}"


def survey(options: Mapping[str, Any], seed: int, steps: int) -> None:
    """Print sizes, lengths, unknown tokens, overlap, and what was left out or cut, of a `data` config.

    Raises:
        UserError: whatever would stop a run on these data.
    """
    corpus, common = build_corpus(options), common_options(options)
    console = Console(width=None if Console().is_terminal else 120)
    table = Table(
        title=f"data={options.get('label') or options['name']}", caption="lengths: tokens without BOS and EOS"
    )
    for name in ("set", "pairs", "source tokens", "mean", "longest", "target tokens", "mean", "longest", "different"):
        table.add_column(name, justify="left" if name == "set" else "right")
    for name, each in corpus.sets.items():
        table.add_row(name, f"{len(each):,}", *side(each.source_lengths), *side(each.target_lengths), different(each))
    console.print(table)
    for name in ("source", "target"):
        console.print(histogram(corpus, name))  # type: ignore[arg-type]
    for line in (*set_lines(corpus), *batch_lines(common.order(corpus.sets["train"], seed, 1), steps)):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def side(lengths: Any) -> tuple[str, str, str]:
    return f"{lengths.sum():,}", f"{lengths.mean():.1f}", f"{lengths.max():,}"


def different(examples: EncodedSet) -> str:
    return f"{len(np.unique(examples.hashes)):,}"


def histogram(corpus: Corpus, name: Side) -> Table:
    """The lengths of one side in training and, beside it, in all other sets together."""
    train = corpus.sets["train"].lengths(name)
    others = [each.lengths(name) for key, each in corpus.sets.items() if key != "train"]
    rest = np.concatenate(others) if others else train[:0]
    longest = int(max(train.max(), rest.max(initial=0)))
    width = max(1, -(-(longest + 1) // BARS))
    table = Table(title=f"{name} lengths", show_edge=False)
    table.add_column("tokens", justify="right")
    table.add_column("train", min_width=WIDTH)
    table.add_column("other sets", justify="right")
    counts = [np.bincount(lengths // width, minlength=longest // width + 1) for lengths in (train, rest)]
    for number, (trained, other) in enumerate(zip(*counts, strict=True)):
        low, high = number * width, (number + 1) * width - 1
        bar = "█" * round(WIDTH * trained / counts[0].max()) or ("▏" if trained else "")
        table.add_row(f"{low}-{high}" if width > 1 else str(low), f"{bar} {trained:,}", f"{other:,}")
    return table
