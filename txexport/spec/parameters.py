"""Names and shapes of a block's parameters, in the order in which the components declare them.

A matrix is (out, in), as PyTorch keeps it.
"""

from typing import assert_never

from txexport.spec import (
    AugmentedResidualSpec,
    BlockSpec,
    BoxTablesSpec,
    ChannelMixSpec,
    ConvolutionModuleSpec,
    ConvolvedFeedForwardSpec,
    ConvolvedMergingSpec,
    DenseAndExpertsSpec,
    ExpertsSpec,
    FeedForwardSpec,
    LayerInputSpec,
    LayerInputsSpec,
    LayoutEmbeddingSpec,
    LayoutFlowSpec,
    NetworkSpec,
    NormPlacement,
    QueryPoolingSpec,
    StageMergingSpec,
    StreamsSpec,
    XieluFeedForwardSpec,
    stateful_parameters,
)
from txexport.spec.attention_parameters import attention, cross_attention
from txexport.spec.enums import Activation
from txexport.spec.shapes import Shapes, adapted_linear, grouped_linear, linear, norm, under


def feed_forward(spec: NetworkSpec) -> Shapes:
    """One network, or a mixture of them."""
    match spec:
        case FeedForwardSpec():
            return dense_feed_forward(spec)
        case ExpertsSpec():
            return experts(spec)
        case DenseAndExpertsSpec():
            return dense_and_experts(spec)
        case ConvolvedFeedForwardSpec():
            return convolved_feed_forward(spec)
        case XieluFeedForwardSpec():
            return xielu_feed_forward(spec)
        case ChannelMixSpec():
            return stateful_parameters.channel_mix(spec)
        case _:
            assert_never(spec)


def dense_feed_forward(spec: FeedForwardSpec) -> Shapes:
    """The projections up and down, the gate's, and the slope of PReLU."""
    sizes = spec.hidden_size, spec.intermediate_size, spec.bias
    up = adapted_linear(*sizes, spec.up_groups, spec.adapter_rank)
    down = grouped_linear(spec.intermediate_size, spec.hidden_size, spec.bias, spec.down_groups)
    slope: Shapes = {"act.weight": (1,)} if spec.activation is Activation.PRELU else {}
    return under("up", up) | (under("gate", up) if spec.gated else {}) | under("down", down) | slope


def xielu_feed_forward(spec: XieluFeedForwardSpec) -> Shapes:
    """The projections up and down, and the learned numbers of the activation."""
    return {
        **under("up", linear(spec.hidden_size, spec.intermediate_size, False)),
        **{"act.alpha_p": (1,), "act.alpha_n": (1,)},
        **under("down", linear(spec.intermediate_size, spec.hidden_size, False)),
    }


def convolved_feed_forward(spec: ConvolvedFeedForwardSpec) -> Shapes:
    """The projections up and down, and the convolution of each channel."""
    inner, kernel = spec.intermediate_size, spec.kernel
    convolution: Shapes = {"weight": (inner, 1, kernel, kernel), "bias": (inner,)}
    return {
        **under("up", linear(spec.hidden_size, inner, True)),
        **under("convolution", convolution),
        **under("down", linear(inner, spec.hidden_size, True)),
    }


def experts(spec: ExpertsSpec) -> Shapes:
    """The router, every expert, and the shared one with its router."""
    shapes = under("router", linear(spec.hidden_size, spec.num_experts, spec.router_bias))
    if spec.corrected:
        shapes["router.correction"] = (spec.num_experts,)
    if spec.expert_scale:
        shapes["router.expert_scale"] = (spec.num_experts,)
    if spec.output_bias:
        shapes["bias"] = (spec.hidden_size,)
    for number in range(spec.num_experts):
        shapes |= under(f"experts.{number}", dense_feed_forward(spec.expert))
    if spec.token_size is not None:
        shapes |= under("latent_down", linear(spec.token_size, spec.expert.hidden_size, False))
        shapes |= under("latent_up", linear(spec.expert.hidden_size, spec.token_size, False))
    if spec.shared is not None:
        if spec.shared_gated:
            shapes |= under("shared_router", linear(spec.hidden_size, 1, False))
        shapes |= under("shared", dense_feed_forward(spec.shared))
    return shapes


def dense_and_experts(spec: DenseAndExpertsSpec) -> Shapes:
    """The network and the experts, and their norms."""
    shapes = under("dense", dense_feed_forward(spec.dense)) | experts(spec.experts)
    for name in ("dense_post_norm", "router_norm", "experts_norm", "experts_post_norm"):
        shapes |= under(name, norm(spec.norm))
    return shapes


def convolution_module(spec: ConvolutionModuleSpec) -> Shapes:
    """The projection to values and gates, the depthwise convolution, its norm, and the projection."""
    width = spec.hidden_size
    shapes = under("pointwise_in", linear(width, 2 * width, spec.bias))
    shapes["depthwise.weight"] = (width, 1, spec.kernel)
    if spec.bias:
        shapes["depthwise.bias"] = (width,)
    if spec.batch_norm is not None:
        shapes |= {f"depthwise_norm.{name}": (width,) for name in ("weight", "bias", "mean", "variance")}
    if spec.norm is not None:
        shapes |= under("depthwise_norm", norm(spec.norm))
    return shapes | under("pointwise_out", linear(width, width, spec.bias))


def conformer_block(spec: BlockSpec, convolution: ConvolutionModuleSpec) -> Shapes:
    """One layer: each sublayer with its norm, and the last norm."""
    assert spec.feed_forward is not None
    sublayers = {
        "feed_forward": feed_forward(spec.feed_forward),
        "attention": attention(spec.attention),
        "convolution": convolution_module(convolution),
        "last_feed_forward": feed_forward(spec.feed_forward),
    }
    shapes: Shapes = {}
    for name, inner in sublayers.items():
        shapes |= under(f"{name}_norm", norm(spec.norm)) | under(name, inner)
    return shapes | under("final_norm", norm(spec.norm))


def joined_block(spec: BlockSpec) -> Shapes:
    """Attention and network, each with its norm, the projection of the result, and the last sublayer."""
    assert spec.feed_forward is not None
    assert spec.beside is not None
    width = spec.attention.hidden_size
    return {
        **under("attention", attention(spec.attention)),
        **under("attention_norm", norm(spec.input_norm)),
        **under("feed_forward", feed_forward(spec.feed_forward)),
        **under("feed_forward_norm", norm(spec.norm)),
        **under("project", linear(width, width, False)),
        **under("beside", attention(spec.beside)),
        **under("beside_norm", norm(spec.norm)),
    }


def block(spec: BlockSpec) -> Shapes:
    """One layer: each sublayer with its norms and its scale."""
    if spec.convolution is not None:
        return conformer_block(spec, spec.convolution)
    if spec.joins_embedding:
        return joined_block(spec)
    sandwich = spec.placement == NormPlacement.SANDWICH
    scale: Shapes = {"weight": (spec.attention.hidden_size,)} if spec.layer_scale else {}
    shapes = under("attention", attention(spec.attention))
    if not spec.skip_attention_norm:
        shapes |= under("attention_norm", norm(spec.norm))
    if sandwich or spec.placement == NormPlacement.DOUBLE_POST:
        shapes |= under("attention_post_norm", norm(spec.norm))
    shapes |= under("attention_scale", scale)
    gate: Shapes = {"weight": (1,)} if spec.gated else {}
    shapes |= under("attention_tanh_gate", gate)
    if spec.beside is not None:
        shapes |= under("beside", attention(spec.beside))
    if spec.cross_attention is not None:
        shapes |= under("cross_attention", cross_attention(spec.cross_attention))
        shapes |= under("cross_attention_norm", norm(spec.norm))
        if sandwich:
            shapes |= under("cross_attention_post_norm", norm(spec.norm))
    if spec.feed_forward is not None:
        shapes |= under("feed_forward", feed_forward(spec.feed_forward))
        shapes |= under("feed_forward_norm", norm(spec.norm))
    if sandwich:
        shapes |= under("feed_forward_post_norm", norm(spec.norm))
    shapes |= under("feed_forward_scale", scale) | under("feed_forward_tanh_gate", gate)
    if spec.adapter is not None:
        shapes |= under("adapter.norm", norm(spec.adapter.norm))
        shapes |= under("adapter.feed_forward", dense_feed_forward(spec.adapter.feed_forward))
    if spec.layer_input is not None:
        shapes |= under("layer_input", layer_input(spec.layer_input))
    if spec.output_scale:
        shapes["output_scale.weight"] = (1,)
    if spec.augmented_residual is not None:
        shapes |= under("augmented_residual", augmented_residual(spec.augmented_residual))
    if spec.streams is not None:
        shapes |= under("streams", streams(spec.streams))
    if spec.layout is not None:
        shapes |= under("layout", layout_flow(spec.layout))
    return shapes


def layout_flow(spec: LayoutFlowSpec) -> Shapes:
    """Attention and the network, each with its norm; of a last layer, queries and keys."""
    inner = attention(spec.attention)
    if spec.feed_forward is None:
        return under("attention", {name: shape for name, shape in inner.items() if name[0] in "qk"})
    return {
        **under("attention", inner),
        **under("attention_norm", norm(spec.norm)),
        **under("feed_forward", dense_feed_forward(spec.feed_forward)),
        **under("feed_forward_norm", norm(spec.norm)),
    }


def layout(spec: LayoutEmbeddingSpec) -> Shapes:
    """The tables of boxes, their projection, the table of positions, and the norm."""
    return {
        **under("boxes", box_tables(spec.boxes)),
        **under("project", linear(spec.boxes.size, spec.hidden_size, True)),
        "position.weight": (spec.position.size, spec.hidden_size),
        **under("norm", norm(spec.norm)),
    }


def box_tables(spec: BoxTablesSpec) -> Shapes:
    """The tables of edges, heights and widths."""
    edges: Shapes = {f"{table}.weight": (spec.rows, spec.edge_size) for table in ("x", "y")}
    return edges | {f"{table}.weight": (spec.rows, spec.extent_size) for table in ("height", "width")}


def augmented_residual(spec: AugmentedResidualSpec) -> Shapes:
    """The projections to few numbers and back, and the norm."""
    return {
        **under("down", linear(spec.hidden_size, spec.rank, False)),
        **under("up", linear(spec.rank, spec.hidden_size, False)),
        **under("norm", norm(spec.norm)),
    }


def streams(spec: StreamsSpec) -> Shapes:
    """A layer's router, its weights of prediction and correction, and the scale."""
    return {
        **under("router.norm", norm(spec.norm)),
        **under("router.project", linear(spec.norm.size, spec.count, False)),
        **under("predict", linear(spec.count, spec.count**2, False)),
        **under("correct", linear(spec.count, spec.count, False)),
        **({"scale.weight": (spec.norm.size,)} if spec.output_scale else {}),
    }


def stack_streams(spec: StreamsSpec) -> Shapes:
    """The projections of a token's other vectors, before all layers and behind them."""
    one = linear(spec.norm.size, spec.norm.size, False)
    parts = (f"{name}.project.{i}" for name in ("expand", "merge") for i in range(spec.count - 1))
    return {name: shape for part in parts for name, shape in under(part, one).items()}


def layer_input(spec: LayerInputSpec) -> Shapes:
    """The projections to the width of a layer's input and back, and the norm."""
    return {
        **under("gate", linear(spec.hidden_size, spec.size, False)),
        **under("project", linear(spec.size, spec.hidden_size, False)),
        **under("norm", norm(spec.norm)),
    }


def layer_inputs(spec: LayerInputsSpec, width: int, layers: int) -> Shapes:
    """The table of all layers' vectors, the projection of embedded tokens `width` wide, and the norm."""
    return {
        "word.weight": (spec.vocab_size, layers * spec.size),
        **under("project", linear(width, layers * spec.size, False)),
        **under("norm", norm(spec.norm)),
    }


def merging(spec: StageMergingSpec) -> Shapes:
    """The norm and the projection of four vectors, or of those under a kernel; or a layer that pools."""
    if isinstance(spec, QueryPoolingSpec):
        return _query_pooling(spec)
    if isinstance(spec, ConvolvedMergingSpec):
        convolution: Shapes = {"weight": (spec.size, spec.hidden_size, spec.kernel, spec.kernel)}
        return under("project", convolution | {"bias": (spec.size,)}) | under("norm", norm(spec.norm))
    return under("norm", norm(spec.norm)) | under("project", linear(spec.joined, spec.size, False))


def _query_pooling(spec: QueryPoolingSpec) -> Shapes:
    """Both norms, the projection of the residual, attention, and the feed-forward network."""
    shapes = under("attention_norm", norm(spec.norm)) | under(
        "project", linear(spec.hidden_size, spec.size, True)
    )
    for name in ("q", "k", "v"):
        shapes |= under(f"attention.{name}", linear(spec.hidden_size, spec.size, True))
    shapes |= under("attention.o", linear(spec.size, spec.size, True))
    shapes |= under("feed_forward_norm", norm(spec.last_norm))
    return shapes | under("feed_forward", dense_feed_forward(spec.feed_forward))
