"""What a model costs to run, told from its spec: operations and memory. Nothing is built or run.

B rows of S tokens: of text, or the vectors that an image or a sound becomes, which are as many in every row.
N query heads, K key/value heads, H head size; d width; V vocabulary.
"""

import functools
import itertools
import math
from dataclasses import dataclass
from typing import assert_never

from txexport.formats import FLOAT
from txexport.inspection.parameter_count import active
from txexport.parts import parameters
from txexport.parts.vectors import attention_pool
from txexport.spec import (
    AttentionPoolSpec,
    AttentionSpec,
    BlockSpec,
    DecoderSpec,
    DisentangledAttentionSpec,
    DualEncoderSpec,
    EmbeddingSpec,
    EncoderDecoderSpec,
    EncoderSpec,
    HeadKind,
    LatentAttentionSpec,
    LinformerAttentionSpec,
    LocalAttentionSpec,
    LogMelSpec,
    LongformerAttentionSpec,
    LowRankAttentionSpec,
    MaskedAttentionSpec,
    ModelSpec,
    PatchSpec,
    PerformerAttentionSpec,
    PositionedAttentionSpec,
    RelativeVectorsSpec,
    SinusoidVectorsSpec,
    SparseAttentionSpec,
    SpectrogramSpec,
    StackSpec,
    StridedAttentionSpec,
    TextStackSpec,
    TransformerXLAttentionSpec,
)

NUMBER = FLOAT.bits // 8  # bytes of one among keys, values and scores
CROSS = ("cross_projection", "cross")  # what an encoder's graph computes for the decoder
ONCE = ("pooler", "vector", "next_sentence", "distilled")  # heads that read one vector of a row
# Matrices of relative positions, which no token is multiplied with, and of features, which `_pairs` counts.
OTHERS = ("_position.weight", ".features.weight")
TIED = (HeadKind.MASKED_LM, HeadKind.CAUSAL_LM)


@dataclass(frozen=True)
class Pass:
    """Floating-point operations over `tokens` tokens; a multiplication and an addition are two.

    `matrices`: 2 for each weight of the stack's matrices and token, of experts the chosen ones only; for a
    patch or a frame, 2 for each weight of the projection or convolution that reads it.
    `attention`: 4 N H for each query and key that it sees, for the score and for the value. Of S tokens that
    see all there are S² such pairs, S (S + 1) / 2 where attention is causal, fewer in a window; a kernel that
    computes the others and masks them does more. Each product of contents and relative positions adds 2 N H
    for every token and vector, and once for all rows 2 for each weight that projects the vectors. `head`: 2
    for each weight of pooler and head (for a language model V d) and vector that they read, which is one a
    row or, for scores of tokens, every one.
    Biases, norms, activations, softmax and lookups are left out. `per_token` is `total` / `tokens`, rounded.
    """

    tokens: int
    matrices: int
    attention: int
    head: int
    total: int
    per_token: int


@dataclass(frozen=True)
class CacheBytes:
    """Keys and values in float32: 8 bytes K H a layer and token, and in all for B rows of S tokens.

    `windowed` of `layers` layers look at a window only; the cache keeps every token for them too. With an
    encoder, `cross_` is what its tokens take.
    """

    per_token: int
    total: int
    cross_per_token: int
    cross_total: int
    windowed: int
    layers: int


def prefill(spec: ModelSpec, length: int, batch: int = 1) -> dict[str, Pass]:
    """Reading `batch` rows of `length` tokens: what goes into an encoder or each tower, or else a prompt.

    Every token of a prompt is scored. Before a decoder, an encoder's pass includes the keys and values that
    cross-attention takes from it.
    """
    stacks = spec.stacks
    if isinstance(spec, EncoderDecoderSpec) and spec.generates:
        stacks = {"encoder": spec.encoder}
    return {name: _read(spec, name, stack, length, batch) for name, stack in stacks.items()}


def step(spec: ModelSpec, length: int, batch: int = 1) -> Pass | None:
    """A decoder's next token in each row, which sees `length` tokens with itself, and as many of an encoder.

    None where nothing decodes.
    """
    if not isinstance(spec, DecoderSpec | EncoderDecoderSpec) or not spec.generates:
        return None
    source = tokens(spec.encoder, length) if isinstance(spec, EncoderDecoderSpec) else 0
    attention = 0
    for block in spec.decoder.layers:
        own, cross = block.masked, block.cross_attention
        attention += _per_pair(own) * min(length, own.window or length)
        if cross is not None:
            attention += _per_pair(cross) * source
    head = 2 * batch * _head_weights(spec)
    return _pass(batch, 2 * batch * _weights(spec, "decoder"), batch * attention, head)


def cache(spec: ModelSpec, length: int, batch: int = 1) -> CacheBytes | None:
    """What a decoder keeps for `batch` rows of `length` tokens, and of an encoder's; None without one."""
    if not isinstance(spec, DecoderSpec | EncoderDecoderSpec) or not spec.generates:
        return None
    layers = spec.decoder.layers
    own = NUMBER * sum(cached(block.masked) for block in layers)
    crossed = [block.cross_attention for block in layers if block.cross_attention is not None]
    cross = NUMBER * sum(cached(kind) for kind in crossed)
    source = tokens(spec.encoder, length) if isinstance(spec, EncoderDecoderSpec) else 0
    windowed = sum(block.masked.window is not None for block in layers)
    return CacheBytes(
        own, own * length * batch, cross, cross * source * batch, windowed, spec.decoder.num_layers
    )


def by_part(spec: ModelSpec, name: str, length: int, batch: int = 1) -> dict[str, int]:
    """The operations of a stack by what does them, by the names that its parameters begin with.

    They add up to its pass in `prefill`, or, for a decoder behind an encoder, to a `step`.
    """
    stack, decodes = spec.stacks[name], name not in prefill(spec, length, batch)
    size = 1 if decodes else tokens(stack, length)
    result = {f"{name}.embedding": 2 * size * _matrices(spec, f"{name}.embedding.project")}
    result[f"{name}.embedding"] += 0 if decodes else _signal(stack)
    shared: dict[str, int] = {}
    for layer, block in enumerate(stack.layers):
        for part in ("attention", "cross_attention", "feed_forward"):
            owner = f"{name}.layers.{layer}.{part}"
            kind = getattr(block, part)
            if kind is not None:
                result[owner] = 2 * size * _matrices(spec, owner)
            if kind is not None and part != "feed_forward":
                seen = _pairs(kind, size)
                if decodes:
                    source = part == "cross_attention" and isinstance(spec, EncoderDecoderSpec)
                    seen = (
                        tokens(spec.stacks["encoder"], length)
                        if source
                        else min(length, kind.window or length)
                    )
                result[owner] += _per_pair(kind) * seen
        row, shared[f"{name}.layers.{layer}.attention"] = _related(stack, block, size)
        result[f"{name}.layers.{layer}.attention"] += row
    if name == "encoder":
        result |= {owner: 2 * size * _matrices(spec, owner) for owner in CROSS}
    result |= _by_head(spec, name, size)
    return {owner: batch * work + shared.get(owner, 0) for owner, work in result.items()}


def _by_head(spec: ModelSpec, name: str, size: int) -> dict[str, int]:
    """The operations of what stands on a stack of `size` tokens a row."""
    if isinstance(spec, DualEncoderSpec):
        once = {f"{name}_projection": 2 * _matrices(spec, f"{name}_projection")}
        pool = spec.vision_pool if name == "vision" else None
        return once | ({} if pool is None else {"vision_pool": _by_pool(pool, size)})
    if spec.stack is not spec.stacks[name]:
        return {}
    once = {owner: 2 * _matrices(spec, owner) for owner in ONCE}
    if isinstance(spec, EncoderSpec) and spec.vector is not None and spec.vector.pool is not None:
        once["vector"] = _by_pool(spec.vector.pool, size)
    return once | {"head": 2 * _head_weights(spec) * (1 if spec.head.scores_sequence else size)}


def _by_pool(spec: AttentionPoolSpec, size: int) -> int:
    """The operations of the pool over `size` vectors: their keys and values, and then one query."""
    sizes = {name: math.prod(shape) for name, shape in attention_pool(spec).items() if len(shape) == 2}
    del sizes["probe.weight"]  # which is read, and multiplied with nothing
    several = sum(weights for name, weights in sizes.items() if name.startswith("key_value."))
    mixed = 4 * spec.attention.num_heads * spec.attention.head_dim * size
    return 2 * (several * size + sum(sizes.values()) - several) + mixed


def scores_bytes(spec: ModelSpec, length: int, batch: int = 1) -> int:
    """The float32 scores of the layer that has most of them, where a kernel writes them out.

    (B,N,S,S), or of sparse attention those that it computes.
    """
    scores = (
        block.attention.num_heads * _scored(block.attention, tokens(stack, length))
        for stack in spec.stacks.values()
        for block in stack.blocks
    )
    return NUMBER * batch * max(scores)


def tokens(spec: StackSpec, length: int) -> int:
    """How many tokens of a row a stack has: `length` of text, those of an image or a sound."""
    return length if isinstance(spec, TextStackSpec) else spec.embedding.length


def _read(spec: ModelSpec, name: str, stack: StackSpec, length: int, batch: int) -> Pass:
    """The pass of a stack over whole rows."""
    size = tokens(stack, length)
    crossed = sum(_matrices(spec, owner) for owner in CROSS) * (name == "encoder")
    weights = _weights(spec, name) + crossed
    kinds = [kind for block in stack.layers for kind in (block.attention, block.cross_attention)]
    attention = sum(_per_pair(kind) * _pairs(kind, size) for kind in kinds if kind)
    related = [_related(stack, block, size) for block in stack.layers]
    attention += sum(row for row, _ in related)
    matrices = 2 * size * weights + _signal(stack)
    head = 2 * _read_by_heads(spec, name, size)
    once = sum(shared for _, shared in related)
    return _pass(batch * size, batch * matrices, batch * attention + once, batch * head)


def _pass(size: int, matrices: int, attention: int, head: int) -> Pass:
    total = matrices + attention + head
    return Pass(size, matrices, attention, head, total, round(total / size))


def cached(spec: MaskedAttentionSpec) -> int:
    """How many numbers a layer keeps of a token."""
    return sum(heads * size for heads, size in spec.cache_shapes)


def _per_pair(spec: MaskedAttentionSpec | PositionedAttentionSpec | SparseAttentionSpec) -> int:
    """Operations for a query and the key that it sees: their product, and a share of the value."""
    if isinstance(spec, LatentAttentionSpec):
        return 2 * spec.num_heads * (2 * spec.kv_lora_rank + spec.qk_rope_head_dim)
    return 4 * spec.num_heads * spec.head_dim


def _scored(spec: MaskedAttentionSpec | PositionedAttentionSpec | SparseAttentionSpec, length: int) -> int:
    """How many scores of one sequence and head there are."""
    return length**2 if isinstance(spec, MaskedAttentionSpec) else _pairs(spec, length)


def _pairs(spec: MaskedAttentionSpec | PositionedAttentionSpec | SparseAttentionSpec, length: int) -> int:
    """How many queries and keys of one sequence see each other; of Longformer without global tokens."""
    match spec:
        case (
            AttentionSpec()
            | LatentAttentionSpec()
            | DisentangledAttentionSpec()
            | TransformerXLAttentionSpec()
            | LowRankAttentionSpec()
        ):
            return _within(spec.window, spec.causal, length)
        case LongformerAttentionSpec():
            return _within(spec.window // 2 + 1, spec.causal, length)
        case LinformerAttentionSpec():
            return length * spec.projected_length
        case PerformerAttentionSpec():  # with the features, and with what they sum
            return 2 * length * spec.num_features
        case StridedAttentionSpec():  # half of the heads each
            near = sum(min(place, spec.stride) + 1 for place in range(length))
            return (near + sum(place // spec.stride + 1 for place in range(length))) // 2
        case LocalAttentionSpec():
            blocks = [min(spec.block_size, length - at) for at in range(0, length, spec.block_size)]
            own = sum(size * (size + 1) // 2 if spec.causal else size**2 for size in blocks)
            beside = sum(one * other for one, other in itertools.pairwise(blocks))
            return own + beside * (1 if spec.causal else 2)
        case _:
            assert_never(spec)


def _related(stack: StackSpec, block: BlockSpec, length: int) -> tuple[int, int]:
    """Operations with relative positions in a layer: those of a row, and those once for all rows."""
    match stack, block.attention:
        case TextStackSpec(relative=RelativeVectorsSpec() as relative), DisentangledAttentionSpec() as kind:
            numbers = 2 * kind.terms * kind.num_heads * kind.head_dim * relative.vectors(length)
            return numbers * length, numbers * kind.hidden_size
        case TextStackSpec(relative=SinusoidVectorsSpec() as sinusoids), TransformerXLAttentionSpec() as kind:
            numbers = 2 * kind.num_heads * kind.head_dim * sinusoids.vectors(length)
            return numbers * length, numbers * kind.hidden_size
    return 0, 0


def _within(window: int | None, causal: bool, length: int) -> int:
    """Pairs where a query sees itself and the `window` - 1 tokens before it, and as many after it."""
    reach = length - 1 if window is None else min(window, length) - 1
    before = reach * (reach + 1) // 2 + (length - 1 - reach) * reach
    return length + (before if causal else 2 * before)


def _signal(spec: StackSpec) -> int:
    """Operations that make vectors of an image or a sound."""
    match spec.embedding:
        case EmbeddingSpec():
            return 0
        case PatchSpec() as patches:
            pixels = patches.channels * patches.patch_size**2
            return 2 * (patches.positions - patches.tokens) * patches.hidden_size * pixels
        case LogMelSpec() as sound:  # over 3 of the frames, and then over 3 of what that makes
            read = 2 * sound.num_mel_bins + sound.hidden_size
            return 2 * sound.length * sound.hidden_size * 3 * read
        case SpectrogramSpec() as spectrogram:
            return 2 * (spectrogram.length - 2) * spectrogram.hidden_size * spectrogram.patch_size**2
        case kind:
            assert_never(kind)


def _weights(spec: ModelSpec, stack: str) -> int:
    """Weights that each token of a stack is multiplied with."""
    return _matrices(spec, f"{stack}.layers") + _matrices(spec, f"{stack}.embedding.project")


def _read_by_heads(spec: ModelSpec, name: str, size: int) -> int:
    """Weights times vectors that they read, in what stands on a stack of `size` tokens a row."""
    return sum(_by_head(spec, name, size).values()) // 2


def _head_weights(spec: EncoderSpec | DecoderSpec | EncoderDecoderSpec) -> int:
    """Weights that each vector is multiplied with in the head; a tied projection is the word matrix."""
    own = _matrices(spec, "head")
    if spec.head.kind not in TIED or not spec.head.tied:
        return own
    shared = isinstance(spec, EncoderDecoderSpec) and spec.shared_embedding
    owner = "encoder" if isinstance(spec, EncoderSpec) or shared else "decoder"
    return own + math.prod(parameters(spec)[f"{owner}.embedding.word.weight"])


def _matrices(spec: ModelSpec, owner: str) -> int:
    """Weights of all matrices under a name, of experts those of the chosen ones."""
    return sum(size for name, size in _sizes(spec).items() if name.startswith(f"{owner}."))


@functools.lru_cache(maxsize=4)
def _sizes(spec: ModelSpec) -> dict[str, int]:
    """Weights of each matrix that a token is multiplied with."""
    return {
        name: math.prod(shape)
        for name, shape in parameters(spec).items()
        if len(shape) == 2 and active(spec, name) and not name.endswith(OTHERS)
    }
