"""What may not come next: lengths, prefixes, repeated n-grams; and what is refused before decoding."""

from collections import Counter
from itertools import chain, pairwise
from typing import Any

import pytest
import torch

from relformer.decoding import DecodingOptions, decode
from relformer.decoding.constraints import Constraints, repeating
from relformer.decoding.hypothesis import Draft
from relformer.encodings import LengthError
from relformer.errors import UserError
from tests.decoding.reference import Allowed, same, slow_beam_search, unpadded
from tests.model.models import BOS, PAD, PLACES, batch, build

EOS = 2
PREFIX = torch.tensor([[5, 6, 5], [7, PAD, PAD], [PAD, PAD, PAD]])
KINDS: list[dict[str, Any]] = [{}, {"beams": 3, "n_best": 3}, {"sample": True, "n_best": 3}]


def model_of(place: str) -> Any:
    return build(place, model={"tie": "none"})


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_targets_keep_their_limits(kind: dict[str, Any]) -> None:
    """Of tokens, EOS among them: 3 + half the source at least, 4 + half the source at most."""
    options = DecodingOptions(
        min_length_base=3, min_length_factor=0.5, max_length_base=4, max_length_factor=0.5, **kind
    )
    ends = set()
    for place in PLACES[::6]:
        for length, found in zip([9, 7, 4], decode(model_of(place), batch()[0], options, BOS, EOS), strict=True):
            for h in found:
                tokens = len(h.tokens) + (not h.reached_limit)
                assert 3 + length // 2 <= tokens <= 4 + length // 2
                assert not h.reached_limit or tokens == 4 + length // 2
                assert EOS not in h.tokens
                ends.add((h.reached_limit, tokens == 4 + length // 2))
    assert ends == {(False, False), (False, True), (True, True)}


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_ngram_comes_twice(kind: dict[str, Any], size: int) -> None:
    repeated = False
    for place in PLACES[::9]:
        for ngram in (0, size):
            options = DecodingOptions(no_repeat_ngram=ngram, max_length_base=11, max_length_factor=0, **kind)
            for h in chain(*decode(model_of(place), batch()[0], options, BOS, EOS)):
                grams = Counter(zip(*(h.tokens[start:] for start in range(size)), strict=False))
                most = max(grams.values(), default=1)
                assert not ngram or most == 1
                repeated = repeated or most > 1
    assert repeated


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_targets_begin_with_their_prefix(kind: dict[str, Any]) -> None:
    options = DecodingOptions(no_repeat_ngram=1, max_length_base=4, max_length_factor=1, **kind)
    for place in PLACES[::6]:
        model, (source, _) = model_of(place), batch()
        found = decode(model, source, options, BOS, EOS, PREFIX)
        for row, each in zip(PREFIX.tolist(), found, strict=True):
            forced = [token for token in row if token != PAD]
            assert all(h.tokens[: len(forced)] == forced for h in each)
        same(found[2:], decode(model, source[2:], options, BOS, EOS))


@pytest.mark.parametrize("place", ["t5", "rope@cross", "transformer_xl"])
def test_constrained_search_is_the_slow_one(place: str) -> None:
    model, (source, _) = model_of(place), batch()
    options = DecodingOptions(
        beams=4, n_best=4, no_repeat_ngram=2, min_length_base=5, max_length_base=10, max_length_factor=0
    )

    def rule(prefix: list[int]) -> Allowed:
        def allowed(tokens: list[int], token: int) -> bool:
            at = len(tokens)
            if at < len(prefix):
                return token == prefix[at]
            pairs = list(pairwise(tokens))
            return not (token == EOS and at + 1 < 5) and not (tokens and (tokens[-1], token) in pairs)

        return allowed

    prefixes = [[token for token in row if token != PAD] for row in PREFIX.tolist()]
    slow = [
        slow_beam_search(model, row, options, 10, EOS, rule(prefix))
        for row, prefix in zip(unpadded(source), prefixes, strict=True)
    ]
    same(decode(model, source, options, BOS, EOS, PREFIX), slow)


def test_a_prefix_may_fill_the_target() -> None:
    options = DecodingOptions(max_length_base=3, max_length_factor=0)
    (found, *_) = decode(model_of("t5"), batch()[0], options, BOS, EOS, PREFIX)[0]
    assert found.tokens == [5, 6, 5]
    assert found.reached_limit


def test_the_ends_of_repeated_ngrams() -> None:
    tokens = [4, 5, 4, 6, 4]
    assert repeating(tokens, 1) == {4, 5, 6}
    assert repeating(tokens, 2) == {5, 6}
    assert repeating(tokens, 3) == set()
    assert repeating([4, 5, 6, 4, 5], 3) == {6}
    assert repeating([], 2) == repeating([4], 3) == set()


def test_a_row_always_has_a_choice() -> None:
    """Three tokens, two of which came: the end may come early, and without an end a token may come again."""
    logits = torch.zeros(1, 3)
    for eos, expected in ((2, [False, False, True]), (-1, [True, True, True])):
        tokens = [0, 1] if eos == 2 else [0, 1, 2]
        allowed = Constraints([9], [[]], 1, eos).applied(logits, [Draft(tokens, 0.0)], [0])
        assert allowed[0].isfinite().tolist() == expected
    assert (logits == 0).all()


def test_targets_beyond_a_table_are_refused_before_decoding() -> None:
    model, (source, _) = build("learned"), batch()
    decode(model, source, DecodingOptions(max_length_base=24, max_length_factor=0), BOS, EOS)
    with pytest.raises(LengthError, match=r"target has 25 positions.*encoding\.max_length=24") as error:
        decode(model, source, DecodingOptions(max_length_base=7, max_length_factor=2), BOS, EOS)
    assert "7 + 2 * source length tokens: decoding.max_length_base, decoding.max_length_factor" in str(error.value)
    with pytest.raises(LengthError, match="source has 25 positions"):
        decode(model, source.repeat(1, 3)[:, :25], DecodingOptions(max_length_factor=0), BOS, EOS)
    crossed = build("tupe_a@cross", max_length=12)
    crossed.encoder.slot, crossed.decoder.slot = (build("none").slots[role] for role in ("encoder", "decoder"))
    with pytest.raises(LengthError, match=r"target has 13 positions.*cross_encoding\.max_length=12"):
        decode(crossed, source, DecodingOptions(max_length_base=13, max_length_factor=0), BOS, EOS)


@pytest.mark.parametrize(
    ("options", "prefix", "message"),
    [
        (
            {"min_length_base": 9, "max_length_base": 2, "max_length_factor": 1},
            None,
            r"of 4 tokens.*at least 9.*most 6",
        ),
        ({"max_length_base": 0, "max_length_factor": 0.2}, None, "allow no token for a source of 4"),
        ({"max_length_base": 2, "max_length_factor": 0}, PREFIX, "prefix of 3 tokens exceeds the 2"),
        ({}, torch.full((3, 1), EOS), "contains EOS"),
    ],
)
def test_contradictions_are_refused(options: dict[str, Any], prefix: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        decode(model_of("t5"), batch()[0], DecodingOptions(**options), BOS, EOS, prefix)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beams": 0}, r"decoding\.beams=0 must be at least 1"),
        ({"n_best": 2}, r"decoding\.n_best=2 exceeds decoding\.beams=1"),
        ({"sample": True, "beams": 2}, r"decoding\.beams=2 can't be searched while sampling"),
        ({"top_p": 0.5}, r"decoding\.top_p=0\.5 acts on sampling alone; set decoding\.sample=true"),
        ({"temperature": 0.5}, r"decoding\.temperature=0\.5 acts on sampling alone"),
        ({"sample": True, "temperature": 0.0}, r"decoding\.temperature=0\.0 must be positive"),
        ({"sample": True, "top_k": 0}, r"decoding\.top_k=0 must be at least 1"),
        ({"sample": True, "top_p": 1.5}, r"decoding\.top_p=1\.5 must lie in \(0, 1\]"),
        ({"length_normalization": "gnmt"}, r"decoding\.length_normalization='gnmt' is not one of none, average, wu"),
        ({"max_length_factor": -1.0}, r"decoding\.max_length_factor=-1\.0 must be 0 or more"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        DecodingOptions(**options)


def test_nothing_to_decode() -> None:
    assert decode(model_of("t5"), torch.empty(0, 4, dtype=torch.long), DecodingOptions(), BOS, EOS) == []
