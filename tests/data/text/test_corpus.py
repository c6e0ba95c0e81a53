"""Text files to a corpus: sets, held-out pairs, limits, joins, mixing; what the user is told of each."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from relformer.data.corpus import build_corpus, check_corpus, common_options
from relformer.data.encoded import Corpus, Rows
from relformer.data.planning import ByTokens
from relformer.data.survey import overlap_notes
from relformer.errors import OptionError, UserError

DIGITS = ["null", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
WORDS = {"kind": "word", "size": 500, "joint": False}


def lines(first: int, last: int) -> list[tuple[str, str]]:
    """A number as its digits, and as words."""
    return [(" ".join(str(n)), " ".join(DIGITS[int(d)] for d in str(n))) for n in range(first, last)]


def write(folder: Path, name: str, pairs: list[tuple[str, str]]) -> None:
    for place, side in enumerate(("src", "tgt")):
        (folder / f"{name}.{side}").write_text("".join(f"{pair[place]}\n" for pair in pairs), encoding="utf-8")


def named(*names: str) -> dict[str, Any]:
    return {"source": [f"{n}.src" for n in names], "target": [f"{n}.tgt" for n in names]}


def corpus(folder: Path, **options: Any) -> Corpus:
    common = {"seed": 0, "batch_size": None, "max_tokens": 200}
    return build_corpus({"name": "text_files", **common, "path": str(folder), "tokenizer": WORDS, **options})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, "train", lines(0, 1000))
    write(tmp_path, "val", lines(1000, 1050))
    write(tmp_path, "test", lines(10000, 10100))
    write(tmp_path, "more", lines(995, 1015))
    return tmp_path


def texts(made: Corpus, name: str) -> list[tuple[str, str]]:
    examples = made.sets[name]
    sources = map(made.source_vocabulary.decode, examples.sources)
    return list(zip(sources, map(made.target_vocabulary.decode, examples.targets), strict=True))


def test_files_are_the_sets(folder: Path) -> None:
    made = corpus(folder, train=named("train"), val=named("val"), test=named("test"), tests={"more": named("more")})
    assert list(made.sets) == ["train", "val_iid", "test_iid", "test_more"]
    for name, (first, last) in {"train": (0, 1000), "val_iid": (1000, 1050), "test_more": (995, 1015)}.items():
        assert texts(made, name) == lines(first, last)
    assert made.given == {"val_iid", "test_iid", "test_more"}
    assert made.notes == []
    notes = list(overlap_notes(made))
    assert notes[0].startswith("5 pairs stand in both train and test_more") and len(notes) == 2


def test_without_files_pairs_are_held_out(folder: Path) -> None:
    write(folder, "train", lines(0, 1000) + lines(0, 100))
    made = corpus(folder, train=named("train"), held_out=40)
    assert {name: len(each) for name, each in made.sets.items()} == {"train": 1020, "val_iid": 40, "test_iid": 40}
    train = set(texts(made, "train"))
    assert not train & {*texts(made, "val_iid"), *texts(made, "test_iid")}
    assert not set(texts(made, "val_iid")) & set(texts(made, "test_iid"))
    assert any("40 pairs held out from training, drawn by data.seed=0" in note for note in made.notes)
    other = corpus(folder, train=named("train"), held_out=40, seed=1)
    assert texts(other, "val_iid") != texts(made, "val_iid")
    assert len(corpus(folder, train=named("train"), held_out=5000).sets["val_iid"]) == 45  # a tenth for both
    with pytest.raises(OptionError, match=r"^data.held_out=5 can't be taken from 9 different training pairs"):
        write(folder, "few", lines(0, 9))
        corpus(folder, train=named("few"), held_out=5)


def test_long_pairs_stop_go_or_are_cut(folder: Path) -> None:
    options: dict[str, Any] = {"train": named("train"), "val": named("val"), "test": named("val"), "max_length": 3}
    with pytest.raises(
        UserError,
        match=r"^val_iid: 50 of 50 pairs \(100.0%\) have more than data.max_length=3 .* 4 and 4 \(val.src:1\); ",
    ):
        corpus(folder, **options)
    with pytest.raises(UserError, match=r"^val_iid: 50 of 50 pairs \(100%\) would be left out, more than .*=0.1"):
        corpus(folder, **options, on_too_long="drop")
    cut = corpus(folder, **options, on_too_long="truncate")
    assert texts(cut, "val_iid")[0] == ("1 0 0", "one null null")
    assert cut.sets["val_iid"].target_lengths.tolist() == [3] * 50
    options |= {"max_length": 2, "val": named("more"), "test": named("more"), "most_dropped": 0.95}
    with pytest.raises(UserError, match=r"^val_iid: 20 of 20 pairs"):
        corpus(folder, **options, on_too_long="drop")
    options |= {"val": named("train"), "test": named("train")}
    left = corpus(folder, **options, on_too_long="drop")
    assert len(left.sets["train"]) == 100
    assert "train: 900 of 1,000 pairs (90.0%) have more than data.max_length=2 tokens; left out" in left.notes


def test_a_limit_takes_the_first(folder: Path) -> None:
    made = corpus(folder, train=named("train"), val=named("val"), test=named("test"), limit=30)
    assert texts(made, "train") == lines(0, 30)
    assert len(made.sets["val_iid"]) == 50
    write(folder, "train", [*lines(0, 30), *[("", "nothing")] * 20, *lines(30, 1000)])
    again = corpus(folder, train=named("train"), val=named("val"), test=named("test"), limit=30)  # 20 of 1,020 is few
    assert texts(again, "train") == lines(0, 30)


@pytest.mark.parametrize("kind", ["word", "bpe", "char", "byte", "unigram"])
@pytest.mark.parametrize("count", [2, 3])
def test_joined_pairs_are_their_texts_with_a_space_between(folder: Path, kind: str, count: int) -> None:
    tokenizer = {"kind": kind, "size": 400, "joint": True}
    made = corpus(folder, train=named("train"), val=named("val"), test=named("test"), join=count, tokenizer=tokenizer)
    single, joined = texts(made, "test_iid"), texts(made, "test_longer")
    assert len(joined) == 100 // count
    for number, (source, target) in enumerate(joined):
        parts = single[number * count : (number + 1) * count]
        assert (source, target) == (" ".join(s for s, _ in parts), " ".join(t for _, t in parts))


def test_long_targets_can_be_set_apart(folder: Path) -> None:
    made = corpus(folder, train=named("train"), val=named("more"), test=named("test"), split_by_length=2)
    assert set(made.sets["train"].target_lengths.tolist()) == {1, 2}
    assert list(made.sets) == ["train", "val_longer", "test_longer"]
    assert min(made.sets["val_longer"].target_lengths) == 3
    val, test = set(texts(made, "val_longer")), set(texts(made, "test_longer"))
    assert not val & test and len(val) > 60 and set(lines(10000, 10100)) <= test
    assert val | test == {*lines(100, 1000), *lines(995, 1015), *lines(10000, 10100)}
    with pytest.raises(
        OptionError, match=r"data.split_by_length=9 leaves no longer pair: the longest target has 4 tokens"
    ):
        corpus(folder, train=named("train"), val=named("val"), test=named("val"), split_by_length=9)


def test_corpora_are_mixed_by_weight_or_temperature(folder: Path) -> None:
    files = {"train": named("train", "more"), "val": named("val"), "test": named("test")}
    plain = corpus(folder, **files)
    assert plain.sets["train"].shares is None and len(plain.sets["train"]) == 1020
    weighted = corpus(folder, **files | {"train": {**named("train", "more"), "weights": [1, 3]}})
    assert weighted.sets["train"].shares == [0.25, 0.75]
    order = common_options({"batch_size": None, "max_tokens": 200}).order(weighted.sets["train"], 0, 1)
    assert isinstance(order, ByTokens)
    rows = [row for number in range(int(order.per_epoch())) for row in order.batch(number)[1]]
    assert np.mean(np.array(rows) >= 1000) == pytest.approx(0.75, abs=0.01)
    heated = corpus(folder, **files, temperature=2.0)
    assert heated.sets["train"].shares == pytest.approx([50**0.5 / (50**0.5 + 1), 1 / (50**0.5 + 1)])
    with pytest.raises(
        OptionError, match=r"^data.train.weights=\[1\] must be 2 positive numbers, one a corpus: train.src"
    ):
        corpus(folder, **files | {"train": {**named("train", "more"), "weights": [1]}})
    with pytest.raises(OptionError, match=r"^data.temperature=0.0 must be positive"):
        corpus(folder, **files, temperature=0.0)


def test_a_budget_too_small_for_the_longest_pair_is_refused(folder: Path) -> None:
    with pytest.raises(OptionError, match=r"^data.max_tokens=4 is less than the longest training pair .* 5 tokens"):
        corpus(folder, train=named("train"), val=named("val"), test=named("test"), max_tokens=4)


def test_a_trained_run_brings_its_tokenizers(folder: Path) -> None:
    files = {"train": named("train"), "val": named("val"), "test": named("test")}
    made = corpus(folder, **files)
    coders = made.source_vocabulary, made.target_vocabulary
    write(folder, "train", [("other words", "altogether")] * 20)
    common = {"seed": 0, "batch_size": None, "max_tokens": 200, "path": str(folder), "tokenizer": WORDS}
    again = build_corpus({"name": "text_files", **common, **files}, coders)
    assert (again.source_vocabulary, again.target_vocabulary) == coders
    assert texts(again, "test_iid") == lines(10000, 10100)


def test_joined_sets_of_files_are_evaluated_without_training_text(folder: Path) -> None:
    files = {"train": named("train"), "val": named("val"), "test": named("test"), "join": 3}
    made = corpus(folder, **files)
    assert {"val_longer", "test_longer"} < made.given
    assert "test_longer: the last 1 of test_iid make no group of 3 and are left out of it" in made.notes
    (folder / "train.src").unlink()
    common = {"seed": 0, "batch_size": None, "max_tokens": 200, "path": str(folder), "tokenizer": WORDS}
    again = build_corpus({"name": "text_files", **common, **files}, (made.source_vocabulary, made.target_vocabulary))
    assert list(again.sets) == list(made.sets)[1:] and texts(again, "test_longer") == texts(made, "test_longer")


def test_a_split_by_length_is_the_same_when_it_is_evaluated(folder: Path) -> None:
    files = {"train": named("train"), "val": named("more"), "test": named("test"), "tests": {"even": named("more")}}
    made = corpus(folder, **files, split_by_length=3)
    assert texts(made, "test_even") == lines(995, 1015)  # a set of its own stays whole
    common = {"seed": 0, "batch_size": None, "max_tokens": 200, "path": str(folder), "tokenizer": WORDS}
    again = build_corpus(
        {"name": "text_files", **common, **files, "split_by_length": 3},
        (made.source_vocabulary, made.target_vocabulary),
    )
    for name in made.sets:
        assert texts(again, name) == texts(made, name)
    write(folder, "train", lines(0, 1000) + lines(900, 1000))
    twice = corpus(folder, **files, split_by_length=2)
    assert "; 105 repetitions of longer ones are left out" in twice.notes[-1]


def test_a_limit_that_leaves_nothing_of_a_corpus_says_so(folder: Path) -> None:
    with pytest.raises(UserError, match=r"^more.src \+ more.tgt is left without a training pair by data.limit"):
        corpus(folder, train=named("train", "more"), val=named("val"), test=named("test"), limit=30)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train": {**named("train"), "weights": [1, 3]}}, r"train.weights=\[1, 3\] must be a list of one positive"),
        ({"train": {**named("train", "more"), "weights": 3}}, r"train.weights=3 must be 2 positive numbers"),
        ({"train": {**named("train", "more"), "weights": [1, "a"]}}, r"train.weights=\[1, 'a'\] must be 2 positive"),
        ({"val": {**named("val"), "weights": [1]}}, r"val.weights=\[1\] is for training alone"),
        ({"tests": {"iid": named("more")}}, r"tests='iid' is no name of a further set"),
        ({"tests": {"a/b": named("more")}}, r"tests='a/b' is no name of a further set"),
        ({"tests": ["more.src"]}, r"tests=\['more.src'\] must be sets by name"),
        ({"tests": {"more": "more.src"}}, r"tests=.* must be sets by name"),
        ({"tests": {"more": {"fille": "more.src"}}}, r"tests.more=.* has 'fille'; it takes source and target, or file"),
        ({"tests": {"longer": named("more")}, "join": 2}, r"join=2 makes test_longer, which is given already"),
        ({"join": 51}, r"join=51 is more than val_iid has pairs, 50"),
    ],
)
def test_options_that_do_not_fit_are_named(folder: Path, options: dict[str, Any], message: str) -> None:
    files = {"train": named("train"), "val": named("val"), "test": named("test")}
    with pytest.raises(OptionError, match=f"^data.{message}"):
        corpus(folder, **files | options)


def test_positions_are_not_lost_in_joining(folder: Path) -> None:
    rows = [f'{{"source": "a b", "target": "{n}", "positions": [0, {n + 1}]}}\n' for n in range(60)]
    (folder / "placed.jsonl").write_text("".join(rows))
    with pytest.raises(OptionError, match=r"^data.join=2 can't join the positions that val_iid has"):
        corpus(folder, train={"file": "placed.jsonl"}, join=2)


def test_positions_in_some_sets_only_are_told_and_never_mixed_up(folder: Path) -> None:
    rows = [(f"a{' b' * (n % 3)}", f"{n}{' c' * (n % 3)}", list(range(5, 6 + n % 3))) for n in range(60)]
    texts = [f'{{"source": "{s}", "target": "{t}", "positions": {p}}}\n' for s, t, p in rows]
    (folder / "placed.jsonl").write_text("".join(texts))
    made = corpus(folder, train={"file": "placed.jsonl"}, val=named("val"), test=named("val"))
    assert made.notes[-1] == "positions are given in train, but counted in val_iid, test_iid"
    with pytest.raises(UserError, match="some pairs of a set have positions and some have none"):
        corpus(folder, train={"file": "placed.jsonl"}, val=named("val"), test=named("val"), split_by_length=2)
    split = corpus(folder, train={"file": "placed.jsonl"}, split_by_length=2)
    for each in split.sets.values():
        assert each.positions is not None and isinstance(each.sources, Rows)  # views: nothing is read into memory
        assert [ids[0] for ids in each.positions] == [5] * len(each)
        assert [len(ids) for ids in each.positions] == each.source_lengths.tolist()
    assert set(split.sets["test_longer"].target_lengths.tolist()) == {3}


def test_sets_with_numbers_and_words_for_names(folder: Path) -> None:
    files = {"train": named("train"), "val": named("val"), "test": named("test")}
    options = {"tests": {2017: named("more"), "other": named("more")}}
    made = check_corpus({"name": "text_files", "seed": 0, "path": str(folder), "tokenizer": WORDS, **files, **options})
    assert list(made.sets)[-2:] == ["test_2017", "test_other"]


def test_any_integer_is_a_seed(folder: Path) -> None:
    options: dict[str, Any] = {"train": {**named("train", "more"), "weights": [1, 3]}, "split_by_length": 3}
    with pytest.raises(
        OptionError, match=r"^data.split_by_length=2 leaves nothing of one of the corpora that are mixed"
    ):
        corpus(folder, **options | {"split_by_length": 2})
    made, again = (corpus(folder, **options, seed=-1) for _ in range(2))
    assert texts(made, "val_iid") == texts(again, "val_iid") and texts(made, "val_longer") == texts(again, "val_longer")
    orders = [common_options({"batch_size": None, "max_tokens": 99}).order(made.sets["train"], s, 1) for s in (-1, 1)]
    assert [order.batch(0) for order in orders] == [order.batch(0) for order in orders]
    assert orders[0].batch(0) != orders[1].batch(0)


def test_nothing_named(folder: Path) -> None:
    with pytest.raises(OptionError, match=r"^data.train=None names no file"):
        corpus(folder)
    with pytest.raises(UserError, match=r"^data.tests.more needs source and target"):
        corpus(folder, train=named("train"), tests={"more": {"source": "more.src"}})
