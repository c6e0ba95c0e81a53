"""`relformer benchmark attention`: that the calls are those of the encodings, and what is printed and written."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from relformer.attention import attend
from relformer.benchmark import attention
from relformer.benchmark.attention import AttentionBenchmark, benchmark_attention, measurable
from relformer.benchmark.chosen import chosen
from relformer.benchmark.interleaved import Spread
from relformer.benchmark.subjects import Setting, built, encoded, naive, plain
from relformer.encodings import Role, Span
from relformer.errors import UserError
from relformer.registry import encodings

CPU = torch.device("cpu")
TINY = ["batch=2", "heads=2", "head_dim=4", "lengths=4", "repeats=1"]


def setting(role: Role = "encoder", padding: float = 0.2) -> Setting:
    return Setting(3, 2, 4, 10, role, padding, CPU)


@pytest.mark.parametrize("role", ["encoder", "decoder", "cross"])
@pytest.mark.parametrize("padding", [0.0, 0.2])
def test_the_floor_is_attention_without_positions(role: Role, padding: float) -> None:
    where = setting(role, padding)
    none = encoded(built("none", {}, where), where)
    torch.testing.assert_close(plain(where).call(), none.call())


@pytest.mark.parametrize("role", ["encoder", "decoder"])
def test_the_articles_table_is_simple_bias(role: Role) -> None:
    where = setting(role)
    subject = naive(where)
    encoding = built("simple_bias", {"max_length": 10}, where)
    bias = encoding.ready(Span.between(range(10), range(10), 10, CPU)).table
    assert bias is not None
    with torch.no_grad():
        subject.leaves[3].copy_(bias.T.flip(0))  # ours runs from the furthest past on, the article's from -9
    torch.testing.assert_close(subject.call(), encoded(encoding, where).call())


@pytest.mark.parametrize("name", sorted(encodings))
def test_a_call_is_that_of_a_model(name: str) -> None:
    """In output, and in taking gradients of q, k, v and every parameter that takes part."""
    role: Role = "decoder" if "encoder" in encodings[name].cls.refuses else "encoder"  # type: ignore[attr-defined]
    where = setting(role)
    encoding = built(name, {}, where)
    subject = encoded(encoding, where)
    out = subject.call()
    assert out.shape == where.qkv[0].shape and out.requires_grad
    if not (encoding.acts("project") or encoding.acts("features") or encoding.acts("positions")):
        span = encoding.ready(Span.between(range(10), range(10), 10, CPU))
        again = attend(*where.qkv, encoding, span, padding=where.keep, causal=where.causal, backend="dense")
        torch.testing.assert_close(out, again)
    given = torch.autograd.grad(out, subject.leaves, where.gradient, allow_unused=True)
    assert all(gradient is not None for gradient in given[:3])
    subject.forward()
    subject.backward()
    assert all(leaf.grad is None for leaf in subject.leaves)


def test_padding_is_the_share_that_was_asked_for() -> None:
    keep = Setting(9, 1, 2, 100, "encoder", 0.2, CPU).keep
    assert keep is not None
    assert (~keep).float().mean() == pytest.approx(0.2, abs=0.01)
    assert keep[0].all()


def test_what_it_prints_and_writes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, written: Callable[[Path], Any]
) -> None:
    files = [f"out={tmp_path / 'a.csv'}", f"plot={tmp_path / 'a.svg'}"]
    rows = benchmark_attention([*TINY, "encodings=t5,rope", *files])
    said = capsys.readouterr()
    assert "encoder, forward+backward" in said.out and "measuring 4 calls, encoder, L=4" in said.err
    assert len(rows) == 2 * 4
    found = written(tmp_path / "a.csv")
    assert list(found[0]) == [
        *("role", "length", "encoding", "direction", "milliseconds"),
        *("over_sdpa", "over_sdpa_low", "over_sdpa_high", "over_naive", "over_naive_low", "over_naive_high"),
        *("megabytes", "megabytes_over_sdpa", "megabytes_over_naive"),
    ]
    assert [row["encoding"] for row in found[::2]] == ["SDPA, no positions", "t5", "rope", "naive table"]
    picture = (tmp_path / "a.svg").read_text()
    assert all(label in picture for label in ("times SDPA without positions", "MB beyond the inputs", "naive table"))


def test_ratios_are_of_one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    def turns(runs: dict[str, Any], rounds: int, device: torch.device) -> dict[str, list[float]]:
        slow = {"SDPA, no positions": 1.0, "t5": 3.0, "naive table": 6.0}
        return {name: [slow[name.partition("/")[0]] * speed for speed in (1.0, 10.0, 1.0)] for name in runs}

    monkeypatch.setattr(attention, "taking_turns", turns)
    monkeypatch.setattr(attention, "peak", lambda run, device: 2.0)
    rows = benchmark_attention([*TINY, "encodings=t5", "what=backward,memory"])
    (t5,) = [row for row in rows if row.encoding == "t5"]
    assert (t5.direction, t5.milliseconds, t5.over_sdpa) == ("forward+backward", 3000.0, Spread(3, 3, 3))
    assert t5.over_naive == Spread(0.5, 0.5, 0.5)
    assert (t5.megabytes, t5.megabytes_over_sdpa) == (2.0, 1.0)


def test_memory_alone_takes_no_time(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(attention, "peak", lambda run, device: 2.0)
    rows = benchmark_attention([*TINY, "encodings=t5", "what=memory", "naive=false"])
    assert {row.direction for row in rows} == {"forward+backward"}
    assert {row.milliseconds for row in rows} == {None}
    assert "naive" not in (printed := capsys.readouterr().out) and "ms" not in printed


@pytest.mark.parametrize("role", ["encoder", "decoder", "cross"])
def test_all_says_once_who_is_left_out(role: Role) -> None:
    notes: list[str] = []
    where = setting(role)
    names = measurable(chosen("all", {}), where, 10, notes)
    again = measurable(chosen("all", {}), where, 10, notes)
    assert again == names and len(notes) == len(set(notes))
    refusing = [n for n in encodings if role in encodings[n].cls.refuses]  # type: ignore[attr-defined]
    if role == "encoder":
        assert f"left out: {len(refusing)} without a definition in the role encoder: {', '.join(refusing)}" in notes
    assert not {"sinusoidal", "learned", *refusing} & set(names)
    assert {"none", "t5", "rope", "shaw"} <= set(names)


def test_a_table_is_as_long_as_the_longest_length_unless_told() -> None:
    assert chosen("absolute_bias", {}).of("absolute_bias", 1024) == {"max_length": 1024}
    assert chosen("absolute_bias", {}).of("absolute_bias", 64) == {}
    own = {"absolute_bias": {"max_length": 9}}
    assert chosen("absolute_bias", own).of("absolute_bias", 1024) == {"max_length": 9}


def test_options_of_one_encoding_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Any]] = []
    build = attention.built

    def spy(name: str, options: dict[str, Any], where: Setting) -> Any:
        seen.append({name: options})
        return build(name, options, where)

    monkeypatch.setattr(attention, "built", spy)
    benchmark_attention([*TINY, "encodings=shaw", "shaw.max_distance=3", "what=forward"])
    assert {"shaw": {"max_distance": 3}} in seen


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("lenghts=4", "no option 'lenghts=4'; did you mean 'lengths'"),
        ("encodings=t5,alibbi", "no encoding 'alibbi'; did you mean 'alibi'"),
        ("encodings=", "encodings='' must be all"),
        ("encodings=cope", "encodings=cope has no definition as encoder"),
        ("encodings=learned", "1 that act before attention and cost it nothing: learned; no encoding is left"),
        ("shaw.max_distanc=3", "max_distanc=3 is not an option of shaw; did you mean 'max_distance'"),
        ("fire.hidden=3", "fire has options here, but encodings=t5,alibi,rope,shaw does not measure it"),
        ("lengths=4,x", "lengths='4,x' must list whole numbers from 2 on"),
        ("lengths=1", "lengths='1' must list whole numbers from 2 on"),
        ("what=forwards", "what='forwards' must list one or more of forward, backward, memory; did you mean 'forward'"),
        ("roles=decoders", "did you mean 'decoder'"),
        ("padding=0.5", r"padding=0.5 must lie in \[0, 0.5\)"),
        ("head_dim=3", "head_dim=3 must be even"),
        ("plot=a.gif", "plot='a.gif' must end in .png, .svg, .pdf"),
        ("repeats=0", "repeats=0 must be at least 1"),
        ("device=tpu", "device=tpu can't be used here"),
    ],
)
def test_nonsense_is_refused(argument: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        benchmark_attention([argument])


def test_padding_needs_two_sentences() -> None:
    with pytest.raises(UserError, match="needs two sentences"):
        AttentionBenchmark(batch=1, padding=0.1)
