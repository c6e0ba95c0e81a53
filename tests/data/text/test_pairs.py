"""Sets as configs name them: which files make which corpora, in which format and by which columns."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from relformer.data.text import lines
from relformer.data.text.notes import Notes
from relformer.data.text.pairs import Files, Reading, open_pairs
from relformer.errors import OptionError, UserError
from tests.data.text.corpora import jsonl, parallel, read, sides, tsv, write


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_sides_stay_aligned_whatever_the_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(lines, "BLOCK", size)
    source, target = [f"s{n}" for n in range(50)], [f"{'t' * (n % 7)}{n}" for n in range(50)]
    found = parallel(tmp_path, "\n".join(source), "\n".join(target) + "\n")
    assert sides(found) == list(zip(source, target, strict=True))
    assert [pair.line for pair in found] == list(range(1, 51))
    with pytest.raises(UserError, match=r"has 50 lines and .* has 49; "):
        parallel(tmp_path, "\n".join(source), "\n".join(target[1:]))


def test_a_list_makes_corpora_and_a_glob_one_of_many_files(tmp_path: Path) -> None:
    write(tmp_path, a1_en="1\n", a1_de="eins\n", a2_en="2\n", a2_de="zwei\n", b_en="3\n", b_de="drei\n")
    files = Files(["a*.en", "b.en"], ["a*.de", "b.de"], weights=[1, 2])
    first, second = open_pairs(files, Reading(folder=tmp_path), "data.train")
    assert sides(list(first.read(Notes()))) == [("1", "eins"), ("2", "zwei")]
    assert sides(list(second.read(Notes()))) == [("3", "drei")]
    assert [pair.where for pair in first.read(Notes())] == ["a1.en:1", "a2.en:1"]
    assert (first.name, second.name) == ("a1.en + a1.de and 1 more", "b.en + b.de")
    assert not first.once and first.digest() != second.digest()


def test_the_digest_is_of_bytes_and_their_order(tmp_path: Path) -> None:
    write(tmp_path, a_en="1\n", a_de="eins\n")

    def made(*names: str) -> str:
        return open_pairs(Files(*names), Reading(folder=tmp_path), "data.train")[0].digest()

    assert made("a.en", "a.de") == made("a.en", "a.de") != made("a.de", "a.en")
    write(tmp_path, a_de="Eins\n", b_de="eins\n")
    assert made("a.en", "b.de") != made("a.en", "a.de")
    assert len(made("a.en", "a.de")) == len(hashlib.blake2b(digest_size=20).hexdigest())


@pytest.mark.parametrize(
    ("files", "options", "message"),
    [
        (Files(), {}, "data.train needs source and target (parallel text) or file (TSV, JSON lines); it has none"),
        (
            Files("a1.en"),
            {},
            "data.train needs source and target (parallel text) or file (TSV, JSON lines); it has source",
        ),
        (Files("a1.en", "a1.de", "a1.en"), {}, "it has source and target and file"),
        (Files("a1.en", "a1.de"), {"format": "tsv"}, "data.format=tsv does not go with data.train.source"),
        (Files(file="a1.en"), {"format": "parallel"}, "data.format=parallel does not go with data.train.file"),
        (Files(["a1.en", "a2.en"], "a1.de"), {}, "data.train: 2 sources and 1 targets; give one for one"),
        (Files("a*.en", "a1.de"), {}, "2 source files (a1.en, ...) meet 1 target files (a1.de, ...)"),
        (Files("a*.en", "?[13].de"), {}, "in the order of their names a2.en meets a3.de; list them instead"),
        (
            Files("a1.en", "a1.en"),
            {},
            "a1.en is both source and target; for a file with both sides use data.train.file",
        ),
        (Files("a1.en", 7), {}, "data.train.target=7 must be a file name"),
    ],
)
def test_what_does_not_belong_together_is_refused(
    tmp_path: Path, files: Files, options: dict[str, Any], message: str
) -> None:
    for name in ("a1_en", "a2_en", "a1_de", "a3_de"):
        write(tmp_path, **{name: "text\n"})
    with pytest.raises(UserError) as fault:
        open_pairs(files, Reading(folder=tmp_path, **options), "data.train")
    assert message in str(fault.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source_column": "en"}, "data.target_column=None must be given too"),
        ({"source_column": "en", "target_column": "en"}, "data.target_column='en' is the source_column as well"),
        ({"source_column": 0, "target_column": 1}, "data.source_column=0 must be a column's name or its number"),
        ({"charset": "utf-16"}, "data.charset='utf-16' can't be read line by line"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as fault:
        Reading(**options)
    assert str(fault.value).startswith(message)


COLUMNS = "id\tde\ten\n1\tEins\tOne\n2\tZwei\tTwo\n"


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        (COLUMNS, ("en", "de")),
        (COLUMNS.replace("id\tde\ten\n", ""), (3, 2)),
        (COLUMNS.replace("id\tde\ten\n", ""), ("3", "2")),
        (COLUMNS.replace("de\ten", "target\tsource"), (None, None)),
        (COLUMNS.replace("de\ten", "target\tsource"), (3, 2)),
        ("3\tEins\tOne\n2\tZwei\tTwo\n", (3, 2)),
        (COLUMNS, ("en", 2)),
    ],
)
def test_columns_go_by_name_or_number(tmp_path: Path, content: str, columns: tuple[Any, Any]) -> None:
    if columns == (3, 2) and "source" in content:
        content = content.replace("target\tsource", "Target\tSource")  # a header by its case too
    found = tsv(tmp_path, content, source_column=columns[0], target_column=columns[1])
    assert sides(found) == [("One", "Eins"), ("Two", "Zwei")]


@pytest.mark.parametrize(
    ("content", "columns", "message"),
    [
        (COLUMNS, ("fr", "de"), "train.tsv:1: the header has no column 'fr' (has: 'id', 'de', 'en'); name one or give"),
        (COLUMNS, (4, 1), "train.tsv:1: there is no column 4, the row has 3"),
        (COLUMNS, ("en", 3), "data.source_column=en and data.target_column=3 are one column of"),
        ("en\ten\tde\n", ("en", "de"), "train.tsv:1: the header names column 'en' twice; give its number instead"),
        (COLUMNS, (None, None), "train.tsv:1: has 3 fields, and 2 are expected as data.source_column and"),
        (COLUMNS + "3\tDrei", ("en", "de"), "train.tsv:4: has 2 fields, and 3 are expected as in line 1; columns are"),
        ("alone\n", (None, None), "train.tsv:1: has 1 field, and 2 are expected as data.source_column"),
    ],
)
def test_columns_that_are_not_there_are_refused(
    tmp_path: Path, content: str, columns: tuple[Any, Any], message: str
) -> None:
    with pytest.raises(UserError) as fault:
        tsv(tmp_path, content, source_column=columns[0], target_column=columns[1])
    assert message in str(fault.value)


@pytest.mark.parametrize(
    ("record", "columns"),
    [
        ('{"source": "One", "target": "Eins"}', (None, None)),
        ('{"translation": {"de": "Eins", "en": "One"}, "id": 1}', ("en", "de")),
        ('{"translation": {"de": "Eins", "en": "One"}, "id": 1}', ("translation.en", "translation.de")),
        ('{"a": {"b": {"c": "One"}}, "a.b": "Eins"}', ("a.b.c", "a.b")),
        ('{"en": "One", "de": "Eins", "positions": [0, 3, 9]}', ("en", "de")),
    ],
)
def test_keys_go_by_name_path_or_translation(tmp_path: Path, record: str, columns: tuple[Any, Any]) -> None:
    (pair,) = jsonl(tmp_path, record, source_column=columns[0], target_column=columns[1])
    assert (pair.source, pair.target) == ("One", "Eins")
    assert pair.positions == ((0, 3, 9) if "positions" in record else None)


def test_translations_without_columns_are_explained(tmp_path: Path) -> None:
    with pytest.raises(UserError) as fault:
        jsonl(tmp_path, '{"translation": {"en": "One", "de": "Eins"}}\n')
    assert str(fault.value).startswith(
        f"{tmp_path / 'train.jsonl'}:1: key 'source' is missing (has: translation; in translation: en, de); "
        "name the keys with data.source_column=en data.target_column=de"
    )


@pytest.mark.parametrize("positions", ["[1, 1]", "[2, 1]", "[-1, 0]", "[0.5]", "[true]", "3", "null", '["1"]', "[[1]]"])
def test_positions_that_do_not_increase_are_bad(tmp_path: Path, positions: str) -> None:
    line = f'{{"source": "a", "target": "b", "positions": {positions}}}'
    with pytest.raises(UserError, match=r"train.jsonl:1: 'positions' must be a list of integers from 0 that strictly"):
        jsonl(tmp_path, line)


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("a.tsv", '{"x\t1"}\n', {}),
        ("a", '\n{"source": "{", "target": "1"}\n', {}),
        ("a", "\nx\t1\n", {}),
        ("a.tsv", '{"source": "x", "target": "1"}\n', {"format": "jsonl"}),
        ("a.jsonl", "x\t1\n", {"format": "tsv"}),
    ],
)
def test_the_format_goes_by_option_suffix_or_content(
    tmp_path: Path, name: str, content: str, options: dict[str, Any]
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert len(read(tmp_path, Files(file=name), **options)) == 1


def test_a_file_of_no_known_format_is_refused(tmp_path: Path) -> None:
    write(tmp_path, a_csv="source,target\nx,y\n")
    with pytest.raises(
        UserError, match=r"a\.csv is neither tab-.* pass data\.format; comma-separated files are not read"
    ):
        read(tmp_path, Files(file="a.csv"))
