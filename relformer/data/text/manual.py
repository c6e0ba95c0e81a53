"""English text that comes with Python: the language reference and parts of the library reference.

Some 330,000 characters in CPython's `pydoc_data.topics`, under the licence of the PSF. They change with the version of
Python. Where a distribution leaves that module out, the docstrings of the standard library stand in for it.
"""

from __future__ import annotations

import ast
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from relformer.errors import UserError

_RULE = re.compile(r"[^\w\s]{3,}[^\w]*")
"""An underline, or a line of a table."""


def paragraphs() -> Iterator[str]:
    """One line of text a paragraph, in a fixed order; drawn lines are left out, white space is single spaces.

    The manual's topics overlap, by a fifth of their text. A paragraph comes once, so that held-out ones are unseen.

    Raises:
        UserError: this Python has neither the manual nor the sources of its standard library.
    """
    seen: set[str] = set()
    for text in _manual() or _docstrings():
        for block in re.split(r"\n[ \t]*\n", text):
            lines = [line for line in block.splitlines() if not _RULE.fullmatch(line.strip())]
            paragraph = " ".join(" ".join(lines).split())
            if paragraph and paragraph not in seen:
                seen.add(paragraph)
                yield paragraph


def _manual() -> list[str]:
    try:
        from pydoc_data.topics import topics
    except ImportError:
        return []
    return [text for _, text in sorted(topics.items())]


def _docstrings() -> Iterator[str]:
    """Read from the sources: importing every module would run it."""
    folder = Path(sysconfig.get_path("stdlib"))
    found = False
    for source in sorted(folder.glob("*.py")):
        for node in ast.walk(ast.parse(source.read_bytes())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
                found = True
                yield text
    if not found:
        raise UserError(f"this Python has neither pydoc_data.topics nor docstrings in {folder}; give your own text")
