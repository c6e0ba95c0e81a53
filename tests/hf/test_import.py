"""Random small models of transformers become models of ours: the same logits, the same outputs token by token."""

import sys
from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("transformers", reason="transformers is not installed: the extra hf")

from relformer.data.text.imported import Controls
from relformer.decoding import DecodingOptions, decode
from relformer.errors import UserError
from relformer.hf import from_hf
from relformer.hf.importing import controls_of
from relformer.model import Seq2Seq, build_model
from tests.hf.models import BART, NAMES, T5, make, sources

TOKENS = 24
"""The most that are generated."""


class Both:
    """Their model and ours, made of it; `source` and `target` say how ids stand to each other."""

    def __init__(self, path: Path) -> None:
        import transformers

        self.path = path
        self.theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(path).eval()
        self.config, self.state, coders = from_hf(str(path))
        self.sizes = [len(coder) for coder in coders]
        self.ours = self.built()
        sides = controls_of(self.theirs)
        self.source, self.target = sides.source, sides.target

    def built(self) -> Seq2Seq:
        """Our model, in torch's default precision."""
        ours = build_model(self.config, *self.sizes).eval()
        ours.load_state_dict(self.state)
        return ours

    def given(self, count: int) -> tuple[dict[str, Tensor], Tensor]:
        """Sources for them and for us."""
        ids, mask = sources(self.theirs, count)
        return {"input_ids": ids, "attention_mask": mask}, moved(ids, self.source).masked_fill(mask == 0, 0)


def moved(ids: Tensor, controls: Controls) -> Tensor:
    return torch.tensor(controls.ours)[ids]


@pytest.fixture(scope="module", params=NAMES)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Both:
    folder = tmp_path_factory.mktemp("hub")
    make(request.param).save_pretrained(folder)
    return Both(folder)


@torch.no_grad()
def logits(both: Both, theirs: Any, ours: Any) -> tuple[Tensor, Tensor]:
    """Those of two models for the same padded sources and targets, each in its ids."""
    given, source = both.given(6)
    target = torch.randint(3, 60, (6, 11), generator=torch.Generator().manual_seed(5))
    target[:, 0] = theirs.config.decoder_start_token_id
    target[2, 7:] = both.target.pad
    read = moved(target, both.target)
    read[:, 0] = 1
    return theirs(**given, decoder_input_ids=target).logits, ours(source, read)


def test_logits_are_equal(both: Both) -> None:
    expected, found = logits(both, both.theirs, both.ours)
    # An untied head of T5 1.1 gives logits above 10, where float32 itself is no finer than 1e-6 an addition.
    torch.testing.assert_close(found[..., both.target.ours], expected, rtol=2e-5, atol=1e-4)
    assert found.shape[-1] == expected.shape[-1] + (both.target.extra is not None)
    extra = both.target.extra
    if extra is not None:  # the second id of a token takes no probability from the others
        torch.testing.assert_close(found.logsumexp(-1), expected.logsumexp(-1), rtol=0, atol=1e-4)
        assert (found[..., extra] < found.amax(-1) - 50).all()


def mean_square_norm(norm: Any, x: Tensor) -> Tensor:
    return norm.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon)


def sinusoids(tokens: int, width: int) -> Tensor:
    angle = torch.arange(tokens)[:, None] * 10000.0 ** -(torch.arange(0, width, 2) / width)
    return torch.cat([angle.sin(), angle.cos()], -1)


@pytest.fixture
def float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def test_logits_are_equal_to_ten_digits_in_float64(both: Both, float64: None) -> None:
    """So all that the float32 logits differ by is rounding. Two formulas of transformers that are in float32 whatever
    the model's precision stand here in float64: the mean of squares in T5's norm, Marian's table of sinusoids."""
    theirs, ours = deepcopy(both.theirs).double(), both.built()
    for module in theirs.modules():
        if hasattr(module, "variance_epsilon"):
            module.forward = partial(mean_square_norm, module)
        if "Sinusoidal" in type(module).__name__:
            module.weight = torch.nn.Parameter(sinusoids(*module.weight.shape))
    expected, found = logits(both, theirs, ours)
    assert expected.dtype == found.dtype == torch.float64
    torch.testing.assert_close(found[..., both.target.ours], expected, rtol=0, atol=1e-10)


def generated(both: Both, count: int, **options: Any) -> tuple[list[list[int]], list[list[int]]]:
    """Their outputs and ours, in their ids, each cut behind its EOS."""
    given, source = both.given(count)
    with torch.no_grad():
        found = both.theirs.generate(
            **given,
            do_sample=False,
            max_new_tokens=TOKENS,
            num_beams=options.get("beams", 1),
            **options.pop("theirs", {}),
        )
    eos = both.target.eos
    theirs = [row[: row.index(eos) + 1] if eos in row else row for row in found[:, 1:].tolist()]
    hypotheses = decode(
        both.ours, source, DecodingOptions(max_length_base=TOKENS, max_length_factor=0, **options), bos=1, eos=2
    )
    ours = [best.tokens + ([] if best.reached_limit else [2]) for best, *_ in hypotheses]
    return theirs, [[both.target.rows[number] for number in row] for row in ours]


def test_greedy_outputs_are_equal_token_by_token(both: Both) -> None:
    theirs, ours = generated(both, 50)
    assert ours == theirs
    assert len({tuple(row) for row in theirs}) > 4  # they say something


def test_beam_search_mostly_finds_the_same(both: Both) -> None:
    """Not always: at the limit of length they take a target that has not ended before a worse one that has."""
    theirs, ours = generated(both, 20, beams=3, theirs={"early_stopping": True, "length_penalty": 1.0})
    assert sum(one == other for one, other in zip(theirs, ours, strict=True)) >= 16


@torch.no_grad()
def test_a_token_that_they_never_write_is_barred(tmp_path: Path) -> None:
    model = make("marian")
    model.final_logits_bias[0, model.config.pad_token_id] = 9  # it would always be the most probable
    model.generation_config.bad_words_ids = [[model.config.pad_token_id]]
    model.save_pretrained(tmp_path)
    both = Both(tmp_path)
    theirs, ours = generated(both, 10)
    assert ours == theirs and not any(model.config.pad_token_id in row for row in theirs)


@torch.no_grad()
def test_the_second_id_of_a_token_learns_nothing_and_the_first_all(tmp_path: Path) -> None:
    make("t5").save_pretrained(tmp_path)
    both = Both(tmp_path)
    with torch.enable_grad():
        loss = (
            both.ours(both.given(3)[1], torch.tensor([[1, 5, 6], [1, 7, 8], [1, 9, 4]])).log_softmax(-1)[..., 5].sum()
        )
        loss.backward()
    gradient = both.ours.target_embedding.weight.grad
    assert gradient is not None and both.target.extra == 0
    assert not gradient[0].any() and gradient[1].any()


def test_what_has_no_place_is_refused(tmp_path: Path) -> None:
    import transformers

    odd = transformers.BartConfig(**BART | {"decoder_attention_heads": 2})
    transformers.BartForConditionalGeneration(odd).save_pretrained(tmp_path / "heads")
    with pytest.raises(UserError, match=r"decoder_attention_heads=2: relformer has one model.heads for both stacks"):
        from_hf(str(tmp_path / "heads"))
    other = transformers.T5Config(**T5 | {"layer_norm_epsilon": 1e-3})
    transformers.T5ForConditionalGeneration(other).save_pretrained(tmp_path / "norm")
    with pytest.raises(UserError, match=r"layer_norm_epsilon=0.001"):
        from_hf(str(tmp_path / "norm"))
    transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=1, n_embd=8, n_head=1, vocab_size=9)).save_pretrained(
        tmp_path / "gpt"
    )
    with pytest.raises(UserError, match="of type 'gpt2'; relformer imports t5, mt5, marian, bart"):
        from_hf(str(tmp_path / "gpt"))
    with pytest.raises(UserError, match="is not a folder"):
        from_hf(f"hf:{tmp_path / 'nothing'}")


def test_a_missing_transformers_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(
        UserError, match=r"^models of the hub need transformers; install it: pip install 'relformer\[hf\]'$"
    ):
        from_hf("hf:google-t5/t5-small")
