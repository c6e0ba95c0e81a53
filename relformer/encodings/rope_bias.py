"""RoPE with biases in the projections of queries and keys (Su 2023, kexue.fm/9577).

    score(i, j) = D^-0.5 (q_i + a)^T R(i)^T R(j) (k_j + b)

The biases a and b are the model's (`model.attention_bias`). Their product a^T R(j - i) b is a learned bias of distance
alone, a sum of waves as in Sandwich; without RoPE it would be a constant, which the softmax removes. It starts at 0,
as the model's biases do. The name states the combination and refuses a model without the biases.
"""

from relformer.encodings.rope import RoPE
from relformer.registry import register


@register("rope_bias", family="rotary", changes="queries and keys", learned="yes", beyond="degrades", paper="")
class RoPEBias(RoPE):
    needs_attention_bias = ("qk", "qkv", "all")
    bias_reason = (
        "biases on queries and keys are all it adds to rope; set model.attention_bias=qk, or use encoding=rope"
    )
