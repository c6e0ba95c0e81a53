"""The text that comes with Python."""

import sys
import sysconfig

import pytest

from relformer.data.text.manual import paragraphs
from relformer.errors import UserError


def check(lines: list[str], characters: int) -> None:
    assert sum(map(len, lines)) > characters
    assert len(set(lines)) == len(lines)
    assert all(line == " ".join(line.split()) for line in lines)
    assert not any(set(line) <= set("*=-~+|") for line in lines)


def test_the_manual_is_lines_of_text():
    lines = list(paragraphs())
    check(lines, 200_000)
    assert lines == list(paragraphs())
    assert 'The "assert" statement' in lines
    assert any(
        line.startswith("Assert statements are a convenient way to insert debugging assertions") for line in lines
    )


def test_docstrings_stand_in_for_a_manual_left_out(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    lines = list(paragraphs())
    check(lines, 200_000)
    assert 'The "assert" statement' not in lines
    assert any("Generic (shallow and deep) copying operations" in line for line in lines)


def test_a_python_with_neither_is_refused(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(UserError, match=r"neither pydoc_data\.topics nor docstrings"):
        list(paragraphs())
