"""`relformer benchmark step`: that all systems learn from the same tokens, and what is printed and written."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from relformer.benchmark import peers, step
from relformer.benchmark.interleaved import Spread
from relformer.benchmark.losses import training_loss
from relformer.benchmark.peers import BOS, PAD
from relformer.benchmark.step import benchmark_step
from relformer.benchmark.trainees import Trainee, others, ours, random_batch
from relformer.errors import UserError

CPU = torch.device("cpu")
TINY = ["encodings=t5", "lengths=4", "tokens=8", "repeats=1"]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models of a toy's size."""
    for name, size in {"WIDTH": 8, "HEADS": 2, "FEEDFORWARD": 8, "LAYERS": 1}.items():
        monkeypatch.setattr(peers, name, size)


def test_the_batch() -> None:
    batch = random_batch(16, 100, 0.05, CPU)
    assert batch.source.shape == batch.target.shape == batch.labels.shape == (16, 100)
    assert batch.labels.eq(PAD).float().mean() == pytest.approx(0.05, abs=0.005)
    assert batch.tokens == batch.labels.ne(PAD).sum()
    for target, labels in zip(batch.target, batch.labels, strict=True):
        n = int(labels.ne(PAD).sum())
        assert target[0] == BOS and torch.equal(target[1:n], labels[: n - 1]) and not target[n:].any()


@pytest.mark.usefixtures("small")
def test_our_loss_is_the_mean_over_tokens() -> None:
    batch, model = random_batch(2, 5, 0.1, CPU), peers.ours("alibi")
    logits = model(batch.source, batch.target)
    expected = F.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), ignore_index=PAD)
    torch.testing.assert_close(training_loss(model, batch), expected)


@pytest.mark.usefixtures("small")
def test_a_step_learns() -> None:
    batch = random_batch(2, 5, 0.0, CPU)
    model, loss = ours("rope", {}).make()
    run, parameters = Trainee("rope", lambda: (model, loss)).step(CPU)
    before = float(loss(batch).detach())
    for _ in range(5):
        run(batch)
    assert float(loss(batch).detach()) < before
    assert parameters == sum(p.numel() for p in model.parameters())


@pytest.mark.usefixtures("small")
def test_peers_leave_padding_out_of_the_loss() -> None:
    """More padding changes no loss; near log V, as random weights give. x-transformers skips each first prediction."""
    pytest.importorskip("transformers")
    pytest.importorskip("x_transformers")
    batch = random_batch(2, 6, 0.2, CPU)
    longer = random_batch(2, 6, 0.2, CPU)
    for name in ("source", "target", "labels"):
        setattr(longer, name, F.pad(getattr(longer, name), (0, 3), value=PAD))
    systems = others(9)
    assert [each.partner for each in systems] == ["learned", "t5", "t5", "t5", "alibi", "rope"]
    for each in systems:
        torch.manual_seed(0)
        model, loss = each.make()
        model.eval()
        with torch.no_grad():
            short, long = float(loss(batch)), float(loss(longer))
        assert long == pytest.approx(short, rel=1e-4), each.name
        assert 7 < short < 13, each.name


def test_peers_are_of_our_size() -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("x_transformers")
    count = {each.name: sum(p.numel() for p in each.make()[0].parameters()) for each in (*others(64), ours("t5", {}))}
    t5 = count.pop("t5")
    for name, parameters in count.items():
        untied = peers.VOCABULARY * peers.WIDTH if name.startswith("x-transformers") else 0
        assert parameters - untied == pytest.approx(t5, rel=0.01), name


@pytest.mark.usefixtures("alone", "small")
def test_what_it_prints_and_writes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, written: Callable[[Path], Any]
) -> None:
    rows = benchmark_step([*TINY, "encodings=learned", f"out={tmp_path / 's.csv'}", f"plot={tmp_path / 's.svg'}"])
    assert [row.system for row in rows] == ["none", "learned", "torch.nn.Transformer, learned"]
    assert "left out: HF T5, x-transformers; pip install 'relformer[peers]'" in capsys.readouterr().out
    found = written(tmp_path / "s.csv")
    assert list(found[0]) == [
        *("system", "length", "parameters", "milliseconds", "over_none", "over_none_low", "over_none_high"),
        *("ours_is", "ours_is_low", "ours_is_high", "megabytes", "megabytes_over_none", "ours_megabytes"),
    ]
    assert found[0]["over_none"] == "1.0" and found[0]["ours_is"] == ""
    assert float(found[2]["ours_is"]) > 0 and float(found[2]["ours_megabytes"]) > 0
    assert "torch.nn.Transformer" in (tmp_path / "s.svg").read_text()


@pytest.mark.usefixtures("alone", "small")
def test_ours_is_compared_with_a_peers_own_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {"none": 1.0, "learned": 2.0, "torch.nn.Transformer, learned": 4.0}
    monkeypatch.setattr(
        step, "taking_turns", lambda runs, rounds, device: {n: [seconds[n], 9 * seconds[n]] for n in runs}
    )
    monkeypatch.setattr(step, "peak", lambda run, device: 10.0)
    none, learned, torchs = benchmark_step([*TINY, "encodings=learned"])
    assert learned.over_none == Spread(2, 2, 2) and torchs.over_none == Spread(4, 4, 4)
    assert none.ours_is is learned.ours_is is None
    assert torchs.ours_is == Spread(0.5, 0.5, 0.5) and torchs.ours_megabytes == 1.0


@pytest.mark.usefixtures("small")
def test_encodings_of_a_decoder_alone() -> None:
    each = ours("cope", {})
    assert each.name == "cope (decoder)"
    model: Any = each.make()[0]
    assert type(model.encoder.slot.first).__name__ == "NoPositions"
    assert type(model.decoder.slot.first).__name__ != "NoPositions"


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("token=4", "no option 'token=4'; did you mean 'tokens'"),
        ("tokens=100", "tokens=100 must hold a sentence of 512"),
        ("tokens=512", "needs two sentences"),
        ("what=times", "did you mean 'time'"),
        ("encodings=ropes", "no encoding 'ropes'; did you mean 'rope'"),
    ],
)
def test_nonsense_is_refused(argument: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        benchmark_step([argument])
