"""What became of each example, against a loop over its tokens; the figures are sums and means of just that."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from relformer.data.vocabulary import EOS, PAD
from relformer.evaluation.gathered import Outcomes
from relformer.evaluation.outcomes import COLUMNS, judge
from relformer.evaluation.summary import bucket_edges, bucketed, figures, length_label, summarise, wilson

VOCABULARY = 6


def drawn(rows: int = 200, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Logits (B, T, V) that are right three times in four, and padded labels (B, T) of 0 to 5 tokens and EOS."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(0, 6, (rows,), generator=generator)
    labels = torch.randint(3, VOCABULARY, (rows, 6), generator=generator)
    place = torch.arange(6)
    labels[place == lengths[:, None]] = EOS
    labels[place > lengths[:, None]] = PAD
    logits = torch.randn(rows, 6, VOCABULARY, generator=generator)
    push = torch.rand(rows, 6, generator=generator) < 0.75
    logits.scatter_add_(2, labels[..., None], 5.0 * push[..., None])
    return logits, labels


def one_by_one(logits: list[list[float]], labels: list[int]) -> dict[str, float]:
    """The definitions, in words of one token."""
    real = labels[: labels.index(EOS) + 1]
    free, oracle, correct, first_error, loss = True, True, 0, None, 0.0
    for place, label in enumerate(real):
        scores = logits[place]
        best = max(range(len(scores)), key=lambda token: scores[token])
        loss += math.log(sum(math.exp(score) for score in scores)) - scores[label]
        if best == label:
            correct += 1
        else:
            free = False
            first_error = place if first_error is None else first_error
        if label != EOS:
            tokens = [token for token in range(len(scores)) if token != EOS]
            oracle = oracle and max(tokens, key=lambda token: scores[token]) == label
    return {
        "target_length": len(real) - 1,
        "labels": len(real),
        "exact_match": float(free),
        "exact_match_oracle_eos": float(oracle),
        "first_error": len(real) if first_error is None else first_error,
        "correct_tokens": correct,
        "loss": loss,
    }


def judged(logits: Tensor, labels: Tensor) -> list[dict[str, float]]:
    index = torch.arange(len(labels)).flip(0)
    rows = judge(logits, labels, index, index % 7, PAD, EOS)
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows.tolist()]


def test_judging_is_the_loop_over_tokens() -> None:
    logits, labels = drawn()
    rows = judged(logits, labels)
    for number, row in enumerate(rows):
        expected = one_by_one(logits[number].tolist(), labels[number].tolist())
        assert row["index"] == 199 - number and row["source_length"] == (199 - number) % 7
        assert row == pytest.approx({**row, **expected}, abs=1e-4)
    for form in ("exact_match", "exact_match_oracle_eos"):
        assert 20 < sum(row[form] for row in rows) < 180
    assert all(row["exact_match_oracle_eos"] >= row["exact_match"] for row in rows)
    assert any(row["exact_match_oracle_eos"] > row["exact_match"] for row in rows)


def test_without_eos_there_is_one_exact_match() -> None:
    logits, labels = drawn()
    tokens = labels.masked_fill(labels == EOS, PAD)
    rows, with_eos = judged(logits, tokens), judged(logits, labels)
    for row, other in zip(rows, with_eos, strict=True):
        assert row["labels"] == row["target_length"] == other["target_length"]
        assert row["exact_match_oracle_eos"] == other["exact_match_oracle_eos"] >= row["exact_match"]


def test_padding_does_not_count() -> None:
    logits, labels = drawn()
    wider = torch.nn.functional.pad(labels, (0, 3), value=PAD)
    for noise in (0.0, 50.0):
        more = torch.cat([logits, torch.randn(200, 3, VOCABULARY) * noise], dim=1)
        torch.testing.assert_close(judged(more, wider), judged(logits, labels), rtol=1e-5, atol=1e-5)


def test_judging_leaves_its_arguments_alone() -> None:
    logits, labels = drawn()
    before = logits.clone()
    judged(logits, labels)
    assert torch.equal(logits, before)


def test_gathering_drops_fillers_and_sorts() -> None:
    logits, labels = drawn(30)
    index = torch.randperm(30, generator=torch.Generator().manual_seed(1))
    index[4] = -1
    metric = Outcomes()
    rows = judge(logits, labels, index, index, PAD, EOS)
    for part in rows.split([7, 7, 1, 15]):
        metric.update(part)
    found = metric.compute()
    assert found.dtype == torch.float64
    assert found[:, 0].tolist() == sorted(set(index.tolist()) - {-1})
    assert sorted(found[:, -1].tolist()) == sorted(rows[index >= 0][:, -1].tolist())


@pytest.mark.parametrize(
    ("share", "n", "low", "high"),
    [
        (0.0, 10, 0.0, 0.27753),
        (1.0, 10, 0.72247, 1.0),
        (0.5, 10, 0.23659, 0.76341),
        (81 / 263, 263, 0.25529, 0.36621),
        (15 / 148, 148, 0.06239, 0.16047),
        (1 / 29, 29, 0.00611, 0.17176),
    ],
)
def test_wilson(share: float, n: int, low: float, high: float) -> None:
    """The last three are method 3 in table I of Newcombe (1998), Statistics in Medicine 17, which has four decimals."""
    assert wilson(share, n) == pytest.approx((low, high), abs=5e-5)


def rows_of(lengths: list[int], seed: int = 0) -> Tensor:
    """Outcomes of invented examples with these target lengths."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.zeros(len(lengths), len(COLUMNS), dtype=torch.float64)
    for number, length in enumerate(lengths):
        first = int(torch.randint(0, length + 2, (), generator=generator))
        exact = first == length + 1
        oracle = exact or bool(torch.rand((), generator=generator) < 0.3)
        correct = first + (0 if exact else int(torch.randint(0, length + 1 - first, (), generator=generator)))
        loss = float(torch.rand((), generator=generator)) * length
        values = (number, length, length, length + 1, exact, oracle, first, correct, loss)
        rows[number] = torch.tensor(values, dtype=torch.float64)
    return rows


def test_figures_are_means_over_examples_or_tokens() -> None:
    lengths = [1, 1, 2, 5, 5, 9, 9, 9]
    rows = rows_of(lengths)
    found = figures(rows)
    column = {name: rows[:, place].tolist() for place, name in enumerate(COLUMNS)}
    labels = [length + 1 for length in lengths]
    mean = {name: sum(values) / 8 for name, values in column.items()}
    assert found["n"] == 8
    assert found["exact_match"] == mean["exact_match"]
    assert found["exact_match_oracle_eos"] == mean["exact_match_oracle_eos"]
    prefix = sum(first / of for first, of in zip(column["first_error"], labels, strict=True)) / 8
    assert found["correct_prefix"] == pytest.approx(prefix)
    assert found["token_accuracy"] == pytest.approx(sum(column["correct_tokens"]) / sum(labels))
    assert found["loss"] == pytest.approx(sum(column["loss"]) / sum(labels))
    assert (found["exact_match_low"], found["exact_match_high"]) == wilson(found["exact_match"], 8)


def combined(parts: list[dict[str, Any]], key: str) -> float:
    return sum(part[key] * part["n"] for part in parts) / sum(part["n"] for part in parts)


@pytest.mark.parametrize("most", [1, 3, 12, 100])
@pytest.mark.parametrize("lengths", [[3] * 5, list(range(1, 11)) * 3, [*range(13, 61), 24, 24], [0, 5, 40]])
def test_buckets_are_a_partition(lengths: list[int], most: int) -> None:
    rows = rows_of(lengths)
    whole = summarise(rows)
    for buckets in (bucketed(rows, most=most), whole["by_length"]):
        assert sum(bucket["n"] for bucket in buckets) == len(lengths)
        assert [b["min_length"] for b in buckets] == sorted(b["min_length"] for b in buckets)
        for bucket in buckets:
            inside = [length for length in lengths if bucket["min_length"] <= length <= bucket["max_length"]]
            assert len(inside) == bucket["n"]
            assert (min(inside), max(inside)) == (bucket["min_length"], bucket["max_length"])
        for key in ("exact_match", "exact_match_oracle_eos", "correct_prefix"):
            assert combined(buckets, key) == pytest.approx(whole[key])
    assert len(bucketed(rows, most=most)) <= most
    assert [bucket["min_length"] for bucket in whole["by_length"]] == sorted(set(lengths))


def test_label_of_a_bucket() -> None:
    assert length_label({"min_length": 3, "max_length": 3}) == "3"
    assert length_label({"min_length": 3, "max_length": 5}) == "3-5"


def test_no_bucket_reaches_beyond_the_longest() -> None:
    """Of 1 to 26 in nine buckets of three the last has two."""
    edges = bucket_edges(range(1, 27))
    assert edges[0] == (1, 3) and edges[-1] == (25, 26)
    assert [n for low, high in edges for n in range(low, high + 1)] == list(range(1, 27))
