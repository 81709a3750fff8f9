"""The vector of a sequence beside its hidden states: its name and its parameters."""

from txexport.contracts import names
from txexport.parts.inputs import input_of
from txexport.spec import AttentionPoolSpec, EncoderSpec, VectorSpec
from txexport.spec.attention_parameters import cross_attention, cross_key_value
from txexport.spec.parameters import dense_feed_forward
from txexport.spec.shapes import Shapes, linear, norm, under


def vector_name(spec: EncoderSpec) -> str:
    """The name of the output with an encoder's vector of a sequence."""
    if spec.vector is None or not spec.vector.compared:
        return names.POOLER_OUTPUT
    return names.TEXT_EMBEDS if input_of(spec.encoder).reads_tokens else names.IMAGE_EMBEDS


def parameters(spec: VectorSpec, hidden_size: int) -> Shapes:
    """Parameters of the pool that computes a sequence's vector, or of the vector's norm and projection."""
    if spec.pool is not None:
        return under("pool", attention_pool(spec.pool))
    shapes = under("norm", norm(spec.norm)) if spec.norm is not None else {}
    return shapes | (under("project", linear(hidden_size, spec.size, spec.bias)) if spec.size else {})


def attention_pool(spec: AttentionPoolSpec) -> Shapes:
    """The learned query, its attention, the norm and the feed-forward network."""
    return {
        "probe.weight": (1, spec.norm.size),
        **under("key_value", cross_key_value(spec.attention)),
        **under("attention", cross_attention(spec.attention)),
        **under("norm", norm(spec.norm)),
        **under("feed_forward", dense_feed_forward(spec.feed_forward)),
    }
