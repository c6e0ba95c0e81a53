"""A signal to any rank, or to all: the run is saved and ends with its code, wherever it stood, and nothing is left."""

import csv
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from lightning.pytorch import Callback, Trainer

from relformer.training.run import train
from relformer.training.signals import Interrupted, Signals, signals
from tests.cli.runs import losses
from tests.config.composed import checked, without_hydra
from tests.reliability.running import ENDLESS, SMALL, Running, running, slow

CODES = {signal.SIGTERM: 143, signal.SIGUSR1: 143, signal.SIGINT: 130, signal.SIGHUP: 129}
NOTHING = "callbacks.last_checkpoint.every_n_train_steps=1000000"
"""No checkpoint but those that a signal asks for."""


def kept(run: Path) -> int:
    return int(torch.load(run / "checkpoints" / "last.ckpt", map_location="cpu", weights_only=True)["global_step"])


def saved_where_it_stopped(run: Running) -> None:
    """The last step whose loss was written (the first is 0) is the one that was saved, and the run says so."""
    assert kept(run.run) == max(losses(run.run)) + 1
    assert f"; step {kept(run.run)} is kept" in run.printed()
    assert "Traceback" not in run.printed()


@pytest.fixture
def handled() -> Iterator[Signals]:
    with Signals() as signals:
        yield signals
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize(("number", "code"), CODES.items())
def test_a_signal_ends_the_process_where_nothing_is_to_save(handled: Signals, number: int, code: int) -> None:
    with pytest.raises(Interrupted) as ended:
        signal.raise_signal(number)
    assert (ended.value.code, ended.value.number) == (code, number)
    signal.raise_signal(number)  # not again, while it ends


def test_a_signal_leaves_a_mark_while_a_step_is_made(handled: Signals) -> None:
    handled.hold()
    signal.raise_signal(signal.SIGUSR1)
    signal.raise_signal(signal.SIGTERM)
    assert handled.received == signal.SIGUSR1
    with pytest.raises(Interrupted) as ended:
        handled.release()
    assert ended.value.number == signal.SIGUSR1


def test_what_is_ignored_stays_ignored() -> None:
    """As SIGHUP is under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Signals() as signals:
            signal.raise_signal(signal.SIGHUP)
            assert signals.received is None
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(("pause", "ended"), [(0.02, False), (0.3, True)])
def test_the_second_ctrl_c_is_one_that_comes_later(
    monkeypatch: pytest.MonkeyPatch, handled: Signals, pause: float, ended: bool
) -> None:
    """A wrapper may pass on what the terminal has sent to all already."""
    codes: list[int] = []
    monkeypatch.setattr("os._exit", codes.append)
    monkeypatch.setattr("relformer.training.signals.REPEATED", 0.15)
    handled.hold()
    signal.raise_signal(signal.SIGINT)
    time.sleep(pause)
    signal.raise_signal(signal.SIGINT)
    time.sleep(0.1)
    assert codes == ([130] if ended else [])


class Signalled(Callback):
    """Sends a signal to its own process in the midst of step 3, and of each validation if `validating`."""

    def __init__(self, number: int, validating: bool = False) -> None:
        self.number, self.validating = number, validating

    def on_before_optimizer_step(self, trainer: Trainer, *_: object) -> None:
        if trainer.global_step == 2 and not self.validating:
            signal.raise_signal(self.number)

    def on_validation_batch_end(self, *_: object) -> None:
        if self.validating:
            signal.raise_signal(self.number)


@pytest.mark.parametrize(("accumulated", "validating", "step"), [(1, False, 3), (2, False, 3), (1, True, 4)])
def test_the_step_is_finished_saved_and_logged(tmp_path: Path, accumulated: int, validating: bool, step: int) -> None:
    target = f"{{_target_: {Signalled.__module__}.Signalled, number: {int(signal.SIGTERM)}, validating: {validating}}}"
    options = ("trainer.max_steps=9", "eval.every=4", f"trainer.accumulate_grad_batches={accumulated}", NOTHING)
    config = checked(*SMALL, *options, f"paths.run_dir={tmp_path}", f"+callbacks.signalled={target}")
    with signals, pytest.raises(Interrupted) as ended:
        train(without_hydra(config))
    assert ended.value.code == 143
    assert kept(tmp_path) == step
    with (tmp_path / "csv" / "metrics.csv").open(newline="") as file:
        assert len({row["step"] for row in csv.DictReader(file) if row["train/loss"]}) == step


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "whom", "workers"),
    [
        (signal.SIGTERM, "0", 0),
        (signal.SIGHUP, "group", 0),
        (signal.SIGTERM, "group", 2),
        (signal.SIGINT, "group", 2),
        (signal.SIGUSR1, "group", 2),
    ],
)
def test_one_process(tmp_path: Path, number: int, whom: str, workers: int) -> None:
    with running(tmp_path, *ENDLESS, NOTHING, f"data.workers={workers}") as run:
        run.until_step(3)
        run.send(number, whom)
        assert run.code(30) == CODES[number]
        saved_where_it_stopped(run)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "whom"),
    [
        (signal.SIGTERM, "0"),
        (signal.SIGTERM, "1"),
        (signal.SIGTERM, "group"),
        (signal.SIGINT, "1"),
        (signal.SIGINT, "group"),
        (signal.SIGUSR1, "0"),
    ],
)
def test_two_ranks(tmp_path: Path, number: int, whom: str) -> None:
    with running(tmp_path, *ENDLESS, NOTHING, "trainer.devices=2", "data.workers=1") as run:
        run.until_step(3)
        run.send(number, whom)
        assert run.code(40) == CODES[number]
        saved_where_it_stopped(run)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "whom"),
    [("validation", "0"), ("validation", "1"), ("test", "1"), ("test", "group"), ("saving", "1"), ("saving", "group")],
)
def test_two_ranks_that_do_something_else(tmp_path: Path, place: str, whom: str) -> None:
    """Nothing but evaluating goes on in `test`: the run was trained to its end."""
    steps = ("trainer.max_steps=6", "eval.every=3") if place != "saving" else ("trainer.max_steps=1000", "eval.every=4")
    with running(tmp_path, *SMALL, *steps, NOTHING, "trainer.devices=2", slow(place)) as run:
        run.until_printed(f"slow {place}")
        run.send(signal.SIGTERM, whom)
        assert run.code(40) == 143
        assert kept(run.run) == {"validation": 3, "test": 6, "saving": 4}[place]
        assert "Traceback" not in run.printed()


@pytest.mark.slow
@pytest.mark.parametrize("whom", ["0", "1", "group"])
def test_before_the_first_step(tmp_path: Path, whom: str) -> None:
    """The second rank has just been started, and the first waits for it."""
    with running(tmp_path, *ENDLESS, "trainer.devices=2") as run:
        run.until(lambda: run.children("train_ddp_process_1"))
        run.send(signal.SIGTERM, whom)
        assert run.code(40) == 143


@pytest.mark.slow
def test_a_second_ctrl_c_ends_at_once(tmp_path: Path) -> None:
    with running(tmp_path, *ENDLESS, "trainer.devices=2", slow("step", 60)) as run:
        run.until_printed("slow step")
        run.send(signal.SIGINT, "group")
        run.until_printed("Ctrl-C twice ends at once")
        with pytest.raises(AssertionError, match="did not end"):
            run.code(2)
        run.send(signal.SIGINT, "group")
        assert run.code(2) == 130
