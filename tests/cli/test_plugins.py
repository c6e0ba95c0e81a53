"""A user's own encoding in a package of its own, and a package that is broken."""

from pathlib import Path

from relformer.config import SLOTS
from tests.cli.runs import ROOT, TINY, metrics, relformer, run_directories

ENCODING = '''"""A bias that falls with the square of the distance."""

from torch import Tensor

from relformer.encodings import PositionalEncoding, parameter
from relformer.encodings.parameters import constant
from relformer.errors import OptionError
from relformer.registry import register


@register("parabola", family="bias", changes="logits, by distance")
class Parabola(PositionalEncoding):
    def __init__(self, heads: int, *, steepness: float = 0.5) -> None:
        super().__init__()
        if steepness < 0:
            raise OptionError("steepness", steepness, "must not be negative")
        self.steepness = steepness
        self.strength = parameter(constant(1.0), heads)

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
    """`steep` and `elsewhere` are the user's own files, found by --config-dir; `parabola` comes with the package."""
    env = site_packages(tmp_path)
    yaml(tmp_path / "mine" / "encoding", "steep", "steepness: 2\n")
    target = "name: elsewhere\n_target_: parabolic.encoding.Parabola\nsteepness: 3.0\n"
    (tmp_path / "mine" / "encoding" / "elsewhere.yaml").write_text(target)
    slots = (
        "encoding=steep",
        "decoder_encoding=parabola",
        "decoder_encoding.steepness=.25",
        "cross_encoding=elsewhere",
    )
    more = (*slots, "--config-dir", str(tmp_path / "mine"), "trainer.max_steps=2", "logger=csv", "paths.log_dir=runs")
    ended = relformer(*TINY, *more, cwd=tmp_path, env=env, script=True).succeeded()
    assert "plugin 'broken' (broken) could not be loaded" in ended.error and "nothing_of_that_name" in ended.error
    assert "Traceback" not in ended.error
    (run,) = run_directories(tmp_path / "runs")
    found = metrics(run)
    chosen = [(found["config"][slot]["name"], found["config"][slot]["steepness"]) for slot in SLOTS]
    assert chosen == [("parabola", 2.0), ("parabola", 0.25), ("elsewhere", 3.0)]
    assert found["checkpoints"]["last"]["step"] == 2
    assert found["cost"]["position_parameters"] == 3 * 4
    assert (run / "heatmaps" / "encoder_step000002.png").exists()


def test_options_of_a_plugin_are_checked_as_ours(tmp_path: Path) -> None:
    override = "encoding.stepness=1"
    ended = relformer(*TINY, "encoding=parabola", override, cwd=tmp_path, env=site_packages(tmp_path), script=True)
    assert ended.code == 2 and "Traceback" not in ended.error
    assert "no config key 'encoding.stepness'; did you mean 'encoding.steepness'?" in ended.error
    assert run_directories(tmp_path) == []


def test_a_plugin_passes_the_checks_of_every_encoding(tmp_path: Path) -> None:
    env = site_packages(tmp_path)
    env["PYTHONPATH"] += f":{ROOT}"
    for target in ("parabola", "parabolic.encoding:Parabola"):
        ended = relformer("encodings", "check", target, "steepness=0.01", cwd=tmp_path, env=env)
        assert (ended.code, ended.out.strip()) == (0, f"{target}: nothing wrong found"), ended.error
    refused = relformer("encodings", "check", "parabola", "steepness=-1", cwd=tmp_path, env=env)
    assert refused.code == 2 and "steepness=-1 must not be negative" in refused.error
