"""From corpora of text pairs to a corpus of ids: tokenizers, held-out sets, limits, mixing, joining."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from relformer.data.encoded import Corpus, EncodedSet, Ids, chained, generator
from relformer.data.mixing import shares
from relformer.data.text.cache import cached, key_of
from relformer.data.text.notes import Notes
from relformer.data.text.options import TextSource
from relformer.data.text.store import Pairs, Stored, stored
from relformer.data.text.tokenizer import Tokenizer, TokenizerOptions, train_tokenizer
from relformer.errors import OptionError, UserError
from relformer.files import write_text

logger = logging.getLogger("relformer")
Coders = tuple[Tokenizer, Tokenizer]


def text_corpus(
    options: TextSource,
    found: Mapping[str, list[Pairs]],
    coders: Coders | None,
    weights: Any = None,
    temperature: float | None = None,
) -> Corpus:
    """The sets of these text pairs, encoded.

    Args:
        found: the corpora of `train` (which a trained run can do without) and of each evaluation set with text of its
            own.
        coders: the tokenizers of a trained run, else new ones are trained.
        weights, temperature: how several training corpora are mixed.
    """
    source, target = coders or tokenizers(options.tokenizer, found["train"])
    sets, notes = {}, []
    for name, corpora in found.items():
        examples, lines, dropped = gathered(options, name, corpora, source, target)
        notes += lines
        sets[name], lines, too_long = within(options, examples, name, corpora)
        notes += lines
        refuse_loss(options, name, len(sets[name]), dropped + too_long)
    given = frozenset(sets) - {"train"}
    hold_out(options, sets, notes)
    if "train" in sets:
        sets["train"].shares = mixed(sets["train"], weights, temperature, found["train"])
    if options.join is not None:
        given |= join(options.join, sets, source.joiner, target.joiner, notes, given)
    notes += position_notes(sets)
    order = sorted(sets, key=lambda name: ("train", "val", "test").index(name.split("_")[0]))
    return Corpus(source, target, {name: sets[name] for name in order}, notes, given)


def gathered(
    options: TextSource, name: str, corpora: Sequence[Pairs], source: Tokenizer, target: Tokenizer
) -> tuple[EncodedSet, list[str], int]:
    """A set's examples, what to say of them, and how many besides them were left out when they were read.

    Raises:
        UserError: too many were.
    """
    parts = [stored(each, source, target) for each in corpora]
    examples = chained([part.examples for part in parts])
    notes = [f"{name}: {line}" for part in parts for line in part.notes.lines()]
    notes += unknown_notes(name, parts)
    dropped = sum(part.notes.dropped for part in parts)
    refuse_loss(options, name, len(examples), dropped)
    if name == "train" and options.limit is not None and options.limit < len(examples):
        return examples.select(np.arange(options.limit)), notes, 0  # those left out are of the whole text
    return examples, notes, dropped


def tokenizers(options: TokenizerOptions, corpora: Sequence[Pairs]) -> Coders:
    """The tokenizers of both sides: one object where they are joint, or given by a file."""
    if options.file is not None:
        given = Tokenizer.load(options.file)
        return given, given if options.target_file is None else Tokenizer.load(options.target_file)
    if options.joint:
        joint = trained(options, corpora, ("source", "target"))
        return joint, joint
    return trained(options, corpora, ("source",)), trained(options, corpora, ("target",))


def trained(options: TokenizerOptions, corpora: Sequence[Pairs], sides: tuple[str, ...]) -> Tokenizer:
    """A tokenizer of the training text, trained now or by an earlier run."""

    def lines() -> Iterator[str]:
        for corpus in corpora:
            for pair in corpus.read(Notes()):
                yield from (getattr(pair, side) for side in sides)

    key = key_of(vars(options), [corpus.digest() for corpus in corpora], sides)

    def make(path: Path) -> None:
        started = time.monotonic()
        made = train_tokenizer(lines(), options, progress=sys.stderr.isatty())
        write_text(path, made.json)
        seconds = time.monotonic() - started
        logger.info(
            "trained a tokenizer on the %s of training in %.1f s: %d tokens",
            " and ".join(sides),
            seconds,
            len(made),
        )

    return cached("tokenizers", key, ".json", make, Tokenizer.load)


def unknown_notes(name: str, parts: Sequence[Stored]) -> Iterator[str]:
    tokens = sum(int(part.examples.source_lengths.sum() + part.examples.target_lengths.sum()) for part in parts)
    if unknown := sum(sum(part.unknown) for part in parts):
        yield f"{name}: {unknown:,} of {tokens:,} tokens are not in the vocabulary ({unknown / tokens:.2%})"


def within(
    options: TextSource, examples: EncodedSet, name: str, corpora: Sequence[Pairs]
) -> tuple[EncodedSet, list[str], int]:
    """The examples within `max_length`, what to say of the others, and how many were left out.

    Raises:
        UserError: a longer one, where that is an error.
    """
    if options.max_length is None:
        return examples, [], 0
    longer = np.maximum(examples.source_lengths, examples.target_lengths) > options.max_length
    count, share = int(longer.sum()), f"{longer.mean():.1%}" if len(examples) else ""
    if not count:
        return examples, [], 0
    said = f"{count:,} of {len(examples):,} pairs ({share}) have more than data.max_length={options.max_length} tokens"
    if options.on_too_long == "error":
        row = int(np.argmax(np.maximum(examples.source_lengths, examples.target_lengths)))
        # Places are not stored, so what is wrong is read once more.
        longest = next(islice((pair for each in corpora for pair in each.read(Notes())), row, None))
        raise UserError(
            f"{name}: {said}, the longest {examples.source_lengths[row]} and {examples.target_lengths[row]} "
            f"({longest.where}); raise data.max_length, or set data.on_too_long to drop or truncate"
        )
    if options.on_too_long == "truncate":
        return examples.cut(options.max_length), [f"{name}: {said}; cut off there"], 0
    return examples.select(np.flatnonzero(~longer)), [f"{name}: {said}; left out"], count


def position_notes(sets: Mapping[str, EncodedSet]) -> Iterator[str]:
    """Where some sets have positions of their own and others do not."""
    without = [name for name, each in sets.items() if each.positions is None]
    if without and (having := [name for name in sets if name not in without]):
        yield f"positions are given in {', '.join(having)}, but counted in {', '.join(without)}"


def refuse_loss(options: TextSource, name: str, kept: int, dropped: int) -> None:
    """Raises UserError where more than `most_dropped` of a set was left out."""
    if dropped > options.most_dropped * (kept + dropped):
        raise UserError(
            f"{name}: {dropped:,} of {kept + dropped:,} pairs ({dropped / (kept + dropped):.0%}) would be left out, "
            f"more than data.most_dropped={options.most_dropped}; mend the text, or raise it if that is meant"
        )


def hold_out(options: TextSource, sets: dict[str, EncodedSet], notes: list[str]) -> None:
    """Take `val_iid` and `test_iid` out of training where they have no text of their own.

    Only pairs that occur once are held out: a repeated one would stay in training as well.
    """
    missing = [name for name in ("val_iid", "test_iid") if name not in sets]
    if not missing:
        return
    train = sets["train"]
    _, first, count = np.unique(train.hashes, return_index=True, return_counts=True)
    once = np.sort(first[count == 1])
    size = min(options.held_out, len(once) // (10 * len(missing)))
    if not size:
        raise OptionError(
            "held_out",
            options.held_out,
            f"can't be taken from {len(once)} different training pairs (at most a tenth); {options.instead}",
        )
    drawn = generator(options.seed, len(train)).permutation(once)
    for number, name in enumerate(missing):
        sets[name] = train.select(np.sort(drawn[number * size : (number + 1) * size]))
        notes.append(f"{name}: {size:,} pairs held out from training, drawn by data.seed={options.seed}")
    sets["train"] = train.select(np.setdiff1d(np.arange(len(train)), drawn[: size * len(missing)]))


def mixed(train: EncodedSet, weights: Any, temperature: float | None, corpora: Sequence[Pairs]) -> list[float] | None:
    """The share of each training corpus in an epoch; None: each pair once.

    Raises:
        OptionError: weights that do not fit the corpora.
        UserError: a corpus of which nothing is left.
    """
    if weights is not None and not (
        isinstance(weights, list)
        and len(weights) == len(corpora)
        and all(type(weight) in (int, float) and 0 < weight < np.inf for weight in weights)
    ):
        numbers = f"{len(corpora)} positive numbers" if len(corpora) > 1 else "a list of one positive number"
        rule = f"must be {numbers}, one a corpus: {', '.join(c.name for c in corpora)}"
        raise OptionError("train.weights", weights, rule)
    if temperature is not None and temperature <= 0:
        raise OptionError("temperature", temperature, "must be positive; 1 mixes by size, more evens out, 5 is usual")
    if train.corpora is None:
        return None
    sizes = np.bincount(train.corpora, minlength=len(corpora)).tolist()
    if 0 in sizes:
        rule = "by data.limit, which counts from the first corpus on, or data.max_length"
        raise UserError(f"{corpora[sizes.index(0)].name} is left without a training pair {rule}")
    return shares(sizes, weights, temperature)


def join(
    count: int, sets: dict[str, EncodedSet], source: Ids, target: Ids, notes: list[str], given: frozenset[str]
) -> set[str]:
    """Make `val_longer` and `test_longer`: the i.i.d. pairs, `count` neighbours joined to one on both sides. Returns
    which of them are made of `given` sets alone.

    Raises:
        OptionError: the sets are there already, are too small, or have positions, of which none are known when joined.
    """
    for kind in ("val", "test"):
        examples, name = sets[f"{kind}_iid"], f"{kind}_longer"
        if name in sets:
            raise OptionError("join", count, f"makes {name}, which is given already; leave one of them out")
        if examples.positions is not None:
            raise OptionError("join", count, f"can't join the positions that {kind}_iid has; leave out one of them")
        groups = np.arange(len(examples) // count * count).reshape(-1, count)
        if not len(groups):
            raise OptionError("join", count, f"is more than {kind}_iid has pairs, {len(examples)}")
        if rest := len(examples) % count:
            notes.append(f"{name}: the last {rest} of {kind}_iid make no group of {count} and are left out of it")
        sets[name] = EncodedSet(
            [joined([examples.sources[row] for row in group], source) for group in groups.tolist()],
            [joined([examples.targets[row] for row in group], target) for group in groups.tolist()],
            references=None
            if (texts := examples.references) is None
            else [" ".join(texts[row] for row in group) for group in groups.tolist()],
        )
    return {f"{kind}_longer" for kind in ("val", "test") if f"{kind}_iid" in given}


def joined(parts: Sequence[Ids], between: Ids) -> list[int]:
    ids = list(parts[0])
    for part in parts[1:]:
        ids += [*between, *part]
    return ids
