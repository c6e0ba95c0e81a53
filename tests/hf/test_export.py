"""A T5 of ours becomes one of transformers, and comes back the same to the bit."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers", reason="transformers is not installed: the extra hf")

from relformer.config import compose, prepare
from relformer.data.text.tokenizer import Tokenizer, TokenizerOptions, train_tokenizer
from relformer.data.vocabulary import Coder, Vocabulary, stored_pair
from relformer.errors import UserError
from relformer.hf import from_hf, to_hf_t5
from relformer.hf.command import export_command, import_command
from relformer.training.module import Seq2SeqModule
from relformer.training.resume import run_parts
from relformer.training.trained import open_run
from tests.hf.models import T5, make
from tests.hf.tokenizers_made import CORPUS, TEXTS, saved_with, t5_tokenizer

OURS = ("experiment=t5_original", "model.tie=all", "model.head_dim=12", "data=text_files", "encoding.num_buckets=8")


def module_of(coder: Coder, *overrides: str) -> Seq2SeqModule:
    """An untrained run of ours, as a checkpoint would hold it."""
    prepare()
    parts = {**run_parts(compose([*OURS, *overrides])), "vocabulary": stored_pair(coder, coder)}
    return Seq2SeqModule(parts | {"trained_length": 20, "length_side": "target", "fingerprint": ""}).eval()


def tokenizer(kind: str = "bpe") -> Tokenizer:
    return train_tokenizer(CORPUS, TokenizerOptions(kind=kind, size=340), progress=False)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["t5", "t5_1.1"])
def test_theirs_comes_back_to_the_bit(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers

    monkeypatch.setitem(T5, "vocab_size", 80)
    saved_with(t5_tokenizer(), make(name), tmp_path / "theirs")
    import_command([f"hf:{tmp_path / 'theirs'}", f"to={tmp_path / 'run'}"])
    export_command(str(tmp_path / "run"), [f"hf={tmp_path / 'back'}"])
    theirs, back = (transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / n) for n in ("theirs", "back"))
    assert theirs.state_dict().keys() == back.state_dict().keys()
    for key, tensor in theirs.state_dict().items():
        assert torch.equal(tensor, back.state_dict()[key]), key
    kept = (
        "decoder_start_token_id",
        "pad_token_id",
        "eos_token_id",
        "feed_forward_proj",
        "scale_decoder_outputs",
        "d_kv",
    )
    assert all(getattr(theirs.config, key) == getattr(back.config, key) for key in kept)
    one, other = (transformers.AutoTokenizer.from_pretrained(tmp_path / n) for n in ("theirs", "back"))
    assert [one(text).input_ids for text in TEXTS] == [other(text).input_ids for text in TEXTS]
    run, (_, state, coders) = open_run(str(tmp_path / "run"), []), from_hf(str(tmp_path / "back"))
    assert_equal(run.module, state)
    assert [coders[0].encode(text) for text in TEXTS] == [run.coders[0].encode(text) for text in TEXTS]


def assert_equal(module: Seq2SeqModule, state: dict[str, torch.Tensor]) -> None:
    ours = module.model.state_dict()
    assert ours.keys() == state.keys()
    for key, tensor in ours.items():
        assert torch.equal(tensor, state[key]), key


@pytest.mark.parametrize(
    "overrides", [(), ("model.tie=inputs", "model.embedding_scale=none", "model.activation=geglu_tanh")]
)
@torch.no_grad()
def test_ours_becomes_theirs_and_comes_back(overrides: tuple[str, ...], tmp_path: Path) -> None:
    import transformers

    module = module_of(tokenizer(), *overrides)
    folder = to_hf_t5(module, tmp_path / "out")
    theirs = transformers.T5ForConditionalGeneration.from_pretrained(folder).eval()
    size = len(module.source_vocabulary)
    source, target = (torch.randint(3, size, (4, n), generator=torch.Generator().manual_seed(n)) for n in (9, 7))
    source[1, 5:], source[:, 8], target[:, 0] = 0, 2, 1
    expected = theirs(input_ids=source, attention_mask=source.ne(0).long(), decoder_input_ids=target).logits
    torch.testing.assert_close(module.model(source, target), expected, rtol=0, atol=1e-4)
    config, state, _ = from_hf(str(folder))
    assert_equal(module, state)
    assert config["model"]["output_bias"] is False
    assert config["data"]["bos"] is True
    again = to_hf_t5(Seq2SeqModule(config | {"vocabulary": module.config["vocabulary"]}), tmp_path / "again")
    for name in ("config.json", "tokenizer.json"):
        assert json.loads((again / name).read_text()) == json.loads((folder / name).read_text())


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_our_tokenizers_become_theirs(kind: str, tmp_path: Path) -> None:
    import transformers

    ours = tokenizer(kind)
    folder = to_hf_t5(module_of(ours, "data.bos=false"), tmp_path / "out")
    theirs, (config, _, coders) = transformers.AutoTokenizer.from_pretrained(folder), from_hf(str(folder))
    assert config["data"]["bos"] is False
    for text in TEXTS:
        ids = ours.encode(text)
        assert theirs(text).input_ids == [*ids, 2]
        assert theirs.decode(ids) == ours.decode(ids)
        assert coders[0].encode(text) == ids
    assert (theirs.pad_token_id, theirs.eos_token_id) == (0, 2)


def test_a_vocabulary_of_whole_tokens_becomes_a_tokenizer(tmp_path: Path) -> None:
    import transformers

    ours = Vocabulary(["a", "b", "<c>"])
    folder = to_hf_t5(module_of(ours, "data=reverse"), tmp_path / "out")
    assert transformers.AutoTokenizer.from_pretrained(folder)("b a <c>").input_ids == [1, 4, 3, 5, 2]
    coder = from_hf(str(folder))[2][0]
    assert coder.encode("b a <c>") == [4, 3, 5]
    with pytest.raises(UserError, match="control token"):
        coder.encode("b z")


def test_another_model_is_refused_with_all_that_differs(tmp_path: Path) -> None:
    plain = module_of(
        tokenizer(), "encoding.scale=null", "cross_encoding.scale=null", "model.norm=post", "model.tie=decoder"
    )
    with pytest.raises(UserError) as fault:
        to_hf_t5(plain, tmp_path / "out")
    said = str(fault.value).splitlines()[1:]
    assert [line.split("=")[0].strip() for line in said] == [
        "model.norm",
        "model.tie",
        "model.embedding_scale",
        "encoding.scale",
        "cross_encoding.scale",
    ]
    assert said[0] == "  model.norm=pre, not post"
    assert not (tmp_path / "out").exists() and not list(tmp_path.glob(".out*"))
    rope: Any = module_of(tokenizer())
    rope.config = rope.config | {"decoder_encoding": {"name": "rope"}}
    with pytest.raises(UserError, match=r"decoder_encoding.name=t5, not rope"):
        to_hf_t5(rope, tmp_path / "out")


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    with pytest.raises(UserError, match="is there already"):
        to_hf_t5(module_of(tokenizer()), tmp_path)


def test_faults_of_the_commands(tmp_path: Path) -> None:
    for arguments in ([], ["one", "two"], ["one", "into=there"]):
        with pytest.raises(UserError, match="import needs one model and a folder"):
            import_command(arguments)
    make("t5").save_pretrained(tmp_path / "theirs")
    import_command([str(tmp_path / "theirs"), f"to={tmp_path / 'run'}"])
    with pytest.raises(UserError, match="already holds a run"):
        import_command([str(tmp_path / "theirs"), f"to={tmp_path / 'run'}"])
    with pytest.raises(UserError, match="export needs a folder"):
        export_command(str(tmp_path / "run"), [])
