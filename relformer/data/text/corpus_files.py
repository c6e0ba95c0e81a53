"""One corpus as the files it is read from, whatever they hold."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from relformer.data.text.opening import digest, readable_once
from relformer.data.text.reading import Reading


class CorpusFiles:
    """Files that are read as one, in this order."""

    paths: list[Path]
    reading: Reading

    @property
    def manner(self) -> str:
        """Whatever beside the files decides what is read from them."""
        return repr(replace(self.reading, folder=None))

    @property
    def name(self) -> str:
        """The file's name, and how many follow."""
        more = f" and {len(self.paths) - 1} more" if len(self.paths) > 1 else ""
        return f"{self.paths[0].name}{more}"

    @property
    def once(self) -> bool:
        """Whether it can be read a single time only (a pipe): no digest then, and what is to be read again is to be
        kept."""
        return any(map(readable_once, self.paths))

    def digest(self) -> str:
        """Of the bytes of all files in their order and the manner of reading them, in hexadecimal; names don't count.

        Raises:
            UserError: a file can't be read, or only once.
        """
        return hashlib.blake2b("\n".join([self.manner, *map(digest, self.paths)]).encode(), digest_size=20).hexdigest()
