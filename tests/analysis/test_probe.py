"""Probes hold the training unigrams at every position alike, and fit what a model can place."""

import numpy as np
import pytest
import torch

from relformer.analysis.measurement import LONGEST, Measurer
from relformer.analysis.probe import draw_probe, fitting, unigrams
from relformer.data.batching import Frame
from relformer.data.encoded import Corpus, EncodedSet
from relformer.data.vocabulary import BOS, EOS, Vocabulary
from tests.model.models import build


def corpus(longest: int = 4) -> Corpus:
    """Source tokens 3, 4, 5 of which 3 is half; targets of 6 alone."""
    sources = [[3] * longest, [4, 5, 4, 5]] * 10
    examples = EncodedSet(sources, [[6, 6]] * 20)
    return Corpus(Vocabulary("abcd"), Vocabulary("abcd"), {"train": examples})


def test_unigrams_are_counted() -> None:
    np.testing.assert_allclose(unigrams(corpus().sets["train"], "source", 7), [0, 0, 0, 0.5, 0.25, 0.25, 0])


def test_every_position_holds_the_same_tokens() -> None:
    probe = draw_probe(corpus(), 11, 16)
    assert probe.source.shape == probe.target.shape == (16, 11)
    for half in probe.source.chunk(2):
        columns = half.sort(0).values
        assert (columns == columns[:, :1]).all()
        assert columns[:, 0].tolist() == [3, 3, 3, 3, 4, 4, 5, 5]
        assert len(half.T.unique(dim=0)) > 8  # in orders of their own
    assert (probe.target == 6).all()
    assert torch.equal(draw_probe(corpus(), 11, 16).source, probe.source)
    assert not torch.equal(draw_probe(corpus(), 11, 16, seed=1).source, probe.source)


def test_frames() -> None:
    framed = draw_probe(corpus(), 5, 8).framed(True, 3)
    assert framed.source[:, 0].tolist() == framed.target[:, 0].tolist() == [BOS] * 3
    assert framed.source[:, -1].tolist() == [EOS] * 3
    assert (framed.target[:, -1] == 6).all()
    assert (draw_probe(corpus(), 5, 8).framed(False, 3).source[:, 0] > EOS).all()


@pytest.mark.parametrize(("name", "wanted", "expected"), [("learned", 60, 24), ("t5", 60, 60), ("learned", 9, 9)])
def test_lengths_that_a_model_can_place(name: str, wanted: int, expected: int) -> None:
    assert fitting(build(name), wanted) == expected


def test_samplers_that_end_sooner_in_evaluation() -> None:
    assert fitting(build("randomized", max_position=64, eval_length=16).train(), 60) == 16


def test_twice_the_trained_length_within_bounds() -> None:
    """Four tokens with BOS and EOS are six positions, five apart at most."""
    measurer = Measurer(build("t5"), corpus(), Frame())
    assert measurer.trained == {"encoder": 5, "decoder": 2, "cross": 5}
    assert measurer.probe.source.shape[1] == 11 and measurer.probe.target.shape[1] == 5
    assert measurer.usual.source.shape[1] == 6 and measurer.usual.target.shape[1] == 3
    assert measurer.usual.source[:, -1].tolist() == [EOS] * len(measurer.usual.source)
    long = Measurer(build("t5"), corpus(longest=500), Frame())
    assert long.probe.source.shape[1] == LONGEST and long.probe.target.shape[1] == 5


def test_sides_of_other_lengths_are_measured_apart() -> None:
    """A table in cross-attention comes back over queries and keys of unlike number."""
    measurer = Measurer(build("t5@cross"), corpus(), Frame())
    found = measurer.measure(build("t5@cross"))
    part = found.parts["cross"]
    assert part.maps.shape[-2:] == (5, 11) and part.profile.shape[-1] == part.distance.size == 15
    assert (part.distance[0], part.distance[-1]) == (-10, 4)
    assert part.table is not None and part.table.shape[-1] == 15
    assert [len(heads) for heads in found.heads["cross"]] == [3, 3]
    assert all(np.isfinite(value) for head in found.heads["cross"][0] for value in head.numbers().values())
