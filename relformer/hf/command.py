"""`relformer import PATH to=FOLDER`: a checkpoint of the hub as the folder of a run. `relformer export RUN hf=FOLDER`:
a run as a folder of the hub."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from relformer.config import prepare
from relformer.data.text.imported import ImportedTokenizer
from relformer.data.vocabulary import Coder
from relformer.errors import UserError
from relformer.files import replacing, write_json, write_text
from relformer.hf.exporting import to_hf_t5
from relformer.hf.importing import from_hf
from relformer.hf.library import SCHEME
from relformer.report.reading import LOG
from relformer.training.resume import refuse_occupied
from relformer.training.sealing import LAST, write_sealed
from relformer.training.trained import open_run


def import_command(arguments: Sequence[str]) -> None:
    """Raises UserError: arguments that are not `PATH [to=FOLDER]`, or what `import_run` raises."""
    paths = [argument for argument in arguments if not re.match(r"\w+=", argument)]
    options = dict(argument.split("=", 1) for argument in arguments if argument not in paths)
    if len(paths) != 1 or (options.keys() - {"to"}):
        raise UserError(
            "import needs one model and a folder: relformer import hf:google-t5/t5-small to=runs/imported/t5"
        )
    path = paths[0].removeprefix(SCHEME)
    to = Path(options.get("to") or f"runs/imported/{Path(path).name}")
    import_run(path, to)
    print(f"run         {to}\ntranslate   relformer translate {to} input=FILE")


def export_command(run: str, arguments: Sequence[str]) -> None:
    """Raises UserError: no such run, no `hf=FOLDER`, or what `to_hf_t5` raises; other options are the run's."""
    prepare()
    folders = [argument.removeprefix("hf=") for argument in arguments if argument.startswith("hf=")]
    if len(folders) != 1 or not folders[0]:
        raise UserError("export needs a folder: relformer export runs/.../STAMP hf=FOLDER")
    trained = open_run(run, [argument for argument in arguments if not argument.startswith("hf=")])
    print(f"T5          {to_hf_t5(trained.module, folders[0])}")


def import_run(path: str, to: Path) -> None:
    """Make of a checkpoint of the hub a run before its first step: a checkpoint, its tokenizers and settings.

    Raises:
        UserError: as `from_hf`; or the folder holds a run already.
    """
    try:
        refuse_occupied(None, to)
    except UserError:
        raise UserError(f"to={to} already holds a run; choose another folder") from None
    config, state, coders = from_hf(path)
    with replacing(to / "checkpoints" / LAST) as temporary:
        write_sealed(as_checkpoint(config, state), temporary, 0)
    sides = dict(zip(("source_tokenizer", "target_tokenizer"), coders, strict=True))
    for name, coder in ({"tokenizer": coders[0]} if coders[0] is coders[1] else sides).items():
        save_tokenizer(coder, to / f"{name}.json")
    settings = {key: part for key, part in config.items() if key not in ("vocabulary", "fingerprint")}
    write_json(to / ".hydra" / "config.yaml", settings | {"imported": path})  # JSON is YAML
    write_text(to / LOG, "step\n")


def as_checkpoint(config: dict[str, Any], state: dict[str, Tensor]) -> dict[str, Any]:
    """What Lightning reads a module of, without the state of a training."""
    from lightning import __version__

    return {
        "state_dict": {f"model.{name}": tensor for name, tensor in state.items()},
        "hyper_parameters": {"config": config},
        "pytorch-lightning_version": __version__,
        "global_step": 0,
        "epoch": 0,
        "loops": {},
    }


def save_tokenizer(coder: Coder, path: Path) -> None:
    if isinstance(coder, ImportedTokenizer):
        write_text(path, coder.text.json)
