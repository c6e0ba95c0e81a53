"""Schemas follow from signatures: keys, types, defaults, for whatever is registered."""

from dataclasses import fields
from typing import Any, Literal, get_origin

import pytest
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException, ValidationError

from relformer.config import conf_dir
from relformer.data.corpus import DataOptions
from relformer.data.task import LengthRange
from relformer.model import ModelOptions
from relformer.registry import Option, Registry, encodings, tasks
from relformer.schema import EvalOptions, SlotOptions, options_of, schema, wrong_choice
from tests.config.composed import SMALL, composed


class Sample:
    """Takes one option of each kind."""

    def __init__(
        self,
        heads: int,
        *,
        count: int = 3,
        rate: float = 0.5,
        flag: bool = False,
        perhaps: float | None = None,
        kind: Literal["one", "two"] = "two",
        span: LengthRange = LengthRange(2, 5),  # noqa: B008
    ) -> None:
        raise NotImplementedError


def sample() -> Any:
    registry = Registry("encoding")
    registry.register("sample")(Sample)
    return OmegaConf.structured(schema("sample", registry["sample"].options()))


def test_injected_arguments_are_no_options() -> None:
    assert set(sample()) == {"count", "rate", "flag", "perhaps", "kind", "span"}


def test_values_are_converted_to_the_type_of_the_signature() -> None:
    node = sample()
    node.rate, node.count, node.flag, node.perhaps, node.span.max_length = 1, "4", "true", 2, "9"
    assert OmegaConf.to_container(node) == {
        "count": 4,
        "rate": 1.0,
        "flag": True,
        "perhaps": 2.0,
        "kind": "two",
        "span": {"min_length": 2, "max_length": 9},
    }
    assert type(node.rate) is type(node.perhaps) is float


@pytest.mark.parametrize(
    ("key", "value"),
    [("count", 1.5), ("count", None), ("rate", "abc"), ("flag", "maybe"), ("perhaps", "abc"), ("span", 3)],
)
def test_values_of_another_type_are_refused(key: str, value: object) -> None:
    with pytest.raises(ValidationError):
        sample()[key] = value


def test_unknown_keys_are_refused_at_every_depth() -> None:
    node = sample()
    with pytest.raises(OmegaConfBaseException):
        node.cuont = 3
    with pytest.raises(OmegaConfBaseException):
        node.span.longest = 3


def test_two_schemas_do_not_share_a_mutable_default() -> None:
    first = sample()
    first.span.min_length = 4
    assert sample().span.min_length == 2


def test_wrong_choice_names_the_option_and_its_choices() -> None:
    assert wrong_choice({"checkpoint": "best"}, EvalOptions) == ("checkpoint", "best", "last, best_val")
    assert wrong_choice({"checkpoint": "best_val", "every": 3}, EvalOptions) is None
    assert wrong_choice({"tie": "al"}, ModelOptions) == ("tie", "al", "none, decoder, all")


def stored(value: Any) -> Any:
    return {f.name: getattr(value, f.name) for f in fields(value)} if isinstance(value, LengthRange) else value


@pytest.mark.parametrize(
    ("group", "name"), [*(("encoding", name) for name in encodings), *(("data", name) for name in tasks)]
)
def test_a_registered_class_is_offered_with_its_options(group: str, name: str) -> None:
    entry, common = (encodings[name], SlotOptions) if group == "encoding" else (tasks[name], DataOptions)
    options = {**options_of(common), **entry.options()}
    node = composed(f"{group}={name}")[group]
    given = OmegaConf.load(conf_dir() / group / f"{name}.yaml").keys() | {o.split(".")[-1].split("=")[0] for o in SMALL}
    content = OmegaConf.to_container(node, resolve=True)
    assert set(content) == {"name", *options}
    for key, option in options.items():
        if key not in given:
            assert content[key] == stored(option.default), key
        refuse_wrong_type(node, key, option)


def refuse_wrong_type(node: Any, key: str, option: Option) -> None:
    kinds = {option.type, *getattr(option.type, "__args__", ())}
    lists = ((list[float], ["abc"]), (list[str], "abc"))
    for kind, value in ((int, "1.5"), (float, "abc"), (bool, "maybe"), (LengthRange, "3"), *lists):
        if kind in kinds:
            with pytest.raises(ValidationError):
                node[key] = value
            return
    assert get_origin(option.type) is Literal or key in ("share", "layers"), f"no schema checks {key}"
