"""The tables of `figures.yaml`: rows, and what is said of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from relformer.published.findings import Finding
from relformer.published.rows import Row, rows_of

FILE = Path(__file__).with_name("figures.yaml")


@dataclass(frozen=True)
class Table:
    """Rows with one title; `source` says where their figures stand."""

    title: str
    source: str
    rows: list[Row]
    findings: list[Finding]

    @property
    def claim(self) -> bool:
        """Whether no paper has figures for it."""
        return all(row.published is None for row in self.rows)


def published_tables(path: Path = FILE) -> list[Table]:
    content: Any = OmegaConf.to_container(OmegaConf.load(path))
    return [
        Table(
            table["title"],
            table["source"],
            list(rows_of(table)),
            [Finding.of(each) for each in table.get("findings", [])],
        )
        for table in content["tables"]
    ]
