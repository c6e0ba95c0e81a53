"""From a `data` config to a corpus: what every task and every text source share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import relformer.data.tasks  # noqa: F401  registers tasks and sources of text
from relformer.data.batching import Frame
from relformer.data.encoded import Corpus, EncodedSet, chained, generator
from relformer.data.mixing import Mixture
from relformer.data.planning import ByNumber, ByTokens, Order
from relformer.data.task import BEYOND, Source
from relformer.data.vocabulary import Coder
from relformer.errors import OptionError, UserError
from relformer.registry import tasks

Coders = tuple[Coder, Coder]
_checked: dict[str, Corpus] = {}
"""What a check built, by its options, until the run takes it."""


MOST_WORKERS = 1024


@dataclass(frozen=True)
class DataOptions:
    """Options of every task and text source beside its own.

    `batch_size` counts the examples of a batch over all devices. With `max_tokens`, batches hold examples of like
    length, as many as examples x longest side fits in that budget on each device (BOS and EOS count), and `batch_size`,
    if not null, is the most of them.
    """

    seed: int = 0
    bos: bool = True
    eos: bool = True
    batch_size: int | None = 64
    max_tokens: int | None = None
    eval_batch_size: int = 256
    max_steps: int = 1500
    workers: int = 0
    split_by_length: int | None = None

    def __post_init__(self) -> None:
        least = {"batch_size": 1, "max_tokens": 1, "eval_batch_size": 1, "max_steps": 1, "workers": 0}
        for name, low in (least | {"split_by_length": 1}).items():
            value = getattr(self, name)
            if value is not None and value < low:
                raise OptionError(name, value, f"must be at least {low}", "data")
        if self.workers > MOST_WORKERS:
            raise OptionError("workers", self.workers, f"must be at most {MOST_WORKERS}: each is a process", "data")
        if self.batch_size is None and self.max_tokens is None:
            rule = "needs data.max_tokens, the token budget of a batch; or give a number of examples"
            raise OptionError("batch_size", None, rule, "data")

    @property
    def frame(self) -> Frame:
        return Frame(self.bos, self.eos)

    def order(self, examples: EncodedSet, seed: int, world: int) -> Order:
        """The batches of training on `world` devices."""
        mixture = None
        if examples.shares is not None:
            assert examples.corpora is not None
            mixture = Mixture(examples.corpora, examples.shares, seed)
        if self.max_tokens is not None:
            return ByTokens(examples, self.max_tokens, seed, world, self.frame, self.batch_size, mixture)
        assert self.batch_size is not None
        return ByNumber(examples, self.batch_size, seed, mixture)


def common_options(options: Mapping[str, Any]) -> DataOptions:
    """What every task has, out of a `data` config.

    Raises:
        OptionError: by config path under `data`.
    """
    return DataOptions(**{name: options[name] for name in DataOptions.__dataclass_fields__ if name in options})


def build_task(options: Mapping[str, Any]) -> Source:
    """The task or the source of text that a `data` config names.

    Raises:
        UserError, OptionError: by config path under `data`.
    """
    common = DataOptions.__dataclass_fields__
    own = {key: value for key, value in options.items() if key != "name" and key not in common}
    entry = tasks[options["name"]]
    if not issubclass(entry.cls, Source):
        raise UserError(f"data={entry.name}: {entry.cls.__qualname__} is not a subclass of relformer.data.task.Task")
    try:
        task: Source = entry.build({"seed": options["seed"]}, own)
    except OptionError as error:
        raise error.at("data") from None
    return task


def build_corpus(options: Mapping[str, Any], coders: Coders | None = None, train: bool = False) -> Corpus:
    """Generate or read, and encode, the sets of a `data` config.

    Args:
        coders: of a trained run, which then read the text, instead of tokenizers trained on it.
        train: with `coders`, read the training set even where the others can do without it.

    Raises:
        UserError: a set without examples, or what `build_task` raises.
    """
    if coders is None and (checked := _checked.pop(json.dumps(options), None)):
        return checked
    common = common_options(options)
    task = build_task(options)
    try:
        corpus = task.corpus(coders, train=coders is None or train or common.split_by_length is not None)
    except OptionError as error:
        raise error.at("data") from None
    if common.split_by_length is not None:
        corpus = split_by_length(corpus, common.split_by_length, common.seed)
    called = options.get("label") or options["name"]
    for name, each in corpus.sets.items():
        if not len(each):
            raise UserError(f"data={called} gives no example for {name}; widen its options")
        if not common.eos and not each.target_lengths.all():
            raise UserError(f"data.eos=false needs targets of at least one token, but {name} has an empty one")
    refuse_budget(corpus, common)
    return corpus


def check_corpus(options: Mapping[str, Any]) -> Corpus:
    """`build_corpus` ahead of a run of this process, which takes the corpus over."""
    corpus = build_corpus(options)
    _checked.clear()
    _checked[json.dumps(options)] = corpus
    return corpus


def refuse_budget(corpus: Corpus, common: DataOptions) -> None:
    """Raises OptionError where a training pair is longer than a batch may be."""
    train = corpus.sets.get("train")
    if common.max_tokens is None or train is None:
        return
    longest = np.maximum(
        common.frame.source_positions(train.source_lengths), common.frame.target_positions(train.target_lengths)
    )
    if longest.max() > common.max_tokens:
        rule = (
            f"is less than the longest training pair has on one side, {longest.max()} tokens with BOS and EOS; raise "
            "it, or limit the pairs by data.max_length and data.on_too_long=drop"
        )
        raise OptionError("max_tokens", common.max_tokens, rule, "data")


def split_by_length(corpus: Corpus, longest: int, seed: int) -> Corpus:
    """Pairs of more than `longest` tokens (the corpus's `length_side`) leave training and the i.i.d. sets.

    Those of `val_iid` and `test_iid` make `val_longer` and `test_longer`; of those in training a tenth, drawn by the
    seed, joins the former and the rest the latter. A pair that occurs twice goes one way, once. Further test sets stay
    whole.

    Raises:
        OptionError: the corpus has longer sets of its own, nothing is longer, or all of a corpus that is mixed.
    """
    if taken := [name for name in corpus.sets if name.endswith(BEYOND)]:
        rule = f"is for sets of one distribution, but this task has {', '.join(taken)} already; leave it null"
        raise OptionError("split_by_length", longest, rule, "data")
    parted = {name: each for name, each in corpus.sets.items() if name in ("train", "val_iid", "test_iid")}
    inside = {name: each.lengths(corpus.length_side) <= longest for name, each in parted.items()}
    short = {name: each.select(np.flatnonzero(inside[name])) for name, each in parted.items()}
    beyond = {name: each.select(np.flatnonzero(~inside[name])) for name, each in parted.items()}
    if not any(len(each) for each in beyond.values()):
        most = max(int(each.lengths(corpus.length_side).max()) for each in parted.values())
        rule = f"leaves no longer pair: the longest {corpus.length_side} has {most} tokens"
        raise OptionError("split_by_length", longest, rule, "data")
    train = short["train"]
    if train.shares is not None and train.corpora is not None and len(np.unique(train.corpora)) < len(train.shares):
        rule = "leaves nothing of one of the corpora that are mixed; raise it, or leave that corpus out"
        raise OptionError("split_by_length", longest, rule, "data")
    parts = {kind: [beyond[f"{kind}_iid"]] for kind in ("val", "test")}
    if trained := beyond.get("train"):
        share = trained.hashes ^ generator(seed).integers(2**63, dtype=np.uint64)
        parts["val"].append(trained.select(np.flatnonzero(share % 10 == 0)))
        parts["test"].append(trained.select(np.flatnonzero(share % 10 != 0)))
    sets = {**corpus.sets, **short}
    sets = {name: each for name, each in sets.items() if len(each) or name not in ("val_iid", "test_iid")}
    seen: list[np.ndarray] = []
    for kind in ("test", "val"):
        longer = chained(parts[kind])
        fresh = np.unique(longer.hashes, return_index=True)[1]
        fresh = np.sort(fresh[~np.isin(longer.hashes[fresh], np.concatenate(seen))] if seen else fresh)
        seen.append(longer.hashes)
        if len(fresh):
            sets[f"{kind}_longer"] = longer.select(fresh)
    twice = sum(map(len, beyond.values())) - sum(len(sets.get(f"{kind}_longer", ())) for kind in ("val", "test"))
    note = f"split by length: training and i.i.d. pairs have at most {longest} {corpus.length_side} tokens"
    note += f"; {twice:,} repetitions of longer ones are left out" if twice else ""
    order = sorted(sets, key=lambda name: ("train", "val", "test").index(name.split("_")[0]))
    return replace(corpus, sets={name: sets[name] for name in order}, notes=[*corpus.notes, note])
