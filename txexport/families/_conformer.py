"""The facts that Conformers of wav2vec 2.0's kind share: sinusoids of distances, and tensor names."""

import numpy as np

from txexport.checkpoints.weight_map import Rules, Take
from txexport.families._elementary import exp, log
from txexport.spec import (
    MaskedAttentionSpec,
    PositionedAttentionSpec,
    RelativeKeyAttentionSpec,
    SinusoidVectorsSpec,
    SparseAttentionSpec,
    StatefulSpec,
    TransformerXLAttentionSpec,
)

Attention = MaskedAttentionSpec | PositionedAttentionSpec | SparseAttentionSpec | StatefulSpec
BASE = 10000.0  # fixed in the originals, not in config.json


def distance_vectors(attention: Attention) -> SinusoidVectorsSpec | None:
    """The sinusoids of distances that attention projects; None where it projects none.

    The original computes their frequencies as exponentials of multiples of -log(10000) / width, in float32.
    """
    if not isinstance(attention, TransformerXLAttentionSpec):
        return None
    step = np.float32(-log(BASE) / attention.hidden_size)
    exponents = np.arange(0, attention.hidden_size, 2, dtype=np.float32) * step
    frequencies = tuple(float(np.float32(exp(number))) for number in exponents.tolist())
    return SinusoidVectorsSpec(frequencies, interleaved=True)


def block_rules(attention: Attention) -> Rules:
    """Rules of a layer, without those of its convolution's norm."""
    layer, source = "encoder.layers.{i}", "encoder.layers.{i}"
    convolution, mixed = f"{source}.conv_module", f"{source}.self_attn"
    rules: Rules = {
        **{f"{layer}.attention.{part}.*": f"{mixed}.linear_{part}.*" for part in "qkv"},
        f"{layer}.attention.o.*": f"{mixed}.linear_out.*",
        f"{layer}.attention_norm.*": f"{source}.self_attn_layer_norm.*",
        f"{layer}.convolution_norm.*": f"{convolution}.layer_norm.*",
        f"{layer}.convolution.pointwise_in.weight": Take(
            f"{convolution}.pointwise_conv1.weight", trailing_axis=True
        ),
        f"{layer}.convolution.depthwise.weight": f"{convolution}.depthwise_conv.weight",
        f"{layer}.convolution.pointwise_out.weight": Take(
            f"{convolution}.pointwise_conv2.weight", trailing_axis=True
        ),
        f"{layer}.final_norm.*": f"{source}.final_layer_norm.*",
    }
    for ours, theirs in (("feed_forward", "ffn1"), ("last_feed_forward", "ffn2")):
        rules |= {
            f"{layer}.{ours}_norm.*": f"{source}.{theirs}_layer_norm.*",
            f"{layer}.{ours}.up.*": f"{source}.{theirs}.intermediate_dense.*",
            f"{layer}.{ours}.down.*": f"{source}.{theirs}.output_dense.*",
        }
    if isinstance(attention, RelativeKeyAttentionSpec):
        rules[f"{layer}.attention.distance.weight"] = f"{mixed}.distance_embedding.weight"
    if isinstance(attention, TransformerXLAttentionSpec):
        by_head = attention.num_heads, attention.head_dim
        rules |= {
            f"{layer}.attention.k_position.weight": f"{mixed}.linear_pos.weight",
            f"{layer}.attention.content_bias": Take(f"{mixed}.pos_bias_u", apart=by_head),
            f"{layer}.attention.position_bias": Take(f"{mixed}.pos_bias_v", apart=by_head),
        }
    return rules
