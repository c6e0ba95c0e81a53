"""Jobs as processes: failures stop no other, places are not shared, and what ends the sweep ends them all."""

import os
import signal
import sys
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from relformer.sweeps.job import Job, fault, success
from relformer.sweeps.pool import Process, run_all
from relformer.training.signals import Interrupted, signals


def jobs(home: Path, count: int) -> list[Job]:
    made = [Job(n, [], [f"n={n}"], home / str(n), f"key{n}", "val/iid/loss") for n in range(count)]
    for job in made:
        job.directory.mkdir(exist_ok=True)
    return made


def process(code: str, log: Path | None = None) -> Process:
    return Process([sys.executable, "-c", textwrap.dedent(code)], dict(os.environ), log)


def test_one_that_fails_stops_no_other(tmp_path: Path) -> None:
    made = jobs(tmp_path, 3)
    codes = ["raise SystemExit(0)", "raise SystemExit(2)", "import os; os.kill(os.getpid(), 9)"]
    changes: list[tuple[int, int | None]] = []
    done = run_all(
        iter(made),
        1,
        lambda job, place: process(codes[job.number]),
        lambda job: changes.append((job.number, job.exit_code)),
    )
    assert done == made and [job.exit_code for job in done] == [0, 2, -9]
    assert changes == [(0, None), (0, 0), (1, None), (1, 2), (2, None), (2, -9)]
    assert made[0].finished and not made[1].finished
    assert fault(made[1]) == f"sweep job 1 ended with exit code 2; see {made[1].directory}"
    assert fault(made[2]) == f"sweep job 2 was killed by SIGKILL; see {made[2].directory}"


def test_a_finished_job_is_not_started_again(tmp_path: Path) -> None:
    made = jobs(tmp_path, 2)
    (made[0].directory / "run_key").write_text("key0\n")
    (made[1].directory / "run_key").write_text("of another run\n")
    started: list[int] = []

    def start(job: Job, place: int) -> Process:
        started.append(job.number)
        return process("")

    run_all(iter(made), 1, start, lambda job: None)
    assert started == [1] and [job.exit_code for job in made] == [0, 0]


def test_places_are_not_shared(tmp_path: Path) -> None:
    """Two at once, four jobs; each waits until the other of its pair has begun too."""
    held: dict[int, int] = {}
    most = 0

    def start(job: Job, place: int) -> Process:
        nonlocal most
        assert place not in held.values()
        held[job.number] = place
        most = max(most, len(held))
        return process(f"import time; time.sleep({0.5 + job.number / 5})", tmp_path / f"{job.number}.log")

    def changed(job: Job) -> None:
        if job.exit_code is not None:
            del held[job.number]

    run_all(iter(jobs(tmp_path, 4)), 2, start, changed)
    assert most == 2 and not held


def test_a_log_takes_what_a_job_prints(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "0.log"
    start = lambda job, place: process("import sys; print('out'); print('err', file=sys.stderr)", log)  # noqa: E731
    run_all(iter(jobs(tmp_path, 1)), 1, start, lambda job: None)
    assert sorted(log.read_text().split()) == ["err", "out"]


FAMILY = """
    import signal, subprocess, sys, time
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stderr=subprocess.DEVNULL)
    print(child.pid, flush=True)
    {ending}
    time.sleep(600)
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pids: Sequence[int]) -> bool:
    end = time.monotonic() + 120
    while any(map(alive, pids)) and time.monotonic() < end:
        time.sleep(0.05)
    return not any(map(alive, pids))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_every_job_and_its_children(tmp_path: Path, number: signal.Signals) -> None:
    """They may take their time and save; no other is started, and nothing stays behind."""
    ending = f"signal.signal({int(number)}, lambda *_: (time.sleep(0.5), sys.exit(130)))"
    logs = [tmp_path / f"{n}.log" for n in range(3)]
    made, started = jobs(tmp_path, 3), [0]

    def start(job: Job, place: int) -> Process:
        started[0] += 1
        return process(FAMILY.format(ending=ending), logs[job.number])

    def changed(job: Job) -> None:
        if started[0] == 2 and job.exit_code is None:
            end = time.monotonic() + 120
            while not all(log.exists() and log.read_text() for log in logs[:2]) and time.monotonic() < end:
                time.sleep(0.05)
            os.kill(os.getpid(), number)

    with signals, pytest.raises(Interrupted) as interrupted:
        run_all(iter(made), 2, start, changed)
    assert interrupted.value.number == number and started == [2]
    assert [job.exit_code for job in made] == [130, 130, None]
    assert gone([int(log.read_text()) for log in logs[:2]])


def test_what_a_killed_job_leaves_is_ended(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    start = lambda job, place: process(FAMILY.format(ending="import os; os.kill(os.getpid(), 9)"), log)  # noqa: E731
    (job,) = run_all(iter(jobs(tmp_path, 1)), 1, start, lambda job: None)
    assert job.exit_code == -signal.SIGKILL and gone([int(log.read_text())])


def test_a_job_that_printed_elsewhere_is_said_to_have_finished(tmp_path: Path) -> None:
    start = lambda job, place: process("", tmp_path / "0.log")  # noqa: E731
    (job,) = run_all(iter(jobs(tmp_path, 1)), 1, start, lambda job: None)
    assert success(job) == f"job 0   finished in {job.seconds:.0f} s"


def test_jobs_end_with_a_sweep_that_has_a_fault(tmp_path: Path) -> None:
    log = tmp_path / "0.log"

    def changed(job: Job) -> None:
        end = time.monotonic() + 120
        while not (log.exists() and log.read_text()) and time.monotonic() < end:
            time.sleep(0.05)
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        run_all(iter(jobs(tmp_path, 1)), 1, lambda job, place: process(FAMILY.format(ending=""), log), changed)
    assert gone([int(log.read_text())])
