"""Lines against a naive reading, over the borders of blocks."""

import random
from pathlib import Path

import pytest

from relformer.data.text import lines
from relformer.data.text.lines import Line, read_lines
from relformer.data.text.notes import Notes
from relformer.errors import OptionError, UserError


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 16 bytes, so that everything happens at a border too; a line may have 160."""
    monkeypatch.setattr(lines, "BLOCK", 16)
    monkeypatch.setattr(lines, "LONGEST_LINE", 160)


def read(path: Path, data: bytes, charset: str = "utf-8", notes: Notes | None = None, **options: str) -> list[str]:
    path.write_bytes(data)
    found = list(read_lines(path, charset, notes or Notes(), **options))  # type: ignore[arg-type]
    if not options:
        assert [line.number for line in found] == list(range(1, len(found) + 1))
    return [line.text for line in found]


@pytest.mark.usefixtures("small_blocks")
def test_lines_are_those_of_a_naive_reading(tmp_path: Path) -> None:
    draw = random.Random(0)
    for _ in range(300):
        text = "".join(
            draw.choice(["a", "\u00e9", "\u4e2d", "\U0001f600", "\n", " ", "\r\n", "\u2028", "\r"]) for _ in range(80)
        )
        expected = text.removesuffix("\n").split("\n")
        assert read(tmp_path / "text", text.encode()) == [line.removesuffix("\r") for line in expected]


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("charset", ["utf-8", "cp1252", "gb18030", "shift_jis", "koi8-r", "iso2022_jp"])
def test_every_charset_keeps_its_text(tmp_path: Path, charset: str) -> None:
    text = {"cp1252": "na\u00efve \u201equote\u201c", "koi8-r": "\u041f\u0440\u0438\u0432\u0435\u0442"}.get(
        charset, "\u65e5\u672c\u8a9e"
    )
    assert read(tmp_path / "text", f"{text}\n\n{text * 3}\nabc".encode(charset), charset) == [text, "", text * 3, "abc"]


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("position", range(40))
def test_a_bad_byte_is_named_by_its_line_and_offset(tmp_path: Path, position: int) -> None:
    data = bytearray("\ufeffab\r\nc\u00e9\u00e9\u00e9\u00e9\n\nlonger than the block\nend\n".encode())
    data[position:position] = b"\xff"
    path = tmp_path / "text"
    if position in (0, 1, 2):
        return
    line = data[:position].count(b"\n") + 1
    offset = position if data[position - 1] < 0xC0 else position - 1
    with pytest.raises(UserError, match=rf"text:{line}: byte 0x\w\w at offset {offset} of the text \(after"):
        read(path, bytes(data))
    notes = Notes()
    kept = read(path, bytes(data), notes=notes, on_bad="skip")
    assert len(kept) == 4 and notes.dropped == 1 and notes.total == 5


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("length", [100, 160, 176, 177, 192, 1_000])
def test_a_line_without_end_is_refused_and_costs_no_other(tmp_path: Path, length: int) -> None:
    data = b"before\n" + b"x" * length + b"\nafter\nlast"
    notes = Notes()
    kept = read(tmp_path / "text", data, notes=notes, on_bad="skip")
    if length <= 160:
        assert kept == ["before", "x" * length, "after", "last"]
    elif length >= 192:
        assert kept == ["before", "after", "last"]
        with pytest.raises(UserError, match=rf"text:2: the line has {length + 1:,} bytes, and 0 MiB are the limit"):
            read(tmp_path / "text", data)
    assert len(kept) + notes.dropped == 4
    assert read(tmp_path / "text", b"before\n" + b"x" * 1_000, on_bad="skip") == ["before"]


@pytest.mark.parametrize(
    ("data", "guess"),
    [
        ("caf\u00e9\n".encode("latin-1"), "it looks like latin-1 (cp1252 is the same here); pass data.charset=cp1252"),
        ("\u201ecaf\u00e9\u201c\n".encode("cp1252"), "it looks like cp1252; pass data.charset=cp1252"),
        ("caf\u00e9 und\n".encode() * 9 + b"caf\xe9\n", "the text around it is utf-8, so the line is damaged: mend it"),
        (
            "\u041f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440\n".encode("cp1251"),
            "it looks like a charset that is not western",
        ),
        ("\u00e9\u00e8\n".encode("utf-16-be"), "it looks like UTF-16; convert it first"),
        (b"caf\xe9 \x81\n", "it is none of utf-8, latin-1 and cp1252"),
    ],
)
def test_guesses(tmp_path: Path, data: bytes, guess: str) -> None:
    with pytest.raises(UserError) as fault:
        read(tmp_path / "text", data)
    assert guess in str(fault.value)


def test_a_wrong_charset_option_is_found_by_the_text(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"text starts with the mark of utf-8, but data.charset=cp1252; leave data.charset"
    ):
        read(tmp_path / "text", b"\xef\xbb\xbftext\n", "cp1252")
    with pytest.raises(UserError, match=r"byte 0xe9 .* is not ascii; pass the right data.charset"):
        read(tmp_path / "text", b"caf\xe9\n", "ascii")
    with pytest.raises(UserError, match=r"is not ascii; the text is valid utf-8; leave data.charset out"):
        read(tmp_path / "text", "caf\u00e9\n".encode(), "ascii")
    notes = Notes()
    read(tmp_path / "text", "caf\u00e9\n".encode(), "latin-1", notes)
    assert notes.lines() == ["1 file read as iso8859-1 although it looks like utf-8 (first: text)"]


@pytest.mark.parametrize(
    "charset", ["utf-16", "utf-32-le", "cp037", "hz", "rot13", "base64", "punycode", "no\0ne", "none"]
)
def test_charsets_that_are_not_read_by_lines_are_refused(tmp_path: Path, charset: str) -> None:
    with pytest.raises(OptionError, match=r"^data\.charset="):
        read(tmp_path / "text", b"text\n", charset)


def test_a_line_is_a_number_and_a_text(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"one\n\nthree")
    assert list(read_lines(tmp_path / "text", "UTF8", Notes())) == [Line(1, "one"), Line(2, ""), Line(3, "three")]
