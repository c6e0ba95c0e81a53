"""Opening what the Hugging Face `datasets` library reads: names on the hub, saved folders, parquet and arrow files.

The library is an extra and imported on use. Code that comes with a data set is never run: `trust_remote_code` is not
passed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from relformer.errors import UserError
from relformer.registry import did_you_mean

logger = logging.getLogger("relformer")
_BATCH = 1000
_LOCAL = (".parquet", ".arrow")


@dataclass(frozen=True)
class Table:
    """Rows in order: an arrow schema, and batches of the columns asked for (arrow tables or record batches)."""

    where: str
    schema: Any
    batches: Callable[[Sequence[str]], Iterator[Any]]


def open_tables(path: str, name: str | None, split: str | None, revision: str | None) -> list[Table]:
    """The tables that hold the rows of a split, in order.

    Raises:
        UserError: the library is missing, or a path, configuration, split or revision is, or it can't be read.
    """
    local = Path(path).expanduser()
    if local.is_dir() and any((local / mark).exists() for mark in ("state.json", "dataset_dict.json")):
        return [_table(_split(_library("datasets").load_from_disk(str(local)), path, split), path)]
    if local.exists():
        return [_file(file) for file in _files(local, split)]
    if local.suffix in _LOCAL or path.startswith((".", "/", "~")):
        raise UserError(f"{local.absolute()} does not exist")
    return [_table(_split(_download(path, name, split, revision), path, split), path)]


def _library(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise UserError(f"data sets of the hub need {error.name}: pip install 'relformer[hub]'") from None


def _download(path: str, name: str | None, split: str | None, revision: str | None) -> Any:
    datasets = _library("datasets")
    datasets.config.HF_DATASETS_TRUST_REMOTE_CODE = False  # versions before 4 take it from the environment
    if not datasets.config.HF_HUB_OFFLINE:
        logger.info("looking for %s on the Hugging Face hub", path)
    hub = logging.getLogger("huggingface_hub")
    level = hub.level
    hub.setLevel(logging.ERROR)  # it would tell of each attempt; what matters is the last one
    try:
        return datasets.load_dataset(path, name, split=split, revision=revision)
    except ConnectionError as error:
        raise UserError(
            f"there is no folder {path!r} here, and the hub can't be reached ({_message(error)}); "
            "where there is a network, save it with save_to_disk and give that folder"
        ) from None
    except (ValueError, FileNotFoundError, RuntimeError) as error:
        # What is wrong with a name, a configuration, a split, a revision, or a data set that is a script.
        raise UserError(f"the hub's data set {path!r} can't be loaded: {_message(error)}") from None
    finally:
        hub.setLevel(level)


def _message(error: Exception) -> str:
    return " ".join(str(error).split())


def _split(loaded: Any, path: str, split: str | None) -> Any:
    """The chosen split of a dictionary of them, or the data set itself where it has no others."""
    if not isinstance(loaded, dict):
        if split is not None and loaded.split is not None and str(loaded.split) != split:
            raise UserError(f"{path} is the split {str(loaded.split)!r}, not {split!r}")
        return loaded
    if split is None and len(loaded) == 1:
        return next(iter(loaded.values()))
    if split is None:
        raise UserError(f"{path} has the splits {', '.join(loaded)}; choose one with `split`")
    if split not in loaded:
        raise UserError(f"{path} has no split {split!r}{did_you_mean(split, loaded)}; it has {', '.join(loaded)}")
    return loaded[split]


def _table(dataset: Any, where: str) -> Table:
    def batches(columns: Sequence[str]) -> Iterator[Any]:
        return dataset.select_columns(list(columns)).with_format("arrow").iter(_BATCH)

    return Table(where, dataset.features.arrow_schema, batches)


def _files(path: Path, split: str | None) -> list[Path]:
    """Parquet and arrow files by name; where `split` is set, those that have it in their name or folder."""
    found = [path] if path.is_file() else sorted(f for f in path.rglob("*") if f.suffix in _LOCAL)
    if not found or found[0].suffix not in _LOCAL:
        raise UserError(f"{path} holds no .parquet or .arrow file; text, TSV and JSONL files are data=text_files")
    if split is None:
        return found
    root = path.parent if path.is_file() else path
    chosen = [f for f in found if split in re.split(r"[^A-Za-z0-9_]+", str(f.relative_to(root)))]
    if not chosen:
        names = ", ".join(str(f.relative_to(root)) for f in found[:5])
        more = f" and {len(found) - 5} more" if len(found) > 5 else ""
        raise UserError(f"no file name in {path} has the split {split!r} in it: {names}{more}; null takes all files")
    return chosen


def _file(path: Path) -> Table:
    pyarrow, parquet = _library("pyarrow"), _library("pyarrow.parquet")
    try:
        if path.suffix == ".parquet":
            return Table(
                str(path),
                parquet.read_schema(path),
                lambda columns: parquet.ParquetFile(path).iter_batches(_BATCH, columns=list(columns)),
            )
        with _arrow(pyarrow, path) as reader:
            schema = reader.schema
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"{path} is not a readable {path.suffix[1:]} file: {_message(error)}") from None

    def batches(columns: Sequence[str]) -> Iterator[Any]:
        with _arrow(pyarrow, path) as reader:
            indexed = hasattr(reader, "get_batch")
            found = map(reader.get_batch, range(reader.num_record_batches)) if indexed else reader
            for batch in found:
                chosen = batch.select(list(columns))
                chosen.validate(full=True)  # or an offset beyond the data reads foreign memory
                yield chosen

    return Table(str(path), schema, batches)


def _arrow(pyarrow: Any, path: Path) -> Any:
    """`datasets` writes arrow's stream format; feather and others its file format, which begins with ARROW1."""
    source = pyarrow.memory_map(str(path))
    try:
        with open(path, "rb") as file:
            indexed = file.read(6) == b"ARROW1"
        return (pyarrow.ipc.open_file if indexed else pyarrow.ipc.open_stream)(source)
    except Exception:
        source.close()
        raise
