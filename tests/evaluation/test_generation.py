"""Decoded sets: exact match is that of the teacher-forced pass, lengths are compared, limits counted, all ranks
gathered."""

from dataclasses import replace

import pytest
import torch

from relformer.data.batching import Batches, Plan
from relformer.data.encoded import EncodedSet
from relformer.data.text.tokenizer import TokenizerOptions, train_tokenizer
from relformer.data.vocabulary import EOS, PAD
from relformer.decoding import DecodingOptions
from relformer.evaluation.generation import Generator, Output, gathered, generation_figures
from relformer.evaluation.outcomes import COLUMNS, judge
from tests.decoding.trained import corpus, trained


@pytest.mark.parametrize("name", ["test_iid", "test_longer"])
def test_free_exact_match_is_that_of_one_teacher_forced_pass(name: str) -> None:
    model, examples = trained("rope"), corpus().sets[name]
    batch = Batches(examples)[Plan(tuple(range(len(examples))))]
    generator = Generator(DecodingOptions(), 7)
    outputs = generator.outputs(model, batch.source, batch.index.tolist(), None)
    with torch.no_grad():
        rows = judge(model(batch.source, batch.target), batch.labels, batch.index, batch.index, PAD, EOS)
    found = generation_figures(outputs, examples, corpus().target_vocabulary)
    assert found["exact_match"] == pytest.approx(float(rows[:, COLUMNS.index("exact_match")].mean()))
    assert sum(found["length_difference"].values()) == found["n"] == len(examples)
    assert "bleu" not in found
    if name == "test_iid":
        assert 0.1 < found["exact_match"] < 1


def test_no_output_is_longer_than_the_limit_and_those_that_reach_it_are_counted() -> None:
    model, examples = trained("rope"), corpus().sets["test_longer"]
    batch = Batches(examples)[Plan((0, 1, 2, 3))]
    options = DecodingOptions(max_length_base=2, max_length_factor=0.0)
    sentences = Generator(options, None).outputs(model, batch.source, [0, -1, 2, 3], None)
    assert [output.index for output in sentences] == [0, 2, 3]
    assert all(len(output.tokens) == 2 and output.reached_limit for output in sentences)
    assert generation_figures(sentences, examples, corpus().target_vocabulary)["reached_limit"] == 3
    late = Generator(replace(options, min_length_base=17), 7).outputs(model, batch.source, [0, 1, 2, 3], None)
    assert all(
        len(output.tokens) + (not output.reached_limit) == 17 for output in late
    )  # EOS is the last at the earliest


def test_a_table_bounds_what_is_written() -> None:
    from relformer.model import build_model

    config = {"seed": 0, "model": {"width": 16, "heads": 2}, "encoding": {"name": "learned", "max_length": 9}}
    model = build_model(config, 13, 13).eval()
    found = Generator(DecodingOptions(min_length_base=50), 50).outputs(model, torch.tensor([[1, 4, 2]]), [0], None)
    assert len(found[0].tokens) + (not found[0].reached_limit) == 9


def test_each_example_once_in_the_order_of_the_set() -> None:
    found = [Output(3, [5], False), Output(0, [4], False), Output(3, [5], False)]
    assert [output.index for output in gathered(found)] == [0, 3]


def test_text_is_scored_against_what_was_written_not_against_its_ids() -> None:
    """An unknown word is no match for another unknown word."""
    coder = train_tokenizer(["one two three"], TokenizerOptions(kind="word"), progress=False)
    assert coder.unknown is not None
    targets = [coder.encode("one two three seven"), coder.encode("three two one nine")]
    examples = EncodedSet(targets, targets, references=["one two three seven", "three two one nine"])
    outputs = [Output(n, list(ids), False) for n, ids in enumerate(targets)]
    found = generation_figures(outputs, examples, coder, bootstrap=0)
    assert found["exact_match"] == 1 and found["bleu"]["score"] < 80
    blind = EncodedSet(targets, targets)
    assert generation_figures(outputs, blind, coder, bootstrap=0)["bleu"]["score"] == pytest.approx(100)


def test_text_is_tokenised_for_bleu_as_told() -> None:
    coder = train_tokenizer(["one two three four ."], TokenizerOptions(kind="word"), progress=False)
    ids = [coder.encode("one two three four .")]
    examples = EncodedSet(ids, ids, references=["one two three four."])
    for tokenize, score in (("13a", 100.0), ("none", 100 * (3 / 5 * 2 / 4 * 1 / 3 * 1 / 4) ** 0.25)):
        found = generation_figures([Output(0, list(ids[0]), False)], examples, coder, None, 0, tokenize)["bleu"]
        assert found["score"] == pytest.approx(score, abs=0.01) and f"tok:{tokenize}" in found["signature"]
