"""Sources in another order: what is changed, and that a bag of tokens doesn't mind while positions do."""

import numpy as np
import pytest

from relformer.data.batching import Frame
from relformer.data.encoded import EncodedSet
from relformer.evaluation.word_order import changes, order_effects
from tests.model.models import SOURCES, TARGETS, build

CHANGES = changes([1, 3])


def sources(n: int = 60) -> list[list[int]]:
    generator = np.random.default_rng(0)
    return [generator.integers(3, SOURCES, int(generator.integers(0, 9))).tolist() for _ in range(n)]


def examples() -> EncodedSet:
    generator = np.random.default_rng(1)
    return EncodedSet(sources(), [generator.integers(3, TARGETS, len(s) + 1).tolist() for s in sources()])


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_keeps_the_tokens_and_is_one(name: str) -> None:
    generator = np.random.default_rng(2)
    applied = 0
    for tokens in sources():
        before, order = list(tokens), CHANGES[name](tokens, generator)
        assert tokens == before
        if order is None:
            continue
        applied += 1
        assert sorted(order) == sorted(tokens) and order != tokens
        if name.startswith("swapped"):
            apart = [i for i, (a, b) in enumerate(zip(order, tokens, strict=True)) if a != b]
            assert len(apart) == 2 and apart[1] - apart[0] == int(name[-1])
        elif name == "reversed":
            assert order == tokens[::-1]
    assert applied > 20


@pytest.mark.parametrize(
    ("tokens", "applies"),
    [
        ([], []),
        ([5], []),
        ([5, 5], []),
        ([5, 6], ["shuffled", "reversed", "swapped at distance 1"]),
        ([5, 6, 5], ["shuffled", "swapped at distance 1"]),
        ([5, 6, 7, 5], ["shuffled", "reversed", "swapped at distance 1"]),
        ([5, 6, 7, 8], list(CHANGES)),
    ],
)
def test_what_can_not_change_is_not_counted(tokens: list[int], applies: list[str]) -> None:
    found = [name for name, change in CHANGES.items() if change(tokens, np.random.default_rng(0)) is not None]
    assert found == applies


def test_without_positions_order_is_nothing() -> None:
    found = list(order_effects(build("none"), examples(), Frame(), [1, 3], most=60))
    assert [each.change for each in found] == list(CHANGES)
    for each in found:
        assert each.loss_after == pytest.approx(each.loss_before, abs=1e-5)
        assert each.changed_tokens == 0 and each.divergence == pytest.approx(0, abs=1e-6)
        assert each.exact_after == each.exact_before


@pytest.mark.parametrize("place", ["sinusoidal", "rope", "shaw", "randomized"])
def test_with_positions_it_is_something(place: str) -> None:
    found = {each.change: each for each in order_effects(build(place), examples(), Frame(), [1], most=60)}
    for each in found.values():
        assert each.divergence > 1e-4 and each.loss_after != each.loss_before
        assert 0 <= each.changed_tokens <= 1
    assert found["shuffled"].divergence > found["swapped at distance 1"].divergence


def test_as_many_examples_as_asked_and_the_same_again() -> None:
    def found(most: int) -> list[object]:
        return list(order_effects(build("rope"), examples(), Frame(), [1], most))

    assert found(25) == found(25) and found(25) != found(60)
    applicable = [s for s in sources()[:25] if len(set(s)) > 1]
    assert found(25)[0].n == len(applicable)  # type: ignore[attr-defined]
