"""A model of ours as a T5 of transformers, where it is one: `experiment=t5_original` trains such a model.

Nothing is folded into weights, so that what comes back is the same to the bit; a model that differs from T5 is refused,
with every option in which it does. Ids are those of the model's tokenizer: of an imported one its own, else ours.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from relformer.data.text.imported import Controls, ImportedTokenizer
from relformer.data.vocabulary import BOS, EOS, PAD, Coder
from relformer.errors import UserError
from relformer.hf.families import EPSILON
from relformer.hf.library import logger, transformers
from relformer.hf.names import t5_names
from relformer.hf.tokenizer_files import write_tokenizer
from relformer.model import ModelOptions, Seq2Seq
from relformer.training.module import Seq2SeqModule

FORWARDS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_tanh": "gelu_new",
    "silu": "silu",
    "reglu": "gated-relu",
    "geglu_tanh": "gated-gelu",
    "swiglu": "gated-silu",
}
"""`feed_forward_proj`; its gated-gelu is GELU by tanh."""
MODEL: dict[str, tuple[Any, ...]] = {
    "norm": ("pre",),
    "norm_type": ("rms",),
    "activation": tuple(FORWARDS),
    "tie": ("all", "inputs"),
    "embedding_norm": (False,),
    "attention_bias": ("none",),
    "feedforward_bias": (False,),
    "share_layers": (False,),
}
SLOT: dict[str, tuple[Any, ...]] = {
    "name": ("t5",),
    "scale": (1.0,),
    "exact_buckets": (None,),
    "log_buckets": ("original",),
    "untie_first": (False,),
    "share": (None, "stack"),
    "layers": ("all",),
}
CROSS: dict[str, tuple[Any, ...]] = {"name": ("none",), "scale": (1.0,), "layers": ("all",)}


def to_hf_t5(module: Seq2SeqModule, folder: str | Path) -> Path:
    """Write config.json, model.safetensors, generation_config.json and the tokenizer's files to a new folder.

    Raises:
        UserError: transformers is missing, the folder holds something, or the model is no T5, with every difference.
    """
    library, folder = transformers(), Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} is there already; choose another folder")
    config, options = module.config, ModelOptions(**module.config["model"])
    coder, controls = coder_of(module)
    if faults := [*differences(config, options), *bias_faults(module.model, controls)]:
        raise UserError("this model is not a T5, for which it would need\n  " + "\n  ".join(faults))
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as temporary:
        made = Path(temporary) / "made"
        model = filled(library, t5_config(library, config, options, controls), module.model, options, controls)
        model.generation_config.num_beams = config["decoding"]["beams"]
        model.save_pretrained(made)
        write_tokenizer(coder, made, config["data"]["bos"])
        if folder.exists():
            folder.rmdir()
        os.replace(made, folder)
    return folder


def coder_of(module: Seq2SeqModule) -> tuple[Coder, Controls]:
    """The one tokenizer, and where its control tokens are among the ids that are exported.

    Raises:
        UserError: there are two.
    """
    coder, other = module.source_vocabulary, module.target_vocabulary
    if coder is not other:
        raise UserError(
            "a T5 has one vocabulary, but this model has one for each side; train with tokenizer.joint=true"
        )
    if isinstance(coder, ImportedTokenizer):
        return coder, coder.controls
    return coder, Controls(len(coder), PAD, BOS, EOS)


def differences(config: Mapping[str, Any], options: ModelOptions) -> Iterator[str]:
    """Options with another value than T5 has, with T5's."""
    if options.decoder_only:
        yield "model.encoder_layers of at least 1, not 0"
        return
    encoder = config["encoding"]
    decoder, cross = config.get("decoder_encoding") or encoder, config.get("cross_encoding") or {"name": "none"}
    yield from wrong(vars(options), MODEL, "model")
    scales = {"all": ("output", "none")}.get(options.tie, ("none",))
    yield from wrong(vars(options), {"embedding_scale": scales}, "model")
    for path, slot, needed in (
        ("encoding", encoder, SLOT),
        ("decoder_encoding", decoder, SLOT),
        ("cross_encoding", cross, CROSS),
    ):
        if not (path == "decoder_encoding" and slot is encoder):
            yield from wrong(slot, needed, path)
    for key in ("num_buckets", "max_distance"):
        if encoder.get(key) != decoder.get(key):
            yield f"decoder_encoding.{key}={encoder.get(key)} as in the encoder, not {decoder.get(key)}"
    if len({options.dropout, options.attention_dropout, options.feedforward_dropout}) > 1:
        logger.info("note: T5 has one rate of dropout; model.dropout=%s is written", options.dropout)


def wrong(found: Mapping[str, Any], needed: Mapping[str, tuple[Any, ...]], path: str) -> Iterator[str]:
    for key, values in needed.items():
        value = found.get(key, values[0] if key in ("share", "layers", "exact_buckets") else None)
        if value not in values:
            said = " or ".join("null" if each is None else str(each).lower() for each in values)
            yield f"{path}.{key}={said}, not {str(value).lower() if value is not None else 'null'}"


def bias_faults(model: Seq2Seq, controls: Controls) -> Iterator[str]:
    """T5's logits have no bias; what bars the extra control id goes with the id."""
    if model.output_bias is None:
        return
    bias = model.output_bias.clone()
    if controls.extra is not None:
        bias[controls.extra] = 0
    if bias.any():
        yield "model.output_bias=false, or zeros; this one's fixed biases can't be kept"


def t5_config(library: Any, config: Mapping[str, Any], options: ModelOptions, controls: Controls) -> Any:
    return library.T5Config(
        vocab_size=controls.size,
        d_model=options.width,
        d_kv=options.head_size,
        d_ff=options.feedforward,
        num_layers=options.encoder_layers,
        num_decoder_layers=options.decoder_layers,
        num_heads=options.heads,
        relative_attention_num_buckets=config["encoding"]["num_buckets"],
        relative_attention_max_distance=config["encoding"]["max_distance"],
        dropout_rate=options.dropout,
        layer_norm_epsilon=EPSILON,
        feed_forward_proj=FORWARDS[options.activation],
        pad_token_id=controls.pad,
        eos_token_id=controls.eos,
        decoder_start_token_id=controls.start,
        tie_word_embeddings=options.embedding_scale == "output",
        n_positions=config["trained_length"],
    )


@torch.no_grad()
def filled(library: Any, t5: Any, model: Seq2Seq, options: ModelOptions, controls: Controls) -> Any:
    """Their model with our weights."""
    made = library.T5ForConditionalGeneration(t5)
    state = model.state_dict()
    theirs = {name: state[ours] for ours, name in t5_names(options).items()}
    rows = torch.tensor(controls.ours)
    for name in ("shared", "encoder.embed_tokens", "decoder.embed_tokens"):
        theirs[f"{name}.weight"] = model.source_embedding.weight[rows]
    head = model.head[0][rows].clone()
    if options.embedding_scale != "output":
        made.lm_head.weight = torch.nn.Parameter(torch.empty_like(head))
    made.load_state_dict({**theirs, "lm_head.weight": head})
    return made
