"""What reading did to the data beside handing it on: counted, and said once."""

from __future__ import annotations

from typing import Any


class Notes:
    """Counts of what was left out, removed or found odd, each with the first place where it happened.

    `total` is the number of examples met, those left out included, and `dropped` of them were left out. The state is
    JSON, so that a cached corpus can say again what reading it said.
    """

    def __init__(self) -> None:
        self.total = 0
        self.dropped = 0
        self._found: dict[str, tuple[int, str]] = {}

    def count(self, what: str, where: str, dropped: bool = False) -> None:
        """One more `what` at `where` (``train.en:17``); `what` starts with a noun that takes an ``s``."""
        times, first = self._found.get(what, (0, where))
        self._found[what] = times + 1, first
        self.dropped += dropped

    def lines(self) -> list[str]:
        """``3 pairs with an empty side left out (first: train.en:17)``, in the order in which they were first met."""
        return [f"{_plural(times, what)} (first: {first})" for what, (times, first) in self._found.items()]

    def state(self) -> dict[str, Any]:
        found = {what: [times, first] for what, (times, first) in self._found.items()}
        return {"total": self.total, "dropped": self.dropped, "found": found}

    @classmethod
    def restored(cls, state: dict[str, Any]) -> Notes:
        notes = cls()
        notes.total, notes.dropped = state["total"], state["dropped"]
        notes._found = {what: (times, first) for what, (times, first) in state["found"].items()}
        return notes


def _plural(times: int, what: str) -> str:
    noun, _, rest = what.partition(" ")
    return f"{times:,} {noun}{'' if times == 1 else 's'} {rest}".rstrip()
