"""Every generated task: disjoint sets, equally many of each length, a pure function of the seed, tokens all known."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from omegaconf import OmegaConf

from relformer.config import conf_dir
from relformer.data.corpus import build_corpus, build_task
from relformer.data.task import Example
from relformer.data.tasks.by_length import LengthTask
from relformer.errors import OptionError
from relformer.registry import tasks

GENERATED = [name for name in tasks if issubclass(tasks[name].cls, LengthTask)]
SETS = ["train", "val_iid", "val_longer", "test_iid", "test_longer"]
COMMON = {"seed": 0, "bos": True, "batch_size": 64, "eval_batch_size": 256, "max_steps": 10, "workers": 0}
VARIANTS = [
    *((name, {}) for name in GENERATED),
    ("addition", {"pad": 13, "negative": 0.25}),
    ("addition", {"reverse_digits": True, "negative": 1.0}),
    ("addition", {"pad": 13, "digits": "apart"}),
    ("sort", {"numbers": True}),
    ("sort", {"letters": 5, "min_length": 2}),
    ("sort", {"letters": 100}),
    ("duplicate", {"separator": True, "letters": 2, "min_length": 3}),
    ("recall", {"distance": "trained"}),
    ("recall", {"distance": "uniform", "tokens": 17}),
    ("order", {"distance": "trained"}),
    ("order", {"distance": "uniform", "tokens": 17}),
]
every_variant = pytest.mark.parametrize(("name", "own"), VARIANTS)
every_task = pytest.mark.parametrize("name", GENERATED)


def digits(source: tuple[str, ...]) -> int:
    """Digits of the longer of two numbers."""
    first, second = " ".join(source).replace("#", "").replace("-", "").split("+")
    return max(len(number.replace(" ", "").lstrip("0") or "0") for number in (first, second))


LENGTHS: dict[str, Callable[[tuple[str, ...]], int]] = {
    "addition": digits,
    "modular_arithmetic": lambda source: sum(token.isdigit() for token in source),
    "recall": lambda source: sum(token[0] == "v" for token in source),
    "order": lambda source: source.index("?"),
}


def length(name: str, own: dict[str, Any], source: tuple[str, ...]) -> int:
    """What the task's documentation calls an example's length, read off its source."""
    if own.get("numbers"):
        return "".join(source).count(",") + 1
    if own.get("reverse_digits"):
        source = source[::-1]
    if own.get("digits") == "apart":
        return digits((*source[: source.index("+")], "+", "0"))
    return LENGTHS.get(name, len)(source)


def options(name: str, **own: Any) -> dict[str, Any]:
    """A task as its file has it, with few examples."""
    file: Any = OmegaConf.to_container(OmegaConf.load(conf_dir() / "data" / f"{name}.yaml"))
    del file["defaults"]
    return {**COMMON, "examples": 300, "examples_per_length": 20, **file, **own}


def sets(name: str, **own: Any) -> dict[str, list[Example]]:
    return build_task(options(name, **own)).sets()


@every_variant
def test_sets_are_disjoint_by_source(name: str, own: dict[str, Any]) -> None:
    made = sets(name, **own)
    assert list(made) == SETS
    held_out = [source for kind in SETS[1:] for source, _ in made[kind]]
    assert len(set(held_out)) == len(held_out) > 0
    assert not set(held_out) & {source for source, _ in made["train"]}


@pytest.mark.parametrize("name", [name for name in GENERATED if name != "addition"])
def test_sets_are_disjoint_where_few_sources_exist(name: str) -> None:
    shortest = options(name).get("min_length") or tasks[name].options()["min_length"].default
    own = {"min_length": shortest, "max_length": shortest, "examples": 2000, "examples_per_length": 10**6}
    one = {"min_length": shortest + 1, "max_length": shortest + 1}
    made = sets(name, **own, val=one, test=one)
    everything = [source for kind in SETS[1:] for source, _ in made[kind]]
    assert len(set(everything)) == len(everything)
    assert not set(everything) & {source for source, _ in made["train"]}
    assert len(made["val_longer"]) == len(made["test_longer"]) > 0


@every_variant
def test_every_length_has_equally_many(name: str, own: dict[str, Any]) -> None:
    """At lengths with sources in plenty; an eighth of them elsewhere is tested with letters."""
    own = {**own, "min_length": 7, "max_length": 8, "examples": 101}
    own |= {"val": {"min_length": 9, "max_length": 9}, "test": {"min_length": 10, "max_length": 11}}
    made = sets(name, **own, examples_per_length=6)

    def counts(kind: str) -> dict[int, int]:
        return dict(Counter(length(name, own, source) for source, _ in made[kind]))

    assert counts("train") == {7: 51, 8: 50}
    assert counts("val_iid") == counts("test_iid") == {7: 6, 8: 6}
    assert counts("val_longer") == {9: 6}
    assert counts("test_longer") == {10: 6, 11: 6}


@every_task
def test_lengths_of_the_longer_sets_differ(name: str) -> None:
    made = sets(name)
    found = {kind: {length(name, {}, source) for source, _ in made[kind]} for kind in SETS}
    assert found["val_iid"] == found["test_iid"] <= found["train"]
    assert max(found["train"]) < min(found["val_longer"]) and max(found["val_longer"]) < min(found["test_longer"])


@every_variant
def test_the_seed_alone_decides(name: str, own: dict[str, Any]) -> None:
    one, again, other = sets(name, **own, seed=3), sets(name, **own, seed=3), sets(name, **own, seed=4)
    assert one == again
    for kind in SETS:
        assert one[kind] != other[kind]


@every_task
def test_held_out_sets_do_not_depend_on_how_much_is_trained(name: str) -> None:
    one, other = sets(name, examples=50), sets(name, examples=500)
    assert all(one[kind] == other[kind] for kind in SETS[1:])


@every_variant
def test_the_vocabularies_are_the_tokens_that_occur(name: str, own: dict[str, Any]) -> None:
    task = build_task(options(name, **own, examples=2000))
    examples = [example for each in task.sets().values() for example in each]
    assert {token for source, _ in examples for token in source} <= set(task.source_tokens)
    targets = {token for _, target in examples for token in target}
    if task.target_tokens is task.source_tokens:
        assert targets <= set(task.target_tokens)
    else:
        assert targets == set(task.target_tokens)
    corpus = build_corpus(options(name, **own))
    assert (corpus.source_vocabulary is corpus.target_vocabulary) == (task.target_tokens is task.source_tokens)


@every_task
def test_length_is_of_the_source_where_targets_do_not_show_it(name: str) -> None:
    """`addition` has targets about as long as its numbers, the rest of the target-sided ones exactly by length."""
    task = build_task(options(name))
    lengths: dict[int, set[int]] = {}
    for source, target in task.sets()["test_longer"]:
        lengths.setdefault(length(name, {}, source), set()).add(len(target))
    told_apart = all(len(each) == 1 for each in lengths.values()) and len(set.union(*lengths.values())) == len(lengths)
    assert task.length_side == ("target" if told_apart or name == "addition" else "source")


@every_task
@pytest.mark.parametrize(
    ("own", "option", "rule"),
    [
        ({"min_length": 0}, "min_length", "must be from 1 to data.max_length="),
        ({"min_length": 99}, "min_length", "must be from 1 to data.max_length="),
        ({"examples": 3}, "examples", "one for each length"),
        ({"examples_per_length": 0}, "examples_per_length", "at least 1"),
        ({"val": {"min_length": 1, "max_length": 12}}, "val.min_length", "must exceed the trained data.max_length="),
        ({"test": {"min_length": 30, "max_length": 3}}, "test.max_length", "at least data.test.min_length=30"),
        ({"test": {"min_length": 30, "max_length": None}}, "test.max_length", "at least data.test.min_length=30"),
    ],
)
def test_options_out_of_range_are_refused_by_path(name: str, own: dict[str, Any], option: str, rule: str) -> None:
    with pytest.raises(OptionError, match=rf"^data\.{option}=.*{rule}"):
        build_task(options(name, **own))


@pytest.mark.parametrize(
    ("name", "own", "option", "rule"),
    [
        ("addition", {"negative": 1.1}, "negative", "must be from 0 to 1; the paper uses 0.25"),
        ("addition", {"pad": 11}, "pad", "must be at least 12 for sums of numbers of 11 digits, or 0"),
        ("addition", {"pad": 12, "negative": 0.25}, "pad", "must be at least 13"),
        ("addition", {"pad": -1}, "pad", "must be at least 12"),
        ("sort", {"letters": 1001}, "letters", "from 2 to 1,000"),
        ("sort", {"letters": 5, "numbers": True}, "letters", "is for data.numbers=false only"),
        ("duplicate", {"letters": 2, "min_length": 2}, "min_length", "leaves 4 sources, fewer than 8"),
        ("parity", {"min_length": 2}, "min_length", "leaves 4 sources"),
        ("compute_sqrt", {"min_length": 3}, "min_length", "leaves 7 sources"),
        ("binary_addition", {"min_length": 2}, "min_length", "leaves 0 sources"),
        ("stack_manipulation", {"min_length": 1}, "min_length", "leaves 0 sources"),
        ("missing_duplicate_string", {"min_length": 3}, "min_length", "leaves 4 sources"),
        ("modular_arithmetic_brackets", {"min_length": 4}, "min_length", "leaves 5 sources"),
        ("solve_equation", {"min_length": 6}, "min_length", "leaves 5 sources"),
        ("recall", {"tokens": 15}, "tokens", "must be at least 16, the greatest length"),
        ("order", {"tokens": 15}, "tokens", "must be at least 16, the greatest length"),
        ("order", {"min_length": 1}, "min_length", "leaves 0 sources"),
    ],
)
def test_own_options_are_refused_by_path(name: str, own: dict[str, Any], option: str, rule: str) -> None:
    with pytest.raises(OptionError, match=rf"^data\.{option}=.*{rule}"):
        build_task(options(name, **own))


def test_numbers_drawn_apart_have_any_two_lengths_of_their_set() -> None:
    """As Ontanon et al. draw them: every pair of lengths alike, in training and beyond."""
    own = {"digits": "apart", "pad": 12, "examples": 4000, "examples_per_length": 200}
    made = sets("addition", **own, val={"min_length": 9, "max_length": 9}, test={"min_length": 9, "max_length": 10})

    def pairs(kind: str) -> Counter[tuple[int, ...]]:
        sources = ("".join(source).split("+") for source, _ in made[kind])
        return Counter(tuple(len(number.lstrip("0")) or 1 for number in numbers) for numbers in sources)

    assert pairs("val_longer") == {(9, 9): 200}
    assert set(pairs("test_longer")) == {(a, b) for a in (9, 10) for b in (9, 10)}
    assert min(pairs("test_longer").values()) > 70
    train = pairs("train")
    assert set(train) == {(a, b) for a in range(1, 9) for b in range(1, 9)}
    assert min(train.values()) > 30 and max(train.values()) < 110
    for source, target in made["test_longer"]:
        a, b = "".join(source).split("+")
        assert len(a) == len(b) == len(target) == 12 and int(a) + int(b) == int("".join(target))
