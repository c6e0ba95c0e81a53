"""Throughput: the median time of a step, over all its batches, without the first steps and what lies between steps;
tokens, waiting and what the model makes use of."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from relformer.config import plain
from relformer.data.batching import Batch
from relformer.data.datamodule import TimedLoader
from relformer.data.vocabulary import PAD
from relformer.model import ModelOptions
from relformer.training.callbacks import throughput
from relformer.training.callbacks.throughput import (
    WARM_UP,
    Throughput,
    flops_of,
    peak,
    said_of_speed,
    tokens_in,
    usual,
)
from tests.config.composed import composed

BATCH = Batch(
    torch.arange(3),
    torch.tensor([[1, 5, 6, 2], [1, 5, 2, PAD], [1, 2, PAD, PAD]]),
    torch.tensor([[1, 5], [1, PAD], [1, PAD]]),
    torch.tensor([[5, 2], [2, PAD], [2, PAD]]),
    1.0,
)
TOKENS = 9 + 4


class Clock:
    now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def process_time(self) -> float:
        return self.now / 2


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(throughput, "time", clock)
    return clock


class Log(list[tuple[int, dict[str, float]]]):
    def log_metrics(self, found: dict[str, float], step: int) -> None:
        self.append((step, found))


def train(
    clock: Clock, callback: Throughput, steps: list[float], accumulate: int = 1, between: float = 0.0, wait: float = 0.0
) -> Log:
    """Steps of so many seconds, spread over their batches, with a pause after each step and a wait before each
    batch."""
    log = Log()
    trainer: Any = SimpleNamespace(
        global_step=0,
        world_size=1,
        is_global_zero=True,
        precision="32-true",
        log_every_n_steps=5,
        loggers=[log],
        train_dataloader=SimpleNamespace(waited=0.0),
    )
    module: Any = SimpleNamespace(device=torch.device("cpu"))
    callback.on_train_start(trainer, module)
    for seconds in steps:
        for number in range(accumulate):
            trainer.train_dataloader.waited += wait
            clock.now += wait
            callback.on_train_batch_start(trainer, module, BATCH, number)
            clock.now += seconds / accumulate
            trainer.global_step += number == accumulate - 1
            callback.on_train_batch_end(trainer, module, None, None, number)
        clock.now += between
    callback.on_train_end(trainer, module)
    return log


@pytest.mark.parametrize("accumulate", [1, 4])
@pytest.mark.parametrize("between", [0.0, 7.0])
def test_the_median_step_counts(clock: Clock, accumulate: int, between: float) -> None:
    callback = Throughput()
    train(clock, callback, [100.0] * WARM_UP + [1.0, 3.0, 2.0, 50.0, 2.5], accumulate, between)
    assert callback.figures["seconds_per_step"] == pytest.approx(2.5)


@pytest.mark.parametrize("accumulate", [1, 4])
def test_tokens_and_waiting(clock: Clock, accumulate: int) -> None:
    callback = Throughput()
    log = train(clock, callback, [100.0] * WARM_UP + [2.0] * 12, accumulate, between=9.0, wait=0.5 / accumulate)
    assert int(tokens_in(BATCH)) == TOKENS
    assert [step for step, _ in log] == [10, 15, 17]
    for found in (callback.figures, *({k.split("/")[1]: v for k, v in each.items()} for _, each in log)):
        assert found["tokens_per_second"] == pytest.approx(TOKENS * accumulate / 2.5)
        assert found["tokens_per_second_per_device"] == found["tokens_per_second"]
        assert found["data_wait"] == pytest.approx(0.2)
        assert found.get("mfu") is None


def test_a_run_as_short_as_the_warm_up_has_no_figure(clock: Clock) -> None:
    callback = Throughput()
    assert train(clock, callback, [1.0] * WARM_UP) == []
    assert set(callback.figures.values()) == {None} and said_of_speed(callback.figures) == ""


@pytest.mark.parametrize(("steps", "figure"), [(0, 2.0), (3, 2.0), (40, 1.0)])
def test_a_continued_run_has_the_figure_of_its_longest_stretch(clock: Clock, steps: int, figure: float) -> None:
    """A run that was finished and is started again makes no step at all."""
    first, second = Throughput(), Throughput()
    train(clock, first, [100.0] * WARM_UP + [2.0] * 10)
    second.load_state_dict(first.state_dict())
    train(clock, second, [100.0] * min(WARM_UP, steps) + [1.0] * max(steps - WARM_UP, 0))
    assert second.figures["seconds_per_step"] == pytest.approx(figure)
    assert second.figures["tokens_per_second"] == pytest.approx(TOKENS / figure)


def test_what_the_model_makes_use_of(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throughput, "peak", lambda device, precision: 1000.0)
    monkeypatch.setattr(throughput, "flops_of", lambda module, batch: 5.0 * TOKENS)
    callback = Throughput()
    train(clock, callback, [1.0] * (WARM_UP + 5))
    assert callback.figures["mfu"] == pytest.approx(5 * TOKENS / 1000)
    assert (
        said_of_speed(callback.figures)
        == "1 s a step, 13 tokens/s, 13 per device, 0.0% of it waiting for data, 6.5% MFU"
    )


def test_the_peak_is_that_of_the_products(monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder) -> None:
    """Of a device that Lightning does not know there is none, and nothing is said."""
    gpu = torch.device("cuda")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA A100-SXM4-40GB")
    assert peak(gpu, "bf16-mixed") == 312e12
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a card of tomorrow")
    assert peak(gpu, "bf16-mixed") is None and peak(torch.device("cpu"), "32-true") is None
    assert not recwarn.list


def test_a_sentence_stands_for_its_batch() -> None:
    two = usual(BATCH, 2)
    assert two.source.tolist() == [[1, 5, 2, PAD]] * 2 and two.labels.tolist() == [[2, PAD]] * 2


def test_operations_are_those_of_the_products_by_hand() -> None:
    """Multiply and add, forward and twice backward: of projections, attention, and the logits of what is no padding."""
    parts = plain(composed("encoding=none"), "seed", "model", "encoding", "cross_encoding")
    module: Any = SimpleNamespace(config=parts, source_vocabulary=range(9), target_vocabulary=range(9))
    o, s, t, n = ModelOptions(**parts["model"]), 4, 2, 5
    rows = usual(BATCH, n)
    e, feedforward = o.width, 2 * o.width * o.feedforward
    encoder = s * (4 * e * e + feedforward) + 2 * s * s * e
    decoder = t * (6 * e * e + feedforward) + s * 2 * e * e + 2 * t * t * e + 2 * t * s * e
    logits = 1 * 9 * e
    expected = 6 * n * (o.encoder_layers * encoder + o.decoder_layers * decoder + logits)
    assert flops_of(module, rows) == expected


def test_the_loader_knows_how_long_it_took() -> None:
    class Slow(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return 3

        def __getitem__(self, n: int) -> int:
            threading.Event().wait(0.05)
            return n

    loader = TimedLoader(Slow(), batch_size=None)
    assert list(loader) == [0, 1, 2] and loader.waited >= 0.15


def test_cpu_time_goes_on_with_a_continued_run(clock: Clock) -> None:
    first, second = Throughput(), Throughput()
    train(clock, first, [10.0])
    assert first.cpu_seconds == 5.0
    clock.now = 0.0  # another process
    second.load_state_dict(first.state_dict())
    assert second.cpu_seconds == 5.0
    train(clock, second, [4.0])
    assert second.cpu_seconds == 7.0
