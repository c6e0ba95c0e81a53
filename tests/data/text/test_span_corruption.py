"""T5's span corruption: counts by its formulas, cuts all equally likely, and nothing lost."""

import random
from itertools import combinations, pairwise

import pytest

from relformer.data.text.span_corruption import SpanCorruption, corrupt, lengths, longest, restore
from relformer.errors import OptionError, UserError

T5 = SpanCorruption()
SENTINELS = range(20_099, 19_999, -1)
"""As in T5: from the top of a vocabulary of 20,100 down."""
OTHERS = [T5, SpanCorruption(0.5, 1.0), SpanCorruption(0.9, 1.0), SpanCorruption(0.15, 8.0), SpanCorruption(0.02, 3.0)]


def spans_of(target: list[int]) -> list[list[int]]:
    spans: list[list[int]] = []
    for number in target:
        if number in SENTINELS:
            spans.append([])
        else:
            spans[-1].append(number)
    return spans


@pytest.mark.parametrize("options", OTHERS)
def test_nothing_is_lost_and_counts_follow_the_formulas(options):
    rng = random.Random(1)
    for number in range(1000):
        length = number + 1 if number < 40 else rng.randint(1, min(longest(options), 600))
        # Repeated tokens, so that a wrong place is not excused by a right multiset, nor found by value alone.
        text = rng.choices(range(3, 40), k=length)
        source, target = corrupt(text, rng, options, SENTINELS)
        assert restore(source, target, SENTINELS) == text
        assert (len(source), len(target)) == lengths(length, options)
        if length == 1:
            assert (source, target) == (text, [])
            continue
        noise = min(max(round(options.noise_share * length), 1), length - 1)
        spans = spans_of(target)
        assert sum(map(len, spans)) == noise
        assert all(spans)
        if options.noise_share < 0.5:
            assert len(spans) == max(1, round(noise / options.mean_span))
        assert source[0] == text[0]
        assert source[-1] in SENTINELS
        assert all(not (a in SENTINELS and b in SENTINELS) for a, b in pairwise(source)), "two spans touch"
        used = [number for number in source if number in SENTINELS]
        assert used == list(SENTINELS[: len(spans)]) == [number for number in target if number in SENTINELS]


def test_t5_s_lengths():
    """Raw length 568 fills an input of 512 and a target of 114 with their ends of sequence; 569 would not fit."""
    assert lengths(568, T5) == (512 - 1, 114 - 1)
    assert lengths(569, T5)[0] > 512 - 1


def test_halves_round_to_even_as_numpy_does():
    """0.5 * 5 = 2.5 gives 2 tokens of noise, 0.5 * 7 = 3.5 gives 4; 5 / 2 = 2.5 gives 2 spans."""
    options = SpanCorruption(0.5, 2.0)
    assert lengths(5, options) == (3 + 1, 2 + 1)
    assert lengths(7, options) == (3 + 2, 4 + 2)
    assert lengths(10, options) == (5 + 2, 5 + 2)


def test_the_smallest_texts():
    assert corrupt([7], random.Random(0), T5, SENTINELS) == ([7], [])
    assert corrupt([7, 8], random.Random(0), T5, SENTINELS) == ([7, SENTINELS[0]], [SENTINELS[0], 8])
    assert lengths(1, T5) == (1, 0)
    assert lengths(2, T5) == (2, 2)


def test_every_cut_is_equally_likely():
    """Length 8 with 4 tokens of noise in 2 spans: 3 cuts of the noise times 3 of the rest, each a ninth of draws."""
    options, text, draws = SpanCorruption(0.5, 2.0), list(range(3, 11)), 9000
    rng = random.Random(0)
    counts: dict[tuple[int, ...], int] = {}
    for _ in range(draws):
        source, _ = corrupt(text, rng, options, SENTINELS)
        counts[tuple(source)] = counts.get(tuple(source), 0) + 1
    assert len(counts) == 9
    # Five standard deviations of a binomial count: sqrt(9000 * 1/9 * 8/9) = 30.
    assert all(abs(count - draws / 9) < 150 for count in counts.values())


class Fixed(random.Random):
    """Draws given samples instead of random ones."""

    def __init__(self, *samples):
        super().__init__()
        self.samples = list(samples)

    def sample(self, population, k):
        drawn = self.samples.pop(0)
        assert len(drawn) == k
        assert set(drawn) <= set(population)
        return list(drawn)


def test_draws_and_texts_correspond_one_to_one():
    """So a uniform sample of cuts is a uniform choice of texts. Length 12: 6 of noise and 6 others in 3 parts each."""
    options, text = SpanCorruption(0.5, 2.0), list(range(3, 15))
    cuts = list(combinations(range(1, 6), 2))
    seen = {tuple(corrupt(text, Fixed(kept, hidden), options, SENTINELS)[0]) for kept in cuts for hidden in cuts}
    assert len(seen) == 100


def test_an_example_by_hand():
    """The sentence of the paper's figure 2: Thank you [for inviting] me to your party last [week]."""
    ids = list(range(3, 13))
    source, target = corrupt(ids, Fixed([2], [2]), SpanCorruption(0.3, 1.5), SENTINELS)
    assert source == [3, 4, SENTINELS[0], 7, 8, 9, 10, 11, SENTINELS[1]]
    assert target == [SENTINELS[0], 5, 6, SENTINELS[1], 12]


def test_the_same_generator_gives_the_same_corruption():
    text = list(range(3, 200))
    first, second, other = (corrupt(text, random.Random(seed), T5, SENTINELS) for seed in (5, 5, 6))
    assert first == second
    assert first != other


@pytest.mark.parametrize("options", [*OTHERS, SpanCorruption(sentinels=1), SpanCorruption(0.99, 1.0, 7)])
def test_the_longest_text_has_just_enough_sentinels(options):
    most = longest(options)
    sentinels = SENTINELS[: options.sentinels]
    source, target = corrupt(range(most), random.Random(0), options, sentinels)
    assert restore(source, target, sentinels) == list(range(most))
    with pytest.raises(UserError, match=f"a text of {most + 1} tokens has {options.sentinels + 1} spans of noise"):
        corrupt(range(most + 1), random.Random(0), options, sentinels)


def test_t5_s_hundred_sentinels_cover_two_thousand_tokens():
    assert longest(T5) == 2009


def test_a_sentinel_in_the_text_is_refused():
    with pytest.raises(UserError, match="holds the id of a sentinel"):
        corrupt([3, 4, SENTINELS[0]], random.Random(0), T5, SENTINELS)


@pytest.mark.parametrize(
    ("source", "target"), [([3, 100], [99, 4]), ([3, 100], [4, 100]), ([3, 100, 5, 99], [100, 4]), ([3], [100, 4])]
)
def test_parts_that_do_not_belong_together_are_not_restored(source, target):
    with pytest.raises(ValueError, match="sentinel"):
        restore(source, target, [100, 99])


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"noise_share": 0.0}, "noise_share=0.0 must lie between 0 and 1"),
        ({"noise_share": 1.0}, "noise_share=1.0"),
        ({"mean_span": 0.5}, "mean_span=0.5 must be at least 1 token"),
        ({"mean_span": float("nan")}, "mean_span=nan"),
        ({"sentinels": 0}, "sentinels=0"),
    ],
)
def test_options_that_break_a_rule(options, part):
    with pytest.raises(OptionError) as caught:
        SpanCorruption(**options)
    assert part in str(caught.value)
