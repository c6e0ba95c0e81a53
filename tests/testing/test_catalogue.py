"""The table of encodings, and that the README shows it as it is."""

from pathlib import Path

import pytest

from relformer.catalogue import FAMILIES, markdown, rows, show
from relformer.errors import UserError
from relformer.registry import encodings

README = Path(__file__).parents[2] / "README.md"


def test_every_encoding_has_its_row_and_its_facts() -> None:
    found = list(rows())
    assert sorted(row["name"] for row in found) == list(encodings)
    for row in found:
        assert row["family"] in FAMILIES, row
        assert row["changes"] and row["learned"] and row["beyond"] and row["slots"], row


def test_the_readme_shows_the_table_of_the_registry() -> None:
    text = README.read_text(encoding="utf-8")
    shown = text.split("<!-- encodings -->")[1].split("<!-- /encodings -->")[0].strip()
    assert shown == markdown(), "run: python -c 'from relformer.catalogue import markdown; print(markdown())'"


@pytest.mark.parametrize("name", list(encodings))
def test_show_prints_formula_and_options(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    show(name)
    printed = capsys.readouterr().out
    assert printed.startswith(name)
    for option in encodings[name].options():
        assert f"  {option} = " in printed


def test_show_suggests_the_nearest_name() -> None:
    with pytest.raises(UserError, match="did you mean 'rope'"):
        show("ropp")
