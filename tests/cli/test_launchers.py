"""Ranks that torchrun, srun or Lightning starts: one run directory, and the losses and weights of one process."""

import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from tests.cli.runs import ROOT, TINY, WITHOUT_FIGURES, environment, losses, run_directories

STEPS = 20
RUN = (
    *TINY,
    # Sums in another order differ by rounding, of which a ReLU at 0 makes a whole gradient or none, and Adam with an
    # epsilon of 1e-8 a whole step of either sign.
    "model.activation=gelu",
    "optimizer.eps=1e-5",
    "logger=csv",
    "hardware=cpu",
    f"trainer.max_steps={STEPS}",
    f"eval.every={STEPS}",
    "data.batch_size=33",
    "data.examples_per_length=4",
    "paths.log_dir=runs",
    *WITHOUT_FIGURES,
)
TORCHRUN = (sys.executable, "-m", "torch.distributed.run")
SHARDED = ("hardware=fsdp", "trainer.accelerator=cpu", "trainer.precision=32-true")
ENCODINGS = ("t5", "rope", "shaw")


def run(
    home: Path,
    *arguments: str,
    launchers: Sequence[Sequence[str]] = ((sys.executable,),),
    variables: Sequence[Mapping[str, str]] = ({},),
) -> Path:
    """The one directory of a run that so many launchers start together, each with variables of its own."""
    command = [str(ROOT / "train.py"), *RUN, *arguments]
    started = [
        subprocess.Popen(
            [*launcher, *command],
            cwd=home,
            env=environment(HOME=str(home), **own),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for launcher, own in zip(launchers, variables, strict=True)
    ]
    said = [process.communicate(timeout=600)[0] for process in started]
    assert [process.returncode for process in started] == [0] * len(started), "\n".join(said)
    # After our processes ended, an agent of torchrun complains when the other one, which holds their store, left first.
    ours = [line for line in "".join(said).splitlines() if "torch/distributed/elastic/" not in line]
    assert sum("run directory" in line for line in ours) == 1 and not any("Traceback" in line for line in ours)
    assert len(list((home / "runs").glob("**/.hydra"))) == 1
    (made,) = run_directories(home)
    return made


def port() -> str:
    return str(random.SystemRandom().randint(20000, 40000))


def weights(run: Path) -> dict[str, torch.Tensor]:
    content = torch.load(run / "checkpoints" / "last.ckpt", map_location="cpu", weights_only=True)
    found: dict[str, torch.Tensor] = content["state_dict"]
    return found


def assert_same(one: Path, other: Path, steps: int = STEPS) -> None:
    first, second = losses(one), losses(other)
    assert list(first) == list(second) and len(first) == steps
    for step in first:
        assert float(second[step]) == pytest.approx(float(first[step]), abs=1e-5), step
    mine, theirs = weights(one), weights(other)
    assert mine.keys() == theirs.keys()
    for name, value in mine.items():
        torch.testing.assert_close(theirs[name], value, atol=1e-5, rtol=0, msg=name)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("alone"))


@pytest.mark.slow
def test_two_nodes_of_torchrun_agree_on_a_directory(alone: Path, tmp_path: Path) -> None:
    """Without a name for the run, and without devices and nodes on the command line."""
    at = port()
    agents = [
        (*TORCHRUN, "--nnodes=2", f"--node-rank={n}", "--nproc-per-node=1", "--master-addr=127.0.0.1") for n in range(2)
    ]
    found = run(tmp_path, launchers=[(*agent, f"--master-port={at}") for agent in agents], variables=[{}, {}])
    assert_same(alone, found)
    assert (found / "train_ddp_process_1.log").exists()


@pytest.mark.slow
def test_torchrun_on_one_machine(alone: Path, tmp_path: Path) -> None:
    assert_same(alone, run(tmp_path, launchers=[(*TORCHRUN, "--nproc-per-node=2")]))


@pytest.mark.slow
def test_a_named_run_of_two_agents_has_its_name(alone: Path, tmp_path: Path) -> None:
    meeting = ("--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port()}")
    found = run(tmp_path, launchers=[(*TORCHRUN, *meeting, "--rdzv-id=mine")] * 2, variables=[{}, {}])
    assert found.name == "mine"
    assert_same(alone, found)


@pytest.mark.slow
def test_two_tasks_of_slurm(alone: Path, tmp_path: Path) -> None:
    """Its variables as srun sets them on two nodes, by hand."""
    job = {"SLURM_JOB_ID": "4711", "SLURM_JOB_NAME": "train", "SLURM_NTASKS": "2", "SLURM_NNODES": "2"}
    job |= {"SLURM_NTASKS_PER_NODE": "1", "SLURM_NODELIST": "127.0.0.1", "MASTER_PORT": port()}
    tasks = [job | {"SLURM_PROCID": str(n), "SLURM_NODEID": str(n), "SLURM_LOCALID": "0"} for n in range(2)]
    found = run(tmp_path, launchers=[(sys.executable,)] * 2, variables=tasks)
    assert found.name == "4711"
    assert_same(alone, found)


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_one_two_and_four_processes(encoding: str, tmp_path: Path) -> None:
    made = []
    for devices in (1, 2, 4):
        (home := tmp_path / str(devices)).mkdir()
        made.append(run(home, f"encoding={encoding}", f"trainer.devices={devices}"))
    for one, other in pairwise(made):
        assert_same(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_shared_out_weights_train_as_copies_do(encoding: str, tmp_path: Path) -> None:
    """Clipped too."""
    options = (f"encoding={encoding}", "trainer.devices=2", "trainer.gradient_clip_val=0.5")
    made = []
    for name, more in (("copies", ()), ("shared", SHARDED)):
        (home := tmp_path / name).mkdir()
        made.append(run(home, *options, *more))
    assert_same(*made)


@pytest.mark.slow
def test_a_run_goes_on_shared_out_and_back_alone(tmp_path: Path) -> None:
    """The optimizer's state too is whole in a checkpoint, and comes to the parameters it belongs to."""
    straight, stages = tmp_path / "straight", tmp_path / "stages"
    straight.mkdir()
    stages.mkdir()
    options = ("scheduler=constant", "hydra.run.dir=runs/mine", "resume=auto")
    expected = run(straight, *options)
    for steps, more in ((5, ()), (12, (*SHARDED, "trainer.devices=2")), (STEPS, ())):
        found = run(stages, *options, f"trainer.max_steps={steps}", *more)
    assert_same(expected, found)
