"""Denoising as a corpus: text taken apart and put together again, anew each epoch, with lengths known beforehand."""

import random
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from relformer.data.batching import Batches, Plan
from relformer.data.corpus import build_corpus
from relformer.data.encoded import Corpus, EncodedSet
from relformer.data.text.corrupted import Corrupted, SentinelTokenizer, pieces
from relformer.data.text.span_corruption import SpanCorruption, restore
from relformer.data.vocabulary import restored_pair, stored_pair
from relformer.errors import OptionError, UserError

SENTINELS = range(999, 899, -1)


def texts(lengths: list[int], seed: int = 0) -> EncodedSet:
    rng = random.Random(seed)
    return EncodedSet([[rng.randrange(3, 900) for _ in range(n)] for n in lengths], [[]] * len(lengths))


def corpus(**options: Any) -> Corpus:
    return build_corpus({"name": "denoising", "seed": 0, "batch_size": None, "max_tokens": 512, **options})


def test_input_and_target_restore_the_text_in_every_epoch() -> None:
    lengths = [1, 2, 3, *random.Random(0).choices(range(1, 200), k=997)]
    whole = texts(lengths)
    made = Corrupted(whole, SpanCorruption(), SENTINELS, 0)
    differ = 0
    for row in range(1000):
        first, second = made.pair(row, 0), made.pair(row, 1)
        for source, target in (first, second):
            assert restore(source, target, SENTINELS) == whole.sources[row]
            assert (len(source), len(target)) == (made.source_lengths[row], made.target_lengths[row])
        assert made.pair(row, 0) == first == (made.sources[row], made.targets[row])
        differ += first != second
    assert differ > 800


def test_long_texts_are_cut_evenly_and_lose_nothing() -> None:
    whole = texts([1, 7, 8, 9, 50])
    cut = pieces(whole, 8)
    assert cut.source_lengths.tolist() == [1, 7, 8, 4, 5, 7, 7, 7, 7, 7, 7, 8]
    assert [token for piece in cut.sources for token in piece] == [token for text in whole.sources for token in text]
    assert len(set(cut.hashes.tolist())) == len(cut)


def test_a_batch_takes_the_noise_of_its_epoch() -> None:
    made = Corrupted(texts([60] * 4), SpanCorruption(), SENTINELS, 0)
    first, again, other = (Batches(made)[Plan((0, 1, 2, 3), epoch=epoch)] for epoch in (0, 0, 3))
    assert first.source.equal(again.source) and not first.source.equal(other.source)
    assert first.source.shape == other.source.shape and first.labels.shape == other.labels.shape


def test_without_a_file_it_reads_the_manual() -> None:
    made = corpus(tokenizer={"size": 600}, piece=64)
    assert list(made.sets) == ["train", "val_iid", "test_iid"]
    assert len(made.sets["train"]) > 1500 and max(made.sets["train"].source_lengths) <= 64 + 4
    coder = cast(SentinelTokenizer, made.source_vocabulary)
    train = cast(Corrupted, made.sets["train"])
    source, target = train.pair(0, 0)
    text = coder.text.decode(restore(source, target, coder.sentinels))
    assert text.isprintable() and " " in text
    assert "<extra_id_0>" in coder.decode(source) and coder.decode(target).startswith("<extra_id_0>")
    assert coder.tokens[-1] == "<extra_id_0>" and coder.tokens[-100] == "<extra_id_99>" and len(coder) == 700


def test_the_users_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"line {n} of the first file\n" for n in range(100)))
    other = [f"paragraph {n}\nof two lines\n\n" for n in range(30)]
    (tmp_path / "b.txt").write_text("".join(other) + "and a literal <extra_id_0> in text\n")
    made = corpus(path=str(tmp_path), files=["a.txt", "b.txt"], tokenizer={"size": 400}, unit="paragraph", held_out=1)
    found = {made.source_vocabulary.decode(ids) for each in made.sets.values() for ids in cast(Any, each).texts.sources}
    assert "paragraph 7 of two lines" in found and len(found) > 32  # the first file is one paragraph, cut into pieces
    coder = cast(SentinelTokenizer, made.source_vocabulary)
    ids = coder.encode("and a literal <extra_id_0> in text")
    assert max(ids) < len(coder.text)


def test_lines_left_out_count_against_the_most(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"".join(b"line %d of text\n" % n for n in range(80)) + b"\0\n" * 20)
    options = {"path": str(tmp_path), "files": "a.txt", "tokenizer": {"kind": "word", "size": 60}, "on_bad": "skip"}
    with pytest.raises(UserError, match=r"^train: 20 of 100 pairs \(20%\) would be left out"):
        corpus(**options)
    made = corpus(**options, most_dropped=0.2, held_out=1)
    assert any("tokens are not in the vocabulary" in note for note in made.notes)
    with pytest.raises(OptionError, match=r"can't be taken from 2 different .* \(at most a tenth\); give more text$"):
        corpus(**options, most_dropped=0.2, limit=2)


def test_nothing_but_long_texts_beside_held_out_ones(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"{n} " * 20 + "\n" for n in range(80)))
    made = corpus(path=str(tmp_path), files="a.txt", tokenizer={"kind": "word"}, held_out=1)
    rows = made.sets["val_iid"].select(np.flatnonzero(made.sets["val_iid"].target_lengths < 0))
    assert len(rows) == 0 and rows.target_lengths.dtype == np.int64


def test_it_travels_in_checkpoints() -> None:
    made = corpus(tokenizer={"size": 600}, sentinels=20)
    state = stored_pair(made.source_vocabulary, made.target_vocabulary)
    source, target = restored_pair(state)
    assert source is target and source.tokens == made.source_vocabulary.tokens
    assert np.array_equal(source.encode("a text"), made.source_vocabulary.encode("a text"))
    again = build_corpus({"name": "denoising", "seed": 0, "sentinels": 20}, (source, target))
    assert again.source_vocabulary is source


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"piece": 2010}, r"^data.piece=2010 must be from 2 to 2009, for which data.sentinels=100 suffice"),
        ({"noise_share": 1.0}, r"^data.noise_share=1.0 must lie between 0 and 1"),
        ({"join": 2}, r"^data.join=2 is for pairs; long texts are cut by data.piece"),
        ({"max_length": 9}, r"^data.max_length=9 is for pairs"),
    ],
)
def test_options_are_refused_by_path(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        corpus(**options)
