"""Composing configurations in the tests' own process, as the command line does before it runs anything."""

from omegaconf import DictConfig, OmegaConf

from relformer.check import check
from relformer.config import compose, conf_dir, prepare, slots_chosen

SMALL = ("data=reverse", "data.examples=200", "data.examples_per_length=4")
"""Overrides of a run whose data are generated in no time."""

GIVEN = {"scan", "text_files", "multi30k", "cogs", "pcfg", "denoising", "hub", "wmt14", "opus100", "iwslt2017"}
"""Data that are not generated in a number to choose."""

prepare()


def composed(*overrides: str) -> DictConfig:
    """A small run's configuration, slots spelt as on the command line; an experiment's in its own size."""
    given = {o.partition("=")[2] for o in overrides if o.startswith("data=")}
    small = () if GIVEN & given or any(o.startswith("experiment=") for o in overrides) else SMALL
    return compose(slots_chosen((*small, *overrides)))


def checked(*overrides: str) -> DictConfig:
    """The same, refused if it has faults."""
    config = composed(*overrides)
    check(config)
    return config


def names(group: str) -> list[str]:
    """The options of a config group, by the files in it."""
    return sorted(path.stem for path in (conf_dir() / group).glob("*.yaml"))


def variants() -> list[tuple[str, str, str]]:
    """The groups beside the experiments: an experiment that has one, the group in `experiment/`, and each option."""
    folder = conf_dir() / "experiment"
    found = []
    for path in sorted(folder.glob("*/*.yaml")):
        group = path.parent.name
        parents = [
            name for name in names("experiment") if f"/experiment/{group}:" in (folder / f"{name}.yaml").read_text()
        ]
        found += [(parents[0], group, path.stem)] if parents else []
    return found


def groups() -> list[str]:
    return sorted(path.name for path in conf_dir().iterdir() if path.is_dir())


def without_hydra(config: DictConfig) -> DictConfig:
    """What Hydra would hand to the run."""
    return OmegaConf.masked_copy(config, [key for key in config if key != "hydra"])
