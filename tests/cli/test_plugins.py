"""A user's own encoding in a package of its own, and a package that is broken."""

from pathlib import Path

from tests.cli.runs import TINY, metrics, relformer, run_directories

SLOTS = ("encoding", "decoder_encoding")
ENCODING = '''"""A bias that falls with the square of the distance."""

import torch
from torch import Tensor, nn

from relformer.encodings import PositionalEncoding
from relformer.errors import OptionError
from relformer.registry import register


@register("parabola", family="bias", changes="logits, by distance")
class Parabola(PositionalEncoding):
    def __init__(self, heads: int, *, steepness: float = 0.5) -> None:
        super().__init__()
        if steepness < 0:
            raise OptionError("steepness", steepness, "must not be negative")
        self.steepness = steepness
        self.strength = nn.Parameter(torch.ones(heads))

    def table(self, distance: Tensor) -> Tensor:
        return -self.steepness * self.strength[:, None] * distance.square()
'''


def distribution(site: Path, name: str, module: str) -> None:
    """What an installer leaves of a package with an entry point."""
    folder = site / f"{name}-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(f"[relformer.plugins]\n{name} = {module}\n")


def yaml(folder: Path, name: str, more: str = "") -> None:
    folder.mkdir(parents=True)
    (folder / f"{name}.yaml").write_text(
        f"# Mine.\ndefaults: [schema@_here_: parabola, _self_]\nname: parabola\n{more}"
    )


def site_packages(tmp_path: Path) -> dict[str, str]:
    site = tmp_path / "site"
    package = site / "parabolic"
    yaml(package / "conf" / "encoding", "parabola")
    (package / "__init__.py").touch()
    (package / "encoding.py").write_text(ENCODING)
    distribution(site, "parabolic", "parabolic.encoding")
    (site / "broken.py").write_text("import nothing_of_that_name\n")
    distribution(site, "broken", "broken")
    return {"PYTHONPATH": str(site)}


def test_a_plugin_trains_beside_a_broken_one(tmp_path: Path) -> None:
    """`steep` is the user's own file, found by --config-dir; `parabola` comes with the package."""
    env = site_packages(tmp_path)
    yaml(tmp_path / "mine" / "encoding", "steep", "steepness: 2\n")
    arguments = ("--config-dir", str(tmp_path / "mine"), "encoding=steep", "decoder_encoding=parabola")
    more = ("decoder_encoding.steepness=.25", "trainer.max_steps=2", "logger=csv", "paths.log_dir=runs")
    ended = relformer(*TINY, *arguments, *more, cwd=tmp_path, env=env, script=True).succeeded()
    assert "plugin 'broken' (broken) could not be loaded" in ended.error and "nothing_of_that_name" in ended.error
    assert "Traceback" not in ended.error
    (run,) = run_directories(tmp_path / "runs")
    found = metrics(run)
    slots = [(found["config"][slot]["name"], found["config"][slot]["steepness"]) for slot in SLOTS]
    assert slots == [("parabola", 2.0), ("parabola", 0.25)]
    assert found["checkpoints"]["last"]["step"] == 2
    assert found["cost"]["position_parameters"] == 2 * 4
    assert (run / "heatmaps" / "encoder_step000002.png").exists()


def test_a_plugins_options_are_checked_and_listed(tmp_path: Path) -> None:
    env = site_packages(tmp_path)
    for override, message in (
        ("encoding.stepness=1", "no config key 'encoding.stepness'; did you mean 'encoding.steepness'?"),
        ("encoding.steepness=-1", "encoding.steepness=-1.0 must not be negative"),
    ):
        ended = relformer(*TINY, "encoding=parabola", override, cwd=tmp_path, env=env, script=True)
        assert ended.code == 2 and message in ended.error and "Traceback" not in ended.error
