"""The shipped YAML as plain values, for those who build without Hydra."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from relformer.errors import UserError
from relformer.registry import did_you_mean


def conf_dir() -> Path:
    """The shipped configuration: inside the package in a wheel, beside it in a checkout."""
    package = Path(__file__).parent
    inside = package / "conf"
    return inside if (inside / "train.yaml").exists() else package.parent / "conf"


def preset(group: str, name: str) -> dict[str, Any]:
    """What `conf/GROUP/NAME.yaml` sets.

    Raises:
        UserError: there is no such file.
    """
    names = sorted(path.stem for path in (conf_dir() / group).glob("*.yaml"))
    if name not in names:
        raise UserError(f"no {group} {name!r}{did_you_mean(name, names)}\n  {group}: {', '.join(names)}")
    file = conf_dir() / group / f"{name}.yaml"
    content: dict[str, Any] = OmegaConf.to_container(OmegaConf.load(file))  # type: ignore[assignment]
    content.pop("defaults", None)
    return content
