"""Arguments of the commands that are not configurations: paths, and options as `--name value` or `name=value`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from relformer.errors import UserError
from relformer.registry import did_you_mean


class Arguments(argparse.ArgumentParser):
    """Faults are the user's and end in a sentence, with the usage below it."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}\n{self.format_usage().rstrip()}")

    def parsed(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Both spellings of an option, wherever they stand among the paths."""
        names = "|".join(a.dest for a in self._actions if a.option_strings and a.dest != "help")
        spelt = [re.sub(rf"^({names})=", r"--\1=", argument) for argument in arguments]
        for argument in spelt:
            name = re.match(r"(\w+)=", argument)
            if name and not Path(argument).exists():
                known = names.split("|")
                raise UserError(f"no option {name[1]!r}{did_you_mean(name[1], known)}\n  options: {', '.join(known)}")
        return self.parse_intermixed_args(spelt)
