"""A `tokenizer.json` from elsewhere: what it may hold, what it may not do, and how its faults are named."""

import pickle
from pathlib import Path

import pytest
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as LibraryTokenizer

from relformer.data.text.tokenizer import Tokenizer
from relformer.errors import UserError


def from_elsewhere(path: Path, model, **parts) -> Path:
    tokenizer = LibraryTokenizer(model)
    for part, value in parts.items():
        setattr(tokenizer, part, value)
    tokenizer.save(str(path))
    return path


def test_a_given_tokenizer_adds_nothing_and_cuts_nothing(tmp_path):
    """Like BERT's: template of special tokens, truncation and padding."""
    library = LibraryTokenizer(
        models.WordLevel({"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3, "b": 4}, unk_token="[UNK]")
    )
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    library.add_special_tokens(["[CLS]", "[SEP]"])
    library.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    library.enable_truncation(3)
    library.enable_padding(length=8, pad_id=4)
    library.save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer.load(tmp_path / "tokenizer.json")
    assert tokenizer.tokens == ("<pad>", "<bos>", "<eos>", "[UNK]", "[CLS]", "[SEP]", "a", "b")
    assert tokenizer.unknown == 3
    assert tokenizer.encode("a b a b") == [6, 7, 6, 7]
    assert not {4, 5} & set(tokenizer.encode("[CLS] a [SEP]"))
    again = pickle.loads(pickle.dumps(tokenizer))
    assert again.encode("[CLS] a b a [SEP]") == tokenizer.encode("[CLS] a b a [SEP]")


def test_a_given_byte_level_tokenizer_joins_with_its_space(tmp_path):
    """Like GPT-2's: no space before the first word, so one must be put between two texts."""
    vocabulary = {character: n for n, character in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    path = from_elsewhere(
        tmp_path / "tokenizer.json",
        models.BPE(vocabulary, []),
        pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False),
        decoder=decoders.ByteLevel(),
    )
    tokenizer = Tokenizer.load(path)
    assert tokenizer.unknown is None
    assert tokenizer.decode([*tokenizer.encode("é"), *tokenizer.joiner, *tokenizer.encode("b")]) == "é b"


def test_a_unigram_file_names_its_unknown_token_by_id(tmp_path):
    model = models.Unigram([("<pad>", 0.0), ("<unk>", 0.0), ("▁a", -1.0), ("▁", -2.0)], unk_id=1)
    path = from_elsewhere(
        tmp_path / "t.json", model, normalizer=normalizers.NFKC(), pre_tokenizer=pre_tokenizers.Metaspace()
    )
    tokenizer = Tokenizer.load(path)
    assert tokenizer.unknown == 4
    assert tokenizer.encode("a z") == [5, 6, 4]


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("", "is not JSON"),
        ("not json", "is not JSON"),
        ("[1, 2]", "is not a tokenizer.json"),
        ('{"version": "1.0"}', "is not a tokenizer.json"),
        (models.WordLevel({}, unk_token="u"), "has no tokens"),
        (
            models.WordLevel({"u": 0, "a": 2}, unk_token="u"),
            "must number its 2 tokens from 0 on, each once; id 1 breaks",
        ),
        ('{"model": {"type": "WordLevel", "vocab": {"u": 0, "a": 1, "b": 1}, "unk_token": "u"}}', "id 2 breaks"),
        (models.WordLevel({"a": 0}, unk_token="u"), "has no unknown token"),
        (models.BPE({"a": 0, "b": 1}, []), "has no unknown token"),
        (models.BPE({"a": 0, "u": 1}, [], unk_token="u", dropout=0.1), "has model.dropout=0.1"),
    ],
)
def test_faults_of_a_given_file_name_it(tmp_path, content, part):
    path = tmp_path / "given.json"
    path.write_text(content if isinstance(content, str) else LibraryTokenizer(content).to_str(), encoding="utf-8")
    with pytest.raises(UserError) as caught:
        Tokenizer.load(path)
    assert part in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe{}")
    for path, reason in (("absent.json", "No such file"), (".", "directory"), ("binary.json", "not UTF-8")):
        with pytest.raises(UserError, match=reason) as caught:
            Tokenizer.load(tmp_path / path)
        assert str(tmp_path) in str(caught.value)


def test_added_tokens_of_a_given_file_are_tokens(tmp_path):
    library = LibraryTokenizer(models.WordLevel({"u": 0, "a": 1}, unk_token="u"))
    library.add_tokens([AddedToken("two words")])
    library.save(str(tmp_path / "t.json"))
    tokenizer = Tokenizer.load(tmp_path / "t.json")
    assert tokenizer.tokens[3:] == ("u", "a", "two words")
    assert tokenizer.encode("two words") == [5]
