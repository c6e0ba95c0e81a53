"""Learning-rate schedules: warm-up, shape, and where they end."""

import math

import pytest

from relformer.training.schedulers import SCHEDULERS, schedule


@pytest.mark.parametrize("name", SCHEDULERS)
@pytest.mark.parametrize("warmup", [0, 1, 10])
def test_warm_up_climbs_evenly_to_the_base_rate(name: str, warmup: int) -> None:
    factor = schedule(name, warmup, 100)
    steps = [factor(step) for step in range(warmup + 1)]
    assert steps[-1] == 1.0
    assert steps == pytest.approx([(step + 1) / (warmup + 1) for step in range(warmup + 1)])
    assert min(steps) > 0


@pytest.mark.parametrize("name", SCHEDULERS)
@pytest.mark.parametrize("warmup", [0, 10])
def test_after_warm_up_the_rate_never_rises(name: str, warmup: int) -> None:
    factor = schedule(name, warmup, 100)
    steps = [factor(step) for step in range(warmup, 130)]
    assert steps == sorted(steps, reverse=True)
    assert all(0 <= step <= 1 for step in steps)


@pytest.mark.parametrize("warmup", [0, 10])
def test_shapes(warmup: int) -> None:
    middle = warmup + (100 - warmup) // 2
    quarter = warmup + (100 - warmup) / 4
    linear, cosine = schedule("linear", warmup, 100), schedule("cosine", warmup, 100)
    assert linear(middle) == pytest.approx(0.5) and cosine(middle) == pytest.approx(0.5)
    assert linear(int(quarter)) == pytest.approx(1 - (int(quarter) - warmup) / (100 - warmup))
    assert cosine(middle - 20) > linear(middle - 20) and cosine(middle + 20) < linear(middle + 20)
    assert linear(100) == 0 and cosine(100) == pytest.approx(0, abs=1e-12)
    assert linear(99) > 0 and cosine(99) > 0
    assert {schedule("constant", warmup, 100)(step) for step in range(warmup, 100)} == {1.0}


def test_inverse_square_root_is_of_the_step_whatever_the_end() -> None:
    """Vaswani et al.: step^-0.5, scaled to one at the end of the warm-up."""
    for step in (400, 1600, 90_000):
        assert schedule("inverse_square_root", 400, 1000)(step) == pytest.approx(math.sqrt(400 / step))


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_warm_up_longer_than_the_run(name: str) -> None:
    factor = schedule(name, 50, 20)
    assert [factor(step) for step in range(20)] == pytest.approx([(step + 1) / 51 for step in range(20)])


def test_inverse_square_root_is_the_schedule_of_vaswani_et_al() -> None:
    """width^-0.5 min(n^-0.5, n warmup^-1.5) of step n from 0 on, as Ontanon et al. count; while it climbs, ours is
    ahead by less than one of its 4,000 steps, since it does not begin with a rate of 0."""
    width, warmup = 64, 4000
    factor = schedule("inverse_square_root", warmup, 6250)
    for step in range(1, 20_000, 7):
        published = width**-0.5 * min(step**-0.5, step * warmup**-1.5)
        ours = 0.0019764235 * factor(step)
        assert ours == pytest.approx(published, rel=1e-6) if step >= warmup else 0 <= ours - published < 5e-7
