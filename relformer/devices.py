"""Faults of a configuration that concern the devices it runs on and the processes that were started for it."""

from __future__ import annotations

from collections.abc import Iterator

from omegaconf import DictConfig, ListConfig, OmegaConf

from relformer.errors import OptionError, UserError
from relformer.launched import Launched, launched

PRECISIONS = ("32-true", "bf16-mixed")
"""In which the weights can be shared out."""


def device_faults(config: DictConfig) -> Iterator[UserError]:
    threads = config.hardware.threads
    if threads is not None and threads < 1:
        yield OptionError("threads", threads, "must be at least 1, or null for a share of the cores", "hardware")
    devices, nodes, size = config.trainer.devices, config.trainer.num_nodes, config.data.batch_size
    if not (devices == "auto" or isinstance(devices, ListConfig) or (isinstance(devices, int) and devices >= 1)):
        yield OptionError("devices", devices, "is not a number of devices, a list of them, or auto", "trainer")
    elif isinstance(nodes, int):
        each = devices if isinstance(devices, int) else len(devices) if isinstance(devices, ListConfig) else 1
        if (found := launched()) is not None and devices != "auto":
            yield from launch_faults(found, each, nodes)
        if size is not None and nodes * each > size:
            rule = f"is smaller than the {nodes * each} devices that share it; it is the batch of all devices together"
            yield OptionError("batch_size", size, rule, "data")
    yield from sharding_faults(config)


def launch_faults(found: Launched, devices: int, nodes: int) -> Iterator[UserError]:
    if (devices, nodes) != (found.devices, found.nodes):
        yield UserError(
            f"trainer.devices={devices} with trainer.num_nodes={nodes}, but {found.by} started {found.devices} a node "
            f"on {found.nodes}; leave both out, and start as many as there should be"
        )


def sharding_faults(config: DictConfig) -> Iterator[UserError]:
    strategy, precision = config.trainer.strategy, config.trainer.precision
    if isinstance(strategy, str) and strategy.startswith("fsdp"):
        yield UserError(
            f"trainer.strategy={strategy} is Lightning's own, which our models don't fit; hardware=fsdp is ours"
        )
    if not OmegaConf.is_dict(strategy) or not str(strategy.get("_target_")).endswith(".FullySharded"):
        return
    if config.callbacks.get("ema") is not None:
        yield UserError(
            "callbacks.ema averages whole weights, and hardware=fsdp shares them out; choose hardware=ddp, or "
            "callbacks=averaging, which averages checkpoints"
        )
    if precision not in PRECISIONS:
        rule = f"can't be had with hardware=fsdp; choose one of {', '.join(PRECISIONS)}"
        yield OptionError("precision", precision, rule, "trainer")
