"""Names that become one element of a path."""

from __future__ import annotations

from relformer.errors import UserError

LONGEST = 200
"""Bytes; file systems take 255, and a number may come before a name."""
QUOTING = '"\\$'
"""What would end or fill the quoted paths that ranks and a sweep's jobs are told."""


def path_element(name: str, option: str = "name") -> str:
    """The name, if it is safe as the name of one folder.

    Raises:
        UserError: it leads elsewhere, or no folder can be called so.
    """
    if fault := fault_of(name):
        raise UserError(f"{option}={name!r} {fault}")
    return name


def fault_of(name: str) -> str | None:
    if name in ("", ".", ".."):
        return "is no name of a folder"
    if "/" in name:
        return "is not one folder's name; to have runs in a folder of their own set paths.log_dir"
    if len(name.encode(errors="replace")) > LONGEST:
        return f"is longer than {LONGEST} bytes"
    return unprintable(name)


def unprintable(text: str) -> str | None:
    """What is wrong with the characters of a name or a path."""
    odd = next((character for character in text if not character.isprintable() or character in QUOTING), None)
    return None if odd is None else f"holds {odd!r}, which a folder's name can't have here"
