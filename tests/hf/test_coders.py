"""Imported tokenizers: the same tokens for the same text, and the same text of the same tokens."""

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers", reason="transformers is not installed: the extra hf")

from relformer.data.text.imported import Controls, ImportedTokenizer
from relformer.data.vocabulary import restored
from relformer.errors import UserError
from relformer.hf.coders import coders_of
from relformer.hf.command import import_run
from relformer.training.trained import open_run
from tests.hf.models import MARIAN as MODEL
from tests.hf.tokenizers_made import TEXTS, bart_tokenizer, t5_tokenizer

MARIAN = Path(__file__).parents[1] / "fixtures" / "marian"
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


def marian_controls() -> Controls:
    ids = json.loads((MARIAN / "vocab.json").read_text())
    return Controls(len(ids), pad=ids["<pad>"], start=ids["<pad>"], eos=ids["</s>"])


@pytest.mark.parametrize("row", json.loads((MARIAN / "expected.json").read_text()), ids=lambda row: row["text"][:12])
def test_marian_as_sentencepiece_has_it(row: dict[str, Any]) -> None:
    """Two models, one vocabulary that lacks some of their pieces; the numbers are MarianTokenizer's."""
    controls = marian_controls()
    for side, coder in zip(("source", "target"), coders_of(str(MARIAN), controls, controls), strict=True):
        assert isinstance(coder, ImportedTokenizer)
        ids = coder.encode(row["text"])
        assert [*theirs_of(coder, ids), controls.eos] == row[side]
        if side == "target" and coder.unknown not in ids:
            assert coder.decode(ids) == row["decoded"].removesuffix("</s>")
        assert restored(coder.state()).encode(row["text"]) == ids


def test_marian_without_one_of_its_files(tmp_path: Path) -> None:
    shutil.copy(MARIAN / "source.spm", tmp_path)
    with pytest.raises(
        UserError, match=r"the model has no target.spm; Marian's tokenizers need source.spm, target.spm"
    ):
        coders_of(str(tmp_path), marian_controls(), marian_controls())


def test_a_marian_run_translates_text(tmp_path: Path) -> None:
    import transformers

    from relformer.translation.translator import Translator

    controls = marian_controls()
    special = {"pad_token_id": controls.pad, "decoder_start_token_id": controls.pad, "eos_token_id": controls.eos}
    config = transformers.MarianConfig(**MODEL | special | {"vocab_size": controls.size}, num_beams=2)
    shutil.copytree(MARIAN, tmp_path / "theirs")
    transformers.MarianMTModel(config).save_pretrained(tmp_path / "theirs")
    import_run(str(tmp_path / "theirs"), tmp_path / "run")
    trained = open_run(str(tmp_path / "run"), ["decoding.max_length_base=6", "decoding.max_length_factor=0"])
    assert {path.name for path in (tmp_path / "run").glob("*.json")} == {
        "source_tokenizer.json",
        "target_tokenizer.json",
    }
    found = Translator(trained, torch.device("cpu")).translate(["The red house", "", ">>fra<< a window."])
    assert [len(each) for each in found] == [1, 0, 1]
