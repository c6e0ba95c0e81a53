"""Text to ids and back: nothing is lost, no text reaches a control id, and what comes from elsewhere is checked."""

import multiprocessing
import pickle
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relformer.data.text.tokenizer import Tokenizer, TokenizerOptions, train_tokenizer
from relformer.data.vocabulary import BOS, EOS, PAD
from relformer.errors import OptionError, UserError

LINES = [
    "The cat sat on the mat, and the dog sat on the cat.",
    "Die Katze saß auf der Matte; der Hund saß auf der Katze.",
    "Příliš žluťoučký kůň úpěl ďábelské ódy.",
    "नमस्ते दुनिया, the world is 42 years old",
] * 5
COVERING = ("bpe", "unigram", "byte")
AWKWARD = [
    "",
    " ",
    "  two  spaces  ",
    "\t tab\tand\x0bother\x0cwhite\rspace\n",
    "no\u00a0break\u2009thin\u3000ideographic\u2028line\x85next",
    "<pad> <bos> <eos> <s> </s> <unk> <extra_id_0> [CLS] < unk >",
    "low@@ er ▁metaspace Ġbyte ##piece",
    "👩‍👩‍👧‍👦 ❤️ 🏳️‍🌈 🇩🇪 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐎀",
    "\u202bשלום\u202c مرحبا\u200f بِسْمِ",
    "ภาษาไทยไม่มีช่องว่าง 中文没有空格 日本語 नमस्ते",
    "soft\u00adhyphen zero\u200bwidth \ufeff \x00\x01\x7f \ufffd \U0010ffff",
    "\u0308begins with a mark, e\u0301 is decomposed",
]


def trained(kind: str, lines=LINES, **options) -> Tokenizer:
    return train_tokenizer(lines, TokenizerOptions(kind=kind, **{"size": 400, **options}), progress=False)


@pytest.fixture(scope="module", params=COVERING)
def raw(request) -> Tokenizer:
    """Without a normal form, so that decoding must give the very text."""
    return trained(request.param, normalize="none")


@given(text=st.text())
def test_any_text_comes_back_exactly(raw, text):
    ids = raw.encode(text)
    assert raw.decode(ids) == text
    assert raw.unknown is None
    assert all(EOS < number < len(raw) for number in ids)


@pytest.mark.parametrize("text", AWKWARD)
def test_awkward_texts_come_back_exactly(raw, text):
    assert raw.decode(raw.encode(text)) == text


@given(text=st.text(st.characters(exclude_categories=["Cs", "Cn"])))
@pytest.mark.parametrize("kind", COVERING)
def test_the_default_normal_form_is_nfc_and_nothing_more(kind, text, by_kind):
    tokenizer = by_kind[kind]
    assert tokenizer.decode(tokenizer.encode(text)) == unicodedata.normalize("NFC", text)


@pytest.fixture(scope="module")
def by_kind() -> dict[str, Tokenizer]:
    return {kind: trained(kind) for kind in COVERING}


@pytest.mark.parametrize("kind", [*COVERING, "char", "word"])
def test_decomposed_text_has_the_ids_of_composed_text_also_once_restored(kind):
    tokenizer = Tokenizer(trained(kind).json)
    composed = "Příliš žluťoučký kůň"
    assert tokenizer.encode(unicodedata.normalize("NFD", composed)) == tokenizer.encode(composed)
    assert tokenizer.decode(tokenizer.encode(composed)) == composed


def test_compatibility_forms_are_folded_on_request_only():
    assert trained("bpe").decode(trained("bpe").encode("ﬁ \ufe30")) == "ﬁ \ufe30"
    assert trained("bpe", normalize="nfkc").decode(trained("bpe", normalize="nfkc").encode("ﬁ \ufe30")) == "fi .."


@pytest.mark.parametrize("kind", [*COVERING, "char", "word"])
def test_lowercase_is_part_of_the_tokenizer(kind):
    tokenizer = trained(kind, lowercase=True)
    assert tokenizer.encode("THE CAT") == tokenizer.encode("the cat")
    assert tokenizer.decode(tokenizer.encode("THE CAT")) == "the cat"


@given(text=st.text(st.sampled_from(sorted(set("".join(LINES))))))
def test_known_characters_come_back_exactly(text, by_character):
    ids = by_character.encode(text)
    assert by_character.decode(ids) == text
    assert len(ids) == len(text)


@pytest.fixture(scope="module")
def by_character() -> Tokenizer:
    return trained("char", normalize="none")


@pytest.mark.parametrize("kind", ["char", "word"])
def test_no_text_spells_the_unknown_token(kind):
    tokenizer = trained(kind, lines=["< unk > <unk> k"])
    name = tokenizer.tokens[tokenizer.unknown]
    assert tokenizer.unknown not in tokenizer.encode(f"{name} k")
    assert tokenizer.encode("Ω" if kind == "char" else "Omega") == [tokenizer.unknown]


@pytest.mark.parametrize("kind", [*COVERING, "char", "word"])
def test_control_tokens_are_named_once_more_at_most_and_skipped_in_decoding(kind):
    tokenizer = trained(kind, lines=["<pad> <bos> <eos> a b"])
    assert tokenizer.tokens[:3] == ("<pad>", "<bos>", "<eos>")
    ids = tokenizer.encode("<pad> <eos> a")
    assert not {PAD, BOS, EOS} & set(ids)
    assert tokenizer.decode([BOS, *ids, EOS, PAD, PAD]) == "<pad> <eos> a"


def test_an_id_beyond_the_vocabulary_is_an_index_error():
    tokenizer = trained("byte")
    assert len(tokenizer) == len(tokenizer.tokens) == 259
    for number in (259, -100):
        with pytest.raises(IndexError):
            tokenizer.decode([65, number])


def test_byte_ids_are_the_bytes_plus_three():
    assert trained("byte").encode("aß\n") == [byte + 3 for byte in "aß\n".encode()]


def test_half_a_character_of_bytes_decodes_to_a_replacement():
    tokenizer = trained("byte")
    assert tokenizer.decode(tokenizer.encode("aß")[:2]) == "a\ufffd"


def test_half_a_surrogate_pair_is_refused():
    with pytest.raises(UserError, match=r"'b\\ud83d' holds half a surrogate pair"):
        trained("bpe").encode_batch(["a", "b\ud83d"])


@pytest.mark.parametrize("kind", [*COVERING, "char", "word"])
def test_the_joiner_puts_a_space_between_two_texts(kind):
    tokenizer = trained(kind)
    ids = [*tokenizer.encode("the cat"), *tokenizer.joiner, *tokenizer.encode("the dog")]
    assert tokenizer.decode(ids) == "the cat the dog"


def test_characters_without_a_space_have_no_joiner():
    assert trained("char", lines=["中文没有空格"]).joiner == ()


@pytest.mark.parametrize("kind", [*COVERING, "char", "word"])
def test_restored_and_pickled_tokenizers_are_the_same(kind):
    tokenizer = trained(kind)
    for copy in (Tokenizer(tokenizer.json), pickle.loads(pickle.dumps(tokenizer))):
        assert copy.json == tokenizer.json
        assert copy.tokens == tokenizer.tokens
        assert (copy.unknown, copy.joiner) == (tokenizer.unknown, tokenizer.joiner)
        assert copy.encode_batch(AWKWARD) == tokenizer.encode_batch(AWKWARD) == [tokenizer.encode(t) for t in AWKWARD]


def test_a_word_is_one_token_with_its_marks_wherever_it_stands():
    tokenizer = trained("bpe", size=2000)
    for word in ("नमस्ते", "cat"):
        assert len(tokenizer.encode(word)) == 1
        assert tokenizer.encode(f"the {word}")[-1:] == tokenizer.encode(word)


def test_words_are_kept_by_frequency_and_ties_by_code_point():
    tokenizer = trained("word", lines=["b a c", "d b", "e"], size=7)
    assert tokenizer.tokens == ("<pad>", "<bos>", "<eos>", "< unk >", "b", "a", "c")
    assert trained("word", lines=["b a b"], min_frequency=2).tokens[4:] == ("b",)


def test_words_part_at_ascii_space_only():
    tokenizer = trained("word", lines=["10\u00a0km  is\tfar"])
    assert tokenizer.tokens[4:] == ("10\u00a0km", "far", "is")
    assert tokenizer.decode(tokenizer.encode("  10\u00a0km is far ")) == "10\u00a0km is far"


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"kind": "bpe", "size": 258}, "size=258 is too small for kind=bpe, which needs 259"),
        ({"kind": "word", "size": 4}, "needs 5"),
        ({"kind": "wordpiece"}, "kind='wordpiece' must be one of bpe, unigram"),
        ({"normalize": "NFC"}, "must be one of nfc, nfd"),
        ({"min_frequency": 0}, "must be at least 1"),
        ({"kind": "unigram", "min_frequency": 2}, "does nothing for kind=unigram"),
        ({"target_file": "a.json"}, "needs `file`"),
        ({"file": "b.json", "target_file": "a.json"}, "needs joint=false"),
    ],
)
def test_options_that_break_a_rule(options, part):
    with pytest.raises(OptionError) as caught:
        TokenizerOptions(**options)
    assert part in str(caught.value)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "word", "char"])
@pytest.mark.parametrize("lines", [[], ["", ""]])
def test_no_text_to_train_on_is_said(kind, lines):
    with pytest.raises(UserError, match="no text to train a tokenizer on"):
        trained(kind, lines=lines)


@pytest.mark.parametrize(("lines", "options"), [(["   "], {}), (["a b a"], {"min_frequency": 3})])
def test_words_that_are_all_unknown_are_refused(lines, options):
    with pytest.raises(UserError, match="no word of the text occurs"):
        trained("word", lines=lines, **options)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "word", "char"])
def test_a_vocabulary_smaller_than_asked_for_is_said_once(kind, caplog):
    with caplog.at_level("INFO", "relformer"):
        tokenizer = trained(kind, lines=["a b"], size=5000)
    size = len(tokenizer)
    said = f"the text has only {size} of the 5000 tokens of tokenizer.size for a vocabulary of kind {kind}"
    assert [record.getMessage() for record in caplog.records] == [said]


def test_long_words_and_huge_vocabularies_are_warned_of(caplog):
    trained("word", lines=["文" * 101 + " a"])
    assert "1 'words' have more than 100 characters, the longest 101" in caplog.text
    caplog.clear()
    trained("word", lines=[" ".join(map(str, range(50_001)))], size=60_000)
    assert "a vocabulary of 50001 words" in caplog.text


def test_words_without_a_token_are_reported(caplog):
    with caplog.at_level("INFO", "relformer"):
        trained("word", lines=["a a a b"], size=5)
    assert "1 of the text's 2 words have a token, 75.00 % of its running words" in caplog.text


# Training and encoding on all cores, in a parent and then in its fork.


def _encode_in_child(tokenizer: Tokenizer, connection) -> None:
    connection.send(tokenizer.encode_batch(LINES * 50))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_encodes_after_its_parent_did():
    tokenizer = trained("bpe")
    expected = tokenizer.encode_batch(LINES * 50)
    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe()
    child = fork.Process(target=_encode_in_child, args=(tokenizer, there))
    child.start()
    try:
        assert here.poll(30), "the forked process hangs"
        assert here.recv() == expected
    finally:
        child.kill()
        child.join()
    assert tokenizer.encode_batch(LINES * 50) == expected


# Tokenizers from elsewhere.
