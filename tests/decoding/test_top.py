"""The two stages of `top` find what one would."""

import pytest
import torch

from relformer.decoding.top import top


@pytest.mark.parametrize("vocabulary", [3, 99, 400, 1000, 1001, 1099, 8000])
@pytest.mark.parametrize("k", [1, 2, 10])
def test_it_is_topk(vocabulary: int, k: int) -> None:
    generator = torch.Generator().manual_seed(vocabulary)
    logits = torch.stack([torch.randperm(vocabulary, generator=generator) for _ in range(50)]).float()
    values, columns = top(logits, k)
    expected = logits.topk(min(k, vocabulary))
    assert torch.equal(values, expected.values)
    assert torch.equal(columns, expected.indices)


def test_masked_columns_come_last() -> None:
    logits = torch.full((2, 1050), -torch.inf)
    logits[0, [3, 1049]] = torch.tensor([1.0, 2.0])
    values, columns = top(logits, 3)
    assert columns[0, :2].tolist() == [1049, 3]
    assert values[1].tolist() == [-torch.inf] * 3
