"""SCAN against the counts and the content of the official files (brendenlake/SCAN), pinned as hashes."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from typing import Any, get_args

import pytest

from relformer.data.task import Example, LengthRange
from relformer.data.tasks.scan import Scan, SplitName
from relformer.data.tasks.scan_grammar import ACTIONS, WORDS, pairs
from relformer.data.tasks.scan_splits import RuleSplit, split
from relformer.errors import OptionError
from relformer.registry import tasks

GRAMMAR_SHA256 = "345bff3c25864652f326ba1960aa515d156b63f45067ea57268f71d7362a2440"

OFFICIAL = {
    "length": (16_990, 3_920, "e22bd562e6213f80dbebc32cf6684f2ec18c61fc13e0cde44cd08f9941fb8037"),
    "addprim_jump": (14_670, 7_706, "1f1144f1d4745164116e2f216d86a3cf2858bb2258f1a1bad4e8a10394da5373"),
    "addprim_turn_left": (21_890, 1_208, "eb0b2a6f359ba529b1fe143e3355f6a74a2c2aa87d983c3c7be5573cf3b2c1fa"),
    "template_around_right": (15_225, 4_476, "16b5b8d6d72067a6da92eaa6c7f2b82e5dc380d52e7fd1098421c3d08ab1be21"),
    "template_opposite_right": (15_225, 4_476, "582919a8ab00e26c9c33dfbfccc17c20713b95dcab7e06d6fac652f3c93bfbbd"),
    "template_right": (15_225, 4_476, "935f3cfc27b2015f8e9d55806af79a0cad4295f1f5b31d476ebf88980ea4025b"),
    "template_jump_around_right": (18_528, 1_173, "36ab514062029e83b87f0bdbc2299ab45379900c979c3aae64c0df59c95e0db0"),
    "filler_num0": (15_225, 1_173, "4424b42b20334d4403be0cee18c1e30ba670c9c1d2d5f360ce073935c4224398"),
    "filler_num1": (16_290, 1_173, "5de0e34afe2628afa83d84f884cbfea62879f526d53a5be0f4580a45d62bb5ec"),
    "filler_num2": (17_391, 1_173, "fea6ba6da151c6127913081af9a0bbe06f33dd12789bf3115a6276930100eb93"),
    "filler_num3": (18_528, 1_173, "36ab514062029e83b87f0bdbc2299ab45379900c979c3aae64c0df59c95e0db0"),
}
"""Size of the train set, size of the test set, SHA-256 of both."""

NO_SUCH_LENGTHS = {23, 29, 31, 34, 35, 37, 38, 39, *range(41, 48)}


def sha256(*sets: Iterable[Example]) -> str:
    """Of the sorted lines of the official format, repetitions included, with an empty line between two sets."""
    lines = [sorted(f"IN: {' '.join(source)} OUT: {' '.join(target)}" for source, target in s) for s in sets]
    return hashlib.sha256("\n\n".join("\n".join(one) for one in lines).encode()).hexdigest()


def test_grammar_is_the_official_data_set() -> None:
    assert len(pairs()) == len(set(pairs())) == 20_910
    assert sha256(pairs()) == GRAMMAR_SHA256


@pytest.mark.parametrize(
    ("command", "actions"),
    [
        ("jump", "I_JUMP"),
        ("turn left", "I_TURN_LEFT"),
        ("walk opposite right", "I_TURN_RIGHT I_TURN_RIGHT I_WALK"),
        ("turn around left", "I_TURN_LEFT I_TURN_LEFT I_TURN_LEFT I_TURN_LEFT"),
        ("look around left", " ".join(["I_TURN_LEFT I_LOOK"] * 4)),
        ("run twice and jump left", "I_RUN I_RUN I_TURN_LEFT I_JUMP"),
        ("run thrice after jump left", "I_TURN_LEFT I_JUMP I_RUN I_RUN I_RUN"),
    ],
)
def test_commands_mean_what_the_paper_says(command: str, actions: str) -> None:
    assert dict(pairs())[tuple(command.split())] == tuple(actions.split())


def test_lengths_and_vocabularies() -> None:
    assert {len(source) for source, _ in pairs()} == set(range(1, 10))
    assert {len(target) for _, target in pairs()} == set(range(1, 49)) - NO_SUCH_LENGTHS
    assert {word for source, _ in pairs() for word in source} == set(WORDS)
    assert {action for _, target in pairs() for action in target} == set(ACTIONS)
    assert (len(WORDS), len(ACTIONS)) == (13, 6)


def test_every_rule_split_is_pinned() -> None:
    assert set(OFFICIAL) == set(get_args(RuleSplit))
    assert set(get_args(SplitName)) == {*OFFICIAL, "simple"}


@pytest.mark.parametrize("name", OFFICIAL)
def test_split_is_the_official_one(name: str) -> None:
    train, test = split(name, cutoff=22)
    assert (len(train), len(test), sha256(train, test)) == OFFICIAL[name]
    assert not set(train) & set(test)


@pytest.mark.parametrize(("cutoff", "counts"), [(23, (16_990, 3_920)), (25, (17_774, 3_136)), (26, (18_286, 2_624))])
def test_length_split_at_other_cutoffs(cutoff: int, counts: tuple[int, int]) -> None:
    train, test = split("length", cutoff)
    assert (len(train), len(test)) == counts
    assert max(len(target) for _, target in train) <= cutoff < min(len(target) for _, target in test)


@pytest.mark.parametrize(
    ("name", "primitive", "times"),
    [("addprim_jump", "jump", 1_467), ("addprim_turn_left", "turn left", 2_189)],
)
def test_repeated_primitive_stays_in_train_whole(name: SplitName, primitive: str, times: int) -> None:
    assert Counter(source for source, _ in split(name, 22)[0])[tuple(primitive.split())] == times
    sets = Scan(0, split=name).sets()
    assert Counter(source for source, _ in sets["train"])[tuple(primitive.split())] == times


def test_unknown_split_is_named() -> None:
    with pytest.raises(OptionError, match="split='simple' is not one of length, addprim_jump"):
        split("simple", 22)


@pytest.mark.parametrize("name", get_args(SplitName))
def test_sets_are_disjoint_and_lose_nothing(name: SplitName) -> None:
    sets = Scan(0, split=name, cutoff=22).sets()
    kind = "longer" if name == "length" else "ood"
    hard: tuple[str, ...] = () if name == "simple" else (f"val_{kind}", f"test_{kind}")
    assert list(sets) == ["train", "val_iid", *hard[:1], "test_iid", *hard[1:]]
    for evaluation in list(sets)[1:]:
        assert len(sets[evaluation]) == len(set(sets[evaluation])) > 0
    assert sum(len(set(examples)) for examples in sets.values()) == len({e for s in sets.values() for e in s})
    easy = sets["train"] + sets["val_iid"] + sets["test_iid"]
    if name == "simple":
        assert sorted(easy) == sorted(pairs())
    else:
        train, test = split(name, cutoff=22)
        assert sorted(easy) == sorted(train)
        assert sorted(sets[hard[0]] + sets[hard[1]]) == sorted(test)


@pytest.mark.parametrize(
    ("options", "counts"),
    [
        ({}, {"train": 15_957, "val_iid": 500, "val_longer": 262, "test_iid": 1_829, "test_longer": 2_362}),
        ({"split": "simple"}, {"train": 16_228, "val_iid": 500, "test_iid": 4_182}),
        (
            {"split": "addprim_jump", "test_share": 0.2, "val_iid": 10},
            {"train": 12_019, "val_iid": 10, "val_ood": 771, "test_iid": 2_641, "test_ood": 6_935},
        ),
    ],
)
def test_set_sizes(options: dict[str, Any], counts: dict[str, int]) -> None:
    assert {name: len(examples) for name, examples in Scan(0, **options).sets().items()} == counts


@pytest.mark.parametrize("name", ["length", "simple", "addprim_jump", "filler_num1"])
def test_sets_depend_on_the_seed_alone(name: SplitName) -> None:
    sets, again, other = Scan(1, split=name).sets(), Scan(1, split=name).sets(), Scan(2, split=name).sets()
    assert sets == again
    for evaluation in list(sets)[1:]:
        assert set(sets[evaluation]) != set(other[evaluation])
        assert len(sets[evaluation]) == len(other[evaluation])


def test_held_out_sets_stay_as_they_are() -> None:
    """Runs of different versions are comparable only while a seed holds out the same examples."""
    sets = Scan(0).sets()
    assert sha256(sets["test_iid"]) == "ee13585925b22c015b323cd6400ddb36a93f62202d0b7b552453821c39da396a"
    assert sha256(sets["test_longer"]) == "0a67888195a1ff0de09cb08a7d175f3bda551992bea7b08cb54252658eab5a24"


def test_changing_a_returned_set_changes_no_other() -> None:
    task = Scan(0)
    task.sets()["train"].clear()
    assert task.sets()["train"]


def test_test_range_narrows_the_longer_test_set_only() -> None:
    whole, narrow = Scan(0).sets(), Scan(0, test=LengthRange(30, 33)).sets()
    assert {len(target) for _, target in narrow["test_longer"]} == {30, 32, 33}
    assert set(narrow["test_longer"]) < set(whole["test_longer"])
    assert all(narrow[name] == whole[name] for name in whole if name != "test_longer")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cutoff": 0}, "cutoff=0 must be from 1 to 47"),
        ({"cutoff": 48}, "cutoff=48 must be from 1 to 47.*official split has 22"),
        ({"test_share": 0.0}, "test_share=0.0 must lie between 0 and 1"),
        ({"test_share": 1}, "test_share=1 must lie between 0 and 1"),
        ({"test_share": 1e-9}, "makes 0 of 18286 examples test_iid.*nearer 0.1"),
        ({"test_share": 0.99999}, "makes 18286 of 18286 examples test_iid"),
        ({"val_iid": 0}, "val_iid=0 must be from 1 to 16456"),
        ({"val_iid": 16_457}, "val_iid=16457 must be from 1 to 16456"),
        ({"cutoff": 1}, "val_iid=500 must be from 1 to 4: 6 can be held out.*another cutoff"),
        ({"test": LengthRange(41, 47)}, "leaves test_longer empty: .* 27, 28, 30, 32, 33, 36, 40, 48 actions"),
        ({"split": "simple", "test": LengthRange(1, 9)}, "is for split=length only; leave it out with split=simple"),
    ],
)
def test_option_faults_say_rule_and_remedy(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Scan(0, **options)


def test_registered_with_its_options() -> None:
    assert list(tasks["scan"].options()) == ["split", "cutoff", "test_share", "val_iid", "test"]
    with pytest.raises(OptionError, match="split='jump' is not one of length, addprim_jump"):
        tasks["scan"].build({"seed": 0}, {"split": "jump"})
