"""Arguments of the commands that are not configurations: paths, and options as `--name value` or `name=value`."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from relformer.errors import UserError
from relformer.registry import did_you_mean


class Arguments(argparse.ArgumentParser):
    """Faults are the user's and end in a sentence, with the usage below it. Options are shown as `name=value`."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{as_shown(message)}\n{self.format_usage().rstrip()}")

    def format_usage(self) -> str:
        return as_shown(super().format_usage())

    def format_help(self) -> str:
        return as_shown(super().format_help())

    def parsed(self, arguments: Sequence[str], overrides: bool = False) -> argparse.Namespace:
        """Both spellings of an option, wherever they stand among the paths.

        Args:
            overrides: whether a `name=value` that is no option may be a configuration's.

        Raises:
            UserError: an option that is not there, or not as it must be.
        """
        names = "|".join(a.dest for a in self._actions if a.option_strings and a.dest != "help")
        spelt = [re.sub(rf"^({names})=", r"--\1=", argument) for argument in arguments]
        for argument in spelt:
            name = re.match(r"(\w+)=", argument)
            if name and not overrides and not Path(argument).exists():
                known = names.split("|")
                raise UserError(f"no option {name[1]!r}{did_you_mean(name[1], known)}\n  options: {', '.join(known)}")
        return self.parse_intermixed_args(spelt)


def as_shown(text: str) -> str:
    """`--name VALUE` as `name=VALUE`, what stands behind it where it stood; flags stay."""
    return re.sub(r"--(?!help|\w+-)(\w+) ?(?:(\S+  +))?", lambda m: f"{m[1]}={m[2] + '  ' if m[2] else ''}", text)


def file_to_write(text: str) -> Path:
    """An argument's `type`: a file that can be written, known before the work that it is for.

    Raises:
        argparse.ArgumentTypeError: it is a folder, or can't lie where it is said to.
    """
    path = Path(text)
    if not text or path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is a folder; name a file in it" if text else "name a file")
    folder_to_write(str(path.parent))
    return path


def folder_to_write(text: str) -> Path:
    """An argument's `type`: a folder, there or not, that can be written to.

    Raises:
        argparse.ArgumentTypeError: it is a file or below one, or may not be written to.
    """
    path = Path(text)
    there = next(each for each in (path, *path.parents) if each.exists())
    if not there.is_dir():
        raise argparse.ArgumentTypeError(f"{there} is a file and can't hold others; name a folder")
    if not os.access(there, os.W_OK):
        raise argparse.ArgumentTypeError(f"{there} may not be written to; name another place")
    return path
