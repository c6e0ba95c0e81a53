"""Letter tasks: disjoint sets, equally many of each length, a pure function of the seed, options refused by name."""

from collections import Counter
from typing import Any

import pytest

from relformer.data.corpus import build_corpus, build_task
from relformer.data.task import Example
from relformer.data.vocabulary import BOS, EOS, Vocabulary
from relformer.errors import OptionError, UserError

SETS = ["train", "val_iid", "val_longer", "test_iid", "test_longer"]
COMMON = {"seed": 0, "bos": True, "batch_size": 64, "eval_batch_size": 256, "max_steps": 10, "workers": 0}


def options(name: str = "reverse", **own: Any) -> dict[str, Any]:
    return {"name": name, **COMMON, "examples": 400, "examples_per_length": 30, **own}


def sets(name: str = "reverse", **own: Any) -> dict[str, list[Example]]:
    return build_task(options(name, **own)).sets()


def lengths(examples: list[Example]) -> dict[int, int]:
    return dict(sorted(Counter(len(target) for _, target in examples).items()))


def test_what_the_tasks_do() -> None:
    for source, target in sets("copy")["train"]:
        assert target == source
    for source, target in sets("reverse")["train"]:
        assert target == tuple(reversed(source))


@pytest.mark.parametrize("own", [{}, {"letters": 8, "max_length": 3}, {"examples_per_length": 5000, "max_length": 2}])
def test_sets_are_disjoint(own: dict[str, Any]) -> None:
    """The second has so few strings that a naive draw would meet a taken one all the time."""
    made = sets(**own)
    assert list(made) == SETS
    held_out = [example for name in SETS[1:] for example in made[name]]
    assert len(set(held_out)) == len(held_out)
    assert not set(held_out) & set(made["train"])


def test_every_length_has_equally_many() -> None:
    made = sets(examples=403, min_length=2, val={"min_length": 11, "max_length": 11})
    assert lengths(made["train"]) == {length: 45 if length < 9 else 44 for length in range(2, 11)}
    assert lengths(made["val_iid"]) == lengths(made["test_iid"]) == dict.fromkeys(range(2, 11), 30)
    assert lengths(made["val_longer"]) == {11: 30}
    assert lengths(made["test_longer"]) == dict.fromkeys(range(13, 21), 30)


def test_an_eighth_of_the_strings_where_few_exist() -> None:
    made = sets(letters=9, max_length=2)
    for name in ("val_iid", "test_iid"):
        assert lengths(made[name]) == {1: 1, 2: 10}
    assert {source for source, target in made["train"] if len(target) == 1} < {(letter,) for letter in "abcdefghi"}


def test_lengths_of_the_longer_sets_follow_the_trained_ones_where_left_open() -> None:
    made = sets(max_length=4, val={"min_length": None, "max_length": 6}, test={"min_length": 8, "max_length": 8})
    assert (set(lengths(made["val_longer"])), set(lengths(made["test_longer"]))) == ({5, 6}, {8})


def test_the_seed_alone_decides() -> None:
    assert sets(seed=3) == sets(seed=3)
    one, other = sets(seed=3), sets(seed=4)
    for name in SETS:
        assert one[name] != other[name]
    assert sets("copy")["train"] == [(source, source) for source, _ in sets("reverse")["train"]]


def test_held_out_sets_do_not_depend_on_how_much_is_trained() -> None:
    one, other = sets(examples=50), sets(examples=5000)
    assert all(one[name] == other[name] for name in SETS[1:])


def test_only_the_letters_of_the_vocabulary_occur() -> None:
    task = build_task(options(letters=8))
    used = {letter for examples in task.sets().values() for source, _ in examples for letter in source}
    assert used == set(task.source_tokens) == set("abcdefgh")
    assert task.source_tokens is task.target_tokens


@pytest.mark.parametrize(
    ("own", "option", "rule"),
    [
        ({"letters": 1001}, "letters", "from 2 to 1,000"),
        ({"letters": 1}, "letters", "from 2 to 1,000"),
        ({"min_length": 0}, "min_length", "data.max_length=10"),
        ({"min_length": 11}, "min_length", "data.max_length=10"),
        ({"letters": 2, "min_length": 2}, "min_length", "leaves 4 sources, fewer than 8"),
        ({"examples": 9}, "examples", "at least 10"),
        ({"examples_per_length": 0}, "examples_per_length", "at least 1"),
        ({"val": {"min_length": 10, "max_length": 12}}, "val.min_length", "must exceed the trained data.max_length=10"),
        ({"test": {"min_length": 13, "max_length": 12}}, "test.max_length", "at least data.test.min_length=13"),
        ({"test": {"min_length": 13, "max_length": None}}, "test.max_length", "at least data.test.min_length=13"),
    ],
)
def test_options_out_of_range_are_refused_by_path(own: dict[str, Any], option: str, rule: str) -> None:
    with pytest.raises(OptionError, match=rf"^data\.{option}=.*{rule}"):
        build_task(options(**own))


@pytest.mark.parametrize("bos", [True, False])
def test_a_corpus_is_the_encoded_sets(bos: bool) -> None:
    corpus = build_corpus(options(bos=bos))
    made = sets()
    assert list(corpus.sets) == SETS
    assert corpus.source_vocabulary is corpus.target_vocabulary
    for name in SETS:
        for (source, target), ids, labels in zip(
            made[name], corpus.sets[name].sources, corpus.sets[name].targets, strict=True
        ):
            assert tuple(corpus.source_vocabulary.decode(ids).split()) == source
            assert tuple(corpus.target_vocabulary.decode(labels).split()) == target
    assert corpus.trained_length == 10
    assert corpus.longest(bos, eos=True) == (20 + bos + 1, 20 + 1)
    assert corpus.evaluation_sets("test") == ["test_iid", "test_longer"]


def test_a_vocabulary_refuses_what_it_can_not_tell_apart() -> None:
    with pytest.raises(UserError, match="'a' twice"):
        Vocabulary("aba")
    with pytest.raises(UserError, match="'c' is not in the vocabulary of 5 tokens"):
        Vocabulary("ab").encode("a b c")
    assert Vocabulary("ab").decode([BOS, *Vocabulary("ab").encode("b a b"), EOS]) == "b a b"


def test_more_letters_than_the_alphabet_has() -> None:
    task = build_task(options("copy", letters=100, examples=4000))
    assert len(task.source_tokens) == 100 and list(task.source_tokens) == sorted(task.source_tokens)
    assert {token for source, _ in task.sets()["train"] for token in source} == set(task.source_tokens)
