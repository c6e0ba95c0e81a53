"""XLNet's relative positions (Yang et al. 2019, arXiv:1906.08237): Transformer-XL's with u and v of each layer's own.

    score(i, j) = D^-0.5 [ (q_i + u_h) · k_j + (q_i + v_h) · (W R_{i-j})_h ]

Terms and options are those of `transformer_xl`, whose code has this as `untied_r`. XLNet's segment term, which tells
two input segments apart, and its permutations of the factorisation order are no positions and are left out.
"""

from relformer.encodings.transformer_xl import TransformerXL
from relformer.registry import register


@register(
    "xlnet",
    family="contextual",
    changes="logits, by content and distance",
    learned="yes",
    beyond="extends",
    paper="1906.08237",
)
class XLNet(TransformerXL):
    shared: tuple[str, ...] = ()
