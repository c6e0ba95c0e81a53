"""What started this process as one of several: torchrun or srun, which count them, or nobody.

All that ranks must agree on before they can talk to one another: how many they are, and their run directory.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from relformer.errors import UserError

TORCHRUN = "TORCHELASTIC_RUN_ID"
UNNAMED = "none"
"""torchrun's run id where none was given."""
INTERACTIVE = ("bash", "interactive")
"""Names of SLURM jobs in which Lightning, too, takes processes as started by hand."""
SECONDS = 300
"""How long other nodes may take until their first process asks for the run's name."""


@dataclass(frozen=True)
class Launched:
    """`devices` processes on each of `nodes`, started by `by`."""

    by: str
    devices: int
    nodes: int


def launched(environment: Mapping[str, str] = os.environ) -> Launched | None:
    """By torchrun or srun; None where Lightning starts the other ranks.

    Raises:
        UserError: SLURM's tasks are not shared out evenly.
    """
    if TORCHRUN in environment:
        return Launched("torchrun", int(environment["LOCAL_WORLD_SIZE"]), int(environment["GROUP_WORLD_SIZE"]))
    if "SLURM_NTASKS" not in environment or environment.get("SLURM_JOB_NAME") in INTERACTIVE:
        return None
    tasks, nodes = int(environment["SLURM_NTASKS"]), int(environment.get("SLURM_NNODES", "1"))
    if tasks % nodes:
        raise UserError(f"SLURM has {tasks} tasks on {nodes} nodes; take as many on each: srun --ntasks-per-node=...")
    return Launched("srun", tasks // nodes, nodes)


def count(what: str, alone: int | str) -> int | str:
    """`devices` or `nodes` as they were started, or `alone` where they were not: the resolver of conf/trainer."""
    found = launched()
    return alone if found is None else int(getattr(found, what))


def rank_overrides(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Hydra's options of a rank that was started from outside and is not the first: its log beside the first one's, and
    none of the files that the first writes. Lightning gives them to the ranks that it starts."""
    rank = environment.get("RANK", "0") if TORCHRUN in environment else environment.get("SLURM_PROCID", "0")
    if launched(environment) is None or rank == "0":
        return []
    return ["hydra.output_subdir=null", f"hydra.job.name=train_ddp_process_{rank}"]


def run_stamp(restarts: bool) -> str:
    """One directory name for all ranks and restarts of a job: SLURM's or torchrun's id, else the time and the process.

    Args:
        restarts: of one task of SLURM too, where another run of the same job must not meet this one.
    """
    if TORCHRUN not in os.environ:
        several = (found := launched()) is not None and found.devices * found.nodes > 1
        if (restarts or several) and "SLURM_JOB_ID" in os.environ:
            return os.environ["SLURM_JOB_ID"]
        return stamp(os.getpid())
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and (job := os.environ[TORCHRUN]) != UNNAMED:
        return job
    if int(os.environ.get("GROUP_WORLD_SIZE", "1")) > 1:
        return agreed(stamp(os.getppid()))
    return stamp(os.getppid())


def stamp(process: int) -> str:
    return time.strftime("%Y%m%d-%H%M%S", time.localtime(began(process))) + f"-{process}"


def began(process: int) -> float:
    """When a process started (seconds since the epoch), so that ranks of one launcher agree; now where it can't be
    told."""
    try:
        return os.stat(f"/proc/{process}").st_ctime
    except OSError:
        return time.time()


def agreed(name: str) -> str:
    """The first rank's name, over the store that torchrun keeps for its processes on all nodes.

    Raises:
        UserError: there is none.
    """
    from torch.distributed import DistError, TCPStore  # type: ignore[attr-defined]

    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    try:
        store = TCPStore(address, port, is_master=False, timeout=timedelta(seconds=SECONDS))
        if os.environ["RANK"] == "0":
            store.set("relformer/run", name)
        return str(store.get("relformer/run").decode())
    except (DistError, RuntimeError) as error:
        raise UserError(
            f"the nodes can't agree on a run directory over {address}:{port} ({str(error).splitlines()[0]}); name the "
            "run: torchrun --rdzv-id=NAME ..."
        ) from None
