"""What a Transformer is made of: every architectural switch, and nothing else.

Nested frozen dataclasses. A spec checks itself when it is made and raises SpecError when its parts
contradict each other. It knows nothing of checkpoints, weights or graphs.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

from txexport.errors import SpecError


class NormKind(StrEnum):
    """Normalisation over the last axis."""

    LAYER = "layer"  # Ba et al. 2016
    RMS = "rms"  # Zhang and Sennrich 2019


class NormPlacement(StrEnum):
    """Where a block normalises: after each residual sum, before each sublayer, or before both at once.

    Parallel sublayers read the block's input, each through its own norm, and are added to it together.
    """

    POST = "post"  # Vaswani et al. 2017
    PRE = "pre"  # Radford et al. 2019
    PARALLEL = "parallel"  # Black et al. 2022


class Activation(StrEnum):
    """Pointwise non-linearity. `GELU_TANH` is the tanh approximation of Hendrycks and Gimpel 2016."""

    GELU = "gelu"
    GELU_TANH = "gelu_tanh"
    RELU = "relu"
    SILU = "silu"
    TANH = "tanh"


class PositionKind(StrEnum):
    """How the order of tokens enters the embedding."""

    LEARNED = "learned"  # a table, read at position + offset
    ROTARY = "rotary"  # in attention, not here
    RELATIVE = "relative"  # a bias on attention's scores, not here
    NONE = "none"


class HeadKind(StrEnum):
    """What stands on top of the stack."""

    NONE = "none"  # hidden states
    MASKED_LM = "masked_lm"  # dense, activation, norm, vocabulary
    CAUSAL_LM = "causal_lm"  # vocabulary
    SEQUENCE = "sequence"  # first token: dense, activation, labels
    TOKENS = "tokens"  # every token: labels
    SPANS = "spans"  # every token: how well a span starts and ends there


class Cache(StrEnum):
    """How a decoder's past keys and values come and go. A choice of the export, not of the model."""

    STATIC = "static"  # written in place into buffers of fixed capacity
    DYNAMIC = "dynamic"  # grown by concatenation


def _positive(owner: object, *names: str) -> None:
    for name in names:
        value = getattr(owner, name)
        if not value > 0:  # NaN included
            raise SpecError(f"{type(owner).__name__}: {name} is {value}, expected more than 0")


@dataclass(frozen=True)
class NormSpec:
    """Normalisation of vectors of `size` numbers."""

    size: int
    eps: float
    kind: NormKind = NormKind.LAYER

    def __post_init__(self) -> None:
        _positive(self, "size", "eps")


@dataclass(frozen=True)
class RotarySpec:
    """Rotation of queries and keys by their positions (Su et al. 2021, 3.4.2).

    Pair j of a head's first 2 * len(frequencies) numbers turns by position * frequencies[j] radians; the
    others stay. A pair is (j, j + len(frequencies)), or (2j, 2j + 1) where `interleaved`. `scale` multiplies
    the rotated numbers.
    """

    frequencies: tuple[float, ...]
    interleaved: bool = False
    scale: float = 1.0

    def __post_init__(self) -> None:
        if not self.frequencies:
            raise SpecError("RotarySpec: no frequencies, so nothing is rotated")
        _positive(self, "scale")


@dataclass(frozen=True)
class AttentionSpec:
    """Multi-head attention: `num_heads` query heads share `num_kv_heads` key and value heads.

    `bias` is of query, key and value projections, `output_bias` of the output's. `scale` multiplies the
    scores; None is 1/sqrt(head_dim). A query sees itself and the `window` - 1 tokens before it; None is no
    limit. `head_norm` normalises every query and key head before it is rotated. Where `biased`, the mask is
    numbers to add to the scores.
    """

    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    causal: bool
    bias: bool = True
    output_bias: bool = True
    scale: float | None = None
    rotary: RotarySpec | None = None
    window: int | None = None
    head_norm: NormSpec | None = None
    biased: bool = False

    def __post_init__(self) -> None:
        _positive(self, "hidden_size", "num_heads", "num_kv_heads", "head_dim")
        if self.window is not None:
            _positive(self, "window")
            if not self.causal:
                raise SpecError("AttentionSpec: a window looks back, so attention must be causal")
        if self.biased and self.num_kv_heads != self.num_heads:
            raise SpecError("AttentionSpec: a bias is of a query head, so every one needs keys of its own")
        if self.rotary is not None and 2 * len(self.rotary.frequencies) > self.head_dim:
            raise SpecError(
                f"AttentionSpec: {len(self.rotary.frequencies)} pairs exceed a head of {self.head_dim}"
            )
        if self.head_norm is not None and self.head_norm.size != self.head_dim:
            raise SpecError(f"AttentionSpec: head norm is {self.head_norm.size} wide, a head {self.head_dim}")
        if self.num_heads % self.num_kv_heads:
            raise SpecError(
                f"AttentionSpec: {self.num_heads} query heads cannot share {self.num_kv_heads} "
                "key/value heads evenly"
            )


@dataclass(frozen=True)
class FeedForwardSpec:
    """Two projections with a non-linearity between them; where `gated`, a third multiplies it."""

    hidden_size: int
    intermediate_size: int
    activation: Activation
    bias: bool = True
    gated: bool = False

    def __post_init__(self) -> None:
        _positive(self, "hidden_size", "intermediate_size")


@dataclass(frozen=True)
class BlockSpec:
    """One layer: attention, attention over an encoder where `cross_attention` is given, feed-forward."""

    attention: AttentionSpec
    feed_forward: FeedForwardSpec
    norm: NormSpec
    placement: NormPlacement
    cross_attention: AttentionSpec | None = None

    def __post_init__(self) -> None:
        width = self.attention.hidden_size
        for part in (self.feed_forward, self.cross_attention):
            if part is not None and part.hidden_size != width:
                raise SpecError(
                    f"BlockSpec: {type(part).__name__} is {part.hidden_size} wide, attention {width}"
                )
        if self.norm.size != width:
            raise SpecError(f"BlockSpec: norm is {self.norm.size} wide, attention {width}")
        if self.cross_attention is not None and self.cross_attention.causal:
            raise SpecError("BlockSpec: cross attention sees the whole encoder, so it cannot be causal")
        if self.cross_attention is not None and not self.attention.causal:
            raise SpecError(
                "BlockSpec: a block with cross attention decodes, so its attention must be causal"
            )
        cross = self.cross_attention
        if cross is not None and self.placement == NormPlacement.PARALLEL:
            raise SpecError("BlockSpec: three sublayers in parallel are not known in any architecture")
        if cross is not None and (cross.rotary is not None or cross.head_norm is not None):
            raise SpecError("BlockSpec: cross attention rotates nothing and has no head norm")


@dataclass(frozen=True)
class PositionSpec:
    """Positions added to the embedding: a table of `size` rows, read at position + `offset`.

    Rotary positions have no table; `size` is then the longest sequence that the model was made for.
    Tokens of the id `padding` are not counted and take the row `offset`; the first other takes the next.
    """

    kind: PositionKind
    size: int = 0
    offset: int = 0
    padding: int | None = None

    def __post_init__(self) -> None:
        if self.kind in (PositionKind.NONE, PositionKind.RELATIVE):
            if self.size or self.offset or self.padding is not None:
                raise SpecError(
                    f"PositionSpec: kind '{self.kind}' has no table, so size and offset must be 0"
                )
        elif self.offset < 0 or self.size <= self.offset:
            raise SpecError(
                f"PositionSpec: a table of {self.size} rows read at offset {self.offset} holds no position"
            )

    @property
    def limit(self) -> int | None:
        """The longest sequence, in tokens; None without a table."""
        if self.kind in (PositionKind.NONE, PositionKind.RELATIVE):
            return None
        return self.size - self.offset - (self.padding is not None)


@dataclass(frozen=True)
class EmbeddingSpec:
    """Word vectors times `scale`, plus positions, plus one of `segments` vectors, then a norm.

    The tables are `hidden_size` wide, or `factored_size` and then projected to `hidden_size`.
    """

    vocab_size: int
    hidden_size: int
    position: PositionSpec
    segments: int = 0
    norm: NormSpec | None = None
    scale: float = 1.0
    factored_size: int | None = None

    @property
    def table_size(self) -> int:
        """Width of the tables."""
        return self.hidden_size if self.factored_size is None else self.factored_size

    def __post_init__(self) -> None:
        _positive(self, "vocab_size", "hidden_size", "scale", "table_size")
        if self.segments < 0:
            raise SpecError(f"EmbeddingSpec: segments is {self.segments}, expected 0 or more")
        if self.norm is not None and self.norm.size != self.table_size:
            raise SpecError(f"EmbeddingSpec: norm is {self.norm.size} wide, the embedding {self.table_size}")


@dataclass(frozen=True)
class RelativeSpec:
    """A learned bias on attention's scores for each head and bucket of distance (Raffel et al. 2020, 2.1).

    Half of the buckets of a direction are single distances, the others grow logarithmically and the last
    one begins before `max_distance`. `bidirectional` has buckets of their own for keys after the query.
    """

    buckets: int
    max_distance: int
    bidirectional: bool

    def __post_init__(self) -> None:
        exact = self.directed // 2
        if exact < 1 or self.max_distance <= exact:
            raise SpecError(
                f"RelativeSpec: {self.buckets} buckets do not fit distances up to {self.max_distance}"
            )

    @property
    def directed(self) -> int:
        """Buckets of one direction."""
        return self.buckets // 2 if self.bidirectional else self.buckets

    def bucket_of_distance(self) -> list[int]:
        """The bucket of each distance from 0 to max_distance; those beyond have the last one's."""
        exact = self.directed // 2
        grown = self.directed - exact
        found = list(range(exact))
        for distance in range(exact, self.max_distance + 1):
            step = math.log(distance / exact) / math.log(self.max_distance / exact) * grown
            found.append(min(exact + int(step + 1e-6), self.directed - 1))
        return found


@dataclass(frozen=True)
class StackSpec:
    """An embedding and `num_layers` equal blocks; `final_norm` closes a pre-norm stack.

    `relative` is the bias that all layers share.
    """

    embedding: EmbeddingSpec
    block: BlockSpec
    num_layers: int
    final_norm: NormSpec | None = None
    relative: RelativeSpec | None = None

    def __post_init__(self) -> None:
        _positive(self, "num_layers")
        width = self.embedding.hidden_size
        if (self.embedding.position.kind == PositionKind.ROTARY) != (self.block.attention.rotary is not None):
            raise SpecError("StackSpec: positions are rotary exactly when attention rotates")
        relative = (self.embedding.position.kind == PositionKind.RELATIVE, self.block.attention.biased)
        if relative != (self.relative is not None,) * 2:
            raise SpecError("StackSpec: positions are relative exactly when attention is biased by them")
        if self.block.attention.hidden_size != width:
            raise SpecError(
                f"StackSpec: the embedding is {width} wide, its blocks {self.block.attention.hidden_size}"
            )
        if self.final_norm is not None and self.final_norm.size != width:
            raise SpecError(f"StackSpec: final norm is {self.final_norm.size} wide, the stack {width}")

    @property
    def hidden_size(self) -> int:
        """Width of the hidden states."""
        return self.embedding.hidden_size


@dataclass(frozen=True)
class HeadSpec:
    """Scores of the vocabulary, or of `labels`; a causal LM's hidden states are multiplied by `scale` first.

    `tied` projects with the word embedding itself, and only a language model can. `activation` belongs to
    the dense layer of masked LM and sequence heads, `norm` to the masked LM's.
    """

    kind: HeadKind = HeadKind.NONE
    tied: bool = True
    bias: bool = False
    activation: Activation | None = None
    norm: NormSpec | None = None
    labels: int = 0
    scale: float = 1.0

    def __post_init__(self) -> None:
        _positive(self, "scale")
        labelled = self.kind in (HeadKind.SEQUENCE, HeadKind.TOKENS, HeadKind.SPANS)
        if labelled != (self.labels > 0) or (labelled and self.tied):
            raise SpecError(f"HeadSpec: kind '{self.kind}' with {self.labels} labels, tied={self.tied}")
        if self.kind == HeadKind.SPANS and self.labels != 2:
            raise SpecError(f"HeadSpec: a span has 2 ends, not {self.labels}")
        transform = self.activation is not None and self.norm is not None
        if self.kind == HeadKind.MASKED_LM and not transform:
            raise SpecError("HeadSpec: a masked LM head needs an activation and a norm for its transform")
        if self.kind == HeadKind.SEQUENCE and (self.activation is None or self.norm is not None):
            raise SpecError("HeadSpec: a sequence head needs an activation for its dense layer, and no norm")
        plain = self.kind not in (HeadKind.MASKED_LM, HeadKind.SEQUENCE)
        if plain and (self.activation is not None or self.norm is not None):
            raise SpecError(f"HeadSpec: a head of kind '{self.kind}' has no transform")

    @property
    def dense(self) -> bool:
        """Whether a dense layer precedes the projection."""
        return self.kind in (HeadKind.MASKED_LM, HeadKind.SEQUENCE)


@dataclass(frozen=True)
class ModelSpec:
    """A whole model.

    `encoder` reads a whole sequence at once; `decoder` reads new tokens over a cache of past ones.
    Both together are sequence-to-sequence, and `shared_embedding` then says that one word matrix
    serves both. A causal stack may stand in `encoder`: hidden states of a decoder-only model need
    no cache.
    """

    encoder: StackSpec | None = None
    decoder: StackSpec | None = None
    head: HeadSpec = HeadSpec()
    pooler: bool = False
    shared_embedding: bool = False

    def __post_init__(self) -> None:
        if self.encoder is None and self.decoder is None:
            raise SpecError("ModelSpec: neither encoder nor decoder")
        if self.decoder is not None:
            if self.decoder.embedding.position.padding is not None:
                raise SpecError(
                    "ModelSpec: a decoder's positions continue a cache, so they cannot skip padding"
                )
            crossed = self.decoder.block.cross_attention is not None
            if crossed != (self.encoder is not None):
                raise SpecError("ModelSpec: a decoder has cross attention exactly when there is an encoder")
            if not self.decoder.block.attention.causal:
                raise SpecError("ModelSpec: a decoder's attention must be causal")
            if self.head.kind != HeadKind.CAUSAL_LM:
                raise SpecError(f"ModelSpec: a decoder needs a causal LM head, not '{self.head.kind}'")
        elif self.head.kind == HeadKind.CAUSAL_LM:
            raise SpecError("ModelSpec: a causal LM head needs a decoder")
        elif self.encoder is not None and self.encoder.block.cross_attention is not None:
            raise SpecError("ModelSpec: an encoder has nothing to cross-attend to")
        if self.pooler and (self.encoder is None or self.decoder is not None):
            raise SpecError("ModelSpec: a pooler needs an encoder-only model")
        words = self.stack.embedding.table_size
        projected = self.head.norm.size if self.head.norm is not None else self.stack.hidden_size
        if (
            self.head.kind in (HeadKind.MASKED_LM, HeadKind.CAUSAL_LM)
            and self.head.tied
            and projected != words
        ):
            raise SpecError(f"ModelSpec: a head of {projected} numbers is tied to word vectors of {words}")
        if self.shared_embedding:
            if self.encoder is None or self.decoder is None:
                raise SpecError("ModelSpec: a shared embedding needs an encoder and a decoder")
            ours, theirs = self.encoder.embedding, self.decoder.embedding
            if (ours.vocab_size, ours.hidden_size) != (theirs.vocab_size, theirs.hidden_size):
                raise SpecError("ModelSpec: encoder and decoder cannot share word matrices of two shapes")

    @property
    def stack(self) -> StackSpec:
        """The stack under the head: the decoder where there is one."""
        stack = self.decoder or self.encoder
        assert stack is not None
        return stack
