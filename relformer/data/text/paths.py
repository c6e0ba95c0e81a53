"""From what a config says about files to the files, with everything that can be wrong found before one is opened."""

from __future__ import annotations

import difflib
import glob
import os
import re
from collections.abc import Sequence
from pathlib import Path

from relformer.errors import UserError

SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
"""Of compressed files: tried behind a name that doesn't exist as written."""


def resolve(spec: str | Sequence[str], folder: Path | None, option: str) -> list[list[Path]]:
    """The files of each corpus: every item of the list (or the one string) is a corpus of its own.

    An item is a file, a glob (its files sorted by name; ``**`` goes into folders) or a folder whose files are of one
    kind, relative to `folder` or else the working directory. A file by its name as written comes before a glob, and
    one that exists as written before a compressed one beside it. Symbolic links are followed when files are opened.

    Raises:
        UserError: by the config path `option`: nothing there, an empty or unreadable file, a choice that is not clear.
    """
    items = [spec] if isinstance(spec, str) else spec
    if not isinstance(items, Sequence) or not items or not all(isinstance(item, str) and item for item in items):
        raise UserError(f"{option}={spec!r} must be a file name, a glob or a list of them")
    root = Path(os.path.abspath(folder.expanduser() if folder else "."))
    if not root.is_dir():
        raise UserError(f"{option}: the folder {root} does not exist{_nearest(root)}; set data.path")
    return [_checked(_found(root, os.path.expanduser(item), option), option) for item in items]


def without_compression(path: Path) -> Path:
    """``train.en.gz`` -> ``train.en``."""
    return path.with_suffix("") if path.suffix in SUFFIXES else path


def _found(root: Path, item: str, option: str) -> list[Path]:
    """The files that a name or glob means, as absolute paths."""
    path = Path(os.path.abspath(root / item))
    if path.is_dir():
        return _in_folder(path, option)
    if os.path.lexists(path):
        return [path]
    if glob.has_magic(item):
        return _matching(root, item, option)
    compressed = [candidate for suffix in SUFFIXES if (candidate := path.with_name(path.name + suffix)).exists()]
    if len(compressed) > 1:
        raise UserError(f"{option}: {path} does not exist, and {_names(compressed)} both do; name one of them")
    if not compressed:
        raise UserError(f"{option}: {path} does not exist{_nearest(path)}")
    return compressed


def _matching(root: Path, pattern: str, option: str) -> list[Path]:
    """The files that match a glob, or its compressed form where none does."""
    path = root / pattern
    matches = {suffix: _files(root, pattern + suffix) for suffix in ("", *SUFFIXES)}
    plain = matches[""]
    forms = [files for files in matches.values() if any(without_compression(file) not in plain for file in files)]
    if plain and forms and forms != [plain]:
        raise UserError(
            f"{option}: {path} matches {_names(plain)}, and compressed files beside them "
            f"({_names([file for files in forms for file in files if file not in plain])}); say which with another glob"
        )
    if len(forms) > 1:
        raise UserError(f"{option}: {path} matches compressed files of several kinds; add the suffix to the glob")
    if not (files := plain or next(iter(forms), [])):
        raise UserError(f"{option}: no file matches {path}{_nearest(path)}")
    return files


def _files(root: Path, pattern: str) -> list[Path]:
    matches = {Path(os.path.abspath(root / match)) for match in glob.glob(pattern, root_dir=root, recursive=True)}
    return sorted(match for match in matches if not match.is_dir())


def _in_folder(folder: Path, option: str) -> list[Path]:
    """The files in a folder, hidden ones left aside, if there is nothing to choose between."""
    entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    if not entries:
        raise UserError(f"{option}: the folder {folder} is empty; name a file")
    kinds = sorted({without_compression(entry).suffix or "no suffix" for entry in entries})
    if any(entry.is_dir() for entry in entries):
        raise UserError(
            f"{option}: {folder} is a folder with folders in it; name the files with a glob: {folder}/**/*.txt"
        )
    if len(kinds) > 1:
        raise UserError(
            f"{option}: {folder} is a folder with files of several kinds ({', '.join(kinds[:8])}); "
            f"name a file or a glob such as {folder}/*{kinds[0]}"
        )
    return entries


def _checked(paths: list[Path], option: str) -> list[Path]:
    for path in paths:
        if not path.exists():
            raise UserError(f"{option}: {path} is a link to {os.readlink(path)}, which does not exist")
        if not os.access(path, os.R_OK):
            raise UserError(f"{option}: {path} can't be read: its permissions forbid it")
        if path.is_file() and not path.stat().st_size:
            raise UserError(f"{option}: {path} is empty")
    return paths


def _nearest(path: Path) -> str:
    """The names in the folder most like a missing one, or how much of the path exists."""
    parent = path.parent
    if not parent.is_dir():
        while not parent.is_dir():
            parent = parent.parent
        return f"; of its folders only {parent} exists"
    names = sorted(entry.name for entry in parent.iterdir())
    near = difflib.get_close_matches(re.sub(r"[*?\[\]]", "", path.name), names, n=3, cutoff=0.5)
    if near:
        return f"; did you mean {' or '.join(map(repr, near))}?"
    return f"; {parent} holds {_names([Path(name) for name in names])}" if names else f"; {parent} is empty"


def _names(paths: list[Path], most: int = 5) -> str:
    more = f" and {len(paths) - most} more" if len(paths) > most else ""
    return ", ".join(path.name for path in paths[:most]) + more
