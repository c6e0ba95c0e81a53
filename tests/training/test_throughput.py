"""Throughput: the median time of a step, over all its batches, without the first steps and what lies between steps."""

from types import SimpleNamespace
from typing import Any

import pytest

from relformer.training.callbacks import throughput
from relformer.training.callbacks.throughput import WARM_UP, Throughput


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


def train(clock: Clock, callback: Throughput, steps: list[float], accumulate: int = 1, between: float = 0.0) -> None:
    """Steps of so many seconds, spread over their batches, with a pause after each step."""
    trainer: Any = SimpleNamespace(global_step=0)
    module: Any = None
    for seconds in steps:
        for number in range(accumulate):
            callback.on_train_batch_start(trainer, module, None, number)
            clock.now += seconds / accumulate
            trainer.global_step += number == accumulate - 1
            callback.on_train_batch_end(trainer, module, None, None, number)
        clock.now += between


@pytest.mark.parametrize("accumulate", [1, 4])
@pytest.mark.parametrize("between", [0.0, 7.0])
def test_the_median_step_counts(clock: Clock, accumulate: int, between: float) -> None:
    callback = Throughput()
    train(clock, callback, [100.0] * WARM_UP + [1.0, 3.0, 2.0, 50.0, 2.5], accumulate, between)
    assert callback.seconds_per_step == pytest.approx(2.5)


def test_a_run_as_short_as_the_warm_up_has_no_figure(clock: Clock) -> None:
    callback = Throughput()
    train(clock, callback, [1.0] * WARM_UP)
    assert callback.seconds_per_step is None


@pytest.mark.parametrize(("steps", "figure"), [(0, 2.0), (3, 2.0), (40, 1.0)])
def test_a_continued_run_has_the_figure_of_its_longest_stretch(clock: Clock, steps: int, figure: float) -> None:
    """A run that was finished and is started again makes no step at all."""
    first, second = Throughput(), Throughput()
    train(clock, first, [100.0] * WARM_UP + [2.0] * 10)
    second.load_state_dict(first.state_dict())
    train(clock, second, [100.0] * min(WARM_UP, steps) + [1.0] * max(steps - WARM_UP, 0))
    assert second.seconds_per_step == pytest.approx(figure)


def test_cpu_time_goes_on_with_a_continued_run(clock: Clock) -> None:
    first, second = Throughput(), Throughput()
    train(clock, first, [10.0])
    assert first.cpu_seconds == 5.0
    clock.now = 0.0  # another process
    second.load_state_dict(first.state_dict())
    assert second.cpu_seconds == 5.0
    train(clock, second, [4.0])
    assert second.cpu_seconds == 7.0
