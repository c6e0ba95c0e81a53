"""Schemas follow from signatures: keys, types, defaults, for whatever is registered."""

from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal, get_origin

import pytest
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException, ValidationError

from relformer.config import conf_dir
from relformer.data.corpus import DataOptions
from relformer.data.task import LengthRange
from relformer.errors import UserError
from relformer.model import ModelOptions
from relformer.registry import Option, Registry, encodings, tasks
from relformer.schema import EvalOptions, SlotOptions, options_of, schema, wrong_choice
from tests.config.composed import SMALL, composed


@dataclass(frozen=True)
class Nested:
    mode: Literal["slow", "fast"] = "slow"
    sizes: list[float] | None = None


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
        order: Literal[1, 2] = 1,
        span: LengthRange = LengthRange(2, 5),  # noqa: B008
        nested: Nested = Nested("fast"),
    ) -> None:
        self.span, self.nested = span, nested


def sample() -> Any:
    registry = Registry("encoding")
    registry.register("sample")(Sample)
    return OmegaConf.structured(schema("sample", registry["sample"].options()))


def test_injected_arguments_are_no_options() -> None:
    assert set(sample()) == {"count", "rate", "flag", "perhaps", "kind", "order", "span", "nested"}


def test_values_are_converted_to_the_type_of_the_signature() -> None:
    node = sample()
    node.rate, node.count, node.flag, node.perhaps, node.span.max_length = 1, "4", "true", 2, "9"
    node.order = "2"
    node.nested.sizes = [1, "2.5"]
    assert OmegaConf.to_container(node) == {
        "count": 4,
        "rate": 1.0,
        "flag": True,
        "perhaps": 2.0,
        "kind": "two",
        "order": 2,
        "span": {"min_length": 2, "max_length": 9},
        "nested": {"mode": "fast", "sizes": [1.0, 2.5]},
    }
    assert type(node.rate) is type(node.perhaps) is float


def built(**options: Any) -> Sample:
    registry = Registry("encoding")
    registry.register("sample")(Sample)
    made: Sample = registry["sample"].build({"heads": 1}, options)
    return made


def test_a_mapping_becomes_the_dataclass_of_the_signature() -> None:
    made = built(span={"max_length": 9}, nested=Nested(sizes=[1.0]))
    assert (made.span, made.nested) == (LengthRange(None, 9), Nested("slow", [1.0]))
    assert built().nested == Nested("fast")
    content: Any = OmegaConf.to_container(sample())
    assert built(**content).nested == Nested("fast")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nested": {"mode": "brisk"}}, r"^nested\.mode='brisk' is not one of slow, fast$"),
        ({"nested": {"moed": 1}}, r"nested\.moed=1 is not an option of sample; did you mean 'nested\.mode'\?"),
        ({"nested": "fast"}, r"^nested='fast' must be a mapping of options: mode, sizes$"),
        ({"span": None}, r"^span=None must be a mapping of options: min_length, max_length$"),
    ],
)
def test_faults_inside_a_mapping_have_their_path(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        built(**options)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("count", 1.5),
        ("count", None),
        ("rate", "abc"),
        ("flag", "maybe"),
        ("perhaps", "abc"),
        ("order", "abc"),
        ("span", 3),
        ("nested", "fast"),
    ],
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


def test_wrong_choice_names_the_option_and_its_choices() -> None:
    assert wrong_choice({"checkpoint": "best"}, EvalOptions) == ("checkpoint", "best", "last, best_val")
    assert wrong_choice({"checkpoint": "best_val", "every": 3}, EvalOptions) is None
    assert wrong_choice({"tie": "al"}, ModelOptions) == ("tie", "al", "none, inputs, decoder, all")


def stored(value: Any) -> Any:
    return {f.name: getattr(value, f.name) for f in fields(value)} if is_dataclass(value) else value


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
    if is_dataclass(option.type):
        with pytest.raises(ValidationError):
            node[key] = "3"
        for inner, nested in options_of(option.type).items():
            refuse_wrong_type(node[key], inner, nested)
        return
    kinds = {option.type, *getattr(option.type, "__args__", ())}
    wrong = (
        (int, "1.5"),
        (float, "abc"),
        (bool, "maybe"),
        (list[float], ["abc"]),
        (list[str], "one"),
        (list[Any], "one"),
        (str, ["one"]),
    )
    for kind, value in wrong:
        if kind in kinds:
            with pytest.raises(ValidationError):
                node[key] = value
            return
    free = option.type is Any or key in ("share", "layers")
    assert get_origin(option.type) is Literal or free, f"no schema checks {key}"
