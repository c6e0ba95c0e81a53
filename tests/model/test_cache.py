"""The cache: what is written where, what is made once, and whose rows are whose."""

from typing import Any

import pytest
import torch
from torch import Tensor

from relformer.encodings.t5 import T5
from relformer.model import Cache, Seq2Seq, build_model
from relformer.model.layers import Linear
from tests.model.models import PAD, SOURCES, TARGETS, batch, build, config, enliven, node


def decoded(model: Seq2Seq, source: Tensor, target: Tensor, steps: int, planned: int = 10) -> Cache:
    cache = model.start(source, planned)
    for tokens in target[:, :steps].split(1, dim=1):
        model.step(tokens, cache)
    return cache


@torch.no_grad()
def test_steps_write_to_what_was_allocated_once_time_first() -> None:
    model, (source, target) = build("forgetting"), batch()
    cache = decoded(model, source, target, 3)
    before = [memory.seen for memory in cache.own]
    kept = [part.clone() for memory in before for part in memory if part is not None]
    assert len(kept) == 6
    model.step(target[:, 3:4], cache)
    for memory, was in zip(cache.own, before, strict=True):
        for part, old in zip(memory.seen, was, strict=True):
            assert part is not None and old is not None
            assert part.shape[2] == 4
            assert part.data_ptr() == old.data_ptr()
            assert part.permute(2, 0, 1, 3).is_contiguous()
    now = [part[:, :, :3] for memory in cache.own for part in memory.seen if part is not None]
    for part, copy in zip(now, kept, strict=True):
        assert torch.equal(part, copy)


def test_a_full_pass_copies_nothing_and_passes_gradients() -> None:
    model, (source, target) = build("t5"), batch()
    cache = model.start(source, 10)
    model.step(target, cache).sum().backward()
    assert cache.tables is None
    assert all(memory.room is None and memory.k.grad_fn is not None for memory in cache.own)


@torch.no_grad()
def test_a_table_is_made_once_a_generation(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    table = T5.table

    def counted(self: T5, distance: Tensor) -> Tensor:
        made.append(len(distance))
        return table(self, distance)

    monkeypatch.setattr(T5, "table", counted)
    model, (source, target) = build("t5"), batch()
    decoded(model, source, target, 10)
    assert made == [17, 19]
    model(source, target)
    assert made == [17, 19, 17, 19]


@pytest.mark.parametrize("cross", ["none", "t5", "rope"])
@torch.no_grad()
def test_positions_drawn_for_each_row_follow_their_rows(cross: str) -> None:
    """Beams share their sentence's draw; what leaves and what moves takes its own along."""
    plain = config("randomized", rows="sample", eval="sample", max_position=40, eval_length=20)
    model = build_model(plain | {"cross_encoding": node(cross)}, SOURCES, TARGETS, PAD).eval()
    enliven(model)
    source, target = batch()
    caches = []
    for _ in range(2):
        torch.manual_seed(0)
        caches.append(decoded(model, source, target, 4))
    still, moved = caches
    drawn: Any = still.positions
    assert not torch.equal(drawn[0], drawn[1])
    rows = torch.tensor([2, 2, 0, 0])
    moved.select(rows, torch.tensor([2, 0]))
    assert torch.equal(moved.positions, drawn[rows])  # type: ignore[arg-type]
    for t in (4, 5):
        expected = model.step(target[:, t : t + 1], still)[rows]
        found = model.step(target[rows, t : t + 1], moved)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("tie", ["none", "decoder", "all"])
@torch.no_grad()
def test_weights_by_columns_give_the_same_and_are_given_back(tie: str) -> None:
    same = SOURCES if tie == "all" else TARGETS
    model = build_model(config("t5", model={"tie": tie}), SOURCES, same, PAD).eval()
    source, target = batch()
    target = target.clamp(max=same - 1)
    plain = model(source, target)
    names = set(model.state_dict())
    with pytest.raises(KeyboardInterrupt), model.decoding():
        with model.decoding():
            pass
        copies = [part.by_columns for part in model.decoder.modules() if isinstance(part, Linear)]
        assert copies and all(copy is not None and copy.is_contiguous() for copy in copies)
        assert set(model.state_dict()) == names
        torch.testing.assert_close(model(source, target), plain, rtol=1e-5, atol=1e-5)
        raise KeyboardInterrupt
    assert all(part.by_columns is None for part in model.modules() if isinstance(part, Linear))
    assert model.tied_by_columns is None


@torch.no_grad()
def test_a_batch_without_padding_needs_no_mask() -> None:
    model, (source, _) = build("t5"), batch()
    assert model.encode(source[:1]).padding is None
    assert model.encode(source).padding is not None
    with torch.enable_grad():
        assert model.encode(source[:1]).padding is not None
