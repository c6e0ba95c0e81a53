"""A run's configuration in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omegaconf import DictConfig


def compose(overrides: Sequence[str] = (), *, checked: bool = False, config_dir: str | None = None) -> DictConfig:
    """The configuration that `relformer train OVERRIDES` would run with: `compose(["encoding=alibi"]).encoding`.

    Args:
        checked: also build model and data of it and raise all that doesn't fit, as a run does before it starts.
        config_dir: a folder of one's own YAML, laid out like `conf/`.

    Raises:
        UserError: an unknown key or option with the nearest known one, a value of the wrong type, a list of values,
            or a string where a list belongs.
    """
    from omegaconf import open_dict

    from relformer import UserError
    from relformer.check import check
    from relformer.config import compose as composed
    from relformer.config import prepare, slots_chosen
    from relformer.training.launch import refuse_sweep

    if isinstance(overrides, str):
        raise UserError(f"compose takes a list of overrides, not one string; write [{overrides!r}]")
    prepare(config_dir)
    chosen = slots_chosen(overrides)
    refuse_sweep(chosen)
    config = composed(chosen)
    if checked:
        check(config)
    with open_dict(config):
        del config["hydra"]
    return config
