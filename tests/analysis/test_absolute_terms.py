"""The four terms of absolute positions add up to the logits and hold position where it is."""

import numpy as np
import pytest
import torch

from relformer.analysis.absolute_terms import TERMS, absolute_terms
from relformer.analysis.position_map import position_parts
from tests.analysis.test_position_map import probe
from tests.model.models import build


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("norm_type", ["layer", "rms"])
@pytest.mark.parametrize(
    ("name", "options"),
    [("sinusoidal", {}), ("learned", {}), ("sinusoidal", {"inject": "qk"}), ("complex", {}), ("multiplicative", {})],
)
def test_they_add_up_to_the_logits(name: str, options: dict[str, str], norm: str, norm_type: str) -> None:
    model = build(name, model={"norm": norm, "norm_type": norm_type, "attention_bias": "qk"}, **options)
    with torch.no_grad():
        for layer in (model.encoder.layers[0], model.decoder.layers[0]):
            for p in layer.attention_branch.norm.parameters():
                p.add_(0.3 * torch.randn(p.shape, generator=torch.Generator().manual_seed(1)))
    terms, parts = absolute_terms(model, probe()), position_parts(model, probe())
    for role in ("encoder", "decoder"):
        assert terms[role].shape[0] == len(TERMS)
        np.testing.assert_allclose(terms[role].sum(0), parts[role].maps[0], atol=2e-5)
        assert np.nanmax(np.abs(terms[role][3])) > 0.05


def test_position_to_position_is_the_table_of_products_where_nothing_divides() -> None:
    """Without a norm before it, p2p is (W_q p_i)·(W_k p_j) / sqrt(D), rows centred: a loop over positions."""
    model = build("sinusoidal", model={"norm": "post"})
    attention, encoding = model.encoder.layers[0].attention, model.encoder.slot.first
    p = encoding.embed(torch.zeros(1, 12, 24), torch.zeros(1, 12, dtype=torch.long), range(12))[0]
    found = absolute_terms(model, probe())["encoder"][3]
    with torch.no_grad():
        for head in range(3):
            rows = slice(8 * head, 8 * head + 8)
            for i in range(12):
                q = attention.query.weight[rows] @ p[i]
                line = np.array([float(q @ (attention.key.weight[rows] @ p[j])) for j in range(12)]) / 8**0.5
                np.testing.assert_allclose(found[head, i], line - line.mean(), atol=1e-5)


@pytest.mark.parametrize("name", ["rope", "t5", "none", "shaw"])
def test_others_have_none(name: str) -> None:
    assert absolute_terms(build(name), probe()) == {}
