"""Faults on purpose: where they strike, how often, and on whom."""

import errno
import signal
from collections.abc import Iterator

import pytest
import torch

from relformer import faults
from relformer.errors import UserError


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    faults.arm(None)


@pytest.mark.parametrize("nothing", [None, ""])
def test_nothing_happens_unasked(nothing: str | None) -> None:
    faults.arm(nothing)
    assert faults._armed is None
    assert faults.reached("step", 5) is None


def test_a_fault_strikes_its_number_so_many_times() -> None:
    faults.arm("stale@rename6*2, nan@step5-6")
    assert faults.reached("step", 4) is None and faults.reached("validation", 5) is None
    assert (
        faults.reached("step", 5) == "nan" and faults.reached("step", 5) is None and faults.reached("step", 6) == "nan"
    )
    for _ in range(2):
        with pytest.raises(OSError) as fault:
            faults.reached("rename", 6)
        assert fault.value.errno == errno.ESTALE
    assert faults.reached("rename", 6) is None


@pytest.mark.parametrize(("kind", "error"), [("diskfull", OSError), ("raise", RuntimeError)])
def test_errors_are_those_of_the_real_thing(kind: str, error: type[Exception]) -> None:
    faults.arm(f"{kind}@checkpoint3")
    with pytest.raises(error):
        faults.reached("checkpoint", 3)


def test_out_of_memory_is_torchs_own() -> None:
    faults.arm("oom@step1")
    with pytest.raises(torch.OutOfMemoryError, match="RELFORMER_FAULT"):
        faults.reached("step", 1)


def test_one_rank_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    struck: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: struck.append(number))
    try:
        faults.arm("usr1@rank1:step2")
        monkeypatch.setenv("LOCAL_RANK", "0")
        faults.reached("step", 2)
        assert struck == []
        monkeypatch.setenv("LOCAL_RANK", "1")
        faults.reached("step", 2)
        assert struck == [signal.SIGUSR1]
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kill", r"'kill' is not KIND@\[rankN:\]PLACEn"),
        ("kill@step", "is not KIND"),
        ("klil@step5", "'klil' in 'klil@step5' is no kind of fault; there are kill, term"),
        ("kill@stepp5", "'stepp' in 'kill@stepp5' is no place of fault; there are step, validation"),
        ("kill@step5,", "'' is not KIND"),
    ],
)
def test_a_slip_is_told(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        faults.arm(text)
