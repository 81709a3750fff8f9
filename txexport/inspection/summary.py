"""The description of a stack in one line."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import assert_never

from txexport.parts import input_of, stacks
from txexport.spec import (
    AttentionSpec,
    BlockSpec,
    BottleneckSpec,
    ChannelMixSpec,
    ConvolutionModuleSpec,
    ConvolvedAttentionSpec,
    ConvolvedFeedForwardSpec,
    DeformableStackSpec,
    DenseAndExpertsSpec,
    DisentangledAttentionSpec,
    DistributionStackSpec,
    ExpertsSpec,
    FeedForwardSpec,
    FourierMixingSpec,
    GatedDeltaSpec,
    GridAttentionSpec,
    KimiDeltaSpec,
    LatentAttentionSpec,
    LinformerAttentionSpec,
    LocalAttentionSpec,
    LongformerAttentionSpec,
    LowRankAttentionSpec,
    Mamba2Spec,
    MambaSpec,
    MapStackSpec,
    MaskedAttentionSpec,
    MixedStackSpec,
    NetworkSpec,
    NormPlacement,
    PatchBiasAttentionSpec,
    PerformerAttentionSpec,
    PositionedAttentionSpec,
    ProposalStackSpec,
    ReducedAttentionSpec,
    RelativeKeyAttentionSpec,
    RgLruSpec,
    RotatedInputAttentionSpec,
    SharedAttentionSpec,
    ShortConvolutionSpec,
    SourceAttentionSpec,
    SparseAttentionSpec,
    StackSpec,
    StagedStackSpec,
    StatefulSpec,
    StridedAttentionSpec,
    TimeMixSpec,
    TransformerXLAttentionSpec,
    WindowAttentionSpec,
    XieluFeedForwardSpec,
)

SCORED = ProposalStackSpec | DistributionStackSpec


def outline(spec: StackSpec) -> str:
    """Sizes, positions, norms and windows; " / " separates values that differ from layer to layer."""
    if isinstance(spec, MapStackSpec):
        return ", ".join(input_of(spec).summary(spec))
    if isinstance(spec, stacks.QUERIES):
        return ", ".join(_of_queries(spec))
    blocks = spec.blocks
    parts = [
        _depth(spec),
        _each(map(_mixers, blocks)),
        *([f"attention to the {'encoder' if spec.causal else 'image'}"] if spec.has_cross_attention else []),
        *_networks(blocks),
        *_convolutions(spec),
        *input_of(spec).summary(spec),
        _each(f"{block.placement}-norm ({block.norm.kind})" for block in blocks),
        *_windows(spec),
    ]
    return ", ".join(parts)


def _of_queries(spec: stacks.QUERIES) -> list[str]:
    """Layers over places and over queries, and the image that they read."""
    queries, texts, deformable = f"{spec.queries:,} queries", [], []
    objects = spec.object_block if isinstance(spec, SCORED) else spec.block
    groups = [(spec.objects, objects, queries)]
    if not isinstance(spec, MixedStackSpec):
        cells = spec.cell_block if isinstance(spec, SCORED) else spec.block
        groups = [(spec.cells, cells, "places"), *groups]
    if isinstance(spec, DeformableStackSpec):
        points = f"{spec.cell_points} and {spec.object_points} points in each of {spec.levels} maps"
        deformable = [f"deformable attention to {points}"]
    if isinstance(spec, SCORED | MixedStackSpec):
        counts = spec.attention.points_of_levels
        if len({*counts}) == 1:
            points = f"{counts[0]} points in each of {spec.attention.levels} maps"
        else:
            points = f"{' / '.join(map(str, counts))} points in {spec.attention.levels} maps"
        deformable = [f"deformable attention to {points}"]
    for part, block, over in groups:
        width, inner = block.hidden_size, part.intermediate_size
        network = feed_forward(FeedForwardSpec(width, inner, block.activation))
        size = width // part.num_heads
        texts.append(f"{part.num_layers} layers over {over}, {part.num_heads} heads of {size}, {network}")
    placement = NormPlacement.PRE if objects.pre_norm else NormPlacement.POST
    return [*texts, *deformable, *input_of(spec).summary(spec), f"{placement}-norm ({objects.norm.kind})"]


def _depth(spec: StackSpec) -> str:
    """The number of layers and their width, in each stage if there are several."""
    if isinstance(spec, StagedStackSpec):
        counts, widths = (
            " / ".join(f"{number:,}" for number in numbers)
            for numbers in zip(*((stage.num_layers, stage.hidden_size) for stage in spec.stages), strict=True)
        )
        return f"{len(spec.stages)} stages of {counts} layers of widths {widths}"
    return f"{spec.num_layers} {'causal layers' if spec.causal else 'layers'} of width {spec.hidden_size:,}"


def _each(texts: Iterable[str]) -> str:
    return " / ".join(dict.fromkeys(texts))


def _mixers(block: BlockSpec) -> str:
    """The attention of a layer, and what is beside or behind it."""
    attention, where = heads(block.attention), "before" if block.joins_embedding else "beside"
    return attention if block.beside is None else f"{attention}, {where} {heads(block.beside)}"


def heads(spec: MaskedAttentionSpec | PositionedAttentionSpec | SparseAttentionSpec | StatefulSpec) -> str:
    """The number of heads, and the kind of attention, or what stands in its place."""
    if isinstance(spec, GatedDeltaSpec):
        return f"{spec.num_value_heads} heads of {spec.key_dim} x {spec.value_dim} (gated delta rule)"
    if isinstance(spec, KimiDeltaSpec):
        return f"{spec.num_delta_heads} heads of {spec.head_dim} x {spec.head_dim} (Kimi delta attention)"
    if isinstance(spec, Mamba2Spec):
        return f"{spec.num_state_heads} heads of {spec.head_dim} x {spec.state_size} (state spaces)"
    if isinstance(spec, MambaSpec):
        return f"{spec.inner_size:,} channels of {spec.state_size} numbers (selective state spaces)"
    if isinstance(spec, RgLruSpec):
        return f"{spec.width:,} channels, gates in {spec.num_blocks} blocks (RG-LRU)"
    if isinstance(spec, TimeMixSpec):
        return f"{spec.hidden_size:,} channels (WKV)"
    if isinstance(spec, ShortConvolutionSpec):
        return f"convolutions over {spec.kernel} tokens"
    heads = f"{spec.num_heads} heads of {spec.head_dim}"
    match spec:
        case AttentionSpec(num_kv_heads=keys):
            return heads if keys == spec.num_heads else f"{heads} on {keys} key/value heads"
        case SharedAttentionSpec(attention=kind, layer=layer):
            return f"{heads} on {kind.num_kv_heads} key/value heads of layer {layer}"
        case SourceAttentionSpec(attention=kind):
            return f"{heads} on {kind.num_kv_heads} key/value heads of images"
        case LatentAttentionSpec():
            return f"{heads} on latents of {spec.kv_lora_rank:,}"
        case DisentangledAttentionSpec():
            return f"{heads} (Disentangled)"
        case TransformerXLAttentionSpec():
            return f"{heads} (Transformer-XL)"
        case RelativeKeyAttentionSpec():
            return f"{heads} (distances from -{spec.left} to {spec.right})"
        case RotatedInputAttentionSpec():
            return f"{heads} (rotated inputs)"
        case LocalAttentionSpec():
            return f"{heads} (Local)"
        case StridedAttentionSpec():
            return f"{heads} (Strided)"
        case LongformerAttentionSpec():
            return f"{heads} (Longformer)"
        case LinformerAttentionSpec():
            return f"{heads} (Linformer)"
        case ConvolvedAttentionSpec():
            return f"{heads} beside as many convolutions over {spec.kernel} tokens"
        case FourierMixingSpec():
            return "Fourier transforms"
        case BottleneckSpec():
            inner = spec.feed_forward.intermediate_size
            return f"{heads} and {spec.networks} networks of {inner:,} (bottleneck of {spec.size:,})"
        case LowRankAttentionSpec():
            return f"{heads} (LowRank)"
        case PerformerAttentionSpec():
            return f"{heads} (Performer)"
        case ReducedAttentionSpec(reduction=reduction):
            return heads if reduction == 1 else f"{heads} on 1 of {reduction**2} keys"
        case PatchBiasAttentionSpec():
            return f"{heads} (biases of distances)"
        case GridAttentionSpec():
            return f"{heads} ({'windows' if spec.windowed else 'grid'} of {spec.rows} x {spec.columns})"
        case WindowAttentionSpec(cosine=cosine):
            return heads if cosine is None else f"{heads} (cosines)"
        case _:
            assert_never(spec)


def feed_forward(spec: NetworkSpec) -> str:
    """Width and activation, and the number of experts."""
    match spec:
        case FeedForwardSpec():
            gated, sparse = "gated " * spec.gated, ", sparse" * (spec.cutoff is not None)
            return f"feed-forward {spec.intermediate_size:,} ({gated}{spec.activation}{sparse})"
        case ConvolvedFeedForwardSpec():
            convolved = f"convolved by {spec.kernel} x {spec.kernel}"
            return f"feed-forward {spec.intermediate_size:,} ({spec.activation}, {convolved})"
        case XieluFeedForwardSpec():
            return f"feed-forward {spec.intermediate_size:,} (xIELU)"
        case ChannelMixSpec():
            return f"feed-forward {spec.intermediate_size:,} (channel mixing)"
        case DenseAndExpertsSpec():
            return f"{feed_forward(spec.dense)}, beside {feed_forward(spec.experts)}"
        case ExpertsSpec():
            shared = "" if spec.shared is None else f", beside one of {feed_forward(spec.shared)}"
            return f"{spec.top_k} of {spec.num_experts} experts, each {feed_forward(spec.expert)}{shared}"
        case _:
            assert_never(spec)


def convolution(spec: ConvolutionModuleSpec) -> str:
    """Kernel and activation."""
    return f"{'causal ' * spec.causal}convolution of {spec.kernel} ({spec.activation})"


def _networks(blocks: Sequence[BlockSpec]) -> list[str]:
    kinds = [block.feed_forward for block in blocks if block.feed_forward is not None]
    return [_each(map(feed_forward, kinds))] if kinds else []


def _convolutions(spec: StackSpec) -> list[str]:
    kinds = [block.convolution for block in spec.blocks if block.convolution is not None]
    return [_each(map(convolution, kinds))] if kinds else []


def _windows(spec: StackSpec) -> list[str]:
    layers = Counter((block.attention.window, _chunked(block)) for block in spec.layers)
    return [
        f"{'chunks' if chunked else 'window'} of {window:,} in {count} of {spec.num_layers} layers"
        for (window, chunked), count in layers.items()
        if window is not None
    ]


def _chunked(block: BlockSpec) -> bool:
    return isinstance(block.attention, AttentionSpec) and block.attention.chunked
