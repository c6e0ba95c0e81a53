"""What a configuration of transformers means as options of ours, for each family of models.

T5        pre-norm RMSNorm without biases, q·k unscaled, buckets of distance; the output layer is the embedding times
          width^-0.5 (1.0), or one of its own (1.1, mT5, Flan), whose feed-forward is gated
BART      post-norm, biases everywhere, a norm where the embeddings enter, learned positions
Marian    post-norm, biases everywhere, sinusoids (sines first)

Not ours: T5's dropout behind the last norm of a stack, and layers dropped whole in training.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from relformer.errors import UserError

logger = logging.getLogger("relformer")
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_new": "gelu_tanh", "silu": "silu", "swish": "silu"}
GATES = {"relu": "reglu", "gelu": "geglu", "gelu_new": "geglu_tanh", "silu": "swiglu", "swish": "swiglu"}
EPSILON = 1e-6
"""Of our RMSNorm, and of every T5 that was released."""


def overrides_of(model: Any) -> list[str]:
    """The choices and options of a configuration, as on the command line.

    Raises:
        UserError: what no option of ours can say.
    """
    config = model.config
    own = t5_options(config) if config.model_type in ("t5", "mt5") else bart_options(config)
    return [f"{key}={'null' if value is None else value}" for key, value in (*own, *tying(model))]


def tying(model: Any) -> Iterator[tuple[str, Any]]:
    """What is one tensor, whatever the configuration says of it."""
    source, target = (stack.get_input_embeddings().weight for stack in (model.get_encoder(), model.get_decoder()))
    choices = {(True, True): "all", (True, False): "inputs", (False, True): "decoder", (False, False): "none"}
    yield "model.tie", choices[source is target, model.get_output_embeddings().weight is target]


def t5_options(config: Any) -> Iterator[tuple[str, Any]]:
    activations = GATES if config.is_gated_act else ACTIVATIONS
    if config.layer_norm_epsilon != EPSILON:
        refuse("layer_norm_epsilon", config.layer_norm_epsilon, f"relformer's RMSNorm has {EPSILON}")
    yield from {
        "encoding": "t5",
        "encoding.scale": 1.0,
        "encoding.init_std": None,
        "encoding.num_buckets": config.relative_attention_num_buckets,
        "encoding.max_distance": config.relative_attention_max_distance,
        "cross_encoding.scale": 1.0,
        "model.width": config.d_model,
        "model.heads": config.num_heads,
        "model.head_dim": None if config.num_heads * config.d_kv == config.d_model else config.d_kv,
        "model.encoder_layers": config.num_layers,
        "model.decoder_layers": config.num_decoder_layers,
        "model.feedforward": config.d_ff,
        "model.feedforward_bias": "false",
        "model.norm": "pre",
        "model.norm_type": "rms",
        "model.activation": known("feed_forward_proj", config.dense_act_fn, activations),
        "model.embedding_scale": "output" if getattr(config, "scale_decoder_outputs", False) else "none",
        "model.attention_bias": "none",
        "model.attention_init": "t5",
        **dict.fromkeys(("model.dropout", "model.attention_dropout", "model.feedforward_dropout"), config.dropout_rate),
    }.items()


def bart_options(config: Any) -> Iterator[tuple[str, Any]]:
    for ours, theirs in (("heads", "attention_heads"), ("feedforward", "ffn_dim")):
        first, second = (getattr(config, f"{stack}_{theirs}") for stack in ("encoder", "decoder"))
        if first != second:
            refuse(
                f"decoder_{theirs}", second, f"relformer has one model.{ours} for both stacks; the encoder's: {first}"
            )
    if config.encoder_layerdrop or config.decoder_layerdrop:
        logger.info("note: layers are not dropped in training (encoder_layerdrop, decoder_layerdrop)")
    marian = config.model_type == "marian"
    positions = {"encoding": "learned", "encoding.max_length": config.max_position_embeddings}
    yield from {
        **({"encoding": "sinusoidal", "encoding.layout": "concat"} if marian else positions),
        "model.width": config.d_model,
        "model.heads": config.encoder_attention_heads,
        "model.encoder_layers": config.encoder_layers,
        "model.decoder_layers": config.decoder_layers,
        "model.feedforward": config.encoder_ffn_dim,
        "model.norm": "post",
        "model.norm_type": "layer",
        "model.activation": known("activation_function", config.activation_function, ACTIVATIONS),
        "model.embedding_scale": "input" if config.scale_embedding else "none",
        "model.embedding_norm": str(not marian).lower(),
        "model.attention_bias": "all",
        "model.dropout": config.dropout,
        "model.attention_dropout": config.attention_dropout,
        "model.feedforward_dropout": config.activation_dropout,
    }.items()


def known(option: str, value: str, choices: dict[str, str]) -> str:
    if value not in choices:
        refuse(option, value, f"relformer has {', '.join(choices)}")
    return choices[value]


def refuse(option: str, value: object, rule: str) -> None:
    raise UserError(f"the model's configuration has {option}={value}: {rule}")


def trained_length(config: Any) -> int:
    """Tokens of the longest texts that the model was made for; T5's were of 512, which it says nowhere."""
    return int(getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None) or 512)


def decoding_overrides(generation: Any) -> Iterator[str]:
    """How the model is meant to be decoded, as far as `decoding` can say it; a sentence on what it can't."""
    beams = generation.num_beams or 1
    yield f"decoding.beams={beams}"
    yield f"decoding.no_repeat_ngram={generation.no_repeat_ngram_size or 0}"
    yield f"decoding.min_length_base={generation.min_length or 0}"
    if beams > 1:
        penalty = 1.0 if generation.length_penalty is None else generation.length_penalty
        yield f"decoding.length_normalization={'none' if penalty == 0 else 'average'}"
        yield f"decoding.early_stop={str(generation.early_stopping is True).lower()}"
        if penalty not in (0, 1):
            logger.info("note: length_penalty=%s is not kept; decoding.length_normalization=average is 1", penalty)
    for name in ("forced_bos_token_id", "forced_eos_token_id", "repetition_penalty", "suppress_tokens"):
        if (value := getattr(generation, name, None)) not in (None, 1.0):
            logger.info("note: %s=%s of generation_config.json is not kept", name, value)
    logger.info("note: limits of length are relformer's own: decoding.max_length_base, decoding.max_length_factor")
