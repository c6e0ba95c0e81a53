"""Arguments of the commands that are not configurations: paths, and options as `--name value` or `name=value`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import NoReturn

from relformer.errors import UserError


class Arguments(argparse.ArgumentParser):
    """Faults are the user's and end in a sentence, with the usage below it."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}\n{self.format_usage().rstrip()}")

    def parsed(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Both spellings of an option, wherever they stand among the paths."""
        names = "|".join(a.dest for a in self._actions if a.option_strings and a.dest != "help")
        spelt = [re.sub(rf"^({names})=", r"--\1=", argument) for argument in arguments]
        return self.parse_intermixed_args(spelt)
