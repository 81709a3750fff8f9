"""What a model costs, told from its spec: learned numbers, operations, memory. Nothing is built or run.

S tokens of a row, B rows; N query heads, K key/value heads, H head size; d width, n layers; V vocabulary.
"""

import math
from collections.abc import Container
from dataclasses import dataclass

from txexport import parameters
from txexport.spec import AttentionSpec, ExpertsSpec, HeadKind, ModelSpec, PositionKind, StackSpec

FLOAT = 4  # bytes of a float32, which a bundle's weights, keys and values are
LOOKED_UP = ("embedding.word.weight", "embedding.position.weight", "embedding.segment.weight")
COMPONENTS = (
    "embedding",
    "attention",
    "cross_attention",
    "feed_forward",
    "experts",
    "norms",
    "pooler",
    "head",
)
TIED = (HeadKind.MASKED_LM, HeadKind.CAUSAL_LM)


@dataclass(frozen=True)
class Parameters:
    """Learned numbers, each once however often it is used.

    `components` add up to `total`. Norms and learned scales are "norms" wherever a stack has them, a relative
    bias is "attention", a router is "experts"; a head tied to the embedding counts there, its own norm in
    "head". `active` are those that one token uses, with the chosen experts only. `effective` counts shared
    ones again in every layer that has them. `fixed` are numbers of tables that nothing learns, in none of the
    others. `rule_of_thumb` is 12 d² n (Kaplan et al. 2020, 2.1) summed over the stacks, 4 for attention and 8
    for a feed-forward network of 4 d; `share` is `without_embeddings` in units of it.
    """

    components: dict[str, int]
    total: int
    without_embeddings: int
    active: int
    effective: int
    fixed: int
    rule_of_thumb: int
    share: float


@dataclass(frozen=True)
class Pass:
    """Floating-point operations over `tokens` tokens; a multiplication and an addition are two.

    `matrices`: 2 for each weight of the stacks' matrices and token, of experts the chosen ones only.
    `attention`: 4 N H for each query and key that it sees, for the score and for the value. Of S tokens that
    see all there are S² such pairs, S (S + 1) / 2 where attention is causal, fewer in a window; a kernel that
    computes the others and masks them does more. `head`: 2 for each weight of pooler and head (for a
    language model V d) and vector that they read, which is one a row or, for scores of tokens, every one.
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


def count(spec: ModelSpec, stored: Container[str] | None = None) -> Parameters:
    """The parameters of `spec`, of which `stored` names those that are no copy of another; None is all."""
    components = dict.fromkeys(COMPONENTS, 0)
    effective = idle = fixed = 0
    for name, shape in parameters.model(spec).items():
        size, own = math.prod(shape), stored is None or name in stored
        if _fixed(spec, name):
            fixed += size * own
            continue
        effective += size
        components[component(name)] += size * own
        idle += size * own * (not _active(spec, name))
    total = sum(components.values())
    inner = total - components["embedding"]
    rule = sum(12 * stack.num_layers * stack.hidden_size**2 for stack in stacks(spec).values())
    return Parameters(components, total, inner, total - idle, effective, fixed, rule, inner / rule)


def component(name: str) -> str:
    """Which of COMPONENTS a parameter belongs to."""
    parts = name.split(".")
    if parts[0] in ("head", "next_sentence"):
        return "head"
    if parts[0] == "pooler":
        return "pooler"
    if parts[0] == "cross":
        return "cross_attention"
    if parts[1] == "relative":
        return "attention"
    if parts[1] == "embedding":
        return "norms" if parts[2] == "norm" else "embedding"
    if parts[1] == "final_norm" or parts[4].endswith("_norm"):
        return "norms"
    if parts[3] == "feed_forward" and parts[4] in ("router", "experts"):
        return "experts"
    return parts[3] if parts[3] in COMPONENTS else "norms"


def stacks(spec: ModelSpec) -> dict[str, StackSpec]:
    """The stacks that there are, by name."""
    both = {"encoder": spec.encoder, "decoder": spec.decoder}
    return {name: stack for name, stack in both.items() if stack is not None}


def prefill(spec: ModelSpec, length: int, batch: int = 1) -> Pass:
    """Reading `batch` rows of `length` tokens: an encoder's input, or else a prompt, every token scored.

    Before a decoder, an encoder's pass includes the keys and values that cross-attention takes from it.
    """
    name, stack = next(iter(stacks(spec).items()))
    heads = 0
    if spec.decoder is None or spec.encoder is None:
        whole = spec.head.whole or spec.head.kind == HeadKind.NONE
        once, each = _head_weights(spec, ("pooler", "next_sentence")), _head_weights(spec, ("head",))
        heads = 2 * batch * (once + each * (1 if whole else length))
    weights = _weights(spec, name) + (_weights(spec, "cross") if name == "encoder" else 0)
    attention = sum(
        4 * kind.num_heads * kind.head_dim * _pairs(kind, length)
        for kind in (block.attention for block in stack.layers)
    )
    return _pass(batch * length, 2 * batch * length * weights, batch * attention, heads)


def step(spec: ModelSpec, length: int, batch: int = 1) -> Pass | None:
    """A decoder's next token in each row, which sees `length` tokens with itself, and as many of an encoder.

    None where nothing decodes.
    """
    if spec.decoder is None:
        return None
    attention = 0
    for block in spec.decoder.layers:
        own, cross = block.attention, block.cross_attention
        attention += 4 * own.num_heads * own.head_dim * min(length, own.window or length)
        if cross is not None:
            attention += 4 * cross.num_heads * cross.head_dim * length
    head = 2 * batch * _head_weights(spec, ("head",))
    return _pass(batch, 2 * batch * _weights(spec, "decoder"), batch * attention, head)


def cache(spec: ModelSpec, length: int, batch: int = 1) -> CacheBytes | None:
    """What a decoder keeps for `batch` rows of `length` tokens, and of an encoder's; None without one."""
    if spec.decoder is None:
        return None
    layers = spec.decoder.layers
    own = 2 * FLOAT * sum(block.attention.num_kv_heads * block.attention.head_dim for block in layers)
    crossed = [block.cross_attention for block in layers if block.cross_attention is not None]
    cross = 2 * FLOAT * sum(kind.num_kv_heads * kind.head_dim for kind in crossed)
    windowed = sum(block.attention.window is not None for block in layers)
    return CacheBytes(
        own, own * length * batch, cross, cross * length * batch, windowed, spec.decoder.num_layers
    )


def scores_bytes(spec: ModelSpec, length: int, batch: int = 1) -> int:
    """The float32 scores (B,N,S,S) of the layer with most heads, where a kernel writes them out."""
    heads = max(block.attention.num_heads for stack in stacks(spec).values() for block in stack.blocks)
    return FLOAT * batch * heads * length**2


def _pass(tokens: int, matrices: int, attention: int, head: int) -> Pass:
    total = matrices + attention + head
    return Pass(tokens, matrices, attention, head, total, round(total / tokens))


def _pairs(spec: AttentionSpec, length: int) -> int:
    """How many queries and keys of one sequence see each other."""
    reach = length - 1 if spec.window is None else min(spec.window, length) - 1
    before = reach * (reach + 1) // 2 + (length - 1 - reach) * reach
    return length + (before if spec.causal else 2 * before)


def _weights(spec: ModelSpec, owner: str) -> int:
    """Weights that each token of a stack, or of an encoder for "cross", is multiplied with."""
    return sum(
        math.prod(shape)
        for name, shape in parameters.model(spec).items()
        if name.startswith(f"{owner}.")
        and len(shape) == 2
        and not name.endswith((*LOOKED_UP, ".relative.weight"))
        and _active(spec, name)
    )


def _head_weights(spec: ModelSpec, owners: tuple[str, ...]) -> int:
    """Weights that each vector is multiplied with in `owners`; a tied projection is the word matrix."""
    own = sum(
        math.prod(shape)
        for name, shape in parameters.model(spec).items()
        if name.startswith(tuple(f"{owner}." for owner in owners)) and len(shape) == 2
    )
    embedding = spec.stack.embedding
    tied = "head" in owners and spec.head.kind in TIED and spec.head.tied
    return own + embedding.vocab_size * embedding.table_size * tied


def _fixed(spec: ModelSpec, name: str) -> bool:
    """Whether a parameter is a table that nothing learns."""
    stack, _, rest = name.partition(".")
    if rest != "embedding.position.weight":
        return False
    return stacks(spec)[stack].embedding.position.kind == PositionKind.FIXED


def _active(spec: ModelSpec, name: str) -> bool:
    """Whether one token uses a parameter: of equal experts, the first stand for those that are chosen."""
    stack, _, rest = name.partition(".layers.")
    layer, _, inner = rest.partition(".feed_forward.experts.")
    if not inner:
        return True
    mixture = stacks(spec)[stack].layers[int(layer)].feed_forward
    assert isinstance(mixture, ExpertsSpec)
    return int(inner.split(".")[0]) < mixture.chosen
