"""What is wrong with a configuration, in the words the user reads."""

import re
from collections.abc import Callable

import pytest

from relformer.config import SLOTS
from relformer.errors import UserError
from relformer.registry import encodings
from tests.config.composed import checked, composed

MESSAGES = [
    (
        "encoding=t5 encoding.num_bukets=4",
        r"no config key 'encoding.num_bukets'; did you mean 'encoding.num_buckets'\?\n"
        r"  keys under 'encoding': name, share, layers, num_buckets, max_distance",
    ),
    (
        "encoding=alibi encoding.num_buckets=4",
        r"^no config key 'encoding.num_buckets'\n  keys under 'encoding': name, ",
    ),
    ("model.lr=1", r"no config key 'model.lr'; did you mean 'optimizer.lr'\?"),
    ("decoder_encodng=alibi", r"no config key 'decoder_encodng'; did you mean 'decoder_encoding'\?"),
    ("encodng=alibi", r"no config key 'encodng'; did you mean 'encoding'\?"),
    ("encoding=t5 encoding.num_buckets=abc", r"encoding.num_buckets: 'abc' is not an integer$"),
    ("encoding=t5 encoding.num_buckets=4.5", r"encoding.num_buckets: '4.5' is not an integer$"),
    ("data.bos=maybe", r"data.bos: 'maybe' is not true or false$"),
    ("loss.label_smoothing=abc", r"loss.label_smoothing: 'abc' is not a number$"),
    ("encoding=null", r"encoding=null is not an encoding; did you mean encoding=none\?$"),
    ("cross_encoding=null", r"cross_encoding=null is not an encoding; did you mean cross_encoding=none\?$"),
    (
        "decoder_encoding.max_bias=2",
        r"decoder_encoding is not set; choose one first: decoder_encoding=alibi decoder_encoding.max_bias=",
    ),
    (
        "decoder_encoding=alibi decoder_encoding.max_bais=2",
        r"no config key 'decoder_encoding.max_bais'; did you mean 'decoder_encoding.max_bias'\?",
    ),
    (
        "trainer.detect_anomaly=true",
        r"no config key 'trainer.detect_anomaly'.*\n  keys under 'trainer': .*\n.* need a plus: "
        r"\+trainer.detect_anomaly=",
    ),
    ("optimizer.betas.x.y=3", "no config key 'optimizer.betas.x.y'"),
    ("optimizer.betas.0=0.5", "no config key 'optimizer.betas.0'"),
    ("~optimizer.betas.0", "no config key 'optimizer.betas.0'"),
    ("sweep.learning_rates.0=1", "no config key 'sweep.learning_rates.0'"),
    ("data.test.mx_length=3", r"no config key 'data.test.mx_length'; did you mean 'data.test.max_length'\?"),
    (
        "encoding=rope encoding.scaling.facter=3",
        r"no config key 'encoding.scaling.facter'; did you mean 'encoding.scaling.factor'\?\n  keys under "
        r"'encoding.scaling': type, factor, original_length, ",
    ),
    ("encoding=rope encoding.scaling.factor=abc", r"^encoding.scaling.factor: 'abc' is not a number$"),
    ("encoding=rope encoding.scaling.long_factors=[a]", r"^encoding.scaling.long_factors\[0\]: 'a' is not a number$"),
    (
        "encoding=rope encoding.scaling=yarn",
        r"^encoding.scaling: 'yarn' is not a mapping; .*encoding.scaling.NAME=VALUE$",
    ),
    ("model.width=null", r"^model.width=null: it needs a value; leave the option out for its default$"),
    ("scheduler=cosin", r"no scheduler 'cosin'; did you mean 'cosine'\?\n  scheduler: constant, cosine, .*linear"),
]
FAULTS = [
    ("model.heads=5", r"model.heads=5 does not divide model.width=64; choose a divisor such as 2 or 4$"),
    ("+trainer.detect_anomalie=true", r"Trainer has no argument 'detect_anomalie'; did you mean 'detect_anomaly'\?$"),
    ("data=scan data.cutoff=60", r"data.cutoff=60 must be from 1 to 47: .*the official split has 22$"),
    (
        "encoding=learned decoder_encoding=t5 encoding.max_length=12",
        r"the longest source has 22 positions .* encoding.max_length=12; set encoding.max_length=22 or more",
    ),
    (
        "decoder_encoding=learned decoder_encoding.max_length=12",
        r"the longest target has 21 positions .* set decoder_encoding.max_length=21 or more",
    ),
    ("trainer.max_steps=0", r"trainer.max_steps=0 must be an integer of at least 1$"),
    ("trainer.devices=4 data.batch_size=3", r"data.batch_size=3 is smaller than the 4 devices that share it"),
    ("seed=abc", r"seed: 'abc' is not an integer$"),
    ("resume=nowhere.ckpt", r"resume=nowhere.ckpt is not a file"),
    ("eval.checkpoint=best", r"eval.checkpoint='best' is not one of last, best_val$"),
    ("attention.backend=fast", r"attention.backend='fast' is not one of auto, dense, sdpa, flex$"),
    (
        "attention.backend=sdpa encoding=shaw",
        r"attention.backend=sdpa can't serve encoding.* use attention.backend=auto",
    ),
    ("+optimizer.beta=1", r"torch.optim.Adam.*'beta'"),
    ("encoding.layers=[7]", r"encoding.layers=\[7\] must be all or a list of layer numbers from 0 to 1$"),
    ("cross_encoding=sinusoidal", r"cross_encoding=sinusoidal acts on the input of a stack, .* or choose one"),
    ("cross_encoding=rope cross_encoding.fraction=5", r"cross_encoding.fraction=5.0 must lie in \(0, 1\]"),
    (
        "encoding=rope_bias",
        r"^encoding=rope_bias needs model.attention_bias=qk or qkv or all, not none: .*; set model.attention_bias=qk, ",
    ),
    ("encoding=xpos", r"^encoding=xpos can't serve an encoder: .*; use encoding=rope decoder_encoding=xpos$"),
    ("cross_encoding=xpos", r"^cross_encoding=xpos can't serve cross-attention: .*; use cross_encoding=rope$"),
    ("encoding=rope encoding.scaling.type=yarm", r"^encoding.scaling.type='yarm' is not one of none, linear, .*yarn"),
    ("encoding=rope encoding.scaling.type=yarn", r"^encoding.scaling.factor=None must be set to at least 1: "),
    ("cross_encoding=rope cross_encoding.scaling.factor=2", r"^cross_encoding.scaling.factor=2.0 is not an option of "),
    (
        "callbacks=early_stopping callbacks.early_stopping.monitor=val/ood/loss",
        r"callbacks.early_stopping.monitor=val/ood/loss is not measured(.|\n)*val/iid/loss(.|\n)*val/longer/loss",
    ),
    (
        "callbacks.best_checkpoint.monitor=val/ood/loss",
        r"callbacks.best_checkpoint.monitor=val/ood/loss is not measured(.|\n)*val/iid/loss(.|\n)*val/longer/loss",
    ),
    (
        "callbacks.attention_maps.sentences=[0,5000]",
        r"^callbacks.attention_maps.sentences=\[0, 5000\] is not a list of numbers of sentences from 0 to \d+: val_iid",
    ),
    (
        "callbacks=early_stopping callbacks.early_stopping.mode=max",
        r"no config key 'callbacks.early_stopping.mode'(.|\n)*keys under 'callbacks.early_stopping': ",
    ),
    ("callbacks.attention_maps=3", r"^'3' is not an object's options"),
    ("on_full=ignore", r"^on_full=ignore is not one of stop, go_on$"),
    ("resume_changed=maybe", r"^resume_changed=maybe is not true or false$"),
    ("data=scan model.tie=all", r"model.tie='all' needs one vocabulary for both sides .*; choose decoder$"),
    ("model.tie=al", r"model.tie='al' is not one of none, inputs, decoder, all$"),
]


def refused(build: Callable[..., object], overrides: str) -> str:
    with pytest.raises(UserError) as fault:
        build(*overrides.split())
    return str(fault.value)


@pytest.mark.parametrize(("overrides", "message"), MESSAGES)
def test_a_fault_found_in_composing(overrides: str, message: str) -> None:
    """Found without `check`, since composing is all a sweep does with its own command line."""
    text = refused(composed, overrides)
    assert matches(message, text), text


@pytest.mark.parametrize(("overrides", "message"), FAULTS)
def test_a_fault_found_by_the_check(overrides: str, message: str) -> None:
    text = refused(checked, overrides)
    assert matches(message, text) and "\nerror:" not in text, text


def matches(message: str, text: str) -> bool:
    return re.search(message, text) is not None


@pytest.mark.parametrize("slot", SLOTS)
def test_an_unknown_encoding_comes_with_the_nearest_and_the_list(slot: str) -> None:
    text = refused(composed, f"{slot}=alibbi")
    first, second = text.splitlines()
    assert first == "no encoding 'alibbi'; did you mean 'alibi'?"
    assert second.strip() == f"encoding: {', '.join(encodings)}"


def test_a_name_like_no_other_gets_no_suggestion() -> None:
    assert refused(composed, "encoding=xyzzy").startswith("no encoding 'xyzzy'\n")


def test_all_faults_are_said_together() -> None:
    text = refused(
        checked, "model.heads=5 loss.label_smoothing=2 data.letters=1 trainer.max_steps=0 encoding.layers=[9]"
    )
    lines = text.split("\nerror: ")
    assert len(lines) == 5
    for start in (
        "model.heads=5",
        "loss.label_smoothing=2.0",
        "data.letters=1",
        "trainer.max_steps=0",
        "encoding.layers",
    ):
        assert sum(line.startswith(start) for line in lines) == 1, start


def test_one_fault_of_two_slots_is_said_once() -> None:
    """`decoder_encoding` is not set, so the decoder has the encoder's fault."""
    assert refused(checked, "encoding=alibi encoding.max_bias=-1").count("max_bias") == 1


def test_a_mapping_as_a_slot_is_refused_without_a_traceback() -> None:
    assert "encoding" in refused(composed, "encoding={a:1}")
