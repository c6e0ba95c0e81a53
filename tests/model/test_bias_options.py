"""Options that change through which hook an encoding acts: the promises of the defaults hold for them too."""

from typing import Any

import pytest
import torch

from relformer.attention.sdpa import serves
from relformer.model import Seq2Seq
from tests.model.models import batch, build, check_cache, check_causal, check_padding, loss_of

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("t5@cross", {"untie_first": True}),
    ("t5@cross", {"num_buckets": 10, "exact_buckets": 2, "log_buckets": "article"}),
    ("alibi@cross", {"untie_first": True, "learned": True}),
    ("alibi@cross", {"form": "asymmetric"}),
    ("alibi@cross", {"form": "asymmetric", "learned": True, "biased_heads": 2}),
    ("simple_bias@cross", {"untie_first": True}),
    ("gated_bias@cross", {"gate": "content"}),
    ("gated_bias@cross", {"gate": "score", "scale": False}),
    ("gated_bias@cross", {"split": "distance_direction", "rank": 2}),
    ("kerple_log@cross", {"split": True}),
    ("kerple_power@cross", {"split": True}),
    ("dynamic_bias@cross", {"depth": 1, "log_distance": False}),
    ("fire@cross", {"signed": False}),
    ("tupe_a@cross", {"cls": True}),
    ("tupe_a@cross", {"terms": ["p2p"]}),
    ("tupe_r@cross", {"cls": True}),
    ("tupe_r@cross", {"terms": ["c2c"], "cls": True}),
    ("tupe_a@cross", {"share": "layer"}),
    ("forgetting", {"share": "stack", "gate_bias": 0.0}),
]


def silent(place: str, options: dict[str, Any], name: str) -> bool:
    """Parameters without any use: queries and keys where contents do not meet, and the norm before a query alone."""
    unread = ("attention.query.", "attention.key.", "cross_branch.norm.")
    return options.get("terms") == ["p2p"] and any(part in name for part in unread)


@pytest.mark.parametrize(("place", "options"), VARIANTS, ids=str)
def test_cache_padding_and_causality(place: str, options: dict[str, Any]) -> None:
    model = build(place, **options)
    check_cache(model)
    check_padding(model)
    if options.get("terms") != ["p2p"]:
        check_causal(model)


@pytest.mark.parametrize(("place", "options"), VARIANTS, ids=str)
def test_gradients_reach_every_parameter(place: str, options: dict[str, Any]) -> None:
    model = build(place, **options)
    loss_of(model, *batch()).backward()
    for name, p in model.named_parameters():
        assert p.grad is not None, name
        assert p.grad.isfinite().all(), name
        assert bool((p.grad != 0).any()) != silent(place, options, name), name


def served(model: Seq2Seq) -> bool:
    return all(serves(encoding) for slot in model.slots.values() for encoding in slot)


@pytest.mark.parametrize(("place", "options"), VARIANTS, ids=str)
def test_backends_agree(place: str, options: dict[str, Any]) -> None:
    reference = build(place, backend="dense", **options)
    for backend in ("auto", "sdpa") if served(reference) else ("auto",):
        other = build(place, backend=backend, **options)
        with torch.no_grad():
            torch.testing.assert_close(other(*batch()), reference(*batch()), rtol=1e-5, atol=1e-5)
