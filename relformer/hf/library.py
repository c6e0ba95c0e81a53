"""The door to transformers: imported here and nowhere else, with its faults as sentences."""

from __future__ import annotations

import logging
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from relformer.errors import UserError

SCHEME = "hf:"
FAMILIES = ("t5", "mt5", "marian", "bart")
logger = logging.getLogger("relformer")


def transformers() -> ModuleType:
    """Raises UserError where it is not installed."""
    try:
        return import_module("transformers")
    except ImportError:
        raise UserError("models of the hub need transformers; install it: pip install 'relformer[hf]'") from None


def load_model(path: str) -> Any:
    """The model at a folder, or of that name on the hub, on the CPU in float32.

    Raises:
        UserError: there is none, or it is of a family that relformer has no options for.
    """
    if (path.startswith(("/", ".", "~")) or path.count("/") > 1) and not Path(path).is_dir():
        raise UserError(f"{path} is not a folder; name one, or a model on the hub: hf:google-t5/t5-small")
    library = transformers()
    library.utils.logging.set_verbosity_error()  # what it would say of tied weights is settled by `families.tying`
    library.utils.logging.disable_progress_bar()
    config = guarded(library.AutoConfig.from_pretrained, path)
    if config.model_type not in FAMILIES:
        raise UserError(
            f"{path} is a model of type {config.model_type!r}; relformer imports {', '.join(FAMILIES)} "
            "(T5 1.1 and Flan are of type t5)"
        )
    model, report = guarded(
        library.AutoModelForSeq2SeqLM.from_pretrained,
        path,
        dtype="float32",
        attn_implementation="eager",
        output_loading_info=True,
    )
    if missing := sorted(report["missing_keys"]):
        raise UserError(f"{path} lacks {len(missing)} tensors of its model, such as {missing[0]}; it is not whole")
    return model.eval()


def guarded(load: Any, path: str, **options: Any) -> Any:
    """What transformers loads from a path.

    Raises:
        UserError: it can't, in the first sentence of its reason.
    """
    try:
        return load(path, **options)
    except (OSError, ValueError, ImportError, KeyError) as error:
        said = " ".join(str(error).split())
        raise UserError(f"{path} can't be loaded by transformers: {said[:300]}") from None
