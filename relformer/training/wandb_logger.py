"""W&B beside a training that does not depend on it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from lightning.pytorch.loggers import WandbLogger


class SteadyWandbLogger(WandbLogger):
    """Says once that W&B does not take what is logged, its service being dead or its disk full, and goes on without."""

    lost = False

    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Pictures too."""
        import wandb

        if self.lost:
            return
        try:
            super().log_metrics(metrics, step)
        except (OSError, TimeoutError, wandb.Error) as error:
            self.lost = True
            said = (
                f"warning: W&B takes nothing any more ({type(error).__name__}: {error}); training goes on without it, "
            )
            print(f"{said}and csv/metrics.csv has every figure", file=sys.stderr)
            let_go()


def let_go() -> None:
    """Forget a dead service: at the interpreter's end W&B would print a traceback about it."""
    import wandb

    with suppress(Exception):
        wandb.teardown()
    wandb.run = None
