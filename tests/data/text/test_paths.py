"""What a config says about files, and the files."""

from pathlib import Path

import pytest

from relformer.data.text.paths import resolve
from relformer.errors import UserError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (
        "train.en",
        "train.de.gz",
        "val.en",
        "val.en.gz",
        "b.xz",
        "b.zst",
        "parts/2.en",
        "parts/1.en",
        "parts/.x",
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"text\n")
    return tmp_path


def names(corpora: list[list[Path]], folder: Path) -> list[list[str]]:
    assert all(path.is_absolute() for paths in corpora for path in paths)
    return [[str(path.relative_to(folder)) for path in paths] for paths in corpora]


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ("train.en", [["train.en"]]),
        ("train.de", [["train.de.gz"]]),
        ("val.en", [["val.en"]]),
        ("parts", [["parts/1.en", "parts/2.en"]]),
        ("parts/*", [["parts/1.en", "parts/2.en"]]),
        ("**/[12].en", [["parts/1.en", "parts/2.en"]]),
        ("*.de", [["train.de.gz"]]),
        (["train.en", "parts/*.en"], [["train.en"], ["parts/1.en", "parts/2.en"]]),
        ("parts/../train.en", [["train.en"]]),
    ],
)
def test_each_item_is_a_corpus(folder: Path, spec: str | list[str], found: list[list[str]]) -> None:
    assert names(resolve(spec, folder, "data.train.source"), folder) == found


def test_names_are_relative_to_the_folder_or_the_working_directory(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder / "parts")
    assert names(resolve("1.en", None, "o"), folder) == [["parts/1.en"]]
    assert names(resolve("../train.en", None, "o"), folder) == [["train.en"]]
    assert names(resolve("train.en", Path(".."), "o"), folder) == [["train.en"]]
    assert names(resolve(str(folder / "train.en"), folder / "parts", "o"), folder) == [["train.en"]]


def test_a_name_with_the_signs_of_a_glob_is_a_name_first(folder: Path) -> None:
    (folder / "[1].en").write_bytes(b"text\n")
    assert names(resolve("[1].en", folder, "o"), folder) == [["[1].en"]]
    (folder / "[x]").mkdir()
    (folder / "[x]" / "a.en").write_bytes(b"text\n")
    assert names(resolve("*.en", folder / "[x]", "o"), folder) == [["[x]/a.en"]]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("b", "b does not exist, and b.xz, b.zst both do; name one of them"),
        ("trian.en", "trian.en does not exist; did you mean 'train.en'"),
        ("zzzzzz", "zzzzzz does not exist; {folder} holds b.xz, b.zst, parts, train.de.gz, train.en and 2 more"),
        ("*.fr", "no file matches {folder}/*.fr"),
        (".", "{folder} is a folder with folders in it; name the files with a glob"),
        ("hollow", "the folder {folder}/hollow is empty"),
        ("link", "link is a link to away, which does not exist"),
        ("gone/a/b.en", "gone/a/b.en does not exist; of its folders only {folder} exists"),
        ("", "must be a file name, a glob or a list of them"),
        ([], "must be a file name, a glob or a list of them"),
        (["train.en", 3], "must be a file name, a glob or a list of them"),
    ],
)
def test_what_is_not_clear_is_refused(folder: Path, spec: str | list[str], message: str) -> None:
    (folder / "link").symlink_to("away")
    (folder / "hollow").mkdir()
    if spec == "zzzzzz":
        (folder / "link").unlink()
        (folder / "hollow").rmdir()
    with pytest.raises(UserError) as fault:
        resolve(spec, folder, "data.train.source")
    assert str(fault.value).startswith("data.train.source")
    assert message.format(folder=folder) in str(fault.value) and "\n" not in str(fault.value)


def test_a_glob_never_takes_half_of_the_parts(folder: Path) -> None:
    (folder / "parts/3.en.gz").write_bytes(b"text\n")
    with pytest.raises(
        UserError, match=r"matches 1\.en, 2\.en, and compressed files beside them \(3\.en\.gz\); say which"
    ):
        resolve("parts/*.en", folder, "o")
    (folder / "parts/3.en.gz").rename(folder / "parts/2.en.gz")  # beside its plain form it is no part of its own
    assert names(resolve("parts/*.en", folder, "o"), folder) == [["parts/1.en", "parts/2.en"]]
    for name in ("1.en", "2.en"):
        (folder / "parts" / name).unlink()
    (folder / "parts/3.en.xz").write_bytes(b"text\n")
    with pytest.raises(UserError, match="matches compressed files of several kinds"):
        resolve("parts/*.en", folder, "o")


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"o: the folder {tmp_path}/nowhere does not exist; .*; set data.path"):
        resolve("a", tmp_path / "nowhere", "o")
