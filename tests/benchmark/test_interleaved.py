"""Turns, and ratios of neighbours, by a clock of our own."""

import pytest
import torch

from relformer.benchmark import interleaved
from relformer.benchmark.interleaved import Measured, Spread, ratio, taking_turns

CPU = torch.device("cpu")


def test_competitors_take_turns_after_one_round_that_is_not_counted() -> None:
    order: list[str] = []
    runs = {name: (lambda name=name: order.append(name)) for name in ("a", "b")}
    times = taking_turns(runs, 3, CPU)
    assert "".join(order) == "abababab"
    assert {name: len(each) for name, each in times.items()} == {"a": 3, "b": 3}


def test_the_ratio_is_of_neighbours() -> None:
    """The ratio of the medians would be 8; a machine that is slow for a round changes nothing."""
    assert ratio({"slow": [2.0, 30.0, 8.0], "fast": [1.0, 10.0, 1.0]}, "slow", "fast") == Spread(3.0, 2.5, 5.5)


def test_a_machine_that_slows_down_between_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0.0
    work = {"light": iter([9.0, 1.0, 2.0, 40.0]), "heavy": iter([9.0, 3.0, 6.0, 120.0])}

    def run(name: str) -> None:
        nonlocal clock
        clock += next(work[name])

    monkeypatch.setattr(interleaved, "now", lambda device: clock)
    times = taking_turns({name: (lambda name=name: run(name)) for name in work}, 3, CPU)
    measured = Measured(times, {"light": 2.0, "heavy": 5.0})
    assert measured.milliseconds("heavy") == 6000
    assert measured.slower("heavy", "light") == Spread(3.0, 3.0, 3.0)
    assert measured.larger("heavy", "light") == 2.5


def test_what_was_not_measured_or_seen_has_no_ratio() -> None:
    assert Measured({}, {"a": 1.0, "b": 0.0}).larger("a", "b") is None
    measured = Measured({"a": [1.0]}, {})
    assert measured.milliseconds("b") is measured.slower("a", "b") is measured.larger("a", "a") is None
