"""Pairs of texts out of data sets of the Hugging Face hub, or of files in their formats.

Two layouts: a column `translation` of dictionaries by language (`{"en": ..., "de": ...}`), or two columns of text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from relformer.data.text.hub_tables import Table, open_tables
from relformer.errors import OptionError, UserError

_NESTED = "translation"


def refuse(message: str) -> None:
    """What happens to a bad row unless the caller decides otherwise."""
    raise UserError(message)


class HubPairs:
    """Iterates ``(row, source, target)``; rows count from 0, as in `datasets`, over all files of the split.

    Args:
        path: a name on the hub, a folder of `save_to_disk`, a parquet or arrow file, or a folder of such files.
        name: the configuration, on the hub (`de-en`).
        split: None where there is but one; for files the part of their names that marks it.
        revision: branch, tag or commit, on the hub.
        columns: of source and target: languages within `translation`, or columns.
        on_bad: called with a sentence for each row that is not two texts; if it returns, the row is left out.

    Raises:
        UserError: what can't be found or reached, and what there is instead.
    """

    def __init__(
        self,
        path: str,
        name: str | None = None,
        split: str | None = None,
        revision: str | None = None,
        columns: Sequence[str] = ("source", "target"),
        on_bad: Callable[[str], None] = refuse,
    ) -> None:
        if len(columns) != 2 or columns[0] == columns[1]:
            raise OptionError("columns", list(columns), "must name two: of the source and of the target")
        self.where = path if split is None else f"{path} ({split})"
        self.columns, self.on_bad = tuple(columns), on_bad
        tables = open_tables(path, name, split, revision)
        self._tables = [(table, self._nested(table)) for table in tables]

    def __iter__(self) -> Iterator[tuple[int, str, str]]:
        for row, pair in enumerate(row for batch in self._batches() for row in batch):
            wrong = [column for column, text in zip(self.columns, pair, strict=True) if not isinstance(text, str)]
            if wrong:
                value = pair[self.columns.index(wrong[0])]
                found = "null" if value is None else f"{value!r:.40}"
                self.on_bad(f"{self.where}: row {row} (from 0): {wrong[0]!r} is {found}, not text")
            else:
                yield row, pair[0], pair[1]

    def digest(self) -> str:
        """Of the two columns' content alone: the same for the same texts in another file format or place."""
        state = hashlib.sha256()
        for batch in self._batches():
            for pair in batch:
                state.update(json.dumps(pair, default=repr).encode())
        return state.hexdigest()

    def _batches(self) -> Iterator[list[tuple[Any, Any]]]:
        import pyarrow

        for table, nested in self._tables:
            try:
                yield from self._rows(table, nested)
            except (OSError, pyarrow.ArrowException, UnicodeDecodeError) as error:
                raise UserError(f"{table.where} is damaged: {' '.join(str(error).split())}") from None

    def _rows(self, table: Table, nested: bool) -> Iterator[list[tuple[Any, Any]]]:
        source, target = self.columns
        if nested:
            for batch in table.batches([_NESTED]):
                rows = (row or {} for row in batch.column(_NESTED).to_pylist())
                yield [(row.get(source), row.get(target)) for row in rows]
        else:
            for batch in table.batches(self.columns):
                pairs = zip(batch.column(source).to_pylist(), batch.column(target).to_pylist(), strict=True)
                yield list(pairs)

    def _nested(self, table: Table) -> bool:
        """Whether the columns are languages within `translation`.

        Raises:
            UserError: they are neither these nor columns of the table.
        """
        try:
            columns = list(table.schema.names)
        except UnicodeDecodeError as error:
            raise UserError(f"{table.where} is damaged: {error}") from None
        if set(self.columns) <= set(columns):
            return False
        kind: Any = table.schema.field(_NESTED).type if _NESTED in columns else None
        languages = [kind.field(i).name for i in range(getattr(kind, "num_fields", 0))]
        if set(self.columns) <= set(languages):
            return True
        missing = next(column for column in self.columns if column not in languages + columns)
        inside = f"; {_NESTED} has {', '.join(languages)}" if languages else ""
        raise UserError(f"{table.where} has no column or language {missing!r}; it has {', '.join(columns)}{inside}")
