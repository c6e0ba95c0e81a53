"""A task's sets as token ids, ready for batching."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import relformer.data.tasks  # noqa: F401  registers the tasks
from relformer.data.task import Example, Task
from relformer.data.vocabulary import BOS, EOS, Vocabulary
from relformer.errors import OptionError, UserError
from relformer.registry import tasks


@dataclass(frozen=True)
class DataOptions:
    """Options of every task beside its own."""

    seed: int = 0
    bos: bool = True
    batch_size: int = 64
    eval_batch_size: int = 256
    max_steps: int = 1500
    workers: int = 0

    def __post_init__(self) -> None:
        for name, least in (("batch_size", 1), ("eval_batch_size", 1), ("max_steps", 1), ("workers", 0)):
            if getattr(self, name) < least:
                raise OptionError(name, getattr(self, name), f"must be at least {least}", "data")


@dataclass(frozen=True)
class EncodedSet:
    """Sources with BOS (where `data.bos`) and EOS around them, and bare targets, as lists of ids."""

    sources: list[list[int]]
    targets: list[list[int]]

    def __len__(self) -> int:
        return len(self.targets)


@dataclass(frozen=True)
class Corpus:
    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary
    sets: dict[str, EncodedSet]

    @property
    def trained_length(self) -> int:
        """The longest target in training, in tokens without BOS and EOS."""
        return max(map(len, self.sets["train"].targets))

    def evaluation_sets(self, kind: str) -> list[str]:
        """The names of the `val` or `test` sets, in the task's order."""
        return [name for name in self.sets if name.startswith(f"{kind}_")]

    def longest(self) -> tuple[int, int]:
        """The most positions of a source and of a target, BOS and EOS counted, over all sets."""
        sources = max(len(source) for each in self.sets.values() for source in each.sources)
        targets = max(len(target) + 1 for each in self.sets.values() for target in each.targets)
        return sources, targets


def common_options(options: Mapping[str, Any]) -> DataOptions:
    """What every task has, out of a `data` config.

    Raises:
        OptionError: by config path under `data`.
    """
    return DataOptions(**{name: options[name] for name in DataOptions.__dataclass_fields__})


def build_task(options: Mapping[str, Any]) -> Task:
    """The task a `data` config names.

    Raises:
        UserError, OptionError: by config path under `data`.
    """
    common = DataOptions.__dataclass_fields__
    own = {key: value for key, value in options.items() if key != "name" and key not in common}
    try:
        task: Task = tasks[options["name"]].build({"seed": options["seed"]}, own)
    except OptionError as error:
        raise error.at("data") from None
    return task


def build_corpus(options: Mapping[str, Any]) -> Corpus:
    """Generate and encode the sets of a `data` config.

    Raises:
        UserError: a set without examples, or what `build_task` raises.
    """
    task = build_task(options)
    source = Vocabulary(task.source_tokens)
    target = source if task.target_tokens is task.source_tokens else Vocabulary(task.target_tokens)

    def encode(examples: list[Example]) -> EncodedSet:
        first = [BOS] if options["bos"] else []
        return EncodedSet(
            [[*first, *source.encode(s), EOS] for s, _ in examples], [target.encode(t) for _, t in examples]
        )

    sets = {name: encode(examples) for name, examples in task.sets().items()}
    for name, each in sets.items():
        if not len(each):
            raise UserError(f"data={options['name']} gives no example for {name}; widen its options")
    return Corpus(source, target, sets)
