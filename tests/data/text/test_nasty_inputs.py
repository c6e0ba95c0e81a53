"""What people really feed to sequence-to-sequence trainers, from public bug reports, and what becomes of it here."""

import bz2
import gzip
import io
import lzma
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from relformer.data.text.notes import Notes
from relformer.data.text.pairs import Files, Reading, open_pairs
from relformer.errors import UserError
from tests.data.text.corpora import jsonl, parallel, read, sides, tsv, write


def test_unequal_line_counts_are_an_error_that_names_both(tmp_path: Path) -> None:
    """OpenNMT-py#1966, fairseq#4377: never zip to the shorter."""
    english = "a b c d\na\na b c d e f g\na b\na b c d e\n"
    with pytest.raises(UserError) as fault:
        parallel(tmp_path, english, english.replace("a b c d e f g\n", ""), on_bad="skip")
    en, de = tmp_path / "train.en", tmp_path / "train.de"
    assert str(fault.value) == (
        f"{en} has 5 lines and {de} has 4; they must have one for one; "
        "the lengths of the sides stop matching at train.en:3"
    )


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\v", "\f", "\r", "\x1c", "\x1d", "\x1e"])
def test_only_line_feeds_end_a_line(tmp_path: Path, separator: str) -> None:
    """OpenNMT-py#1227, datasets#622: `str.splitlines` sees more lines than `wc -l`."""
    notes = Notes()
    pairs = parallel(tmp_path, f"one{separator}two\nthree\n", "eins\nzwei\n", notes)
    assert sides(pairs) == [(f"one{separator}two", "eins"), ("three", "zwei")]
    (line,) = notes.lines()
    assert line.startswith("1 line with ")
    assert line.endswith(" inside, kept: other tools take it for a line end (first: train.en:1)")
    assert notes.dropped == 0


def test_windows_line_ends_on_one_side_leave_no_trace_in_the_text(tmp_path: Path) -> None:
    """datasets#622, char-rnn#171."""
    notes = Notes()
    assert sides(parallel(tmp_path, "one\r\ntwo\r\n", "eins\nzwei\n", notes)) == [("one", "eins"), ("two", "zwei")]
    assert notes.lines() == [r"1 file with \r\n line ends, read as \n (first: train.en)"]
    assert sides(parallel(tmp_path, "one\r\r\ntwo\r", "eins\nzwei\r")) == [("one\r", "eins"), ("two", "zwei")]


def test_byte_order_marks_are_no_text(tmp_path: Path) -> None:
    """UD_German-GSD#29, silnlp#338; inside a file after `cat`."""
    notes = Notes()
    pairs = parallel(tmp_path, "\ufeffone\n\ufefftwo\n", "\ufeffeins\nzwei\n", notes)
    assert sides(pairs) == [("one", "eins"), ("two", "zwei")]
    assert notes.lines() == ["1 line with U+FEFF (byte order mark) inside, which was removed (first: train.en:2)"]


def test_another_charset_is_found_by_line_byte_and_a_guess(tmp_path: Path) -> None:
    """training-charRNN#5, bert-nmt#2, google-research/bert#1405."""
    text = "Gr\u00fc\u00dfe\nan \u201ealle\u201c Leute\n"
    with pytest.raises(UserError) as fault:
        parallel(tmp_path, "greetings\nto everybody\n", text.encode("cp1252"))
    assert str(fault.value) == (
        f"{tmp_path / 'train.de'}:1: byte 0xfc at offset 2 of the text (after 'Gr') is not utf-8; "
        "it looks like cp1252; pass data.charset=cp1252; or leave such lines out with data.on_bad=skip"
    )
    pairs = parallel(tmp_path, "greetings\nto everybody\n", text.encode("cp1252"), charset="cp1252")
    assert [pair.target for pair in pairs] == text.splitlines()
    with pytest.raises(UserError, match=r"is UTF-16 text; convert it first: iconv -f UTF-16 -t UTF-8$"):
        parallel(tmp_path, text.encode("utf-16"), text)
    with pytest.raises(
        UserError, match=r"train\.en:1: holds a NUL character at column 2; it looks like UTF-16; convert"
    ):
        parallel(tmp_path, "greetings\nto everybody\n".encode("utf-16-le"), text)


def test_the_charset_does_not_depend_on_the_platform(tmp_path: Path) -> None:
    """d2l-en#1880: opened as gbk or cp1252 on Windows. An open() without a charset warns here, as an error."""
    write(tmp_path, train_en="caf\u00e9\n", train_de="\u4e2d\u6587\n")
    code = (
        "from tests.data.text.corpora import *; from pathlib import Path; import sys; "
        "print(ascii(sides(read(Path(sys.argv[1]), Files('train.en', 'train.de')))))"
    )
    ended = subprocess.run(
        [sys.executable, "-X", "warn_default_encoding", "-W", "error::EncodingWarning", "-c", code, tmp_path],
        env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout == r"[('caf\xe9', '\u4e2d\u6587')]" + "\n"


def test_a_nul_makes_a_bad_line_and_loses_no_other(tmp_path: Path) -> None:
    """OpenNMT#383: a whole line lost without a word."""
    with pytest.raises(
        UserError, match=r"train\.en:2: holds a NUL character at column 3; remove it: .*data.on_bad=skip$"
    ):
        parallel(tmp_path, "one\ntw\0o\nthree\n", "eins\nzwei\ndrei\n")
    notes = Notes()
    pairs = parallel(tmp_path, "one\ntw\0o\nthree\n", "eins\nzwei\ndrei\n", notes, on_bad="skip")
    assert sides(pairs) == [("one", "eins"), ("three", "drei")]
    assert notes.lines() == ["1 pair left out for a bad line: a NUL character (first: train.en:2)"]


def test_a_blank_side_leaves_out_the_pair(tmp_path: Path) -> None:
    """fairseq#349, OpenNMT-py#1934."""
    notes = Notes()
    pairs = parallel(tmp_path, "one\n\n \nfour\n\nsix\n", "eins\n\t\n\u00a0\n\nf\u00fcnf\nsechs\n", notes)
    assert [(pair.line, pair.source, pair.target) for pair in pairs] == [(1, "one", "eins"), (6, "six", "sechs")]
    assert notes.lines() == [
        "2 pairs with both sides empty left out (first: train.en:2)",
        "1 pair with an empty target left out although the other side has text: check the files (first: train.en:4)",
        "1 pair with an empty source left out although the other side has text: check the files (first: train.en:5)",
    ]
    assert (notes.total, notes.dropped) == (6, 4)


def test_tabs_in_parallel_text_are_text_and_in_columns_an_error(tmp_path: Path) -> None:
    """Line 7,366 of Multi30k's train.de; datasets#5081, jiant#1082 and #1073."""
    german = "Zwei spielen in einer \tWasserfont\u00e4ne."
    assert sides(parallel(tmp_path, 'Two "play.\n', f"{german}\n")) == [('Two "play.', german)]
    with pytest.raises(UserError) as fault:
        tsv(tmp_path, f'"One\tEins"\nTwo play.\t{german}\n')
    assert str(fault.value).startswith(
        f"{tmp_path / 'train.tsv'}:2: has 3 fields, and 2 are expected as data.source_column and data.target_column "
        "are not set; columns are separated by tabs; name two of them, e.g. data.source_column=1 data.target_column=2: "
        "'Two play. | Zwei spielen in einer  | Wasserfont\u00e4ne.'"
    )
    notes = Notes()
    assert sides(tsv(tmp_path, f'"One\tEins"\nTwo\t{german}\n', notes, on_bad="skip")) == [('"One', 'Eins"')]
    assert notes.lines() == ["1 pair left out for a bad line: wrong number of fields (first: train.tsv:2)"]


def test_blank_rows_and_headers_are_no_pairs(tmp_path: Path) -> None:
    """gpt-2-simple#235, datasets#5081."""
    notes = Notes()
    pairs = tsv(tmp_path, "\nTarget\tSource\n \neins\tone\n\nzwei\ttwo\n\n", notes)
    assert [(pair.where, pair.source, pair.target) for pair in pairs] == [
        ("train.tsv:4", "one", "eins"),
        ("train.tsv:6", "two", "zwei"),
    ]
    assert notes.lines() == ["4 rows without text left out (first: train.tsv:1)"]
    assert (notes.total, notes.dropped) == (2, 0)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"source": "b", "extra": 1}', "key 'target' is missing (has: source, extra); name the keys with"),
        ('{"source": "b", "target": null}', "'target' must be a string, not null: 'null'"),
        ('{"source": "b", "target": 3}', "'target' must be a string, not a number: '3'"),
        ('{"source": "b", "target": ["c"]}', "'target' must be a string, not a list:"),
        ('{"source": "b", "target": "c', "is no JSON (Unterminated string"),
        ('["b", "c"]', "must hold an object such as {'source': ..., 'target': ...}, not a list"),
        ('{"source": "b", "target": "\\ud800"}', "'target' holds half a surrogate pair (\\ud800)"),
        ('{"source": "b\\u0000", "target": "c"}', "holds a NUL character at column 2"),
        ("[" * 100_000, "is no JSON (nested too deep)"),
        ('{"source": ' + "1" * 5_000 + "}", "is no JSON (Exceeds the limit"),
    ],
)
def test_broken_json_lines_are_bad_lines(tmp_path: Path, line: str, message: str) -> None:
    """datasets#7169, #4682, #6162, #5772: a broken last line among them; null is not "None"."""
    good = '{"id": 1, "source": "a", "target": "\u00e4"}\n\n'
    with pytest.raises(UserError) as fault:
        jsonl(tmp_path, good + line)
    assert str(fault.value).startswith(f"{tmp_path / 'train.jsonl'}:3: {message}")
    notes = Notes()
    assert sides(jsonl(tmp_path, good + line, notes, on_bad="skip")) == [("a", "\u00e4")]
    assert (notes.total, notes.dropped) == (2, 1)
    assert notes.lines()[0] == "1 row without text left out (first: train.jsonl:2)"


def test_line_feeds_and_tabs_inside_a_json_text_are_kept(tmp_path: Path) -> None:
    """fairseq#1010: 4,887 examples instead of 4,892 once they had been written to lines."""
    content = r'{"source": "a\nb\tc\r\n", "target": "\u00e4\u2028\ufeff"}' + "\n"
    notes = Notes()
    assert sides(jsonl(tmp_path, content * 2, notes)) == [("a\nb\tc\r\n", "\u00e4\u2028")] * 2
    assert len(notes.lines()) == 3  # a carriage return, U+2028, U+FEFF


def _tar(folder: Path) -> bytes:
    write(folder, inner_txt="text\n")
    with io.BytesIO() as buffer:
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            archive.add(folder / "inner.txt")
        return buffer.getvalue()


def test_compressed_files_are_known_by_their_content(tmp_path: Path) -> None:
    """neuralmonkey#99, gensim#3246 (bz2 read as text), Irish-BERT#67 (tar headers as text), fastText#1207."""
    german = gzip.compress(b"eins\n", mtime=0) + gzip.compress(b"zwei\n")
    for compress in (gzip.compress, bz2.compress, lzma.compress):
        english = compress(b"one\ntwo\n")
        assert sides(parallel(tmp_path, english, german)) == [("one", "eins"), ("two", "zwei")]  # no suffix
        with pytest.raises(
            UserError, match=r"train\.en is cut short or damaged: it ends inside a compressed stream; fetch"
        ):
            parallel(tmp_path, english[:-3], german)
        with pytest.raises(
            UserError, match=r"train\.en is a tar archive; unpack it \(tar -xf\) and name the text files"
        ):
            parallel(tmp_path, compress(_tar(tmp_path)), german)
    write(tmp_path, train_en_gz="one\ntwo\n")  # a wrong suffix
    assert sides(read(tmp_path, Files("train.en.gz", "train.de"))) == [("one", "eins"), ("two", "zwei")]


def test_invisible_characters_are_text(tmp_path: Path) -> None:
    """mozilla/translations#26; U+200B and NBSP are in Multi30k."""
    text = " soft\u00adhyphen zero\u200bwidth no\u00a0break \x07bell\u200d "
    notes = Notes()
    assert sides(parallel(tmp_path, f"{text}\n\u200b\n", f"x\n{text}\n", notes)) == [(text, "x"), ("\u200b", text)]
    assert notes.lines() == []


def test_literal_control_tokens_are_text(tmp_path: Path) -> None:
    """OpenNMT-py#503, #1485."""
    text = "<s> </s> <unk> <pad> <bos> <eos> <extra_id_0> @@ \u2581 {0} %s $x"
    assert sides(parallel(tmp_path, f"{text}\n", f"{text}\n")) == [(text, text)]


def test_files_that_cannot_be_read_are_one_line_with_the_absolute_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, train_en="one\n", train_de="eins\n", empty_en="")
    (tmp_path / "both").mkdir()
    write(tmp_path / "both", train_en="one\n", train_de="eins\n")
    faults = {
        "train.enn": "train.enn does not exist; did you mean 'train.en'",
        "nowhere/train.en": f"nowhere/train.en does not exist; of its folders only {tmp_path} exists",
        "empty.en": "empty.en is empty",
        "both": "both is a folder with files of several kinds (.de, .en); name a file or a glob such as",
        "*.xx": "no file matches",
    }
    monkeypatch.chdir(tmp_path)
    for name, message in faults.items():
        with pytest.raises(UserError) as fault:
            open_pairs(Files(name, "train.de"), Reading(), "data.train")
        assert str(fault.value).startswith("data.train.source: ") and "\n" not in str(fault.value)
        assert str(tmp_path) in str(fault.value) and message in str(fault.value)
    assert sides(read(tmp_path / "both", Files("train.en", "train.de"))) == [
        ("one", "eins")
    ]  # not of the working directory
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(UserError, match=r"train\.en can't be read: its permissions forbid it$"):
        open_pairs(Files("train.en", "train.de"), Reading(), "data.train")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(b"", mtime=0), "it has no rows"),
        (b"\xef\xbb\xbf", "it has no rows"),
        (b"\n\n", "2 pairs with both sides empty"),
    ],
)
def test_a_corpus_without_a_pair_is_an_error(tmp_path: Path, content: bytes, message: str) -> None:
    """gector#17: "size of raw dataset is 0", found late."""
    with pytest.raises(UserError, match=f"train.en gives no pair: {message}"):
        parallel(tmp_path, content, content)


def test_duplicates_stay(tmp_path: Path) -> None:
    """SCAN's addprim splits need them."""
    assert len(parallel(tmp_path, "jump\n" * 3, "JUMP\n" * 3)) == 3
