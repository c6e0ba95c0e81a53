"""Pairs out of what the `datasets` library reads; no network."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

import relformer
from relformer.data.corpus import build_corpus
from relformer.data.text import hub_tables
from relformer.data.text.hub import HubPairs
from relformer.errors import OptionError, UserError

datasets = pytest.importorskip("datasets")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ROWS = [("a house", "ein Haus"), ("  tab\there ", "ein\u00a0Zeichen"), ("line\nbreak", "ß 👩‍👩‍👧")]
EXPECTED = [(row, english, german) for row, (english, german) in enumerate(ROWS)]


@pytest.fixture(autouse=True)
def quiet():
    datasets.disable_progress_bars()


def flat(rows=ROWS):
    english, german = zip(*rows, strict=True)
    return pa.table({"id": list(range(len(rows))), "english": english, "german": german})


def nested(rows=ROWS):
    return pa.table({"translation": [{"de": german, "en": english} for english, german in rows]})


def saved(folder: Path, table, split: str | None = None) -> str:
    dataset = datasets.Dataset(table)
    (datasets.DatasetDict({split: dataset}) if split else dataset).save_to_disk(str(folder))
    return str(folder)


def parquet(path: Path, table) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=2)
    return str(path)


def stream(path: Path, table) -> str:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return str(path)


def indexed(path: Path, table) -> str:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return str(path)


STORES = {
    "parquet": lambda folder, table: parquet(folder / "data.parquet", table),
    "folder": lambda folder, table: str(Path(parquet(folder / "corpus" / "data.parquet", table)).parent),
    "stream": lambda folder, table: stream(folder / "data.arrow", table),
    "indexed": lambda folder, table: indexed(folder / "data.arrow", table),
    "save_to_disk": lambda folder, table: saved(folder / "saved", table),
    "dictionary": lambda folder, table: saved(folder / "saved", table, "train"),
}


@pytest.fixture(params=STORES)
def store(request, tmp_path):
    return lambda table: STORES[request.param](tmp_path, table)


@pytest.mark.parametrize(("table", "columns"), [(flat, ("english", "german")), (nested, ("en", "de"))])
def test_pairs_come_with_their_rows_in_order(store, table, columns):
    path = store(table())
    assert list(HubPairs(path, columns=columns)) == EXPECTED
    swapped = HubPairs(path, columns=columns[::-1])
    assert list(swapped) == list(swapped) == [(row, german, english) for row, english, german in EXPECTED]


def test_digests_agree_between_stores_and_differ_between_texts(tmp_path):
    def digest(name, table, columns):
        (tmp_path / name).mkdir(exist_ok=True)
        return HubPairs(STORES[name](tmp_path / name, table), columns=columns).digest()

    digests = {digest(name, flat(), ("english", "german")) for name in STORES}
    digests |= {digest("stream", nested(), ("en", "de"))}
    assert len(digests) == 1
    assert digest("parquet", flat(), ("german", "english")) not in digests
    assert digest("parquet", flat(ROWS[:2]), ("english", "german")) not in digests
    moved = [("a houseein", " Haus"), *ROWS[1:]]
    assert digest("parquet", flat(moved), ("english", "german")) not in digests


def test_the_digest_is_the_same_in_another_process(tmp_path):
    path = parquet(tmp_path / "data.parquet", flat())
    script = "import sys; from relformer.data.text.hub import HubPairs; "
    script += "print(HubPairs(sys.argv[1], columns=('english', 'german')).digest())"
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(Path(relformer.__file__).parents[1])}
    command = [sys.executable, "-c", script, path]
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert printed.strip() == HubPairs(path, columns=("english", "german")).digest()


@pytest.mark.parametrize(
    ("rows", "bad", "said"),
    [
        ([ROWS[0], (None, "x"), ROWS[2]], 1, "'english' is null, not text"),
        ([ROWS[0], ROWS[1], ("x", None)], 2, "'german' is null, not text"),
    ],
)
def test_a_null_is_a_bad_row_with_its_number(store, rows, bad, said):
    path = store(flat(rows))
    with pytest.raises(UserError, match=rf"row {bad} \(from 0\): {said}"):
        list(HubPairs(path, columns=("english", "german")))
    messages = []
    kept = list(HubPairs(path, columns=("english", "german"), on_bad=messages.append))
    assert kept == [(row, *pair) for row, pair in enumerate(rows) if row != bad]
    assert len(messages) == 1
    assert path in messages[0]


def test_nulls_within_and_instead_of_translations(tmp_path):
    table = pa.table({"translation": [{"de": "x", "en": None}, None, {"de": "y", "en": "z"}]})
    messages = []
    pairs = HubPairs(parquet(tmp_path / "x.parquet", table), columns=("en", "de"), on_bad=messages.append)
    assert list(pairs) == [(2, "z", "y")]
    assert [message.split(": ")[1] for message in messages] == ["row 0 (from 0)", "row 1 (from 0)"]


def test_numbers_are_not_text(tmp_path):
    pairs = HubPairs(parquet(tmp_path / "x.parquet", flat()), columns=("id", "german"))
    with pytest.raises(UserError, match=r"row 0 \(from 0\): 'id' is 0, not text"):
        list(pairs)
    assert len(pairs.digest()) == 64


def test_rows_count_on_over_files_in_the_order_of_their_names(tmp_path):
    for number in (2, 0, 1):
        parquet(tmp_path / "data" / f"train-0000{number}-of-00003.parquet", flat(ROWS[number : number + 1]))
    parquet(tmp_path / "data" / "test-00000-of-00001.parquet", flat(ROWS[:1]))
    assert list(HubPairs(str(tmp_path), split="train", columns=("english", "german"))) == EXPECTED
    assert len(list(HubPairs(str(tmp_path), columns=("english", "german")))) == 4
    with pytest.raises(UserError, match=r"no file name in .* has the split 'rain' in it: data/test-00000"):
        HubPairs(str(tmp_path), split="rain", columns=("english", "german"))


def test_a_folder_may_name_the_split(tmp_path):
    parquet(tmp_path / "train" / "0.parquet", flat())
    parquet(tmp_path / "validation" / "0.parquet", flat(ROWS[:1]))
    assert list(HubPairs(str(tmp_path), split="validation", columns=("english", "german"))) == EXPECTED[:1]


def test_splits_of_a_saved_dictionary(tmp_path):
    dictionary = {"train": datasets.Dataset(flat()), "validation": datasets.Dataset(flat(ROWS[:1]))}
    datasets.DatasetDict(dictionary).save_to_disk(str(tmp_path / "saved"))
    path, columns = str(tmp_path / "saved"), ("english", "german")
    assert list(HubPairs(path, split="validation", columns=columns)) == EXPECTED[:1]
    with pytest.raises(UserError, match=r"has the splits train, validation; choose one"):
        HubPairs(path, columns=columns)
    with pytest.raises(UserError, match=r"no split 'valid'; did you mean 'validation'\?; it has train, validation"):
        HubPairs(path, split="valid", columns=columns)


def test_missing_columns_and_languages_are_answered_with_what_there_is(store):
    path = store(nested())
    with pytest.raises(UserError, match=r"has no column or language 'fr'; it has translation; translation has de, en"):
        HubPairs(path, columns=("en", "fr"))


def test_a_missing_column_beside_others(tmp_path):
    path = parquet(tmp_path / "x.parquet", flat())
    with pytest.raises(UserError, match=r"has no column or language 'source'; it has id, english, german$"):
        HubPairs(path)
    with pytest.raises(OptionError, match="must name two"):
        HubPairs(path, columns=("english",))
    with pytest.raises(OptionError, match="must name two"):
        HubPairs(path, columns=("english", "english"))


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow"])
def test_broken_files_are_named(tmp_path, name):
    (tmp_path / name).write_bytes(b"no table")
    with pytest.raises(UserError, match=f"{name} is not a readable {name[2:]} file"):
        HubPairs(str(tmp_path / name))


def test_paths_that_lead_nowhere(tmp_path):
    (tmp_path / "text.tsv").write_text("a\tb\n")
    for path in (tmp_path, tmp_path / "text.tsv"):
        with pytest.raises(UserError, match=r"holds no .parquet or .arrow file"):
            HubPairs(str(path))
    for path in (str(tmp_path / "absent"), "absent.parquet", "./absent"):
        with pytest.raises(UserError, match=r"absent.* does not exist"):
            HubPairs(path)


# The hub, in place of which stands a function.


def test_a_name_on_the_hub_is_loaded_without_its_code(monkeypatch):
    asked = {}

    def load_dataset(path, name=None, **options):
        asked.update(path=path, name=name, **options)
        return datasets.Dataset(nested(), split="train")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    pairs = HubPairs("wmt/wmt14", "de-en", "train", "main", ("en", "de"))
    assert list(pairs) == EXPECTED
    assert asked == {"path": "wmt/wmt14", "name": "de-en", "split": "train", "revision": "main"}
    with pytest.raises(UserError, match="wmt/wmt14 is the split 'train', not 'test'"):
        HubPairs("wmt/wmt14", "de-en", "test", "main", ("en", "de"))


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (ConnectionError("Couldn't reach 'wmt14' on the Hub\n(LocalEntryNotFoundError)"), "hub can't be reached"),
        (ValueError("Config name is missing.\nPlease pick one among: ['de-en']"), r"missing. Please pick .*de-en"),
        (RuntimeError("Dataset scripts are no longer supported, but found wmt14.py"), "no longer supported"),
        (datasets.exceptions.DatasetNotFoundError("Dataset 'wmt14' doesn't exist on the Hub"), "doesn't exist"),
    ],
)
def test_faults_of_the_hub_are_one_line(monkeypatch, fault, said):
    def load_dataset(*args, **options):
        raise fault

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(UserError, match=said) as caught:
        HubPairs("wmt14", split="train")
    assert "\n" not in str(caught.value)


def test_only_the_end_of_its_attempts_is_told(monkeypatch, caplog):
    hub = logging.getLogger("huggingface_hub")
    level = hub.level

    def load_dataset(*args, **options):
        hub.warning("Retrying in 8s [Retry 5/5].")
        raise ConnectionError("no network")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(UserError, match="can't be reached"):
        HubPairs("wmt14", split="train")
    assert "Retrying" not in caplog.text and hub.level == level


def test_a_trained_run_is_evaluated_without_its_training_file(tmp_path, monkeypatch):
    monkeypatch.setenv("RELFORMER_CACHE", str(tmp_path / "cache"))
    for split in ("train", "validation", "test"):
        parquet(tmp_path / "texts" / f"{split}.parquet", nested([(f"{split} {n}", str(n)) for n in range(3)]))
    options = {"name": "hub", "seed": 0, "path": str(tmp_path / "texts"), "source_column": "en", "target_column": "de"}
    made = build_corpus({**options, "tokenizer": {"kind": "word"}})
    assert list(made.sets) == ["train", "val_iid", "test_iid"]
    (tmp_path / "texts" / "train.parquet").unlink()
    again = build_corpus(options, (made.source_vocabulary, made.target_vocabulary))
    assert list(again.sets["test_iid"].sources) == list(made.sets["test_iid"].sources)
    with pytest.raises(UserError, match=r"no file name in .* has the split 'train'"):
        build_corpus(options | {"val_split": None}, (made.source_vocabulary, made.target_vocabulary))


def test_a_missing_library_is_answered_with_the_extra(monkeypatch):
    def absent(module):
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr(hub_tables, "import_module", absent)
    with pytest.raises(UserError, match=r"need datasets: pip install 'relformer\[hub\]'"):
        HubPairs("wmt14")


def test_importing_the_module_does_not_import_the_library():
    script = "import sys, json; import relformer.data.text.hub; print(json.dumps(sorted(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": str(Path(relformer.__file__).parents[1])}
    command = [sys.executable, "-c", script]
    modules = json.loads(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert not {"datasets", "pyarrow"} & set(modules)
