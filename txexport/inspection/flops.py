"""Operations and memory of a model, counted from its spec without building or running it.

B rows of S tokens: of text, or the vectors of an image or a sound, with equal rows. N query heads, K
key/value heads, H head size; d width; V vocabulary.
"""

import functools
import math
from dataclasses import dataclass

from txexport.formats import FLOAT
from txexport.inspection.attention_operations import (
    cached,
    convolutions,
    cross_cached,
    crossed_vectors,
    image_vectors,
    of_row,
    of_step,
    relative,
    scores,
)
from txexport.inspection.parameter_count import active
from txexport.parts import Decoding, Readout, architecture_of, input_of, parameters
from txexport.parts.stacks import (
    layer_vectors,
    merged_vectors,
    query_layers,
    query_operations,
    returned_vectors,
)
from txexport.parts.vectors import attention_pool
from txexport.spec import AttentionPoolSpec, LengthAdapterSpec, ModelSpec, StackSpec, WindowedMapsSpec
from txexport.spec.lengths import adapter_of, inside, squeeze_of

NUMBER = FLOAT.bits // 8  # bytes of a number of keys, values and scores
# Matrices not multiplied with tokens: relative positions, their biases, and what `pairs` counts.
OTHERS = (
    *(".attention.rate", "_position.weight", ".features.weight", ".attention.relative.weight"),
    *(".relative.up.weight", ".relative.down.weight"),
)
# Components with projections of each token beside the embedding.
AROUND = ("layer_inputs", "layout", "expand", "merge")


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

    `states` are of layers that have these instead, and do not grow with S. `windowed` of the `layers` that
    have a cache look at a window only; the cache keeps every token for them too. With an encoder, `cross_`
    is what its tokens take, and with layers that attend to images, what the vectors of one take.
    """

    per_token: int
    total: int
    cross_per_token: int
    cross_total: int
    windowed: int
    layers: int
    states: int = 0


def prefill(spec: ModelSpec, length: int, batch: int = 1) -> dict[str, Pass]:
    """Passes over `batch` rows of `length` tokens: the input of an encoder, or of both encoders, or a prompt.

    Every token of a prompt is scored. Before a decoder, an encoder's pass includes the keys and values of
    cross-attention.
    """
    step_only = _step_only(spec)
    return {name: _read(spec, name, length, batch) for name in spec.stacks if name != step_only}


def step(spec: ModelSpec, length: int, batch: int = 1) -> Pass | None:
    """A decoder's next token in each row; it attends to `length` tokens with itself, and to encoded ones.

    None if nothing is decoded.
    """
    decoding = decoding_of(spec)
    if decoding is None:
        return None
    name, source = decoding.decoder, source_tokens(spec, decoding, length)
    attention = sum(
        operations
        for block in spec.stacks[name].layers
        for operations in of_step(block, length, source).values()
    )
    head = sum(_by_readout(spec, name, 1).values())
    beside = sum(sum(convolutions(block, 1).values()) for block in spec.stacks[name].layers)
    return _pass(batch, batch * (2 * _weights(spec, name) + beside), batch * attention, batch * head)


def cache(spec: ModelSpec, length: int, batch: int = 1, number: int = NUMBER) -> CacheBytes | None:
    """The cache of a decoder for `batch` rows of `length` tokens, and of an encoder's; None without one.

    `number` are the bytes of a number of keys and values; states are float32.
    """
    decoding = decoding_of(spec)
    if decoding is None:
        return None
    layers = spec.stacks[decoding.decoder].layers
    size = number * sum(cached(block.masked) for block in layers if block.has_keys)
    states = NUMBER * sum(math.prod(shape) for block in layers for shape in block.states.values())
    cross = number * sum(map(cross_cached, layers))
    source = image_vectors(layers) or source_tokens(spec, decoding, length)
    windowed = sum(block.attention.window is not None for block in layers if block.has_keys)
    total, crossing = size * length * batch, cross * source * batch
    caching = sum(block.has_keys or bool(block.states) for block in layers)
    return CacheBytes(size, total, cross, crossing, windowed, caching, states * batch)


def by_part(spec: ModelSpec, name: str, length: int, batch: int = 1) -> dict[str, int]:
    """The operations of a stack by component, under the names that the component's parameters begin with.

    They add up to its pass in `prefill`, or, for a decoder behind an encoder, to a `step`.
    """
    stack, decodes = spec.stacks[name], name == _step_only(spec)
    size, source = 1 if decodes else tokens(stack, length), crossed_vectors(spec, name, length)
    embedding = 0 if decodes else input_of(stack).operations(stack.embedding)
    result = {f"{name}.embedding": 2 * size * _matrices(spec, f"{name}.embedding.project") + embedding}
    for part in AROUND:
        if projected := _matrices(spec, f"{name}.{part}.project"):
            result[f"{name}.{part}"] = 2 * size * projected
    result |= _around(spec, name, size)
    shared: dict[str, int] = {}
    read = [1] * stack.num_layers if decodes else layer_vectors(stack, length)
    for layer, (block, vectors) in enumerate(zip(stack.layers, read, strict=True)):
        owners = {part: f"{name}.layers.{layer}.{part}" for part in block.sublayers}
        result |= {owner: 2 * vectors * _matrices(spec, owner) for owner in owners.values()}
        attention = of_step(block, length, source) if decodes else of_row(block, vectors, source)
        for part, operations in attention.items():
            result[owners[part]] += operations
        row, shared[owners["attention"]] = relative(stack, block, vectors)
        result[owners["attention"]] += row
        for part, operations in convolutions(block, vectors).items():
            result[owners[part]] += operations
    for part, operations in query_operations(stack).items():
        result[f"{name}.{part}"] = operations
    for merging, (vectors, beside) in merged_vectors(stack).items():
        result[f"{name}.{merging}"] = vectors * (2 * _matrices(spec, f"{name}.{merging}") + beside)
    result |= _by_readout(spec, name, 1 if decodes else returned_vectors(stack, length))
    return {owner: batch * work + shared.get(owner, 0) for owner, work in result.items()}


def scores_bytes(spec: ModelSpec, length: int, batch: int = 1) -> int:
    """The bytes of the largest layer's scores in float32, if a kernel materialises them.

    (B,N,S,S), or for sparse attention the computed ones.
    """
    counts = [
        block.attention.num_heads * scores(block.attention, vectors)
        for stack in spec.stacks.values()
        for block, vectors in zip(stack.layers, layer_vectors(stack, length), strict=True)
    ]
    for stack in spec.stacks.values():
        counts += [stack.embedding.scores] if isinstance(stack.embedding, WindowedMapsSpec) else []
        counts += [
            part.num_heads * vectors * max(vectors, cells)
            for part, vectors, cells in query_layers(stack).values()
        ]
    return NUMBER * batch * max(counts, default=0)


def tokens(spec: StackSpec, length: int) -> int:
    """The number of vectors of a row in a stack: `length` of text, those of an image or a sound."""
    return input_of(spec).vectors(spec.embedding, length)


def decoding_of(spec: ModelSpec) -> Decoding | None:
    """The stack that generates; None where nothing is generated."""
    return architecture_of(spec).decoding(spec)


def source_tokens(spec: ModelSpec, decoding: Decoding, length: int) -> int:
    """The number of an encoder's vectors that a decoder attends to; 0 without an encoder."""
    if decoding.source is None:
        return 0
    return returned_vectors(spec.stacks[decoding.source], length)


def _step_only(spec: ModelSpec) -> str | None:
    """The name of an encoder-decoder's decoder, which is counted by `step`, not by rows."""
    decoding = decoding_of(spec)
    return None if decoding is None or decoding.source is None else decoding.decoder


def _read(spec: ModelSpec, name: str, length: int, batch: int) -> Pass:
    """The pass of a stack over complete rows."""
    stack = spec.stacks[name]
    size, read = tokens(stack, length), layer_vectors(stack, length)
    layers, last = list(zip(stack.layers, read, strict=True)), returned_vectors(stack, length)
    readouts = architecture_of(spec).readouts(spec, name)
    matrices = 2 * size * _projections(spec, name)
    matrices += 2 * sum(
        vectors * _matrices(spec, f"{name}.layers.{layer}") for layer, vectors in enumerate(read)
    )
    matrices += 2 * sum(
        vectors * _matrices(spec, f"{name}.{merging}")
        for merging, (vectors, _) in merged_vectors(stack).items()
    )
    matrices += sum(vectors * beside for vectors, beside in merged_vectors(stack).values())
    matrices += sum(query_operations(stack).values())
    matrices += input_of(stack).operations(stack.embedding) + sum(_around(spec, name, size).values())
    matrices += sum(_read_out(spec, readout, last) for readout in readouts if readout.for_decoder)
    matrices += sum(sum(convolutions(block, vectors).values()) for block, vectors in layers)
    head = sum(_read_out(spec, readout, last) for readout in readouts if not readout.for_decoder)
    source = crossed_vectors(spec, name, length)
    attention = sum(sum(of_row(block, vectors, source).values()) for block, vectors in layers)
    positions = [relative(stack, block, vectors) for block, vectors in layers]
    attention += sum(row for row, _ in positions)
    once = sum(shared for _, shared in positions)
    return _pass(batch * size, batch * matrices, batch * attention + once, batch * head)


def _pass(size: int, matrices: int, attention: int, head: int) -> Pass:
    total = matrices + attention + head
    return Pass(size, matrices, attention, head, total, round(total / size))


def _around(spec: ModelSpec, name: str, size: int) -> dict[str, int]:
    """The operations of the components between layers and embedding of `size` vectors, and behind layers."""
    stack = spec.stacks[name]
    squeeze, adapter = squeeze_of(stack), adapter_of(stack)
    if adapter is not None:
        return {f"{name}.length_adapter": _adapting(spec, f"{name}.length_adapter", adapter, size)}
    if squeeze is None:
        return {}
    upsampling = 2 * inside(stack, size) * _matrices(spec, f"{name}.upsampling")
    return {f"{name}.squeeze": squeeze.operations(size), f"{name}.upsampling": upsampling}


def _adapting(spec: ModelSpec, owner: str, adapter: LengthAdapterSpec, size: int) -> int:
    """The operations of a length adapter that reads `size` vectors."""
    work = 2 * size * (_matrices(spec, f"{owner}.before") + _matrices(spec, f"{owner}.project"))
    convolutions = 1 if adapter.block is None else 2
    for layer in range(adapter.num_layers):
        size = adapter.after(size)
        work += convolutions * 4 * size * adapter.hidden_size**2 * adapter.kernel
        work += 2 * size * _matrices(spec, f"{owner}.layers.{layer}")
        if adapter.block is not None:
            work += sum(of_row(adapter.block, size).values())
    return work


def _by_readout(spec: ModelSpec, name: str, size: int) -> dict[str, int]:
    """The operations of the components that read a stack of `size` tokens a row, by owner."""
    readouts = architecture_of(spec).readouts(spec, name)
    return {readout.owner: _read_out(spec, readout, size) for readout in readouts}


def _read_out(spec: ModelSpec, readout: Readout, size: int) -> int:
    """The operations of a component that reads `size` hidden states, or one of them."""
    if readout.apart:
        return 0
    if readout.pool is not None:
        return _by_pool(readout.pool, size)
    weights = _matrices(spec, readout.owner)
    if readout.tied is not None:
        weights += math.prod(parameters(spec)[readout.tied])
    return 2 * weights * (size // readout.joined if readout.every else 1) + readout.operations


def _by_pool(spec: AttentionPoolSpec, size: int) -> int:
    """The operations of the pool over `size` vectors: their keys and values, and then one query."""
    sizes = {name: math.prod(shape) for name, shape in attention_pool(spec).items() if len(shape) == 2}
    del sizes["probe.weight"]  # read without a product
    key_values = sum(weights for name, weights in sizes.items() if name.startswith("key_value."))
    mixed = 4 * spec.attention.num_heads * spec.attention.head_dim * size
    return 2 * (key_values * size + sum(sizes.values()) - key_values) + mixed


def _weights(spec: ModelSpec, stack: str) -> int:
    """The number of weights that each token of a stack is multiplied with."""
    return _matrices(spec, f"{stack}.layers") + _projections(spec, stack)


def _projections(spec: ModelSpec, stack: str) -> int:
    """The weights of projections of each token before and behind a stack's layers."""
    return sum(_matrices(spec, f"{stack}.{part}.project") for part in ("embedding", *AROUND))


def _matrices(spec: ModelSpec, owner: str) -> int:
    """The number of weights of all matrices under a name; for experts, the chosen ones."""
    return sum(size for name, size in _sizes(spec).items() if name.startswith(f"{owner}."))


@functools.lru_cache(maxsize=4)
def _sizes(spec: ModelSpec) -> dict[str, int]:
    """The number of weights of each matrix that a token is multiplied with."""
    return {
        name: math.prod(shape)
        for name, shape in parameters(spec).items()
        if len(shape) == 2 and active(spec, name) and not name.endswith(OTHERS)
    }
