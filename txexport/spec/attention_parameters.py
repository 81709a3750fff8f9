"""Names and shapes of what every kind of attention has, in the order in which components declare them."""

from typing import assert_never

from txexport.spec import (
    AttentionSpec,
    BottleneckSpec,
    ConvolvedAttentionSpec,
    DisentangledAttentionSpec,
    FourierMixingSpec,
    GatedDeltaSpec,
    GridAttentionSpec,
    KimiDeltaSpec,
    LatentAttentionSpec,
    Mamba2Spec,
    MambaSpec,
    MaskedAttentionSpec,
    PatchBiasAttentionSpec,
    PositionedAttentionSpec,
    ReducedAttentionSpec,
    RelativeKeyAttentionSpec,
    RgLruSpec,
    RotatedInputAttentionSpec,
    SharedAttentionSpec,
    ShortConvolutionSpec,
    SourceAttentionSpec,
    SparseAttentionSpec,
    StatefulSpec,
    TimeMixSpec,
    TransformerXLAttentionSpec,
    WindowAttentionSpec,
    stateful_parameters,
)
from txexport.spec.bottleneck_parameters import bottleneck
from txexport.spec.efficient_attention import (
    LinformerAttentionSpec,
    LocalAttentionSpec,
    LongformerAttentionSpec,
    LowRankAttentionSpec,
    PerformerAttentionSpec,
    StridedAttentionSpec,
)
from txexport.spec.efficient_attention_parameters import (
    linformer_attention,
    local_attention,
    longformer_attention,
    low_rank_attention,
    performer_attention,
    strided_attention,
)
from txexport.spec.shapes import Shapes, adapted_linear, grouped_linear, linear, norm, under

GATES = 8  # numbers of each query and head that its two gates are summed from


def attention(
    spec: MaskedAttentionSpec | PositionedAttentionSpec | SparseAttentionSpec | StatefulSpec,
) -> Shapes:
    """The parameters of attention of any kind, or of what stands in its place."""
    match spec:
        case AttentionSpec():
            return dense_attention(spec)
        case LatentAttentionSpec():
            return latent_attention(spec)
        case SharedAttentionSpec() | SourceAttentionSpec():
            return shared_attention(spec.attention)
        case ShortConvolutionSpec():
            return stateful_parameters.short_convolution(spec)
        case GatedDeltaSpec():
            return stateful_parameters.gated_delta(spec)
        case KimiDeltaSpec():
            return stateful_parameters.kimi_delta(spec)
        case Mamba2Spec():
            return stateful_parameters.mamba2(spec)
        case MambaSpec():
            return stateful_parameters.mamba(spec)
        case RgLruSpec():
            return stateful_parameters.rg_lru(spec)
        case TimeMixSpec():
            return stateful_parameters.time_mix(spec)
        case DisentangledAttentionSpec():
            return disentangled_attention(spec)
        case TransformerXLAttentionSpec():
            return transformer_xl_attention(spec)
        case RelativeKeyAttentionSpec():
            return relative_key_attention(spec)
        case RotatedInputAttentionSpec():
            return rotated_input_attention(spec)
        case LocalAttentionSpec():
            return local_attention(spec)
        case StridedAttentionSpec():
            return strided_attention(spec)
        case LongformerAttentionSpec():
            return longformer_attention(spec)
        case LinformerAttentionSpec():
            return linformer_attention(spec)
        case LowRankAttentionSpec():
            return low_rank_attention(spec)
        case PerformerAttentionSpec():
            return performer_attention(spec)
        case WindowAttentionSpec():
            return window_attention(spec)
        case ReducedAttentionSpec():
            return reduced_attention(spec)
        case GridAttentionSpec():
            return grid_attention(spec)
        case PatchBiasAttentionSpec():
            return patch_bias_attention(spec)
        case BottleneckSpec():
            return bottleneck(spec)
        case FourierMixingSpec():
            return {}
        case ConvolvedAttentionSpec():
            return convolved_attention(spec)
        case _:
            assert_never(spec)


def dense_attention(spec: AttentionSpec) -> Shapes:
    """Query, key, value and output projections, the norms of query and key heads, and the sinks."""
    queries, keys = spec.num_heads * spec.head_dim, spec.num_kv_heads * spec.head_dim
    inputs, rank = spec.input_size or spec.hidden_size, spec.adapter_rank
    values = adapted_linear(spec.key_value_size, keys, spec.bias, spec.v_groups, rank)
    shapes = {
        **under("q", adapted_linear(inputs, queries, spec.bias, spec.q_groups, rank)),
        **under("k", adapted_linear(spec.key_value_size, keys, spec.bias, spec.k_groups, rank)),
        **({} if spec.keys_as_values else under("v", values)),
        **under("o", grouped_linear(queries, spec.hidden_size, spec.output_bias, spec.o_groups)),
    }
    if spec.q_norm is not None and spec.k_norm is not None:
        shapes |= under("q_norm", norm(spec.q_norm)) | under("k_norm", norm(spec.k_norm))
    if spec.value_norm and spec.head_norm is not None:
        shapes |= under("v_norm", norm(spec.head_norm))
    if spec.sinks:
        shapes["sinks"] = (spec.num_heads,)
    if spec.gated_output:
        gates = spec.num_heads if spec.head_gates else queries
        shapes |= under("output_gate", linear(spec.hidden_size, gates, spec.bias))
    if spec.gated:
        shapes |= under("gate.project", linear(spec.hidden_size // spec.num_heads, GATES, True))
        shapes["gate.constant"] = (1, spec.num_heads, 1, 1)
    return shapes


def shared_attention(spec: AttentionSpec) -> Shapes:
    """As dense attention's, without those of keys and values."""
    keys = ("k.", "v.", "k_norm.", "v_norm.")
    return {name: shape for name, shape in dense_attention(spec).items() if not name.startswith(keys)}


def latent_attention(spec: LatentAttentionSpec) -> Shapes:
    """Projections of queries, through fewer numbers or not; down to what a cache keeps; and up from that."""
    heads, rank = spec.num_heads, spec.kv_lora_rank
    shapes: Shapes = {}
    if spec.q_lora_rank is not None:
        shapes |= under("q_down", linear(spec.hidden_size, spec.q_lora_rank, spec.bias))
        shapes |= under("q_norm", norm(spec.q_norm))
    return shapes | {
        **under("q", linear(spec.q_lora_rank or spec.hidden_size, heads * spec.head_dim, False)),
        **under("kv_down", linear(spec.hidden_size, rank + spec.qk_rope_head_dim, spec.bias)),
        **under("kv_norm", norm(spec.norm)),
        **under("k_up", linear(rank, heads * spec.qk_nope_head_dim, False)),
        **under("v_up", linear(rank, heads * spec.v_head_dim, False)),
        **under("o", linear(heads * spec.v_head_dim, spec.hidden_size, spec.bias)),
    }


def disentangled_attention(spec: DisentangledAttentionSpec) -> Shapes:
    """As dense attention's, and projections of relative positions where they have their own."""
    inner = spec.num_heads * spec.head_dim
    inputs, output = linear(spec.hidden_size, inner, True), linear(inner, spec.hidden_size, True)
    shapes = under("q", inputs) | under("k", inputs) | under("v", inputs) | under("o", output)
    if spec.content_to_position and not spec.shared:
        shapes |= under("k_position", inputs)
    if spec.position_to_content and not spec.shared:
        shapes |= under("q_position", inputs)
    return shapes


def transformer_xl_attention(spec: TransformerXLAttentionSpec) -> Shapes:
    """The biases of queries, projections of contents and of distances, and the vectors of segments."""
    inner = spec.num_heads * spec.head_dim
    inputs = linear(spec.hidden_size, inner, spec.bias)
    shapes: Shapes = {"content_bias": (inner,), "position_bias": (inner,)}
    if spec.segmented:
        shapes["segment_bias"] = (inner,)
    shapes |= {
        **under("q", inputs),
        **under("k", inputs),
        **under("v", inputs),
        **under("k_position", linear(spec.hidden_size, inner, False)),
        **under("o", linear(inner, spec.hidden_size, spec.bias)),
    }
    return shapes | ({"segment.weight": (2, inner)} if spec.segmented else {})


def relative_key_attention(spec: RelativeKeyAttentionSpec) -> Shapes:
    """As dense attention's, and the vectors of distances."""
    inner = spec.num_heads * spec.head_dim
    inputs, output = linear(spec.hidden_size, inner, True), linear(inner, spec.hidden_size, True)
    shapes = under("q", inputs) | under("k", inputs) | under("v", inputs) | under("o", output)
    return shapes | {"distance.weight": (spec.distances, spec.head_dim)}


def rotated_input_attention(spec: RotatedInputAttentionSpec) -> Shapes:
    """As dense attention's."""
    inputs = linear(spec.hidden_size, spec.hidden_size, True)
    return under("q", inputs) | under("k", inputs) | under("v", inputs) | under("o", inputs)


def cross_key_value(spec: AttentionSpec) -> Shapes:
    """Projections of an encoder's output to keys and values, and the norm of keys, once for all steps."""
    parts = ("k.", "v.", "k_norm.")
    return {name: shape for name, shape in dense_attention(spec).items() if name.startswith(parts)}


def cross_attention(spec: AttentionSpec) -> Shapes:
    """Query and output projections, which every step computes."""
    return {name: shape for name, shape in dense_attention(spec).items() if name.startswith(("q.", "o."))}


def window_attention(spec: WindowAttentionSpec) -> Shapes:
    """The projections, and the table of biases, or the scale of cosines and the network of biases."""
    width = spec.hidden_size
    shapes = {
        **under("q", linear(width, width, spec.bias)),
        **under("k", linear(width, width, spec.key_bias)),
        **under("v", linear(width, width, spec.bias)),
        **under("o", linear(width, width, True)),
    }
    if spec.cosine is None:
        return shapes | {"relative.weight": (spec.distances, spec.num_heads)}
    inner = spec.cosine.intermediate_size
    return {
        **shapes,
        "scale": (spec.num_heads, 1, 1),
        **under("relative.up", linear(2, inner, True)),
        **under("relative.down", linear(inner, spec.num_heads, False)),
    }


def reduced_attention(spec: ReducedAttentionSpec) -> Shapes:
    """Query, key, value and output projections; the convolution before keys and values, and its norm."""
    width, side = spec.hidden_size, spec.reduction
    inner = spec.num_heads * spec.head_dim
    shapes = {
        **under("q", linear(width, inner, spec.bias)),
        **under("k", linear(width, inner, spec.bias)),
        **under("v", linear(width, inner, spec.bias)),
        **under("o", linear(inner, width, True)),
    }
    if spec.norm is not None:
        convolution: Shapes = {"weight": (width, width, side, side), "bias": (width,)}
        shapes |= under("reduce", convolution) | under("reduced_norm", norm(spec.norm))
    return shapes


def grid_attention(spec: GridAttentionSpec) -> Shapes:
    """Query, key, value and output projections, and the vectors of distances."""
    width = spec.hidden_size
    shapes = {
        **under("q", linear(width, width, spec.bias)),
        **under("k", linear(width, width, spec.bias)),
        **under("v", linear(width, width, spec.bias)),
        **under("o", linear(width, width, True)),
    }
    if spec.relative:
        shapes["row_position.weight"] = (2 * spec.rows - 1, spec.head_dim)
        shapes["column_position.weight"] = (2 * spec.columns - 1, spec.head_dim)
    return shapes


def patch_bias_attention(spec: PatchBiasAttentionSpec) -> Shapes:
    """Query, key, value and output projections, and the biases of distances."""
    inner = spec.num_heads * spec.head_dim
    return {
        **under("q", linear(spec.hidden_size, inner, True)),
        **under("k", linear(spec.hidden_size, inner, False)),
        **under("v", linear(spec.hidden_size, inner, True)),
        **under("o", linear(inner, spec.hidden_size, True)),
        "relative.weight": (spec.distances, spec.num_heads),
    }


def convolved_attention(spec: ConvolvedAttentionSpec) -> Shapes:
    """Projections to heads and back, the span's two convolutions, and the projection to kernels."""
    width, inner = spec.hidden_size, spec.num_heads * spec.head_dim
    return {
        **under("q", linear(width, inner, True)),
        **under("k", linear(width, inner, True)),
        **under("v", linear(width, inner, True)),
        "depthwise.weight": (width, 1, spec.kernel),
        **under("pointwise", linear(width, inner, True)),
        **under("kernel", linear(inner, spec.num_heads * spec.kernel, True)),
        **under("convolved", linear(width, inner, True)),
        **under("o", linear(2 * inner, width, True)),
    }
