"""Random overrides made from the real configuration: its keys, its groups, and values of every wrong kind."""

from hypothesis import strategies as st
from omegaconf import OmegaConf

from relformer.config import dotted_keys
from tests.config.composed import composed, groups, names

SMALL = (
    *("data=reverse", "data.examples=60", "data.examples_per_length=2", "trainer.accelerator=cpu", "logger=none"),
    *("callbacks.bias_heatmaps=null", "trainer.max_steps=1"),
)
OWN = [
    key
    for key in dotted_keys(OmegaConf.to_container(composed(), resolve=False))
    if not key.startswith("hydra.") and not key.startswith("data.")
]
DATA = [key for key in dotted_keys(OmegaConf.to_container(composed(), resolve=False)) if key.startswith("data.")]
HYDRA = [
    "hydra.run.dir",
    "hydra.sweep.dir",
    "hydra.sweep.subdir",
    "hydra.job.name",
    "hydra.mode",
    "hydra.output_subdir",
]
SLOTS = ["decoder_encoding", "cross_encoding", "encoding@decoder_encoding", "encoding@cross_encoding"]
GROUPS = [*groups(), *SLOTS, "nothing", "encodings", "encoding/schema", "experiment"]
CHOICES = sorted({name for group in groups() for name in names(group)})
VALUES = [
    *("", " ", "null", "None", "true", "False", "0", "1", "-1", "2", "2.5", "-0.0", "1e-30", "1e400", "nan", "inf"),
    *(
        "-inf",
        "99999999999999999999",
        "-9223372036854775809",
        "1_000",
        "0x10",
        "07",
        "abc",
        "é",
        "\U0001f642",
        "\u202e",
    ),
    *("'quoted'", '"doubly"', "'", '"', "''", "[]", "[1,2]", "[a,null]", "[[[]]]", "[", "]", "{}", "{a: 1}", "{", "}"),
    *("{_target_: os.system}", "{_target_: nowhere.Here}", "{_target_: 3}", "{name: alibi}", "{1: 2}", "{null: 1}"),
    *(
        "${seed}",
        "${nope}",
        "${data}",
        "${oc.env:NOPE_NOPE}",
        "${oc.env:HOME}",
        "${",
        "${}",
        "${a:b}",
        "${oc.decode:x}",
    ),
    *("???", "1,2", "a,b", "range(3)", "choice(1,2)", "glob(*)", "sort(3,1)", "interval(0,1)", "int('a')", "str(1)"),
    *(
        "../..",
        "..",
        ".",
        "/",
        "~",
        "/dev/null",
        "/dev/null/x",
        "/proc/x",
        "\\",
        "a=b",
        "a:b",
        "@x",
        "$(x)",
        "`x`",
        "#c",
    ),
    *(
        "%s",
        "%(x)s",
        "--flag",
        "-m",
        "\n",
        "a\nb",
        "\t",
        "\x7f",
        "x" * 300,
        "all",
        "auto",
        "none",
        "best",
        "last",
        "tiny",
    ),
]


def keys() -> st.SearchStrategy[str]:
    known = st.sampled_from([*OWN, *DATA, *GROUPS])
    typo = st.tuples(known, st.integers(0, 30), st.sampled_from(["", "x", ".", "é", " ", "@", "["])).map(
        lambda each: each[0][: each[1]] + each[2] + each[0][each[1] + 1 :]
    )
    return st.one_of(*[known] * 6, st.sampled_from(HYDRA), typo, st.text(max_size=8))


def values() -> st.SearchStrategy[str]:
    return st.one_of(
        st.sampled_from(VALUES), st.sampled_from(CHOICES), st.integers(-3, 70).map(str), st.text(max_size=8)
    )


def override() -> st.SearchStrategy[str]:
    prefix = st.sampled_from(["", "", "", "", "", "", "", "+", "++", "~"])
    return st.tuples(prefix, keys(), st.sampled_from(["=", "=", "=", "=", "=", "=", ""]), values()).map(
        lambda each: each[0] + each[1] + (each[2] + each[3] if each[2] else "")
    )


def command_lines() -> st.SearchStrategy[list[str]]:
    """`train` first, so that none is taken for another command."""
    return st.lists(override(), min_size=1, max_size=2).map(lambda each: ["train", *SMALL, *map(passed, each)])


def passed(argument: str) -> str:
    """As the operating system can hand it over."""
    return argument.replace("\0", "").encode("utf-8", "replace").decode()
