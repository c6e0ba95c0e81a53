"""Small random models of transformers, made from configurations, and saved as a hub folder has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

VOCABULARY = 61
T5: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 3,
    "num_decoder_layers": 2,
    "num_heads": 3,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 12,
    "decoder_start_token_id": 0,
    "initializer_factor": 1.0,
}
BART: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "max_position_embeddings": 64,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "init_std": 0.4,
}
MARIAN = BART | {"pad_token_id": VOCABULARY - 1, "decoder_start_token_id": VOCABULARY - 1, "eos_token_id": 0}
NAMES = ("t5", "t5_1.1", "mt5", "marian", "marian_apart", "bart", "bart_start")


def make(name: str) -> Any:
    """A random model, livelier than transformers draws it, so that targets differ and end."""
    import transformers as library

    torch.manual_seed(7)
    gated = T5 | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
    makers: dict[str, Any] = {
        "t5": lambda: library.T5ForConditionalGeneration(library.T5Config(**T5)),
        "t5_1.1": lambda: library.T5ForConditionalGeneration(library.T5Config(**gated)),
        "mt5": lambda: library.MT5ForConditionalGeneration(library.MT5Config(**gated)),
        "marian": lambda: library.MarianMTModel(library.MarianConfig(**MARIAN, scale_embedding=True)),
        "marian_apart": lambda: library.MarianMTModel(
            library.MarianConfig(
                **MARIAN | {"activation_function": "swish"},
                share_encoder_decoder_embeddings=False,
                decoder_vocab_size=VOCABULARY + 4,
            )
        ),
        "bart": lambda: library.BartForConditionalGeneration(library.BartConfig(**BART, forced_eos_token_id=None)),
        "bart_start": lambda: library.BartForConditionalGeneration(
            library.BartConfig(**BART | {"decoder_start_token_id": 0}, forced_eos_token_id=None)
        ),
    }
    model = makers[name]().eval()
    with torch.no_grad():
        for part, p in model.named_parameters():
            if "bias" in part or "norm" in part or ("embed_positions" in part and name.startswith("bart")):
                p.add_(torch.randn_like(p) * 0.2)
            elif "shared" in part or "embed_tokens" in part:
                p.mul_(0.1 if "5" in name else 0.4)  # else a tied model says its last token again and again
                p[model.config.eos_token_id] *= 3
            elif p.dim() == 2 and "embed_positions" not in part:
                p.mul_(1.5)
        if name in ("t5_1.1", "mt5"):
            model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.lm_head.weight))
            model.lm_head.weight[model.config.eos_token_id] *= 2
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_(std=0.3)
            model.final_logits_bias[0, model.config.eos_token_id] += 2 if name == "marian" else 1
    for option in ("forced_bos_token_id", "forced_eos_token_id"):
        setattr(model.generation_config, option, None)
    return model


def saved(name: str, folder: Path) -> Path:
    make(name).save_pretrained(folder)
    return folder


def sources(model: Any, count: int = 6) -> tuple[Tensor, Tensor]:
    """Ids (B, S), padded on the right, each ended by EOS, and their mask."""
    config, generator = model.config, torch.Generator().manual_seed(3)
    ids = torch.full((count, 13), config.pad_token_id)
    for row in range(count):
        length = int(torch.randint(2, 13, (), generator=generator)) if row else 12
        ids[row, :length] = torch.randint(3, VOCABULARY - 1, (length,), generator=generator)
        ids[row, length] = config.eos_token_id
    return ids, ids.ne(config.pad_token_id).long()
