"""Imported tokenizers: the same tokens for the same text, and the same text of the same tokens."""

import pickle
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers", reason="transformers is not installed: the extra hf")

from relformer.data.text.imported import Controls, ImportedTokenizer
from relformer.data.vocabulary import restored
from relformer.errors import UserError
from relformer.hf.coders import coders_of
from tests.hf.tokenizers_made import TEXTS, bart_tokenizer, t5_tokenizer

T5 = Controls(160, pad=0, start=0, eos=1)
BART = Controls(345, pad=1, start=2, eos=2)


@pytest.fixture(scope="module", params=["t5", "bart"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, ImportedTokenizer]:
    folder = tmp_path_factory.mktemp("tokenizer")
    made = (t5_tokenizer if request.param == "t5" else bart_tokenizer)()
    made.save_pretrained(folder)
    import transformers

    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    source, target = coders_of(str(folder), *[T5 if request.param == "t5" else BART] * 2)
    assert source is target and isinstance(source, ImportedTokenizer)
    return theirs, source


def theirs_of(coder: ImportedTokenizer, ids: list[int]) -> list[int]:
    return [coder.controls.rows[number] for number in ids]


@pytest.mark.parametrize("text", TEXTS)
def test_ids_and_texts_are_equal(pair: tuple[Any, ImportedTokenizer], text: str) -> None:
    theirs, coder = pair
    ids = coder.encode(text)
    expected = theirs(text).input_ids
    assert [*theirs_of(coder, ids), coder.controls.eos] == expected  # EOS is put there by the batch
    if "<" not in text and coder.unknown not in ids:  # they leave out sentinels and unknown tokens, we show them
        assert coder.decode([1, *ids, 2, 0]) == theirs.decode(expected, skip_special_tokens=True)
    assert min(ids, default=3) >= 3


def test_every_id_has_a_token_and_comes_back(pair: tuple[Any, ImportedTokenizer]) -> None:
    theirs, coder = pair
    controls = coder.controls
    assert len(coder) == len(coder.tokens) == controls.size + 1
    assert sorted(set(controls.rows)) == list(range(controls.size))
    assert [controls.rows[number] for number in controls.ours] == list(range(controls.size))
    for number, row in enumerate(controls.rows[3:], 3):
        if row < len(theirs):
            assert coder.tokens[number] == theirs.convert_ids_to_tokens(row)
    assert coder.unknown == controls.ours[theirs.unk_token_id] or theirs.backend_tokenizer.model.unk_token is None


def test_it_travels(pair: tuple[Any, ImportedTokenizer]) -> None:
    _, coder = pair
    for other in (restored(coder.state()), pickle.loads(pickle.dumps(coder))):
        assert other.state() == coder.state()
        assert [other.encode(text) for text in TEXTS] == [coder.encode(text) for text in TEXTS]


def test_text_that_spells_a_control_token_is_refused(pair: tuple[Any, ImportedTokenizer]) -> None:
    with pytest.raises(UserError, match="spells '</s>', which is a control token"):
        pair[1].encode("an end </s> in the middle")


def test_a_vocabulary_larger_than_the_model_is_refused(tmp_path: Path) -> None:
    t5_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(UserError, match="does not go with a model of 20"):
        coders_of(str(tmp_path), *[Controls(20, 0, 0, 1)] * 2)


def test_controls_that_can_not_be_told_apart_are_refused() -> None:
    with pytest.raises(UserError, match="one token, 1; relformer needs two"):
        Controls(9, pad=1, start=0, eos=1)
    with pytest.raises(UserError, match="the eos token has id 9, outside a vocabulary of 9"):
        Controls(9, pad=1, start=0, eos=9)
