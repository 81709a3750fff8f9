"""Operations of attention, and the numbers that its cache keeps, counted from its spec.

N query heads, H head size.
"""

import itertools
from collections.abc import Iterable
from typing import assert_never

from txexport.parts.stacks import relative_vectors, returned_vectors
from txexport.spec import (
    AttentionSpec,
    BlockSpec,
    BottleneckSpec,
    ConvolvedAttentionSpec,
    ConvolvedFeedForwardSpec,
    DisentangledAttentionSpec,
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
    MaskedAttentionSpec,
    ModelSpec,
    PatchBiasAttentionSpec,
    PerformerAttentionSpec,
    PositionedAttentionSpec,
    ReducedAttentionSpec,
    RelativeKeyAttentionSpec,
    RgLruSpec,
    RotatedInputAttentionSpec,
    SharedAttentionSpec,
    ShortConvolutionSpec,
    SourceAttentionSpec,
    SparseAttentionSpec,
    StackSpec,
    StatefulSpec,
    StridedAttentionSpec,
    TimeMixSpec,
    TransformerXLAttentionSpec,
    WindowAttentionSpec,
)
from txexport.spec.attention import Reach

CROSSED = {"decoder": "encoder", "encoder": "vision"}  # the stack that each attends to
Attention = MaskedAttentionSpec | PositionedAttentionSpec | SparseAttentionSpec | StatefulSpec


def cached(spec: MaskedAttentionSpec) -> int:
    """The number of cached values of a layer for each token."""
    return sum(heads * size for heads, size in spec.cache_shapes)


def cross_cached(block: BlockSpec) -> int:
    """The number of cached values of a layer for each vector of an encoder, or of an image."""
    kind = block.attention.attention if isinstance(block.attention, SourceAttentionSpec) else None
    kind = block.cross_attention if kind is None else kind
    return 0 if kind is None else cached(kind)


def image_vectors(layers: Iterable[BlockSpec]) -> int:
    """The vectors of an image that layers attend to; 0 where none does."""
    kinds = (block.attention for block in layers)
    return max((kind.vectors for kind in kinds if isinstance(kind, SourceAttentionSpec)), default=0)


def per_pair(spec: Attention) -> int:
    """Operations for a pair of a query and a key: their product, and the weighted value.

    Of a convolution those for a token and a place of the kernel, of a delta rule or a state space those for a
    token, of a Fourier transform the products with a cosine and a sine.
    """
    if isinstance(spec, LatentAttentionSpec):
        return 2 * spec.num_heads * (2 * spec.kv_lora_rank + spec.qk_rope_head_dim)
    if isinstance(spec, ShortConvolutionSpec):
        return 2 * spec.hidden_size
    if isinstance(spec, GatedDeltaSpec):
        return 6 * spec.num_value_heads * spec.key_dim * spec.value_dim + 2 * sum(spec.widths) * spec.kernel
    if isinstance(spec, KimiDeltaSpec):
        return 6 * spec.width * spec.head_dim + 6 * spec.width * spec.kernel
    if isinstance(spec, Mamba2Spec):
        return 5 * spec.inner_size * spec.state_size + 2 * sum(spec.widths) * spec.kernel
    if isinstance(spec, MambaSpec):
        return 6 * spec.inner_size * spec.state_size + 2 * spec.inner_size * spec.kernel
    if isinstance(spec, RgLruSpec):
        return 2 * spec.width + 2 * spec.width * spec.kernel
    if isinstance(spec, TimeMixSpec):
        return 4 * spec.hidden_size
    if isinstance(spec, FourierMixingSpec):
        return 4 * spec.frequencies
    return 4 * spec.num_heads * spec.head_dim


def scores(spec: Attention, length: int) -> int:
    """The number of scores of one sequence and head."""
    square = isinstance(spec, MaskedAttentionSpec) and not isinstance(spec, SourceAttentionSpec)
    return length**2 if square else pairs(spec, length)


def pairs(spec: Attention, length: int) -> int:
    """The number of pairs of a query and a key it attends to; for Longformer without global tokens."""
    match spec:
        case (
            AttentionSpec()
            | LatentAttentionSpec()
            | SharedAttentionSpec()
            | DisentangledAttentionSpec()
            | TransformerXLAttentionSpec()
            | RelativeKeyAttentionSpec()
            | RotatedInputAttentionSpec()
            | LowRankAttentionSpec()
            | BottleneckSpec()
            | FourierMixingSpec()
            | ConvolvedAttentionSpec()
        ):
            return _in_reach(spec, length)
        case SourceAttentionSpec():  # of one image
            return length * spec.vectors
        case ShortConvolutionSpec():  # of the convolution
            return length * spec.kernel
        case GatedDeltaSpec() | KimiDeltaSpec() | Mamba2Spec() | MambaSpec() | RgLruSpec() | TimeMixSpec():
            return length  # a step of the recurrence each
        case LongformerAttentionSpec():
            return _in_window(spec.window // 2 + 1, spec.causal, length)
        case WindowAttentionSpec():  # of whole windows
            return length * spec.size
        case LinformerAttentionSpec():
            return length * spec.projected_length
        case ReducedAttentionSpec():
            return length * spec.keys(length)
        case PatchBiasAttentionSpec():
            return length**2
        case GridAttentionSpec():  # of whole windows
            return length * spec.size
        case PerformerAttentionSpec():  # with the features, and with their sums
            return 2 * length * spec.num_features
        case StridedAttentionSpec():  # half of the heads each
            near = sum(min(position, spec.stride) + 1 for position in range(length))
            return (near + sum(position // spec.stride + 1 for position in range(length))) // 2
        case LocalAttentionSpec():
            blocks = [min(spec.block_size, length - start) for start in range(0, length, spec.block_size)]
            inside = sum(size * (size + 1) // 2 if spec.causal else size**2 for size in blocks)
            neighbours = sum(size * following for size, following in itertools.pairwise(blocks))
            return inside + neighbours * (1 if spec.causal else 2)
        case _:
            assert_never(spec)


def of_row(block: BlockSpec, size: int, source: int = 0) -> dict[str, int]:
    """Operations of a layer's attention over a row of `size` tokens, and `source` crossed, by sublayer."""
    kinds = {name: getattr(block, name) for name in ("attention", "beside")}
    result = {name: per_pair(kind) * pairs(kind, size) for name, kind in kinds.items() if kind is not None}
    if block.cross_attention is not None:
        result["cross_attention"] = per_pair(block.cross_attention) * size * source
    return result if block.layout is None else result | {"layout": block.layout.operations * size**2}


def crossed_vectors(spec: ModelSpec, name: str, length: int) -> int:
    """The number of another stack's vectors that a stack attends to: an encoder's, or an image's."""
    crosses = spec.stacks[name].has_cross_attention
    return returned_vectors(spec.stacks[CROSSED[name]], length) if crosses else 0


def of_step(block: BlockSpec, length: int, source: int) -> dict[str, int]:
    """Operations of a layer's attention for a token that sees `length` tokens and `source` encoded ones."""
    if not block.attends or block.crosses:
        return {"attention": per_pair(block.attention) * pairs(block.attention, 1)}
    kind, cross = block.masked, block.cross_attention
    result = {"attention": per_pair(kind) * _seen(kind.reach, length)}
    if block.beside is not None:
        result["beside"] = per_pair(block.beside) * pairs(block.beside, 1)
    return result if cross is None else result | {"cross_attention": per_pair(cross) * source}


def relative(stack: StackSpec, block: BlockSpec, length: int) -> tuple[int, int]:
    """Operations with relative positions in a layer: for each row, and once for all rows."""
    kind = block.attention
    match kind:
        case RelativeKeyAttentionSpec():
            return 2 * kind.num_heads * kind.head_dim * kind.distances * length, 0
        case DisentangledAttentionSpec():
            products = kind.terms
        case TransformerXLAttentionSpec():
            products = 1
        case _:
            return 0, 0
    numbers = 2 * products * kind.num_heads * kind.head_dim * relative_vectors(stack, length)
    return numbers * length, numbers * kind.hidden_size


def convolutions(block: BlockSpec, length: int) -> dict[str, int]:
    """Operations of convolutions, of mixed vectors and of a vector's Fourier transform over a row of `length`
    tokens, by sublayer.

    Where attention reduces its keys, those that its projections of fewer vectors save are subtracted.
    """
    result = {} if block.convolution is None else {"convolution": length * block.convolution.operations}
    kind, network = block.attention, block.feed_forward
    if isinstance(kind, ReducedAttentionSpec) and kind.norm is not None:
        keys, width = kind.keys(length), kind.hidden_size
        saved = 4 * (length - keys) * width * kind.num_heads * kind.head_dim
        result["attention"] = 2 * keys * width**2 * kind.reduction**2 - saved
    if isinstance(kind, ConvolvedAttentionSpec):
        result["attention"] = length * kind.operations
    if isinstance(kind, FourierMixingSpec):
        result["attention"] = 4 * length * kind.hidden_size * kind.frequencies
    if isinstance(network, ConvolvedFeedForwardSpec):
        result["feed_forward"] = 2 * length * network.intermediate_size * network.kernel**2
    if block.streams is not None:
        result["streams"] = length * block.streams.operations(kind.hidden_size)
    return result


def _in_reach(spec: Attention, length: int) -> int:
    """Pairs of a query with the tokens of its window or its chunk."""
    if isinstance(spec, AttentionSpec) and spec.chunked:
        assert spec.window is not None
        full, rest = divmod(length, spec.window)
        return full * _in_window(None, True, spec.window) + _in_window(None, True, rest)
    return _in_window(spec.window, spec.causal, length)


def _seen(reach: Reach, length: int) -> int:
    """Of `length` tokens, the last one of them included, those that it sees."""
    if reach.chunked:
        assert reach.window is not None
        return (length - 1) % reach.window + 1
    return min(length, reach.window or length)


def _in_window(window: int | None, causal: bool, length: int) -> int:
    """Pairs of a query with itself, the `window` - 1 tokens before it, and as many after it."""
    reach = length - 1 if window is None else min(window, length) - 1
    before = reach * (reach + 1) // 2 + (length - 1 - reach) * reach
    return length + (before if causal else 2 * before)
